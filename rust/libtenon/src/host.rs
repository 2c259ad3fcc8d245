//! The feature `host`: a Rust program opens a Tenon library, in any language, and calls its functions with slices and arrays.
//!
//! ```no_run
//! use tenon::host::{Argument, Library};
//!
//! fn main() -> tenon::Result<()> {
//!     let saxpy = Library::open("kernels.so")?.get("saxpy")?;
//!     let (x, y) = ([1f32, 2.0], [10f32, 20.0]);
//!     let z = saxpy.call(&[Argument::from(2.0), Argument::from(&x[..]), Argument::from(&y[..])])?;
//!     assert_eq!(z[0].as_slice::<f32>(), Some(&[12.0, 24.0][..]));
//!     Ok(())
//! }
//! ```
//!
//! Objects of classes are values, whose methods are called by name; closures are callbacks:
//!
//! ```no_run
//! # use tenon::host::{Argument, Array, CallbackValue, Library, Value};
//! # fn main() -> tenon::Result<()> {
//! let library = Library::open("kernels.so")?;
//! let rows = Array::from_vec(vec![1f32, 2.0, 3.0, 4.0], &[2, 2])?; // memory that an object may keep
//! let table = library.get("Table")?.call(&[(&rows).into()])?.remove(0).into_object().unwrap();
//! let sums = table.call("sums", &[])?;
//! let square = Argument::callback(|arguments| match arguments {
//!     [CallbackValue::Float(x)] => Ok(Value::Float(x * x)),
//!     _ => Err(tenon::Error::invalid("expected a float")),
//! });
//! let area = library.get("integrate")?.call(&[square, 0.0.into(), 1.0.into()])?;
//! # Ok(()) }
//! ```
//!
//! Opening a library runs its code: open only libraries that you trust.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use tenon_sys as sys;

use crate::abi::{self, List, Payload, Value as RawValue, kind};
use crate::dtype::{Complex, Dtype, Element};
use crate::error::{Error, Result};
use crate::tensors::{AnyTensor, has_elements};

/// Results that a function has at most.
const MAX_RESULTS: usize = crate::signature::MAX_RESULTS;

struct Open(*mut sys::tenon_rs_library);

// It does not change after it was opened, and calls lock the library if they must.
unsafe impl Send for Open {}
unsafe impl Sync for Open {}

impl Drop for Open {
    fn drop(&mut self) {
        unsafe { sys::tenon_rs_close(self.0) }
    }
}

/// A library that was opened. It stays in memory until the process ends.
#[derive(Clone)]
pub struct Library {
    open: Arc<Open>,
}

/// The error that C code reported.
fn error_of(status: abi::Status, err: &MaybeUninit<sys::tenon_error>) -> Error {
    let message = unsafe { CStr::from_ptr((*err.as_ptr()).message.as_ptr()) };
    Error::new(status, message.to_string_lossy())
}

impl Library {
    /// Opens a library, and compiles its signatures.
    pub fn open(path: impl AsRef<Path>) -> Result<Library> {
        let path = path.as_ref();
        let bytes = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| Error::invalid("the path contains a 0"))?;
        let (mut out, mut err) = (null_mut(), MaybeUninit::uninit());
        match unsafe { sys::tenon_rs_open(bytes.as_ptr(), &mut out, err.as_mut_ptr()) } {
            abi::OK => Ok(Library { open: Arc::new(Open(out)) }),
            status => {
                let error = error_of(status, &err);
                Err(Error::new(status, format!("{}: {error}", path.display())))
            }
        }
    }

    /// The signatures of its functions and classes.
    pub fn signatures(&self) -> impl Iterator<Item = &str> {
        (0..).map_while(|index| {
            let text = unsafe { sys::tenon_rs_signature(self.open.0, index) };
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("?"))
        })
    }

    /// A function by its name, or a constructor by that of its class.
    pub fn get(&self, name: &str) -> Result<Function> {
        let text = CString::new(name).map_err(|_| Error::invalid("the name contains a 0"))?;
        let index = unsafe { sys::tenon_rs_find(self.open.0, text.as_ptr(), 0) };
        if index < 0 {
            return Err(Error::invalid(format!("the library has no function '{name}'")));
        }
        Ok(Function { library: self.clone(), index })
    }
}

/// A function of a library.
#[derive(Clone)]
pub struct Function {
    library: Library,
    index: i64,
}

/// What a callback gets.
pub enum CallbackValue<'a> {
    /// A number.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(&'a str),
    /// A tensor, which is read by its `cells`.
    Tensor(AnyTensor<'a>),
    /// A value of another kind.
    Other,
}

type Body<'a> = dyn FnMut(&[CallbackValue<'_>]) -> Result<Value> + 'a;

/// A closure, and the panic that ended it.
struct Closure<'a> {
    body: RefCell<Box<Body<'a>>>,
    panic: RefCell<Option<Box<dyn Any + Send>>>,
}

/// An argument: a number, a string, None, an array, a list of these, an object or a callback.
pub struct Argument<'a> {
    value: RawValue,
    data: *mut c_void,
    dtype: Dtype,
    shape: Vec<i64>,
    strides: Vec<i64>,
    writable: bool,
    tensor: *mut sys::tenon_tensor,
    items: Vec<Argument<'a>>,
    texts: Vec<abi::Text>,
    object: *mut sys::tenon_rs_object,
    closure: Option<Box<Closure<'a>>>,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> Argument<'a> {
    fn plain(kind: u32, payload: Payload) -> Argument<'a> {
        Argument {
            value: RawValue { kind, flags: 0, payload, reserved: 0 },
            data: null_mut(),
            dtype: Dtype::NONE,
            shape: Vec::new(),
            strides: Vec::new(),
            writable: false,
            tensor: null_mut(),
            items: Vec::new(),
            texts: Vec::new(),
            object: null_mut(),
            closure: None,
            life: PhantomData,
        }
    }

    fn list_of<T>(kind: u32, items: &'a [T]) -> Argument<'a> {
        let list = List { data: items.as_ptr().cast(), length: items.len() as i64 };
        Argument::plain(kind, Payload { list })
    }

    /// Bytes (`bytes`); a slice of `u8` without this is an array.
    pub fn bytes(bytes: &'a [u8]) -> Argument<'a> {
        Argument::list_of(kind::BYTES, bytes)
    }

    /// A list of integers (`ints`).
    pub fn ints(items: &'a [i64]) -> Argument<'a> {
        Argument::list_of(kind::INTS, items)
    }

    /// A list of floats (`floats`).
    pub fn floats(items: &'a [f64]) -> Argument<'a> {
        Argument::list_of(kind::FLOATS, items)
    }

    /// A list of strings (`strs`).
    pub fn strs(items: &[&'a str]) -> Argument<'a> {
        let texts: Vec<_> =
            items.iter().map(|text| abi::Text { data: text.as_ptr().cast(), length: text.len() }).collect();
        let list = List { data: texts.as_ptr().cast(), length: texts.len() as i64 };
        let mut it = Argument::plain(kind::STRS, Payload { list });
        it.texts = texts;
        it
    }

    /// A list of tensors.
    pub fn list(items: impl IntoIterator<Item = Argument<'a>>) -> Argument<'a> {
        let mut it = Argument::plain(kind::TENSORS, Payload { integer: 0 });
        it.items = items.into_iter().collect();
        it
    }

    /// A closure that the function calls, on this thread. It returns [`Value::None`], a number or a truth value. A panic continues
    /// after the function has ended.
    pub fn callback(body: impl FnMut(&[CallbackValue<'_>]) -> Result<Value> + 'a) -> Argument<'a> {
        let mut it = Argument::plain(kind::CALLABLE, Payload { integer: 0 });
        it.closure =
            Some(Box::new(Closure { body: RefCell::new(Box::new(body)), panic: RefCell::new(None) }));
        it
    }

    unsafe fn tensor<T: Element>(
        data: *const T,
        shape: &[usize],
        strides: &[isize],
        writable: bool,
    ) -> Argument<'a> {
        let mut it = Argument::plain(kind::TENSOR, Payload { integer: 0 });
        it.data = data.cast_mut().cast();
        it.dtype = T::DTYPE;
        it.shape = shape.iter().map(|size| *size as i64).collect();
        it.strides = strides.iter().map(|stride| *stride as i64).collect();
        it.writable = writable;
        it
    }

    /// None, for an argument that is optional.
    pub fn none() -> Argument<'static> {
        Argument::plain(kind::NONE, Payload { integer: 0 })
    }

    /// An array in C order.
    pub fn array<T: Element>(elements: &'a [T], shape: &[usize]) -> Result<Argument<'a>> {
        check(elements.len(), shape)?;
        Ok(unsafe { Argument::tensor(elements.as_ptr(), shape, &[], false) })
    }

    /// An array in C order that the function may write to (`rw`).
    pub fn array_mut<T: Element>(elements: &'a mut [T], shape: &[usize]) -> Result<Argument<'a>> {
        check(elements.len(), shape)?;
        Ok(unsafe { Argument::tensor(elements.as_mut_ptr(), shape, &[], true) })
    }
}

fn check(count: usize, shape: &[usize]) -> Result<()> {
    if has_elements(shape, count) {
        return Ok(());
    }
    Err(Error::invalid(format!("the shape {shape:?} does not have {count} elements")))
}

impl From<f64> for Argument<'_> {
    fn from(number: f64) -> Self {
        Argument::plain(kind::FLOAT, Payload { number })
    }
}

impl From<u64> for Argument<'_> {
    fn from(integer: u64) -> Self {
        Argument::plain(kind::UINT, Payload { integer: integer as i64 })
    }
}

impl From<Complex<f64>> for Argument<'_> {
    fn from(number: Complex<f64>) -> Self {
        Argument::plain(kind::COMPLEX, Payload { parts: [number.re, number.im] })
    }
}

impl From<Dtype> for Argument<'_> {
    fn from(dtype: Dtype) -> Self {
        Argument::plain(kind::DTYPE, Payload { dtype })
    }
}

/// An array that the function may keep, or return parts of.
impl<'a> From<&'a Array> for Argument<'a> {
    fn from(array: &'a Array) -> Self {
        let view = array.raw();
        let mut it = Argument::plain(kind::TENSOR, Payload { integer: 0 });
        it.data = view.data;
        it.dtype = view.dtype;
        it.shape = array.shape().iter().map(|size| *size as i64).collect();
        it.strides = (0..view.ndim as usize).map(|i| unsafe { *view.strides.add(i) }).collect();
        it.tensor = array.tensor;
        it
    }
}

impl<'a> From<&'a Object> for Argument<'a> {
    fn from(object: &'a Object) -> Self {
        let mut it = Argument::plain(kind::HANDLE, Payload { integer: 0 });
        it.object = object.raw;
        it
    }
}

impl From<i64> for Argument<'_> {
    fn from(integer: i64) -> Self {
        Argument::plain(kind::INT, Payload { integer })
    }
}

impl From<bool> for Argument<'_> {
    fn from(value: bool) -> Self {
        Argument::plain(kind::BOOL, Payload { integer: value.into() })
    }
}

/// A string, or one of the strings of an enum.
impl<'a> From<&'a str> for Argument<'a> {
    fn from(text: &'a str) -> Self {
        let list = List { data: text.as_ptr().cast(), length: text.len() as i64 };
        Argument::plain(kind::STR, Payload { list })
    }
}

impl<'a, T: Element> From<&'a [T]> for Argument<'a> {
    fn from(elements: &'a [T]) -> Self {
        unsafe { Argument::tensor(elements.as_ptr(), &[elements.len()], &[], false) }
    }
}

impl<'a, T: Element> From<&'a mut [T]> for Argument<'a> {
    fn from(elements: &'a mut [T]) -> Self {
        unsafe { Argument::tensor(elements.as_mut_ptr(), &[elements.len()], &[], true) }
    }
}

#[cfg(feature = "ndarray")]
impl<'a, T: Element, D: ndarray::Dimension> From<ndarray::ArrayView<'a, T, D>> for Argument<'a> {
    fn from(array: ndarray::ArrayView<'a, T, D>) -> Self {
        unsafe { Argument::tensor(array.as_ptr(), array.shape(), array.strides(), false) }
    }
}

#[cfg(feature = "ndarray")]
impl<'a, T: Element, D: ndarray::Dimension> From<ndarray::ArrayViewMut<'a, T, D>> for Argument<'a> {
    fn from(mut array: ndarray::ArrayViewMut<'a, T, D>) -> Self {
        unsafe { Argument::tensor(array.as_mut_ptr(), array.shape(), array.strides(), true) }
    }
}

/// A result.
pub enum Value {
    /// None.
    None,
    /// A number.
    Float(f64),
    /// An integer, or the index of an enum's string.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(String),
    /// An unsigned integer.
    Uint(u64),
    /// A complex number.
    Complex(Complex<f64>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of floats.
    Floats(Vec<f64>),
    /// A list of strings.
    Strs(Vec<String>),
    /// An array.
    Array(Array),
    /// A list of arrays.
    List(Vec<Array>),
    /// An object.
    Object(Object),
}

impl Value {
    /// The object, if it is one.
    pub fn into_object(self) -> Option<Object> {
        match self {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The arrays, if it is a list of them.
    pub fn into_list(self) -> Option<Vec<Array>> {
        match self {
            Value::List(arrays) => Some(arrays),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(integer) => Some(*integer),
            _ => None,
        }
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The elements in C order, if it is an array of this type.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        match self {
            Value::Array(array) => array.as_slice(),
            _ => None,
        }
    }

    /// The array, if it is one.
    pub fn into_array(self) -> Option<Array> {
        match self {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }
}

/// An object of a class of a library.
pub struct Object {
    raw: *mut sys::tenon_rs_object,
    library: Library,
}

// Calls on it run one after the other unless its class is concurrent, and it may be destroyed on any thread.
unsafe impl Send for Object {}
unsafe impl Sync for Object {}

impl Object {
    /// The name of its class.
    pub fn class(&self) -> &str {
        unsafe { CStr::from_ptr(sys::tenon_rs_object_class(self.raw)) }.to_str().unwrap_or("?")
    }

    /// Calls a method, or reads a property.
    pub fn call(&self, method: &str, arguments: &[Argument<'_>]) -> Result<Vec<Value>> {
        let function = self.library.get(&format!("{}.{method}", self.class()))?;
        let mut given = vec![raw_argument(&Argument::from(self))];
        let items: Vec<_> = arguments.iter().map(raw_items).collect();
        given.extend(arguments.iter().zip(&items).map(|(argument, items)| with_items(argument, items)));
        function.call_raw(&given, arguments)
    }
}

/// Another owner of the same object.
impl Clone for Object {
    fn clone(&self) -> Object {
        unsafe { sys::tenon_rs_object_retain(self.raw) };
        Object { raw: self.raw, library: self.library.clone() }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        unsafe { sys::tenon_rs_object_release(self.raw.cast()) }
    }
}

/// An array that a function returned, or that owns a vector. It may share its memory with objects of libraries.
pub struct Array {
    tensor: *mut sys::tenon_tensor,
    /// A library may write to the memory in another call.
    is_shared: bool,
}

// The reference count is atomic. Arrays are read-only arguments, and the elements of memory that an object has are copied out.
unsafe impl Send for Array {}
unsafe impl Sync for Array {}

impl Drop for Array {
    fn drop(&mut self) {
        unsafe { sys::tenon_tensor_release(self.tensor) }
    }
}

impl Array {
    fn raw(&self) -> &abi::View {
        unsafe { &*sys::tenon_tensor_view(self.tensor).cast() }
    }

    /// Takes elements in C order, without copying them.
    pub fn from_vec<T: Element>(mut elements: Vec<T>, shape: &[usize]) -> Result<Array> {
        unsafe extern "C" fn release<T>(owner: *mut c_void) {
            drop(unsafe { Box::from_raw(owner.cast::<Vec<T>>()) });
        }
        check(elements.len(), shape)?;
        let sizes: Vec<_> = shape.iter().map(|size| *size as i64).collect();
        let data = elements.as_mut_ptr().cast();
        let owner = Box::into_raw(Box::new(elements)).cast();
        let Dtype { code, bits, lanes } = T::DTYPE;
        let blob = sys::tenon_blob {
            data,
            byte_offset: 0,
            data_size: 0,
            dtype: sys::tenon_dtype { code, bits, lanes },
            device: sys::tenon_device { device_type: 1, device_id: 0 },
            ndim: sizes.len() as i32,
            shape: sizes.as_ptr(),
            strides: null(),
            flags: 0,
            owner,
            release: Some(release::<T>),
            stream: null_mut(),
        };
        let mut tensor = null_mut();
        match unsafe { sys::tenon_tensor_from_blob(&blob, &mut tensor, null_mut()) } {
            abi::OK => Ok(Array { tensor, is_shared: false }),
            status => {
                unsafe { release::<T>(owner) };
                Err(Error::new(status, "the array could not be made"))
            }
        }
    }

    /// The dtype.
    pub fn dtype(&self) -> Dtype {
        self.raw().dtype
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> Vec<usize> {
        (0..self.raw().ndim as usize).map(|i| unsafe { *self.raw().shape.add(i) } as usize).collect()
    }

    /// Copies of the elements, the last index fastest, if they have this type.
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        let view = self.raw();
        if view.dtype != T::DTYPE {
            return None;
        }
        let count = view.ndim as usize;
        let mut index = vec![0i64; count];
        let mut out = Vec::with_capacity(view.numel as usize);
        for _ in 0..view.numel {
            let offset: i64 = (0..count).map(|i| unsafe { index[i] * *view.strides.add(i) }).sum();
            out.push(unsafe { view.data.cast::<T>().offset(offset as isize).read_unaligned() });
            for i in (0..count).rev() {
                index[i] += 1;
                if index[i] < unsafe { *view.shape.add(i) } {
                    break;
                }
                index[i] = 0;
            }
        }
        Some(out)
    }

    /// The elements, if they have this type and are in C order. None if the memory is an object's, which another call may change
    /// (`of(self)`), or another array's: see [`to_vec`](Array::to_vec).
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        let view = self.raw();
        let aligned = view.numel == 0 || view.data.cast::<T>().is_aligned();
        let fits =
            !self.is_shared && aligned && view.dtype == T::DTYPE && view.flags & abi::view_flag::C != 0;
        fits.then(|| unsafe {
            std::slice::from_raw_parts(crate::tensors::data_of(view), view.numel as usize)
        })
    }

    /// A view of the crate ndarray, if the elements have this type and are in C order.
    #[cfg(feature = "ndarray")]
    pub fn as_ndarray<T: Element>(&self) -> Option<ndarray::ArrayViewD<'_, T>> {
        ndarray::ArrayViewD::from_shape(self.shape(), self.as_slice()?).ok()
    }
}

impl Function {
    /// The signature.
    pub fn signature(&self) -> &str {
        let text = unsafe { sys::tenon_rs_signature(self.library.open.0, self.index) };
        unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("?")
    }

    /// Calls the function, or the first of an overloaded one that the arguments match. Arguments that are left out have their
    /// default.
    pub fn call(&self, arguments: &[Argument<'_>]) -> Result<Vec<Value>> {
        let items: Vec<_> = arguments.iter().map(raw_items).collect();
        let given: Vec<_> =
            arguments.iter().zip(&items).map(|(argument, items)| with_items(argument, items)).collect();
        self.call_raw(&given, arguments)
    }

    fn call_raw(&self, given: &[sys::tenon_rs_argument], arguments: &[Argument<'_>]) -> Result<Vec<Value>> {
        let empty = || sys::tenon_rs_result {
            value: sys::tenon_value([0; 4]),
            tensors: null_mut(),
            object: null_mut(),
            bytes: null_mut(),
            count: 0,
            given: false,
            is_shared: false,
        };
        let mut results: [_; MAX_RESULTS] = std::array::from_fn(|_| empty());
        let (mut err, mut nresults) = (MaybeUninit::uninit(), 0);
        let status = unsafe {
            let (library, count) = (self.library.open.0, given.len() as i32);
            let out = results.as_mut_ptr();
            sys::tenon_rs_call(
                library,
                self.index,
                given.as_ptr(),
                count,
                out,
                &mut nresults,
                err.as_mut_ptr(),
            )
        };
        let closures = arguments.iter().filter_map(|argument| argument.closure.as_ref());
        let panic = closures.filter_map(|closure| closure.panic.borrow_mut().take()).next();
        let values = if status == abi::OK {
            Ok(results[..nresults as usize].iter().map(|result| value_of(result, &self.library)).collect())
        } else {
            Err(error_of(status, &err))
        };
        match panic {
            Some(payload) => resume_unwind(payload),
            None => values,
        }
    }
}

fn raw_items(it: &Argument<'_>) -> Vec<sys::tenon_rs_argument> {
    it.items.iter().map(raw_argument).collect()
}

fn with_items(it: &Argument<'_>, items: &[sys::tenon_rs_argument]) -> sys::tenon_rs_argument {
    let mut raw = raw_argument(it);
    raw.items = items.as_ptr();
    raw.count = items.len() as i64;
    raw
}

fn raw_argument(it: &Argument<'_>) -> sys::tenon_rs_argument {
    let Dtype { code, bits, lanes } = it.dtype;
    sys::tenon_rs_argument {
        value: unsafe { std::mem::transmute::<RawValue, sys::tenon_value>(it.value) },
        data: it.data,
        dtype: sys::tenon_dtype { code, bits, lanes },
        ndim: it.shape.len() as i32,
        shape: it.shape.as_ptr(),
        strides: if it.strides.is_empty() { null() } else { it.strides.as_ptr() },
        writable: it.writable,
        tensor: it.tensor,
        items: null(),
        count: 0,
        object: it.object,
        closure: it.closure.as_ref().map_or(null_mut(), |closure| (&raw const **closure).cast_mut().cast()),
        invoke: it.closure.as_ref().map(|_| invoke as sys::tenon_rs_invoke),
    }
}

/// Calls a closure for the library.
unsafe extern "C" fn invoke(
    closure: *mut c_void,
    args: *const sys::tenon_value,
    nargs: i32,
    results: *mut sys::tenon_value,
    nresults: i32,
    err: *mut sys::tenon_error,
) -> c_int {
    let closure = unsafe { &*closure.cast::<Closure<'_>>() };
    let args = (0..nargs as usize).map(|i| unsafe { callback_value(&*args.add(i).cast::<RawValue>()) });
    let args: Vec<_> = args.collect();
    let run = || match closure.body.try_borrow_mut() {
        Ok(mut body) => body(&args),
        Err(_) => Err(Error::failed("the callback is running already")),
    };
    let value = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        *closure.panic.borrow_mut() = Some(payload);
        Err(Error::failed("the callback panicked"))
    });
    let result = if nresults > 0 { Some(unsafe { &mut *results.cast::<RawValue>() }) } else { None };
    let Err(error) = value.and_then(|value| set_callback_result(result, value)) else { return 0 };
    unsafe {
        (*err).status = error.status();
        let text = error.to_string();
        let length = text.len().min((*err).message.len() - 1);
        text.as_ptr().cast::<std::ffi::c_char>().copy_to((*err).message.as_mut_ptr(), length);
        (*err).message[length] = 0;
    }
    -1
}

unsafe fn callback_value<'x>(value: &RawValue) -> CallbackValue<'x> {
    unsafe {
        match value.kind {
            kind::FLOAT => CallbackValue::Float(value.payload.number),
            kind::INT => CallbackValue::Int(value.payload.integer),
            kind::BOOL => CallbackValue::Bool(value.payload.integer != 0),
            kind::TENSOR => CallbackValue::Tensor(AnyTensor::from_raw(&*value.payload.view)),
            kind::STR => {
                let list = value.payload.list;
                let bytes = match list.length {
                    0 => &[][..],
                    length => std::slice::from_raw_parts(list.data.cast::<u8>(), length as usize),
                };
                std::str::from_utf8(bytes).map_or(CallbackValue::Other, CallbackValue::Str)
            }
            _ => CallbackValue::Other,
        }
    }
}

fn set_callback_result(result: Option<&mut RawValue>, value: Value) -> Result<()> {
    let Some(result) = result else { return Ok(()) };
    result.payload = match (result.kind, value) {
        (kind::FLOAT, Value::Float(number)) => Payload { number },
        (kind::FLOAT, Value::Int(integer)) => Payload { number: integer as f64 },
        (kind::INT, Value::Int(integer)) => Payload { integer },
        (kind::BOOL, Value::Bool(value)) => Payload { integer: value.into() },
        _ => return Err(Error::dtype("the callback returned another kind of value than its signature")),
    };
    Ok(())
}

/// The bytes of a result, which are freed.
unsafe fn take_bytes(result: &sys::tenon_rs_result) -> Vec<u8> {
    let mut bytes = vec![0; result.count as usize];
    unsafe {
        result.bytes.cast::<u8>().copy_to(bytes.as_mut_ptr(), bytes.len());
        sys::tenon_rs_free(result.bytes.cast());
    }
    bytes
}

fn numbers<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.chunks_exact(N).map(|part| read(std::array::from_fn(|i| part[i]))).collect()
}

/// Strings, each after its length.
fn strings(mut bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        let (text, rest) = rest.split_at(u64::from_ne_bytes(*head) as usize);
        found.push(String::from_utf8_lossy(text).into_owned());
        bytes = rest;
    }
    found
}

fn value_of(result: &sys::tenon_rs_result, library: &Library) -> Value {
    if !result.given {
        return Value::None;
    }
    let value = unsafe { std::mem::transmute::<sys::tenon_value, RawValue>(result.value) };
    unsafe {
        match value.kind {
            kind::FLOAT => Value::Float(value.payload.number),
            kind::INT | kind::ENUM => Value::Int(value.payload.integer),
            kind::UINT => Value::Uint(value.payload.integer as u64),
            kind::BOOL => Value::Bool(value.payload.integer != 0),
            kind::COMPLEX => Value::Complex(Complex::new(value.payload.parts[0], value.payload.parts[1])),
            kind::STR => Value::Str(String::from_utf8_lossy(&take_bytes(result)).into_owned()),
            kind::BYTES => Value::Bytes(take_bytes(result)),
            kind::INTS => Value::Ints(numbers(&take_bytes(result), i64::from_ne_bytes)),
            kind::FLOATS => Value::Floats(numbers(&take_bytes(result), f64::from_ne_bytes)),
            kind::STRS => Value::Strs(strings(&take_bytes(result))),
            kind::HANDLE => Value::Object(Object { raw: result.object, library: library.clone() }),
            kind::TENSOR | kind::TENSORS => {
                let array = |i| Array { tensor: *result.tensors.add(i), is_shared: result.is_shared };
                let mut arrays: Vec<_> = (0..result.count as usize).map(array).collect();
                sys::tenon_rs_free(result.tensors.cast());
                if value.kind == kind::TENSORS { Value::List(arrays) } else { Value::Array(arrays.remove(0)) }
            }
            _ => Value::None,
        }
    }
}
