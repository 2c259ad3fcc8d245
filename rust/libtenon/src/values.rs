//! Numbers, strings, enums and lists as parameters.

use std::marker::PhantomData;

use crate::abi;
use crate::call::{Failed, RawCall};
use crate::check::{Form, Type};
use crate::dtype::{Complex, Dtype};
use crate::error::Result;
use crate::function::{Param, Place};

macro_rules! value {
    ($type:ty, $form:ident, |$value:ident| $read:expr) => {
        unsafe impl Param for $type {
            const TYPE: Type = Type::plain(Form::$form, stringify!($type));
            type Slot = ();
            type At<'x> = $type;
            #[inline(always)]
            unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<$type, Failed> {
                unsafe {
                    let $value = &(*call.value(place)).payload;
                    Ok($read)
                }
            }
        }
    };
}

value!(i64, Int, |value| value.integer);
value!(u64, Uint, |value| value.integer as u64);
value!(f64, Float, |value| value.number);
value!(f32, Float, |value| value.number as f32);
value!(bool, Bool, |value| value.integer != 0);
value!(Complex<f64>, Complex, |value| Complex::new(value.parts[0], value.parts[1]));
value!(Dtype, Dtype, |value| value.dtype);

/// Bytes of a host that are UTF-8, which the host has checked.
pub(crate) unsafe fn text<'x>(data: *const std::ffi::c_char, length: usize) -> &'x str {
    if length == 0 {
        return "";
    }
    let bytes = unsafe { std::slice::from_raw_parts(data.cast(), length) };
    unsafe { std::str::from_utf8_unchecked(bytes) }
}

unsafe impl Param for &str {
    const TYPE: Type = Type::plain(Form::Str, "&str");
    type Slot = ();
    type At<'x> = &'x str;
    #[inline]
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<&'x str, Failed> {
        unsafe {
            let list = (*call.value(place)).payload.list;
            Ok(text(list.data.cast(), list.length as usize))
        }
    }
}

/// A list of strings (`strs`).
#[derive(Clone, Copy)]
pub struct Strs<'a> {
    items: &'a [abi::Text],
    life: PhantomData<&'a str>,
}

impl<'a> Strs<'a> {
    /// The number of strings.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// One of the strings, or None.
    pub fn get(&self, index: usize) -> Option<&'a str> {
        self.items.get(index).map(|item| unsafe { text(item.data, item.length) })
    }

    /// The strings.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        self.items.iter().map(|item| unsafe { text(item.data, item.length) })
    }
}

unsafe impl Param for Strs<'_> {
    const TYPE: Type = Type::plain(Form::Strs, "Strs");
    type Slot = ();
    type At<'x> = Strs<'x>;
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<Strs<'x>, Failed> {
        let list = unsafe { (*call.value(place)).payload.list };
        let items = if list.length == 0 {
            &[][..]
        } else {
            unsafe { std::slice::from_raw_parts(list.data.cast(), list.length as usize) }
        };
        Ok(Strs { items, life: PhantomData })
    }
}

/// An enum whose variants are the strings of a signature: see [`choices!`](crate::choices).
#[doc(hidden)]
pub trait Choices: Copy + Sized + 'static {
    const NAMES: &'static [&'static str];
    const ALL: &'static [Self];
    fn index(self) -> usize;
}

#[doc(hidden)]
pub unsafe fn read_choice<C: Choices>(call: RawCall, place: Place) -> Result<C, Failed> {
    let index = unsafe { (*call.value(place)).payload.integer };
    match usize::try_from(index).ok().and_then(|index| C::ALL.get(index)) {
        Some(choice) => Ok(*choice),
        None => Err(call.fail(abi::EFAILED, "the host passes an index that the enum does not have")),
    }
}

/// Defines an enum for the strings of a signature, in their order.
///
/// ```
/// tenon::choices! {
///     /// How to reduce.
///     #[derive(Debug, PartialEq)]
///     pub enum Mode {
///         /// The mean.
///         Mean = "mean",
///         /// The largest.
///         Max = "max",
///     }
/// }
/// #[tenon::module(private)]
/// mod kernels {
///     use super::Mode;
///     #[function("reduce(x: f64[n] c, by: 'mean'|'max' = 'mean') -> float")]
///     fn reduce(x: &[f64], by: Mode) -> f64 {
///         match by {
///             Mode::Mean => x.iter().sum::<f64>() / x.len() as f64,
///             Mode::Max => x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
///         }
///     }
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! choices {
    ($(#[$attribute:meta])* $visibility:vis enum $name:ident {
        $($(#[$inner:meta])* $variant:ident = $text:literal),+ $(,)?
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy)]
        $visibility enum $name { $($(#[$inner])* $variant),+ }
        const _: () = {
            impl $crate::__private::Choices for $name {
                const NAMES: &'static [&'static str] = &[$($text),+];
                const ALL: &'static [Self] = &[$($name::$variant),+];
                fn index(self) -> usize {
                    self as usize
                }
            }
            unsafe impl $crate::Param for $name {
                const TYPE: $crate::__private::Type = $crate::__private::choice_type::<$name>(stringify!($name));
                type Slot = ();
                type At<'x> = $name;
                unsafe fn read<'x>(
                    call: $crate::__private::RawCall,
                    place: $crate::__private::Place,
                    _: &'x (),
                ) -> ::core::result::Result<$name, $crate::__private::Failed> {
                    unsafe { $crate::__private::read_choice(call, place) }
                }
            }
            unsafe impl $crate::ResultValue for $name {
                const TYPE: $crate::__private::Type = $crate::__private::choice_type::<$name>(stringify!($name));
                type At<'x> = $name;
                unsafe fn give<'x>(
                    self_: $name,
                    call: $crate::__private::RawCall,
                    target: $crate::__private::Target,
                ) -> ::core::result::Result<(), $crate::__private::Failed> {
                    unsafe { $crate::__private::give_integer(call, target.index(), self_ as i64) }
                }
            }
        };
    };
}

#[doc(hidden)]
pub const fn choice_type<C: Choices>(name: &'static str) -> Type {
    let mut it = Type::plain(Form::Enum, name);
    it.choices = C::NAMES;
    it
}
