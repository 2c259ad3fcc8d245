// pybind11, as its documentation on NumPy shows it.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;

PYBIND11_MODULE(peer_pybind11, m)
{
    m.def("borrow", [](const py::array &a) { volatile const void *p = a.data(); (void)p; });
    m.def("borrow3", [](const py::array &, const py::array &, const py::array &) {});
    m.def("through", [](py::array a) { return a; });
}
