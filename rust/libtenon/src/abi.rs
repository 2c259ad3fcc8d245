//! The structs of `tenon/abi.h`, with the same layout, for code that works below the safe types of this crate.
//!
//! `tests/layout.rs` compares every size and offset with those that a C compiler finds.

use core::ffi::{c_char, c_void};

pub use crate::dtype::{Device, Dtype};

/// The version of the ABI that this crate speaks.
pub const MAJOR: u32 = 1;
/// The minor version that libraries made with this crate need.
pub const MINOR: u32 = 0;
/// "TENONMOD".
pub const MAGIC: u64 = 0x444f_4d4e_4f4e_4554;

/// A status: 0 is success.
pub type Status = i32;

/// `TENON_OK`.
pub const OK: Status = 0;
/// `TENON_EINVAL`: ValueError.
pub const EINVAL: Status = 1;
/// `TENON_ENOMEM`: MemoryError.
pub const ENOMEM: Status = 2;
/// `TENON_EOVERFLOW`: OverflowError.
pub const EOVERFLOW: Status = 3;
/// `TENON_EDTYPE`: TypeError.
pub const EDTYPE: Status = 4;
/// `TENON_EBOUNDS`: IndexError.
pub const EBOUNDS: Status = 7;
/// `TENON_EOVERLAP`: ValueError.
pub const EOVERLAP: Status = 12;
/// `TENON_EFAILED`: RuntimeError.
pub const EFAILED: Status = 13;

/// The kinds of values, `TENON_KIND_…`.
pub mod kind {
    /// Optional, and not given.
    pub const NONE: u32 = 0;
    /// A tensor.
    pub const TENSOR: u32 = 1;
    /// A signed integer.
    pub const INT: u32 = 2;
    /// A float.
    pub const FLOAT: u32 = 3;
    /// A bool.
    pub const BOOL: u32 = 4;
    /// A string.
    pub const STR: u32 = 5;
    /// One of several strings.
    pub const ENUM: u32 = 6;
    /// A list of integers.
    pub const INTS: u32 = 7;
    /// A list of floats.
    pub const FLOATS: u32 = 8;
    /// A list of tensors.
    pub const TENSORS: u32 = 9;
    /// An object of the library.
    pub const HANDLE: u32 = 10;
    /// A complex number.
    pub const COMPLEX: u32 = 11;
    /// An unsigned integer.
    pub const UINT: u32 = 12;
    /// Bytes.
    pub const BYTES: u32 = 13;
    /// A list of strings.
    pub const STRS: u32 = 14;
    /// A dtype.
    pub const DTYPE: u32 = 15;
    /// A function of the caller.
    pub const CALLABLE: u32 = 16;
}

/// Bits of [`View::flags`].
pub mod view_flag {
    /// The memory must not be written to.
    pub const READ_ONLY: u64 = 1;
    /// In C order without gaps.
    pub const C: u64 = 1 << 8;
    /// The function may write to it.
    pub const WRITTEN: u64 = 1 << 11;
}

/// Bits of [`Function::flags`].
pub mod flag {
    /// Always release the runtime's lock during the call.
    pub const RELEASE_LOCK: u64 = 1;
    /// Never release it.
    pub const KEEP_LOCK: u64 = 1 << 1;
    /// Accept tensors that require grad.
    pub const NO_GRAD_CHECK: u64 = 1 << 2;
    /// The function may become part of a CUDA graph.
    pub const CAPTURABLE: u64 = 1 << 3;
    /// Of a class: calls on one object may run at the same time.
    pub const CONCURRENT: u64 = 1 << 4;
}

/// `TENON_VALUE_UNSET`: the function has not returned this result yet.
pub const VALUE_UNSET: u32 = 2;
/// `TENON_CALL_FAILED`.
pub const CALL_FAILED: u32 = 1;
/// `TENON_CALL_UNLOCKED`.
pub const CALL_UNLOCKED: u32 = 2;

/// `tenon_view`: a validated description of a tensor's memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct View {
    pub data: *mut c_void,
    pub device: Device,
    pub ndim: i32,
    pub dtype: Dtype,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
    pub flags: u64,
    pub numel: i64,
}

/// `tenon_text`: a string in a list of strings.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Text {
    pub data: *const c_char,
    pub length: usize,
}

/// A list inside a [`Value`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct List {
    pub data: *const c_void,
    pub length: i64,
}

/// An object inside a [`Value`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Handle {
    pub object: *mut c_void,
    pub kind: *const c_char,
}

/// The union of `tenon_value`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub union Payload {
    pub view: *const View,
    pub integer: i64,
    pub number: f64,
    pub parts: [f64; 2],
    pub list: List,
    pub handle: Handle,
    pub dtype: Dtype,
}

/// `tenon_value`: an argument or a result.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Value {
    pub kind: u32,
    pub flags: u32,
    pub payload: Payload,
    pub reserved: u64,
}

/// `tenon_call`: one call.
#[repr(C)]
#[allow(missing_docs)]
pub struct Call {
    pub size: u32,
    pub minor: u32,
    pub host: *const Host,
    pub function: *const Function,
    pub state: *mut c_void,
    pub args: *const Value,
    pub results: *mut Value,
    pub nargs: i32,
    pub nresults: i32,
    pub dims: *const i64,
    pub types: *const Dtype,
    pub ndims: i32,
    pub ntypes: i32,
    pub device: Device,
    pub stream: *mut c_void,
    pub flags: u32,
    pub reserved: u32,
    pub host_private: *mut c_void,
}

/// `tenon_kept`: a share of an argument's memory.
#[repr(C)]
#[allow(missing_docs)]
pub struct KeptShare {
    pub size: u32,
    pub reserved: u32,
    pub view: *const View,
    pub release: unsafe extern "C" fn(*mut KeptShare),
}

/// The body of `parallel`.
pub type Body = unsafe extern "C" fn(context: *mut c_void, begin: i64, end: i64) -> Status;
/// The body of `for_each`.
pub type BatchBody = unsafe extern "C" fn(*mut c_void, *const *mut c_void, *const i64, i64) -> Status;
/// The type of `for_each`.
pub type ForEach = unsafe extern "C" fn(*mut Call, i32, *const usize, i64, BatchBody, *mut c_void) -> Status;
/// The type of `result_memory`.
pub type ResultMemory = unsafe extern "C" fn(
    *mut Call,
    i32,
    *mut c_void,
    i32,
    *const i64,
    *const i64,
    *mut c_void,
    Option<unsafe extern "C" fn(*mut c_void)>,
) -> Status;
/// The type of `result_alloc` and `result_push`.
pub type ResultAlloc = unsafe extern "C" fn(*mut Call, i32, Dtype, i32, *const i64) -> *const View;
/// The type of `result_handle`.
pub type ResultHandle =
    unsafe extern "C" fn(*mut Call, i32, *mut c_void, unsafe extern "C" fn(*mut c_void)) -> Status;

/// `tenon_host`: the services of a host. A member is None if the host does not offer it.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Host {
    pub size: u32,
    pub minor: u32,
    pub name: *const c_char,
    pub fail: unsafe extern "C" fn(*mut Call, Status, *const c_char, usize) -> Status,
    pub result_alloc: Option<ResultAlloc>,
    pub result_handle: Option<ResultHandle>,
    pub result_str: Option<unsafe extern "C" fn(*mut Call, i32, *const c_char, usize) -> Status>,
    pub scratch: Option<unsafe extern "C" fn(*mut Call, usize, usize, Device) -> *mut c_void>,
    pub cancelled: Option<unsafe extern "C" fn(*mut Call) -> i32>,
    pub extension: Option<unsafe extern "C" fn(*mut Call, *const c_char, u32) -> *const c_void>,
    pub find: Option<unsafe extern "C" fn(*mut Call, u32, *const c_char, usize) -> i32>,
    pub arg_keep: Option<unsafe extern "C" fn(*mut Call, i32) -> *mut KeptShare>,
    pub result_memory: Option<ResultMemory>,
    pub result_bytes: Option<unsafe extern "C" fn(*mut Call, i32, *const c_void, usize) -> Status>,
    pub result_list: Option<unsafe extern "C" fn(*mut Call, i32, *const c_void, i64) -> Status>,
    pub parallel: Option<unsafe extern "C" fn(*mut Call, i64, i64, Body, *mut c_void) -> Status>,
    pub result_push: Option<ResultAlloc>,
    pub callback: Option<unsafe extern "C" fn(*mut Call, i32, *const Value, *mut Value) -> Status>,
    pub for_each: Option<ForEach>,
}

/// The code of a function.
pub type CallFn = unsafe extern "C" fn(*mut Call) -> Status;

/// `tenon_function`: an entry of a module's table.
#[repr(C)]
#[allow(missing_docs)]
pub struct Function {
    pub signature: *const c_char,
    pub doc: *const c_char,
    pub call: Option<CallFn>,
    pub shape: Option<CallFn>,
    pub data: *const c_void,
    pub flags: u64,
    pub reserved: [u64; 2],
}

/// `tenon_module`: the table that a library exports.
#[repr(C)]
#[allow(missing_docs)]
pub struct Module {
    pub magic: u64,
    pub major: u32,
    pub minor_needed: u32,
    pub size: u32,
    pub function_size: u32,
    pub nfunctions: i64,
    pub functions: *const Function,
    pub name: *const c_char,
    pub doc: *const c_char,
    pub version: *const c_char,
    pub load: Option<unsafe extern "C" fn(*mut Call, *mut *mut c_void) -> Status>,
    pub unload: Option<unsafe extern "C" fn(*mut c_void)>,
    pub flags: u64,
}

// They are constants, and point to constants.
unsafe impl Sync for Function {}
unsafe impl Sync for Module {}
unsafe impl Sync for Host {}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<View>() == 64);
    assert!(size_of::<Value>() == 32);
    assert!(size_of::<Function>() == 64);
    assert!(size_of::<Text>() == 16);
    assert!(size_of::<Dtype>() == 4);
    assert!(size_of::<Device>() == 8);
};
