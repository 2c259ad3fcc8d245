//! The PyO3 extension that the tests of Python import.
#![forbid(unsafe_code)]

use pyo3::prelude::*;
use tenon::python::{Array, ArrayMut, Framework, Tensor};

#[pyfunction]
fn empty() {}

/// What a call with one argument costs without a borrow.
#[pyfunction]
fn nothing(_x: &Bound<'_, PyAny>) -> usize {
    0
}

#[pyfunction]
fn touch(x: Array<'_, f32, 1>) -> usize {
    x.len()
}

#[pyfunction]
fn dot(x: Array<'_, f32, 1>, y: Array<'_, f32, 1>) -> PyResult<f64> {
    match (x.as_slice(), y.as_slice()) {
        (Some(x), Some(y)) => Ok(x.iter().zip(y).map(|(x, y)| f64::from(x * y)).sum()),
        _ => Ok(x.iter().zip(y.iter()).map(|(x, y)| f64::from(x * y)).sum()),
    }
}

#[pyfunction]
fn scale(mut x: ArrayMut<'_, f64, 2>, by: f64) {
    let [n, m] = x.shape();
    for i in 0..n {
        for j in 0..m {
            x[[i, j]] *= by;
        }
    }
}

#[pyfunction]
fn add_to(mut x: ArrayMut<'_, f32, 1>, y: Array<'_, f32, 1>) {
    for i in 0..x.len().min(y.len()) {
        x[[i]] += y[[i]];
    }
}

#[pyfunction]
fn same(t: Tensor) -> Tensor {
    t
}

/// The sum, on another thread.
#[pyfunction]
fn sum_elsewhere(py: Python<'_>, t: Tensor) -> PyResult<f64> {
    let sum = move || t.cells::<f64, 1>().map(|cells| cells.iter().sum::<f64>());
    let sum = py.detach(|| std::thread::spawn(sum).join());
    match sum {
        Ok(Some(sum)) => Ok(sum),
        _ => Err(tenon::Error::dtype("expected a vector of f64").into()),
    }
}

#[pyfunction]
fn make(py: Python<'_>, n: usize, framework: &str) -> PyResult<Py<PyAny>> {
    let framework = match framework {
        "numpy" => Framework::Numpy,
        "torch" => Framework::Torch,
        "jax" => Framework::Jax,
        _ => Framework::Tensor,
    };
    let elements = (0..n).map(|i| i as f32).collect::<Vec<_>>();
    let tensor = match framework {
        Framework::Jax => Tensor::copy_of(&elements, [n])?,
        _ => Tensor::from_vec(elements, [n])?,
    };
    Ok(tensor.to(py, framework)?.unbind())
}

#[cfg(feature = "torch")]
#[pyfunction]
fn same_torch(t: tenon::torch::TorchTensor) -> (tenon::torch::TorchTensor, usize) {
    let address = t.as_ptr() as usize;
    (t.clone(), address)
}

#[pymodule]
fn rust_extension(module: &Bound<'_, PyModule>) -> PyResult<()> {
    #[cfg(feature = "torch")]
    module.add_function(wrap_pyfunction!(same_torch, module)?)?;
    module.add_function(wrap_pyfunction!(empty, module)?)?;
    module.add_function(wrap_pyfunction!(nothing, module)?)?;
    module.add_function(wrap_pyfunction!(touch, module)?)?;
    module.add_function(wrap_pyfunction!(dot, module)?)?;
    module.add_function(wrap_pyfunction!(scale, module)?)?;
    module.add_function(wrap_pyfunction!(add_to, module)?)?;
    module.add_function(wrap_pyfunction!(same, module)?)?;
    module.add_function(wrap_pyfunction!(sum_elsewhere, module)?)?;
    module.add_function(wrap_pyfunction!(make, module)?)
}
