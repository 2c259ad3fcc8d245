//! The feature `torch`: a torch.Tensor as itself, with its autograd history. One binary works with torch 2.4 and newer.
//!
//! ```no_run
//! use pyo3::prelude::*;
//! use tenon::torch::TorchTensor;
//!
//! /// The same tensor object comes back.
//! #[pyfunction]
//! fn same(t: TorchTensor) -> TorchTensor {
//!     t
//! }
//! ```
//!
//! With tch, which must be built for the torch of the process, [`TorchTensor::as_ptr`] is a `C_tensor`:
//!
//! ```text
//! let x = unsafe { tch::Tensor::clone_from_ptr(t.as_ptr().cast()) };
//! let y = unsafe { TorchTensor::from_ptr(x.as_ptr().cast()) }?;
//! ```

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use pyo3::conversion::{FromPyObject, IntoPyObject};
use pyo3::{Borrowed, Bound, PyAny, PyErr, PyResult, Python, ffi};
use tenon_sys as sys;

use crate::abi;
use crate::error::{Error, Result};

/// A reference to a torch tensor. It may be sent to other threads, and released on any.
pub struct TorchTensor(*mut sys::tenon_torch);

// The handle is counted atomically, and a release never waits for the interpreter lock.
unsafe impl Send for TorchTensor {}
unsafe impl Sync for TorchTensor {}

impl TorchTensor {
    /// The `at::Tensor`, which lives as long as this.
    pub fn as_ptr(&self) -> *mut c_void {
        unsafe { sys::tenon_torch_pointer(self.0) }
    }

    /// The same tensor as an `at::Tensor`. Needs torch 2.13 or newer.
    ///
    /// # Safety
    /// `pointer` is the address of an `at::Tensor` of the torch that this process has loaded.
    pub unsafe fn from_ptr(pointer: *const c_void) -> Result<TorchTensor> {
        let (mut out, mut err) = (null_mut(), MaybeUninit::<sys::tenon_error>::uninit());
        match unsafe { sys::tenon_torch_from_pointer(pointer.cast_mut(), &mut out, err.as_mut_ptr()) } {
            abi::OK => Ok(TorchTensor(out)),
            status => {
                let message = unsafe { CStr::from_ptr((*err.as_ptr()).message.as_ptr()) };
                Err(Error::new(status, message.to_string_lossy()))
            }
        }
    }
}

impl Clone for TorchTensor {
    fn clone(&self) -> TorchTensor {
        TorchTensor(unsafe { sys::tenon_torch_retain(self.0) })
    }
}

impl Drop for TorchTensor {
    fn drop(&mut self) {
        unsafe { sys::tenon_torch_release(self.0) }
    }
}

impl<'py> FromPyObject<'_, 'py> for TorchTensor {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<TorchTensor> {
        let mut out = null_mut();
        if unsafe { sys::tenon_torch_import(object.as_ptr().cast(), &mut out) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(TorchTensor(out))
    }
}

impl<'py> IntoPyObject<'py> for TorchTensor {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut out = null_mut();
        if unsafe { sys::tenon_torch_export(self.0, &mut out) } != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(unsafe { Bound::from_owned_ptr(py, out.cast::<ffi::PyObject>()) })
    }
}
