//! Compares a Rust function with its signature, while the crate is compiled.

use crate::dtype::Dtype;
use crate::signature::{Kind, MAX_VARIABLES, Memory, Signature, Slot, Span, name_at};

/// What a parameter or a returned value of a Rust function is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Form {
    Context,
    Slice,
    SliceMut,
    View,
    ViewMut,
    Cells,
    CellsMut,
    Kept,
    Any,
    AnyMut,
    List,
    ListMut,
    Out,
    Open,
    OutList,
    OpenList,
    Int,
    Uint,
    Float,
    Bool,
    Str,
    Strs,
    Enum,
    Complex,
    Dtype,
    Object,
    ObjectMut,
    Bytes,
    Ints,
    Floats,
    /// A returned `Vec`.
    Vec,
    Owned,
    /// A returned reference to `Kept` or `Shared`.
    Shown,
    Callback,
    Batch,
    BatchOut,
    State,
}

impl Form {
    /// Whether it stands for no argument of the signature.
    pub(crate) const fn is_outside(self) -> bool {
        matches!(self, Form::Context | Form::State)
    }
}

/// The description of a Rust type.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Type {
    pub form: Form,
    /// How messages name it: "&[", "f32", "]".
    pub name: [&'static str; 3],
    pub element: Dtype,
    /// The kind of list that a slice of these elements can be instead of a tensor.
    pub list: u32,
    /// The number of dimensions, or -1.
    pub rank: i32,
    pub optional: bool,
    pub class: &'static str,
    pub concurrent: bool,
    pub choices: &'static [&'static str],
    /// Of a callback: the kinds of its arguments and of its result.
    pub passed: &'static [Kind],
    pub returned: Kind,
}

impl Type {
    /// A type without elements.
    pub const fn plain(form: Form, name: &'static str) -> Type {
        Type {
            form,
            name: ["", name, ""],
            element: Dtype::NONE,
            list: 0,
            rank: -1,
            optional: false,
            class: "",
            concurrent: false,
            choices: &[],
            passed: &[],
            returned: Kind::None,
        }
    }

    /// A tensor type.
    pub const fn tensor(form: Form, name: [&'static str; 3], element: Dtype, list: u32, rank: i32) -> Type {
        let mut it = Type::plain(form, "");
        it.name = name;
        it.element = element;
        it.list = list;
        it.rank = rank;
        it
    }

    /// The type as an `Option`.
    pub const fn or_none(mut self) -> Type {
        self.optional = true;
        self
    }
}

/// A message that is written while the crate is compiled. Empty: there is nothing wrong.
#[derive(Clone, Copy)]
pub struct Message {
    bytes: [u8; 2048],
    length: usize,
}

impl Message {
    const fn new() -> Message {
        Message { bytes: [0; 2048], length: 0 }
    }

    const fn push(&mut self, text: &str) {
        self.push_part(text, Span { start: 0, length: text.len() });
    }

    const fn push_part(&mut self, text: &str, part: Span) {
        let mut i = 0;
        while i < part.length && self.length < self.bytes.len() {
            self.bytes[self.length] = text.as_bytes()[part.start + i];
            self.length += 1;
            i += 1;
        }
    }

    const fn push_number(&mut self, number: usize) {
        if number > 9 {
            self.push_number(number / 10);
        }
        const DIGITS: &str = "0123456789";
        self.push_part(DIGITS, Span { start: number % 10, length: 1 });
    }

    /// The name of the function.
    const fn begin(&mut self, text: &str, s: &Signature) {
        if s.class.length > 0 {
            self.push_part(text, s.class);
            self.push(".");
        }
        self.push_part(text, s.name);
        self.push("(): ");
    }

    /// The signature, and a caret.
    const fn end(&mut self, text: &str, position: usize) {
        self.push("\n  ");
        self.push(text);
        self.push("\n  ");
        let (mut i, bytes) = (0, text.as_bytes());
        while i < position && i < bytes.len() {
            if bytes[i] & 0xc0 != 0x80 {
                self.push(" ");
            }
            i += 1;
        }
        self.push("^");
    }

    /// Whether there is nothing wrong.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The text.
    pub const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => "the message is too long",
        }
    }
}

/// The dtypes of the variables in one instance of a function.
pub type Types = [Dtype; MAX_VARIABLES];

/// Finds the dtypes of the variables from the Rust types.
pub(crate) const fn find_types(s: &Signature, params: &[Type], returned: &[Type]) -> Types {
    let mut types = [Dtype::NONE; MAX_VARIABLES];
    let (mut i, mut at) = (0, 0);
    while i < params.len() {
        if !params[i].form.is_outside() {
            note_type(&mut types, slot_at(s, at), &params[i]);
            at += 1;
        }
        i += 1;
    }
    i = 0;
    while i < returned.len() && at >= s.nparams && at - s.nparams + i < s.nresults {
        note_type(&mut types, Some(&s.results[at - s.nparams + i]), &returned[i]);
        i += 1;
    }
    types
}

const fn note_type(types: &mut Types, slot: Option<&Slot>, found: &Type) {
    if let Some(slot) = slot {
        if slot.variable >= 0 && types[slot.variable as usize].bits == 0 {
            types[slot.variable as usize] = found.element;
        }
    }
}

/// The argument or result that parameter `at` of the Rust function stands for.
const fn slot_at(s: &Signature, at: usize) -> Option<&Slot> {
    if at < s.nparams {
        Some(&s.params[at])
    } else if at - s.nparams < s.nresults {
        Some(&s.results[at - s.nparams])
    } else {
        None
    }
}

/// Compares a function with its signature.
pub(crate) const fn check(text: &'static str, s: &Signature, params: &[Type], returned: &[Type]) -> Message {
    let mut m = Message::new();
    if !s.mistake.is_empty() {
        m.push("the signature does not parse: ");
        m.push(s.mistake);
        m.end(text, s.position);
        return m;
    }
    let types = find_types(s, params, returned);
    let (mut i, mut at) = (0, 0);
    while i < params.len() {
        if !params[i].form.is_outside() {
            let Some(slot) = slot_at(s, at) else {
                m.begin(text, s);
                m.push("the Rust function has more parameters than its signature has arguments and results");
                m.end(text, s.name.start);
                return m;
            };
            let is_result = at >= s.nparams;
            let fault = if is_result {
                find_out_fault(slot, &params[i], &types)
            } else {
                find_fault(text, slot, &params[i], &types)
            };
            if report(&mut m, text, s, slot, &params[i], i, is_result, fault) {
                return m;
            }
            at += 1;
        }
        i += 1;
    }
    if at < s.nparams {
        m.begin(text, s);
        m.push("the Rust function has no parameter for this argument");
        m.end(text, s.params[at].name.start);
        return m;
    }
    check_returned(&mut m, text, s, returned, &types, at - s.nparams);
    if m.is_empty() {
        check_references(&mut m, text, s, params);
    }
    m
}

const fn check_returned(
    m: &mut Message,
    text: &'static str,
    s: &Signature,
    returned: &[Type],
    types: &Types,
    first: usize,
) {
    let constructs = !s.arrow && !s.method && returned.len() == 1 && matches!(returned[0].form, Form::Object);
    if constructs && name_at(text, s.name, returned[0].class) {
        return;
    }
    let mut i = 0;
    while i < returned.len() {
        if first + i >= s.nresults {
            m.begin(text, s);
            m.push("the Rust function returns more than its signature");
            m.end(text, s.name.start);
            return;
        }
        let slot = &s.results[first + i];
        let fault = find_return_fault(text, slot, &returned[i], types);
        if report(m, text, s, slot, &returned[i], usize::MAX, true, fault) {
            return;
        }
        i += 1;
    }
    if first + i < s.nresults {
        m.begin(text, s);
        m.push("the Rust function has no `Out` parameter and no returned value for this result");
        m.end(text, s.results[first + i].text.start);
    }
}

/// Writes the message of a fault. False: the fault is empty.
#[allow(clippy::too_many_arguments)]
const fn report(
    m: &mut Message,
    text: &'static str,
    s: &Signature,
    slot: &Slot,
    found: &Type,
    parameter: usize,
    is_result: bool,
    fault: &'static str,
) -> bool {
    if fault.is_empty() {
        return false;
    }
    m.begin(text, s);
    if parameter == usize::MAX {
        m.push("the Rust function returns `");
    } else {
        m.push("parameter ");
        m.push_number(parameter + 1);
        m.push(" of the Rust function is `");
    }
    if found.optional {
        m.push("Option<");
    }
    m.push(found.name[0]);
    m.push(found.name[1]);
    m.push(found.name[2]);
    m.push(if found.optional { ">`, but " } else { "`, but " });
    if is_result {
        m.push("this result");
    } else {
        m.push("the argument '");
        m.push_part(text, slot.name);
        m.push("'");
    }
    m.push(" is '");
    m.push_part(text, slot.text);
    m.push("': ");
    m.push(fault);
    m.end(text, slot.text.start);
    true
}

const fn find_dtype_fault(slot: &Slot, found: &Type, types: &Types) -> &'static str {
    let wanted = if slot.variable >= 0 { types[slot.variable as usize] } else { slot.dtype };
    if slot.is_dynamic() {
        return "its dtype is known only at run time, so take an `AnyTensor`, or a generic function and `where`";
    }
    if !found.element.same(wanted) {
        return "the dtype is another one";
    }
    if found.rank >= 0 && found.rank != slot.rank {
        return "the number of dimensions is another one";
    }
    if slot.batch != matches!(found.form, Form::Batch | Form::BatchOut)
        && !matches!(found.form, Form::Out | Form::SliceMut)
    {
        return if slot.batch {
            "it has a batch, so take a `Batch` or a `BatchOut` of its items"
        } else {
            "it has no batch ('**b')"
        };
    }
    if slot.device {
        return "the memory may be on a device, so take an `AnyTensor`";
    }
    if slot.unaligned {
        return "the memory may be unaligned, so take an `AnyTensor`";
    }
    ""
}

/// A tensor, or a list of tensors.
const fn find_tensor_fault(slot: &Slot, found: &Type, types: &Types) -> &'static str {
    let written =
        matches!(found.form, Form::SliceMut | Form::ViewMut | Form::CellsMut | Form::AnyMut | Form::ListMut);
    if slot.written && !written && !matches!(found.form, Form::Cells) {
        return "it is written to ('rw'), so take a `&mut [T]`, a `ViewMut` or `CellsMut`";
    }
    if !slot.written && written {
        return "it is not written to; add 'rw' to the signature, or take a shared reference";
    }
    if matches!(found.form, Form::Any | Form::AnyMut) {
        return "";
    }
    if matches!(found.form, Form::Slice | Form::SliceMut) && !slot.contiguous {
        return "a slice needs 'c' in the signature; a `View` takes any strides";
    }
    if matches!(found.form, Form::Kept) && !slot.keep {
        return "only an argument with 'keep' can be kept";
    }
    find_dtype_fault(slot, found, types)
}

const KIND_FAULT: &str = "that is another kind of value";

const fn find_fault(text: &'static str, slot: &Slot, found: &Type, types: &Types) -> &'static str {
    if slot.optional && !found.optional {
        return "the argument may be None, so take an `Option`";
    }
    if found.optional && !slot.optional {
        return "the argument is never None; add '?' to the signature";
    }
    let is_list = match slot.kind {
        Kind::Ints => found.list == crate::abi::kind::INTS,
        Kind::Floats => found.list == crate::abi::kind::FLOATS,
        Kind::Bytes => found.list == crate::abi::kind::BYTES,
        _ => false,
    };
    let fits = match slot.kind {
        Kind::Tensor => {
            let fits = matches!(
                found.form,
                Form::Slice
                    | Form::SliceMut
                    | Form::View
                    | Form::ViewMut
                    | Form::Cells
                    | Form::CellsMut
                    | Form::Kept
                    | Form::Any
                    | Form::AnyMut
                    | Form::Batch
            );
            return if fits { find_tensor_fault(slot, found, types) } else { KIND_FAULT };
        }
        Kind::Tensors => {
            let fits = matches!(found.form, Form::List | Form::ListMut);
            return if fits { find_tensor_fault(slot, found, types) } else { KIND_FAULT };
        }
        Kind::Handle => {
            if !matches!(found.form, Form::Object | Form::ObjectMut) {
                return KIND_FAULT;
            }
            if matches!(found.form, Form::ObjectMut) && found.concurrent {
                return "calls on one object of a concurrent class run at the same time, so take a shared reference";
            }
            return if name_at(text, slot.class, found.class) { "" } else { "that is another class" };
        }
        Kind::Enum => {
            return if matches!(found.form, Form::Enum) {
                find_choice_fault(text, slot, found)
            } else {
                KIND_FAULT
            };
        }
        Kind::Int => matches!(found.form, Form::Int),
        Kind::Uint => matches!(found.form, Form::Uint),
        Kind::Float => matches!(found.form, Form::Float),
        Kind::Bool => matches!(found.form, Form::Bool),
        Kind::Str => matches!(found.form, Form::Str),
        Kind::Complex => matches!(found.form, Form::Complex),
        Kind::Strs => matches!(found.form, Form::Strs),
        Kind::Dtype => matches!(found.form, Form::Dtype),
        Kind::Ints | Kind::Floats | Kind::Bytes => matches!(found.form, Form::Slice) && is_list,
        Kind::Callable => {
            return if matches!(found.form, Form::Callback) {
                find_callback_fault(text, slot, found)
            } else {
                KIND_FAULT
            };
        }
        Kind::None => false,
    };
    if fits { "" } else { KIND_FAULT }
}

/// The arguments and the result of a callback.
const fn find_callback_fault(text: &'static str, slot: &Slot, found: &Type) -> &'static str {
    let (_, rest) = text.as_bytes().split_at(slot.class.start);
    let Ok(inner) = core::str::from_utf8(rest.split_at(slot.class.length).0) else {
        return KIND_FAULT;
    };
    let s = crate::signature::parse(inner);
    if !s.mistake.is_empty() {
        return s.mistake;
    }
    if has_batch(inner.as_bytes()) {
        return "an argument of a callback is not a batch: write '*b' instead of '**b'";
    }
    if s.nparams != found.passed.len() {
        return "the callback has another number of arguments";
    }
    let mut i = 0;
    while i < s.nparams {
        if s.params[i].kind as u8 != found.passed[i] as u8 || s.params[i].optional {
            return "an argument of the callback is of another kind";
        }
        i += 1;
    }
    let returned = if s.nresults == 0 { Kind::None } else { s.results[0].kind };
    if s.nresults > 1 || returned as u8 != found.returned as u8 {
        return "the callback returns another kind of value";
    }
    ""
}

const fn has_batch(signature: &[u8]) -> bool {
    let (mut i, mut star) = (0, false);
    while i < signature.len() {
        if star && signature[i] == b'*' {
            return true;
        }
        star = signature[i] == b'*' || (star && signature[i].is_ascii_whitespace());
        i += 1;
    }
    false
}

const fn find_choice_fault(text: &'static str, slot: &Slot, found: &Type) -> &'static str {
    const FAULT: &str = "the strings of the enum are other ones";
    if slot.choices != found.choices.len() {
        return FAULT;
    }
    let (mut at, mut i, bytes) = (slot.choices_at, 0, text.as_bytes());
    while i < slot.choices {
        while bytes[at] != b'\'' && bytes[at] != b'"' {
            at += 1;
        }
        let choice = found.choices[i];
        let span = Span { start: at + 1, length: choice.len() };
        if at + 1 + choice.len() >= bytes.len()
            || !name_at(text, span, choice)
            || bytes[at + 1 + choice.len()] != bytes[at]
        {
            return FAULT;
        }
        at += choice.len() + 2;
        i += 1;
    }
    ""
}

/// A parameter for a result.
const fn find_out_fault(slot: &Slot, found: &Type, types: &Types) -> &'static str {
    if found.optional {
        return "a result is not an `Option`";
    }
    match slot.kind {
        Kind::Tensor if !matches!(slot.memory, Memory::Host) => "the function returns this memory",
        Kind::Tensor => match found.form {
            Form::Out | Form::SliceMut if slot.open => {
                "only the function knows its size, so take an `Open`, or return a `Vec`"
            }
            Form::AnyMut if !slot.open => "",
            Form::CellsMut if !slot.open => find_dtype_fault(slot, found, types),
            Form::BatchOut if !slot.open => find_dtype_fault(slot, found, types),
            Form::Open if !slot.open => "the host allocates it, so take an `Out`",
            Form::Out | Form::SliceMut | Form::Open => find_dtype_fault(slot, found, types),
            _ => "take an `Out<T>`",
        },
        Kind::Tensors => match found.form {
            Form::OutList if slot.each => find_dtype_fault(slot, found, types),
            Form::OpenList if !slot.each => find_dtype_fault(slot, found, types),
            _ => "take an `OutList` for a result \"for xs\", and otherwise an `OpenList`",
        },
        _ => "the function returns a value that is not a tensor",
    }
}

/// A returned value for a result.
const fn find_return_fault(text: &'static str, slot: &Slot, found: &Type, types: &Types) -> &'static str {
    if found.optional != slot.optional {
        return if slot.optional { "it may be None, so return an `Option`" } else { "it is never None" };
    }
    let fits = match slot.kind {
        Kind::Tensor => {
            if !slot.open {
                return "the host allocates this result, so take an `Out` parameter";
            }
            let fits = match found.form {
                Form::Vec => matches!(slot.memory, Memory::Own | Memory::Host),
                Form::Owned => matches!(slot.memory, Memory::Own),
                Form::Shown => matches!(slot.memory, Memory::OfSelf) && !slot.written,
                Form::Slice | Form::View => matches!(slot.memory, Memory::OfArgument),
                _ => false,
            };
            return match slot.memory {
                _ if fits => find_dtype_fault(slot, found, types),
                Memory::OfSelf if slot.written => {
                    "memory of an object cannot be written to from outside in Rust"
                }
                Memory::OfSelf => "return a reference to a `Kept` or a `Shared`",
                Memory::OfArgument => "return a slice or a `View` of the argument",
                Memory::Own => "return a `Vec` or an `Owned`",
                Memory::Host => "return a `Vec`, or take an `Open` parameter",
            };
        }
        Kind::Handle => {
            if !matches!(found.form, Form::Object) {
                return KIND_FAULT;
            }
            return if name_at(text, slot.class, found.class) { "" } else { "that is another class" };
        }
        Kind::Enum => {
            return if matches!(found.form, Form::Enum) {
                find_choice_fault(text, slot, found)
            } else {
                KIND_FAULT
            };
        }
        Kind::Int => matches!(found.form, Form::Int),
        Kind::Uint => matches!(found.form, Form::Uint),
        Kind::Float => matches!(found.form, Form::Float),
        Kind::Bool => matches!(found.form, Form::Bool),
        Kind::Str => matches!(found.form, Form::Str),
        Kind::Complex => matches!(found.form, Form::Complex),
        Kind::Bytes => matches!(found.form, Form::Vec) && found.list == crate::abi::kind::BYTES,
        Kind::Ints => matches!(found.form, Form::Vec) && found.list == crate::abi::kind::INTS,
        Kind::Floats => matches!(found.form, Form::Vec) && found.list == crate::abi::kind::FLOATS,
        Kind::Strs => matches!(found.form, Form::Strs),
        _ => false,
    };
    if fits { "" } else { KIND_FAULT }
}

/// References are exclusive or read-only memory: what the host lets overlap must be cells.
const fn check_references(m: &mut Message, text: &'static str, s: &Signature, params: &[Type]) {
    let (mut any, mut i) = (false, 0);
    while i < s.nparams + s.nresults {
        if let Some(slot) = slot_at(s, i) {
            any |= slot.alias;
        }
        i += 1;
    }
    let (mut i, mut at, mut calls) = (0, 0, false);
    while i < params.len() {
        calls |= matches!(params[i].form, Form::Callback);
        i += 1;
    }
    i = 0;
    while i < params.len() {
        if !params[i].form.is_outside() {
            if let Some(slot) = slot_at(s, at) {
                let reference = matches!(
                    params[i].form,
                    Form::Slice
                        | Form::SliceMut
                        | Form::View
                        | Form::ViewMut
                        | Form::List
                        | Form::ListMut
                        | Form::Batch
                ) && matches!(slot.kind, Kind::Tensor | Kind::Tensors);
                let exclusive = matches!(
                    params[i].form,
                    Form::Out | Form::OutList | Form::Open | Form::OpenList | Form::BatchOut
                );
                if (reference || (exclusive && (slot.alias || slot.inplace.length > 0)))
                    && (any || slot.inplace.length > 0 || is_target(text, s, slot))
                {
                    let fault = "it may share memory with another tensor of the call ('alias' or 'inplace'), so take \
                                 `Cells` or `CellsMut`";
                    report(m, text, s, slot, &params[i], i, at >= s.nparams, fault);
                    return;
                }
                if matches!(slot.kind, Kind::Bytes) && calls {
                    let fault =
                        "the callback may change the bytes, so let the argument be 'u8[n]', and take `Cells`";
                    report(m, text, s, slot, &params[i], i, false, fault);
                    return;
                }
                if reference && calls {
                    let fault = "the callback may change it, so take `Cells` or `CellsMut`";
                    report(m, text, s, slot, &params[i], i, at >= s.nparams, fault);
                    return;
                }
            }
            at += 1;
        }
        i += 1;
    }
}

/// Whether some "inplace(x)" names this argument.
const fn is_target(text: &'static str, s: &Signature, slot: &Slot) -> bool {
    let mut i = 0;
    while i < s.nparams + s.nresults {
        if let Some(other) = slot_at(s, i) {
            if other.inplace.length > 0 && other.inplace.length == slot.name.length {
                let (mut k, mut same) = (0, true);
                while k < slot.name.length {
                    same &= text.as_bytes()[other.inplace.start + k] == text.as_bytes()[slot.name.start + k];
                    k += 1;
                }
                if same {
                    return true;
                }
            }
        }
        i += 1;
    }
    false
}
