/* Functions as a user would write them, for the tests of results, safety, the lock and handles. */
#define TENON_MODULE_VERSION "1.2.3"
#include <tenon/function.h>

#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- tensors */

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    const float *x = tenon_data(call, 1, float);
    const float *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float);
    int64_t n = tenon_dim(call, 0);
    for (int64_t i = 0; i < n; i++)
        z[i] = a * x[i] + y[i];
    return TENON_OK;
}

/* Copy the bytes of the first argument to the first result, whatever their dtype is. */
static tenon_status copy(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0), *y = tenon_result(call, 0);
    if (!x || !y)
        return TENON_EFAILED;
    if (x->data != y->data)
        memmove(y->data, x->data, ((size_t)x->numel * x->dtype.bits * x->dtype.lanes + 7) / 8);
    return TENON_OK;
}

static tenon_status count_up(tenon_call *call)
{
    float *z = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        z[i] = (float)i;
    return TENON_OK;
}

static tenon_status add_to(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        tenon_at(x, float, i) += (float)tenon_arg_double(call, 1);
    return TENON_OK;
}

static tenon_status swap(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float), *y = tenon_rw_data(call, 1, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++) {
        float kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
    return TENON_OK;
}

/* ----------------------------------------------------------------------------------------------- open and several */

static int64_t count_positive(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t count = 0;
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        count += x[i] > 0;
    return count;
}

static tenon_status fill_positive(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t *out = tenon_result_data(call, 0, int64_t);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        if (x[i] > 0)
            *out++ = i;
    return TENON_OK;
}

static tenon_status positive(tenon_call *call)
{
    int64_t count = count_positive(call);
    return tenon_result_alloc(call, 0, 1, &count) ? fill_positive(call) : TENON_ENOMEM;
}

/* The two halves of the same, for a host that asks for the shape first. */
static tenon_status positive_shape(tenon_call *call)
{
    int64_t count = count_positive(call);
    if (!(call->flags & TENON_CALL_SHAPE_ONLY))
        return tenon_fail(call, TENON_EFAILED, "the host does not say that it asks for the shape only");
    return tenon_result_alloc(call, 0, 1, &count) ? TENON_OK : TENON_ENOMEM;
}

static tenon_status maybe(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    if (!x || !tenon_arg_bool(call, 1))
        return TENON_OK;
    tenon_return_int(call, 1, 3);
    tenon_return_double(call, 2, 0.5);
    tenon_return_bool(call, 3, false);
    tenon_return_str(call, 4, "given", 5);
    return tenon_result_alloc(call, 0, 1, x->shape) ? copy(call) : TENON_ENOMEM;
}

static tenon_status split(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t n = tenon_dim(call, 0), half = n / 2;
    float *a = tenon_result_data(call, 0, float), *b = tenon_result_data(call, 1, float);
    for (int64_t i = 0; i < n; i++)
        *(i < half ? &a[i] : &b[i - half]) = x[i];
    return TENON_OK;
}

static tenon_status moments(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    double *centred = tenon_result_data(call, 1, double);
    int64_t n = tenon_dim(call, 0);
    double mean = 0;
    for (int64_t i = 0; i < n; i++)
        mean += (double)x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        centred[i] = (double)x[i] - mean;
    tenon_return_double(call, 0, mean);
    tenon_return_int(call, 2, n);
    return TENON_OK;
}

static tenon_status scalars(tenon_call *call)
{
    tenon_return_int(call, 0, INT64_MIN);
    tenon_return_double(call, 1, -0.5);
    tenon_return_bool(call, 2, true);
    tenon_return_str(call, 3, "caf\xc3\xa9\0x", 7);
    tenon_return_int(call, 4, 1);
    return TENON_OK;
}

/* Fifteen numbers: more than a call has room for without allocating. */
static tenon_status many(tenon_call *call)
{
    double sum = 0;
    for (int i = 0; i < call->nargs; i++)
        sum += tenon_arg(call, i) ? tenon_at(tenon_arg(call, i), const double, 0) : 0;
    for (int i = 0; i < call->nresults; i++)
        *tenon_result_data(call, i, double) = sum + i;
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------- what it says */

static tenon_status fail(tenon_call *call)
{
    const char *text = tenon_arg_str(call, 1, NULL);
    return text ? tenon_fail(call, (tenon_status)tenon_arg_int(call, 0), "%s", text)
                : (tenon_status)tenon_arg_int(call, 0);
}

/* Scratch memory is aligned, and each block is separate. */
static tenon_status scratch(tenon_call *call)
{
    int64_t count = tenon_arg_int(call, 0);
    char *last = NULL;
    for (int64_t i = 0; i < count; i++) {
        char *memory = tenon_scratch(call, 1000);
        if (!memory || (uintptr_t)memory % 64 || memory == last)
            return tenon_fail(call, TENON_EFAILED, "scratch memory is wrong");
        memset(memory, (int)i, 1000);
        last = memory;
    }
    return TENON_OK;
}

/* -------------------------------------------------------------------------------------------------------- the lock */

/* Set flags[0] to say that it runs, and wait until another thread sets flags[1]. */
static tenon_status handshake(tenon_call *call)
{
    volatile uint8_t *flags = tenon_rw_data(call, 0, uint8_t);
    if (!flags)
        return TENON_EFAILED;
    flags[0] = 1;
    for (int64_t i = 0; i < tenon_arg_int(call, 1); i++)
        if (flags[1]) {
            tenon_return_bool(call, 0, true);
            return TENON_OK;
        }
    tenon_return_bool(call, 0, false);
    return TENON_OK;
}

static tenon_status unlocked(tenon_call *call)
{
    tenon_return_bool(call, 0, call->flags & TENON_CALL_UNLOCKED);
    return TENON_OK;
}

/* Run until the caller cancels. */
static tenon_status run(tenon_call *call)
{
    volatile uint8_t *flags = tenon_rw_data(call, 0, uint8_t);
    if (flags)
        flags[0] = 1;
    while (flags && !tenon_cancelled(call))
        continue;
    return (tenon_status)tenon_arg_int(call, 1);
}

/* --------------------------------------------------------------------------------------------------- what is shared */

static int64_t alive, unloads;

typedef struct counter {
    int64_t value;
} counter;

static void counter_free(void *object)
{
    __atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST);
    free(object);
}

static tenon_status counter_new(tenon_call *call)
{
    counter *made = malloc(sizeof *made);
    if (!made)
        return TENON_ENOMEM;
    made->value = tenon_arg_int(call, 0);
    __atomic_add_fetch(&alive, 1, __ATOMIC_SEQ_CST);
    tenon_status status = tenon_return_handle(call, 0, made, counter_free);
    if (status)
        counter_free(made);
    return status;
}

static tenon_status counter_next(tenon_call *call)
{
    counter *self = tenon_arg_handle(call, 0);
    if (self)
        tenon_return_int(call, 0, __atomic_fetch_add(&self->value, 1, __ATOMIC_SEQ_CST));
    return self ? TENON_OK : tenon_fail(call, TENON_EINVAL, "no counter");
}

/* The number of counters, how often this module was unloaded, and the number of calls since it was loaded. */
static tenon_status counts(tenon_call *call)
{
    tenon_return_int(call, 0, __atomic_load_n(&alive, __ATOMIC_SEQ_CST));
    tenon_return_int(call, 1, __atomic_load_n(&unloads, __ATOMIC_SEQ_CST));
    tenon_return_int(call, 2, __atomic_add_fetch((int64_t *)call->state, 1, __ATOMIC_SEQ_CST));
    return TENON_OK;
}

static tenon_status load(tenon_call *call, void **state)
{
    *state = calloc(1, sizeof(int64_t));
    return *state ? TENON_OK : tenon_fail(call, TENON_ENOMEM, "no memory");
}

static void unload(void *state)
{
    __atomic_add_fetch(&unloads, 1, __ATOMIC_SEQ_CST);
    free(state);
}

#define ANY " where T = any"

TENON_MODULE_STATE(
    kernels, "Kernels written once.", load, unload,
    TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."),
    TENON_FUNCTION("copy(x: T[*b] c) -> T[*b]" ANY, copy, NULL),
    TENON_FUNCTION("copy_second(first: any[*a], x: f32[n] c) -> f32[n]", copy, NULL),
    TENON_FUNCTION("copy_in_place(x: T[*b] c) -> T[*b] inplace(x)" ANY, copy, NULL),
    TENON_FUNCTION("copy_alias(x: T[*b] c) -> T[*b] alias" ANY, copy, NULL),
    TENON_FUNCTION("count_up(n: int) -> f32[n]", count_up, "0, 1, 2, …"),
    TENON_FUNCTION("add_to(x: f32[n] rw, a: float)", add_to, NULL),
    TENON_FUNCTION("add_to_unchecked(x: f32[n] rw alias, a: float)", add_to, NULL),
    TENON_FUNCTION("swap(x: f32[n] c rw, y: f32[n] c rw)", swap, NULL),
    TENON_FUNCTION("swap_in_place(x: f32[n] c rw, y: f32[n] c rw inplace(x))", swap, NULL),
    TENON_FUNCTION("positive(x: f32[n] c) -> i64[?]", positive, NULL),
    TENON_FUNCTION_SHAPED("positive_shaped(x: f32[n] c) -> i64[?]", fill_positive, positive_shape, NULL, 0),
    TENON_FUNCTION("maybe(x: f32[n] c, yes: bool) -> f32[n]?, int?, float?, bool?, str?", maybe, NULL),
    TENON_FUNCTION("split(x: f32[n] c) -> f32[n // 2], f32[n - n // 2]", split, NULL),
    TENON_FUNCTION("moments(x: f32[n] c) -> mean: float, centred: f64[n], count: int", moments, NULL),
    TENON_FUNCTION("scalars() -> int, float, bool, str, 'a'|'b'", scalars, NULL),
    TENON_FUNCTION(
        "many(a: f64[_], b: f64[_], c: f64[_], d: f64[_], e: f64[_], g: f64[_], h: f64[_], i: f64[_]? = None, "
        "j: f64[_]? = None, k: f64[_]? = None) -> f64[], f64[], f64[], f64[], f64[]",
        many, NULL),
    TENON_FUNCTION("fail(status: int, text: str? = None)", fail, NULL),
    TENON_FUNCTION("scratch(count: int)", scratch, NULL),
    TENON_FUNCTION_FLAGS("handshake(flags: u8[2] rw c, limit: int) -> bool", handshake, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("handshake_locked(flags: u8[2] rw c, limit: int) -> bool", handshake, NULL, TENON_KEEP_LOCK),
    TENON_FUNCTION("unlocked(x: u8[n]) -> bool", unlocked, NULL),
    TENON_FUNCTION_FLAGS("unlocked_never(x: u8[n]) -> bool", unlocked, NULL, TENON_KEEP_LOCK),
    TENON_FUNCTION_FLAGS("unlocked_always(x: u8[n]) -> bool", unlocked, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("run(flags: u8[2] rw c, status: int = 0)", run, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("run_locked(flags: u8[2] rw c, status: int = 0)", run, NULL, TENON_KEEP_LOCK),
    TENON_FUNCTION_FLAGS("copy_no_grad(x: T[*b] c) -> T[*b]" ANY, copy, NULL, TENON_NO_GRAD_CHECK),
    TENON_FUNCTION("counter_new(start: int = 0) -> handle('Counter')", counter_new, "A counter."),
    TENON_FUNCTION("counter_next(counter: handle('Counter')) -> int", counter_next, "Its value, and counts."),
    TENON_FUNCTION("counter_maybe(counter: handle('Counter')? = None) -> int", counter_next, NULL),
    TENON_FUNCTION("other_next(counter: handle('Other')) -> int", counter_next, NULL),
    TENON_FUNCTION("counts() -> alive: int, unloads: int, calls: int", counts, NULL))
