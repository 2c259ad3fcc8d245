// One function, whose compile time is measured: what kernels.cpp has for one framework.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

static nb::ndarray<nb::numpy, float, nb::ndim<1>> saxpy(float a, const Vector &x, const Vector &y)
{
    if (x.shape(0) != y.shape(0))
        throw nb::value_error("x and y differ in length");
    size_t n = x.shape(0);
    float *z = new float[n];
    nb::capsule owner(z, [](void *p) noexcept { delete[] (float *)p; });
    const float *from_x = x.data(), *from_y = y.data();
    for (size_t i = 0; i < n; i++)
        z[i] = a * from_x[i] + from_y[i];
    return nb::ndarray<nb::numpy, float, nb::ndim<1>>(z, {n}, owner);
}

NB_MODULE(kernels, m)
{
    m.def("saxpy", &saxpy);
}
