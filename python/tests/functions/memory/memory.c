/* Functions that keep arguments, and that return memory of their own or of an argument. */
#include <tenon/function.h>

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- kept arguments */

enum { SLOTS = 64 };
static tenon_kept *slots[SLOTS];

static int64_t put(tenon_kept *kept)
{
    for (int64_t i = 0; kept && i < SLOTS; i++)
        if (!slots[i])
            return slots[i] = kept, i;
    tenon_kept_release(kept);
    return -1;
}

static tenon_status keep(tenon_call *call)
{
    tenon_return_int(call, 0, put(tenon_arg_keep(call, 0)));
    return TENON_OK;
}

static tenon_status keep_twice(tenon_call *call)
{
    tenon_return_int(call, 0, put(tenon_arg_keep(call, 0)));
    tenon_return_int(call, 1, put(tenon_arg_keep(call, 0)));
    return TENON_OK;
}

static tenon_status keep_and_fail(tenon_call *call)
{
    tenon_kept *kept = tenon_arg_keep(call, 0);
    tenon_kept_release(kept);
    return tenon_fail(call, TENON_EINVAL, "after %s", kept ? "keeping" : "nothing");
}

/* Keeps and drops the argument as often as asked. */
static tenon_status keep_often(tenon_call *call)
{
    for (int64_t i = 0; i < tenon_arg_int(call, 1); i++) {
        tenon_kept *kept = tenon_arg_keep(call, 0);
        if (!kept)
            return TENON_EFAILED;
        tenon_kept_release(kept);
    }
    return TENON_OK;
}

static tenon_status keep_other(tenon_call *call)
{
    tenon_arg_keep(call, (int)tenon_arg_int(call, 2));
    return TENON_OK;
}

static tenon_kept *kept_at(tenon_call *call)
{
    int64_t i = tenon_arg_int(call, 0);
    return i >= 0 && i < SLOTS ? slots[i] : NULL;
}

static tenon_status kept_sum(tenon_call *call)
{
    const tenon_kept *kept = kept_at(call);
    double sum = 0;
    for (int64_t i = 0; kept && i < kept->view->numel; i++)
        sum += ((const float *)kept->view->data)[i];
    tenon_return_double(call, 0, sum);
    return TENON_OK;
}

static tenon_status kept_address(tenon_call *call)
{
    const tenon_kept *kept = kept_at(call);
    tenon_return_int(call, 0, kept ? (int64_t)(intptr_t)kept->view->data : 0);
    return TENON_OK;
}

static tenon_status kept_ndim(tenon_call *call)
{
    const tenon_kept *kept = kept_at(call);
    int64_t product = 1;
    for (int32_t i = 0; kept && i < kept->view->ndim; i++)
        product *= kept->view->shape[i];
    tenon_return_int(call, 0, kept && product == kept->view->numel ? kept->view->ndim : -1);
    return TENON_OK;
}

static void *run_release(void *kept)
{
    tenon_kept_release(kept);
    return NULL;
}

static tenon_status drop(tenon_call *call)
{
    tenon_kept *kept = kept_at(call);
    pthread_t thread;
    if (kept)
        slots[tenon_arg_int(call, 0)] = NULL;
    if (!tenon_arg_bool(call, 1))
        tenon_kept_release(kept);
    else if (pthread_create(&thread, NULL, run_release, kept) || pthread_join(thread, NULL))
        return TENON_EFAILED;
    return TENON_OK;
}

/* Releases what is kept when the process ends, long after the interpreter. */
__attribute__((destructor)) static void drop_all(void)
{
    for (int i = 0; i < SLOTS; i++)
        tenon_kept_release(slots[i]);
}

/* ---------------------------------------------------------------------------------------------------- own results */

static int64_t made, released;

static void release_memory(void *owner)
{
    __atomic_add_fetch(&released, 1, __ATOMIC_SEQ_CST);
    free(owner);
}

/* A block of floats 0, 1, 2, …, that begins `shift` bytes after an address divisible by 64; *owner is to be freed. */
static float *block(size_t count, size_t shift, void **owner)
{
    char *memory = malloc(count * sizeof(float) + shift + 64);
    *owner = memory;
    if (!memory)
        return NULL;
    float *data = (float *)(void *)(memory + (64 - (uintptr_t)memory % 64) + shift);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)i;
    __atomic_add_fetch(&made, 1, __ATOMIC_SEQ_CST);
    return data;
}

static tenon_status give_block(tenon_call *call, int index, int ndim, const int64_t *shape, const int64_t *strides,
                               size_t shift)
{
    size_t count = 1;
    void *owner;
    for (int i = 0; i < ndim; i++)
        count *= (size_t)shape[i];
    float *data = block(count, shift, &owner);
    if (!data)
        return tenon_fail(call, TENON_ENOMEM, "no memory");
    tenon_status status = tenon_result_own(call, index, data, ndim, shape, strides, owner, release_memory);
    if (status) { /* nothing was taken */
        __atomic_sub_fetch(&made, 1, __ATOMIC_SEQ_CST);
        free(owner);
    }
    return status;
}

static tenon_status make(tenon_call *call)
{
    int64_t n = tenon_arg_int(call, 0);
    return give_block(call, 0, 1, &n, NULL, (size_t)tenon_arg_int(call, 1));
}

static tenon_status make_beside(tenon_call *call)
{
    int64_t n = tenon_arg(call, 0)->numel;
    return give_block(call, 0, 1, &n, NULL, 4);
}

static tenon_status make_grid(tenon_call *call)
{
    static const int64_t shape[] = {3, 4}, by_columns[] = {1, 3};
    return give_block(call, 0, 2, shape, tenon_arg_bool(call, 0) ? by_columns : NULL, 0);
}

/* The elements in reverse order. */
static tenon_status make_reversed(tenon_call *call)
{
    void *owner;
    int64_t n = 4, stride = -1;
    float *data = block((size_t)n, 0, &owner);
    return data ? tenon_result_own(call, 0, data + n - 1, 1, &n, &stride, owner, release_memory) : TENON_ENOMEM;
}

static tenon_status make_nothing(tenon_call *call)
{
    static const int64_t shape[] = {0, 3};
    made++;
    return tenon_result_own(call, 0, NULL, 2, shape, NULL, NULL, release_memory);
}

static tenon_status make_typed(tenon_call *call)
{
    int64_t n = tenon_arg(call, 0)->numel;
    void *memory = calloc((size_t)n, 8);
    made++;
    memcpy(memory, tenon_arg(call, 0)->data, (size_t)n * tenon_type(call, 0).bits / 8);
    return tenon_result_own(call, 0, memory, 1, &n, NULL, memory, release_memory);
}

/* Named results of three kinds. */
static tenon_status make_three(tenon_call *call)
{
    int64_t n = tenon_dim(call, 0);
    const float *x = tenon_data(call, 0, float);
    float *copy = tenon_result_data(call, 1, float);
    for (int64_t i = 0; i < n; i++)
        copy[i] = x[i];
    tenon_status status = give_block(call, 0, 1, &n, NULL, 0);
    return status ? status : tenon_result_of(call, 2, (void *)(uintptr_t)x, 1, &n, NULL);
}

static tenon_status make_optional(tenon_call *call)
{
    int64_t n = 2;
    return tenon_arg_bool(call, 0) ? give_block(call, 0, 1, &n, NULL, 0) : TENON_OK;
}

static tenon_status make_and_fail(tenon_call *call)
{
    int64_t n = 3;
    tenon_status status = give_block(call, 0, 1, &n, NULL, 0);
    return status ? status : tenon_fail(call, TENON_EINVAL, "after giving");
}

/* What a function must not do, by number. */
static tenon_status give_wrongly(tenon_call *call)
{
    static float memory[8];
    int64_t n = 4, negative = -1, huge = INT64_MAX / 2;
    switch (tenon_arg_int(call, 0)) {
    case 0:
        return tenon_result_own(call, 0, memory, 1, &n, NULL, NULL, NULL);
    case 1:
        return tenon_result_own(call, 0, memory, 1, &huge, NULL, NULL, release_memory);
    case 2:
        return tenon_result_own(call, 0, memory, 1, &negative, NULL, NULL, release_memory);
    case 3:
        return tenon_result_own(call, 0, NULL, 1, &n, NULL, NULL, release_memory);
    case 4: /* what the first one gives is released */
        give_block(call, 0, 1, &n, NULL, 0);
        return give_block(call, 0, 1, &n, NULL, 0);
    case 5:
        return tenon_result_own(call, 7, memory, 1, &n, NULL, NULL, release_memory);
    case 6:
        return tenon_result_alloc(call, 0, 1, &n) ? TENON_OK : TENON_EFAILED;
    case 7:
        return tenon_result_of(call, 0, memory, 1, &n, NULL);
    case 8:
        return tenon_result_own(call, 0, (char *)memory + 1, 1, &n, NULL, NULL, release_memory);
    default:
        return TENON_OK; /* gives nothing */
    }
}

static tenon_status give_overlapping(tenon_call *call)
{
    int64_t n = 4;
    void *owner;
    float *data = block(8, 0, &owner);
    if (tenon_result_own(call, 0, data, 1, &n, NULL, owner, release_memory))
        return TENON_EFAILED;
    tenon_status status = tenon_result_own(call, 1, data + tenon_arg_int(call, 0), 1, &n, NULL, NULL, release_memory);
    made += status == TENON_OK;
    return status;
}

static tenon_status counts(tenon_call *call)
{
    tenon_return_int(call, 0, made);
    tenon_return_int(call, 1, released);
    return TENON_OK;
}

/* -------------------------------------------------------------------------------------------- views of arguments */

static tenon_status part(tenon_call *call)
{
    int64_t start = tenon_arg_int(call, 1), stop = tenon_arg_int(call, 2), step = tenon_arg_int(call, 3);
    const float *x = tenon_data(call, 0, float);
    int64_t n = stop > start ? (stop - start + step - 1) / step : 0;
    return tenon_result_of(call, 0, (void *)(uintptr_t)(x + start), 1, &n, &step);
}

static tenon_status halves(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t n = tenon_dim(call, 0), half = n / 2;
    tenon_status status = tenon_result_of(call, 0, (void *)(uintptr_t)x, 1, &half, NULL);
    return status ? status : tenon_result_of(call, 1, (void *)(uintptr_t)x, 1, &n, NULL);
}

static tenon_status whole(tenon_call *call)
{
    const tenon_view *view = tenon_has_arg(call, 0) ? tenon_arg(call, 0) : NULL;
    static float other;
    int64_t one = 1;
    return view ? tenon_result_of(call, 0, view->data, view->ndim, view->shape, view->strides)
                : tenon_result_of(call, 0, &other, 1, &one, NULL);
}

TENON_MODULE(memory, "Memory that outlives a call.", TENON_FUNCTION("keep(x: f32[*s] keep) -> int", keep, ""),
             TENON_FUNCTION_FLAGS("keep_unlocked(x: f32[*s] keep) -> int", keep, "", TENON_RELEASE_LOCK),
             TENON_FUNCTION("keep_any(x: any[*s] anywhere keep) -> int", keep, ""),
             TENON_FUNCTION("keep_optional(x: f32[n]? keep) -> int", keep, ""),
             TENON_FUNCTION("keep_twice(x: f32[n] keep) -> int, int", keep_twice, ""),
             TENON_FUNCTION("keep_and_fail(x: f32[n] keep)", keep_and_fail, ""),
             TENON_FUNCTION("keep_often(x: f32[n] keep, times: int)", keep_often, ""),
             TENON_FUNCTION("keep_other(x: f32[n] keep, y: f32[n], which: int)", keep_other, ""),
             TENON_FUNCTION("kept_sum(slot: int) -> float", kept_sum, ""),
             TENON_FUNCTION("kept_address(slot: int) -> int", kept_address, ""),
             TENON_FUNCTION("kept_ndim(slot: int) -> int", kept_ndim, ""),
             TENON_FUNCTION("drop(slot: int, on_thread: bool = False)", drop, ""),
             TENON_FUNCTION_FLAGS("drop_unlocked(slot: int, on_thread: bool = False)", drop, "", TENON_RELEASE_LOCK),
             TENON_FUNCTION("make(n: int, shift: int = 0) -> f32[?] own", make, ""),
             TENON_FUNCTION("make_beside(x: any[*s]) -> f32[?] own", make_beside, ""),
             TENON_FUNCTION("make_grid(by_columns: bool) -> f32[?, ?] own", make_grid, ""),
             TENON_FUNCTION("make_ordered(by_columns: bool) -> f32[?, ?] c own", make_grid, ""),
             TENON_FUNCTION("make_reversed() -> f32[?] own", make_reversed, ""),
             TENON_FUNCTION("make_nothing() -> f32[?, 3] own", make_nothing, ""),
             TENON_FUNCTION("make_typed(x: T[n]) -> T[n] own where T = f32|f64|i64|u8", make_typed, ""),
             TENON_FUNCTION("make_three(x: f32[n] c) -> numbers: f32[n] own, copy: f32[n], view: f32[n] of(x)",
                            make_three, ""),
             TENON_FUNCTION("make_optional(wanted: bool) -> f32[?]? own", make_optional, ""),
             TENON_FUNCTION("make_and_fail() -> f32[?] own", make_and_fail, ""),
             TENON_FUNCTION("give_wrongly(what: int) -> f32[?] own", give_wrongly, ""),
             TENON_FUNCTION("give_overlapping(shift: int) -> f32[?] own, f32[?] own", give_overlapping, ""),
             TENON_FUNCTION("counts() -> made: int, released: int", counts, ""),
             TENON_FUNCTION("part(x: f32[n] c, start: int, stop: int, step: int = 1) -> f32[?] of(x)", part, ""),
             TENON_FUNCTION_FLAGS("part_unlocked(x: f32[n] c, start: int, stop: int, step: int = 1) -> f32[?] of(x)",
                                  part, "", TENON_RELEASE_LOCK),
             TENON_FUNCTION("halves(x: f32[n] c) -> first: f32[?] of(x), all: f32[n] of(x)", halves, ""),
             TENON_FUNCTION("whole(x: f32[n]?) -> f32[?] of(x)", whole, ""))
