/* Functions with the kinds that only some hosts have: bytes, strings, uints, complex numbers, dtypes and choices. */
#include <tenon/function.h>

#include <stdlib.h>
#include <string.h>

static tenon_status echo_uint(tenon_call *call)
{
    return tenon_return_uint(call, 0, tenon_arg_uint(call, 0));
}

static tenon_status echo_complex(tenon_call *call)
{
    double parts[2];
    tenon_arg_complex(call, 0, parts);
    return tenon_return_complex(call, 0, parts[0], parts[1]);
}

static tenon_status echo_bytes(tenon_call *call)
{
    size_t length = 0;
    const void *bytes = tenon_arg_bytes(call, 0, &length);
    if (!bytes)
        return TENON_OK;
    tenon_return_bytes(call, 0, "replaced", 8);
    return tenon_return_bytes(call, 0, bytes, length);
}

static tenon_status same_bytes(tenon_call *call)
{
    size_t length = 0;
    const void *bytes = tenon_arg_bytes(call, 0, &length);
    return tenon_return_bool(call, 0, bytes == tenon_data(call, 1, uint8_t));
}

static tenon_status is_dirty(tenon_call *call)
{
    return tenon_return_bool(call, 0, (call->flags & TENON_CALL_UNLOCKED) != 0);
}

static tenon_status echo_strs(tenon_call *call)
{
    int64_t length = 0;
    const tenon_text *texts = tenon_arg_strs(call, 0, &length);
    return tenon_return_strs(call, 0, texts, length);
}

static tenon_status echo_lists(tenon_call *call)
{
    int64_t nints = 0, nfloats = 0;
    const int64_t *ints = tenon_arg_ints(call, 0, &nints);
    const double *floats = tenon_arg_floats(call, 1, &nfloats);
    tenon_return_ints(call, 0, ints, nints);
    return tenon_return_floats(call, 1, floats, nfloats);
}

static tenon_status bits(tenon_call *call)
{
    return tenon_return_int(call, 0, tenon_arg_dtype(call, 0).bits);
}

static tenon_status ones(tenon_call *call)
{
    const tenon_view *result = tenon_result(call, 0);
    memset(result->data, 1, (size_t)result->numel * result->dtype.bits / 8);
    return TENON_OK;
}

static tenon_status choose(tenon_call *call)
{
    return tenon_return_int(call, 0, tenon_arg_int(call, 0));
}

static tenon_status lie(tenon_call *call)
{
    static const tenon_text text = {"\xff", 1};
    return tenon_return_strs(call, 0, &text, 1);
}

static tenon_status total(tenon_call *call)
{
    const double *x = tenon_data(call, 0, double);
    double sum = 0;
    for (int64_t i = 0; i < tenon_arg(call, 0)->numel; i++)
        sum += x[i];
    return tenon_return_double(call, 0, sum);
}

static tenon_status add_items(void *context, void *const *data, const int64_t *steps, int64_t count)
{
    (void)context;
    const float *x = data[0], *y = data[1];
    float *z = data[2];
    for (int64_t i = 0; i < count; i++)
        z[i * steps[2]] = x[i * steps[0]] + y[i * steps[1]];
    return TENON_OK;
}

static tenon_status add(tenon_call *call)
{
    return tenon_for_each(call, 0, add_items, NULL);
}

TENON_MODULE(kinds, "More kinds.",
    TENON_FUNCTION("echo_uint(x: uint = 7) -> uint", echo_uint, ""),
    TENON_FUNCTION("echo_complex(x: complex = 1-2j) -> complex", echo_complex, ""),
    TENON_FUNCTION("echo_bytes(x: bytes?) -> bytes?", echo_bytes, ""),
    TENON_FUNCTION("same_bytes(x: bytes, y: u8[n] c) -> bool", same_bytes, ""),
    TENON_FUNCTION("is_dirty(x: bytes, y: strs = ()) -> bool", is_dirty, ""),
    TENON_FUNCTION("echo_strs(x: strs = ('a', 'b')) -> strs", echo_strs, ""),
    TENON_FUNCTION("echo_lists(x: ints, y: floats) -> ints, floats", echo_lists, ""),
    TENON_FUNCTION("bits(x: dtype = 'f32') -> int", bits, ""),
    TENON_FUNCTION("ones(n: int, x: dtype(T)) -> T[n] where T = u8|i16, n > 0", ones, ""),
    TENON_FUNCTION("choose(k: 1|2|4 = 2) -> int", choose, ""),
    TENON_FUNCTION("lie() -> strs", lie, ""),
    TENON_FUNCTION("add(x: f32[**b], y: f32[**b]) -> f32[**b]", add, ""),
    TENON_FUNCTION("total(x: f64[*_] c convert) -> float", total, ""),
    TENON_CONSTANT("LIMIT = 1024", "The limit."),
    TENON_CONSTANT("SCALE = -1.5", NULL),
    TENON_CONSTANT("TITLE = 'kinds'", NULL),
    TENON_CONSTANT("FAST = True", NULL))
