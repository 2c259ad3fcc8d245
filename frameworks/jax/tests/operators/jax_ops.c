/* The library of the tests of tenon.jax_ops: functions that can and cannot become operators of JAX. */
#include <tenon/function.h>

#include <stdint.h>
#include <string.h>

#ifndef FACTOR
#define FACTOR 1
#endif

static int64_t calls; /* of functions that count */

/* Elementwise in either dtype: z = a * x * (w or 1) + shift */
static tenon_status affine_of(tenon_call *call, int x, int w, double a, double shift)
{
    const tenon_view *view = tenon_arg(call, x);
    for (int64_t i = 0; view && i < view->numel; i++) {
        if (view->dtype.bits == 32)
            tenon_result_data(call, 0, float)[i] = (float)(a * (double)tenon_data(call, x, float)[i] *
                                                               (w < 0 ? 1 : (double)tenon_data(call, w, float)[i]) +
                                                           shift);
        else
            tenon_result_data(call, 0, double)[i] =
                a * tenon_data(call, x, double)[i] * (w < 0 ? 1 : tenon_data(call, w, double)[i]) + shift;
    }
    return TENON_OK;
}
static tenon_status affine(tenon_call *call)
{
    return affine_of(call, 0, -1, tenon_arg_double(call, 1), tenon_has_arg(call, 2) ? tenon_arg_double(call, 2) : 0);
}
static tenon_status affine_grad(tenon_call *call)
{
    return affine_of(call, 0, -1, tenon_arg_double(call, 2), 0);
}
static tenon_status weighted(tenon_call *call)
{
    return affine_of(call, 0, tenon_has_arg(call, 1) ? 1 : -1, 1, 0);
}
static tenon_status same_values(tenon_call *call)
{
    return affine_of(call, 0, -1, FACTOR, 0);
}
static tenon_status counted(tenon_call *call)
{
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    return same_values(call);
}
static tenon_status count(tenon_call *call)
{
    tenon_return_int(call, 0, __atomic_load_n(&calls, __ATOMIC_SEQ_CST));
    return TENON_OK;
}
static tenon_status square(tenon_call *call)
{
    for (int64_t i = 0; i < tenon_result(call, 0)->numel; i++)
        tenon_result_data(call, 0, float)[i] = tenon_data(call, 0, float)[i] * tenon_data(call, 0, float)[i];
    return TENON_OK;
}
static tenon_status square_grad(tenon_call *call)
{
    for (int64_t i = 0; i < tenon_result(call, 0)->numel; i++)
        tenon_result_data(call, 0, float)[i] = 2 * tenon_data(call, 0, float)[i] * tenon_data(call, 1, float)[i];
    return TENON_OK;
}
static tenon_status square_grad_grad(tenon_call *call)
{
    for (int64_t i = 0; i < tenon_result(call, 0)->numel; i++) {
        float h = tenon_data(call, 0, float)[i];
        tenon_result_data(call, 0, float)[i] = 2 * h * tenon_data(call, 2, float)[i];
        tenon_result_data(call, 1, float)[i] = 2 * h * tenon_data(call, 1, float)[i];
    }
    return TENON_OK;
}
static tenon_status matmul(tenon_call *call)
{
    int64_t m = tenon_dim(call, 0), k = tenon_dim(call, 1), n = tenon_dim(call, 2);
    int64_t batch = m * n > 0 ? tenon_result(call, 0)->numel / (m * n) : 0;
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                float sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum += tenon_data(call, 0, float)[(b * m + i) * k + l] *
                           tenon_data(call, 1, float)[(b * k + l) * n + j];
                tenon_result_data(call, 0, float)[(b * m + i) * n + j] = sum;
            }
    return TENON_OK;
}
static tenon_status scale(tenon_call *call) /* in place */
{
    float *x = tenon_rw_data(call, 0, float);
    for (int64_t i = 0; i < tenon_arg(call, 0)->numel; i++)
        x[i] *= (float)tenon_arg_double(call, 1);
    return TENON_OK;
}
static tenon_status swap(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float), *y = tenon_has_arg(call, 1) ? tenon_rw_data(call, 1, float) : NULL;
    for (int64_t i = 0; y && i < tenon_dim(call, 0); i++) {
        float old = x[i];
        x[i] = y[i];
        y[i] = old;
    }
    return TENON_OK;
}
static tenon_status twice(tenon_call *call) /* in place, and the old values */
{
    float *x = tenon_rw_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++) {
        tenon_result_data(call, 0, float)[i] = x[i];
        x[i] *= 2;
    }
    return TENON_OK;
}
static tenon_status dot(tenon_call *call)
{
    double sum = 0;
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        sum += (double)(tenon_data(call, 0, float)[i] * tenon_data(call, 1, float)[i]);
    tenon_return_double(call, 0, sum);
    return TENON_OK;
}
static tenon_status sum(tenon_call *call)
{
    double total = 0;
    for (int64_t i = 0; i < tenon_arg(call, 0)->numel; i++)
        total += (double)tenon_data(call, 0, float)[i];
    tenon_return_double(call, 0, total);
    return TENON_OK;
}
static tenon_status dot_grad(tenon_call *call)
{
    bool wide = tenon_arg(call, 0)->dtype.bits == 64;
    float g = wide ? (float)*tenon_data(call, 0, double) : *tenon_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++) {
        tenon_result_data(call, 0, float)[i] = g * tenon_data(call, 2, float)[i];
        tenon_result_data(call, 1, float)[i] = g * tenon_data(call, 1, float)[i];
    }
    return TENON_OK;
}
static tenon_status stats(tenon_call *call)
{
    int64_t n = tenon_dim(call, 0), found = 0;
    for (int64_t i = 0; i < n; i++) {
        float x = tenon_data(call, 0, float)[i];
        tenon_result_data(call, 0, float)[i] = x > 0 ? x : 0;
        tenon_result_data(call, 1, bool)[i] = x > 0;
        found += x > 0;
    }
    tenon_return_int(call, 2, found);
    tenon_return_bool(call, 3, found == n);
    return TENON_OK;
}
static tenon_status pool(tenon_call *call)
{
    const tenon_view *z = tenon_result(call, 0);
    int64_t length, sum = 0;
    const int64_t *size = tenon_arg_ints(call, 2, &length);
    for (int64_t i = 0; i < length; i++)
        sum += size[i];
    for (int64_t i = 0; z && i < z->numel; i++)
        tenon_result_data(call, 0, float)[i] = (float)(sum + 100 * tenon_arg_enum(call, 1));
    return TENON_OK;
}
static tenon_status ramp(tenon_call *call)
{
    for (int64_t i = 0; i < tenon_result(call, 0)->numel; i++)
        tenon_result_data(call, 0, float)[i] = (float)i;
    return TENON_OK;
}
/* Every kind of value, as numbers. */
static tenon_status kinds(tenon_call *call)
{
    float *z = tenon_result_data(call, 0, float);
    int64_t length;
    z[0] = *tenon_data(call, 0, float);
    z[1] = (float)tenon_arg_int(call, 1);
    z[2] = (float)tenon_arg_double(call, 2);
    z[3] = (float)tenon_arg_bool(call, 3);
    size_t bytes;
    const char *text = tenon_arg_str(call, 4, &bytes);
    z[4] = (float)bytes;
    for (size_t i = 0; i < bytes; i++)
        z[4] += (float)(unsigned char)text[i];
    z[5] = (float)tenon_arg_enum(call, 5);
    z[6] = z[7] = 0;
    const int64_t *integers = tenon_arg_ints(call, 6, &length);
    for (int64_t i = 0; i < length; i++)
        z[6] += (float)((i + 1) * integers[i]);
    const double *numbers = tenon_arg_floats(call, 7, &length);
    for (int64_t i = 0; i < length; i++)
        z[7] += (float)((double)(i + 1) * numbers[i]);
    uint64_t bits;
    double number = tenon_arg_double(call, 2);
    memcpy(&bits, &number, sizeof bits);
    z[8] = (float)(bits >> 63);
    return TENON_OK;
}
static tenon_status copy(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    size_t bytes = (size_t)x->numel * (size_t)x->dtype.bits / 8 * x->dtype.lanes;
    if (bytes)
        memcpy(tenon_result(call, 0)->data, x->data, bytes);
    return TENON_OK;
}
static tenon_status memory_of(tenon_call *call) /* the elements in the order of memory */
{
    for (int64_t i = 0; i < tenon_result(call, 0)->numel; i++)
        tenon_result_data(call, 0, float)[i] = ((const float *)tenon_arg(call, 0)->data)[i];
    return TENON_OK;
}
static tenon_status fail(tenon_call *call)
{
    if (*tenon_data(call, 0, float) < 0)
        return tenon_fail(call, TENON_EINVAL, "the number %d is negative", (int)*tenon_data(call, 0, float));
    return same_values(call);
}
static tenon_status power(tenon_call *call)
{
    tenon_return_int(call, 0, INT64_C(1) << tenon_arg_int(call, 0));
    return TENON_OK;
}
static tenon_status none(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

TENON_MODULE(
    jax_kernels, "For JAX.",
    TENON_FUNCTION("affine(x: T[*b] c, a: float = 2, *, shift: float?) -> T[*b] where T = f32|float64", affine,
                   "Returns a*x + shift."),
    TENON_FUNCTION("affine_grad(g: T[*b] c, x: T[*b], a: float, *, shift: float?) -> T[*b] where T = f32|f64",
                   affine_grad, NULL),
    TENON_FUNCTION("weighted(x: f32[n] c, w: f32[n]? c) -> f32[n]", weighted, NULL),
    TENON_FUNCTION("same(x: f32[*b] c) -> f32[*b]", same_values, NULL),
    TENON_FUNCTION("counted(x: f32[n] c) -> f32[n]", counted, NULL), TENON_FUNCTION("count() -> int", count, NULL),
    TENON_FUNCTION("square(x: f32[*b] c) -> f32[*b]", square, NULL),
    TENON_FUNCTION("square_grad(g: f32[*b] c, x: f32[*b] c) -> f32[*b]", square_grad, NULL),
    TENON_FUNCTION("square_grad_grad(h: f32[*b] c, g: f32[*b] c, x: f32[*b] c) -> f32[*b], f32[*b]", square_grad_grad,
                   NULL),
    TENON_FUNCTION("matmul(a: f32[*b, m, k] c, b: f32[*b, k, n] c) -> f32[*b, m, n]", matmul, NULL),
    TENON_FUNCTION("product(a: f32[m, k] c, b: f32[k, n] c) -> f32[m, n]", matmul, NULL),
    TENON_FUNCTION("scale(x: f32[*b] rw c, a: float)", scale, NULL),
    TENON_FUNCTION("swap(x: f32[n] rw c, y: f32[n]? rw c)", swap, NULL),
    TENON_FUNCTION("perhaps_scale(x: f32[n]? rw c)", none, NULL),
    TENON_FUNCTION("twice(x: f32[n] rw c) -> old: f32[n]", twice, NULL),
    TENON_FUNCTION("dot(x: f32[n] c, y: f32[n] c) -> float", dot, NULL),
    TENON_FUNCTION("sum(x: f32[*b] c) -> float", sum, NULL),
    TENON_FUNCTION("dot_grad(g: T[], x: f32[n] c, y: f32[n] c) -> f32[n], f32[n] where T = f32|f64", dot_grad, NULL),
    TENON_FUNCTION("stats(x: f32[n] c) -> relu: f32[n], mask: bool[n], count: int, all: bool", stats, NULL),
    TENON_FUNCTION("total(x: f32[n] c, y: f32[n] c) -> total: float", dot, NULL),
    TENON_FUNCTION("pool(x: f32[n, k] c, mode: 'mean'|'a \"sum\"' = 'a \"sum\"', size: ints[2] = (1, 2), *,"
                   " keep: bool = True) -> f32[n // 2, k + 1, 3]",
                   pool, NULL),
    TENON_FUNCTION("ramp(n: int) -> f32[n]", ramp, NULL),
    TENON_FUNCTION("spread(n: int, k: int = 1) -> f32[4 * n // 4, n // k]", ramp, NULL),
    TENON_FUNCTION("head(x: f32[2 * n] c, n: int = 2) -> f32[2 * n]", same_values, NULL),
    TENON_FUNCTION("shrink(x: f32[n, k - 1], y: f32[k], z: f32[4, _]?) -> f32[n - 5]", ramp, NULL),
    TENON_FUNCTION("batch(x: T[*b, n], y: U[*b, n]) -> U[*b] where T = integer, U = f32|i32", none, NULL),
    TENON_FUNCTION("trim(x: f32[*b, n]) -> f32[*b, n - 5]", ramp, NULL),
    TENON_FUNCTION("kinds(x: f32[1], i: int, f: float, b: bool, s: str, e: 'a'|'bb', l: ints, m: floats) -> f32[9]",
                   kinds, NULL),
    TENON_FUNCTION("copy(x: T[*b] c) -> T[*b] where T = any", copy, NULL),
    TENON_FUNCTION("columns(x: f32[m, n] f) -> f32[m * n]", memory_of, NULL),
    TENON_FUNCTION("scale_columns(x: f32[m, n] rw f, a: float)", scale, NULL),
    TENON_FUNCTION("twice_columns(x: f32[m, n] rw f) -> f32[2]", none, NULL),
    TENON_FUNCTION("aligned(x: f32[n] aligned(4096)) -> f32[n]", copy, NULL),
    TENON_FUNCTION("fail(x: f32[n] c) -> f32[n]", fail, NULL), TENON_FUNCTION("power(n: int) -> int", power, NULL),
    TENON_FUNCTION("wide(x: f32[n]) -> i64[n]", none, NULL),
    TENON_FUNCTION("wide_complex(x: f32[n]) -> c128[n]", none, NULL),
    TENON_FUNCTION("either(x: f32|i32[n], y: i4|i8[n]?) -> f32[n]", none, NULL),
    TENON_FUNCTION("by_keyword(a: float, *, x: f32[n] c) -> f32[n]", none, NULL),
    TENON_FUNCTION("method(self: f32[n] c, args: f32[n] c, kwargs: int = 1) -> f32[n]", same_values, NULL),
    TENON_FUNCTION("on_gpu(x: f32[n] c cuda) -> f32[n]", same_values, NULL),
    TENON_FUNCTION("on_both(x: f32[n] c cpu|cuda, a: float = 1) -> f32[n]", same_values, NULL),
    /* What cannot be an operator. */
    TENON_FUNCTION("positive(x: f32[n] c) -> i64[?]", none, NULL),
    TENON_FUNCTION("open(path: str) -> handle('Index')", none, NULL),
    TENON_FUNCTION("close(index: handle('Index')) -> f32[1]", none, NULL),
    TENON_FUNCTION("label(x: f32[n]) -> str", none, NULL), TENON_FUNCTION("choice(x: f32[n]) -> 'a'|'b'", none, NULL),
    TENON_FUNCTION("perhaps(x: f32[n]) -> f32[n]?", none, NULL), TENON_FUNCTION("quiet(x: f32[n])", none, NULL),
    TENON_FUNCTION("huge(x: f32[n]) -> f128[n]", none, NULL), TENON_FUNCTION("packed(x: f32[n]) -> i4[n]", none, NULL),
    TENON_FUNCTION("packed_argument(x: i4[n]) -> f32[n]", none, NULL),
    TENON_FUNCTION("packed_arguments(x: T[n], y: f32[n]?) -> f32[n] where T = u4|i4", none, NULL),
    TENON_FUNCTION("huge_argument(x: f128[n]? rw)", none, NULL),
    TENON_FUNCTION("clash(x: f32[n] rw) -> x: f32[n]", none, NULL),
    TENON_FUNCTION("gpu_number(x: f32[n] cuda) -> float", none, NULL),
    TENON_FUNCTION("nowhere(x: f32[n] cuda, y: f32[n]) -> f32[n]", none, NULL),
    TENON_FUNCTION("custom_calls(x: f32[n]) -> f32[n]", none, NULL),
    TENON_FUNCTION("far(x: f32[n] hexagon) -> f32[n]", none, NULL))
