//! Tenon's C sources, compiled, and their declarations. Use `libtenon`: this crate is for its features.
//!
//! Views are opaque here, 64 bytes; `tenon::abi` has their fields.

#![allow(non_camel_case_types, missing_docs, clippy::missing_safety_doc)]

#[cfg(feature = "python")]
use core::ffi::c_int;
use core::ffi::{c_char, c_void};

/// `tenon_view`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct tenon_view(pub [u64; 8]);

/// `tenon_error`.
#[repr(C)]
pub struct tenon_error {
    pub status: i32,
    pub message: [c_char; 1008],
    pub os_error: i32,
    pub function: *const c_char,
}

/// `tenon_dtype`: code, bits, lanes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_dtype {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

/// `tenon_device`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tenon_device {
    pub device_type: i32,
    pub device_id: i32,
}

pub enum tenon_tensor {}
pub enum tenon_module {}

pub type tenon_release_fn = unsafe extern "C" fn(*mut c_void);

/// `tenon_blob`.
#[repr(C)]
pub struct tenon_blob {
    pub data: *mut c_void,
    pub byte_offset: u64,
    pub data_size: u64,
    pub dtype: tenon_dtype,
    pub device: tenon_device,
    pub ndim: i32,
    pub shape: *const i64,
    pub strides: *const i64,
    pub flags: u64,
    pub owner: *mut c_void,
    pub release: Option<tenon_release_fn>,
    pub stream: *mut c_void,
}

#[cfg(feature = "core")]
unsafe extern "C" {
    pub fn tenon_tensor_from_blob(
        blob: *const tenon_blob,
        out: *mut *mut tenon_tensor,
        err: *mut tenon_error,
    ) -> i32;
    pub fn tenon_tensor_alloc(
        dtype: tenon_dtype,
        ndim: i32,
        shape: *const i64,
        options: u32,
        out: *mut *mut tenon_tensor,
        err: *mut tenon_error,
    ) -> i32;
    pub fn tenon_tensor_retain(tensor: *mut tenon_tensor) -> *mut tenon_tensor;
    pub fn tenon_tensor_release(tensor: *mut tenon_tensor);
    pub fn tenon_tensor_view(tensor: *const tenon_tensor) -> *const tenon_view;
}

/// A value of 32 bytes: `tenon::abi::Value`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct tenon_value(pub [u64; 4]);

pub enum tenon_rs_object {}

/// Calls a closure: 0, or -1 with the error.
pub type tenon_rs_invoke = unsafe extern "C" fn(
    *mut c_void,
    *const tenon_value,
    i32,
    *mut tenon_value,
    i32,
    *mut tenon_error,
) -> core::ffi::c_int;

/// An argument of a call: host.c.
#[repr(C)]
pub struct tenon_rs_argument {
    pub value: tenon_value,
    pub data: *mut c_void,
    pub dtype: tenon_dtype,
    pub ndim: i32,
    pub shape: *const i64,
    pub strides: *const i64,
    pub writable: bool,
    pub tensor: *mut tenon_tensor,
    pub items: *const tenon_rs_argument,
    pub count: i64,
    pub object: *mut tenon_rs_object,
    pub closure: *mut c_void,
    pub invoke: Option<tenon_rs_invoke>,
}

/// A result of a call: host.c.
#[repr(C)]
pub struct tenon_rs_result {
    pub value: tenon_value,
    pub tensors: *mut *mut tenon_tensor,
    pub object: *mut tenon_rs_object,
    pub bytes: *mut c_char,
    pub count: i64,
    pub given: bool,
    pub is_shared: bool,
}

pub enum tenon_rs_library {}

#[cfg(feature = "core")]
unsafe extern "C" {
    pub fn tenon_rs_open(path: *const c_char, out: *mut *mut tenon_rs_library, err: *mut tenon_error) -> i32;
    pub fn tenon_rs_close(library: *mut tenon_rs_library);
    pub fn tenon_rs_find(library: *const tenon_rs_library, name: *const c_char, from: i64) -> i64;
    pub fn tenon_rs_signature(library: *const tenon_rs_library, index: i64) -> *const c_char;
    pub fn tenon_rs_call(
        library: *const tenon_rs_library,
        index: i64,
        args: *const tenon_rs_argument,
        count: i32,
        results: *mut tenon_rs_result,
        nresults: *mut i32,
        err: *mut tenon_error,
    ) -> i32;
    pub fn tenon_rs_object_retain(object: *mut tenon_rs_object);
    pub fn tenon_rs_object_release(object: *mut c_void);
    pub fn tenon_rs_object_class(object: *const tenon_rs_object) -> *const c_char;
    pub fn tenon_rs_free(memory: *mut c_void);
}

/// `tenon_py_borrowed`. It must not be moved while it is in use.
#[repr(C)]
pub struct tenon_py_borrowed {
    pub view: tenon_view,
    rest: [u64; 30],
}

pub const TENON_PY_WRITE: u32 = 1;
pub const TENON_PY_C_CONTIGUOUS: u32 = 1 << 1;
pub const TENON_PY_ANY_DEVICE: u32 = 1 << 3;

#[cfg(feature = "python")]
unsafe extern "C" {
    pub static tenon_rs_free_threaded: bool;
    pub fn tenon_rs_peek(
        object: *mut c_void,
        flags: u32,
        dtype: tenon_dtype,
        ndim: i32,
        shape: *mut i64,
    ) -> *mut c_void;
    pub fn tenon_rs_own(blob: *const tenon_blob, to: c_int) -> *mut c_void;
    pub fn tenon_py_borrow(object: *mut c_void, flags: u32, out: *mut tenon_py_borrowed) -> c_int;
    pub fn tenon_py_unborrow(borrowed: *mut tenon_py_borrowed);
    pub fn tenon_py_import(object: *mut c_void, flags: u32) -> *mut tenon_tensor;
    pub fn tenon_py_export(tensor: *mut tenon_tensor, to: c_int) -> *mut c_void;
    pub fn tenon_py_raise(err: *const tenon_error) -> *mut c_void;
    pub fn tenon_py_module(module: *const tenon_module, name: *const c_char) -> *mut c_void;
}

pub enum tenon_torch {}

#[cfg(feature = "torch")]
unsafe extern "C" {
    pub fn tenon_torch_import(object: *mut c_void, out: *mut *mut tenon_torch) -> c_int;
    pub fn tenon_torch_export(tensor: *mut tenon_torch, out: *mut *mut c_void) -> c_int;
    pub fn tenon_torch_pointer(tensor: *mut tenon_torch) -> *mut c_void;
    pub fn tenon_torch_from_pointer(
        pointer: *mut c_void,
        out: *mut *mut tenon_torch,
        err: *mut tenon_error,
    ) -> i32;
    pub fn tenon_torch_release(tensor: *mut tenon_torch);
    pub fn tenon_torch_retain(tensor: *mut tenon_torch) -> *mut tenon_torch;
    pub fn tenon_torch_view(
        tensor: *mut tenon_torch,
        out: *mut tenon_view,
        dims: *mut i64,
        err: *mut tenon_error,
    ) -> i32;
}
