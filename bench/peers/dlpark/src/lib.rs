//! dlpark: its borrowed view for what has a C exchange table, its one-step import for everything, and the way back.
use dlpark::ffi::{DLDataType, DLDevice};
use dlpark::metadata::Fixed;
use dlpark::python::from_dlpack;
use dlpark::versioned::Dlpack;
use pyo3::prelude::*;
use std::hint::black_box;

#[path = "../kernels/src/lib.rs"]
mod kernels;
use kernels::table;

/// The memory and the stream on which it is ready, which its view always brings along.
fn look(object: &Bound<'_, PyAny>) -> PyResult<()> {
    table(object)?.with_tensor_view_no_sync(object.as_borrowed(), |tensor, stream| {
        black_box((tensor.data, stream));
    })
}

fn own(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let tensor = from_dlpack(object.as_borrowed(), None, None)?;
    black_box(tensor.validate().map_err(kernels::wrong)?.data_ptr());
    Ok(())
}

#[pyfunction]
fn borrow(a: &Bound<'_, PyAny>) -> PyResult<()> {
    look(a)
}

#[pyfunction]
fn borrow2(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<()> {
    look(a)?;
    look(b)
}

#[pyfunction]
fn borrow3(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>, c: &Bound<'_, PyAny>) -> PyResult<()> {
    look(a)?;
    look(b)?;
    look(c)
}

#[pyfunction]
fn owned(a: &Bound<'_, PyAny>) -> PyResult<()> {
    own(a)
}

#[pyfunction]
fn owned2(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<()> {
    own(a)?;
    own(b)
}

#[pyfunction]
fn owned3(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>, c: &Bound<'_, PyAny>) -> PyResult<()> {
    own(a)?;
    own(b)?;
    own(c)
}

#[pyfunction]
fn through<'py>(a: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let api = table(a)?;
    let (tensor, _stream) = api.import_managed_no_sync(a.as_borrowed())?.into_parts();
    api.managed_tensor_to_py_object_no_sync(tensor, a.py())
}

/// A new 2x3 array of Rust's memory, in the framework of `like`.
#[pyfunction]
fn make<'py>(like: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut values = Box::new(vec![0f32; 6]);
    let data = values.as_mut_ptr().cast();
    let mut tensor = Fixed::new([2, 3], [3, 1]).initialize(values).map_err(kernels::wrong)?;
    tensor.set_data(data).set_dtype(DLDataType::F32).set_device(DLDevice::CPU);
    let tensor: Dlpack = unsafe { tensor.finish() };
    table(like)?.managed_tensor_to_py_object_no_sync(tensor, like.py())
}

/// dot again, with the lock released while it computes.
#[pyfunction]
fn dot_released(x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<f64> {
    let py = x.py();
    kernels::read(x, |x| kernels::read(y, |y| py.detach(|| kernels::inner(x, y))))
}

#[pymodule]
fn crossing(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(borrow, m)?)?;
    m.add_function(wrap_pyfunction!(borrow2, m)?)?;
    m.add_function(wrap_pyfunction!(borrow3, m)?)?;
    m.add_function(wrap_pyfunction!(owned, m)?)?;
    m.add_function(wrap_pyfunction!(owned2, m)?)?;
    m.add_function(wrap_pyfunction!(owned3, m)?)?;
    m.add_function(wrap_pyfunction!(through, m)?)?;
    m.add_function(wrap_pyfunction!(make, m)?)?;
    m.add_function(wrap_pyfunction!(dot_released, m)?)
}
