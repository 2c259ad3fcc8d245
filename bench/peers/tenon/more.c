/* The functions that are measured besides those of kernels.c: flags, further arguments, loops, an argument that is written. */
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

static tenon_status add(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float), *y = tenon_data(call, 1, float);
    float *z = tenon_result_data(call, 0, float);

    for (int64_t i = 0, n = tenon_dim(call, 0); i < n; i++)
        z[i] = x[i] + y[i];
    return TENON_OK;
}

static tenon_status scale(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    float *x = tenon_rw_data(call, 1, float);
    for (int64_t i = 0, n = tenon_dim(call, 0); i < n; i++)
        x[i] *= a;
    return TENON_OK;
}

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

/* Each loop twice: along the data pointer, and by tenon_at. */
#define LOOPS(T, SUM)                                                                                                  \
    static tenon_status dense_##T(tenon_call *call)                                                                    \
    {                                                                                                                  \
        const T *x = tenon_data(call, 0, T);                                                                           \
        int64_t n = tenon_dim(call, 0);                                                                                \
        SUM sum = 0;                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            sum += x[i];                                                                                               \
        tenon_return_double(call, 0, (double)sum);                                                                     \
        return TENON_OK;                                                                                               \
    }                                                                                                                  \
    static tenon_status strided_##T(tenon_call *call)                                                                  \
    {                                                                                                                  \
        const tenon_view *x = tenon_arg(call, 0);                                                                      \
        int64_t n = tenon_dim(call, 0);                                                                                \
        SUM sum = 0;                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            sum += tenon_at(x, const T, i);                                                                            \
        tenon_return_double(call, 0, (double)sum);                                                                     \
        return TENON_OK;                                                                                               \
    }
LOOPS(float, float)
LOOPS(int64_t, int64_t)
LOOPS(uint8_t, uint64_t)

TENON_MODULE(more, "Functions for measuring.",
             TENON_FUNCTION_FLAGS("saxpy_no_grad(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy,
                                  "Takes tensors that require gradients.", TENON_NO_GRAD_CHECK),
             TENON_FUNCTION_FLAGS("dot_no_grad(x: f32[n] c, y: f32[n] c) -> float", dot,
                                  "Takes tensors that require gradients.", TENON_NO_GRAD_CHECK),
             TENON_FUNCTION("add(x: f32[n] c, y: f32[n] c) -> f32[n]", add, "Returns x + y."),
             TENON_FUNCTION("scale(a: float, x: f32[n] c rw)", scale, "Multiplies x in place."),
             TENON_FUNCTION("take0()", nothing, "No argument."),
             TENON_FUNCTION("take2(a: f32[n] c, b: f32[n] c)", nothing, "Two arguments."),
             TENON_FUNCTION("take6(a: f32[n] c, b: f32[n] c, c: f32[n] c, d: f32[n] c, e: f32[n] c, f: f32[n] c)",
                            nothing, "Six arguments."),
             TENON_FUNCTION_FLAGS("take2_no_grad(a: f32[n] c, b: f32[n] c)", nothing, "Two.", TENON_NO_GRAD_CHECK),
             TENON_FUNCTION_FLAGS(
                 "take6_no_grad(a: f32[n] c, b: f32[n] c, c: f32[n] c, d: f32[n] c, e: f32[n] c, f: f32[n] c)",
                 nothing, "Six.", TENON_NO_GRAD_CHECK),
             TENON_FUNCTION("dense_f32(x: f32[n] c) -> float", dense_float, "A sum along the pointer."),
             TENON_FUNCTION("dense_i64(x: i64[n] c) -> float", dense_int64_t, "A sum along the pointer."),
             TENON_FUNCTION("dense_u8(x: u8[n] c) -> float", dense_uint8_t, "A sum along the pointer."),
             TENON_FUNCTION("strided_f32(x: f32[n]) -> float", strided_float, "A sum by tenon_at."),
             TENON_FUNCTION("strided_i64(x: i64[n]) -> float", strided_int64_t, "A sum by tenon_at."),
             TENON_FUNCTION("strided_u8(x: u8[n]) -> float", strided_uint8_t, "A sum by tenon_at."))
