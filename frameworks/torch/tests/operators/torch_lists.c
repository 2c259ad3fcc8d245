/* The library of test_torch_lists.py: functions with lists of tensors. */
#include <tenon/function.h>

static tenon_status scaled(tenon_call *call)
{
    int64_t count;
    const tenon_view *from = tenon_arg_tensors(call, 0, NULL), *to = tenon_result_tensors(call, 0, &count);
    double a = tenon_arg_double(call, 1);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < to[i].numel; k++)
            ((double *)to[i].data)[k] = a * ((const double *)from[i].data)[k];
    return TENON_OK;
}

/* The gradients of `scaled`: those of its results, times a. */
static tenon_status scaled_grad(tenon_call *call)
{
    int64_t count;
    const tenon_view *from = tenon_arg_tensors(call, 0, NULL), *to = tenon_result_tensors(call, 0, &count);
    double a = tenon_arg_double(call, 2);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < to[i].numel; k++)
            ((double *)to[i].data)[k] = a * ((const double *)from[i].data)[k];
    return TENON_OK;
}

static tenon_status sgd(tenon_call *call)
{
    int64_t count;
    const tenon_view *params = tenon_arg_tensors(call, 0, &count), *grads = tenon_arg_tensors(call, 1, NULL);
    double rate = tenon_arg_double(call, 2);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < params[i].numel; k++)
            ((double *)params[i].data)[k] -= rate * ((const double *)grads[i].data)[k];
    return TENON_OK;
}

static tenon_status mix(tenon_call *call)
{
    int64_t count, n = tenon_dim(call, 0);
    const double *w = tenon_data(call, 0, double);
    const tenon_view *xs = tenon_arg_tensors(call, 1, &count);
    double *z = tenon_result_data(call, 0, double);
    for (int64_t k = 0; k < n; k++) {
        z[k] = 0;
        for (int64_t i = 0; i < count; i++)
            z[k] += w[k] * ((const double *)xs[i].data)[k];
    }
    return tenon_return_int(call, 1, count);
}

static tenon_status count(tenon_call *call)
{
    int64_t n;
    tenon_arg_tensors(call, 1, &n);
    *tenon_result_data(call, 0, double) = tenon_has_arg(call, 1) ? (double)n : -1;
    return TENON_OK;
}

static tenon_status push(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

TENON_MODULE(torch_lists, "Lists of tensors.",
             TENON_FUNCTION("scaled(xs: [f64[*_] c], a: float = 2) -> [f64[*_]] for xs", scaled, "a * x of each."),
             TENON_FUNCTION("scaled_grad(gs: [f64[*_] c], xs: [f64[*_]], a: float) -> [f64[*_]] for xs", scaled_grad,
                            NULL),
             TENON_FUNCTION("sgd(params: [f64[*_] rw c], grads: [f64[*_] c], rate: float = 1)", sgd, "A step."),
             TENON_FUNCTION("mix(w: f64[n] c, xs: [f64[n] c]) -> z: f64[n], count: int", mix, "The sum of w * x."),
             TENON_FUNCTION("count(x: f64[], xs: [f64[_]]? = None) -> f64[]", count, "-1 without a list."),
             TENON_FUNCTION("pushed(x: f64[n]) -> [f64[?]]", push, "Left out."))
