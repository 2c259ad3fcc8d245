// A method that takes three numbers by keyword.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

struct Tree {
    double mix(double a, double b, double c) const { return a + 2 * b + 3 * c; }
};

NB_MODULE(objects, m)
{
    nb::class_<Tree>(m, "Tree")
        .def(nb::init<>())
        .def("mix", &Tree::mix, nb::kw_only(), nb::arg("a"), nb::arg("b"), nb::arg("c"));
}
