/* A shape function: the size of the result follows from an argument that is not a dimension.
 *
 *   cc -O3 -shared -fPIC $(python -m tenon cflags) resample.c -o resample.so */
#include <tenon/function.h>

/* Runs before `resample` and allocates the result. It knows the shapes and the other arguments, but must not read the
 * elements. */
static tenon_status resample_shape(tenon_call *call)
{
    double rate = tenon_arg_double(call, 1), size = (double)tenon_dim(call, 0) * rate;
    int64_t count = (int64_t)size;
    if (!(rate > 0) || size > 1e15)
        return tenon_fail(call, TENON_EINVAL, "rate must be positive, and the result must fit into memory");
    return tenon_result_alloc(call, 0, 1, &count) ? TENON_OK : TENON_EFAILED;
}

static tenon_status resample(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    double rate = tenon_arg_double(call, 1);
    float *y = tenon_result_data(call, 0, float);
    int64_t n = tenon_dim(call, 0), count = tenon_result(call, 0)->numel;

    for (int64_t i = 0; i < count; i++) {
        double place = (double)i / rate;
        int64_t left = (int64_t)place < n ? (int64_t)place : n - 1, right = left + 1 < n ? left + 1 : left;
        float part = (float)(place - (double)left);
        y[i] = x[left] + part * (x[right] - x[left]);
    }
    return TENON_OK;
}

TENON_MODULE(resample, "Signals.",
             TENON_FUNCTION_SHAPED("resample(x: f32[n] c, rate: float) -> f32[?]", resample, resample_shape,
                                   "Returns x with `rate` times as many elements, with straight lines between them.",
                                   0))
