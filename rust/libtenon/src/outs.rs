//! Results that the function writes: `Out`, `Open` and `OpenList`.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::abi::{self, Dtype};
use crate::call::{Call, Failed, RawCall};
use crate::check::{Form, Type};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::function::{Param, Place};
use crate::kept;
use crate::tensors::{ON_A_DEVICE, data_of, refuse_device};

/// How much of a result has been written. The function cannot change it but by writing.
#[doc(hidden)]
#[derive(Default)]
pub struct Written {
    filled: Cell<usize>,
    length: Cell<usize>,
}

impl Written {
    pub(crate) fn begin(&self, length: usize) {
        self.length.set(length);
    }

    pub(crate) fn fill(&self) {
        self.filled.set(self.length.get());
    }
}

/// A result that the host has allocated, in C order, and not filled: it is written from the first element to the last. The call
/// fails if the function does not fill it.
///
/// ```
/// #[tenon::module(private)]
/// mod kernels {
///     use tenon::Out;
///     #[function("minmax(x: f32[n] c) -> f32[2]")]
///     fn minmax(x: &[f32], mut z: Out<f32>) {
///         z.push(x.iter().copied().fold(f32::INFINITY, f32::min));
///         z.push(x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
///     }
/// }
/// ```
pub struct Out<'a, T> {
    data: *mut T,
    shape: &'a [i64],
    written: &'a Written,
    call: RawCall,
    place: Place,
    view: *const abi::View,
    life: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element> Out<'a, T> {
    #[inline(always)]
    unsafe fn new(call: RawCall, place: Place, view: &'a abi::View, written: &'a Written) -> Out<'a, T> {
        written.begin(view.numel as usize);
        let shape = match view.ndim {
            0 => &[][..],
            n => unsafe { std::slice::from_raw_parts(view.shape.cast_const(), n as usize) },
        };
        Out { data: unsafe { data_of(view) }, shape, written, call, place, view, life: PhantomData }
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.written.length.get()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> &'a [i64] {
        self.shape
    }

    /// How many elements have been written.
    pub fn filled(&self) -> usize {
        self.written.filled.get()
    }

    /// Writes the next element.
    ///
    /// # Panics
    /// If the result is full.
    #[inline]
    pub fn push(&mut self, value: T) {
        let at = self.filled();
        assert!(at < self.len(), "the result has only {at} elements");
        unsafe { self.data.add(at).write(value) };
        self.written.filled.set(at + 1);
    }

    /// Writes the elements of an iterator, until it ends or the result is full.
    #[inline]
    pub fn write_all(&mut self, values: impl IntoIterator<Item = T>) {
        let (start, end) = (self.filled(), self.len());
        let mut at = start;
        for (slot, value) in (start..end).zip(values) {
            unsafe { self.data.add(slot).write(value) };
            at = slot + 1;
        }
        self.written.filled.set(at);
    }

    /// Writes the elements of a slice.
    ///
    /// # Panics
    /// If fewer elements are left.
    #[inline]
    pub fn write_slice(&mut self, values: &[T]) {
        let at = self.filled();
        assert!(values.len() <= self.len() - at, "the result has only {} elements", self.len());
        // The slice may be a reference to any memory but this: the host has checked that.
        unsafe { values.as_ptr().copy_to(self.data.add(at), values.len()) };
        self.written.filled.set(at + values.len());
    }

    /// Writes the value to all elements.
    pub fn fill(&mut self, value: T) {
        for i in 0..self.len() {
            unsafe { self.data.add(i).write(value) };
        }
        self.written.filled.set(self.len());
    }

    /// Fills the result with `value(i)` for each element `i`, on several threads if the host has them.
    pub fn fill_parallel(
        self,
        call: Call<'_>,
        grain: usize,
        value: impl Fn(usize) -> T + Sync,
    ) -> Result<()> {
        struct Pointer<T>(*mut T);
        unsafe impl<T> Sync for Pointer<T> {} // each thread writes elements of its own
        impl<T> Pointer<T> {
            unsafe fn write(&self, at: usize, value: T) {
                unsafe { self.0.add(at).write(value) }
            }
        }
        let (data, length) = (Pointer(self.data), self.len());
        call.parallel_for(length, grain, |range| {
            // Whatever the host says, this is a part of the result.
            for i in range.start..range.end.min(length) {
                unsafe { data.write(i, value(i)) };
            }
        })?;
        self.written.filled.set(length);
        Ok(())
    }

    /// Fills the result with zeros, and gives its elements.
    ///
    /// # Panics
    /// If the caller passed `out=` with memory that an object of this library keeps. If an argument is `alias` or a callable: then
    /// other parameters, or the callback, may reach that memory.
    pub fn zeroed(self) -> &'a mut [T] {
        assert!(
            !self.place.shared,
            "a result of a function with a callback or an 'alias' argument has no references; use push or fill"
        );
        if kept::refuse_overlap(self.call, self.place, unsafe { &*self.view }).is_err() {
            panic!("the memory of the result is kept by an object"); // the call has failed with a message of its own
        }
        unsafe { self.data.write_bytes(0, self.len()) };
        self.written.filled.set(self.len());
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len()) }
    }

    /// Copies of the elements that have been written.
    pub fn get(&self, index: usize) -> Option<T> {
        (index < self.filled()).then(|| unsafe { self.data.add(index).read() })
    }
}

/// The call fails if a result is not full.
#[inline(always)]
pub(crate) unsafe fn finish(call: RawCall, place: Place, written: &Written) -> Result<(), Failed> {
    if written.filled.get() == written.length.get() {
        return Ok(());
    }
    let (filled, length) = (written.filled.get(), written.length.get());
    let message = format!("its code wrote only {filled} of the {length} elements of result {}", place.index);
    Err(call.fail(abi::EFAILED, &message))
}

unsafe impl<T: Element> Param for Out<'_, T> {
    const TYPE: Type = Type::tensor(Form::Out, ["Out<", T::NAME, ">"], T::DTYPE, 0, -1);
    type Slot = Written;
    type At<'x> = Out<'x, T>;
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, slot: &'x Written) -> Result<Out<'x, T>, Failed> {
        unsafe {
            let view = &*(*call.value(place)).payload.view;
            refuse_device(call, place, view)?;
            kept::refuse_constant(call, place, view)?;
            Ok(Out::new(call, place, view, slot))
        }
    }
    #[inline(always)]
    unsafe fn finish(call: RawCall, place: Place, slot: &Written) -> Result<(), Failed> {
        unsafe { finish(call, place, slot) }
    }
}

/// A result whose size only the function knows (`?` among its dimensions).
///
/// ```
/// #[tenon::module(private)]
/// mod kernels {
///     use tenon::Open;
///     #[function("positive(x: f64[n] c) -> f64[?]")]
///     fn positive(x: &[f64], z: Open<f64, 1>) -> tenon::Result<()> {
///         let found = x.iter().copied().filter(|x| *x > 0.0);
///         z.alloc([found.clone().count()])?.write_all(found);
///         Ok(())
///     }
/// }
/// ```
pub struct Open<'a, T, const D: usize> {
    call: RawCall,
    place: Place,
    written: &'a Written,
    life: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element, const D: usize> Open<'a, T, D> {
    /// Allocates the result. If the function has a shape function, it has done so, with this shape.
    pub fn alloc(self, shape: [usize; D]) -> Result<Out<'a, T>> {
        let result = unsafe { &*self.call.result(self.place.index) };
        if result.flags & abi::VALUE_UNSET == 0 && unsafe { !result.payload.view.is_null() } {
            let view = unsafe { &*result.payload.view };
            let made: Vec<_> =
                (0..view.ndim as usize).map(|i| unsafe { *view.shape.add(i) } as usize).collect();
            if made != shape || view.dtype != T::DTYPE {
                let message = format!("its shape function returns {made:?}, and its code makes {shape:?}");
                return Err(Error::failed(message));
            }
            return Ok(unsafe { Out::new(self.call, self.place, view, self.written) });
        }
        let view = alloc(self.call, self.call.host().result_alloc, self.place.index, T::DTYPE, &shape)?;
        let place = Place { shared: false, ..self.place }; // no other code knows the memory
        Ok(unsafe { Out::new(self.call, place, view, self.written) })
    }
}

/// A result of the host, which reports its own failure; the message here is not shown.
fn alloc<'a>(
    call: RawCall,
    service: Option<abi::ResultAlloc>,
    index: usize,
    dtype: Dtype,
    shape: &[usize],
) -> Result<&'a abi::View> {
    let service = service.ok_or_else(|| Error::failed("this host has no results of unknown size"))?;
    let mut sizes = [0i64; 64];
    if shape.len() > sizes.len() {
        return Err(Error::overflow(format!("a result has at most 64 dimensions, not {}", shape.len())));
    }
    for (size, given) in sizes.iter_mut().zip(shape) {
        *size = i64::try_from(*given).map_err(|_| Error::overflow("the result is too large"))?;
    }
    let view = unsafe { service(call.0, index as i32, dtype, shape.len() as i32, sizes.as_ptr()) };
    let view = unsafe { view.as_ref() }.ok_or_else(|| Error::memory("the result could not be allocated"))?;
    if view.device.is_cpu() { Ok(view) } else { Err(Error::failed(format!("result {index} {ON_A_DEVICE}"))) }
}

pub(crate) fn alloc_result<'a>(
    call: RawCall,
    index: usize,
    dtype: Dtype,
    shape: &[usize],
) -> Result<&'a abi::View> {
    alloc(call, call.host().result_alloc, index, dtype, shape)
}

unsafe impl<T: Element, const D: usize> Param for Open<'_, T, D> {
    const TYPE: Type = Type::tensor(Form::Open, ["Open<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type Slot = Written;
    type At<'x> = Open<'x, T, D>;
    unsafe fn read<'x>(call: RawCall, place: Place, slot: &'x Written) -> Result<Open<'x, T, D>, Failed> {
        Ok(Open { call, place, written: slot, life: PhantomData })
    }
    unsafe fn finish(call: RawCall, place: Place, slot: &Written) -> Result<(), Failed> {
        unsafe {
            let result = &*call.result(place.index);
            // The shape function may have allocated it, and the function not.
            if result.flags & abi::VALUE_UNSET == 0 && !result.payload.view.is_null() {
                slot.begin((*result.payload.view).numel as usize);
            }
            finish(call, place, slot)
        }
    }
}

/// A list of results that the function makes, `-> [f32[?]]`.
pub struct OpenList<'a, T, const D: usize> {
    call: RawCall,
    place: Place,
    life: PhantomData<&'a mut [T]>,
}

impl<T: Element, const D: usize> OpenList<'_, T, D> {
    /// Allocates the next tensor, in C order and filled with zeros.
    pub fn push(&mut self, shape: [usize; D]) -> Result<&mut [T]> {
        let view = alloc(self.call, self.call.host().result_push, self.place.index, T::DTYPE, &shape)?;
        unsafe {
            let (data, length) = (data_of::<T>(view), view.numel as usize);
            data.write_bytes(0, length);
            Ok(std::slice::from_raw_parts_mut(data, length))
        }
    }
}

unsafe impl<T: Element, const D: usize> Param for OpenList<'_, T, D> {
    const TYPE: Type = Type::tensor(Form::OpenList, ["OpenList<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type Slot = ();
    type At<'x> = OpenList<'x, T, D>;
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<OpenList<'x, T, D>, Failed> {
        Ok(OpenList { call, place, life: PhantomData })
    }
}
