// dot again: nanobind's call guard releases the lock for the whole call.
#include "kernels.cpp"

NB_MODULE(released, m) { m.def("dot", &dot, nb::call_guard<nb::gil_scoped_release>()); }
