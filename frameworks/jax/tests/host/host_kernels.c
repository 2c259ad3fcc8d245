/* Functions for calls that are written by hand. */
#include <tenon/function.h>

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    const float *x = tenon_data(call, 1, float), *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        z[i] = a * x[i] + y[i];
    return TENON_OK;
}

static tenon_status copy(tenon_call *call)
{
    const tenon_view *from = tenon_arg(call, 0), *to = tenon_result(call, 0);
    if (from->numel > 0)
        memcpy(to->data, from->data, (size_t)from->numel * (from->dtype.bits / 8u) * from->dtype.lanes);
    return TENON_OK;
}

static tenon_status scale(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        x[i] *= (float)tenon_arg_double(call, 1);
    return TENON_OK;
}

/* Everything that it was given, as numbers. */
static tenon_status values(tenon_call *call)
{
    int64_t *out = tenon_result_data(call, 0, int64_t), length, sum = 0;
    const int64_t *ints = tenon_arg_ints(call, 5, &length);
    for (int64_t i = 0; i < length; i++)
        sum += ints[i];
    size_t bytes;
    const char *text = tenon_arg_str(call, 3, &bytes);
    out[0] = tenon_arg_int(call, 0);
    out[1] = (int64_t)(tenon_arg_double(call, 1) * 1000);
    out[2] = tenon_arg_bool(call, 2);
    out[3] = (int64_t)bytes * 1000 + (int64_t)strlen(text);
    out[4] = tenon_arg_enum(call, 4);
    out[5] = length * 1000 + sum;
    const double *floats = tenon_arg_floats(call, 6, &length);
    out[6] = length * 1000 + (int64_t)(length ? floats[0] * 10 : 0);
    out[7] = tenon_has_arg(call, 7) ? tenon_arg_int(call, 7) : -1;
    return TENON_OK;
}

static tenon_status numbers(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_arg_int(call, 0));
    tenon_return_double(call, 1, tenon_arg_double(call, 1));
    tenon_return_bool(call, 2, tenon_arg_bool(call, 2));
    return TENON_OK;
}

static tenon_status maybe(tenon_call *call)
{
    float *out = tenon_result_data(call, 0, float);
    out[0] = tenon_has_arg(call, 0) ? tenon_data(call, 0, float)[0] : -1;
    return TENON_OK;
}

/* The strides of a matrix in Fortran order, and its first column. */
static tenon_status first_column(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    float *out = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < x->shape[0]; i++)
        out[i] = tenon_data(call, 0, float)[i];
    return x->strides[0] == 1 ? TENON_OK : tenon_fail(call, TENON_EFAILED, "it is not in Fortran order");
}

static tenon_status aligned(tenon_call *call)
{
    tenon_result_data(call, 0, float)[0] = tenon_data(call, 0, float)[0];
    return TENON_OK;
}

static tenon_status fail(tenon_call *call)
{
    return tenon_fail(call, (tenon_status)tenon_arg_int(call, 1), "the reason is \xc3\xa4\xff.");
}

static tenon_status scratch(tenon_call *call)
{
    int64_t bytes = tenon_arg_int(call, 1);
    char *memory = tenon_scratch(call, (size_t)bytes);
    if (!memory)
        return TENON_ENOMEM;
    memset(memory, 1, (size_t)bytes);
    tenon_result_data(call, 0, float)[0] = (float)(((uintptr_t)memory % 16) + (size_t)memory[bytes - 1]);
    return TENON_OK;
}

#define MATMUL "matmul(a: f32[m, k] c, b: f32[k, n] c) -> f32[m, n]"

static tenon_status matmul(tenon_call *call)
{
    const float *a = tenon_data(call, 0, float), *b = tenon_data(call, 1, float);
    float *c = tenon_result_data(call, 0, float);
    int64_t m = tenon_dim(call, 0), k = tenon_dim(call, 1), n = tenon_dim(call, 2);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            c[i * n + j] = 0;
            for (int64_t l = 0; l < k; l++)
                c[i * n + j] += a[i * k + l] * b[l * n + j];
        }
    return TENON_OK;
}

TENON_MODULE(
    host, "Functions for calls that are written by hand.",
    TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, NULL),
    TENON_FUNCTION("copy(x: T[*b] c) -> T[*b] where T = any", copy, NULL),
    TENON_FUNCTION("scale(x: f32[n] rw c, a: float)", scale, NULL),
    TENON_FUNCTION("scaled(x: f32[n] rw c, a: float, y: f32[_]? = None) -> f32[1]", scale, NULL),
    TENON_FUNCTION("values(i: int, f: float, b: bool, s: str, e: 'sum'|'mean', li: ints, lf: floats, o: int? = None, "
                   "d: int = 5) -> i64[8]",
                   values, NULL),
    TENON_FUNCTION("pair(li: ints[2]) -> f32[1]", aligned, NULL),
    TENON_FUNCTION("numbers(i: int, f: float, b: bool) -> int, float, bool", numbers, NULL),
    TENON_FUNCTION("maybe(x: f32[n]? = None) -> f32[1]", maybe, NULL),
    TENON_FUNCTION("first_column(x: f32[m, n] f) -> f32[m]", first_column, NULL),
    TENON_FUNCTION("aligned(x: f32[n] c aligned(4096)) -> f32[1]", aligned, NULL),
    TENON_FUNCTION("fail(x: f32[n] c, status: int) -> f32[n]", fail, NULL),
    TENON_FUNCTION("scratch(x: f32[n] c, bytes: int) -> f32[1]", scratch, NULL), TENON_FUNCTION(MATMUL, matmul, NULL),
    TENON_FUNCTION_FLAGS("capturable(x: f32[n] cuda) -> f32[n]", copy, NULL, TENON_CAPTURABLE),
    TENON_FUNCTION("open(x: f32[n] c) -> f32[?]", copy, NULL), TENON_FUNCTION("text() -> str", copy, NULL),
    TENON_FUNCTION("nothing(x: f32[n])", copy, NULL),
    TENON_FUNCTION("handle(x: handle('Index')) -> f32[1]", copy, NULL),
    TENON_FUNCTION("optional(x: f32[n] c) -> f32[n]?", copy, NULL),
    TENON_FUNCTION("callable(x: f32[n], f: callable('()')) -> f32[n]", copy, NULL),
    TENON_FUNCTION("bytes(x: bytes) -> f32[1]", copy, NULL), TENON_FUNCTION("strs(x: strs) -> f32[1]", copy, NULL),
    TENON_FUNCTION("keeps(x: f32[n] keep) -> f32[n]", copy, NULL),
    TENON_FUNCTION("several(xs: [f32[n] c]) -> f32[1]", aligned, NULL))
