//! Signatures, parsed while the crate is compiled.
//!
//! The parser reads what the comparison with the Rust types needs. It finds most mistakes; the host, which compiles the
//! signature when the library is loaded, finds the rest.

mod parser;
mod words;

pub(crate) use parser::parse;
pub(crate) use words::name_at;

use crate::dtype::Dtype;

/// What a parameter or a result of a signature is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    None,
    Tensor,
    Int,
    Float,
    Bool,
    Str,
    Enum,
    Ints,
    Floats,
    Tensors,
    Handle,
    Complex,
    Uint,
    Bytes,
    Strs,
    Dtype,
    Callable,
}

/// A part of the text.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub start: usize,
    pub length: usize,
}

impl Span {
    pub const EMPTY: Span = Span { start: 0, length: 0 };
}

/// Whose memory a result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// The host's.
    Host,
    /// "own": the function's.
    Own,
    /// "of(self)".
    OfSelf,
    /// "of(x)".
    OfArgument,
}

/// A parameter or a result.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub kind: Kind,
    pub name: Span,
    pub text: Span,
    pub optional: bool,
    pub written: bool,
    pub keep: bool,
    /// No gaps, in some order.
    pub contiguous: bool,
    /// A result that the host does not allocate.
    pub open: bool,
    pub unaligned: bool,
    pub alias: bool,
    pub inplace: Span,
    pub memory: Memory,
    /// May be in memory that the CPU cannot read.
    pub device: bool,
    /// -1: any number of dimensions. Of a batch: those of an item.
    pub rank: i32,
    /// Its first dimensions are a batch, `**b`.
    pub batch: bool,
    pub dtype: Dtype,
    /// The index of the dtype variable, or -1.
    pub variable: i32,
    /// The name of the class of an object, or the signature of a callable.
    pub class: Span,
    /// Of an enum: the first string, and how many there are.
    pub choices_at: usize,
    pub choices: usize,
    /// Of `ints[3]`: 3; 0 if any length is accepted.
    pub length: usize,
    /// Of a list of results: "for xs".
    pub each: bool,
}

impl Slot {
    pub const EMPTY: Slot = Slot {
        kind: Kind::None,
        name: Span::EMPTY,
        text: Span::EMPTY,
        optional: false,
        written: false,
        keep: false,
        contiguous: false,
        open: false,
        unaligned: false,
        alias: false,
        inplace: Span::EMPTY,
        memory: Memory::Host,
        device: false,
        rank: 0,
        batch: false,
        dtype: Dtype::NONE,
        variable: -1,
        class: Span::EMPTY,
        choices_at: 0,
        choices: 0,
        length: 0,
        each: false,
    };

    /// Whether the dtype is known only at run time.
    pub const fn is_dynamic(&self) -> bool {
        self.variable < 0 && self.dtype.bits == 0
    }
}

pub const MAX_PARAMETERS: usize = 32;
pub const MAX_RESULTS: usize = 16;
pub const MAX_VARIABLES: usize = 8;

/// A parsed signature.
#[derive(Clone, Copy)]
pub struct Signature {
    /// The message of the first mistake, or "".
    pub mistake: &'static str,
    pub position: usize,
    pub name: Span,
    pub class: Span,
    pub method: bool,
    pub arrow: bool,
    pub nparams: usize,
    pub nresults: usize,
    pub nvariables: usize,
    pub params: [Slot; MAX_PARAMETERS],
    pub results: [Slot; MAX_RESULTS],
    pub variables: [Span; MAX_VARIABLES],
}
