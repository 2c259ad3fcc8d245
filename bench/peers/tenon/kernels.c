/* The extension that every peer writes: saxpy and dot on f32 vectors of one length. */
#include <tenon/function.h>

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    const float *x = tenon_data(call, 1, float);
    const float *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float);
    int64_t n = tenon_dim(call, 0);

    for (int64_t i = 0; i < n; i++)
        z[i] = a * x[i] + y[i];
    return TENON_OK;
}

static tenon_status dot(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    const float *y = tenon_data(call, 1, float);
    int64_t n = tenon_dim(call, 0);
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * y[i];
    return tenon_return_double(call, 0, sum);
}

TENON_MODULE(kernels, "Two functions.",
             TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."),
             TENON_FUNCTION("dot(x: f32[n] c, y: f32[n] c) -> float", dot, "The inner product."))
