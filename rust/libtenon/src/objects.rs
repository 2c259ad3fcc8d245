//! Classes: objects of the library.

use std::any::TypeId;
use std::ffi::c_void;
use std::sync::Mutex;

use crate::abi;
use crate::call::{Failed, RawCall, drop_quietly};
use crate::check::{Form, Type};
use crate::error::Result;
use crate::function::{Param, Place};
use crate::kept::{self, Pin};
use crate::results::Target;

/// A type that is a class of the module: `#[class]`, or `class Name;` in [`export!`](crate::export).
///
/// # Safety
/// `NAME` is the name of no other type in the module's table. A concurrent class is Sync.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a class of the module",
    note = "write #[class] before the struct, or `class {Self};` in export!"
)]
pub unsafe trait Class: Send + Sized + 'static {
    #[doc(hidden)]
    const NAME: &'static str;
    #[doc(hidden)]
    const CONCURRENT: bool;
}

/// An object as the host has it. What comes before the value is found without its type.
#[repr(C)]
pub(crate) struct Object<C> {
    pins: Mutex<Vec<Pin>>,
    id: TypeId,
    value: C,
}

const fn object_type<C: Class>(form: Form, before: &'static str) -> Type {
    let mut it = Type::plain(form, C::NAME);
    it.name[0] = before;
    it.class = C::NAME;
    it.concurrent = C::CONCURRENT;
    it
}

/// The object of an argument. The host knows classes by their names; another module of the crate may have one of the same name.
#[inline(always)]
unsafe fn object_of<C: Class>(call: RawCall, place: Place) -> Result<*mut Object<C>, Failed> {
    let object = unsafe { (*call.arg(place.index)).payload.handle.object.cast::<Object<C>>() };
    if unsafe { (*object).id } == TypeId::of::<C>() {
        Ok(object)
    } else {
        Err(refuse_type(call, place, C::NAME))
    }
}

#[cold]
fn refuse_type(call: RawCall, place: Place, name: &str) -> Failed {
    let what = call.describe(place);
    let message =
        format!("{what} is an object of another Rust type than the function takes, also called {name}");
    call.fail(abi::EDTYPE, &message)
}

unsafe impl<C: Class> Param for &C {
    const TYPE: Type = object_type::<C>(Form::Object, "&");
    type Slot = ();
    type At<'x> = &'x C;
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<&'x C, Failed> {
        // The host runs the calls on an object one after the other, unless the class is Sync.
        unsafe { Ok(&(*object_of::<C>(call, place)?).value) }
    }
}

unsafe impl<C: Class> Param for &mut C {
    const TYPE: Type = object_type::<C>(Form::ObjectMut, "&mut ");
    type Slot = ();
    type At<'x> = &'x mut C;
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<&'x mut C, Failed> {
        // As above, and the same object is not another argument of this call.
        unsafe { Ok(&mut (*object_of::<C>(call, place)?).value) }
    }
}

#[doc(hidden)]
pub const fn returned_object_type<C: Class>() -> Type {
    object_type::<C>(Form::Object, "")
}

#[doc(hidden)]
pub unsafe fn give_object<C: Class>(value: C, call: RawCall, target: Target) -> Result<(), Failed> {
    unsafe extern "C" fn destroy<C>(object: *mut c_void) {
        drop_quietly(unsafe { Box::from_raw(object.cast::<Object<C>>()) });
        kept::release_dropped();
    }
    let service = call.need(call.host().result_handle, "objects")?;
    let object =
        Box::into_raw(Box::new(Object { pins: Mutex::new(Vec::new()), id: TypeId::of::<C>(), value }));
    let status = unsafe { service(call.0, target.index() as i32, object.cast(), destroy::<C>) };
    if status != 0 {
        drop_quietly(unsafe { Box::from_raw(object) }); // the host has not taken it
    }
    call.check(status)
}

/// Lets the object of the call, argument 0, hold what an array points to until the object is destroyed.
pub(crate) unsafe fn pin(call: RawCall, pin: Pin) {
    // The pins are at the same place in every object.
    let pins = unsafe { &*(*call.arg(0)).payload.handle.object.cast::<Mutex<Vec<Pin>>>() };
    let mut pins = pins.lock().unwrap_or_else(|lock| lock.into_inner());
    if !pins.iter().any(|other| std::ptr::addr_eq(&raw const **other, &raw const *pin)) {
        pins.push(pin);
    }
}
