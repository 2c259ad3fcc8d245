/* Functions for test_torch_kinds.py: kinds of values that torch's schemas have, and others. */
#include <tenon/function.h>

#include <string.h>

static tenon_status fill(tenon_call *call)
{
    const tenon_view *result = tenon_result(call, 0);
    memset(result->data, 0, (size_t)result->numel * result->dtype.bits / 8);
    return TENON_OK;
}

/* x * k + the real part of z + the length of the names */
static tenon_status mix(tenon_call *call)
{
    double parts[2];
    int64_t count;
    tenon_arg_complex(call, 2, parts);
    tenon_arg_strs(call, 3, &count);
    const float *x = tenon_data(call, 0, float);
    float *y = tenon_result_data(call, 0, float);
    for (int64_t i = 0, n = tenon_dim(call, 0); i < n; i++)
        y[i] = x[i] * (float)tenon_arg_uint(call, 1) + (float)parts[0] + (float)count;
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

static tenon_status numbers(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    tenon_return_uint(call, 0, (uint64_t)x[0]);
    return tenon_return_complex(call, 1, (double)x[0], -1);
}

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

TENON_MODULE(torch_kinds, "Kinds of values.",
             TENON_FUNCTION("cast(x: T[n], t: dtype(U) = 'f64') -> U[n] where T = any, U = f32|f64", fill, ""),
             TENON_FUNCTION("same(x: T[n], t: dtype(T)) -> T[n] where T = f32|f64", fill, ""),
             TENON_FUNCTION("mix(x: f32[n] c, k: uint, z: complex, names: strs) -> f32[n]", mix, ""),
             TENON_FUNCTION("choose(x: f32[n] c, k: 1|2|4 = 2) -> f32[n]", choose, ""),
             TENON_FUNCTION("numbers(x: f32[n] c) -> uint, complex", numbers, ""),
             TENON_FUNCTION("with_bytes(x: f32[n], data: bytes) -> f32[n]", nothing, ""),
             TENON_FUNCTION("to_bytes(x: f32[n]) -> bytes", nothing, ""),
             TENON_FUNCTION("to_ints(x: f32[n]) -> ints", nothing, ""),
             TENON_FUNCTION("to_strs(x: f32[n]) -> strs", nothing, ""),
             TENON_FUNCTION("complex_default(x: f32[n], z: complex = 1j) -> f32[n]", nothing, ""),
             TENON_FUNCTION("strs_default(x: f32[n], z: strs = ('a',)) -> f32[n]", nothing, ""))
