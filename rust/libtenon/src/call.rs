//! One call: its failure, and the services of its host.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use crate::abi::{self, Device, Dtype, Status};
use crate::check::{Form, Type};
use crate::error::{Error, Result};
use crate::function::{Param, Place};
use crate::kept;

/// The call has failed, and the host knows why.
#[derive(Debug)]
#[doc(hidden)]
pub struct Failed(pub(crate) Status);

/// The call that runs a function.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct RawCall(pub(crate) *mut abi::Call);

impl RawCall {
    pub(crate) fn get(&self) -> &abi::Call {
        // The host keeps the call alive until the function returns, and no reference to it outlives self.
        unsafe { &*self.0 }
    }

    pub(crate) fn host(&self) -> &abi::Host {
        unsafe { &*self.get().host }
    }

    #[inline(always)]
    pub(crate) unsafe fn arg(&self, index: usize) -> *const abi::Value {
        unsafe { (*self.0).args.add(index) }
    }

    #[inline(always)]
    pub(crate) unsafe fn result(&self, index: usize) -> *mut abi::Value {
        unsafe { (*self.0).results.add(index) }
    }

    /// The value of an argument or a result.
    #[inline(always)]
    pub(crate) unsafe fn value(&self, place: Place) -> *const abi::Value {
        unsafe { if place.result { self.result(place.index).cast_const() } else { self.arg(place.index) } }
    }

    #[cold]
    pub(crate) fn fail(&self, status: Status, message: &str) -> Failed {
        let shown = message.floor_char_boundary_at(800);
        Failed(unsafe { (self.host().fail)(self.0, status, shown.as_ptr().cast(), shown.len()) })
    }

    /// "argument 'x'" or "result 0", for messages.
    #[cold]
    pub(crate) fn describe(&self, place: Place) -> String {
        if place.result {
            return format!("result {}", place.index);
        }
        format!("argument '{}'", self.name(place.index))
    }

    /// The name of an argument.
    #[cold]
    pub(crate) fn name(&self, index: usize) -> &'static str {
        // The signature is a constant of the library.
        let text = unsafe { CStr::from_ptr((*self.get().function).signature) };
        let text: &'static str = unsafe { std::mem::transmute(text.to_str().unwrap_or("")) };
        let name = crate::signature::parse(text).params[index].name;
        &text[name.start..name.start + name.length]
    }

    /// A service that the host may not have.
    pub(crate) fn need<T>(&self, service: Option<T>, what: &str) -> Result<T, Failed> {
        service.ok_or_else(|| {
            let name = unsafe { CStr::from_ptr(self.host().name) }.to_string_lossy();
            self.fail(abi::EFAILED, &format!("this host ({name}) has no {what}"))
        })
    }

    /// An error status of a service, which has reported it.
    pub(crate) fn check(&self, status: Status) -> Result<(), Failed> {
        if status == abi::OK { Ok(()) } else { Err(Failed(status)) }
    }
}

trait Cut {
    fn floor_char_boundary_at(&self, most: usize) -> &str;
}

impl Cut for str {
    fn floor_char_boundary_at(&self, most: usize) -> &str {
        let mut end = self.len().min(most);
        while !self.is_char_boundary(end) {
            end -= 1;
        }
        &self[..end]
    }
}

/// What unwinds a function after the call has failed, so that none of its code runs any more but for its drops.
pub(crate) struct Stop;

/// Runs a body. A panic fails the call: nothing unwinds into C.
pub(crate) fn guard(call: RawCall, body: impl FnOnce() -> Result<(), Failed>) -> Status {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    kept::release_dropped();
    match outcome {
        Ok(Ok(())) => abi::OK,
        Ok(Err(Failed(status))) => status,
        Err(payload) if payload.is::<Stop>() => abi::EFAILED,
        Err(payload) => {
            let message = describe_panic(&*payload);
            drop_quietly(payload);
            call.fail(abi::EFAILED, &format!("the function panicked: {message}")).0
        }
    }
}

fn describe_panic(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(its payload is not a string)".to_owned())
}

/// Drops a value whose `Drop` may panic. The payload of that panic is leaked if its own `Drop` could panic again.
pub(crate) fn drop_quietly<T>(value: T) {
    let value = ManuallyDrop::new(value);
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(ManuallyDrop::into_inner(value)))) {
        if !payload.is::<&str>() && !payload.is::<String>() {
            std::mem::forget(payload);
        }
    }
}

/// The text of an error whose `Display` may panic.
pub(crate) fn describe_error(error: &dyn std::fmt::Display) -> String {
    catch_unwind(AssertUnwindSafe(|| error.to_string())).unwrap_or_else(|payload| {
        drop_quietly(payload);
        "(the Display of the error panicked)".to_owned()
    })
}

/// The call itself, as a parameter: dimensions by name, the stream, and loops on several threads. It is not an argument of the
/// signature, and may be anywhere among the parameters.
///
/// ```
/// #[tenon::module(private)]
/// mod kernels {
///     use tenon::Call;
///     #[function("sum(x: f32[n, k] c) -> float")]
///     fn sum(call: Call, x: &[f32]) -> tenon::Result<f64> {
///         assert_eq!(x.len() as i64, call.dim("n")? * call.dim("k")?);
///         Ok(x.iter().map(|&x| f64::from(x)).sum())
///     }
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Call<'a> {
    raw: RawCall,
    life: PhantomData<&'a ()>,
}

impl Call<'_> {
    pub(crate) fn new(raw: RawCall) -> Self {
        Call { raw, life: PhantomData }
    }

    pub(crate) fn raw(&self) -> RawCall {
        self.raw
    }

    /// The size of a dimension of the signature. -1 if only arguments that were not given have it.
    pub fn dim(&self, name: &str) -> Result<i64> {
        let index = self.find(2, name)?;
        Ok(unsafe { *self.raw.get().dims.add(index) })
    }

    /// The dtype of a dtype variable of the signature.
    pub fn dtype(&self, name: &str) -> Result<Dtype> {
        let index = self.find(3, name)?;
        Ok(unsafe { *self.raw.get().types.add(index) })
    }

    pub(crate) fn find(&self, what: u32, name: &str) -> Result<usize> {
        let find = self.raw.host().find.ok_or_else(|| Error::failed("this host has no access by name"))?;
        let index = unsafe { find(self.raw.0, what, name.as_ptr().cast(), name.len()) };
        usize::try_from(index).map_err(|_| Error::failed(format!("its signature has no '{name}'")))
    }

    /// The device of the call's tensors, or the CPU.
    pub fn device(&self) -> Device {
        self.raw.get().device
    }

    /// The stream for work on that device: a `cudaStream_t` on CUDA, null on the CPU.
    pub fn stream(&self) -> *mut c_void {
        self.raw.get().stream
    }

    /// The name of the host, such as `"python"`.
    pub fn host(&self) -> &str {
        unsafe { CStr::from_ptr(self.raw.host().name) }.to_str().unwrap_or("?")
    }

    /// Whether the caller has given up. If so, return as soon as possible, with any result.
    pub fn cancelled(&self) -> bool {
        self.raw.host().cancelled.is_some_and(|cancelled| unsafe { cancelled(self.raw.0) } != 0)
    }

    /// Whether the runtime's lock is released, so that other threads of the runtime run.
    pub fn is_unlocked(&self) -> bool {
        self.raw.get().flags & abi::CALL_UNLOCKED != 0
    }

    /// Calls `body` for parts of `0..count`, of at least `grain` each, on several threads if the host has them. If a part panics,
    /// the panic continues here after the other parts have ended.
    ///
    /// ```
    /// #[tenon::module(private)]
    /// mod kernels {
    ///     use tenon::{Call, Out};
    ///     #[function("twice(x: f32[n] c) -> f32[n]")]
    ///     fn twice(call: Call, x: &[f32], z: Out<f32>) -> tenon::Result<()> {
    ///         z.fill_parallel(call, 4096, |i| 2.0 * x[i])
    ///     }
    /// }
    /// ```
    pub fn parallel_for(&self, count: usize, grain: usize, body: impl Fn(Range<usize>) + Sync) -> Result<()> {
        struct Context<'b, B> {
            body: &'b B,
            panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
        }
        unsafe extern "C" fn run<B: Fn(Range<usize>) + Sync>(
            context: *mut c_void,
            begin: i64,
            end: i64,
        ) -> Status {
            let context = unsafe { &*context.cast::<Context<'_, B>>() };
            let range = begin as usize..end as usize;
            match catch_unwind(AssertUnwindSafe(|| (context.body)(range))) {
                Ok(()) => abi::OK,
                Err(payload) => {
                    let mut first = context.panic.lock().unwrap_or_else(|lock| lock.into_inner());
                    if first.is_none() {
                        *first = Some(payload);
                    } else {
                        drop_quietly(payload);
                    }
                    abi::EFAILED
                }
            }
        }
        if count == 0 {
            return Ok(());
        }
        if i64::try_from(count).is_err() {
            return Err(Error::overflow(format!("a parallel loop has at most 2^63 - 1 steps, not {count}")));
        }
        let Some(parallel) = self.raw.host().parallel else {
            body(0..count);
            return Ok(());
        };
        fn code<B: Fn(Range<usize>) + Sync>(_: &B) -> abi::Body {
            run::<B>
        }
        let context = Context { body: &body, panic: Mutex::new(None) };
        let run = code(&body);
        let pointer = (&raw const context).cast_mut().cast();
        let most = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        let status = unsafe { parallel(self.raw.0, most(count), most(grain.max(1)), run, pointer) };
        let panic = context.panic.into_inner().unwrap_or_else(|lock| lock.into_inner());
        if let Some(payload) = panic {
            std::panic::resume_unwind(payload);
        }
        if status == abi::OK { Ok(()) } else { Err(Error::failed("the parallel loop failed")) }
    }

    /// A table of additional services of the host, or null.
    pub fn extension(&self, name: &CStr, version: u32) -> *const c_void {
        match self.raw.host().extension {
            Some(extension) => unsafe { extension(self.raw.0, name.as_ptr().cast::<c_char>(), version) },
            None => std::ptr::null(),
        }
    }
}

unsafe impl Param for Call<'_> {
    const TYPE: Type = Type::plain(Form::Context, "Call");
    type Slot = ();
    type At<'x> = Call<'x>;
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, _: Place, _: &'x ()) -> Result<Call<'x>, Failed> {
        Ok(Call { raw: call, life: PhantomData })
    }
}
