/* The library of test_jax_lists.py: functions with lists of tensors. */
#include <tenon/function.h>

static tenon_status scaled(tenon_call *call)
{
    int64_t count;
    const tenon_view *from = tenon_arg_tensors(call, 0, NULL), *to = tenon_result_tensors(call, 0, &count);
    float a = (float)tenon_arg_double(call, 1);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < to[i].numel; k++)
            ((float *)to[i].data)[k] = a * ((const float *)from[i].data)[k];
    return TENON_OK;
}

/* The gradients of `scaled`: those of its results, times a. */
static tenon_status scaled_grad(tenon_call *call)
{
    int64_t count;
    const tenon_view *from = tenon_arg_tensors(call, 0, NULL), *to = tenon_result_tensors(call, 0, &count);
    float a = (float)tenon_arg_double(call, 2);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < to[i].numel; k++)
            ((float *)to[i].data)[k] = a * ((const float *)from[i].data)[k];
    return TENON_OK;
}

static tenon_status sgd(tenon_call *call)
{
    int64_t count;
    const tenon_view *params = tenon_arg_tensors(call, 0, &count), *grads = tenon_arg_tensors(call, 1, NULL);
    float rate = (float)tenon_arg_double(call, 2);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < params[i].numel; k++)
            ((float *)params[i].data)[k] -= rate * ((const float *)grads[i].data)[k];
    return TENON_OK;
}

static tenon_status mix(tenon_call *call)
{
    int64_t count, n = tenon_dim(call, 0);
    const float *w = tenon_data(call, 0, float);
    const tenon_view *xs = tenon_arg_tensors(call, 1, &count);
    float *z = tenon_result_data(call, 0, float);
    for (int64_t k = 0; k < n; k++) {
        z[k] = 0;
        for (int64_t i = 0; i < count; i++)
            z[k] += w[k] * ((const float *)xs[i].data)[k];
    }
    return tenon_return_int(call, 1, count);
}

static tenon_status count(tenon_call *call)
{
    int64_t n;
    tenon_arg_tensors(call, 1, &n);
    *tenon_result_data(call, 0, float) = tenon_has_arg(call, 1) ? (float)n : -1;
    return TENON_OK;
}

static tenon_status push(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

TENON_MODULE(jax_lists, "Lists of tensors.",
             TENON_FUNCTION("scaled(xs: [f32[*_] c], a: float = 2) -> [f32[*_]] for xs", scaled, "a * x of each."),
             TENON_FUNCTION("scaled_grad(gs: [f32[*_] c], xs: [f32[*_]], a: float) -> [f32[*_]] for xs", scaled_grad,
                            NULL),
             TENON_FUNCTION("sgd(params: [f32[*_] rw c], grads: [f32[*_] c], rate: float = 1)", sgd, "A step."),
             TENON_FUNCTION("mix(w: f32[n] c, xs: [f32[n] c]) -> z: f32[n], count: int", mix, "The sum of w * x."),
             TENON_FUNCTION("count(x: f32[], xs: [f32[_]]? = None) -> f32[]", count, "-1 without a list."),
             TENON_FUNCTION("pushed(x: f32[n]) -> [f32[?]]", push, "Left out."))
