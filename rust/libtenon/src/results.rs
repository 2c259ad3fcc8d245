//! What functions return.

use std::ffi::c_void;
use std::fmt::Display;

use crate::abi::{self, kind};
use crate::call::{Failed, RawCall, describe_error, drop_quietly};
use crate::check::{Form, Type};
use crate::dtype::{Complex, Element};
use crate::error::{Error, Result, status_of};
use crate::kept::{Kept, Shared, pin_kept};
use crate::objects;
use crate::outs::alloc_result;
use crate::tensors::{View, data_of, has_elements};

/// A result of the call.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Target {
    index: usize,
    /// "own": memory of the function becomes the result, and is not copied.
    own: bool,
}

impl Target {
    #[doc(hidden)]
    pub fn index(self) -> usize {
        self.index
    }
}

/// The results that a function returns: those after its `Out` parameters.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Targets {
    pub(crate) first: usize,
    /// A bit for each result that is "own".
    pub(crate) own: u32,
}

impl Targets {
    #[inline(always)]
    fn get(self, index: usize) -> Target {
        let index = self.first + index;
        Target { index, own: self.own >> index & 1 != 0 }
    }
}

/// A type that can be one result.
///
/// # Safety
/// `TYPE` describes what `give` returns.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a result of a Tenon function",
    label = "this type is not supported",
    note = "supported: numbers, `String`, `Vec<T>`, `Owned`, references to `Kept` and `Shared`, classes, `Option`, tuples and \
            `Result` of them"
)]
pub unsafe trait ResultValue: Sized {
    #[doc(hidden)]
    const TYPE: Type;
    #[doc(hidden)]
    type At<'x>;
    #[doc(hidden)]
    unsafe fn give<'x>(value: Self::At<'x>, call: RawCall, target: Target) -> Result<(), Failed>;
}

/// What a function may return: nothing, one result, a tuple of them, or a `Result` of these.
///
/// # Safety
/// As [`ResultValue`].
#[diagnostic::on_unimplemented(message = "a Tenon function cannot return `{Self}`")]
pub unsafe trait Return: Sized {
    #[doc(hidden)]
    const TYPES: &'static [Type];
    #[doc(hidden)]
    type At<'x>;
    #[doc(hidden)]
    unsafe fn give<'x>(value: Self::At<'x>, call: RawCall, targets: Targets) -> Result<(), Failed>;
}

unsafe impl<V: ResultValue> Return for V {
    const TYPES: &'static [Type] = &[V::TYPE];
    type At<'x> = V::At<'x>;
    #[inline(always)]
    unsafe fn give<'x>(value: V::At<'x>, call: RawCall, targets: Targets) -> Result<(), Failed> {
        unsafe { V::give(value, call, targets.get(0)) }
    }
}

unsafe impl Return for () {
    const TYPES: &'static [Type] = &[];
    type At<'x> = ();
    #[inline(always)]
    unsafe fn give<'x>(_: (), _: RawCall, _: Targets) -> Result<(), Failed> {
        Ok(())
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt),*) => {
        unsafe impl<$($name: ResultValue),*> Return for ($($name,)*) {
            const TYPES: &'static [Type] = &[$($name::TYPE),*];
            type At<'x> = ($($name::At<'x>,)*);
            unsafe fn give<'x>(value: Self::At<'x>, call: RawCall, targets: Targets) -> Result<(), Failed> {
                $(unsafe { $name::give(value.$index, call, targets.get($index))? };)*
                Ok(())
            }
        }
    };
}

tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);

unsafe impl<R: Return, E: Display + 'static> Return for std::result::Result<R, E> {
    const TYPES: &'static [Type] = R::TYPES;
    type At<'x> = std::result::Result<R::At<'x>, E>;
    #[inline(always)]
    unsafe fn give<'x>(value: Self::At<'x>, call: RawCall, targets: Targets) -> Result<(), Failed> {
        match value {
            Ok(value) => unsafe { R::give(value, call, targets) },
            Err(error) => Err(give_error(call, error)),
        }
    }
}

#[cold]
pub(crate) fn give_error<E: Display + 'static>(call: RawCall, error: E) -> Failed {
    let failed = call.fail(status_of(&error), &describe_error(&error));
    drop_quietly(error);
    failed
}

unsafe impl<V: ResultValue> ResultValue for Option<V> {
    const TYPE: Type = V::TYPE.or_none();
    type At<'x> = Option<V::At<'x>>;
    unsafe fn give<'x>(value: Self::At<'x>, call: RawCall, target: Target) -> Result<(), Failed> {
        match value {
            Some(value) => unsafe { V::give(value, call, target) },
            None => Ok(()),
        }
    }
}

/// The result, which is set now.
#[inline(always)]
unsafe fn set(call: RawCall, index: usize) -> *mut abi::Payload {
    unsafe {
        let result = call.result(index);
        (*result).flags &= !abi::VALUE_UNSET;
        &raw mut (*result).payload
    }
}

#[doc(hidden)]
pub unsafe fn give_integer(call: RawCall, index: usize, value: i64) -> Result<(), Failed> {
    unsafe { (*set(call, index)).integer = value };
    Ok(())
}

macro_rules! value {
    ($type:ty, $form:ident, |$value:ident, $payload:ident| $write:expr) => {
        unsafe impl ResultValue for $type {
            const TYPE: Type = Type::plain(Form::$form, stringify!($type));
            type At<'x> = $type;
            #[inline(always)]
            unsafe fn give<'x>($value: $type, call: RawCall, target: Target) -> Result<(), Failed> {
                unsafe {
                    let $payload = &mut *set(call, target.index);
                    $write;
                }
                Ok(())
            }
        }
    };
}

value!(i64, Int, |value, payload| payload.integer = value);
value!(i32, Int, |value, payload| payload.integer = value.into());
value!(u32, Int, |value, payload| payload.integer = value.into());
value!(u64, Uint, |value, payload| payload.integer = value as i64);
value!(f64, Float, |value, payload| payload.number = value);
value!(f32, Float, |value, payload| payload.number = value.into());
value!(bool, Bool, |value, payload| payload.integer = value.into());
value!(Complex<f64>, Complex, |value, payload| payload.parts = [value.re, value.im]);

unsafe impl ResultValue for usize {
    const TYPE: Type = Type::plain(Form::Int, "usize");
    type At<'x> = usize;
    unsafe fn give<'x>(value: usize, call: RawCall, target: Target) -> Result<(), Failed> {
        match i64::try_from(value) {
            Ok(value) => unsafe { give_integer(call, target.index, value) },
            Err(_) => Err(call
                .fail(abi::EOVERFLOW, &format!("result {}: {value} does not fit in 64 bits", target.index))),
        }
    }
}

unsafe fn give_str(value: &str, call: RawCall, index: usize) -> Result<(), Failed> {
    let service = call.need(call.host().result_str, "strings as results")?;
    call.check(unsafe { service(call.0, index as i32, value.as_ptr().cast(), value.len()) })
}

unsafe impl ResultValue for String {
    const TYPE: Type = Type::plain(Form::Str, "String");
    type At<'x> = String;
    unsafe fn give<'x>(value: String, call: RawCall, target: Target) -> Result<(), Failed> {
        unsafe { give_str(&value, call, target.index) }
    }
}

unsafe impl ResultValue for &str {
    const TYPE: Type = Type::plain(Form::Str, "&str");
    type At<'x> = &'x str;
    unsafe fn give<'x>(value: &'x str, call: RawCall, target: Target) -> Result<(), Failed> {
        unsafe { give_str(value, call, target.index) }
    }
}

unsafe impl ResultValue for Vec<String> {
    const TYPE: Type = Type::plain(Form::Strs, "Vec<String>");
    type At<'x> = Vec<String>;
    unsafe fn give<'x>(value: Vec<String>, call: RawCall, target: Target) -> Result<(), Failed> {
        let items: Vec<_> =
            value.iter().map(|text| abi::Text { data: text.as_ptr().cast(), length: text.len() }).collect();
        unsafe { give_list(call, target.index, items.as_ptr().cast(), items.len()) }
    }
}

unsafe fn give_list(call: RawCall, index: usize, data: *const c_void, count: usize) -> Result<(), Failed> {
    let service = call.need(call.host().result_list, "lists as results")?;
    call.check(unsafe { service(call.0, index as i32, data, count as i64) })
}

// ------------------------------------------------------------------------------------------------------------ tensors

/// Reports an error of this crate. The host keeps the first one.
fn report(call: RawCall, error: Error) -> Failed {
    call.fail(error.status(), &error.to_string())
}

struct Block {
    data: *mut c_void,
    owner: *mut c_void,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
}

unsafe fn give_memory<const D: usize>(
    call: RawCall,
    index: usize,
    block: Block,
    shape: [usize; D],
    strides: Option<[isize; D]>,
) -> Result<(), Failed> {
    let sizes = shape.map(|size| size as i64);
    let steps = strides.map(|strides| strides.map(|stride| stride as i64));
    let steps = steps.as_ref().map_or(std::ptr::null(), |steps| steps.as_ptr());
    let release = |status: abi::Status| {
        if let (true, Some(release)) = (status != abi::OK, block.release) {
            unsafe { release(block.owner) }; // the host has not taken it
        }
        call.check(status)
    };
    let service = match call.need(call.host().result_memory, "results in the function's memory") {
        Ok(service) => service,
        Err(Failed(status)) => return release(status),
    };
    release(unsafe {
        service(call.0, index as i32, block.data, D as i32, sizes.as_ptr(), steps, block.owner, block.release)
    })
}

unsafe extern "C" fn release_box<T>(owner: *mut c_void) {
    drop_quietly(unsafe { Box::from_raw(owner.cast::<T>()) });
}

unsafe fn own<T, const D: usize>(
    mut vec: Vec<T>,
    shape: [usize; D],
    call: RawCall,
    index: usize,
) -> Result<(), Failed> {
    let data = vec.as_mut_ptr().cast();
    let owner = Box::into_raw(Box::new(vec)).cast();
    let block = Block { data, owner, release: Some(release_box::<Vec<T>>) };
    unsafe { give_memory(call, index, block, shape, None) }
}

unsafe impl<T: Element> ResultValue for Vec<T> {
    const TYPE: Type = Type::tensor(Form::Vec, ["Vec<", T::NAME, ">"], T::DTYPE, T::LIST, 1);
    type At<'x> = Vec<T>;
    unsafe fn give<'x>(value: Vec<T>, call: RawCall, target: Target) -> Result<(), Failed> {
        unsafe {
            if (*call.result(target.index)).kind != kind::TENSOR {
                return if T::LIST == kind::BYTES {
                    let service = call.need(call.host().result_bytes, "bytes as results")?;
                    call.check(service(call.0, target.index as i32, value.as_ptr().cast(), value.len()))
                } else {
                    give_list(call, target.index, value.as_ptr().cast(), value.len())
                };
            }
            if target.own {
                let shape = [value.len()];
                return own(value, shape, call, target.index);
            }
            let view =
                alloc_result(call, target.index, T::DTYPE, &[value.len()]).map_err(|e| report(call, e))?;
            value.as_ptr().copy_to_nonoverlapping(data_of(view), value.len());
            Ok(())
        }
    }
}

/// Elements in C order that become an `own` result without a copy.
pub struct Owned<T, const D: usize> {
    elements: Vec<T>,
    shape: [usize; D],
}

impl<T: Element, const D: usize> Owned<T, D> {
    /// Elements in C order with this shape.
    pub fn new(elements: Vec<T>, shape: [usize; D]) -> Result<Owned<T, D>> {
        if !has_elements(&shape, elements.len()) {
            let message = format!("the shape {shape:?} does not have {} elements", elements.len());
            return Err(Error::failed(message));
        }
        Ok(Owned { elements, shape })
    }
}

unsafe impl<T: Element, const D: usize> ResultValue for Owned<T, D> {
    const TYPE: Type = Type::tensor(Form::Owned, ["Owned<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type At<'x> = Owned<T, D>;
    unsafe fn give<'x>(value: Owned<T, D>, call: RawCall, target: Target) -> Result<(), Failed> {
        unsafe { own(value.elements, value.shape, call, target.index) }
    }
}

unsafe impl<T: Element, const D: usize> ResultValue for &Shared<T, D> {
    const TYPE: Type = Type::tensor(Form::Shown, ["&Shared<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type At<'x> = &'x Shared<T, D>;
    unsafe fn give<'x>(value: &'x Shared<T, D>, call: RawCall, target: Target) -> Result<(), Failed> {
        unsafe {
            objects::pin(call, value.show());
            let data = value.as_ptr().cast_mut().cast();
            let block = Block { data, owner: std::ptr::null_mut(), release: None };
            give_memory(call, target.index, block, value.shape(), None)
        }
    }
}

unsafe impl<T: Element, const D: usize> ResultValue for &Kept<T, D> {
    const TYPE: Type = Type::tensor(Form::Shown, ["&Kept<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type At<'x> = &'x Kept<T, D>;
    unsafe fn give<'x>(value: &'x Kept<T, D>, call: RawCall, target: Target) -> Result<(), Failed> {
        unsafe {
            objects::pin(call, pin_kept(value));
            let cells = value.cells();
            let block = Block { data: value.raw().data, owner: std::ptr::null_mut(), release: None };
            give_memory(call, target.index, block, cells.shape(), Some(cells.strides()))
        }
    }
}

unsafe impl<T: Element> ResultValue for &[T] {
    const TYPE: Type = Type::tensor(Form::Slice, ["&[", T::NAME, "]"], T::DTYPE, 0, 1);
    type At<'x> = &'x [T];
    unsafe fn give<'x>(value: &'x [T], call: RawCall, target: Target) -> Result<(), Failed> {
        let data = value.as_ptr().cast_mut().cast();
        let block = Block { data, owner: std::ptr::null_mut(), release: None };
        unsafe { give_memory(call, target.index, block, [value.len()], None) }
    }
}

unsafe impl<T: Element, const D: usize> ResultValue for View<'_, T, D> {
    const TYPE: Type = Type::tensor(Form::View, ["View<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type At<'x> = View<'x, T, D>;
    unsafe fn give<'x>(value: View<'x, T, D>, call: RawCall, target: Target) -> Result<(), Failed> {
        let data = value.as_ptr().cast_mut().cast();
        let block = Block { data, owner: std::ptr::null_mut(), release: None };
        unsafe { give_memory(call, target.index, block, value.shape(), Some(value.strides())) }
    }
}
