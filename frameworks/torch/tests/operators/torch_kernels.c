/* The library of test_torch_c_kernels.py: functions that show how and where they run. */
#include <tenon/function.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        tenon_result_data(call, 0, float)[i] = a * tenon_data(call, 1, float)[i] + tenon_data(call, 2, float)[i];
    return TENON_OK;
}

/* Whether this thread holds the interpreter lock. */
static tenon_status has_lock(tenon_call *call)
{
    int (*check)(void);
    void *symbol = dlsym(RTLD_DEFAULT, "PyGILState_Check");
    memcpy(&check, &symbol, sizeof check);
    tenon_return_bool(call, 0, check());
    return TENON_OK;
}

/* Wait until the gate is open, and return how many calls were inside at most; -1 if it is not opened for a minute. */
static atomic_int inside, most;
static atomic_bool gate_is_open;
static tenon_status linger(tenon_call *call)
{
    int now = atomic_fetch_add(&inside, 1) + 1, before = atomic_load(&most), tries = 0;
    while (now > before && !atomic_compare_exchange_weak(&most, &before, now)) {
    }
    do
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    while (!atomic_load(&gate_is_open) && ++tries < 60000);
    atomic_fetch_sub(&inside, 1);
    tenon_return_int(call, 0, atomic_load(&gate_is_open) ? atomic_load(&most) : -1);
    return TENON_OK;
}

/* Open or close the gate, and return how many calls are inside. Closing it forgets how many were. */
static tenon_status gate(tenon_call *call)
{
    if (!tenon_arg_bool(call, 1))
        atomic_store(&most, atomic_load(&inside));
    atomic_store(&gate_is_open, tenon_arg_bool(call, 1));
    tenon_return_int(call, 0, atomic_load(&inside));
    return TENON_OK;
}

/* Write something, then fail. */
static tenon_status fail(tenon_call *call)
{
    static const tenon_status statuses[] = {TENON_EFAILED, TENON_EINVAL,    TENON_EDTYPE,
                                            TENON_EBOUNDS, TENON_EOVERFLOW, 77};
    if (tenon_dim(call, 0) > 0)
        tenon_rw_data(call, 0, double)[0] += 1;
    int64_t how = tenon_arg_int(call, 1);
    if (how == 6)
        return TENON_ESHAPE; /* without a message */
    return how < 0 || how > 6 ? TENON_OK : tenon_fail(call, statuses[how], "failure %d of \"%s\"", (int)how, "ñ");
}

static tenon_status fail_late(tenon_call *call)
{
    tenon_result_data(call, 0, double)[0] = 1;
    return tenon_fail(call, TENON_EFAILED, "too late");
}

/* Return what was passed as numbers: lengths and sums, or -1 for None. */
static void note(tenon_call *call, int at, double value)
{
    tenon_result_data(call, 0, double)[at] = value;
}
static void note_text(tenon_call *call, int index)
{
    size_t length = 0;
    double sum = 0;
    const char *text = tenon_has_arg(call, index) ? tenon_arg_str(call, index, &length) : NULL;
    for (size_t k = 0; text && k < length; k++)
        sum += (unsigned char)text[k] * (double)(k + 1);
    note(call, index, text ? sum + 1000000 * (double)length : -1);
}
static void note_list(tenon_call *call, int index, bool of_floats)
{
    int64_t length = 0;
    double sum = 0;
    const double *floats = of_floats && tenon_has_arg(call, index) ? tenon_arg_floats(call, index, &length) : NULL;
    const int64_t *ints = !of_floats && tenon_has_arg(call, index) ? tenon_arg_ints(call, index, &length) : NULL;
    for (int64_t k = 0; k < length; k++)
        sum += (floats ? floats[k] : (double)ints[k]) * (double)(k + 1);
    note(call, index, tenon_has_arg(call, index) ? sum + 1000 * (double)length : -1);
}
static tenon_status words(tenon_call *call)
{
    note_text(call, 1);
    note_list(call, 2, true);
    note_text(call, 3);
    note_text(call, 4);
    note_list(call, 5, true);
    note_list(call, 6, false);
    note_list(call, 7, false);
    note(call, 0, (double)tenon_arg(call, 0)->numel);
    note(call, 8, tenon_has_arg(call, 8) ? tenon_arg_bool(call, 8) : -1);
    note(call, 9, tenon_has_arg(call, 9) ? (double)tenon_arg_int(call, 9) : -1);
    note(call, 10, tenon_has_arg(call, 10) ? tenon_arg_double(call, 10) : -1);
    note(call, 11, tenon_has_arg(call, 11) ? tenon_arg_enum(call, 11) : -1);
    return TENON_OK;
}

/* The shape and the strides. */
static tenon_status layout(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    int64_t count = 2 * x->ndim;
    if (!tenon_result_alloc(call, 0, 1, &count))
        return TENON_EFAILED;
    for (int64_t i = 0; i < count; i++)
        tenon_result_data(call, 0, int64_t)[i] = i < x->ndim ? x->shape[i] : x->strides[i - x->ndim];
    return TENON_OK;
}

static tenon_status squares(tenon_call *call)
{
    double *scratch = tenon_scratch(call, (size_t)tenon_dim(call, 0) * sizeof *scratch);
    double sum = 0;
    for (int64_t i = 0; scratch && i < tenon_dim(call, 0); i++) {
        scratch[i] = tenon_data(call, 0, double)[i];
        tenon_result_data(call, 0, double)[i] = scratch[i] * scratch[i];
        sum += scratch[i];
    }
    tenon_return_double(call, 1, sum);
    tenon_return_int(call, 2, tenon_dim(call, 0));
    return TENON_OK;
}
static tenon_status forget(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

TENON_MODULE(
    kernels, "For kernels in C.", TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, NULL),
    TENON_FUNCTION("has_lock(x: f32[n]) -> bool", has_lock, NULL),
    TENON_FUNCTION_FLAGS("kept_lock(x: f32[n]) -> bool", has_lock, NULL, TENON_KEEP_LOCK),
    TENON_FUNCTION("alone(x: f32[n]) -> int", linger, NULL),
    TENON_FUNCTION("alone_too(x: f32[n]) -> int", linger, NULL),
    TENON_FUNCTION_FLAGS("together(x: f32[n]) -> int", linger, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("gate(x: f32[n], open: bool) -> int", gate, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION("fail(x: f64[n] rw c, how: int)", fail, NULL),
    TENON_FUNCTION("words(x: f32[n], s: str, f: floats, t: str?, u: str = 'it is \"ñ\"', g: floats[2]?,"
                   " i: ints[3] = (1, -2, 3), j: ints?, b: bool?, k: int?, d: float? = 1e-6, e: 'a'|'b'?) -> f64[12]",
                   words, NULL),
    TENON_FUNCTION("plain_words(x: f32[n], s: str, f: floats, i: ints[3], b: bool, k: int, d: float = 100000,"
                   " e: 'a'|'b' = 'b') -> i64[1]",
                   forget, NULL),
    TENON_FUNCTION("layout(x: T[*b]) -> i64[?] where T = any", layout, NULL),
    TENON_FUNCTION("squares(x: f64[n] c) -> y: f64[n], sum: float, n: int", squares, NULL),
    TENON_FUNCTION("fail_late(x: f64[n]) -> f64[n + 1]", fail_late, NULL),
    TENON_FUNCTION("huge(x: f32[n]) -> f32[1000000000000000 * n]", forget, NULL),
    TENON_FUNCTION("forget(x: f64[n]) -> f64[?]", forget, NULL),
    TENON_FUNCTION("forget_number(x: f64[n]) -> float", forget, NULL))
