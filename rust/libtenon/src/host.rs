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
//! Opening a library runs its code: open only libraries that you trust. Objects of classes, lists of tensors and callbacks are not
//! passed yet.

use std::ffi::{CStr, CString, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use tenon_sys as sys;

use crate::abi::{self, List, Payload, Value as RawValue, kind};
use crate::dtype::{Dtype, Element};
use crate::error::{Error, Result};

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

    /// A function by its name.
    pub fn get(&self, name: &str) -> Result<Function> {
        let (mut nparams, mut nresults) = (0, 0);
        let text = CString::new(name).map_err(|_| Error::invalid("the name contains a 0"))?;
        let index = unsafe { sys::tenon_rs_find(self.open.0, text.as_ptr(), &mut nparams, &mut nresults) };
        if index < 0 {
            return Err(Error::invalid(format!("the library has no function '{name}'")));
        }
        Ok(Function { library: self.clone(), index, nresults: nresults as usize })
    }
}

/// A function of a library.
#[derive(Clone)]
pub struct Function {
    library: Library,
    index: i64,
    nresults: usize,
}

/// An argument: a number, a string, None or an array.
pub struct Argument<'a> {
    value: RawValue,
    data: *mut c_void,
    dtype: Dtype,
    shape: Vec<i64>,
    strides: Vec<i64>,
    writable: bool,
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
            life: PhantomData,
        }
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
    if shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size)) == Some(count) {
        return Ok(());
    }
    Err(Error::invalid(format!("the shape {shape:?} does not have {count} elements")))
}

impl From<f64> for Argument<'_> {
    fn from(number: f64) -> Self {
        Argument::plain(kind::FLOAT, Payload { number })
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
    /// An array.
    Array(Array),
}

impl Value {
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

/// An array that a function returned.
pub struct Array(*mut sys::tenon_tensor);

// The reference count is atomic, and the memory belongs to this array alone.
unsafe impl Send for Array {}
unsafe impl Sync for Array {}

impl Drop for Array {
    fn drop(&mut self) {
        unsafe { sys::tenon_tensor_release(self.0) }
    }
}

impl Array {
    fn raw(&self) -> &abi::View {
        unsafe { &*sys::tenon_tensor_view(self.0).cast() }
    }

    /// The dtype.
    pub fn dtype(&self) -> Dtype {
        self.raw().dtype
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> Vec<usize> {
        (0..self.raw().ndim as usize).map(|i| unsafe { *self.raw().shape.add(i) } as usize).collect()
    }

    /// The elements, if they have this type and are in C order.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        let view = self.raw();
        let fits = view.dtype == T::DTYPE && view.flags & abi::view_flag::C != 0;
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

    /// Calls the function. Arguments that are left out have their default.
    pub fn call(&self, arguments: &[Argument<'_>]) -> Result<Vec<Value>> {
        let given: Vec<_> = arguments.iter().map(raw_argument).collect();
        let empty = || sys::tenon_rs_result {
            value: sys::tenon_value([0; 4]),
            tensor: null_mut(),
            text: null_mut(),
            given: false,
        };
        let mut results: Vec<_> = std::iter::repeat_with(empty).take(self.nresults).collect();
        let mut err = MaybeUninit::uninit();
        let library = self.library.open.0;
        let count = given.len() as i32;
        let status = unsafe {
            let out = results.as_mut_ptr();
            sys::tenon_rs_call(library, self.index, given.as_ptr(), count, out, err.as_mut_ptr())
        };
        if status != abi::OK {
            return Err(error_of(status, &err));
        }
        Ok(results.iter().map(value_of).collect())
    }
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
    }
}

fn value_of(result: &sys::tenon_rs_result) -> Value {
    if !result.given {
        return Value::None;
    }
    if !result.tensor.is_null() {
        return Value::Array(Array(result.tensor));
    }
    let value = unsafe { std::mem::transmute::<sys::tenon_value, RawValue>(result.value) };
    unsafe {
        match value.kind {
            kind::FLOAT => Value::Float(value.payload.number),
            kind::INT | kind::ENUM => Value::Int(value.payload.integer),
            kind::BOOL => Value::Bool(value.payload.integer != 0),
            kind::STR => {
                let bytes =
                    std::slice::from_raw_parts(result.text.cast(), value.payload.list.length as usize);
                let text = String::from_utf8_lossy(bytes).into_owned();
                sys::tenon_rs_free(result.text.cast());
                Value::Str(text)
            }
            _ => Value::None,
        }
    }
}
