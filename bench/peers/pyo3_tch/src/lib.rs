//! pyo3-tch, as the example of its repository shows it.
use pyo3::prelude::*;
use pyo3_tch::PyTensor;

#[pyfunction]
fn owned(a: PyTensor) {
    std::hint::black_box(a.data_ptr());
}

#[pyfunction]
fn through(a: PyTensor) -> PyTensor {
    a
}

#[pymodule]
fn crossing(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(owned, m)?)?;
    m.add_function(wrap_pyfunction!(through, m)?)
}
