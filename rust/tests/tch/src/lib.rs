//! torch's tensors as those of tch, and back: what pyo3-tch does.

use std::sync::Mutex;

use pyo3::prelude::*;
use tch::{Kind, Tensor};
use tenon::Result;
use tenon::torch::TorchTensor;

fn to_tch(t: &TorchTensor) -> Tensor {
    unsafe { Tensor::clone_from_ptr(t.as_ptr().cast()) }
}

fn from_tch(t: &Tensor) -> Result<TorchTensor> {
    unsafe { TorchTensor::from_ptr(t.as_ptr().cast()) }
}

/// The tensor comes back from tch alone: the handle of Python's object has been dropped.
#[pyfunction]
fn same(t: TorchTensor) -> Result<TorchTensor> {
    let x = to_tch(&t);
    drop(t);
    from_tch(&x)
}

/// A tensor that tch made, with the history of its argument.
#[pyfunction]
fn doubled(t: TorchTensor) -> Result<TorchTensor> {
    from_tch(&(to_tch(&t) * 2.0))
}

/// tch writes to the tensor, which comes back.
#[pyfunction]
fn fill(t: TorchTensor, value: f64) -> Result<TorchTensor> {
    from_tch(&to_tch(&t).fill_(value))
}

#[pyfunction]
fn describe(t: TorchTensor) -> (Vec<i64>, String, f64) {
    let x = to_tch(&t);
    (x.size(), format!("{:?}", x.kind()), x.sum(Kind::Double).double_value(&[]))
}

static KEPT: Mutex<Option<Tensor>> = Mutex::new(None);

/// Keeps a tensor of tch; None forgets it.
#[pyfunction]
#[pyo3(signature = (t=None))]
fn keep(t: Option<TorchTensor>) {
    *KEPT.lock().unwrap() = t.as_ref().map(to_tch);
}

#[pyfunction]
fn kept() -> Result<Option<TorchTensor>> {
    KEPT.lock().unwrap().as_ref().map(from_tch).transpose()
}

#[pymodule]
fn rust_tch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(same, module)?)?;
    module.add_function(wrap_pyfunction!(doubled, module)?)?;
    module.add_function(wrap_pyfunction!(fill, module)?)?;
    module.add_function(wrap_pyfunction!(describe, module)?)?;
    module.add_function(wrap_pyfunction!(keep, module)?)?;
    module.add_function(wrap_pyfunction!(kept, module)?)
}
