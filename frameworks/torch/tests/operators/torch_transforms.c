/* A layer over a batch, wave(x, w) = sin(x) * w, with its derivatives up to the second order, in both modes.
 *
 * The functions count how often they are called. */
#include <tenon/function.h>

#include <math.h>
#include <string.h>

static int64_t calls;

/* The row of argument `i` at position `at` of the batch; a weight has only one row. */
static const double *row_of(tenon_call *call, int32_t i, int64_t at)
{
    const tenon_view *view = tenon_arg(call, i);
    return (const double *)view->data + (view->ndim > 1 ? at * view->shape[view->ndim - 1] : 0);
}

static int64_t rows_of(tenon_call *call, int32_t i)
{
    const tenon_view *view = tenon_arg(call, i);
    int64_t rows = 1;
    for (int32_t d = 0; d < view->ndim - 1; d++)
        rows *= view->shape[d];
    return rows;
}

/* A function whose rows are computed one element at a time. `in` are the elements of its arguments, `out` those of its results;
 * results without a batch are sums. */
typedef void (*element_fn)(const double *in, double *out);

static tenon_status each_element(tenon_call *call, int32_t batched, int32_t inputs, int32_t outputs, element_fn element)
{
    int64_t rows = rows_of(call, batched), k = tenon_dim(call, 0);
    calls++;
    for (int32_t o = 0; o < outputs; o++)
        memset(tenon_result(call, o)->data, 0,
               (size_t)(tenon_result(call, o)->ndim > 1 ? rows * k : k) * sizeof(double));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < k; j++) {
            double in[8], out[4];
            for (int32_t i = 0; i < inputs; i++)
                in[i] = row_of(call, i, r)[j];
            element(in, out);
            for (int32_t o = 0; o < outputs; o++)
                ((double *)tenon_result(call, o)->data)[tenon_result(call, o)->ndim > 1 ? r * k + j : j] += out[o];
        }
    return TENON_OK;
}

#define FUNCTION(name, batched, inputs, outputs)                                                                       \
    static tenon_status name(tenon_call *call)                                                                         \
    {                                                                                                                  \
        return each_element(call, batched, inputs, outputs, name##_element);                                           \
    }

static void wave_element(const double *in, double *out)
{
    out[0] = sin(in[0]) * in[1];
}
FUNCTION(wave, 0, 2, 1)

static void wave_grad_element(const double *in, double *out)
{
    double dy = in[0], x = in[1], w = in[2];
    out[0] = dy * w * cos(x);
    out[1] = dy * sin(x);
}
FUNCTION(wave_grad, 1, 3, 2)

static void wave_grad_grad_element(const double *in, double *out)
{
    double gx = in[0], gw = in[1], dy = in[2], x = in[3], w = in[4];
    out[0] = gx * w * cos(x) + gw * sin(x);
    out[1] = -gx * dy * w * sin(x) + gw * dy * cos(x);
    out[2] = gx * dy * cos(x);
}
FUNCTION(wave_grad_grad, 3, 5, 3)

static void wave_jvp_element(const double *in, double *out)
{
    double x = in[0], w = in[1], tx = in[2], tw = in[3];
    out[0] = tx * w * cos(x) + tw * sin(x);
}
FUNCTION(wave_jvp, 0, 4, 1)

static void wave_jvp_grad_element(const double *in, double *out)
{
    double g = in[0], x = in[1], w = in[2], tx = in[3], tw = in[4];
    out[0] = g * (tw * cos(x) - tx * w * sin(x));
    out[1] = g * tx * cos(x);
    out[2] = g * w * cos(x);
    out[3] = g * sin(x);
}
FUNCTION(wave_jvp_grad, 1, 5, 4)

static void wave_jvp_jvp_element(const double *in, double *out)
{
    double x = in[0], w = in[1], tx = in[2], tw = in[3], sx = in[4], sw = in[5], stx = in[6], stw = in[7];
    out[0] = stx * w * cos(x) + tx * sw * cos(x) - tx * w * sin(x) * sx + stw * sin(x) + tw * cos(x) * sx;
}
FUNCTION(wave_jvp_jvp, 0, 8, 1)

static void wave_grad_jvp_element(const double *in, double *out)
{
    double dy = in[0], x = in[1], w = in[2], tdy = in[3], tx = in[4], tw = in[5];
    out[0] = tdy * w * cos(x) + dy * tw * cos(x) - dy * w * sin(x) * tx;
    out[1] = tdy * sin(x) + dy * cos(x) * tx;
}
FUNCTION(wave_grad_jvp, 1, 6, 2)

/* Its gradients, without the sum over the batch. */
static tenon_status wave_rows_grad(tenon_call *call)
{
    return each_element(call, 1, 3, 2, wave_grad_element);
}

/* The sum of i * x of a list. */
static tenon_status blend(tenon_call *call)
{
    int64_t count, numel = tenon_result(call, 0)->numel;
    const tenon_view *xs = tenon_arg_tensors(call, 0, &count);
    double *y = tenon_result_data(call, 0, double);
    calls++;
    memset(y, 0, (size_t)numel * sizeof *y);
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < numel; j++)
            y[j] += (double)i * ((const double *)xs[i].data)[j];
    return TENON_OK;
}

static tenon_status blend_grad(tenon_call *call)
{
    int64_t count;
    const tenon_view *made = tenon_result_tensors(call, 0, &count);
    const double *dy = tenon_data(call, 0, double);
    calls++;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < made[i].numel; j++)
            ((double *)made[i].data)[j] = (double)i * dy[j];
    return TENON_OK;
}

/* x *= y */
static tenon_status scale(tenon_call *call)
{
    double *x = tenon_arg(call, 0)->data;
    const double *y = tenon_data(call, 1, double);
    for (int64_t i = 0; i < tenon_arg(call, 0)->numel; i++)
        x[i] *= y[i];
    return TENON_OK;
}

/* x w and its gradients, of complex numbers: the real part and the imaginary part of each. */
static void multiply(const double *a, const double *b, int sign, double *z)
{
    z[0] = a[0] * b[0] - sign * a[1] * b[1];
    z[1] = a[1] * b[0] + sign * a[0] * b[1];
}

static tenon_status turn(tenon_call *call)
{
    const double *x = tenon_arg(call, 0)->data, *w = tenon_arg(call, 1)->data;
    double *z = tenon_result(call, 0)->data;
    for (int64_t i = 0; i < 2 * tenon_result(call, 0)->numel; i += 2)
        multiply(x + i, w + i, 1, z + i);
    return TENON_OK;
}

static tenon_status turn_grad(tenon_call *call)
{
    const double *dz = tenon_arg(call, 0)->data, *x = tenon_arg(call, 1)->data, *w = tenon_arg(call, 2)->data;
    double *dx = tenon_result(call, 0)->data, *dw = tenon_result(call, 1)->data;
    for (int64_t i = 0; i < 2 * tenon_result(call, 0)->numel; i += 2) {
        multiply(dz + i, w + i, -1, dx + i);
        multiply(dz + i, x + i, -1, dw + i);
    }
    return TENON_OK;
}

/* Without a batch: vmap calls it in a loop. */
static tenon_status double_all(tenon_call *call)
{
    const double *x = tenon_data(call, 0, double);
    double *y = tenon_result_data(call, 0, double);
    calls++;
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        y[i] = 2 * x[i];
    return TENON_OK;
}

/* The address of its argument, for each item of the batch. */
static tenon_status address(tenon_call *call)
{
    int64_t *y = tenon_result_data(call, 0, int64_t), rows = rows_of(call, 0);
    calls++;
    for (int64_t i = 0; i < rows; i++)
        y[i] = (int64_t)(intptr_t)tenon_arg(call, 0)->data;
    return TENON_OK;
}

static tenon_status count(tenon_call *call)
{
    tenon_return_int(call, 0, calls);
    calls = 0;
    return TENON_OK;
}

#define B "f64[*b, k]"
#define C "f64[*b, k] c"
#define W "f64[k] c"
TENON_MODULE(torch_transforms, "A layer with derivatives.",
             TENON_FUNCTION("wave(x: " C ", w: " W ") -> " B, wave, "sin(x) * w"),
             TENON_FUNCTION("wave_grad(dy: " C ", x: " C ", w: " W ") -> dx: " B ", dw: f64[k]", wave_grad,
                            "Its gradients."),
             TENON_FUNCTION("wave_rows_grad(dy: " C ", x: " C ", w: " W ") -> dx: " B ", dw: " B, wave_rows_grad,
                            "Its gradients, of each row."),
             TENON_FUNCTION("blend(xs: [" C "]) -> " B, blend, "The sum of i * x."),
             TENON_FUNCTION("blend_grad(dy: " C ", xs: [" B "]) -> [" B "] for xs", blend_grad, "Its gradients."),
             TENON_FUNCTION("scale(x: f64[*b, k] rw c, y: " C ")", scale, "x *= y"),
             TENON_FUNCTION("turn(x: c128[n] c, w: c128[n] c) -> c128[n]", turn, "x * w"),
             TENON_FUNCTION("turn_grad(dz: c128[n] c, x: c128[n] c, w: c128[n] c) -> c128[n], c128[n]", turn_grad,
                            "Its gradients."),
             TENON_FUNCTION("wave_grad_grad(gx: " C ", gw: " W ", dy: " C ", x: " C ", w: " W ") -> gdy: " B ", dx: " B
                            ", dw: f64[k]",
                            wave_grad_grad, "The gradients of wave_grad."),
             TENON_FUNCTION("wave_jvp(x: " C ", w: " W ", tx: " C ", tw: " W ") -> " B, wave_jvp, "Its tangent."),
             TENON_FUNCTION("wave_jvp_grad(g: " C ", x: " C ", w: " W ", tx: " C ", tw: " W ") -> dx: " B
                            ", dw: f64[k], dtx: " B ", dtw: f64[k]",
                            wave_jvp_grad, "The gradients of wave_jvp."),
             TENON_FUNCTION("wave_jvp_jvp(x: " C ", w: " W ", tx: " C ", tw: " W ", sx: " C ", sw: " W ", stx: " C
                            ", stw: " W ") -> " B,
                            wave_jvp_jvp, "The tangent of wave_jvp."),
             TENON_FUNCTION("wave_grad_jvp(dy: " C ", x: " C ", w: " W ", tdy: " C ", tx: " C ", tw: " W ") -> tdx: " B
                            ", tdw: f64[k]",
                            wave_grad_jvp, "The tangents of wave_grad."),
             TENON_FUNCTION("double_all(x: f64[n] c) -> f64[n]", double_all, "2 * x, without a batch."),
             TENON_FUNCTION("address(x: f64[*b, k]) -> i64[*b]", address, "The address of x."),
             TENON_FUNCTION("count() -> int", count, "How often the functions above were called since the last count."))
