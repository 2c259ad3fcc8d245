/* The functions of NAME. `python -m tenon docs` prints the folder of the grammar of their signatures. */
#define TENON_MODULE_VERSION "0.1.0"
#include <tenon/function.hpp>

/* z is already allocated, in the caller's framework. The compiler compares the parameters with the signature. */
static void saxpy(float a, tenon::in<float, 1> x, tenon::in<float, 1> y, tenon::out<float, 1> z)
{
    for (int64_t i = 0; i < x.size(); i++)
        z(i) = a * x(i) + y(i);
}

TENON_CPP_MODULE(NAME, "Functions written once.",
                 TENON_CPP("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."))
