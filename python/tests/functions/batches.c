/* Functions over batches. */
#define TENON_MODULE_VERSION "1.0"
#include <tenon/function.h>

#include <math.h>

TENON_ELEMENTWISE(lerp, z = x + t * (y - x), float, z, float, x, float, y, float, t)

TENON_ELEMENTWISE(halve, z = (float)(x / 2), float, z, double, x)

static tenon_status norm_rows(void *context, void *const *data, const int64_t *steps, int64_t count)
{
    const tenon_view *x = (const tenon_view *)context;
    int64_t n = x->shape[x->ndim - 1], stride = x->strides[x->ndim - 1];
    for (int64_t i = 0; i < count; i++) {
        const float *row = (const float *)data[0] + i * steps[0];
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += (double)row[k * stride] * (double)row[k * stride];
        ((float *)data[1])[i * steps[1]] = (float)sqrt(sum);
    }
    return TENON_OK;
}

/* norm(x: f32[**b, n]) -> f32[**b] */
static tenon_status norm(tenon_call *call)
{
    return tenon_for_each(call, 1024, norm_rows, (void *)(uintptr_t)tenon_arg(call, 0));
}

/* matvec(a: f32[**b, n, k], x: f32[**b, k]) -> f32[**b, n] */
static tenon_status multiply(void *context, void *const *data, const int64_t *steps, int64_t count)
{
    tenon_call *call = (tenon_call *)context;
    const tenon_view *a = call->args[0].as.view, *x = call->args[1].as.view;
    int64_t n = a->shape[a->ndim - 2], m = a->shape[a->ndim - 1];
    for (int64_t i = 0; i < count; i++) {
        const float *from = (const float *)data[0] + i * steps[0], *by = (const float *)data[1] + i * steps[1];
        float *to = (float *)data[2] + i * steps[2];
        for (int64_t r = 0; r < n; r++) {
            to[r] = 0;
            for (int64_t k = 0; k < m; k++)
                to[r] +=
                    from[r * a->strides[a->ndim - 2] + k * a->strides[a->ndim - 1]] * by[k * x->strides[x->ndim - 1]];
        }
    }
    return TENON_OK;
}

static tenon_status matvec(tenon_call *call)
{
    return tenon_for_each(call, INT64_MAX, multiply, call);
}

static tenon_status note_run(void *context, void *const *data, const int64_t *steps, int64_t count)
{
    int64_t *seen = (int64_t *)context;
    (void)data;
    seen[0]++;
    seen[1] += count;
    seen[2] = steps[0];
    seen[3] = steps[1];
    return TENON_OK;
}

/* runs(x: f32[**b], y: f32[**b]? = None) -> i64[4]: the runs, their items and the last steps */
static tenon_status runs(tenon_call *call)
{
    int64_t *seen = tenon_result_data(call, 0, int64_t);
    for (int i = 0; i < 4; i++)
        seen[i] = 0;
    return tenon_for_each(call, INT64_MAX, note_run, seen);
}

/* strides(x: f32[**b], y: f32[**b]) -> i64[?], i64[?], int, int: the strides and the addresses that the function sees */
static tenon_status strides(tenon_call *call)
{
    for (int i = 0; i < 2; i++) {
        const tenon_view *view = tenon_arg(call, i);
        int64_t ndim = view->ndim;
        const tenon_view *out = tenon_result_alloc(call, i, 1, &ndim);
        if (!out)
            return TENON_EFAILED;
        for (int64_t k = 0; k < ndim; k++)
            ((int64_t *)out->data)[k] = view->strides[k];
        tenon_return_int(call, 2 + i, (int64_t)(intptr_t)view->data);
    }
    return TENON_OK;
}

TENON_MODULE(batches, "Functions over batches.",
             TENON_FUNCTION("lerp(x: f32[**b], y: f32[**b], t: f32[**b]) -> f32[**b]", lerp, "Between x and y."),
             TENON_FUNCTION_FLAGS("lerp_unlocked(x: f32[**b], y: f32[**b], t: f32[**b]) -> f32[**b]", lerp, "The same.",
                                  TENON_RELEASE_LOCK),
             TENON_FUNCTION("halve(x: f64[**b]) -> f32[**b]", halve, "Half of x."),
             TENON_FUNCTION("norm(x: f32[**b, n]) -> f32[**b]", norm, "Of each row."),
             TENON_FUNCTION("matvec(a: f32[**b, n, k], x: f32[**b, k]) -> f32[**b, n]", matvec, "a times x."),
             TENON_FUNCTION("runs(x: f32[**b], y: f32[**b]? = None) -> i64[4]", runs, "Of a loop."),
             TENON_FUNCTION("strides(x: f32[**b], y: f32[**b]) -> i64[?], i64[?], int, int", strides, "Of views."))
