// pybind11, as its documentation on NumPy shows it.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;

static void look(const py::array &a)
{
    volatile const void *data = a.data();
    (void)data;
}

static py::array_t<float> make()
{
    float *data = new float[6];
    py::capsule owner(data, [](void *p) { delete[] (float *)p; });
    return py::array_t<float>({2, 3}, data, owner);
}

PYBIND11_MODULE(crossing, m)
{
    m.def("borrow", [](const py::array &a) { look(a); });
    m.def("borrow2", [](const py::array &a, const py::array &b) { look(a), look(b); });
    m.def("borrow3", [](const py::array &a, const py::array &b, const py::array &c) { look(a), look(b), look(c); });
    m.def("through", [](py::array a) { return a; });
    m.def("make_numpy", &make);
}
