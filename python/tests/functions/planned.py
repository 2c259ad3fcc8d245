"""What the tests of calls by plan share: functions that see their calls."""

SOURCE = r"""
#include <tenon/function.h>

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * 0x100000001b3u;
}

/* All that a function can see of its call. */
static int64_t seen(const tenon_call *call)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int32_t i = 0; i < call->nargs; i++) {
        const tenon_value *value = &call->args[i];
        hash = mixed(mixed(hash, value->kind), value->flags);
        if (value->kind != TENON_KIND_TENSOR) {
            hash = mixed(hash, (uint64_t)value->as.integer);
            continue;
        }
        const tenon_view *view = value->as.view;
        hash = mixed(mixed(hash, (uintptr_t)view->data), view->flags);
        hash = mixed(mixed(hash, (uint64_t)view->numel), view->byte_offset);
        hash = mixed(hash, (uint64_t)view->dtype.code << 32 | (uint64_t)view->dtype.bits << 16 | view->dtype.lanes);
        hash = mixed(mixed(hash, (uint64_t)view->device.device_type), (uint64_t)view->device.device_id);
        hash = mixed(hash, (uint64_t)view->ndim);
        for (int32_t k = 0; k < view->ndim; k++)
            hash = mixed(mixed(hash, (uint64_t)view->shape[k]), (uint64_t)view->strides[k]);
    }
    for (int32_t i = 0; i < call->ndims; i++)
        hash = mixed(hash, (uint64_t)call->dims[i]);
    hash = mixed(mixed(hash, (uint64_t)call->nresults), call->flags);
    return (int64_t)(hash >> 1);
}

static tenon_status see(tenon_call *call)
{
    tenon_return_int(call, 0, seen(call));
    return TENON_OK;
}

static tenon_status see_rw(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float);
    if (tenon_arg(call, 0)->numel)
        x[0] += 1;
    tenon_return_int(call, 0, seen(call));
    return TENON_OK;
}

static tenon_status make(tenon_call *call)
{
    double *out = tenon_result_data(call, 0, double);
    for (int64_t i = 0, n = tenon_result(call, 0)->numel; i < n; i++)
        out[i] = (double)i;
    tenon_return_int(call, 1, seen(call));
    return TENON_OK;
}

static tenon_status fail(tenon_call *call)
{
    return tenon_fail(call, TENON_EINVAL, "no: %lld", (long long)tenon_dim(call, 0));
}

TENON_MODULE(planned, "Sees its calls.",
             TENON_FUNCTION("one(x: f32[n]) -> int", see, ""),
             TENON_FUNCTION("in_order(x: f32[n] c, y: f32[n] c) -> int", see, ""),
             TENON_FUNCTION("square(x: f64[n, n], y: i64[n]) -> int", see, ""),
             TENON_FUNCTION("mixed(a: float, x: f32[n, m], k: int, y: i32[m, _], b: bool) -> int", see, ""),
             TENON_FUNCTION("fortran(x: f32[n, m] f) -> int", see, ""),
             TENON_FUNCTION("aligned(x: f32[n] aligned(64)) -> int", see, ""),
             TENON_FUNCTION("written(x: f32[n, m] rw) -> int", see_rw, ""),
             TENON_FUNCTION("scalar(x: f64[]) -> int", see, ""),
             TENON_FUNCTION("make(x: f64[n], y: u8[m]) -> f64[m, n], int", make, ""),
             TENON_FUNCTION("fails(x: f32[n]) -> int", fail, ""))
"""


def outcome(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)
