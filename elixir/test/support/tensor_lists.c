/* Functions that take and return lists of tensors. */
#include <tenon/function.h>

#include <stdatomic.h>
#include <string.h>
#include <time.h>

static tenon_status norms(tenon_call *call)
{
    int64_t count = 0;
    const tenon_view *xs = tenon_arg_tensors(call, 0, &count);
    const tenon_view *results = tenon_result_tensors(call, 0, &count);
    for (int64_t i = 0; i < count; i++) {
        const float *x = xs[i].data;
        double *result = results[i].data;
        for (int64_t row = 0; row < xs[i].shape[0]; row++) {
            result[row] = 0;
            for (int64_t k = 0; k < xs[i].shape[1]; k++, x++)
                result[row] += (double)*x * *x;
        }
    }
    return TENON_OK;
}

static tenon_status sgd(tenon_call *call)
{
    int64_t count = 0, others = 0;
    const tenon_view *params = tenon_arg_tensors(call, 0, &count), *grads = tenon_arg_tensors(call, 1, &others);
    if (count != others)
        return tenon_fail(call, TENON_EINVAL, "%d parameters and %d gradients", (int)count, (int)others);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < params[i].numel; k++)
            ((float *)params[i].data)[k] -= (float)tenon_arg_double(call, 2) * ((const float *)grads[i].data)[k];
    return TENON_OK;
}

static tenon_status split(tenon_call *call)
{
    int64_t n = tenon_dim(call, 0), size = tenon_arg_int(call, 1);
    const float *x = tenon_data(call, 0, float);
    for (int64_t at = 0; at < n; at += size) {
        int64_t length = n - at < size ? n - at : size;
        const tenon_view *part = tenon_result_push(call, 0, 1, &length);
        if (!part)
            return TENON_EFAILED;
        memcpy(part->data, x + at, (size_t)length * sizeof *x);
    }
    if (tenon_arg_bool(call, 2))
        return tenon_fail(call, TENON_EINVAL, "asked to");
    return TENON_OK;
}

static tenon_status total(tenon_call *call)
{
    int64_t count = 0;
    const tenon_view *xs = tenon_arg_tensors(call, 0, &count);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < xs[i].numel; k++)
            sum += ((const float *)xs[i].data)[k];
    tenon_return_double(call, 0, xs ? sum : -1);
    tenon_return_int(call, 1, count);
    tenon_return_bool(call, 2, (call->flags & TENON_CALL_UNLOCKED) != 0);
    return TENON_OK;
}

static tenon_status address(tenon_call *call)
{
    int64_t count = 0;
    const tenon_view *xs = tenon_arg_tensors(call, 0, &count);
    tenon_return_bool(call, 0, count > 0 && xs[0].data == tenon_data(call, 1, float));
    return TENON_OK;
}

static atomic_bool stopped;

static tenon_status write_until_stopped(tenon_call *call)
{
    (void)call;
    for (int i = 0; i < 60000 && !atomic_exchange(&stopped, false); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return TENON_OK;
}

static tenon_status stop(tenon_call *call)
{
    (void)call;
    atomic_store(&stopped, true);
    return TENON_OK;
}

/* The number of the device that the call runs on. */
static tenon_status device_of(tenon_call *call)
{
    return tenon_return_int(call, 0, call->device.device_id);
}

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

TENON_MODULE(tensor_lists, "Lists of tensors.",
    TENON_FUNCTION("norms(xs: [f32[_, d] c]) -> [f64[_]] for xs", norms, "The squared norms of rows."),
    TENON_FUNCTION("sgd(params: [f32[*_] rw c], grads: [f32[*_] c], rate: float)", sgd, "params -= rate * grads"),
    TENON_FUNCTION("split(x: f32[n] c, size: int, fail: bool = False) -> [f32[?]]", split, "Parts of this size."),
    TENON_FUNCTION("total(xs: [f32[*_] c]?, *, ys: [f32[n]]? = None) -> sum: float, count: int, dirty: bool", total, ""),
    TENON_FUNCTION("same_memory(xs: [f32[n] c], x: f32[n] c) -> bool", address, ""),
    TENON_FUNCTION("device_of(x: f32[_]? cuda, y: f32[_]? cuda, *, zs: [f32[_] cuda]? = None) -> int", device_of, ""),
    TENON_FUNCTION("made_there(x: f32[n] cuda) -> f32[n]", nothing, ""),
    TENON_FUNCTION("stop()", stop, ""),
    TENON_FUNCTION_FLAGS("write_until_stopped(xs: [f32[_] rw], x: f32[_])", write_until_stopped, "", TENON_RELEASE_LOCK))
