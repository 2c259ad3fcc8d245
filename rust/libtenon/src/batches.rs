//! Batches: arguments and results whose first dimensions are `**b`.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Mutex;

use crate::abi::{self, Status};
use crate::call::{Call, Failed, RawCall, drop_quietly};
use crate::check::{Form, Type};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::function::{Param, Place};
use crate::kept;
use crate::outs::Written;
use crate::tensors::{View, refuse_device};

/// An argument of a batch, `x: f32[**b, n]`: its items have D dimensions, 0 of them if they are single elements. Arguments of
/// other shapes are broadcast, as NumPy does. [`BatchOut::fill`] and [`BatchOut::for_each`] visit the items.
pub struct Batch<'a, T, const D: usize = 0> {
    index: usize,
    shape: [usize; D],
    strides: [isize; D],
    life: PhantomData<&'a [T]>,
}

impl<T, const D: usize> Clone for Batch<'_, T, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const D: usize> Copy for Batch<'_, T, D> {}

impl<T, const D: usize> Batch<'_, T, D> {
    /// The sizes of the dimensions of an item.
    pub fn shape(&self) -> [usize; D] {
        self.shape
    }
}

unsafe impl<T: Element, const D: usize> Param for Batch<'_, T, D> {
    const TYPE: Type = Type::tensor(Form::Batch, ["Batch<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type Slot = ();
    type At<'x> = Batch<'x, T, D>;
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<Batch<'x, T, D>, Failed> {
        let view = unsafe { &*(*call.value(place)).payload.view };
        let first = view.ndim as usize - D;
        let (mut shape, mut strides) = ([0; D], [0; D]);
        for i in 0..D {
            unsafe {
                shape[i] = *view.shape.add(first + i) as usize;
                strides[i] = *view.strides.add(first + i) as isize;
            }
        }
        Ok(Batch { index: place.batch, shape, strides, life: PhantomData })
    }
}

/// A result of a batch, `-> f32[**b, n]`, in C order: its items have D dimensions. The call fails if the function does not fill it.
///
/// ```
/// #[tenon::module(private)]
/// mod kernels {
///     use tenon::{Batch, BatchOut, Call, Result};
///
///     #[function("hypot(x: f64[**b], y: f64[**b]) -> f64[**b]")]
///     fn hypot(call: Call, x: Batch<f64>, y: Batch<f64>, z: BatchOut<f64>) -> Result<()> {
///         z.fill(call, 4096, (x, y), |(x, y)| x.hypot(y))
///     }
///
///     #[function("normalize(x: f64[**b, n]) -> f64[**b, n]")]
///     fn normalize(call: Call, x: Batch<f64, 1>, z: BatchOut<f64, 1>) -> Result<()> {
///         z.for_each(call, 64, (x,), |(x,), z| {
///             let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
///             z.iter_mut().zip(x.iter()).for_each(|(z, x)| *z = x / norm);
///         })
///     }
/// }
/// ```
pub struct BatchOut<'a, T, const D: usize = 0> {
    index: usize,
    length: usize,
    shape: [usize; D],
    written: &'a Written,
    life: PhantomData<&'a mut [T]>,
}

unsafe impl<T: Element, const D: usize> Param for BatchOut<'_, T, D> {
    const TYPE: Type = Type::tensor(Form::BatchOut, ["BatchOut<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type Slot = Written;
    type At<'x> = BatchOut<'x, T, D>;
    unsafe fn read<'x>(call: RawCall, place: Place, slot: &'x Written) -> Result<BatchOut<'x, T, D>, Failed> {
        let view = unsafe { &*(*call.value(place)).payload.view };
        refuse_device(call, place, view)?;
        kept::refuse_overlap(call, place, view)?;
        let first = view.ndim as usize - D;
        let shape = std::array::from_fn(|i| unsafe { *view.shape.add(first + i) } as usize);
        slot.begin(view.numel as usize);
        Ok(BatchOut {
            index: place.batch,
            length: view.numel as usize,
            shape,
            written: slot,
            life: PhantomData,
        })
    }
    unsafe fn finish(call: RawCall, place: Place, slot: &Written) -> Result<(), Failed> {
        unsafe { crate::outs::finish(call, place, slot) }
    }
}

/// The arguments whose items a body gets: a tuple of [`Batch`].
pub trait BatchInputs: Copy {
    /// Views of one item each.
    #[doc(hidden)]
    type Views<'x>;
    #[doc(hidden)]
    unsafe fn views<'x>(&self, run: &Run, item: i64) -> Self::Views<'x>;
}

/// The arguments whose elements a function gets: a tuple of [`Batch`] whose items are single elements.
pub trait BatchElements: Copy {
    /// The elements.
    #[doc(hidden)]
    type Elements;
    #[doc(hidden)]
    unsafe fn elements(&self, run: &Run, item: i64) -> Self::Elements;
}

/// Items that a body visits: for each tensor of the batch the first one, and the distance between them in elements.
#[doc(hidden)]
pub struct Run {
    data: *const *mut c_void,
    steps: *const i64,
}

impl Run {
    #[inline(always)]
    unsafe fn item<T>(&self, tensor: usize, item: i64) -> *mut T {
        unsafe { (*self.data.add(tensor)).cast::<T>().offset((item * *self.steps.add(tensor)) as isize) }
    }
}

macro_rules! inputs {
    ($($name:ident $size:ident $index:tt),+) => {
        impl<'a, $($name: Element, const $size: usize),+> BatchInputs for ($(Batch<'a, $name, $size>,)+) {
            type Views<'x> = ($(View<'x, $name, $size>,)+);
            #[inline(always)]
            unsafe fn views<'x>(&self, run: &Run, item: i64) -> Self::Views<'x> {
                unsafe {
                    ($(View::from_item(run.item(self.$index.index, item), self.$index.shape, self.$index.strides),)+)
                }
            }
        }
        impl<'a, $($name: Element),+> BatchElements for ($(Batch<'a, $name, 0>,)+) {
            type Elements = ($($name,)+);
            #[inline(always)]
            unsafe fn elements(&self, run: &Run, item: i64) -> Self::Elements {
                unsafe { ($(run.item::<$name>(self.$index.index, item).read(),)+) }
            }
        }
    };
}

inputs!(A I 0);
inputs!(A I 0, B J 1);
inputs!(A I 0, B J 1, C K 2);
inputs!(A I 0, B J 1, C K 2, E L 3);

impl<T: Element> BatchOut<'_, T, 0> {
    /// Writes `value(elements)` to each element, on several threads if there are more than `grain` of them.
    pub fn fill<I: BatchElements + Sync>(
        self,
        call: Call<'_>,
        grain: usize,
        inputs: I,
        value: impl Fn(I::Elements) -> T + Sync,
    ) -> Result<()> {
        let index = self.index;
        visit(call, grain, |run, count| {
            for i in 0..count {
                unsafe { run.item::<T>(index, i).write(value(inputs.elements(run, i))) };
            }
        })?;
        self.written.fill();
        Ok(())
    }
}

impl<T: Element, const D: usize> BatchOut<'_, T, D> {
    /// The sizes of the dimensions of an item.
    pub fn shape(&self) -> [usize; D] {
        self.shape
    }

    /// Calls `body` with each item of the arguments and the elements of this result's item, which begin with zeros, on several
    /// threads if there are more than `grain` items.
    pub fn for_each<I: BatchInputs + Sync>(
        self,
        call: Call<'_>,
        grain: usize,
        inputs: I,
        body: impl for<'x> Fn(I::Views<'x>, &mut [T]) + Sync,
    ) -> Result<()> {
        let (index, size) = (self.index, self.shape.iter().product());
        visit(call, grain, |run, count| {
            for i in 0..count {
                // Items of a result do not overlap, and each is visited once.
                unsafe {
                    // An item without elements may have no address.
                    let item = if size == 0 { NonNull::dangling().as_ptr() } else { run.item::<T>(index, i) };
                    item.write_bytes(0, size);
                    body(inputs.views(run, i), std::slice::from_raw_parts_mut(item, size));
                }
            }
        })?;
        self.written.fill();
        Ok(())
    }

    /// The number of elements of all items.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// Calls a body for runs of items. A panic continues here after the other runs have ended.
fn visit<B: Fn(&Run, i64) + Sync>(call: Call<'_>, grain: usize, body: B) -> Result<()> {
    struct Context<'b, B> {
        body: &'b B,
        panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
    }
    unsafe extern "C" fn run<B: Fn(&Run, i64) + Sync>(
        context: *mut c_void,
        data: *const *mut c_void,
        steps: *const i64,
        count: i64,
    ) -> Status {
        let context = unsafe { &*context.cast::<Context<'_, B>>() };
        let Err(payload) = catch_unwind(AssertUnwindSafe(|| (context.body)(&Run { data, steps }, count)))
        else {
            return abi::OK;
        };
        let mut first = context.panic.lock().unwrap_or_else(|lock| lock.into_inner());
        if first.is_none() {
            *first = Some(payload);
        } else {
            drop_quietly(payload);
        }
        abi::EFAILED
    }
    let raw = call.raw();
    let service = raw.host().for_each.ok_or_else(|| Error::failed("this host has no batches"))?;
    let context = Context { body: &body, panic: Mutex::new(None) };
    let grain = i64::try_from(grain.max(1)).unwrap_or(i64::MAX);
    let pointer = (&raw const context).cast_mut().cast();
    let status = unsafe { service(raw.0, 0, std::ptr::null(), grain, run::<B>, pointer) };
    if let Some(payload) = context.panic.into_inner().unwrap_or_else(|lock| lock.into_inner()) {
        resume_unwind(payload);
    }
    if status == abi::OK { Ok(()) } else { Err(Error::failed("the loop over the batch failed")) }
}
