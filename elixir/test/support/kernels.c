/* Functions for the tests of Tenon.Library: every kind both ways, and what a host has to get right. */
#include <tenon/function.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ----------------------------------------------------------------------------------------------------------- kinds */

static tenon_status echo_int(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_arg_int(call, 0));
    return TENON_OK;
}

static tenon_status echo_float(tenon_call *call)
{
    tenon_return_double(call, 0, tenon_arg_double(call, 0));
    return TENON_OK;
}

static tenon_status echo_bool(tenon_call *call)
{
    tenon_return_bool(call, 0, tenon_arg_bool(call, 0));
    return TENON_OK;
}

static tenon_status echo_str(tenon_call *call)
{
    size_t length = 0;
    const char *text = tenon_arg_str(call, 0, &length);
    if (!text || text[length] != '\0')
        return tenon_fail(call, TENON_EFAILED, "the text has no end");
    tenon_return_str(call, 0, text, length);
    return TENON_OK;
}

static tenon_status echo_enum(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_arg_enum(call, 0));
    return TENON_OK;
}

static tenon_status echo_ints(tenon_call *call)
{
    int64_t length = 0;
    const int64_t *list = tenon_arg_ints(call, 0, &length);
    if (list && tenon_result_alloc(call, 0, 1, &length))
        memcpy(tenon_result_data(call, 0, int64_t), list, (size_t)length * sizeof *list);
    return TENON_OK;
}

static tenon_status echo_floats(tenon_call *call)
{
    int64_t length = 0;
    const double *list = tenon_arg_floats(call, 0, &length);
    if (list && tenon_result_alloc(call, 0, 1, &length))
        memcpy(tenon_result_data(call, 0, double), list, (size_t)length * sizeof *list);
    return TENON_OK;
}

static tenon_status echo_tensor(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0), *y = tenon_result(call, 0);
    if (x && y)
        memcpy(y->data, x->data, (size_t)x->numel * x->dtype.bits / 8);
    return TENON_OK;
}

/* What was given, as a text: one letter for each argument. */
static tenon_status given(tenon_call *call)
{
    char text[64];
    int count = call->nargs < 64 ? call->nargs : 64;
    for (int i = 0; i < count; i++)
        text[i] = tenon_has_arg(call, i) ? 'y' : 'n';
    tenon_return_str(call, 0, text, (size_t)count);
    return TENON_OK;
}

static tenon_status defaults(tenon_call *call)
{
    char text[200];
    int64_t count = 0;
    const char *s = tenon_arg_str(call, 3, NULL);
    const int64_t *list = tenon_arg_ints(call, 5, &count);
    int size =
        snprintf(text, sizeof text, "%d %g %d %s %d %d:%d", (int)tenon_arg_int(call, 0), tenon_arg_double(call, 1),
                 tenon_arg_bool(call, 2), s ? s : "", tenon_arg_enum(call, 4), (int)count, count ? (int)list[0] : 0);
    tenon_return_str(call, 0, text, (size_t)size);
    return TENON_OK;
}

static tenon_status keywords(tenon_call *call)
{
    char text[100];
    int size = snprintf(text, sizeof text, "%d %d %g %d", (int)tenon_arg_int(call, 0), tenon_arg_enum(call, 1),
                        tenon_arg_double(call, 2), (int)(call->args[1].flags & TENON_VALUE_DEFAULT));
    tenon_return_str(call, 0, text, (size_t)size);
    return TENON_OK;
}

static tenon_status maybe(tenon_call *call)
{
    int64_t two = 2;
    if (!tenon_arg_bool(call, 0) || !tenon_result_alloc(call, 0, 1, &two))
        return TENON_OK;
    float *x = tenon_result_data(call, 0, float);
    x[0] = x[1] = 1;
    tenon_return_int(call, 1, 3);
    tenon_return_double(call, 2, 0.5);
    tenon_return_bool(call, 3, false);
    tenon_return_str(call, 4, "given", 5);
    return TENON_OK;
}

/* The sum of whatever numbers: names that Elixir does not have for variables. */
static tenon_status odd_names(tenon_call *call)
{
    int64_t sum = 0;
    for (int i = 0; i < call->nargs; i++)
        sum = sum * 10 + tenon_arg_int(call, i);
    tenon_return_int(call, 0, sum);
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------------- tensors */

static tenon_status scale(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float);
    for (int64_t i = 0; x && i < tenon_dim(call, 0); i++)
        x[i] *= (float)tenon_arg_double(call, 1);
    return TENON_OK;
}

static tenon_status swap(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float), *y = tenon_rw_data(call, 1, float);
    for (int64_t i = 0; x && y && i < tenon_dim(call, 0); i++) {
        float kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
    return TENON_OK;
}

static tenon_status add(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0), *y = tenon_arg(call, 1);
    float *z = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        z[i] = tenon_at(x, const float, i) + tenon_at(y, const float, i);
    return TENON_OK;
}

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

static tenon_status positive(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    uint8_t *z = tenon_result_data(call, 0, uint8_t);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        z[i] = tenon_at(x, const float, i) > 0;
    return TENON_OK;
}

static tenon_status count_up(tenon_call *call)
{
    float *z = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        z[i] = (float)i;
    return TENON_OK;
}

/* Two results and scratch memory. */
static tenon_status halves(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t n = tenon_dim(call, 0), half = n / 2;
    float *copy = tenon_scratch(call, (size_t)n * sizeof *copy);
    if (!copy || (uintptr_t)copy % 64)
        return tenon_fail(call, TENON_EFAILED, "scratch memory is wrong");
    memcpy(copy, x, (size_t)n * sizeof *copy);
    memcpy(tenon_result_data(call, 0, float), copy, (size_t)half * sizeof *copy);
    memcpy(tenon_result_data(call, 1, float), copy + half, (size_t)(n - half) * sizeof *copy);
    return TENON_OK;
}

/* How far from a multiple of its elements the address is. */
static tenon_status misaligned(tenon_call *call)
{
    tenon_return_int(call, 0, (int64_t)((uintptr_t)tenon_data(call, 0, double) % sizeof(double)));
    return TENON_OK;
}

/* Its result is made already. */
static tenon_status fail_late(tenon_call *call)
{
    return tenon_fail(call, TENON_EINVAL, "too late for %d elements", (int)tenon_dim(call, 0));
}

static tenon_status fail(tenon_call *call)
{
    size_t length = 0;
    const char *text = tenon_arg_str(call, 1, &length);
    return text ? tenon_fail(call, (tenon_status)tenon_arg_int(call, 0), "%s", text)
                : (tenon_status)tenon_arg_int(call, 0);
}

/* ------------------------------------------------------------------------------------------------------ schedulers */

static tenon_status is_dirty(tenon_call *call)
{
    tenon_return_bool(call, 0, call->flags & TENON_CALL_UNLOCKED);
    return TENON_OK;
}

static tenon_status is_dirty_and_long(tenon_call *call)
{
    (void)tenon_result_data(call, 1, uint8_t);
    return is_dirty(call);
}

/* Keeps its argument until somebody says let_go: 1 waits, 2 was told. */
static atomic_int holding;

static tenon_status hold(tenon_call *call)
{
    atomic_store(&holding, 1);
    while (atomic_load(&holding) != 2)
        continue;
    atomic_store(&holding, 0);
    return call->nargs ? TENON_OK : TENON_EFAILED;
}

static tenon_status is_holding(tenon_call *call)
{
    tenon_return_bool(call, 0, atomic_load(&holding) == 1);
    return TENON_OK;
}

static tenon_status let_go(tenon_call *call)
{
    (void)call;
    atomic_store(&holding, 2);
    return TENON_OK;
}

/* Nothing else runs on this scheduler meanwhile. */
static tenon_status occupy(tenon_call *call)
{
    int64_t ms = tenon_arg_int(call, 0);
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------- what is shared */

static _Atomic int64_t alive;

static void counter_free(void *object)
{
    atomic_fetch_sub(&alive, 1);
    free(object);
}

static tenon_status counter_new(tenon_call *call)
{
    int64_t *made = malloc(sizeof *made);
    if (!made)
        return TENON_ENOMEM;
    *made = tenon_arg_int(call, 0);
    atomic_fetch_add(&alive, 1);
    tenon_status status = tenon_return_handle(call, 0, made, counter_free);
    if (status)
        counter_free(made);
    return status;
}

static tenon_status counter_next(tenon_call *call)
{
    int64_t *self = tenon_arg_handle(call, 0);
    if (!self)
        return tenon_fail(call, TENON_EINVAL, "no counter");
    tenon_return_int(call, 0, (*self)++);
    return TENON_OK;
}

/* How many counters there are, and the number of calls of this since the library was loaded. */
static tenon_status counts(tenon_call *call)
{
    tenon_return_int(call, 0, atomic_load(&alive));
    tenon_return_int(call, 1, ++*(int64_t *)call->state);
    return TENON_OK;
}

static tenon_status load(tenon_call *call, void **state)
{
    *state = calloc(1, sizeof(int64_t));
    return *state ? TENON_OK : tenon_fail(call, TENON_ENOMEM, "no memory");
}

TENON_MODULE_STATE(
    kernels, "For the tests.", load, NULL, TENON_FUNCTION("echo_int(x: int) -> int", echo_int, "Gives x."),
    TENON_FUNCTION("echo_float(x: float) -> float", echo_float, NULL),
    TENON_FUNCTION("echo_bool(x: bool) -> bool", echo_bool, NULL),
    TENON_FUNCTION("echo_str(x: str) -> str", echo_str, NULL),
    TENON_FUNCTION("echo_enum(x: 'mean'|'two words'|'gr\xc3\xb6\xc3\x9f\x65') -> "
                   "'mean'|'two words'|'gr\xc3\xb6\xc3\x9f\x65'",
                   echo_enum, NULL),
    TENON_FUNCTION("echo_ints(x: ints) -> i64[?]", echo_ints, NULL),
    TENON_FUNCTION("echo_three(x: ints[3]) -> i64[?]", echo_ints, NULL),
    TENON_FUNCTION("echo_floats(x: floats) -> f64[?]", echo_floats, NULL),
    TENON_FUNCTION("echo_tensor(x: T[*b] c) -> T[*b] where T = any", echo_tensor, NULL),
    TENON_FUNCTION("given(a: int?, b: float?, c: bool?, d: str?, e: 'a'|'b'?, f: ints?, g: handle('Counter')?, "
                   "h: f32[n]?) -> str",
                   given, NULL),
    TENON_FUNCTION("defaults(i: int = -3, x: float = -2.5e3, b: bool = True, s: str = 'text', e: 'a'|'b' = 'b', "
                   "l: ints = (7, -8)) -> str",
                   defaults, NULL),
    TENON_FUNCTION("keywords(x: int, *, mode: 'mean'|'sum' = 'sum', eps: float) -> str", keywords, NULL),
    TENON_FUNCTION("maybe(yes: bool) -> f32[2]?, int?, float?, bool?, str?", maybe, NULL),
    TENON_FUNCTION("odd_names(N: int, n: int, _x: int, after: int, options: int, *, "
                   "self: int = 6) -> int",
                   odd_names, NULL),
    TENON_FUNCTION("max(a: int, b: int = 0) -> int", odd_names, NULL),
    TENON_FUNCTION("scale(x: f32[n] c rw, by: float)", scale, NULL),
    TENON_FUNCTION("limited(x: f32[n] c rw, by: float, k: int? = None) where by > 0, k <= n", scale, NULL),
    TENON_FUNCTION("swap(x: f32[n] c rw, y: f32[n] c rw)", swap, NULL),
    TENON_FUNCTION("add(x: f32[n], y: f32[n]) -> f32[n]", add, NULL),
    TENON_FUNCTION("add_keywords(*, x: f32[n], y: f32[n]) -> f32[n]", add, NULL),
    TENON_FUNCTION("positive(x: f32[n]) -> bool[n]", positive, NULL),
    TENON_FUNCTION("half_complex(x: f32[n]) -> c32[n]", nothing, NULL),
    TENON_FUNCTION("infinite(x: float = -1e400) -> float", echo_float, NULL),
    TENON_FUNCTION("aligned(x: u8[n] aligned(4096))", is_holding, NULL),
    TENON_FUNCTION("count_up(n: int) -> f32[n]", count_up, NULL),
    TENON_FUNCTION("halves(x: f32[n] c) -> f32[n // 2], f32[n - n // 2]", halves, NULL),
    TENON_FUNCTION("fail(status: int, text: str? = None)", fail, NULL),
    TENON_FUNCTION("fail_late(n: int) -> f32[n]", fail_late, NULL),
    TENON_FUNCTION("misaligned(x: f64[n] c) -> int", misaligned, NULL),
    TENON_FUNCTION("is_dirty(x: u8[n]) -> bool", is_dirty, NULL),
    TENON_FUNCTION("is_dirty_for_text(x: str) -> bool", is_dirty, NULL),
    TENON_FUNCTION("is_dirty_for_list(x: floats) -> bool", is_dirty, NULL),
    TENON_FUNCTION("is_dirty_for_result(n: int) -> bool, u8[n]", is_dirty_and_long, NULL),
    TENON_FUNCTION("is_dirty_by_option(x: u8[n]) -> bool", is_dirty, NULL),
    TENON_FUNCTION("is_normal_by_option(x: u8[n]) -> bool", is_dirty, NULL),
    TENON_FUNCTION_FLAGS("is_dirty_always(x: u8[n]) -> bool", is_dirty, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("is_dirty_never(x: u8[n]) -> bool", is_dirty, NULL, TENON_KEEP_LOCK),
    TENON_FUNCTION_FLAGS("hold_written(x: f32[n] rw)", hold, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("hold_read(x: f32[n])", hold, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("hold_both(x: f32[n], y: f32[n] rw)", hold, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION("is_holding() -> bool", is_holding, NULL), TENON_FUNCTION("let_go()", let_go, NULL),
    TENON_FUNCTION_FLAGS("occupy(ms: int)", occupy, NULL, TENON_KEEP_LOCK),
    TENON_FUNCTION("counter_new(start: int = 0) -> handle('Counter')", counter_new, "A counter."),
    TENON_FUNCTION("counter_next(counter: handle('Counter')) -> int", counter_next, "Its value, and counts."),
    TENON_FUNCTION("other_next(counter: handle('Other')) -> int", counter_next, NULL),
    TENON_FUNCTION("counts() -> alive: int, calls: int", counts, NULL))
