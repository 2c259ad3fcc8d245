/* The library of test_torch_ops.py: functions that can and cannot become torch operators. */
#include <tenon/function.h>

/* Elementwise in either dtype: z = a * x * (w or 1) + shift */
static tenon_status affine_of(tenon_call *call, int x, int w, double a, double shift)
{
    const tenon_view *view = tenon_arg(call, x);
    for (int64_t i = 0; view && i < view->numel; i++) {
        if (view->dtype.bits == 32)
            tenon_result_data(call, 0, float)[i] =
                (float)(a * tenon_data(call, x, float)[i] * (w < 0 ? 1 : tenon_data(call, w, float)[i]) + shift);
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
static tenon_status same(tenon_call *call)
{
    return affine_of(call, 0, -1, 1, 0);
}

static tenon_status add_to(tenon_call *call)
{
    double *y = tenon_rw_data(call, 0, double);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        y[i] += tenon_arg_double(call, 2) * tenon_data(call, 1, double)[i];
    return TENON_OK;
}
static tenon_status twice(tenon_call *call) /* in place, and the old values */
{
    double *x = tenon_rw_data(call, 0, double);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++) {
        tenon_result_data(call, 0, double)[i] = x[i];
        x[i] *= 2;
    }
    return TENON_OK;
}
static tenon_status dot(tenon_call *call)
{
    double sum = 0;
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        sum += tenon_data(call, 0, double)[i] * tenon_data(call, 1, double)[i];
    tenon_return_double(call, 0, sum);
    return TENON_OK;
}
static tenon_status dot_grad(tenon_call *call)
{
    for (int64_t i = 0; i < tenon_dim(call, 0); i++) {
        tenon_result_data(call, 0, double)[i] = *tenon_data(call, 0, double) * tenon_data(call, 2, double)[i];
        tenon_result_data(call, 1, double)[i] = *tenon_data(call, 0, double) * tenon_data(call, 1, double)[i];
    }
    return TENON_OK;
}
static tenon_status stats(tenon_call *call)
{
    int64_t n = tenon_dim(call, 0), count = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = tenon_data(call, 0, double)[i];
        tenon_result_data(call, 0, double)[i] = x > 0 ? x : 0;
        tenon_result_data(call, 1, bool)[i] = x > 0;
        count += x > 0;
    }
    tenon_return_int(call, 2, count);
    tenon_return_bool(call, 3, count == n);
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
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        tenon_result_data(call, 0, float)[i] = (float)i;
    return TENON_OK;
}
static tenon_status positive(tenon_call *call)
{
    int64_t count = 0, n = tenon_dim(call, 0);
    for (int64_t i = 0; i < n; i++)
        count += tenon_data(call, 0, float)[i] > 0;
    if (!tenon_result_alloc(call, 0, 1, &count))
        return TENON_EFAILED;
    for (int64_t i = 0, k = 0; i < n; i++)
        if (tenon_data(call, 0, float)[i] > 0)
            tenon_result_data(call, 0, int64_t)[k++] = i;
    return TENON_OK;
}
static tenon_status strides(tenon_call *call)
{
    for (int i = 0; i < 2; i++)
        tenon_result_data(call, 0, int64_t)[i] = tenon_arg(call, 0)->strides[i];
    return TENON_OK;
}
static tenon_status none(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

TENON_MODULE(
    ops, "For torch.",
    TENON_FUNCTION("affine(x: T[*b] c, a: float = 2, *, shift: float?) -> T[*b] where T = f32|float64", affine, ""),
    TENON_FUNCTION("affine_grad(g: T[*b] c, x: T[*b], a: float, *, shift: float?) -> T[*b] where T = f32|f64",
                   affine_grad, NULL),
    TENON_FUNCTION("weighted(x: f64[n] c, w: f64[n]? c) -> f64[n]", weighted, NULL),
    TENON_FUNCTION("weighted_grad(g: f64[n], x: f64[n]) -> f64[n], f64[n]", none, NULL),
    TENON_FUNCTION("plain(x: f64[n] c) -> f64[n]", same, NULL),
    TENON_FUNCTION("add_to(y: f64[n] rw c, x: f64[n] c, a: float = 1)", add_to, NULL),
    TENON_FUNCTION("twice(x: f64[n] rw c) -> f64[n]", twice, NULL),
    TENON_FUNCTION("dot(x: f64[n] c, y: f64[n] c) -> float", dot, NULL),
    TENON_FUNCTION("dot_grad(g: f64[], x: f64[n] c, y: f64[n] c) -> f64[n], f64[n]", dot_grad, NULL),
    TENON_FUNCTION("stats(x: f64[n] c) -> relu: f64[n], mask: bool[n], count: int, all: bool", stats, NULL),
    TENON_FUNCTION("total(x: f64[n] c, y: f64[n] c) -> total: float", dot, NULL),
    TENON_FUNCTION("pool(x: f32[n, k] c, mode: 'mean'|'a \"sum\"' = 'a \"sum\"', size: ints[2] = (1, 2), *,"
                   " keep: bool = True) -> f32[n // 2, k + 1, 3]",
                   pool, NULL),
    TENON_FUNCTION("ramp(n: int) -> f32[n]", ramp, NULL),
    TENON_FUNCTION("spread(n: int, k: int = 1) -> f32[4 * n // 4, n // k]", none, NULL),
    TENON_FUNCTION("head(x: f32[2 * n] c, n: int = 2) -> f32[2 * n]", same, NULL),
    TENON_FUNCTION("shrink(x: f32[n, k - 1], y: f32[k], z: f32[4, _]?) -> f32[n - 5]", ramp, NULL),
    TENON_FUNCTION("batch(x: T[*b, n], y: U[*b, n]) -> U[*b] where T = integer, U = real", none, NULL),
    TENON_FUNCTION("trim(x: f32[*b, n]) -> f32[*b, n - 5]", ramp, NULL),
    TENON_FUNCTION("positive(x: f32[n] c) -> i64[?]", positive, NULL),
    TENON_FUNCTION("strides(x: f32[_, _] unaligned) -> i64[2]", strides, NULL),
    TENON_FUNCTION("on_gpu(x: f32[n] c cuda) -> f32[n]", same, NULL),
    TENON_FUNCTION("by_keyword(a: float, *, x: f64[n] c) -> f64[n]", none, NULL),
    TENON_FUNCTION("open(path: str) -> handle('Index')", none, NULL),
    TENON_FUNCTION("end(index: handle('Index')) -> f32[1]", none, NULL),
    TENON_FUNCTION("label(x: f32[n]) -> str", none, NULL), TENON_FUNCTION("perhaps(x: f32[n]) -> f32[n]?", none, NULL),
    TENON_FUNCTION("quiet(x: f32[n])", none, NULL), TENON_FUNCTION("wide(x: f32[n]) -> f128[n]", none, NULL),
    TENON_FUNCTION("lists(x: f32[n], w: ints? = (1, 2)) -> f32[n]", none, NULL),
    TENON_FUNCTION("name(x: f32[n]) -> f32[n]", none, NULL), TENON_FUNCTION("close(x: f32[n]) -> f32[n]", none, NULL),
    TENON_FUNCTION("far(x: f32[n] hexagon) -> f32[n]", none, NULL))
