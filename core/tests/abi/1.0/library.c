/* A library of the first release: it sees only the header beside it, and every later host must load and call it. */
#include "function.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- tensors */

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    const float *x = tenon_data(call, 1, float);
    const float *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float);
    int64_t n = tenon_dim(call, 0);
    int64_t i;
    for (i = 0; i < n; i++)
        z[i] = a * x[i] + y[i];
    return TENON_OK;
}

/* Any strides, and a written argument that may be left out. */
static tenon_status row_sums(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    float *count = tenon_rw_data(call, 1, float);
    const tenon_view *sums = tenon_result(call, 0);
    int64_t n = tenon_dim(call, 0), k = tenon_dim(call, 1), i, j;
    if (!x || !sums)
        return TENON_EFAILED;
    for (i = 0; i < n; i++) {
        double sum = 0;
        for (j = 0; j < k; j++)
            sum += tenon_at(x, const float, i, j);
        tenon_at(sums, double, i) = sum;
    }
    if (tenon_given(call, 1))
        *count = (float)k;
    return TENON_OK;
}

/* Those above 0: only the function knows how many. */
static tenon_status positive(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t n = tenon_dim(call, 0), i, count = 0;
    float *kept = (float *)tenon_scratch(call, (size_t)(n > 0 ? n : 1) * sizeof(float));
    if (!kept)
        return TENON_ENOMEM;
    for (i = 0; i < n && !tenon_cancelled(call); i++)
        if (x[i] > 0)
            kept[count++] = x[i];
    if (!tenon_result_alloc(call, 0, 1, &count))
        return TENON_ENOMEM;
    if (count)
        memcpy(tenon_result_data(call, 0, float), kept, (size_t)count * sizeof(float));
    return TENON_OK;
}

static tenon_status item_bits(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_type(call, 0).bits);
    tenon_return_bool(call, 1, tenon_stream(call) == NULL);
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------------------- all other kinds */

static tenon_status describe(tenon_call *call)
{
    static const char *const modes[] = {"mean", "sum"};
    char text[256];
    int64_t length = 0, nints = 0, nfloats = 0;
    const char *name = tenon_arg_str(call, 2, &length);
    const int64_t *ints = tenon_arg_ints(call, 4, &nints);
    const double *floats = tenon_arg_floats(call, 5, &nfloats);
    int used = snprintf(text, sizeof text, "%d %d %.*s(%d) %s %d:%d %d:%g", (int)tenon_arg_int(call, 0),
                        (int)tenon_arg_bool(call, 1), name ? (int)length : 1, name ? name : "-", (int)length,
                        modes[tenon_arg_enum(call, 3)], (int)nints, nints ? (int)ints[nints - 1] : 0, (int)nfloats,
                        nfloats ? floats[nfloats - 1] : 0.0);
    tenon_return_str(call, 0, text, (size_t)used);
    return TENON_OK;
}

static tenon_status half(tenon_call *call)
{
    int64_t n = tenon_arg_int(call, 0);
    if (n % 2)
        return tenon_fail(call, TENON_EINVAL, "%d is odd", (int)n);
    tenon_return_double(call, 0, (double)n / 2);
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------- what is shared */

typedef struct counter {
    int64_t value;
} counter;

static tenon_status counter_new(tenon_call *call)
{
    counter *made = (counter *)malloc(sizeof *made);
    if (!made)
        return tenon_fail(call, TENON_ENOMEM, "no memory");
    made->value = tenon_arg_int(call, 0);
    if (tenon_return_handle(call, 0, made, free) != TENON_OK) {
        free(made);
        return TENON_EFAILED;
    }
    return TENON_OK;
}

static tenon_status counter_next(tenon_call *call)
{
    counter *self = (counter *)tenon_arg_handle(call, 0);
    int64_t *calls = (int64_t *)call->state;
    if (!self)
        return TENON_EFAILED;
    ++*calls;
    tenon_return_int(call, 0, self->value++);
    tenon_return_int(call, 1, *calls);
    return TENON_OK;
}

static tenon_status load(tenon_call *call, void **state)
{
    *state = calloc(1, sizeof(int64_t));
    return *state ? TENON_OK : tenon_fail(call, TENON_ENOMEM, "no memory");
}

#undef TENON_MODULE_VERSION
#define TENON_MODULE_VERSION "1.0"

TENON_MODULE_STATE(
    abi_1_0, "A library of the first release.", load, free,
    TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."),
    TENON_FUNCTION("row_sums(x: f32[n, k], count: f32[]? rw) -> f64[n]", row_sums, "The sum of each row."),
    TENON_FUNCTION_FLAGS("positive(x: f32[n] c) -> f32[?]", positive, "Those above 0.", TENON_RELEASE_LOCK),
    TENON_FUNCTION("item_bits(x: T[*b]) -> bits: int, on_cpu: bool where T = any", item_bits, "Of an element."),
    TENON_FUNCTION_FLAGS("describe(a: int, b: bool = True, name: str? = None, mode: 'mean'|'sum' = 'sum', "
                         "ints: ints = (1, 2), floats: floats[2]? = None) -> str",
                         describe, NULL, TENON_KEEP_LOCK),
    TENON_FUNCTION("half(n: int) -> float", half, "Fails for odd numbers."),
    TENON_FUNCTION("counter_new(start: int = 0) -> handle('Counter')", counter_new, "A counter."),
    TENON_FUNCTION("counter_next(counter: handle('Counter')) -> value: int, calls: int", counter_next,
                   "Its value, and how often any counter of this load was asked."))
