//! A function in Rust, without a crate. It declares the structs of tenon/function.h that it needs, with the same layout.
//!
//!   rustc --crate-type cdylib -C opt-level=3 -C strip=symbols kernels.rs -o kernels.so
//!
//! tenon.load("kernels.so").cumsum(x)
#![allow(non_camel_case_types)]
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null, null_mut};
use std::slice;

const OK: i32 = 0;
const EINVAL: i32 = 1;
const EFAILED: i32 = 13;

#[repr(C)]
struct tenon_view {
    data: *mut c_void,
    device: [i32; 2],
    ndim: i32,
    dtype: [u8; 4],
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
    flags: u64,
    numel: i64,
}

#[repr(C)]
union tenon_payload {
    view: *const tenon_view,
    integer: i64,
    number: f64,
    parts: [f64; 2],
}

#[repr(C)]
struct tenon_value {
    kind: u32,
    flags: u32,
    value: tenon_payload,
    reserved: u64,
}

/// Structs that are passed by pointer may be declared only as far as they are used.
#[repr(C)]
struct tenon_host {
    size: u32,
    minor: u32,
    name: *const c_char,
    fail: extern "C" fn(*mut tenon_call, i32, *const u8, usize) -> i32,
}

#[repr(C)]
struct tenon_call {
    size: u32,
    minor: u32,
    host: *const tenon_host,
    function: *const tenon_function,
    state: *mut c_void,
    args: *const tenon_value,
    results: *mut tenon_value,
}

#[repr(C)]
struct tenon_function {
    signature: *const u8,
    doc: *const u8,
    call: extern "C" fn(*mut tenon_call) -> i32,
    shape: Option<extern "C" fn(*mut tenon_call) -> i32>,
    data: *mut c_void,
    flags: u64,
    reserved: [u64; 2],
}

#[repr(C)]
pub struct tenon_module {
    magic: [u8; 8],
    major: u32,
    minor_needed: u32,
    size: u32,
    function_size: u32,
    nfunctions: i64,
    functions: *const tenon_function,
    name: *const u8,
    doc: *const u8,
    version: *const u8,
    load: Option<extern "C" fn(*mut tenon_call, *mut *mut c_void) -> i32>,
    unload: Option<extern "C" fn(*mut c_void)>,
    flags: u64,
}

// They are constants that contain pointers to constants.
unsafe impl Sync for tenon_function {}
unsafe impl Sync for tenon_module {}

type Outcome = Result<(), (i32, String)>;

/// Run the body. If it returns an error or panics, the call fails; nothing unwinds into C.
fn guarded(call: *mut tenon_call, body: impl FnOnce(&tenon_call) -> Outcome) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(|| body(unsafe { &*call })));
    match outcome.unwrap_or_else(|_| Err((EFAILED, "the function panicked".to_string()))) {
        Ok(()) => OK,
        Err((status, message)) => unsafe { ((*(*call).host).fail)(call, status, message.as_ptr(), message.len()) },
    }
}

/// The elements of a tensor. The signature guarantees its kind, its dtype and C order.
unsafe fn elements<'a, T>(value: *const tenon_value) -> &'a [T] {
    let view = &*(*value).value.view;
    if view.numel == 0 {
        return &[]; // the data of an empty tensor may be NULL
    }
    slice::from_raw_parts(view.data as *const T, view.numel as usize)
}

unsafe fn elements_mut<'a, T>(value: *const tenon_value) -> &'a mut [T] {
    let view = &*(*value).value.view;
    if view.numel == 0 {
        return &mut [];
    }
    slice::from_raw_parts_mut(view.data as *mut T, view.numel as usize)
}

extern "C" fn cumsum(call: *mut tenon_call) -> i32 {
    guarded(call, |call| {
        let x: &[f64] = unsafe { elements(call.args) };
        let sums: &mut [f64] = unsafe { elements_mut(call.results) };
        let mut sum = 0.0;
        for (i, (value, out)) in x.iter().zip(sums).enumerate() {
            if value.is_nan() {
                return Err((EINVAL, format!("x[{}] is not a number", i)));
            }
            sum += value;
            *out = sum;
        }
        Ok(())
    })
}

static FUNCTIONS: [tenon_function; 1] = [tenon_function {
    signature: b"cumsum(x: f64[n] c) -> f64[n]\0".as_ptr(),
    doc: b"Returns the running sums of x.\0".as_ptr(),
    call: cumsum,
    shape: None,
    data: null_mut(),
    flags: 0,
    reserved: [0, 0],
}];

static MODULE: tenon_module = tenon_module {
    magic: *b"TENONMOD",
    major: 1,
    minor_needed: 0,
    size: std::mem::size_of::<tenon_module>() as u32,
    function_size: std::mem::size_of::<tenon_function>() as u32,
    nfunctions: FUNCTIONS.len() as i64,
    functions: &FUNCTIONS as *const tenon_function,
    name: b"kernels\0".as_ptr(),
    doc: b"Kernels in Rust.\0".as_ptr(),
    version: null(),
    load: None,
    unload: None,
    flags: 0,
};

#[no_mangle]
pub extern "C" fn tenon_module_v1() -> *const tenon_module {
    &MODULE
}
