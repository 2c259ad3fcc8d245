//! dlpark's one-step import, as its guide to Python shows it.
use dlpark::python::from_dlpack;
use pyo3::prelude::*;

fn look(object: &Bound<'_, PyAny>) -> PyResult<()> {
    std::hint::black_box(from_dlpack(object.as_borrowed(), None, None)?);
    Ok(())
}

#[pyfunction]
fn borrow(a: &Bound<'_, PyAny>) -> PyResult<()> {
    look(a)
}

#[pyfunction]
fn borrow3(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>, c: &Bound<'_, PyAny>) -> PyResult<()> {
    look(a)?;
    look(b)?;
    look(c)
}

#[pymodule]
fn crossing(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(borrow, m)?)?;
    m.add_function(wrap_pyfunction!(borrow3, m)?)
}
