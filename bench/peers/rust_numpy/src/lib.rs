//! rust-numpy, as its documentation says: borrowed arrays as arguments, a Vec that becomes an array.
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

#[pyfunction]
fn touch(x: PyReadonlyArray1<'_, f32>) -> usize {
    x.as_array().len()
}

#[pyfunction]
fn dot(x: PyReadonlyArray1<'_, f32>, y: PyReadonlyArray1<'_, f32>) -> PyResult<f64> {
    Ok(x.as_slice()?.iter().zip(y.as_slice()?).map(|(x, y)| f64::from(x * y)).sum())
}

#[pyfunction]
fn make(py: Python<'_>, n: usize) -> Bound<'_, PyArray1<f32>> {
    (0..n).map(|i| i as f32).collect::<Vec<_>>().into_pyarray(py)
}

#[pymodule]
fn crossing(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(touch, module)?)?;
    module.add_function(wrap_pyfunction!(dot, module)?)?;
    module.add_function(wrap_pyfunction!(make, module)?)
}
