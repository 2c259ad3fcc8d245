/* y = w x^2: a layer whose weight is outside the batch, with its derivatives of both modes, up to the second order. */
#include <stdatomic.h>
#include <string.h>
#include <tenon/function.h>

static atomic_int forward_calls, backward_calls;

/* The arguments of a row. Those of one row for the whole batch have a step of 0. */
typedef struct {
    const float *at[8];
    int64_t rows, columns;
} layer;

static layer read_layer(tenon_call *call, int count)
{
    layer one = {.columns = tenon_dim(call, 0)};
    one.rows = tenon_result(call, 0)->numel / (one.columns ? one.columns : 1);
    for (int i = 0; i < count; i++)
        one.at[i] = tenon_data(call, i, float);
    return one;
}

#define EACH(count)                                                                                                    \
    layer one = read_layer(call, count);                                                                               \
    float *z = tenon_result_data(call, 0, float);                                                                      \
    for (int64_t i = 0, j = 0; i < one.rows * one.columns; i++, j = i % one.columns)
#define ROW(k) one.at[k][i]
#define ALL(k) one.at[k][j]

static float *zeroed(tenon_call *call, int result)
{
    float *sums = tenon_result_data(call, result, float);
    memset(sums, 0, (size_t)tenon_result(call, result)->numel * sizeof *sums);
    return sums;
}

static tenon_status curve(tenon_call *call)
{
    atomic_fetch_add(&forward_calls, 1);
    EACH(2) z[i] = ALL(1) * ROW(0) * ROW(0);
    return TENON_OK;
}

static tenon_status curve_grad(tenon_call *call) /* g, x, w */
{
    float *dw = zeroed(call, 1);
    atomic_fetch_add(&backward_calls, 1);
    EACH(3)
    {
        z[i] = 2 * ROW(0) * ROW(1) * ALL(2);
        dw[j] += ROW(0) * ROW(1) * ROW(1);
    }
    return TENON_OK;
}

static tenon_status curve_rows_grad(tenon_call *call) /* g, x, w */
{
    float *dw = tenon_result_data(call, 1, float);
    EACH(3)
    {
        z[i] = 2 * ROW(0) * ROW(1) * ALL(2);
        dw[i] = ROW(0) * ROW(1) * ROW(1);
    }
    return TENON_OK;
}

static tenon_status curve_grad_grad(tenon_call *call) /* hx, hw, g, x, w */
{
    float *dx = tenon_result_data(call, 1, float), *dw = zeroed(call, 2);
    EACH(5)
    {
        z[i] = 2 * ROW(0) * ROW(3) * ALL(4) + ALL(1) * ROW(3) * ROW(3);
        dx[i] = 2 * ROW(2) * (ROW(0) * ALL(4) + ALL(1) * ROW(3));
        dw[j] += 2 * ROW(0) * ROW(2) * ROW(3);
    }
    return TENON_OK;
}

static tenon_status curve_grad_jvp(tenon_call *call) /* g, x, w, and their tangents */
{
    float *dw = zeroed(call, 1);
    EACH(6)
    {
        z[i] = 2 * (ROW(3) * ROW(1) * ALL(2) + ROW(0) * ROW(4) * ALL(2) + ROW(0) * ROW(1) * ALL(5));
        dw[j] += ROW(3) * ROW(1) * ROW(1) + 2 * ROW(0) * ROW(1) * ROW(4);
    }
    return TENON_OK;
}

static tenon_status curve_jvp(tenon_call *call) /* x, w, and their tangents */
{
    EACH(4) z[i] = 2 * ROW(0) * ROW(2) * ALL(1) + ROW(0) * ROW(0) * ALL(3);
    return TENON_OK;
}

static tenon_status curve_jvp_grad(tenon_call *call) /* g, x, w, tx, tw */
{
    float *dw = zeroed(call, 1), *dtx = tenon_result_data(call, 2, float), *dtw = zeroed(call, 3);
    EACH(5)
    {
        z[i] = 2 * ROW(0) * (ROW(3) * ALL(2) + ROW(1) * ALL(4));
        dw[j] += 2 * ROW(0) * ROW(1) * ROW(3);
        dtx[i] = 2 * ROW(0) * ROW(1) * ALL(2);
        dtw[j] += ROW(0) * ROW(1) * ROW(1);
    }
    return TENON_OK;
}

static tenon_status curve_jvp_jvp(tenon_call *call) /* x, w, tx, tw, and their tangents */
{
    EACH(8)
    {
        z[i] = 2 * (ROW(2) * ALL(1) + ROW(0) * ALL(3)) * ROW(4) + 2 * ROW(0) * ROW(2) * ALL(5);
        z[i] += 2 * ROW(0) * ALL(1) * ROW(6) + ROW(0) * ROW(0) * ALL(7);
    }
    return TENON_OK;
}

/* x w and its gradients, of complex numbers: the real part and the imaginary part of each. */
static void multiply(const float *a, const float *b, int sign, float *z)
{
    z[0] = a[0] * b[0] - (float)sign * a[1] * b[1];
    z[1] = a[1] * b[0] + (float)sign * a[0] * b[1];
}

static tenon_status turn(tenon_call *call)
{
    const float *x = tenon_arg(call, 0)->data, *w = tenon_arg(call, 1)->data;
    float *z = tenon_result(call, 0)->data;
    for (int64_t i = 0; i < tenon_result(call, 0)->numel; i++)
        multiply(x + 2 * i, w + 2 * i, 1, z + 2 * i);
    return TENON_OK;
}

static tenon_status turn_grad(tenon_call *call) /* g, x, w */
{
    const float *g = tenon_arg(call, 0)->data, *x = tenon_arg(call, 1)->data, *w = tenon_arg(call, 2)->data;
    float *dx = tenon_result(call, 0)->data, *dw = tenon_result(call, 1)->data;
    for (int64_t i = 0; i < tenon_result(call, 0)->numel; i++) {
        multiply(g + 2 * i, w + 2 * i, -1, dx + 2 * i);
        multiply(g + 2 * i, x + 2 * i, -1, dw + 2 * i);
    }
    return TENON_OK;
}

static tenon_status count(tenon_call *call)
{
    tenon_return_int(call, 0, atomic_load(&forward_calls) + 1000 * atomic_load(&backward_calls));
    return TENON_OK;
}

#define X "f32[*b, k] c"
#define W "f32[k] c"
TENON_MODULE(
    jax_layers, "A layer with a weight.", TENON_FUNCTION("curve(x: " X ", w: " W ") -> f32[*b, k]", curve, NULL),
    TENON_FUNCTION("curve_grad(g: " X ", x: " X ", w: " W ") -> dx: f32[*b, k], dw: f32[k]", curve_grad, NULL),
    TENON_FUNCTION("curve_rows_grad(g: " X ", x: " X ", w: " W ") -> dx: f32[*b, k], dw: f32[*b, k]", curve_rows_grad,
                   NULL),
    TENON_FUNCTION("curve_grad_grad(hx: " X ", hw: " W ", g: " X ", x: " X ", w: " W
                   ") -> f32[*b, k], f32[*b, k], f32[k]",
                   curve_grad_grad, NULL),
    TENON_FUNCTION("curve_grad_jvp(g: " X ", x: " X ", w: " W ", tg: " X ", tx: " X ", tw: " W
                   ") -> f32[*b, k], f32[k]",
                   curve_grad_jvp, NULL),
    TENON_FUNCTION("curve_jvp(x: " X ", w: " W ", tx: " X ", tw: " W ") -> f32[*b, k]", curve_jvp, NULL),
    TENON_FUNCTION("curve_jvp_grad(g: " X ", x: " X ", w: " W ", tx: " X ", tw: " W
                   ") -> f32[*b, k], f32[k], f32[*b, k], f32[k]",
                   curve_jvp_grad, NULL),
    TENON_FUNCTION("curve_jvp_jvp(x: " X ", w: " W ", tx: " X ", tw: " W ", sx: " X ", sw: " W ", stx: " X ", stw: " W
                   ") -> f32[*b, k]",
                   curve_jvp_jvp, NULL),
    TENON_FUNCTION("turn(x: c64[n] c, w: c64[n] c) -> c64[n]", turn, NULL),
    TENON_FUNCTION("turn_grad(g: c64[n] c, x: c64[n] c, w: c64[n] c) -> dx: c64[n], dw: c64[n]", turn_grad, NULL),
    TENON_FUNCTION("both(x: " X ", y: f32[k, *b]) -> f32[*b, k]", curve, NULL),
    TENON_FUNCTION("counts(x: " X ", w: f32[k] c rw)", curve, NULL), TENON_FUNCTION("count() -> int", count, NULL))
