/* The functions of NAME. `python -m tenon docs` prints the folder of the grammar of their signatures. */
#define TENON_MODULE_VERSION "0.1.0"
#include <tenon/function.h>

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    const float *x = tenon_data(call, 1, float);
    const float *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float); /* already allocated, in the caller's framework */
    int64_t n = tenon_dim(call, 0);

    for (int64_t i = 0; i < n; i++)
        z[i] = a * x[i] + y[i];
    return TENON_OK;
}

TENON_MODULE(NAME, "Functions written once.",
             TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."))
