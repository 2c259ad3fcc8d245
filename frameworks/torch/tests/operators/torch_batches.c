/* Functions over batches, with a backward in C. */
#include <tenon/function.h>

#include <math.h>

TENON_ELEMENTWISE(lerp, z = x + t * (y - x), double, z, double, x, double, y, double, t)

/* lerp_backward(grad, x, y, t) -> x, y, t: all of the shape of the batch */
static tenon_status lerp_gradients(void *context, void *const *data, const int64_t *steps, int64_t count)
{
    (void)context;
    for (int64_t i = 0; i < count; i++) {
        double in[4];
        for (int k = 0; k < 4; k++)
            in[k] = ((const double *)data[k])[i * steps[k]];
        ((double *)data[4])[i * steps[4]] = in[0] * (1 - in[3]);
        ((double *)data[5])[i * steps[5]] = in[0] * in[3];
        ((double *)data[6])[i * steps[6]] = in[0] * (in[2] - in[1]);
    }
    return TENON_OK;
}

static tenon_status lerp_backward(tenon_call *call)
{
    return tenon_for_each(call, 1024, lerp_gradients, NULL);
}

static tenon_status norms(void *context, void *const *data, const int64_t *steps, int64_t count)
{
    const tenon_view *x = (const tenon_view *)context;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t k = 0; k < x->shape[x->ndim - 1]; k++) {
            double item = ((const double *)data[0])[i * steps[0] + k * x->strides[x->ndim - 1]];
            sum += item * item;
        }
        ((double *)data[1])[i * steps[1]] = sqrt(sum);
    }
    return TENON_OK;
}

static tenon_status norm(tenon_call *call)
{
    return tenon_for_each(call, INT64_MAX, norms, (void *)(uintptr_t)tenon_arg(call, 0));
}

TENON_MODULE(torch_batches, "Functions over batches.",
             TENON_FUNCTION("lerp(x: f64[**b], y: f64[**b], t: f64[**b]) -> f64[**b]", lerp, "Between x and y."),
             TENON_FUNCTION("lerp_backward(grad: f64[**b], x: f64[**b], y: f64[**b], t: f64[**b]) -> dx: f64[**b], "
                            "dy: f64[**b], dt: f64[**b]",
                            lerp_backward, "Its gradients."),
             TENON_FUNCTION("norm(x: f64[**b, n]) -> f64[**b]", norm, "Of each row."))
