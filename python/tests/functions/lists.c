/* Functions with lists of tensors. */
#define TENON_MODULE_VERSION "1.0"
#include <tenon/function.h>

#include <math.h>

static double sum_of(const tenon_view *view)
{
    double sum = 0;
    const float *data = (const float *)view->data;
    for (int64_t i = 0; i < view->numel; i++)
        sum += data[i];
    return sum;
}

/* total(xs: [f32[n] c]) -> float */
static tenon_status total(tenon_call *call)
{
    int64_t count;
    const tenon_view *views = tenon_arg_tensors(call, 0, &count);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += sum_of(&views[i]);
    return tenon_return_double(call, 0, sum);
}

/* numel(xs: [any[*_]]?) -> int, -1 without a list */
static tenon_status numel(tenon_call *call)
{
    int64_t count, sum = 0;
    const tenon_view *views = tenon_arg_tensors(call, 0, &count);
    for (int64_t i = 0; i < count; i++)
        sum += views[i].numel;
    return tenon_return_int(call, 0, tenon_has_arg(call, 0) ? sum : -1);
}

/* sgd(params: [f32[*_] rw c], grads: [f32[*_] c], rate: float) */
static tenon_status sgd(tenon_call *call)
{
    int64_t count, grads;
    const tenon_view *to = tenon_arg_tensors(call, 0, &count), *from = tenon_arg_tensors(call, 1, &grads);
    float rate = (float)tenon_arg_double(call, 2);
    if (count != grads)
        return tenon_fail(call, TENON_ESHAPE, "%d params, but %d grads", (int)count, (int)grads);
    for (int64_t i = 0; i < count; i++) {
        if (to[i].numel != from[i].numel)
            return tenon_fail(call, TENON_ESHAPE, "params[%d] and grads[%d] differ", (int)i, (int)i);
        for (int64_t k = 0; k < to[i].numel; k++)
            ((float *)to[i].data)[k] -= rate * ((const float *)from[i].data)[k];
    }
    return TENON_OK;
}

/* doubled(xs: [f32[*_] c]) -> [f32[*_]] for xs */
static tenon_status doubled(tenon_call *call)
{
    int64_t count;
    const tenon_view *from = tenon_arg_tensors(call, 0, NULL), *to = tenon_result_tensors(call, 0, &count);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < to[i].numel; k++)
            ((float *)to[i].data)[k] = 2 * ((const float *)from[i].data)[k];
    return TENON_OK;
}

/* rows(xs: [f32[_, d] c], k: int) -> norms: [f64[_]] for xs, count: int */
static tenon_status rows(tenon_call *call)
{
    int64_t count, all = 0, d = tenon_dim(call, 0);
    const tenon_view *from = tenon_arg_tensors(call, 0, NULL), *to = tenon_result_tensors(call, 0, &count);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < to[i].numel; k++) {
            const float *row = (const float *)from[i].data + k * d;
            double norm = 0;
            for (int64_t j = 0; j < d; j++)
                norm += (double)row[j] * (double)row[j];
            ((double *)to[i].data)[k] = sqrt(norm);
        }
        all += to[i].numel;
    }
    return tenon_return_int(call, 1, all);
}

/* pieces(x: f32[n] c, size: int) -> [f32[?]] */
static tenon_status pieces(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t n = tenon_dim(call, 0), size = tenon_arg_int(call, 1);
    if (size < 1)
        return tenon_fail(call, TENON_EINVAL, "size must be positive");
    for (int64_t at = 0; at < n; at += size) {
        int64_t length = n - at < size ? n - at : size;
        const tenon_view *piece = tenon_result_push(call, 0, 1, &length);
        if (!piece)
            return TENON_EFAILED;
        memcpy(piece->data, x + at, (size_t)length * sizeof *x);
    }
    return TENON_OK;
}

/* wrong_rank() -> [f32[?]] */
static tenon_status wrong_rank(tenon_call *call)
{
    int64_t shape[] = {2, 2};
    int64_t one = 1;
    tenon_result_push(call, 0, 1, &one);
    return tenon_result_push(call, 0, 2, shape) ? TENON_OK : TENON_EFAILED;
}

/* scribble(xs: [f32[_] c]) */
static tenon_status scribble(tenon_call *call)
{
    int64_t count;
    const tenon_view *views = tenon_arg_tensors(call, 0, &count);
    ((float *)views[count - 1].data)[0] = 7;
    return TENON_OK;
}

/* one_of(xs: [f32[_]]) -> int: reads it as a tensor */
static tenon_status one_of(tenon_call *call)
{
    return tenon_return_int(call, 0, tenon_arg(call, 0) != NULL);
}

TENON_MODULE(lists, "Lists of tensors.", TENON_FUNCTION("total(xs: [f32[n] c]) -> float", total, "The sum of all."),
             TENON_FUNCTION("numel(xs: [any[*_]]? = None) -> int", numel, "The number of elements."),
             TENON_FUNCTION("sgd(params: [f32[*_] rw c], grads: [f32[*_] c], rate: float = 1)", sgd, "A step."),
             TENON_FUNCTION("doubled(xs: [f32[*_] c]) -> [f32[*_]] for xs", doubled, "Each, twice."),
             TENON_FUNCTION("rows(xs: [f32[_, d] c], k: int = 1) -> norms: [f64[_]] for xs, count: int", rows,
                            "Of each row."),
             TENON_FUNCTION("pieces(x: f32[n] c, size: int) -> [f32[?]]", pieces, "In order."),
             TENON_FUNCTION("wrong_rank() -> [f32[?]]", wrong_rank, "Fails."),
             TENON_FUNCTION("scribble(xs: [f32[_] c])", scribble, "Writes where it must not."),
             TENON_FUNCTION("one_of(xs: [f32[_]]) -> int", one_of, "Fails."),
             TENON_FUNCTION_FLAGS("total_anyway(xs: [f32[n] c]) -> float", total, "The sum of all.",
                                  TENON_NO_GRAD_CHECK),
             TENON_FUNCTION("after(xs: [f32[n]], k: int, y: f32[n]) -> f32[n]", one_of, "Fails."))
