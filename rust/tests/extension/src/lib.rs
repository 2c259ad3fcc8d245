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

/// Calls Python while the elements are borrowed.
#[pyfunction]
fn call_while_written(mut x: ArrayMut<'_, f32, 1>, f: &Bound<'_, PyAny>) -> PyResult<f32> {
    if let Some(x) = x.as_mut_slice() {
        x[0] = 5.0;
        f.call0()?;
        return Ok(x[0]);
    }
    Ok(0.0)
}

#[pyfunction]
fn call_while_read(_x: Array<'_, f32, 1>, f: &Bound<'_, PyAny>) -> PyResult<()> {
    f.call0().map(|_| ())
}

/// Arrays that end in an order of their own.
#[pyfunction]
fn lengths(xs: Vec<Array<'_, f32, 1>>) -> usize {
    let (mut even, mut odd) = (Vec::new(), Vec::new());
    for (i, x) in xs.into_iter().enumerate() {
        if i % 2 == 0 { even.push(x) } else { odd.push(x) }
    }
    let lengths = even.iter().chain(&odd).map(|x| x.len()).sum();
    drop(even);
    lengths
}

/// Reads a tensor, and then another argument that is written to. 0: the tensor cannot be read.
#[pyfunction]
fn read_then_write(t: Tensor, x: &Bound<'_, PyAny>) -> PyResult<f32> {
    let Some(cells) = t.cells::<f32, 1>() else { return Ok(0.0) };
    let before = cells.at([0]);
    let mut x: ArrayMut<'_, f32, 1> = x.extract()?;
    x[[0]] += 1.0;
    Ok(before + cells.at([0]))
}

#[pyfunction]
fn write_then_read(mut x: ArrayMut<'_, f32, 1>, t: Tensor) -> Option<f32> {
    let slice = x.as_mut_slice()?;
    slice[0] += 1.0;
    t.cells::<f32, 1>().map(|cells| cells.at([0]) + slice[0])
}

#[pyfunction]
fn layout(t: Tensor) -> (Vec<i64>, Vec<i64>, String) {
    (t.shape().to_vec(), t.strides().to_vec(), t.dtype().to_string())
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
    let array = match framework {
        Framework::Jax => Tensor::copy_of(&elements, [n])?.to(py, framework),
        Framework::Torch => Tensor::from_vec(elements, [n])?.to(py, framework),
        _ => framework.array(py, elements, [n]),
    };
    Ok(array?.unbind())
}

/// A vector of Rust as a NumPy array.
#[pyfunction]
fn make_numpy(py: Python<'_>, n: usize) -> PyResult<Bound<'_, PyAny>> {
    Framework::Numpy.array(py, (0..n).map(|i| i as f32).collect(), [n])
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
    module.add_function(wrap_pyfunction!(make_numpy, module)?)?;
    module.add_function(wrap_pyfunction!(call_while_written, module)?)?;
    module.add_function(wrap_pyfunction!(call_while_read, module)?)?;
    module.add_function(wrap_pyfunction!(layout, module)?)?;
    module.add_function(wrap_pyfunction!(lengths, module)?)?;
    module.add_function(wrap_pyfunction!(read_then_write, module)?)?;
    module.add_function(wrap_pyfunction!(write_then_read, module)?)?;
    module.add_function(wrap_pyfunction!(make, module)?)
}
