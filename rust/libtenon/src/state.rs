//! What the functions of a loaded library share.

use std::any::TypeId;
use std::ffi::c_void;
use std::fmt::Display;
use std::ops::Deref;

use crate::abi::{self, Status};
use crate::call::{Failed, RawCall, drop_quietly, guard};
use crate::check::{Form, Type};
use crate::error::Result;
use crate::function::{Param, Place};
use crate::kept;
use crate::results::give_error;

/// The state of the library, as a parameter. It is made by the function with `#[state]` when the library is loaded, and dropped
/// when its last user is gone. It is not an argument of the signature.
///
/// Calls run at the same time, so the state must be Sync: put what changes in a `Mutex` or an atomic.
///
/// ```
/// #[tenon::module(private)]
/// mod kernels {
///     use std::sync::atomic::{AtomicI64, Ordering};
///     use tenon::State;
///
///     struct Calls(AtomicI64);
///
///     #[state]
///     fn load() -> tenon::Result<Calls> {
///         Ok(Calls(AtomicI64::new(0)))
///     }
///
///     #[function("count() -> int")]
///     fn count(calls: State<Calls>) -> i64 {
///         calls.0.fetch_add(1, Ordering::Relaxed) + 1
///     }
/// }
/// ```
pub struct State<'a, S>(&'a S);

impl<S> Deref for State<'_, S> {
    type Target = S;
    fn deref(&self) -> &S {
        self.0
    }
}

/// The state with its type, which comes first: the compiler does not know which module a function is in.
#[repr(C)]
struct Holder<S> {
    id: TypeId,
    state: S,
}

/// The functions of a module that make and drop its state.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct StateFns {
    pub(crate) load: unsafe extern "C" fn(*mut abi::Call, *mut *mut c_void) -> Status,
    pub(crate) unload: unsafe extern "C" fn(*mut c_void),
}

unsafe extern "C" fn load<F, S, E>(call: *mut abi::Call, out: *mut *mut c_void) -> Status
where
    F: Fn() -> std::result::Result<S, E> + Copy + 'static,
    S: Send + Sync + 'static,
    E: Display + 'static,
{
    const { assert!(size_of::<F>() == 0, "the function must be a function item") };
    let call = RawCall(call);
    guard(call, || {
        // A function item has no data: any value of its type is the function.
        let function = unsafe { std::ptr::NonNull::<F>::dangling().as_ref() };
        let state = function().map_err(|error| give_error(call, error))?;
        unsafe { *out = Box::into_raw(Box::new(Holder { id: TypeId::of::<S>(), state })).cast() };
        Ok(())
    })
}

unsafe extern "C" fn unload<S>(state: *mut c_void) {
    if !state.is_null() {
        drop_quietly(unsafe { Box::from_raw(state.cast::<Holder<S>>()) });
        kept::release_dropped();
    }
}

/// The functions for the state that `make` returns.
#[doc(hidden)]
pub const fn state_of<F, S, E>(_make: &F) -> StateFns
where
    F: Fn() -> std::result::Result<S, E> + Copy + 'static,
    S: Send + Sync + 'static,
    E: Display + 'static,
{
    StateFns { load: load::<F, S, E>, unload: unload::<S> }
}

unsafe impl<S: Send + Sync + 'static> Param for State<'_, S> {
    const TYPE: Type = Type::plain(Form::State, "State");
    type Slot = ();
    type At<'x> = State<'x, S>;
    unsafe fn read<'x>(call: RawCall, _: Place, _: &'x ()) -> Result<State<'x, S>, Failed> {
        let holder = call.get().state.cast::<Holder<S>>();
        if holder.is_null() || unsafe { *holder.cast::<TypeId>() } != TypeId::of::<S>() {
            return Err(
                call.fail(abi::EFAILED, "the module has no state of the type that the function takes")
            );
        }
        Ok(State(unsafe { &(*holder).state }))
    }
}
