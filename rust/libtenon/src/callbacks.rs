//! Functions of the caller as arguments.

use std::marker::PhantomData;
use std::panic::resume_unwind;

use crate::abi::{self, Payload, Value, kind};
use crate::call::{Failed, RawCall, Stop};
use crate::check::{Form, Type};
use crate::error::{Error, Result};
use crate::function::{Param, Place};
use crate::signature::Kind;
use crate::tensors::AnyTensor;

/// A type that can be an argument of a callback: `f64`, `i64`, `bool`, `&str` and [`AnyTensor`].
///
/// # Safety
/// `value` makes a value of this kind.
pub unsafe trait CallbackArgument {
    #[doc(hidden)]
    const KIND: Kind;
    /// The same type with another lifetime.
    #[doc(hidden)]
    type At<'x>;
    #[doc(hidden)]
    fn value(given: &Self::At<'_>) -> Value;
}

/// A type that a callback can return: `f64`, `i64`, `bool` and `()`.
///
/// # Safety
/// `of` reads a value of this kind.
pub unsafe trait CallbackResult: Sized {
    #[doc(hidden)]
    const KIND: Kind;
    #[doc(hidden)]
    fn of(value: &Value) -> Self;
}

/// The arguments of a callback, as a tuple.
///
/// # Safety
/// `values` makes values of these kinds.
pub unsafe trait CallbackArguments {
    #[doc(hidden)]
    const KINDS: &'static [Kind];
    #[doc(hidden)]
    type At<'x>;
    #[doc(hidden)]
    fn values(given: &Self::At<'_>) -> Vec<Value>;
}

const fn value(kind: u32, payload: Payload) -> Value {
    Value { kind, flags: 0, payload, reserved: 0 }
}

macro_rules! number {
    ($type:ty, $kind:ident, $constant:ident, |$it:ident| $payload:expr, |$value:ident| $read:expr) => {
        unsafe impl CallbackArgument for $type {
            const KIND: Kind = Kind::$kind;
            type At<'x> = $type;
            fn value(given: &$type) -> Value {
                let $it = *given;
                value(kind::$constant, $payload)
            }
        }
        unsafe impl CallbackResult for $type {
            const KIND: Kind = Kind::$kind;
            fn of(value: &Value) -> $type {
                let $value = &value.payload;
                unsafe { $read }
            }
        }
    };
}

number!(f64, Float, FLOAT, |it| Payload { number: it }, |value| value.number);
number!(i64, Int, INT, |it| Payload { integer: it }, |value| value.integer);
number!(bool, Bool, BOOL, |it| Payload { integer: it.into() }, |value| value.integer != 0);

unsafe impl CallbackArgument for &str {
    const KIND: Kind = Kind::Str;
    type At<'x> = &'x str;
    fn value(given: &&str) -> Value {
        value(
            kind::STR,
            Payload { list: abi::List { data: given.as_ptr().cast(), length: given.len() as i64 } },
        )
    }
}

unsafe impl CallbackArgument for AnyTensor<'_> {
    const KIND: Kind = Kind::Tensor;
    type At<'x> = AnyTensor<'x>;
    fn value(given: &AnyTensor<'_>) -> Value {
        value(kind::TENSOR, Payload { view: given.raw() })
    }
}

unsafe impl CallbackResult for () {
    const KIND: Kind = Kind::None;
    fn of(_: &Value) {}
}

macro_rules! arguments {
    ($($name:ident $index:tt),*) => {
        unsafe impl<$($name: CallbackArgument),*> CallbackArguments for ($($name,)*) {
            const KINDS: &'static [Kind] = &[$($name::KIND),*];
            type At<'x> = ($($name::At<'x>,)*);
            #[allow(unused_variables)]
            fn values(given: &Self::At<'_>) -> Vec<Value> {
                vec![$($name::value(&given.$index)),*]
            }
        }
    };
}

arguments!();
arguments!(A 0);
arguments!(A 0, B 1);
arguments!(A 0, B 1, C 2);
arguments!(A 0, B 1, C 2, D 3);

/// A function of the caller, `callable('(x: float, i: int) -> float')`.
///
/// The callback may write to every array of the caller. So a function that has one takes its tensors as [`Cells`](crate::Cells),
/// [`CellsMut`](crate::CellsMut) or [`AnyTensor`], not as references.
///
/// ```
/// #[tenon::module(private)]
/// mod kernels {
///     use tenon::{Callback, Result};
///     #[function("root(f: callable('(x: float) -> float'), low: float, high: float) -> float")]
///     fn root(f: Callback<(f64,), f64>, mut low: f64, mut high: f64) -> Result<f64> {
///         while high - low > 1e-9 {
///             let middle = (low + high) / 2.0;
///             if f.call((middle,))? < 0.0 { low = middle } else { high = middle }
///         }
///         Ok(low)
///     }
/// }
/// ```
pub struct Callback<'a, Args, R> {
    call: RawCall,
    index: usize,
    life: PhantomData<&'a ()>,
    signature: PhantomData<fn(Args) -> R>,
}

impl<Args: CallbackArguments, R: CallbackResult> Callback<'_, Args, R> {
    /// Calls it. If it fails, the function ends here, as a panic ends one, and the caller gets the callback's exception: the memory of
    /// the arguments may be gone. An error means that the host has no callbacks.
    pub fn call(&self, arguments: Args::At<'_>) -> Result<R> {
        let service = self.call.host().callback.ok_or_else(|| Error::failed("this host has no callbacks"))?;
        let values = Args::values(&arguments);
        let mut result = [value(kind::NONE, Payload { parts: [0.0; 2] })];
        let status = unsafe { service(self.call.0, self.index as i32, values.as_ptr(), result.as_mut_ptr()) };
        if status != abi::OK {
            resume_unwind(Box::new(Stop));
        }
        Ok(R::of(&result[0]))
    }
}

const fn callback_type<Args: CallbackArguments, R: CallbackResult>() -> Type {
    let mut it = Type::plain(Form::Callback, "Callback");
    it.passed = Args::KINDS;
    it.returned = R::KIND;
    it
}

unsafe impl<Args: CallbackArguments, R: CallbackResult> Param for Callback<'_, Args, R> {
    const TYPE: Type = callback_type::<Args, R>();
    type Slot = ();
    type At<'x> = Callback<'x, Args, R>;
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<Self::At<'x>, Failed> {
        Ok(Callback { call, index: place.index, life: PhantomData, signature: PhantomData })
    }
}
