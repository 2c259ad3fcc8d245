/* Functions for the arrays of any framework. This file knows no runtime and links against nothing.
 *
 *   cc -O3 -shared -fPIC $(python -m tenon cflags) kernels.c -o kernels.so
 *
 *   kernels = tenon.load("kernels.so")
 *   kernels.saxpy(2.0, x, y)          # x, y and the result: NumPy, PyTorch, JAX, … */
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

/* `rw`: the function writes to the caller's memory. `dense`: there are no gaps, so one loop visits every element. */
static tenon_status scale(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float);
    float by = (float)tenon_arg_double(call, 1);
    int64_t count = x ? tenon_arg(call, 0)->numel : 0;

    for (int64_t i = 0; i < count; i++)
        x[i] *= by;
    return TENON_OK;
}

/* An enum is passed as the index of its string. If the function fails, the caller gets an exception. */
static tenon_status normalize(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    bool by_sum = tenon_arg_enum(call, 1) == 0;
    float *y = tenon_result_data(call, 0, float);
    int64_t n = tenon_dim(call, 0);
    double divisor = by_sum || n == 0 ? 0 : x[0];

    for (int64_t i = 0; i < n; i++)
        divisor = by_sum ? divisor + x[i] : x[i] > divisor ? x[i] : divisor;
    if (divisor == 0)
        return tenon_fail(call, TENON_EINVAL, "the %s of x is 0", by_sum ? "sum" : "maximum");
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(x[i] / divisor);
    return tenon_return_double(call, 1, divisor);
}

/* One body for each dtype that T can be. The arguments may have any strides: a transposed matrix is not copied. */
#define MATMUL(name, T)                                                                                                \
    static void name(const tenon_view *a, const tenon_view *b, T *c, int64_t n, int64_t k, int64_t m)                  \
    {                                                                                                                  \
        for (int64_t i = 0; i < n * m; i++)                                                                            \
            c[i] = 0;                                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int64_t p = 0; p < k; p++) {                                                                          \
                T left = tenon_at(a, const T, i, p);                                                                   \
                const T *row = &tenon_at(b, const T, p, 0);                                                            \
                for (int64_t j = 0; j < m; j++)                                                                        \
                    c[i * m + j] += left * row[j * b->strides[1]];                                                     \
            }                                                                                                          \
    }
MATMUL(matmul_f32, float)
MATMUL(matmul_f64, double)

static tenon_status matmul(tenon_call *call)
{
    const tenon_view *a = tenon_arg(call, 0);
    const tenon_view *b = tenon_arg(call, 1);
    int64_t n = tenon_dim(call, 0), k = tenon_dim(call, 1), m = tenon_dim(call, 2);

    if (tenon_dtype_equal(tenon_type(call, 0), TENON_F32))
        matmul_f32(a, b, tenon_result_data(call, 0, float), n, k, m);
    else
        matmul_f64(a, b, tenon_result_data(call, 0, double), n, k, m);
    return TENON_OK;
}

/* `?`: only the function knows the size of its result. */
static tenon_status nonzero(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t n = tenon_dim(call, 0), count = 0;

    for (int64_t i = 0; i < n; i++)
        count += x[i] != 0;
    if (!tenon_result_alloc(call, 0, 1, &count))
        return TENON_EFAILED;
    int64_t *rows = tenon_result_data(call, 0, int64_t);
    for (int64_t i = 0; i < n; i++)
        if (x[i] != 0)
            *rows++ = i;
    return TENON_OK;
}

TENON_MODULE(kernels, "Kernels written once.",
             TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."),
             TENON_FUNCTION("dot(x: f32[n] c, y: f32[n] c) -> float", dot,
                            "Returns the inner product, summed in double precision."),
             TENON_FUNCTION("scale(x: f32[*b] rw dense, by: float)", scale, "Multiplies x in place."),
             TENON_FUNCTION("normalize(x: f32[n] c, by: 'sum'|'max' = 'sum') -> y: f32[n], divisor: float", normalize,
                            "Divides x by its sum or its largest element. Returns (y, divisor)."),
             TENON_FUNCTION("matmul(a: T[n, k], b: T[k, m]) -> T[n, m] where T = f32|f64", matmul,
                            "Returns the matrix product."),
             TENON_FUNCTION("nonzero(x: f32[n] c) -> i64[?]", nonzero,
                            "Returns the indices of the elements that are not 0."))
