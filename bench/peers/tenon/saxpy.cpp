// One function, whose compile time is measured beside nanobind's saxpy.cpp.
#include <tenon/function.hpp>

static void saxpy(double a, tenon::in<float, 1> x, tenon::in<float, 1> y, tenon::out<float, 1> z)
{
    for (int64_t i = 0; i < x.size(); i++)
        z(i) = a * x(i) + y(i);
}

TENON_CPP_MODULE(kernels, "Kernels written once.",
                 TENON_CPP("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."))
