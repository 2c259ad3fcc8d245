// The extension that every peer writes: saxpy and dot on f32 vectors of one length.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;
using Vector = py::array_t<float, py::array::c_style>;

static void check(const Vector &x, const Vector &y)
{
    if (x.ndim() != 1 || y.ndim() != 1)
        throw py::value_error("expected one dimension");
    if (x.shape(0) != y.shape(0))
        throw py::value_error("x and y differ in length");
}

static py::array_t<float> saxpy(float a, const Vector &x, const Vector &y)
{
    check(x, y);
    py::ssize_t n = x.shape(0);
    py::array_t<float> z(n);
    const float *from_x = x.data(), *from_y = y.data();
    float *pz = z.mutable_data();
    for (py::ssize_t i = 0; i < n; i++)
        pz[i] = a * from_x[i] + from_y[i];
    return z;
}

static double dot(const Vector &x, const Vector &y)
{
    check(x, y);
    const float *from_x = x.data(), *from_y = y.data();
    double sum = 0;
    for (py::ssize_t i = 0; i < x.shape(0); i++)
        sum += (double)from_x[i] * from_y[i];
    return sum;
}

PYBIND11_MODULE(kernels, m, py::mod_gil_not_used())
{
    m.def("saxpy", &saxpy, py::arg("a"), py::arg("x").noconvert(), py::arg("y").noconvert());
    m.def("dot", &dot, py::arg("x").noconvert(), py::arg("y").noconvert());
}
