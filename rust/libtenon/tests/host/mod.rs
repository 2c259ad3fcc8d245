//! A host in Rust, for tests that Miri runs: it makes calls by hand, as the driver of the core would.
#![allow(dead_code)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use tenon::Element;
use tenon::abi::{
    self, Call, Device, Dtype, Function, Host, KeptShare, Module, Payload, Status, Value, View, kind,
};

/// An array of the host.
pub struct Array<T> {
    pub elements: Vec<T>, // not a Box: moving one ends the use of pointers to it
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl<T: Element> Array<T> {
    pub fn new(elements: &[T], shape: &[i64]) -> Array<T> {
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i];
        }
        Array { elements: elements.into(), shape: shape.into(), strides }
    }

    pub fn transposed(mut self) -> Array<T> {
        self.shape.reverse();
        self.strides.reverse();
        self
    }

    /// Its memory, which keeps its address. The pointer comes from a mutable borrow, as a framework's does.
    pub fn view(&mut self) -> Box<View> {
        Box::new(View {
            data: self.elements.as_mut_ptr().cast(),
            device: Device::CPU,
            ndim: self.shape.len() as i32,
            dtype: T::DTYPE,
            shape: self.shape.as_mut_ptr(),
            strides: self.strides.as_mut_ptr(),
            byte_offset: 0,
            flags: 0,
            numel: self.shape.iter().product(),
        })
    }
}

pub fn value(kind: u32, payload: Payload) -> Value {
    Value { kind, flags: 0, payload, reserved: 0 }
}

pub fn tensor(view: &View) -> Value {
    value(kind::TENSOR, Payload { view })
}

pub fn float(number: f64) -> Value {
    value(kind::FLOAT, Payload { number })
}

pub fn int(integer: i64) -> Value {
    value(kind::INT, Payload { integer })
}

pub fn object(object: *mut c_void) -> Value {
    value(kind::HANDLE, Payload { handle: abi::Handle { object, kind: null() } })
}

/// What the host keeps of one call.
#[derive(Default)]
pub struct State {
    pub failure: Option<(Status, String)>,
    pub object: Option<Object>,
    pub memory: Vec<(*mut c_void, Vec<i64>, Option<Owner>)>,
    made: Vec<(Array<f64>, Vec<View>)>,
    text: String,
}

/// An object of the library, which the host destroys.
pub struct Object {
    pub pointer: *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
}

impl Drop for Object {
    fn drop(&mut self) {
        unsafe { (self.destroy)(self.pointer) }
    }
}

/// Memory of the library, which the host releases.
pub struct Owner {
    owner: *mut c_void,
    release: unsafe extern "C" fn(*mut c_void),
}

impl Drop for Owner {
    fn drop(&mut self) {
        unsafe { (self.release)(self.owner) }
    }
}

unsafe fn state<'a>(call: *mut Call) -> &'a mut State {
    unsafe { &mut *(*call).host_private.cast::<State>() }
}

unsafe extern "C" fn fail(call: *mut Call, status: Status, text: *const c_char, length: usize) -> Status {
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    unsafe { state(call).failure.get_or_insert((status, text)) };
    status
}

unsafe extern "C" fn result_alloc(
    call: *mut Call,
    index: i32,
    dtype: Dtype,
    ndim: i32,
    shape: *const i64,
) -> *const View {
    assert!(dtype == f64::DTYPE || dtype.bits == 0); // a shape function leaves it to the signature
    let shape = unsafe { std::slice::from_raw_parts(shape, ndim as usize) };
    let count: i64 = shape.iter().product();
    let mut array = Array::new(&vec![f64::NAN; count as usize], shape);
    let view = vec![*array.view()];
    let pointer = view.as_ptr();
    unsafe {
        state(call).made.push((array, view));
        let result = &mut *(*call).results.add(index as usize);
        result.payload.view = pointer;
        result.flags &= !abi::VALUE_UNSET;
    }
    pointer
}

unsafe extern "C" fn result_handle(
    call: *mut Call,
    _: i32,
    pointer: *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
) -> Status {
    unsafe { state(call).object = Some(Object { pointer, destroy }) };
    abi::OK
}

unsafe extern "C" fn result_str(call: *mut Call, _: i32, text: *const c_char, length: usize) -> Status {
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    unsafe { state(call).text = String::from_utf8(bytes.to_vec()).unwrap() };
    abi::OK
}

#[repr(C)]
struct Share {
    kept: KeptShare,
    view: View,
}

unsafe extern "C" fn release_share(share: *mut KeptShare) {
    drop(unsafe { Box::from_raw(share.cast::<Share>()) });
}

unsafe extern "C" fn arg_keep(call: *mut Call, index: i32) -> *mut KeptShare {
    let view = unsafe { *(*(*call).args.add(index as usize)).payload.view };
    let kept =
        KeptShare { size: size_of::<KeptShare>() as u32, reserved: 0, view: null(), release: release_share };
    let share = Box::into_raw(Box::new(Share { kept, view }));
    unsafe { (*share).kept.view = &raw const (*share).view };
    share.cast()
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn result_memory(
    call: *mut Call,
    _: i32,
    data: *mut c_void,
    ndim: i32,
    shape: *const i64,
    _: *const i64,
    owner: *mut c_void,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
) -> Status {
    let shape = unsafe { std::slice::from_raw_parts(shape, ndim as usize) }.to_vec();
    unsafe { state(call).memory.push((data, shape, release.map(|release| Owner { owner, release }))) };
    abi::OK
}

unsafe extern "C" fn parallel(
    _: *mut Call,
    count: i64,
    grain: i64,
    body: abi::Body,
    context: *mut c_void,
) -> Status {
    struct Pointer(*mut c_void);
    unsafe impl Send for Pointer {}
    let mut threads = Vec::new();
    let mut begin = 0;
    while begin < count {
        let (end, context) = ((begin + grain).min(count), Pointer(context));
        threads.push(std::thread::spawn(move || {
            let context = context;
            unsafe { body(context.0, begin, end) }
        }));
        begin = end;
    }
    threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap_or(abi::OK)
}

/// The batch is the first dimension of each tensor, and each item is a run of its own, on a thread.
unsafe extern "C" fn for_each(
    call: *mut Call,
    _: i32,
    _: *const usize,
    _: i64,
    body: abi::BatchBody,
    context: *mut c_void,
) -> Status {
    let (args, results) = unsafe {
        let call = &*call;
        let args = std::slice::from_raw_parts(call.args, call.nargs as usize);
        (args, std::slice::from_raw_parts(call.results, call.nresults as usize))
    };
    let tensors = args.iter().chain(results).filter(|value| value.kind == abi::kind::TENSOR);
    let views: Vec<View> = tensors.map(|value| unsafe { *value.payload.view }).collect();
    let mut count = 0;
    let mut steps = Vec::new();
    for view in &views {
        unsafe {
            count = *view.shape;
            steps.push(*view.strides);
        }
    }
    let mut worst = abi::OK;
    for i in 0..count {
        struct Run(*mut c_void, Vec<*mut c_void>, Vec<i64>);
        unsafe impl Send for Run {}
        let at = |(view, step): (&View, &i64)| {
            let size = i64::from(view.dtype.bits) / 8;
            view.data.wrapping_byte_offset((i * step * size) as isize)
        };
        let run = Run(context, views.iter().zip(&steps).map(at).collect(), steps.clone());
        let thread = std::thread::spawn(move || {
            let run = run;
            unsafe { body(run.0, run.1.as_ptr(), run.2.as_ptr(), 1) }
        });
        worst = worst.max(thread.join().unwrap());
    }
    worst
}

/// A callback that fails.
unsafe extern "C" fn callback(call: *mut Call, _: i32, _: *const Value, _: *mut Value) -> Status {
    let text = "the callback raised an exception";
    unsafe { fail(call, abi::EFAILED, text.as_ptr().cast(), text.len()) }
}

static HOST: Host = Host {
    size: size_of::<Host>() as u32,
    minor: 0,
    name: c"rust".as_ptr(),
    fail,
    result_alloc: Some(result_alloc),
    result_handle: Some(result_handle),
    result_str: Some(result_str),
    scratch: None,
    cancelled: None,
    extension: None,
    find: None,
    arg_keep: Some(arg_keep),
    result_memory: Some(result_memory),
    result_bytes: None,
    result_list: None,
    parallel: Some(parallel),
    result_push: None,
    callback: Some(callback),
    for_each: Some(for_each),
};

pub fn find<'a>(module: &'a Module, name: &str) -> &'a Function {
    let functions = unsafe { std::slice::from_raw_parts(module.functions, module.nfunctions as usize) };
    let has_name = |function: &&Function| {
        let text = unsafe { CStr::from_ptr(function.signature) }.to_str().unwrap();
        text.split('(').next() == Some(name) && function.call.is_some()
    };
    functions.iter().find(has_name).expect("the module has the function")
}

/// Calls a function. The error is its message.
pub fn call(
    module: &Module,
    name: &str,
    args: &[Value],
    results: &mut [Value],
    types: &[Dtype],
) -> Result<State, (Status, String)> {
    let function = find(module, name);
    let mut state = State::default();
    let mut shared = null_mut();
    let mut call = Call {
        size: size_of::<Call>() as u32,
        minor: 0,
        host: &HOST,
        function,
        state: null_mut(),
        args: args.as_ptr(),
        results: results.as_mut_ptr(),
        nargs: args.len() as i32,
        nresults: results.len() as i32,
        dims: null(),
        types: types.as_ptr(),
        ndims: 0,
        ntypes: types.len() as i32,
        device: Device::CPU,
        stream: null_mut(),
        flags: 0,
        reserved: 0,
        host_private: (&raw mut state).cast(),
    };
    if let Some(shape) = function.shape {
        let status = unsafe { shape(&mut call) };
        if status != abi::OK {
            return Err(state.failure.take().unwrap_or((status, String::new())));
        }
    }
    if let Some(load) = module.load {
        assert_eq!(unsafe { load(&mut call, &mut shared) }, abi::OK);
        call.state = shared;
    }
    let status = unsafe { function.call.unwrap()(&mut call) };
    if let Some(unload) = module.unload {
        unsafe { unload(shared) };
    }
    match state.failure.take() {
        Some(failure) => Err(failure),
        None if status != abi::OK => Err((status, String::new())),
        None => Ok(state),
    }
}

impl State {
    /// A result that the function allocated.
    pub fn made(&self, index: usize) -> &[f64] {
        &self.made[index].0.elements
    }
}
