// nanobind, as its documentation on ndarray shows it; nb::ro takes read-only arrays too, and converts nothing.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;
using Array = nb::ndarray<nb::ro>;

template <typename Framework> static nb::ndarray<Framework, float, nb::shape<2, 3>> make()
{
    float *data = new float[6];
    nb::capsule owner(data, [](void *p) noexcept { delete[] (float *)p; });
    return nb::ndarray<Framework, float, nb::shape<2, 3>>(data, {2, 3}, owner);
}

static void look(const Array &a)
{
    const void *volatile data = a.data();
    (void)data;
}

NB_MODULE(crossing, m)
{
    m.def("borrow", [](const Array &a) { look(a); });
    m.def("borrow2", [](const Array &a, const Array &b) { look(a), look(b); });
    m.def("borrow3", [](const Array &a, const Array &b, const Array &c) { look(a), look(b), look(c); });
    m.def("owned", [](Array a) { look(a); });
    m.def("through_numpy", [](nb::ndarray<nb::numpy> a) { return a; });
    m.def("through_torch", [](nb::ndarray<nb::pytorch> a) { return a; });
    m.def("through_jax", [](nb::ndarray<nb::jax, nb::ro> a) { return a; });
    m.def("through_tensorflow", [](nb::ndarray<nb::tensorflow, nb::ro> a) { return a; });
    m.def("through_cupy", [](nb::ndarray<nb::cupy> a) { return a; });
    m.def("make_numpy", &make<nb::numpy>);
    m.def("make_torch", &make<nb::pytorch>);
}
