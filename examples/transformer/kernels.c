/* The kernels of a small transformer: RMS normalisation, rotary positions and a causal softmax, each with its gradient.
 * torch and JAX train with the same file.
 *
 *   cc -O3 -shared -fPIC $(python -m tenon cflags) kernels.c -o kernels.so -lm
 *
 * `*b` is the batch of a signature: dimensions that the function treats one by one. From it the frameworks know how to map
 * (vmap) and how to shard an operator. The weight of rms_norm has no `*b`, so each device has all of it. */
#include <math.h>
#include <string.h>
#include <tenon/function.h>

/* The number of items that argument `i` has in its batch, if one item has `rank` dimensions. */
static int64_t batch_size(tenon_call *call, int32_t i, int32_t rank)
{
    const tenon_view *x = tenon_arg(call, i);
    int64_t count = 1;
    for (int32_t d = 0; d < x->ndim - rank; d++)
        count *= x->shape[d];
    return count;
}

/* ----------------------------------------------------------------------------------------------------- rms_norm */

static double inverse_rms(const float *x, int64_t k, double eps)
{
    double sum = 0;
    for (int64_t j = 0; j < k; j++)
        sum += (double)x[j] * x[j];
    return 1 / sqrt(sum / (double)k + eps);
}

static tenon_status rms_norm(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float), *weight = tenon_data(call, 1, float);
    double eps = tenon_arg_double(call, 2);
    float *y = tenon_result_data(call, 0, float);
    int64_t rows = batch_size(call, 0, 1), k = tenon_dim(call, 0);

    for (int64_t i = 0; i < rows; i++, x += k, y += k) {
        double r = inverse_rms(x, k, eps);
        for (int64_t j = 0; j < k; j++)
            y[j] = (float)(r * x[j] * weight[j]);
    }
    return TENON_OK;
}

static tenon_status rms_norm_grad(tenon_call *call)
{
    const float *dy = tenon_data(call, 0, float), *x = tenon_data(call, 1, float), *weight = tenon_data(call, 2, float);
    double eps = tenon_arg_double(call, 3);
    float *dx = tenon_result_data(call, 0, float), *dweight = tenon_result_data(call, 1, float);
    int64_t rows = batch_size(call, 1, 1), k = tenon_dim(call, 0);
    double *sums = tenon_scratch(call, (size_t)k * sizeof(double)); /* a float would lose precision */

    if (!sums)
        return TENON_EFAILED;
    memset(sums, 0, (size_t)k * sizeof(double));
    for (int64_t i = 0; i < rows; i++, dy += k, x += k, dx += k) {
        double r = inverse_rms(x, k, eps), dot = 0;
        for (int64_t j = 0; j < k; j++) {
            dot += (double)dy[j] * x[j] * weight[j];
            sums[j] += r * dy[j] * x[j];
        }
        for (int64_t j = 0; j < k; j++)
            dx[j] = (float)(r * (dy[j] * weight[j] - x[j] * r * r * dot / (double)k));
    }
    for (int64_t j = 0; j < k; j++)
        dweight[j] = (float)sums[j];
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------------------------- rotary */

/* Rotate the pairs (x[j], x[j + k / 2]) of each position by an angle that grows with the position. */
static void rotate(const float *x, float *y, int64_t count, int64_t t, int64_t k, double base, double sign)
{
    int64_t half = k / 2;
    for (int64_t i = 0; i < count * t; i++, x += k, y += k)
        for (int64_t j = 0; j < half; j++) {
            double angle = sign * (double)(i % t) * pow(base, -(double)j / (double)half);
            double c = cos(angle), s = sin(angle);
            y[j] = (float)(x[j] * c - x[j + half] * s);
            y[j + half] = (float)(x[j] * s + x[j + half] * c);
        }
}

static tenon_status rotary(tenon_call *call)
{
    int64_t t = tenon_dim(call, 0), k = tenon_dim(call, 1);
    if (k % 2)
        return tenon_fail(call, TENON_EINVAL, "k must be even, not %lld", (long long)k);
    rotate(tenon_data(call, 0, float), tenon_result_data(call, 0, float), batch_size(call, 0, 2), t, k,
           tenon_arg_double(call, 1), 1);
    return TENON_OK;
}

/* The gradient of a rotation is the rotation back. */
static tenon_status rotary_grad(tenon_call *call)
{
    int64_t t = tenon_dim(call, 0), k = tenon_dim(call, 1);
    if (k % 2)
        return tenon_fail(call, TENON_EINVAL, "k must be even, not %lld", (long long)k);
    rotate(tenon_data(call, 0, float), tenon_result_data(call, 0, float), batch_size(call, 0, 2), t, k,
           tenon_arg_double(call, 2), -1);
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------------------------ softmax */

/* Row `i` of the scores of one head: its first i + 1 numbers become probabilities, the others, which are later, 0. */
static void causal_row(const float *x, float *y, int64_t i, int64_t t, double scale)
{
    float largest = x[0];
    double sum = 0;
    for (int64_t j = 1; j <= i; j++)
        largest = x[j] > largest ? x[j] : largest;
    for (int64_t j = 0; j <= i; j++)
        sum += y[j] = (float)exp(scale * ((double)x[j] - largest));
    for (int64_t j = 0; j <= i; j++)
        y[j] = (float)(y[j] / sum);
    for (int64_t j = i + 1; j < t; j++)
        y[j] = 0;
}

static tenon_status softmax(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    double scale = tenon_arg_double(call, 1);
    float *y = tenon_result_data(call, 0, float);
    int64_t rows = batch_size(call, 0, 1), t = tenon_dim(call, 0);

    for (int64_t i = 0; i < rows; i++, x += t, y += t)
        causal_row(x, y, i % t, t, scale);
    return TENON_OK;
}

static tenon_status softmax_grad(tenon_call *call)
{
    const float *dy = tenon_data(call, 0, float), *x = tenon_data(call, 1, float);
    double scale = tenon_arg_double(call, 2);
    float *dx = tenon_result_data(call, 0, float);
    int64_t rows = batch_size(call, 1, 1), t = tenon_dim(call, 0);

    for (int64_t i = 0; i < rows; i++, dy += t, x += t, dx += t) {
        double dot = 0;
        causal_row(x, dx, i % t, t, scale);
        for (int64_t j = 0; j <= i % t; j++)
            dot += (double)dy[j] * dx[j];
        for (int64_t j = 0; j <= i % t; j++)
            dx[j] = (float)(scale * dx[j] * (dy[j] - dot));
    }
    return TENON_OK;
}

TENON_MODULE(
    kernels, "The kernels of a small transformer.",
    TENON_FUNCTION("rms_norm(x: f32[*b, k] c, weight: f32[k] c, eps: float = 1e-6) -> f32[*b, k]", rms_norm,
                   "Divides each row of x by the root of its mean square."),
    TENON_FUNCTION("rms_norm_grad(dy: f32[*b, k] c, x: f32[*b, k] c, weight: f32[k] c, eps: float = 1e-6)"
                   " -> dx: f32[*b, k], dweight: f32[k]",
                   rms_norm_grad, "Returns the gradients of x and weight of rms_norm."),
    TENON_FUNCTION("rotary(x: f32[*b, t, k] c, base: float = 10000) -> f32[*b, t, k]", rotary,
                   "Rotates the vectors of t positions by angles that grow with the position."),
    TENON_FUNCTION("rotary_grad(dy: f32[*b, t, k] c, x: f32[*b, t, k] c, base: float = 10000) -> f32[*b, t, k]",
                   rotary_grad, "Returns the gradient of x of rotary."),
    TENON_FUNCTION("softmax(x: f32[*b, t, t] c, scale: float = 1) -> f32[*b, t, t]", softmax,
                   "Makes probabilities of scores; position i sees the positions up to i."),
    TENON_FUNCTION("softmax_grad(dy: f32[*b, t, t] c, x: f32[*b, t, t] c, scale: float = 1) -> f32[*b, t, t]",
                   softmax_grad, "Returns the gradient of x of softmax."))
