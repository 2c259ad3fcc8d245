// kernels.c in C++.
#include <tenon/function.hpp>

static void saxpy(float a, tenon::in<float, 1> x, tenon::in<float, 1> y, tenon::out<float, 1> z)
{
    for (int64_t i = 0; i < x.size(); i++)
        z(i) = a * x(i) + y(i);
}

static double dot(tenon::in<float, 1> x, tenon::in<float, 1> y)
{
    double sum = 0;
    for (int64_t i = 0; i < x.size(); i++)
        sum += (double)x(i) * y(i);
    return sum;
}

TENON_CPP_MODULE(kernels, "Two functions.",
                 TENON_CPP("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."),
                 TENON_CPP("dot(x: f32[n] c, y: f32[n] c) -> float", dot, "The inner product."))
