//! The extension that every peer writes: saxpy and dot on f32 vectors of one length.
use dlpark::ffi::{DLDataType, DLDevice};
use dlpark::metadata::Fixed;
use dlpark::python::consumer::exchange::ExchangeApi;
use dlpark::python::{ImportedDlpack, from_dlpack};
use dlpark::tensor::TensorRef;
use dlpark::versioned::Dlpack;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

pub fn wrong(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// dlpark checks device, dtype, order and alignment.
fn vector<'a>(tensor: &TensorRef<'a>) -> PyResult<&'a [f32]> {
    if tensor.ndim() != 1 {
        return Err(wrong("expected one dimension"));
    }
    unsafe { tensor.cpu_slice() }.map_err(wrong)
}

/// Imported: whatever has `__dlpack__`.
pub fn read<R>(object: &Bound<'_, PyAny>, f: impl FnOnce(&[f32]) -> PyResult<R>) -> PyResult<R> {
    let tensor = from_dlpack(object.as_borrowed(), None, None)?;
    f(vector(&tensor.validate().map_err(wrong)?)?)
}

pub fn table(object: &Bound<'_, PyAny>) -> PyResult<ExchangeApi> {
    ExchangeApi::from_object(object.as_borrowed())?.ok_or_else(|| PyTypeError::new_err("no C exchange table"))
}

/// Borrowed, if its type has a C exchange table.
fn view<R>(object: &Bound<'_, PyAny>, f: impl FnOnce(&[f32]) -> PyResult<R>) -> PyResult<R> {
    table(object)?.with_tensor_view_no_sync(object.as_borrowed(), |tensor, _stream| {
        f(vector(&unsafe { TensorRef::from_raw(tensor) }.map_err(wrong)?)?)
    })?
}

fn axpy(a: f32, x: &[f32], y: &[f32], z: &mut [f32]) -> PyResult<()> {
    if x.len() != y.len() || x.len() != z.len() {
        return Err(wrong("x and y differ in length"));
    }
    for i in 0..z.len() {
        z[i] = a * x[i] + y[i];
    }
    Ok(())
}

pub fn inner(x: &[f32], y: &[f32]) -> PyResult<f64> {
    if x.len() != y.len() {
        return Err(wrong("x and y differ in length"));
    }
    Ok(x.iter().zip(y).map(|(x, y)| *x as f64 * *y as f64).sum())
}

/// The result goes back through the table of x, as a tensor of its framework.
#[pyfunction]
fn saxpy<'py>(a: f32, x: &Bound<'py, PyAny>, y: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut z = view(x, |x| {
        let mut z = Box::new(vec![0f32; x.len()]);
        view(y, |y| axpy(a, x, y, &mut z))?;
        Ok(z)
    })?;
    let (length, data) = (z.len() as i64, z.as_mut_ptr().cast());
    let mut tensor = Fixed::new([length], [1]).initialize(z).map_err(wrong)?;
    tensor.set_data(data).set_dtype(DLDataType::F32).set_device(DLDevice::CPU);
    let tensor: Dlpack = unsafe { tensor.finish() };
    table(x)?.managed_tensor_to_py_object_no_sync(tensor, x.py())
}

/// If there is no table (NumPy), the caller passes the result.
#[pyfunction]
fn saxpy_into(a: f32, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>, z: &Bound<'_, PyAny>) -> PyResult<()> {
    let ImportedDlpack::Versioned(mut z) = from_dlpack(z.as_borrowed(), None, None)? else {
        return Err(wrong("the result does not say whether it can be written"));
    };
    let mut z = z.validate_mut().map_err(wrong)?;
    let z = unsafe { z.cpu_slice_mut() }.map_err(wrong)?;
    read(x, |x| read(y, |y| axpy(a, x, y, z)))
}

#[pyfunction]
fn dot(x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<f64> {
    read(x, |x| read(y, |y| inner(x, y)))
}

#[pyfunction]
fn dot_view(x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<f64> {
    view(x, |x| view(y, |y| inner(x, y)))
}

#[pymodule]
fn dlpark_kernels(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(saxpy, m)?)?;
    m.add_function(wrap_pyfunction!(saxpy_into, m)?)?;
    m.add_function(wrap_pyfunction!(dot, m)?)?;
    m.add_function(wrap_pyfunction!(dot_view, m)?)
}
