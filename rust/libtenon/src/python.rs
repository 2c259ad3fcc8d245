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
//!     Framework::Numpy.array(py, vec![0f32; n], [n])
//! }
//! ```

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::{Index, IndexMut};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use pyo3::conversion::{FromPyObject, IntoPyObject};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::{Borrowed, Bound, PyAny, PyErr, PyResult, Python, ffi};
use tenon_sys as sys;

use crate::abi;
use crate::dtype::{Device, Dtype, Element};
use crate::error::Error;
use crate::kept::{self, Reading};
use crate::tensors::{Cells, View, ViewMut, has_elements};

mod overlaps;

use overlaps::Entry;

// ------------------------------------------------------------------------------------------------------------ arrays

/// A borrow of an object without a peek: it stays where it is until it ends.
struct Held(Box<MaybeUninit<sys::tenon_py_borrowed>>);

impl Held {
    fn view(&self) -> &abi::View {
        unsafe { &*(&raw const (*self.0.as_ptr()).view).cast::<abi::View>() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        unsafe { sys::tenon_py_unborrow(self.0.as_mut_ptr()) }
    }
}

/// What keeps a borrowed array alive. Dropped after the entry of the borrow.
#[allow(dead_code)] // it is only dropped
enum Owner<'py> {
    Object(Bound<'py, PyAny>),
    Held(Held),
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

const fn raw_dtype<T: Element>() -> sys::tenon_dtype {
    sys::tenon_dtype { code: T::DTYPE.code, bits: T::DTYPE.bits, lanes: T::DTYPE.lanes }
}

/// The memory of an array in C order that is read in place. None: it is another one, or empty.
#[inline(always)]
fn peek<T: Element, const D: usize>(
    object: Borrowed<'_, '_, PyAny>,
    flags: u32,
) -> Option<(*mut T, [usize; D])> {
    let mut shape = [0i64; D];
    let object = object.as_ptr().cast();
    let data = unsafe { sys::tenon_rs_peek(object, flags, raw_dtype::<T>(), D as i32, shape.as_mut_ptr()) };
    let shape = shape.map(|size| size as usize);
    let usable = !data.is_null() && data.cast::<T>().is_aligned() && shape.iter().all(|size| *size > 0);
    usable.then_some((data.cast(), shape))
}

#[inline(always)]
fn end_of<T, const D: usize>(data: *mut T, shape: &[usize; D]) -> usize {
    data as usize + shape.iter().product::<usize>() * size_of::<T>()
}

/// Borrows an array that is not read in place.
#[cold]
#[inline(never)]
fn hold<T: Element, const D: usize>(object: Borrowed<'_, '_, PyAny>, flags: u32) -> PyResult<Held> {
    let mut place = Box::new(MaybeUninit::<sys::tenon_py_borrowed>::uninit());
    if unsafe { sys::tenon_py_borrow(object.as_ptr().cast(), flags, place.as_mut_ptr()) } != 0 {
        return Err(PyErr::fetch(object.py()));
    }
    let held = Held(place);
    if fits::<T, D>(held.view()) { Ok(held) } else { Err(refuse::<T, D>(held.view())) }
}

/// An array of any framework that is only read, with D dimensions.
///
/// As with rust-numpy, Python code must not write to the array while it is borrowed, which the compiler cannot check: do not call
/// Python code that could, and do not release the interpreter lock, or take a [`Tensor`].
pub struct Array<'py, T, const D: usize> {
    view: View<'py, T, D>, // never given away with this lifetime: the borrow may end before
    _entry: Entry,
    _owner: Owner<'py>,
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
    #[inline(always)]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let Some((data, shape)) = peek::<T, D>(object, 0) else {
            return Self::extract_other(object);
        };
        let entry = overlaps::register(object.py(), data as usize, end_of(data, &shape))?;
        let view = unsafe { View::from_parts(data, shape) };
        Ok(Array { view, _entry: entry, _owner: Owner::Object(object.to_owned()) })
    }
}

impl<'py, T: Element, const D: usize> Array<'py, T, D> {
    #[cold]
    fn extract_other(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let held = hold::<T, D>(object, 0)?;
        let (start, end) = kept::extent(held.view());
        let entry = overlaps::register(object.py(), start, end)?;
        let view = unsafe { View::from_raw(held.view()) };
        Ok(Array { view, _entry: entry, _owner: Owner::Held(held) })
    }
}

/// An array of any framework that is written to, with D dimensions. It is refused if it overlaps another array that this extension
/// has borrowed, on any thread, or a [`Tensor`] whose elements were read.
pub struct ArrayMut<'py, T, const D: usize> {
    view: ViewMut<'py, T, D>, // as in Array
    _entry: Entry,
    _owner: Owner<'py>,
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
    #[inline(always)]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let Some((data, shape)) = peek::<T, D>(object, sys::TENON_PY_WRITE) else {
            return Self::extract_other(object);
        };
        let entry = overlaps::register_exclusive(object.py(), data as usize, end_of(data, &shape))?;
        let view = unsafe { ViewMut::from_parts(data, shape) };
        Ok(ArrayMut { view, _entry: entry, _owner: Owner::Object(object.to_owned()) })
    }
}

impl<'py, T: Element, const D: usize> ArrayMut<'py, T, D> {
    #[cold]
    fn extract_other(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let held = hold::<T, D>(object, sys::TENON_PY_WRITE)?;
        let (start, end) = kept::extent(held.view());
        let entry = overlaps::register_exclusive(object.py(), start, end)?;
        let view = unsafe { ViewMut::from_raw(held.view()) };
        Ok(ArrayMut { view, _entry: entry, _owner: Owner::Held(held) })
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

impl Framework {
    /// An array of the framework on the memory of a vector, which is not copied. JAX takes it only if it happens to be aligned to
    /// 64 bytes: see [`Tensor::copy_of`].
    ///
    /// ```no_run
    /// # use pyo3::prelude::*;
    /// # use tenon::python::Framework;
    /// #[pyfunction]
    /// fn squares(py: Python<'_>, n: usize) -> PyResult<Bound<'_, PyAny>> {
    ///     Framework::Numpy.array(py, (0..n).map(|i| (i * i) as f64).collect(), [n])
    /// }
    /// ```
    pub fn array<T: Element, const D: usize>(
        self,
        py: Python<'_>,
        elements: Vec<T>,
        shape: [usize; D],
    ) -> PyResult<Bound<'_, PyAny>> {
        let sizes = sizes_of(elements.len(), shape)?;
        let blob = blob_of(elements, &sizes);
        let object = unsafe { sys::tenon_rs_own(&blob, self as c_int) };
        unsafe { Bound::from_owned_ptr_or_err(py, object.cast::<ffi::PyObject>()) }
    }
}

fn sizes_of<const D: usize>(count: usize, shape: [usize; D]) -> Result<[i64; D], Error> {
    if has_elements(&shape, count) {
        return Ok(shape.map(|size| size as i64));
    }
    Err(Error::invalid(format!("the shape {shape:?} does not have {count} elements")))
}

unsafe extern "C" fn release_vec<T>(owner: *mut c_void) {
    drop(unsafe { Box::from_raw(owner.cast::<Vec<T>>()) });
}

/// The memory of a vector, which the blob owns from now on.
fn blob_of<T: Element>(mut elements: Vec<T>, sizes: &[i64]) -> sys::tenon_blob {
    let data = elements.as_mut_ptr().cast();
    sys::tenon_blob {
        data,
        byte_offset: 0,
        data_size: 0,
        dtype: raw_dtype::<T>(),
        device: sys::tenon_device { device_type: 1, device_id: 0 },
        ndim: sizes.len() as i32,
        shape: sizes.as_ptr(),
        strides: null(),
        flags: 0,
        owner: Box::into_raw(Box::new(elements)).cast(),
        release: Some(release_vec::<T>),
        stream: null_mut(),
    }
}

/// A share of the memory of any array, or memory of Rust. It may be sent to other threads, and released on any. As the result of a
/// function it becomes the object that it was made from.
pub struct Tensor {
    /// Since the elements were read for the first time: [`ArrayMut`] is refused the memory.
    reading: OnceLock<Reading>,
    tensor: *mut sys::tenon_tensor,
}

// The reference count is atomic, and a release never waits for the interpreter lock.
unsafe impl Send for Tensor {}
unsafe impl Sync for Tensor {}

impl Tensor {
    fn new(tensor: *mut sys::tenon_tensor) -> Tensor {
        Tensor { reading: OnceLock::new(), tensor }
    }

    fn import(object: Borrowed<'_, '_, PyAny>, flags: u32) -> PyResult<Tensor> {
        let tensor = unsafe { sys::tenon_py_import(object.as_ptr().cast(), flags) };
        if tensor.is_null() {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Tensor::new(tensor))
    }

    /// Takes elements in C order, without copying them. JAX takes them only if they happen to be aligned to 64 bytes: see
    /// [`copy_of`](Tensor::copy_of).
    pub fn from_vec<T: Element, const D: usize>(
        elements: Vec<T>,
        shape: [usize; D],
    ) -> Result<Tensor, Error> {
        let sizes = sizes_of(elements.len(), shape)?;
        let blob = blob_of(elements, &sizes);
        let mut tensor = null_mut();
        let status = unsafe { sys::tenon_tensor_from_blob(&blob, &mut tensor, null_mut()) };
        if status != abi::OK {
            unsafe { release_vec::<T>(blob.owner) };
            return Err(Error::new(status, "the tensor could not be made"));
        }
        Ok(Tensor::new(tensor))
    }

    /// Copies elements in C order into new memory, which is aligned to 64 bytes: JAX takes no other without a copy.
    pub fn copy_of<T: Element, const D: usize>(elements: &[T], shape: [usize; D]) -> Result<Tensor, Error> {
        let sizes = sizes_of(elements.len(), shape)?;
        let mut tensor = null_mut();
        let status = unsafe {
            sys::tenon_tensor_alloc(raw_dtype::<T>(), D as i32, sizes.as_ptr(), 0, &mut tensor, null_mut())
        };
        if status != abi::OK {
            return Err(Error::new(status, "the tensor could not be made"));
        }
        let tensor = Tensor::new(tensor);
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

    /// The distances between neighbours, in elements.
    pub fn strides(&self) -> &[i64] {
        match self.raw().ndim {
            0 => &[],
            n => unsafe { std::slice::from_raw_parts(self.raw().strides, n as usize) },
        }
    }

    /// The address of the first element, in the memory of its device.
    pub fn as_ptr(&self) -> *const c_void {
        self.raw().data
    }

    /// Copies of the elements, if the memory is the CPU's and has this dtype and number of dimensions. None as well if an
    /// [`ArrayMut`] of the memory is alive; after this call the memory cannot become one while the tensor lives.
    pub fn cells<T: Element, const D: usize>(&self) -> Option<Cells<'_, T, D>> {
        let view = self.raw();
        if !view.device.is_cpu() || !fits::<T, D>(view) {
            return None;
        }
        if self.reading.get().is_none() {
            let _ = self.reading.set(Reading::begin(view)?); // another thread may have been faster
        }
        Some(unsafe { Cells::from_raw(view) })
    }

    /// An array of a framework on the same memory.
    pub fn to<'py>(&self, py: Python<'py>, framework: Framework) -> PyResult<Bound<'py, PyAny>> {
        let object = unsafe { sys::tenon_py_export(self.tensor, framework as c_int) };
        unsafe { Bound::from_owned_ptr_or_err(py, object.cast::<ffi::PyObject>()) }
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        Tensor::new(unsafe { sys::tenon_tensor_retain(self.tensor) })
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        self.reading.take();
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
