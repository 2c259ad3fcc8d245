// pybind11, as its documentation on NumPy shows it.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;

static void look(const py::array &a)
{
    const void *volatile data = a.data();
    (void)data;
}

// For objects that have a buffer but are not NumPy arrays. The info owns the buffer, so this is an owned import too.
static void look_at_buffer(const py::buffer &a)
{
    py::buffer_info info = a.request();
    const void *volatile data = info.ptr;
    (void)data;
}

static py::array_t<float> make()
{
    float *data = new float[6];
    py::capsule owner(data, [](void *p) { delete[] (float *)p; });
    return py::array_t<float>({2, 3}, data, owner);
}

PYBIND11_MODULE(crossing, m, py::mod_gil_not_used())
{
    m.def("borrow", [](const py::array &a) { look(a); });
    m.def("borrow2", [](const py::array &a, const py::array &b) { look(a), look(b); });
    m.def("borrow3", [](const py::array &a, const py::array &b, const py::array &c) { look(a), look(b), look(c); });
    m.def("owned", [](py::array a) { look(a); });
    m.def("borrow_buffer", &look_at_buffer);
    m.def("borrow3_buffer", [](const py::buffer &a, const py::buffer &b, const py::buffer &c) {
        look_at_buffer(a), look_at_buffer(b), look_at_buffer(c);
    });
    m.def("through", [](py::array a) { return a; });
    m.def("make_numpy", &make);
}
