/* bytes, lists of tensors and overloads. */
#include <tenon/function.h>

static tenon_status echo(tenon_call *call)
{
    int64_t length;
    const void *data = tenon_arg_bytes(call, 0, &length);
    return tenon_return_bytes(call, 0, data, (size_t)length);
}

/* The sum of the first elements. */
static tenon_status firsts(tenon_call *call)
{
    int64_t count;
    const tenon_view *xs = tenon_arg_tensors(call, 0, &count);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += *(const float *)xs[i].data;
    return tenon_return_double(call, 0, sum);
}

static tenon_status first(tenon_call *call)
{
    return tenon_return_double(call, 0, *tenon_data(call, 0, float));
}

static tenon_status first_f64(tenon_call *call)
{
    return tenon_return_double(call, 0, *tenon_data(call, 0, double));
}

/* clang-format off */
TENON_MODULE(arguments, "Functions that are measured.",
    TENON_FUNCTION("echo(data: bytes) -> bytes", echo, NULL),
    TENON_FUNCTION("firsts(xs: [f32[*_]]) -> float", firsts, NULL),
    TENON_FUNCTION("alone(x: f32[n]) -> float", first, NULL),
    TENON_FUNCTION("overloaded(x: f32[n]) -> float", first, NULL),
    TENON_FUNCTION("overloaded(x: f64[n]) -> float", first_f64, NULL))
