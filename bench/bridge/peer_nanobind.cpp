// nanobind, as its documentation on ndarray shows it.
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

NB_MODULE(peer_nanobind, m)
{
    m.def("borrow", [](const Array &) {});
    m.def("borrow3", [](const Array &, const Array &, const Array &) {});
    m.def("through_numpy", [](nb::ndarray<nb::numpy> a) { return a; });
    m.def("through_torch", [](nb::ndarray<nb::pytorch> a) { return a; });
    m.def("make_numpy", &make<nb::numpy>);
    m.def("make_torch", &make<nb::pytorch>);
}
