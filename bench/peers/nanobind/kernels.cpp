// The extension that every peer writes: saxpy and dot on f32 vectors of one length.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The result's framework is part of its type: a function for each.
template <typename Framework>
nb::ndarray<Framework, float, nb::ndim<1>> saxpy(float a, const Vector &x, const Vector &y)
{
    if (x.shape(0) != y.shape(0))
        throw nb::value_error("x and y differ in length");
    size_t n = x.shape(0);
    float *z = new float[n];
    nb::capsule owner(z, [](void *p) noexcept { delete[] (float *)p; });
    const float *from_x = x.data(), *from_y = y.data();
    for (size_t i = 0; i < n; i++)
        z[i] = a * from_x[i] + from_y[i];
    return nb::ndarray<Framework, float, nb::ndim<1>>(z, {n}, owner);
}

static double dot(const Vector &x, const Vector &y)
{
    if (x.shape(0) != y.shape(0))
        throw nb::value_error("x and y differ in length");
    const float *from_x = x.data(), *from_y = y.data();
    double sum = 0;
    for (size_t i = 0; i < x.shape(0); i++)
        sum += (double)from_x[i] * from_y[i];
    return sum;
}

static nb::bytes echo(const nb::bytes &data)
{
    return nb::bytes(data.c_str(), data.size());
}

NB_MODULE(kernels, m)
{
    m.def("echo", &echo);
    m.def("saxpy_numpy", &saxpy<nb::numpy>);
    m.def("saxpy_torch", &saxpy<nb::pytorch>);
    m.def("saxpy_jax", &saxpy<nb::jax>);
    m.def("dot", &dot);
}
