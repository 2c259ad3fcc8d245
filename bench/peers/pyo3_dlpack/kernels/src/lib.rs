//! The extension that every peer writes: saxpy and dot on f32 vectors of one length.
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3_dlpack::{cpu_device, dtype_f32, IntoDLPack, PyTensor, TensorInfo};
use std::ffi::c_void;
use std::slice::{from_raw_parts, from_raw_parts_mut};

pub fn vector(object: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    let tensor = PyTensor::from_pyany(object.py(), object)?;
    if !tensor.device().is_cpu() {
        return Err(PyValueError::new_err("expected memory of the CPU"));
    }
    if !tensor.dtype().is_f32() {
        return Err(PyTypeError::new_err("expected float32"));
    }
    if tensor.ndim() != 1 || !tensor.is_contiguous() {
        return Err(PyValueError::new_err("expected one dimension without gaps"));
    }
    Ok(tensor)
}

/// An empty tensor's address may be null, which no slice may have.
pub fn values(tensor: &PyTensor) -> &[f32] {
    match tensor.numel() {
        0 => &[],
        n => unsafe { from_raw_parts(tensor.data_ptr().cast(), n) },
    }
}

fn axpy(a: f32, x: &[f32], y: &[f32], z: &mut [f32]) -> PyResult<()> {
    if x.len() != y.len() || x.len() != z.len() {
        return Err(PyValueError::new_err("x and y differ in length"));
    }
    for i in 0..z.len() {
        z[i] = a * x[i] + y[i];
    }
    Ok(())
}

pub fn inner(x: &[f32], y: &[f32]) -> PyResult<f64> {
    if x.len() != y.len() {
        return Err(PyValueError::new_err("x and y differ in length"));
    }
    Ok(x.iter().zip(y).map(|(x, y)| *x as f64 * *y as f64).sum())
}

struct Owned(Vec<f32>);

impl IntoDLPack for Owned {
    fn tensor_info(&self) -> TensorInfo {
        let (data, length) = (self.0.as_ptr() as *mut c_void, self.0.len() as i64);
        TensorInfo::contiguous(data, cpu_device(), dtype_f32(), vec![length])
    }
}

/// A capsule, for torch.from_dlpack.
#[pyfunction]
fn saxpy(py: Python<'_>, a: f32, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let (x, y) = (vector(x)?, vector(y)?);
    let mut z = vec![0f32; x.numel()];
    axpy(a, values(&x), values(&y), &mut z)?;
    Owned(z).into_dlpack(py)
}

/// numpy.from_dlpack takes no capsule: for NumPy the caller brings the result.
#[pyfunction]
fn saxpy_into(a: f32, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>, z: &Bound<'_, PyAny>) -> PyResult<()> {
    let (x, y, z) = (vector(x)?, vector(y)?, vector(z)?);
    if z.is_read_only() {
        return Err(PyValueError::new_err("the result cannot be written"));
    }
    let to: &mut [f32] = match z.numel() {
        0 => &mut [],
        n => unsafe { from_raw_parts_mut(z.data_ptr().cast(), n) },
    };
    axpy(a, values(&x), values(&y), to)
}

#[pyfunction]
fn dot(x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<f64> {
    inner(values(&vector(x)?), values(&vector(y)?))
}

#[pymodule]
fn pyo3_dlpack_kernels(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(saxpy, m)?)?;
    m.add_function(wrap_pyfunction!(saxpy_into, m)?)?;
    m.add_function(wrap_pyfunction!(dot, m)?)
}
