//! Calls a Rust function with the arguments of a call.

use std::ffi::c_void;

use crate::abi::{self, CallFn, Status};
use crate::call::{Failed, RawCall, guard};
use crate::check::{self, Form, Message, Type, Types};
use crate::error::Result;
use crate::results::{Return, Targets};
use crate::signature::{self, Signature};
use crate::state::StateFns;

/// Where a parameter gets its value from.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Place {
    pub(crate) result: bool,
    pub(crate) index: usize,
    /// Its position among the tensors that have the batch.
    pub(crate) batch: usize,
    /// Another parameter, or a callback, may reach the memory that the caller has passed for a result (`out=`).
    pub(crate) shared: bool,
}

/// A type that can be a parameter of a function.
///
/// # Safety
/// `TYPE` describes what `read` makes: the signature is compared with it, and `read` does not check anything else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a Tenon function",
    label = "this type is not supported",
    note = "supported: `&[T]`, `&mut [T]`, `View`, `Cells`, `Kept`, `Out`, `AnyTensor`, lists, `f64`, `i64`, `u64`, `bool`, `&str`, \
            enums of `choices!`, references to classes, `Call`, and `Option` of them"
)]
pub unsafe trait Param: Sized {
    #[doc(hidden)]
    const TYPE: Type;
    /// What outlives the parameter until the call has ended.
    #[doc(hidden)]
    type Slot: Default;
    /// The same type with another lifetime.
    #[doc(hidden)]
    type At<'x>;
    #[doc(hidden)]
    unsafe fn read<'x>(call: RawCall, place: Place, slot: &'x Self::Slot) -> Result<Self::At<'x>, Failed>;
    /// Checks what the function did with it.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn finish(_call: RawCall, _place: Place, _slot: &Self::Slot) -> Result<(), Failed> {
        Ok(())
    }
}

unsafe impl<P: Param> Param for Option<P> {
    const TYPE: Type = P::TYPE.or_none();
    type Slot = P::Slot;
    type At<'x> = Option<P::At<'x>>;
    #[inline(always)]
    unsafe fn read<'x>(call: RawCall, place: Place, slot: &'x P::Slot) -> Result<Self::At<'x>, Failed> {
        unsafe {
            if (*call.value(place)).kind == abi::kind::NONE {
                return Ok(None);
            }
            P::read(call, place, slot).map(Some)
        }
    }
}

/// The text of a signature.
#[doc(hidden)]
pub trait Text {
    const TEXT: &'static str;
    const PARSED: Signature = signature::parse(Self::TEXT);
}

/// A function with these parameters and this result.
#[doc(hidden)]
pub trait Callable<Args, R>: Copy + 'static {}

/// A list of parameters.
#[doc(hidden)]
pub trait Params {
    const TYPES: &'static [Type];
    type At<'x>;
}

/// A function that takes these parameters with this lifetime.
#[doc(hidden)]
pub trait CallAt<'x, Args: Params, R: Return> {
    fn call_at(&self, arguments: Args::At<'x>) -> R::At<'x>;
}

/// A function that can be called with the arguments of a call, whatever their lifetime.
#[doc(hidden)]
pub trait Invoke<Args, R>: Copy + 'static {
    unsafe fn invoke<S: Text>(call: RawCall) -> Result<(), Failed>;
}

/// Whether the parameters include two objects of which one is exclusive.
const fn may_alias(types: &[Type]) -> bool {
    let (mut objects, mut exclusive, mut i) = (0, 0, 0);
    while i < types.len() {
        match types[i].form {
            Form::ObjectMut => exclusive += 1,
            Form::Object => objects += 1,
            _ => {}
        }
        i += 1;
    }
    exclusive > 0 && objects + exclusive > 1
}

/// A bit for each result that is "own".
const fn owned(s: &Signature) -> u32 {
    let (mut bits, mut i) = (0, 0);
    while i < s.nresults {
        if matches!(s.results[i].memory, signature::Memory::Own) {
            bits |= 1 << i;
        }
        i += 1;
    }
    bits
}

/// Whether memory of the caller that a result is written to may be that of another parameter, or be seen by a callback.
const fn shares_results(s: &Signature, types: &[Type]) -> bool {
    let (mut i, mut shares) = (0, false);
    while i < types.len() {
        shares |= matches!(types[i].form, Form::Callback);
        i += 1;
    }
    i = 0;
    while i < s.nparams + s.nresults {
        shares |= if i < s.nparams { s.params[i].alias } else { s.results[i - s.nparams].alias };
        i += 1;
    }
    shares
}

/// For each argument and result, how many before it have the batch.
const fn batches(s: &Signature) -> [usize; signature::MAX_PARAMETERS + signature::MAX_RESULTS + 1] {
    let (mut before, mut i) = ([0; signature::MAX_PARAMETERS + signature::MAX_RESULTS + 1], 0);
    while i < s.nparams + s.nresults {
        let slot = if i < s.nparams { &s.params[i] } else { &s.results[i - s.nparams] };
        before[i + 1] = before[i] + slot.batch as usize;
        i += 1;
    }
    before
}

/// Refuses an object that is passed twice if one of the references to it is exclusive.
#[cold]
unsafe fn refuse_aliases(call: RawCall, types: &[Type]) -> Result<(), Failed> {
    let objects = types.iter().filter(|t| !t.form.is_outside()).enumerate();
    let objects: Vec<_> = objects.filter(|(_, t)| matches!(t.form, Form::Object | Form::ObjectMut)).collect();
    for (k, (i, one)) in objects.iter().enumerate() {
        for (j, other) in &objects[..k] {
            let (a, b) = unsafe { (&*call.arg(*i), &*call.arg(*j)) };
            let given = a.kind == abi::kind::HANDLE && b.kind == abi::kind::HANDLE;
            let exclusive = one.form == Form::ObjectMut || other.form == Form::ObjectMut;
            if given && exclusive && unsafe { a.payload.handle.object == b.payload.handle.object } {
                let (first, second, class) = (call.name(*j), call.name(*i), one.class);
                let message = format!(
                    "arguments '{first}' and '{second}' are the same {class}, and the function changes one of them"
                );
                return Err(call.fail(abi::EINVAL, &message));
            }
        }
    }
    Ok(())
}

macro_rules! functions {
    ($($name:ident)*) => {
        impl<Func, R, $($name),*> Callable<($($name,)*), R> for Func where Func: Fn($($name),*) -> R + Copy + 'static {}

        impl<$($name: Param),*> Params for ($($name,)*) {
            const TYPES: &'static [Type] = &[$($name::TYPE),*];
            type At<'x> = ($($name::At<'x>,)*);
        }

        impl<'x, Func, R: Return, $($name: Param),*> CallAt<'x, ($($name,)*), R> for Func
        where
            Func: Fn($($name::At<'x>),*) -> R::At<'x>,
        {
            #[inline(always)]
            #[allow(non_snake_case, unused_variables)]
            fn call_at(&self, arguments: ($($name::At<'x>,)*)) -> R::At<'x> {
                let ($($name,)*) = arguments;
                self($($name),*)
            }
        }

        impl<Func, R: Return, $($name: Param),*> Invoke<($($name,)*), R> for Func
        where
            Func: for<'x> CallAt<'x, ($($name,)*), R> + Copy + 'static,
        {
            #[inline(always)]
            #[allow(non_snake_case, unused_mut, unused_variables, unused_assignments, clippy::unused_unit)]
            unsafe fn invoke<Sig: Text>(call: RawCall) -> Result<(), Failed> {
                const { assert!(size_of::<Func>() == 0, "the function must be a function item") };
                if const { may_alias(<($($name,)*) as Params>::TYPES) } {
                    unsafe { refuse_aliases(call, <($($name,)*) as Params>::TYPES)? };
                }
                let nparams = const { Sig::PARSED.nparams };
                let batches = const { batches(&Sig::PARSED) };
                let shared = const { shares_results(&Sig::PARSED, <($($name,)*) as Params>::TYPES) };
                let mut at = 0;
                // Parameters after the last argument are results.
                let mut next = |form: Form| {
                    let batch = batches[at];
                    let place = if at < nparams {
                        Place { result: false, index: at, batch, shared }
                    } else {
                        Place { result: true, index: at - nparams, batch, shared }
                    };
                    at += !form.is_outside() as usize;
                    place
                };
                $(let $name = (next($name::TYPE.form), <$name::Slot>::default());)*
                // A function item has no data: any value of its type is the function.
                let function = unsafe { std::ptr::NonNull::<Func>::dangling().as_ref() };
                let value = function.call_at(($(unsafe { $name::read(call, $name.0, &$name.1)? },)*));
                let targets = Targets { first: at.saturating_sub(nparams), own: const { owned(&Sig::PARSED) } };
                unsafe { R::give(value, call, targets)? };
                $(unsafe { $name::finish(call, $name.0, &$name.1)? };)*
                Ok(())
            }
        }
    };
}

functions! {}
functions! { A }
functions! { A B }
functions! { A B C }
functions! { A B C D }
functions! { A B C D E }
functions! { A B C D E F }
functions! { A B C D E F G }
functions! { A B C D E F G H }
functions! { A B C D E F G H I }
functions! { A B C D E F G H I J }
functions! { A B C D E F G H I J K }
functions! { A B C D E F G H I J K L }
functions! { A B C D E F G H I J K L M }
functions! { A B C D E F G H I J K L M N }
functions! { A B C D E F G H I J K L M N O }
functions! { A B C D E F G H I J K L M N O P }

unsafe extern "C" fn trampoline<S: Text, F: Invoke<Args, R>, Args, R>(call: *mut abi::Call) -> Status {
    let call = RawCall(call);
    guard(call, || unsafe { F::invoke::<S>(call) })
}

/// One instance of a function: the dtypes of its variables, and its code.
#[doc(hidden)]
pub struct Instance {
    types: Types,
    call: CallFn,
}

impl Instance {
    const fn has_no_types(&self) -> bool {
        let mut i = 0;
        while i < self.types.len() {
            if self.types[i].bits != 0 {
                return false;
            }
            i += 1;
        }
        true
    }
}

/// Compares a function with its signature.
#[doc(hidden)]
pub const fn check<S: Text, F, Args, R>(_: &F) -> Message
where
    F: Callable<Args, R>,
    Args: Params,
    R: Return,
{
    check::check(S::TEXT, &S::PARSED, Args::TYPES, R::TYPES)
}

/// Makes an instance of a function, which was compared with its signature.
#[doc(hidden)]
pub const fn instance<S: Text, F, Args, R>(_: &F) -> Instance
where
    F: Callable<Args, R> + Invoke<Args, R>,
    Args: Params,
    R: Return,
{
    Instance {
        types: check::find_types(&S::PARSED, Args::TYPES, R::TYPES),
        call: trampoline::<S, F, Args, R>,
    }
}

/// Calls the instance for the dtypes of the call.
unsafe extern "C" fn dispatch(call: *mut abi::Call) -> Status {
    let raw = RawCall(call);
    let it = raw.get();
    let table = unsafe { &*(*it.function).data.cast::<&[Instance]>() };
    let types =
        if it.ntypes > 0 { unsafe { std::slice::from_raw_parts(it.types, it.ntypes as usize) } } else { &[] };
    // Only variables that a parameter has choose the instance.
    let fits = |instance: &&Instance| types.iter().zip(&instance.types).all(|(a, b)| b.bits == 0 || a == b);
    match table.iter().find(fits) {
        Some(instance) => unsafe { (instance.call)(call) },
        None => {
            let names: Vec<_> = types.iter().map(|t| t.name()).collect();
            raw.fail(abi::EDTYPE, &format!("the function has no instance for the dtype {}", names.join(", ")))
                .0
        }
    }
}

/// An entry of a module's table. `text` and `doc` end with a 0.
#[doc(hidden)]
pub const fn entry(
    text: &'static str,
    doc: &'static [u8],
    table: &'static &'static [Instance],
    shape: Option<CallFn>,
    flags: u64,
) -> abi::Function {
    assert!(text.as_bytes()[text.len() - 1] == 0);
    // A dtype variable may have a dtype without an instance.
    let single = table.len() == 1 && table[0].has_no_types();
    let doc = if doc.len() > 1 { doc.as_ptr().cast() } else { std::ptr::null() };
    abi::Function {
        signature: text.as_ptr().cast(),
        doc,
        call: Some(if single { table[0].call } else { dispatch }),
        shape,
        data: std::ptr::from_ref(table).cast::<c_void>(),
        flags,
        reserved: [0, 0],
    }
}

/// The entry of a class.
#[doc(hidden)]
pub const fn class_entry(text: &'static str, doc: &'static [u8], flags: u64) -> abi::Function {
    let doc = if doc.len() > 1 { doc.as_ptr().cast() } else { std::ptr::null() };
    abi::Function {
        signature: text.as_ptr().cast(),
        doc,
        call: None,
        shape: None,
        data: std::ptr::null(),
        flags,
        reserved: [0, 0],
    }
}

/// The table of a module.
#[doc(hidden)]
pub const fn module(
    name: &'static str,
    doc: &'static [u8],
    version: &'static str,
    functions: &'static [abi::Function],
    state: Option<StateFns>,
) -> abi::Module {
    abi::Module {
        magic: abi::MAGIC,
        major: abi::MAJOR,
        minor_needed: abi::MINOR,
        size: size_of::<abi::Module>() as u32,
        function_size: size_of::<abi::Function>() as u32,
        nfunctions: functions.len() as i64,
        functions: functions.as_ptr(),
        name: name.as_ptr().cast(),
        doc: if doc.len() > 1 { doc.as_ptr().cast() } else { std::ptr::null() },
        version: version.as_ptr().cast(),
        load: match &state {
            Some(state) => Some(state.load),
            None => None,
        },
        unload: match &state {
            Some(state) => Some(state.unload),
            None => None,
        },
        flags: 0,
    }
}

/// A doc comment without the space at the beginning of its lines, with a 0 at its end. N is its length and 1 more.
#[doc(hidden)]
pub const fn clean_doc<const N: usize>(text: &str) -> [u8; N] {
    let bytes = text.as_bytes();
    let mut out = [0; N];
    let (mut i, mut length, mut start) = (0, 0, true);
    while i < bytes.len() {
        if !(start && bytes[i] == b' ') {
            out[length] = bytes[i];
            length += 1;
        }
        start = bytes[i] == b'\n';
        i += 1;
    }
    while length > 0 && out[length - 1] == b'\n' {
        length -= 1;
        out[length] = 0;
    }
    out
}
