/* Functions whose results say which host called them, and with which values. */
#include <tenon/function.h>

/* The first result: 1 if XLA's host calls, otherwise 0. */
static float by_xla(const tenon_call *call)
{
    return strcmp(call->host->name, "jax") == 0;
}

static tenon_status who(tenon_call *call)
{
    tenon_result_data(call, 0, float)[0] = by_xla(call);
    return TENON_OK;
}

static tenon_status saxpy(tenon_call *call)
{
    const float *x = tenon_data(call, 1, float), *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float), *host = tenon_result_data(call, 1, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        z[i] = (float)tenon_arg_double(call, 0) * x[i] + y[i];
    host[0] = by_xla(call);
    return TENON_OK;
}

/* The bits of numbers, in two words each. */
static tenon_status bits(tenon_call *call)
{
    uint32_t *out = tenon_result_data(call, 0, uint32_t);
    int64_t integer = tenon_arg_int(call, 1);
    double number = tenon_arg_double(call, 2);
    memcpy(out, &integer, sizeof integer);
    memcpy(out + 2, &number, sizeof number);
    out[4] = (uint32_t)tenon_arg_bool(call, 3);
    out[5] = (uint32_t)by_xla(call);
    return TENON_OK;
}

static tenon_status options(tenon_call *call)
{
    float *out = tenon_result_data(call, 0, float);
    int64_t length, sum = 0;
    const int64_t *list = tenon_arg_ints(call, 3, &length);
    size_t bytes;
    for (int64_t i = 0; i < length; i++)
        sum += list[i];
    out[0] = by_xla(call);
    out[1] = tenon_has_arg(call, 1) ? tenon_data(call, 1, float)[0] : -1;
    out[2] = (float)tenon_arg_enum(call, 2);
    out[3] = (float)sum;
    out[4] = (float)tenon_arg_double(call, 4);
    (void)tenon_arg_str(call, 5, &bytes);
    out[5] = (float)bytes;
    return TENON_OK;
}

static tenon_status fail(tenon_call *call)
{
    tenon_result_data(call, 0, float)[0] = by_xla(call);
    return tenon_arg_int(call, 1) ? tenon_fail(call, (tenon_status)tenon_arg_int(call, 1), "the reason") : TENON_OK;
}

static tenon_status count(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_dim(call, 0));
    return TENON_OK;
}

static tenon_status set(tenon_call *call)
{
    tenon_rw_data(call, 0, float)[0] = 1;
    return TENON_OK;
}

TENON_MODULE(eager, "Functions that say who calls them.",
             TENON_FUNCTION("who(x: T[*b]) -> f32[1] where T = any", who, NULL),
             TENON_FUNCTION("who_two(x: f32[n], y: f32[n]) -> f32[1]", who, NULL),
             TENON_FUNCTION("who_many(a: f32[_], b: f32[_], c: f32[_], d: f32[_], e: f32[_], f: f32[_], g: f32[_], "
                            "h: f32[_], i: f32[_]) -> f32[1]",
                            who, NULL),
             TENON_FUNCTION_FLAGS("who_locked(x: f32[n]) -> f32[1]", who, NULL, TENON_KEEP_LOCK),
             TENON_FUNCTION("who_aligned(x: f32[n] aligned(64)) -> f32[1]", who, NULL),
             TENON_FUNCTION("who_fortran(x: f32[m, n] f) -> f32[1]", who, NULL),
             TENON_FUNCTION("who_sized(x: f32[_], n: int) -> f32[n]", who, NULL),
             TENON_FUNCTION("who_wide(x: f32[n]) -> f64[1]", who, NULL),
             TENON_FUNCTION("who_named(x: f32[n]) -> host: f32[1]", who, NULL),
             TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> z: f32[n], host: f32[1]", saxpy, NULL),
             TENON_FUNCTION("saxpy_tuple(a: float, x: f32[n] c, y: f32[n] c) -> f32[n], f32[1]", saxpy, NULL),
             TENON_FUNCTION("bits(x: f32[n], i: int, f: float, b: bool) -> u32[6]", bits, NULL),
             TENON_FUNCTION("options(x: f32[n], y: f32[_]? = None, how: 'sum'|'mean' = 'mean', list: ints = (1, 2), "
                            "scale: float = 0.5, *, name: str = 'abc') -> f32[6]",
                            options, NULL),
             TENON_FUNCTION("fail(x: f32[n], status: int) -> f32[1]", fail, NULL),
             TENON_FUNCTION("count(x: f32[n]) -> int", count, NULL), TENON_FUNCTION("set(x: f32[n] rw)", set, NULL))
