//! The feature `pyo3`: arrays of every framework as arguments and results of functions in an extension made with PyO3.
//!
//! ```no_run
//! use pyo3::prelude::*;
//! use tenon::python::{Array, ArrayMut, Framework, Tensor};
//!
//! #[pyfunction]
//! fn dot(x: Array<'_, f32, 1>, y: Array<'_, f32, 1>) -> f64 {
//!     x.iter().zip(y.iter()).map(|(x, y)| f64::from(x * y)).sum()
//! }
//!
//! #[pyfunction]
//! fn scale(mut x: ArrayMut<'_, f32, 1>, by: f32) {
//!     (0..x.len()).for_each(|i| x[[i]] *= by);
//! }
//!
//! /// The same Python object comes back.
//! #[pyfunction]
//! fn same(t: Tensor) -> Tensor {
//!     t
//! }
//!
//! #[pyfunction]
//! fn zeros(py: Python<'_>, n: usize) -> PyResult<Bound<'_, PyAny>> {
//!     Tensor::from_vec(vec![0f32; n], [n])?.to(py, Framework::Numpy)
//! }
//! ```

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Index, IndexMut};
use std::ptr::{null, null_mut};

use pyo3::conversion::{FromPyObject, IntoPyObject};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::{Borrowed, Bound, PyAny, PyErr, PyResult, Python, ffi};
use tenon_sys as sys;

use crate::abi;
use crate::dtype::{Device, Dtype, Element};
use crate::error::Error;
use crate::kept;
use crate::tensors::{Cells, View, ViewMut};

// ----------------------------------------------------------------------------------------------- overlapping borrows

/// Memory that is borrowed on this thread.
#[derive(Clone, Copy)]
struct Range {
    start: usize,
    end: usize,
    /// A number, and in its lowest bit whether the borrow is exclusive.
    tag: usize,
}

const MOST: usize = 64;

/// The borrows of a thread. It has nothing to drop, so that finding it takes one instruction.
struct Active {
    count: Cell<usize>,
    next: Cell<usize>,
    ranges: [Cell<Range>; MOST],
}

thread_local! {
    static ACTIVE: Active = const {
        Active { count: Cell::new(0), next: Cell::new(0), ranges: [const { Cell::new(Range { start: 0, end: 0, tag: 0 }) }; MOST] }
    };
}

/// A borrow that is alive. It stays on its thread.
struct Entry {
    active: *const Active,
    tag: usize,
}

/// Notes a borrow.
#[inline]
fn register(view: &abi::View, exclusive: bool) -> PyResult<Entry> {
    let (start, end) = if view.flags & abi::view_flag::C != 0 {
        let size = usize::from(view.dtype.bits) / 8 * view.numel as usize;
        (view.data as usize, view.data as usize + size)
    } else {
        kept::extent(view)
    };
    ACTIVE.with(|active| {
        let count = active.count.get();
        for other in &active.ranges[..count] {
            let other = other.get();
            if other.start < end && start < other.end && (exclusive || other.tag & 1 != 0) {
                return Err(overlap());
            }
        }
        let Some(range) = active.ranges.get(count) else {
            return Err(PyValueError::new_err(
                "more than 64 arrays are borrowed on this thread; take a Tensor",
            ));
        };
        let tag = active.next.get().wrapping_add(2) | usize::from(exclusive);
        range.set(Range { start, end, tag });
        active.next.set(tag & !1);
        active.count.set(count + 1);
        Ok(Entry { active, tag })
    })
}

impl Drop for Entry {
    #[inline]
    fn drop(&mut self) {
        // The thread lives, because the entry does not leave it.
        let active = unsafe { &*self.active };
        let last = active.count.get() - 1;
        let found = active.ranges[..=last].iter().rposition(|range| range.get().tag == self.tag);
        if let Some(at) = found {
            active.ranges[at].set(active.ranges[last].get());
            active.count.set(last);
        }
    }
}

// ------------------------------------------------------------------------------------------------------------ arrays

/// What keeps a borrowed array alive.
enum Owner<'py> {
    /// The object alone.
    Object(#[allow(dead_code)] Bound<'py, PyAny>),
    /// A share of its memory.
    Tensor(#[allow(dead_code)] Tensor),
}

/// A borrow, and what keeps its memory alive; dropped in this order.
struct Loan<'py> {
    _entry: Entry,
    _owner: Owner<'py>,
}

#[cold]
fn refuse<T: Element, const D: usize>(view: &abi::View) -> PyErr {
    let shape = unsafe {
        std::slice::from_raw_parts(view.shape, if view.shape.is_null() { 0 } else { view.ndim as usize })
    };
    if view.dtype != T::DTYPE {
        return PyTypeError::new_err(format!("expected an array of {}, got one of {}", T::DTYPE, view.dtype));
    }
    if view.ndim as usize != D {
        return PyValueError::new_err(format!(
            "expected an array with {D} dimensions, got the shape {shape:?}"
        ));
    }
    PyValueError::new_err("the memory of the array is not aligned; pass a copy")
}

#[inline]
fn fits<T: Element, const D: usize>(view: &abi::View) -> bool {
    let aligned = view.numel == 0 || view.data.cast::<T>().is_aligned();
    view.dtype == T::DTYPE && view.ndim as usize == D && aligned
}

/// Borrows an array, and gives its view to `make` while it is valid.
#[inline]
fn borrow<'py, T: Element, const D: usize, A>(
    object: Borrowed<'_, 'py, PyAny>,
    exclusive: bool,
    make: impl FnOnce(&abi::View) -> A,
) -> PyResult<(A, Loan<'py>)> {
    let mut place = MaybeUninit::<sys::tenon_py_borrowed>::uninit();
    let flags = if exclusive { sys::TENON_PY_WRITE } else { 0 };
    if unsafe { sys::tenon_py_borrow(object.as_ptr().cast(), flags, place.as_mut_ptr()) } != 0 {
        return Err(PyErr::fetch(object.py()));
    }
    // A borrow that holds only the object is a copy of its view, which may be moved.
    let borrowed = unsafe { &mut *place.as_mut_ptr() };
    let view = unsafe { &*(&raw const borrowed.view).cast::<abi::View>() };
    if borrowed.holds != 0 {
        unsafe { sys::tenon_py_unborrow(borrowed) };
        return borrow_share::<T, D, A>(object, exclusive, make);
    }
    let made = if !fits::<T, D>(view) {
        Err(refuse::<T, D>(view))
    } else {
        register(view, exclusive).map(|entry| (make(view), entry))
    };
    let owner = Owner::Object(object.to_owned());
    unsafe { sys::tenon_py_unborrow(borrowed) };
    made.map(|(made, entry)| (made, Loan { _entry: entry, _owner: owner }))
}

#[cold]
fn overlap() -> PyErr {
    PyValueError::new_err(
        "the memory of the array overlaps another array of the call, and one of them is written to",
    )
}

/// The same with a share of the memory: for objects that only have the buffer protocol or `__dlpack__`.
#[cold]
fn borrow_share<'py, T: Element, const D: usize, A>(
    object: Borrowed<'_, 'py, PyAny>,
    exclusive: bool,
    make: impl FnOnce(&abi::View) -> A,
) -> PyResult<(A, Loan<'py>)> {
    let flags = if exclusive { sys::TENON_PY_WRITE } else { 0 };
    let tensor = Tensor::import(object, flags)?;
    let view = tensor.raw();
    if !fits::<T, D>(view) {
        return Err(refuse::<T, D>(view));
    }
    let entry = register(view, exclusive)?;
    let made = make(view);
    Ok((made, Loan { _entry: entry, _owner: Owner::Tensor(tensor) }))
}

/// An array of any framework that is only read, with D dimensions.
///
/// As with rust-numpy, Python code must not write to the array while it is borrowed, which the compiler cannot check: do not call
/// Python code that could, and do not release the interpreter lock, or take a [`Tensor`].
pub struct Array<'py, T, const D: usize> {
    view: View<'py, T, D>, // never given away with this lifetime: the loan may end before
    _loan: Loan<'py>,
}

impl<T: Element, const D: usize> Array<'_, T, D> {
    /// The elements.
    #[inline]
    pub fn view(&self) -> View<'_, T, D> {
        self.view
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> [usize; D] {
        self.view.shape()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// All elements, if they are in C order without gaps.
    #[inline]
    pub fn as_slice(&self) -> Option<&[T]> {
        self.view().as_slice()
    }

    /// The elements, the last index fastest.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.view().iter()
    }
}

impl<T: Element, const D: usize> Index<[usize; D]> for Array<'_, T, D> {
    type Output = T;
    #[inline]
    fn index(&self, index: [usize; D]) -> &T {
        &self.view[index]
    }
}

impl<'py, T: Element, const D: usize> FromPyObject<'_, 'py> for Array<'py, T, D> {
    type Error = PyErr;
    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (view, loan) = borrow::<T, D, _>(object, false, |view| unsafe { View::from_raw(view) })?;
        Ok(Array { view, _loan: loan })
    }
}

/// An array of any framework that is written to, with D dimensions. It is refused if it overlaps another array that is borrowed on
/// this thread.
pub struct ArrayMut<'py, T, const D: usize> {
    view: ViewMut<'py, T, D>, // as in Array
    _loan: Loan<'py>,
}

impl<T: Element, const D: usize> ArrayMut<'_, T, D> {
    /// The elements to read.
    pub fn view(&self) -> View<'_, T, D> {
        self.view.view()
    }

    /// The elements.
    #[inline]
    pub fn view_mut(&mut self) -> ViewMut<'_, T, D> {
        self.view.reborrow()
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> [usize; D] {
        self.view.shape()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// All elements, if they are in C order without gaps.
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        self.view.as_mut_slice()
    }
}

impl<T: Element, const D: usize> Index<[usize; D]> for ArrayMut<'_, T, D> {
    type Output = T;
    #[inline]
    fn index(&self, index: [usize; D]) -> &T {
        &self.view[index]
    }
}

impl<T: Element, const D: usize> IndexMut<[usize; D]> for ArrayMut<'_, T, D> {
    #[inline]
    fn index_mut(&mut self, index: [usize; D]) -> &mut T {
        &mut self.view[index]
    }
}

impl<'py, T: Element, const D: usize> FromPyObject<'_, 'py> for ArrayMut<'py, T, D> {
    type Error = PyErr;
    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (view, loan) = borrow::<T, D, _>(object, true, |view| unsafe { ViewMut::from_raw(view) })?;
        Ok(ArrayMut { view, _loan: loan })
    }
}

// ------------------------------------------------------------------------------------------------------------ tensors

/// The framework of a new array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Framework {
    /// `tenon.Tensor`, which every framework takes.
    Tensor = 0,
    /// The object that the tensor was made from.
    Same = 1,
    Numpy = 2,
    Torch = 3,
    Jax = 4,
    Cupy = 5,
    Tensorflow = 6,
}

/// A share of the memory of any array, or memory of Rust. It may be sent to other threads, and released on any. As the result of a
/// function it becomes the object that it was made from.
pub struct Tensor {
    tensor: *mut sys::tenon_tensor,
    life: PhantomData<sys::tenon_view>,
}

// The reference count is atomic, and a release never waits for the interpreter lock.
unsafe impl Send for Tensor {}
unsafe impl Sync for Tensor {}

impl Tensor {
    fn import(object: Borrowed<'_, '_, PyAny>, flags: u32) -> PyResult<Tensor> {
        let tensor = unsafe { sys::tenon_py_import(object.as_ptr().cast(), flags) };
        if tensor.is_null() {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Tensor { tensor, life: PhantomData })
    }

    /// Takes elements in C order, without copying them. JAX takes them only if they happen to be aligned to 64 bytes: see
    /// [`copy_of`](Tensor::copy_of).
    pub fn from_vec<T: Element, const D: usize>(
        mut elements: Vec<T>,
        shape: [usize; D],
    ) -> Result<Tensor, Error> {
        unsafe extern "C" fn release<T>(owner: *mut c_void) {
            drop(unsafe { Box::from_raw(owner.cast::<Vec<T>>()) });
        }
        if shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size)) != Some(elements.len()) {
            let message = format!("the shape {shape:?} does not have {} elements", elements.len());
            return Err(Error::invalid(message));
        }
        let sizes = shape.map(|size| size as i64);
        let data = elements.as_mut_ptr().cast();
        let owner = Box::into_raw(Box::new(elements)).cast();
        let Dtype { code, bits, lanes } = T::DTYPE;
        let blob = sys::tenon_blob {
            data,
            byte_offset: 0,
            data_size: 0,
            dtype: sys::tenon_dtype { code, bits, lanes },
            device: sys::tenon_device { device_type: 1, device_id: 0 },
            ndim: D as i32,
            shape: sizes.as_ptr(),
            strides: null(),
            flags: 0,
            owner,
            release: Some(release::<T>),
            stream: null_mut(),
        };
        let mut tensor = null_mut();
        let status = unsafe { sys::tenon_tensor_from_blob(&blob, &mut tensor, null_mut()) };
        if status != abi::OK {
            unsafe { release::<T>(owner) };
            return Err(Error::new(status, "the tensor could not be made"));
        }
        Ok(Tensor { tensor, life: PhantomData })
    }

    /// Copies elements in C order into new memory, which is aligned to 64 bytes: JAX takes no other without a copy.
    pub fn copy_of<T: Element, const D: usize>(elements: &[T], shape: [usize; D]) -> Result<Tensor, Error> {
        if shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size)) != Some(elements.len()) {
            let message = format!("the shape {shape:?} does not have {} elements", elements.len());
            return Err(Error::invalid(message));
        }
        let sizes = shape.map(|size| size as i64);
        let Dtype { code, bits, lanes } = T::DTYPE;
        let dtype = sys::tenon_dtype { code, bits, lanes };
        let mut tensor = null_mut();
        let status =
            unsafe { sys::tenon_tensor_alloc(dtype, D as i32, sizes.as_ptr(), 0, &mut tensor, null_mut()) };
        if status != abi::OK {
            return Err(Error::new(status, "the tensor could not be made"));
        }
        let tensor = Tensor { tensor, life: PhantomData };
        unsafe { elements.as_ptr().copy_to_nonoverlapping(tensor.raw().data.cast(), elements.len()) };
        Ok(tensor)
    }

    pub(crate) fn raw(&self) -> &abi::View {
        unsafe { &*sys::tenon_tensor_view(self.tensor).cast() }
    }

    /// The dtype.
    pub fn dtype(&self) -> Dtype {
        self.raw().dtype
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.raw().device
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> &[i64] {
        match self.raw().ndim {
            0 => &[],
            n => unsafe { std::slice::from_raw_parts(self.raw().shape, n as usize) },
        }
    }

    /// The address of the first element, in the memory of its device.
    pub fn as_ptr(&self) -> *const c_void {
        self.raw().data
    }

    /// Copies of the elements, if the memory is the CPU's and has this dtype and number of dimensions.
    pub fn cells<T: Element, const D: usize>(&self) -> Option<Cells<'_, T, D>> {
        let view = self.raw();
        (view.device.is_cpu() && fits::<T, D>(view)).then(|| unsafe { Cells::from_raw(view) })
    }

    /// An array of a framework on the same memory.
    pub fn to<'py>(&self, py: Python<'py>, framework: Framework) -> PyResult<Bound<'py, PyAny>> {
        let object = unsafe { sys::tenon_py_export(self.tensor, framework as c_int) };
        unsafe { Bound::from_owned_ptr_or_err(py, object.cast::<ffi::PyObject>()) }
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        Tensor { tensor: unsafe { sys::tenon_tensor_retain(self.tensor) }, life: PhantomData }
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        unsafe { sys::tenon_tensor_release(self.tensor) }
    }
}

impl<'py> FromPyObject<'_, 'py> for Tensor {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Tensor> {
        Tensor::import(object, sys::TENON_PY_ANY_DEVICE)
    }
}

impl<'py> IntoPyObject<'py> for Tensor {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to(py, Framework::Same)
    }
}

/// An error of a Tenon function as the exception that it becomes in Python.
impl From<Error> for PyErr {
    fn from(error: Error) -> PyErr {
        use pyo3::exceptions::{PyIndexError, PyMemoryError, PyOverflowError, PyRuntimeError};
        let message = error.to_string();
        match error.status() {
            abi::EINVAL | abi::EOVERLAP => PyValueError::new_err(message),
            abi::EBOUNDS => PyIndexError::new_err(message),
            abi::EOVERFLOW => PyOverflowError::new_err(message),
            abi::EDTYPE => PyTypeError::new_err(message),
            abi::ENOMEM => PyMemoryError::new_err(message),
            _ => PyRuntimeError::new_err(message),
        }
    }
}
