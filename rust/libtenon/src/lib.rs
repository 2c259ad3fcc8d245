//! Write a function once, in Rust, and call it with the tensors of NumPy, PyTorch, JAX, CuPy, TensorFlow and Elixir, without copying
//! a byte.
//!
//! ```
//! #![forbid(unsafe_code)]
//! /// Kernels written once.
//! #[tenon::module(private)] // without `private` in a library: see below
//! mod kernels {
//!     use tenon::{Kept, Out, Result};
//!
//!     /// Returns a*x + y.
//!     #[function("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]")]
//!     fn saxpy(a: f64, x: &[f32], y: &[f32], mut z: Out<f32>) {
//!         z.write_all(x.iter().zip(y).map(|(x, y)| a as f32 * x + y));
//!     }
//!
//!     #[class]
//!     struct Table { rows: Kept<f32> }
//!     impl Table {
//!         #[function("Table(rows: f32[n] c keep)")]
//!         fn new(rows: Kept<f32>) -> Table { Table { rows } }
//!
//!         #[function("Table.sums(self) -> f32[?] own")]
//!         fn sums(&self) -> Result<Vec<f32>> {
//!             let mut sum = 0.0;
//!             Ok(self.rows.cells().iter().map(|x| { sum += x; sum }).collect())
//!         }
//!     }
//! }
//! ```
//!
//! The crate type of a library is `cdylib`, and `cargo build --release` makes the file that `tenon.load` opens in Python:
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib"]
//! ```
//!
//! The signature says which arguments a function takes and what it returns (`docs/signatures.md`). The compiler compares it with the
//! Rust types:
//!
//! | in the signature | in Rust |
//! |---|---|
//! | `float`, `int`, `uint`, `bool`, `complex` | `f64` (or `f32`), `i64`, `u64`, `bool`, [`Complex<f64>`](Complex) |
//! | `str`, `bytes`, `strs`, `dtype` | `&str`, `&[u8]`, [`Strs`], [`Dtype`] |
//! | `'mean'\|'sum'` | an enum of [`choices!`] |
//! | `ints`, `floats` | `&[i64]`, `&[f64]` |
//! | `f32[n] c` | `&[f32]` |
//! | `f32[n, d]` | [`View<f32, 2>`](View), or [`Cells<f32, 2>`](Cells) |
//! | `f32[n] c rw` | `&mut [f32]` |
//! | `f32[n, d] rw` | [`ViewMut<f32, 2>`](ViewMut), or [`CellsMut<f32, 2>`](CellsMut) |
//! | `f32[n] keep` | [`Kept<f32>`](Kept) |
//! | `f32[n] cuda`, `any[n]`, `f32[n] unaligned` | [`AnyTensor`], [`AnyTensorMut`] |
//! | `f32[**b, n]` | [`Batch<f32, 1>`](Batch), and [`BatchOut`] as a result |
//! | `T[n] … where T = f32\|f64` | a generic function |
//! | `[f32[n, d]]`, with `rw` | [`List<f32, 2>`](List), [`ListMut<f32, 2>`](ListMut) |
//! | `callable('(x: float) -> float')` | [`Callback<(f64,), f64>`](Callback) |
//! | `handle('Table')`, `self` | `&Table`, `&mut Table` |
//! | a `?` after any of these | `Option` |
//!
//! Parameters after the last argument are results: [`Out`], `&mut [T]` (filled with zeros), [`Open`] if the size has a `?`,
//! [`OutList`] and [`OpenList`]. Returned values are the results after them: numbers, `String`, a class, `Vec<T>`
//! (without a copy if the result is `own`), [`Owned`], references to [`Kept`] and [`Shared`] (`of(self)`), slices and views
//! (`of(x)`), `Option` of these, tuples, and `Result` with any error that has `Display`.
//!
//! # Safety
//!
//! Code without `unsafe` cannot cause undefined behaviour that Tenon could see:
//!
//! - `&mut` memory overlaps no other argument, which the host checks in every call, and no memory that an object keeps, which this
//!   crate checks. References to tensors with `alias`, `inplace` or `unaligned` do not compile: take [`Cells`].
//! - An object that is passed twice to a function that changes one of the two is refused.
//! - [`Kept`] memory is copied out; a tensor of bools has elements of the type [`Bool`]; an [`Out`] that is not filled fails the call.
//! - No function of the library writes to memory of a [`Shared`] that an array of the caller shows.
//! - A function that has a [`Callback`] takes tensors as [`Cells`], because the callback may change them. It ends if the callback fails.
//! - A panic fails the call with a RuntimeError, also one in `Drop` or in the `Display` of an error. With `panic = "abort"` in the
//!   profile it ends the process, as it does everywhere: leave that out.
//!
//! As with rust-numpy, what other threads of Python do is outside of this: while a function runs without the interpreter lock (large
//! arguments, or the flag `release_lock`), Python code on another thread can write to an array whose elements are `&[T]` here, or
//! pass it to another function that writes to it. Take [`Cells`] if that must not matter.

#![warn(missing_docs)]
#![allow(clippy::missing_safety_doc)]

extern crate self as tenon;

/// The examples of the pages are compiled with the others.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
#[doc = include_str!("../README.md")]
mod pages {}

pub mod abi;
mod batches;
mod call;
mod callbacks;
mod check;
mod dtype;
mod error;
mod function;
#[cfg(feature = "host")]
pub mod host;
mod kept;
mod modules;
mod objects;
mod outs;
#[cfg(feature = "pyo3")]
pub mod python;
mod results;
mod shapes;
mod signature;
mod state;
mod tensors;
#[cfg(feature = "torch")]
pub mod torch;
mod values;

pub use batches::{Batch, BatchElements, BatchInputs, BatchOut};
pub use call::Call;
pub use callbacks::{Callback, CallbackArgument, CallbackArguments, CallbackResult};
pub use dtype::{Bf16, Bool, Complex, Device, Dtype, Element, F16};
pub use error::{Error, Result};
pub use function::Param;
pub use kept::{Kept, Shared};
pub use objects::Class;
pub use outs::{Open, OpenList, Out};
pub use results::{Owned, ResultValue, Return};
pub use shapes::Shapes;
pub use state::State;
pub use tenon_macros::module;
pub use tensors::{AnyTensor, AnyTensorMut, Cells, CellsMut, List, ListMut, OutList, View, ViewMut};
pub use values::Strs;

/// For the macros of this crate.
#[doc(hidden)]
pub mod __private {
    pub use crate::call::{Failed, RawCall};
    pub use crate::check::Type;
    pub use crate::function::{
        Instance, Place, Text, check, class_entry, clean_doc, entry, instance, module,
    };
    pub use crate::objects::{give_object, returned_object_type};
    pub use crate::results::{Target, give_integer};
    pub use crate::shapes::shape_of;
    pub use crate::state::{StateFns, state_of};
    pub use crate::values::{Choices, choice_type, read_choice};

    /// Stops the compiler with a message, at the place of the caller.
    #[track_caller]
    pub const fn report(message: crate::check::Message) {
        if !message.is_empty() {
            panic!("{}", message.as_str());
        }
    }

    /// Whether a type can be a parameter: the attribute asks for each one, so that the error is at its place.
    pub const fn parameter<P: crate::Param>() {}
}
