/* Functions for test_jax_kinds.py: kinds of values that are attributes of XLA's calls, and others. */
#include <tenon/function.h>

#include <string.h>

static tenon_status fill(tenon_call *call)
{
    const tenon_view *result = tenon_result(call, 0);
    memset(result->data, 0, (size_t)result->numel * result->dtype.bits / 8);
    return TENON_OK;
}

/* The halves of k, and both parts of z. */
static tenon_status show(tenon_call *call)
{
    double parts[2];
    tenon_arg_complex(call, 2, parts);
    float *y = tenon_result_data(call, 0, float);
    y[0] = (float)(tenon_arg_uint(call, 1) >> 32);
    y[1] = (float)(tenon_arg_uint(call, 1) & 0xffffffffu);
    y[2] = (float)parts[0];
    y[3] = (float)parts[1];
    return TENON_OK;
}

static tenon_status choose(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    float *y = tenon_result_data(call, 0, float);
    for (int64_t i = 0, n = tenon_dim(call, 0); i < n; i++)
        y[i] = x[i] * (float)tenon_arg_int(call, 1);
    return TENON_OK;
}

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

TENON_MODULE(jax_kinds, "Kinds of values.",
             TENON_FUNCTION("cast(x: T[n], t: dtype(U) = 'f32') -> U[n] where T = any, U = f32|i32", fill, ""),
             TENON_FUNCTION("same(x: T[n], t: dtype(T)) -> T[n] where T = f32|i32", fill, ""),
             TENON_FUNCTION("show(x: f32[n] c, k: uint = 5, z: complex = 1+2j) -> f32[4]", show, ""),
             TENON_FUNCTION("choose(x: f32[n] c, k: 1|2|4 = 2) -> f32[n]", choose, ""),
             TENON_FUNCTION("with_bytes(x: f32[n], data: bytes) -> f32[n]", nothing, ""),
             TENON_FUNCTION("with_strs(x: f32[n], names: strs) -> f32[n]", nothing, ""),
             TENON_FUNCTION("to_bytes(x: f32[n]) -> bytes", nothing, ""),
             TENON_FUNCTION("to_complex(x: f32[n]) -> complex", nothing, ""))
