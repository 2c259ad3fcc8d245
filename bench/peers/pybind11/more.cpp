// dot again: with pybind11's call guard, which releases the lock, and with its default conversions.
#include "kernels.cpp"

PYBIND11_MODULE(more, m, py::mod_gil_not_used())
{
    m.def("dot_released", &dot, py::arg("x").noconvert(), py::arg("y").noconvert(),
          py::call_guard<py::gil_scoped_release>());
    m.def("dot_converting", &dot);
}
