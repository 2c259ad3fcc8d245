//! Tensors as parameters.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use crate::abi::{self, Device, Dtype};
use crate::call::{Failed, RawCall};
use crate::check::{Form, Type};
use crate::dtype::Element;
use crate::error::Result;
use crate::function::{Param, Place};
use crate::kept;

/// A pointer that may be made a slice: that of an empty tensor may be null.
#[inline(always)]
pub(crate) unsafe fn data_of<T>(view: &abi::View) -> *mut T {
    if view.numel == 0 { std::ptr::NonNull::dangling().as_ptr() } else { view.data.cast() }
}

#[inline(always)]
unsafe fn view_of<'x>(call: RawCall, place: Place) -> &'x abi::View {
    unsafe { &*(*call.value(place)).payload.view }
}

/// The message about a result that this crate cannot write.
pub(crate) const ON_A_DEVICE: &str = "is on a device, as an argument is; only an `AnyTensorMut` can be";

/// Refuses a result on a device: the host allocates results where the arguments are.
#[inline(always)]
pub(crate) fn refuse_device(call: RawCall, place: Place, view: &abi::View) -> Result<(), Failed> {
    if !place.result || view.device.is_cpu() { Ok(()) } else { Err(refuse_result(call, place)) }
}

#[cold]
fn refuse_result(call: RawCall, place: Place) -> Failed {
    call.fail(abi::EFAILED, &format!("{} {ON_A_DEVICE}", call.describe(place)))
}

#[inline(always)]
unsafe fn sizes<const D: usize>(view: &abi::View) -> ([usize; D], [isize; D]) {
    let (mut shape, mut strides) = ([0; D], [0; D]);
    for i in 0..D {
        unsafe {
            shape[i] = *view.shape.add(i) as usize;
            strides[i] = *view.strides.add(i) as isize;
        }
    }
    (shape, strides)
}

/// Whether a shape has this many elements, and no size that hosts cannot express.
pub(crate) fn has_elements(shape: &[usize], count: usize) -> bool {
    let product = shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    product == Some(count) && shape.iter().all(|size| i64::try_from(*size).is_ok())
}

/// The distances between neighbours in C order.
#[cfg(feature = "pyo3")]
#[inline(always)]
fn steps_of<const D: usize>(shape: &[usize; D]) -> [isize; D] {
    let mut strides = [1; D];
    for i in (1..D).rev() {
        strides[i - 1] = strides[i] * shape[i] as isize;
    }
    strides
}

pub(crate) fn is_contiguous<const D: usize>(shape: &[usize; D], strides: &[isize; D]) -> bool {
    let mut step = 1;
    for i in (0..D).rev() {
        if shape[i] > 1 && strides[i] != step {
            return false;
        }
        step *= shape[i] as isize;
    }
    true
}

/// The distance of an element, or None if an index is too large.
#[inline(always)]
pub(crate) fn offset_of<const D: usize>(
    shape: &[usize; D],
    strides: &[isize; D],
    index: [usize; D],
) -> Option<isize> {
    let mut offset = 0;
    for i in 0..D {
        if index[i] >= shape[i] {
            return None;
        }
        offset += index[i] as isize * strides[i];
    }
    Some(offset)
}

/// The indices of an array, the last one fastest.
#[derive(Clone)]
pub(crate) struct Indices<const D: usize> {
    shape: [usize; D],
    next: [usize; D],
    left: usize,
}

impl<const D: usize> Indices<D> {
    pub(crate) fn new(shape: [usize; D]) -> Indices<D> {
        Indices { shape, next: [0; D], left: shape.iter().product() }
    }
}

impl<const D: usize> Iterator for Indices<D> {
    type Item = [usize; D];

    #[inline]
    fn next(&mut self) -> Option<[usize; D]> {
        self.left = self.left.checked_sub(1)?;
        let index = self.next;
        for i in (0..D).rev() {
            self.next[i] += 1;
            if self.next[i] < self.shape[i] {
                break;
            }
            self.next[i] = 0;
        }
        Some(index)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

#[cold]
fn out_of_bounds(index: &[usize], shape: &[usize]) -> ! {
    panic!("index {index:?} is outside the shape {shape:?}")
}

// ------------------------------------------------------------------------------------------------------------- slices

unsafe impl<T: Element> Param for &[T] {
    const TYPE: Type = Type::tensor(Form::Slice, ["&[", T::NAME, "]"], T::DTYPE, T::LIST, -1);
    type Slot = ();
    type At<'x> = &'x [T];
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<&'x [T], Failed> {
        unsafe {
            let value = &*call.value(place);
            if T::LIST != 0 && value.kind != abi::kind::TENSOR {
                let list = value.payload.list;
                return Ok(if list.length == 0 {
                    &[]
                } else {
                    std::slice::from_raw_parts(list.data.cast(), list.length as usize)
                });
            }
            let view = &*value.payload.view;
            Ok(std::slice::from_raw_parts(data_of(view), view.numel as usize))
        }
    }
}

unsafe impl<T: Element> Param for &mut [T] {
    const TYPE: Type = Type::tensor(Form::SliceMut, ["&mut [", T::NAME, "]"], T::DTYPE, 0, -1);
    type Slot = ();
    type At<'x> = &'x mut [T];
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<&'x mut [T], Failed> {
        unsafe {
            let view = view_of(call, place);
            refuse_device(call, place, view)?;
            kept::refuse_overlap(call, place, view)?;
            let (data, length) = (data_of::<T>(view), view.numel as usize);
            if place.result {
                data.write_bytes(0, length);
            }
            Ok(std::slice::from_raw_parts_mut(data, length))
        }
    }
}

// -------------------------------------------------------------------------------------------------------------- views

/// A tensor with D dimensions and any strides, whose memory does not change during the call.
///
/// ```
/// #[tenon::module(private)]
/// mod kernels {
///     use tenon::View;
///     #[function("trace(x: f64[n, n]) -> float")]
///     fn trace(x: View<f64, 2>) -> f64 {
///         (0..x.shape()[0]).map(|i| x[[i, i]]).sum()
///     }
/// }
/// ```
#[derive(Clone, Copy)]
pub struct View<'a, T, const D: usize> {
    data: *const T,
    shape: [usize; D],
    strides: [isize; D],
    life: PhantomData<&'a [T]>,
}

// It is a shared reference.
unsafe impl<T: Element, const D: usize> Send for View<'_, T, D> {}
unsafe impl<T: Element, const D: usize> Sync for View<'_, T, D> {}

impl<'a, T: Element, const D: usize> View<'a, T, D> {
    #[inline(always)]
    pub(crate) unsafe fn from_raw(view: &abi::View) -> View<'a, T, D> {
        unsafe {
            let (shape, strides) = sizes(view);
            View { data: data_of(view), shape, strides, life: PhantomData }
        }
    }

    /// Elements in C order.
    #[cfg(feature = "pyo3")]
    #[inline(always)]
    pub(crate) unsafe fn from_parts(data: *const T, shape: [usize; D]) -> View<'a, T, D> {
        View { data, shape, strides: steps_of(&shape), life: PhantomData }
    }

    #[inline(always)]
    pub(crate) unsafe fn from_item(data: *const T, shape: [usize; D], strides: [isize; D]) -> View<'a, T, D> {
        let data = if shape.contains(&0) { std::ptr::NonNull::dangling().as_ptr() } else { data };
        View { data, shape, strides, life: PhantomData }
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> [usize; D] {
        self.shape
    }

    /// The distances between neighbours, in elements.
    pub fn strides(&self) -> [isize; D] {
        self.strides
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at these indices, or None if an index is too large.
    #[inline]
    pub fn get(&self, index: [usize; D]) -> Option<&'a T> {
        let offset = offset_of(&self.shape, &self.strides, index)?;
        Some(unsafe { &*self.data.offset(offset) })
    }

    /// All elements, if they are in C order without gaps.
    pub fn as_slice(&self) -> Option<&'a [T]> {
        is_contiguous(&self.shape, &self.strides)
            .then(|| unsafe { std::slice::from_raw_parts(self.data, self.len()) })
    }

    /// The elements, the last index fastest.
    pub fn iter(&self) -> impl Iterator<Item = &'a T> + use<'a, T, D> {
        let view = *self;
        Indices::new(self.shape).map(move |index| {
            let offset: isize = (0..D).map(|i| index[i] as isize * view.strides[i]).sum();
            unsafe { &*view.data.offset(offset) }
        })
    }

    /// A view of the crate ndarray. None if a stride is negative.
    #[cfg(feature = "ndarray")]
    pub fn as_ndarray(&self) -> Option<ndarray::ArrayViewD<'a, T>> {
        use ndarray::ShapeBuilder;
        let strides = self.strides.iter().map(|stride| usize::try_from(*stride).ok());
        let strides = strides.collect::<Option<Vec<usize>>>()?;
        let shape = self.shape.to_vec().strides(strides);
        Some(unsafe { ndarray::ArrayViewD::from_shape_ptr(shape, self.data) })
    }

    /// The address of the first element.
    pub fn as_ptr(&self) -> *const T {
        self.data
    }
}

impl<T: Element, const D: usize> Index<[usize; D]> for View<'_, T, D> {
    type Output = T;
    #[inline]
    fn index(&self, index: [usize; D]) -> &T {
        self.get(index).unwrap_or_else(|| out_of_bounds(&index, &self.shape))
    }
}

unsafe impl<T: Element, const D: usize> Param for View<'_, T, D> {
    const TYPE: Type = Type::tensor(Form::View, ["View<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type Slot = ();
    type At<'x> = View<'x, T, D>;
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<View<'x, T, D>, Failed> {
        unsafe { Ok(View::from_raw(view_of(call, place))) }
    }
}

/// An `rw` argument with D dimensions and any strides, which no other part of the call uses.
pub struct ViewMut<'a, T, const D: usize> {
    data: *mut T,
    shape: [usize; D],
    strides: [isize; D],
    life: PhantomData<&'a mut [T]>,
}

// It is an exclusive reference.
unsafe impl<T: Element, const D: usize> Send for ViewMut<'_, T, D> {}
unsafe impl<T: Element, const D: usize> Sync for ViewMut<'_, T, D> {}

impl<'a, T: Element, const D: usize> ViewMut<'a, T, D> {
    #[inline(always)]
    pub(crate) unsafe fn from_raw(view: &abi::View) -> ViewMut<'a, T, D> {
        unsafe {
            let (shape, strides) = sizes(view);
            ViewMut { data: data_of(view), shape, strides, life: PhantomData }
        }
    }

    /// Elements in C order.
    #[cfg(feature = "pyo3")]
    #[inline(always)]
    pub(crate) unsafe fn from_parts(data: *mut T, shape: [usize; D]) -> ViewMut<'a, T, D> {
        ViewMut { data, shape, strides: steps_of(&shape), life: PhantomData }
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> [usize; D] {
        self.shape
    }

    /// The distances between neighbours, in elements.
    pub fn strides(&self) -> [isize; D] {
        self.strides
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same elements for a shorter time.
    pub fn reborrow(&mut self) -> ViewMut<'_, T, D> {
        ViewMut { data: self.data, shape: self.shape, strides: self.strides, life: PhantomData }
    }

    /// The elements to read.
    pub fn view(&self) -> View<'_, T, D> {
        View { data: self.data, shape: self.shape, strides: self.strides, life: PhantomData }
    }

    /// The element at these indices, or None if an index is too large.
    #[inline]
    pub fn get_mut(&mut self, index: [usize; D]) -> Option<&mut T> {
        let offset = offset_of(&self.shape, &self.strides, index)?;
        Some(unsafe { &mut *self.data.offset(offset) })
    }

    /// All elements, if they are in C order without gaps.
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        is_contiguous(&self.shape, &self.strides)
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.data, self.len()) })
    }

    /// All elements for the rest of the call, if they are in C order without gaps.
    pub fn into_slice(self) -> Option<&'a mut [T]> {
        is_contiguous(&self.shape, &self.strides)
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.data, self.len()) })
    }

    /// The address of the first element.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.data
    }
}

impl<T: Element, const D: usize> Index<[usize; D]> for ViewMut<'_, T, D> {
    type Output = T;
    #[inline]
    fn index(&self, index: [usize; D]) -> &T {
        match offset_of(&self.shape, &self.strides, index) {
            Some(offset) => unsafe { &*self.data.offset(offset) },
            None => out_of_bounds(&index, &self.shape),
        }
    }
}

impl<T: Element, const D: usize> IndexMut<[usize; D]> for ViewMut<'_, T, D> {
    #[inline]
    fn index_mut(&mut self, index: [usize; D]) -> &mut T {
        let shape = self.shape;
        self.get_mut(index).unwrap_or_else(|| out_of_bounds(&index, &shape))
    }
}

unsafe impl<T: Element, const D: usize> Param for ViewMut<'_, T, D> {
    const TYPE: Type = Type::tensor(Form::ViewMut, ["ViewMut<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type Slot = ();
    type At<'x> = ViewMut<'x, T, D>;
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<ViewMut<'x, T, D>, Failed> {
        unsafe {
            let view = view_of(call, place);
            kept::refuse_overlap(call, place, view)?;
            Ok(ViewMut::from_raw(view))
        }
    }
}

// -------------------------------------------------------------------------------------------------------------- cells

/// A tensor whose elements are copied out one by one: other tensors of the call may share its memory (`alias`, `inplace`), and so
/// may arrays of the caller after the call ([`Kept`](crate::Kept)).
#[derive(Clone, Copy)]
pub struct Cells<'a, T, const D: usize> {
    data: *const T,
    shape: [usize; D],
    strides: [isize; D],
    life: PhantomData<&'a T>,
}

impl<'a, T: Element, const D: usize> Cells<'a, T, D> {
    #[inline(always)]
    pub(crate) unsafe fn from_raw(view: &abi::View) -> Cells<'a, T, D> {
        unsafe {
            let (shape, strides) = sizes(view);
            Cells { data: data_of(view), shape, strides, life: PhantomData }
        }
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> [usize; D] {
        self.shape
    }

    /// The distances between neighbours, in elements.
    pub fn strides(&self) -> [isize; D] {
        self.strides
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of the element at these indices, or None if an index is too large.
    #[inline]
    pub fn get(&self, index: [usize; D]) -> Option<T> {
        let offset = offset_of(&self.shape, &self.strides, index)?;
        Some(unsafe { self.data.offset(offset).read() })
    }

    /// A copy of the element at these indices. Panics if an index is too large.
    #[inline]
    pub fn at(&self, index: [usize; D]) -> T {
        self.get(index).unwrap_or_else(|| out_of_bounds(&index, &self.shape))
    }

    /// Copies of the elements, the last index fastest.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T, D> {
        let cells = *self;
        Indices::new(self.shape).map(move |index| {
            let offset: isize = (0..D).map(|i| index[i] as isize * cells.strides[i]).sum();
            unsafe { cells.data.offset(offset).read() }
        })
    }

    /// Copies the elements, the last index fastest.
    pub fn to_vec(&self) -> Vec<T> {
        if !is_contiguous(&self.shape, &self.strides) {
            return self.iter().collect();
        }
        let mut out = Vec::with_capacity(self.len());
        unsafe {
            self.data.copy_to(out.as_mut_ptr(), self.len());
            out.set_len(self.len());
        }
        out
    }

    /// Copies as many elements as `out` has, from this position in C order. The memory must have no gaps.
    ///
    /// # Panics
    /// If there are fewer elements, or if they are not in C order.
    pub fn read(&self, start: usize, out: &mut [T]) {
        assert!(is_contiguous(&self.shape, &self.strides), "the elements are not in C order");
        let end = start.checked_add(out.len()).filter(|end| *end <= self.len());
        assert!(
            end.is_some(),
            "{} elements from {start} on are outside the {} elements",
            out.len(),
            self.len()
        );
        unsafe { self.data.add(start).copy_to(out.as_mut_ptr(), out.len()) }
    }

    /// The address of the first element.
    pub fn as_ptr(&self) -> *const T {
        self.data
    }
}

unsafe impl<T: Element, const D: usize> Param for Cells<'_, T, D> {
    const TYPE: Type = Type::tensor(Form::Cells, ["Cells<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type Slot = ();
    type At<'x> = Cells<'x, T, D>;
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<Cells<'x, T, D>, Failed> {
        unsafe { Ok(Cells::from_raw(view_of(call, place))) }
    }
}

/// A tensor whose elements are copied in and out one by one: an `rw` argument, or a result, that may share memory with other
/// tensors of the call (`alias`, `inplace`).
#[derive(Clone, Copy)]
pub struct CellsMut<'a, T, const D: usize> {
    cells: Cells<'a, T, D>,
}

impl<'a, T: Element, const D: usize> CellsMut<'a, T, D> {
    /// Writes the element at these indices. Panics if an index is too large.
    #[inline]
    pub fn set(&self, index: [usize; D], value: T) {
        match offset_of(&self.cells.shape, &self.cells.strides, index) {
            Some(offset) => unsafe { self.cells.data.cast_mut().offset(offset).write(value) },
            None => out_of_bounds(&index, &self.cells.shape),
        }
    }
}

impl<'a, T: Element, const D: usize> std::ops::Deref for CellsMut<'a, T, D> {
    type Target = Cells<'a, T, D>;
    fn deref(&self) -> &Cells<'a, T, D> {
        &self.cells
    }
}

unsafe impl<T: Element, const D: usize> Param for CellsMut<'_, T, D> {
    const TYPE: Type = Type::tensor(Form::CellsMut, ["CellsMut<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type Slot = ();
    type At<'x> = CellsMut<'x, T, D>;
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<CellsMut<'x, T, D>, Failed> {
        unsafe {
            let view = view_of(call, place);
            refuse_device(call, place, view)?;
            kept::refuse_constant(call, place, view)?;
            if place.result && !shares_memory(call, view) {
                data_of::<T>(view).write_bytes(0, view.numel as usize);
            }
            Ok(CellsMut { cells: Cells::from_raw(view) })
        }
    }
}

/// Whether a result may share memory with a tensor argument.
unsafe fn shares_memory(call: RawCall, result: &abi::View) -> bool {
    let it = call.get();
    let (start, end) = kept::extent(result);
    let overlaps = |view: &abi::View| {
        let (first, last) = kept::extent(view);
        first < end && start < last
    };
    (0..it.nargs as usize).any(|index| unsafe {
        match (*call.arg(index)).kind {
            abi::kind::TENSOR => overlaps(&*(*call.arg(index)).payload.view),
            abi::kind::TENSORS => list_of(&*call.arg(index)).iter().any(overlaps),
            _ => false,
        }
    })
}

// ------------------------------------------------------------------------------------------- any dtype, on any device

/// A tensor of any dtype, with any number of dimensions, on any device: a pointer with a description. It is the only type for
/// tensors that may be on a device, or whose dtype is known only at run time.
#[derive(Clone, Copy)]
pub struct AnyTensor<'a> {
    view: &'a abi::View,
}

impl<'a> AnyTensor<'a> {
    #[cfg(feature = "host")]
    pub(crate) fn from_raw(view: &'a abi::View) -> AnyTensor<'a> {
        AnyTensor { view }
    }

    /// The address of the first element, in the memory of [`device`](AnyTensor::device).
    pub fn as_ptr(&self) -> *const c_void {
        self.view.data
    }

    /// The dtype.
    pub fn dtype(&self) -> Dtype {
        self.view.dtype
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.view.device
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> &'a [i64] {
        match self.view.ndim {
            0 => &[],
            n => unsafe { std::slice::from_raw_parts(self.view.shape, n as usize) },
        }
    }

    /// The distances between neighbours, in elements.
    pub fn strides(&self) -> &'a [i64] {
        match self.view.ndim {
            0 => &[],
            n => unsafe { std::slice::from_raw_parts(self.view.strides, n as usize) },
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.view.numel as usize
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.view.numel == 0
    }

    /// Copies of the elements, if the memory is the CPU's and has this dtype and number of dimensions.
    pub fn cells<T: Element, const D: usize>(&self) -> Option<Cells<'a, T, D>> {
        let aligned = self.view.numel == 0 || self.view.data.cast::<T>().is_aligned();
        let fits = self.view.dtype == T::DTYPE && self.view.ndim as usize == D && self.view.device.is_cpu();
        (fits && aligned).then(|| unsafe { Cells::from_raw(self.view) })
    }

    /// The view itself.
    pub fn raw(&self) -> &'a abi::View {
        self.view
    }
}

unsafe impl Param for AnyTensor<'_> {
    const TYPE: Type = Type::plain(Form::Any, "AnyTensor");
    type Slot = ();
    type At<'x> = AnyTensor<'x>;
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<AnyTensor<'x>, Failed> {
        unsafe { Ok(AnyTensor { view: view_of(call, place) }) }
    }
}

/// An [`AnyTensor`] that is written to: an `rw` argument, or a result.
#[derive(Clone, Copy)]
pub struct AnyTensorMut<'a> {
    tensor: AnyTensor<'a>,
}

impl<'a> AnyTensorMut<'a> {
    /// The address of the first element, in the memory of [`device`](AnyTensor::device).
    pub fn as_mut_ptr(&self) -> *mut c_void {
        self.tensor.view.data
    }
}

impl<'a> std::ops::Deref for AnyTensorMut<'a> {
    type Target = AnyTensor<'a>;
    fn deref(&self) -> &AnyTensor<'a> {
        &self.tensor
    }
}

unsafe impl Param for AnyTensorMut<'_> {
    const TYPE: Type = Type::plain(Form::AnyMut, "AnyTensorMut");
    type Slot = ();
    type At<'x> = AnyTensorMut<'x>;
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<AnyTensorMut<'x>, Failed> {
        unsafe {
            let view = view_of(call, place);
            // A result that the safe methods could read must have been written.
            if place.result && view.device.is_cpu() && !shares_memory(call, view) {
                let bits = u64::from(view.dtype.bits) * u64::from(view.dtype.lanes) * view.numel as u64;
                data_of::<u8>(view).write_bytes(0, bits.div_ceil(8) as usize);
            }
            Ok(AnyTensorMut { tensor: AnyTensor { view } })
        }
    }
}

// -------------------------------------------------------------------------------------------------------------- lists

/// A list of tensors that are only read.
#[derive(Clone, Copy)]
pub struct List<'a, T, const D: usize> {
    items: &'a [abi::View],
    life: PhantomData<&'a [T]>,
}

unsafe fn list_of<'x>(value: &abi::Value) -> &'x [abi::View] {
    let list = unsafe { value.payload.list };
    if list.length == 0 || list.data.is_null() {
        return &[];
    }
    unsafe { std::slice::from_raw_parts(list.data.cast(), list.length as usize) }
}

impl<'a, T: Element, const D: usize> List<'a, T, D> {
    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// One of the tensors, or None.
    pub fn get(&self, index: usize) -> Option<View<'a, T, D>> {
        self.items.get(index).map(|view| unsafe { View::from_raw(view) })
    }

    /// The tensors.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = View<'a, T, D>> + use<'a, T, D> {
        self.items.iter().map(|view| unsafe { View::from_raw(view) })
    }
}

unsafe impl<T: Element, const D: usize> Param for List<'_, T, D> {
    const TYPE: Type = Type::tensor(Form::List, ["List<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type Slot = ();
    type At<'x> = List<'x, T, D>;
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<List<'x, T, D>, Failed> {
        Ok(List { items: unsafe { list_of(&*call.value(place)) }, life: PhantomData })
    }
}

/// A list of tensors that are written to (`rw` inside the brackets). The host has checked that no two of them overlap.
pub struct ListMut<'a, T, const D: usize> {
    items: &'a [abi::View],
    life: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element, const D: usize> ListMut<'a, T, D> {
    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// One of the tensors, or None.
    pub fn get_mut(&mut self, index: usize) -> Option<ViewMut<'_, T, D>> {
        self.items.get(index).map(|view| unsafe { ViewMut::from_raw(view) })
    }

    /// The tensors.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = ViewMut<'_, T, D>> {
        self.items.iter().map(|view| unsafe { ViewMut::from_raw(view) })
    }
}

unsafe impl<T: Element, const D: usize> Param for ListMut<'_, T, D> {
    const TYPE: Type = Type::tensor(Form::ListMut, ["ListMut<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type Slot = ();
    type At<'x> = ListMut<'x, T, D>;
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<ListMut<'x, T, D>, Failed> {
        let items = unsafe { list_of(&*call.value(place)) };
        for view in items {
            kept::refuse_overlap(call, place, view)?;
        }
        Ok(ListMut { items, life: PhantomData })
    }
}

/// The results of a list "for xs", one for each item, in C order. They begin with zeros.
pub struct OutList<'a, T> {
    items: &'a [abi::View],
    life: PhantomData<&'a mut [T]>,
}

impl<T: Element> OutList<'_, T> {
    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The elements of one of the tensors, or None.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut [T]> {
        let view = self.items.get(index)?;
        Some(unsafe { std::slice::from_raw_parts_mut(data_of(view), view.numel as usize) })
    }

    /// The elements of each tensor.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [T]> {
        let slice =
            |view: &abi::View| unsafe { std::slice::from_raw_parts_mut(data_of(view), view.numel as usize) };
        self.items.iter().map(slice)
    }
}

unsafe impl<T: Element> Param for OutList<'_, T> {
    const TYPE: Type = Type::tensor(Form::OutList, ["OutList<", T::NAME, ">"], T::DTYPE, 0, -1);
    type Slot = ();
    type At<'x> = OutList<'x, T>;
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<OutList<'x, T>, Failed> {
        let items = unsafe { list_of(&*call.value(place)) };
        for view in items {
            refuse_device(call, place, view)?;
            kept::refuse_overlap(call, place, view)?;
            unsafe { data_of::<T>(view).write_bytes(0, view.numel as usize) };
        }
        Ok(OutList { items, life: PhantomData })
    }
}
