/* Loops that say which threads they run on. */
#define _GNU_SOURCE
#include <tenon/function.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

typedef struct loop {
    tenon_call *call;
    int64_t *ids;
    int64_t bad, serial;
    _Atomic int64_t done;
    _Atomic int threads; /* that have begun a part */
} loop;

static _Atomic int bodies; /* of rests() and waits(), which run now */
static _Atomic bool woken;
static _Atomic int expected; /* threads of a loop that tells its threads */
static _Atomic int64_t serials;

static void rest(void)
{
    struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
}

/* Wait until all threads that are expected have begun a part, however busy the machine is. After a minute they will not come,
 * and no loop waits any more. */
static void meet(loop *l)
{
    static _Thread_local int64_t met;
    if (met != l->serial) {
        met = l->serial;
        l->threads++;
    }
    for (int i = 0; l->threads < expected; i++) {
        if (i == 30000)
            expected = 0;
        rest();
    }
}

static tenon_status write_ids(void *context, int64_t begin, int64_t end)
{
    loop *l = context;
    meet(l);
    rest(); /* so that threads that are not expected come in, too */
    for (int64_t i = begin; i < end; i++)
        l->ids[i] = (int64_t)(intptr_t)pthread_self();
    return TENON_OK;
}

/* The thread of each item; the last item is the thread of the call. */
static tenon_status threads(tenon_call *call)
{
    int64_t n = tenon_arg_int(call, 0);
    loop l = {.call = call, .ids = tenon_result_data(call, 0, int64_t), .serial = ++serials};
    l.ids[n] = (int64_t)(intptr_t)pthread_self();
    return tenon_parallel_for(call, n, tenon_arg_int(call, 1), write_ids, &l);
}

/* The thread of each item of x. */
static tenon_status threads_of(tenon_call *call)
{
    loop l = {.call = call, .ids = tenon_result_data(call, 0, int64_t), .serial = ++serials};
    return tenon_parallel_for(call, tenon_dim(call, 0), 1, write_ids, &l);
}

/* The threads of each loop from now on. */
static tenon_status expect(tenon_call *call)
{
    expected = (int)tenon_arg_int(call, 0);
    return TENON_OK;
}

static tenon_status refuse_one(void *context, int64_t begin, int64_t end)
{
    loop *l = context;
    rest();
    for (int64_t i = begin; i < end; i++)
        if (i >= l->bad)
            return tenon_fail(l->call, TENON_EBOUNDS, "item %d is bad", (int)l->bad);
    l->done += end - begin;
    return TENON_OK;
}

static tenon_status fails(tenon_call *call)
{
    loop l = {.call = call, .bad = tenon_arg_int(call, 1)};
    return tenon_parallel_for(call, tenon_arg_int(call, 0), 1, refuse_one, &l);
}

static tenon_status fails_of(tenon_call *call)
{
    loop l = {.call = call, .bad = 3};
    return tenon_parallel_for(call, tenon_dim(call, 0), 1, refuse_one, &l);
}

static tenon_status again(tenon_call *call);

/* The function calls itself inside the body. */
static tenon_status descend(void *context, int64_t begin, int64_t end)
{
    loop *l = context;
    (void)begin;
    (void)end;
    return again(l->call);
}

static _Atomic int64_t calls;

static tenon_status again(tenon_call *call)
{
    loop l = {.call = call};
    if (calls++ > 100)
        return TENON_OK;
    return tenon_parallel_for(call, 8, 1, descend, &l);
}

static tenon_status wait_for_end(void *context, int64_t begin, int64_t end)
{
    loop *l = context;
    (void)begin;
    (void)end;
    bodies++;
    for (int i = 0; i < 10000 && !tenon_cancelled(l->call); i++) /* 20 seconds */
        rest();
    bodies--;
    return TENON_EFAILED;
}

static tenon_status waits(tenon_call *call)
{
    loop l = {.call = call};
    return tenon_parallel_for(call, 100, 1, wait_for_end, &l);
}

static tenon_status rest_until_woken(void *context, int64_t begin, int64_t end)
{
    (void)context;
    (void)begin;
    (void)end;
    bodies++;
    while (!woken)
        rest();
    bodies--;
    return TENON_OK;
}

/* Until wake() is called. */
static tenon_status rests(tenon_call *call)
{
    woken = false;
    return tenon_parallel_for(call, 16, 1, rest_until_woken, NULL);
}

static tenon_status wake(tenon_call *call)
{
    (void)call;
    woken = true;
    return TENON_OK;
}

/* Whether a body of rests() or waits() runs. */
static tenon_status busy(tenon_call *call)
{
    tenon_return_bool(call, 0, bodies > 0);
    return TENON_OK;
}

static tenon_status sum_lengths(void *context, int64_t begin, int64_t end)
{
    ((loop *)context)->done += end - begin;
    return TENON_OK;
}

static tenon_status total(tenon_call *call)
{
    loop l = {.call = call};
    tenon_status status = tenon_parallel_for(call, tenon_arg_int(call, 0), tenon_arg_int(call, 1), sum_lengths, &l);
    tenon_return_int(call, 0, l.done);
    return status;
}

/* clang-format off */
TENON_MODULE(parallel, NULL,
    TENON_FUNCTION_FLAGS("threads(n: int, grain: int = 1) -> i64[n + 1]", threads, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION("threads_of(x: f32[n]) -> i64[n]", threads_of, NULL),
    TENON_FUNCTION("expect(threads: int)", expect, NULL),
    TENON_FUNCTION("fails_of(x: f32[n]) -> f32[n]", fails_of, NULL),
    TENON_FUNCTION("fails(n: int, bad: int)", fails, NULL),
    TENON_FUNCTION("again()", again, NULL),
    TENON_FUNCTION_FLAGS("waits()", waits, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("rests()", rests, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("wake()", wake, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("busy() -> bool", busy, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION("total(n: int, grain: int) -> int", total, NULL))
