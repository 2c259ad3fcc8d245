//! pyo3-dlpack, as its README shows it.
use pyo3::prelude::*;
use pyo3_dlpack::{cpu_device, dtype_f32, IntoDLPack, PyTensor, TensorInfo};
use std::ffi::c_void;

#[path = "../kernels/src/lib.rs"]
mod kernels;

fn look(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let tensor = PyTensor::from_pyany(py, object)?;
    std::hint::black_box(tensor.data_ptr());
    Ok(())
}

#[pyfunction]
fn borrow(py: Python<'_>, a: &Bound<'_, PyAny>) -> PyResult<()> {
    look(py, a)
}

#[pyfunction]
fn borrow3(py: Python<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>, c: &Bound<'_, PyAny>) -> PyResult<()> {
    look(py, a)?;
    look(py, b)?;
    look(py, c)
}

struct Owned(Vec<f32>);

impl IntoDLPack for Owned {
    fn tensor_info(&self) -> TensorInfo {
        TensorInfo::contiguous(self.0.as_ptr() as *mut c_void, cpu_device(), dtype_f32(), vec![2, 3])
    }
}

/// A capsule, for torch.from_dlpack.
#[pyfunction]
fn make(py: Python<'_>) -> PyResult<Py<PyAny>> {
    Owned(vec![0.0; 6]).into_dlpack(py)
}

/// dot again, with the lock released while it computes.
#[pyfunction]
fn dot_released(py: Python<'_>, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<f64> {
    let (x, y) = (kernels::vector(x)?, kernels::vector(y)?);
    let (x, y) = (kernels::values(&x), kernels::values(&y));
    py.detach(|| kernels::inner(x, y))
}

#[pymodule]
fn crossing(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(borrow, m)?)?;
    m.add_function(wrap_pyfunction!(borrow3, m)?)?;
    m.add_function(wrap_pyfunction!(make, m)?)?;
    m.add_function(wrap_pyfunction!(dot_released, m)?)
}
