/* Parallel loops, on threads that the process has already: those of the host, or of its OpenMP runtime.
 *
 * One loop at a time has them. A loop that begins meanwhile, in a body or on another thread, runs on its own thread, and so
 * does every loop of a forked child, where the threads of a runtime do not exist. Parts are taken from a counter, so that a
 * thread whose parts are short takes more of them. */
#include "internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef tenon_status (*loop_body)(void *context, int64_t begin, int64_t end);

struct tenon__loop {
    loop_body body;
    void *context;
    tenon_call *call;
    int64_t count, part_size, parts;
    uintptr_t caller; /* the thread that runs the function */
    _Atomic int64_t next;
    _Atomic tenon_status status; /* the first that is not TENON_OK */
    _Atomic bool cancelled;      /* the caller has seen it */
};

#ifdef TENON__POSIX

/* ------------------------------------------------------------------------------------------------------- the parts */

enum { PARTS_PER_THREAD = 4 };

/* Parts of at least `grain`, a few for each thread. Long parts are multiples of 64 elements: then two threads do not write to
 * the same cache line of an aligned array. */
static void split_loop(struct tenon__loop *l, int64_t grain, int threads)
{
    int64_t most = (int64_t)threads * PARTS_PER_THREAD;
    int64_t size = l->count / most + (l->count % most != 0);
    if (size < grain)
        size = grain;
    if (size >= 1024 && size <= INT64_MAX - 63)
        size = (size + 63) / 64 * 64;
    l->part_size = size;
    l->parts = (l->count - 1) / size + 1;
}

static bool has_failed(struct tenon__loop *l)
{
    return atomic_load_explicit(&l->status, memory_order_relaxed) != TENON_OK || tenon__call_has_failed(l->call);
}

/* What each thread does. */
static void work_on_loop(void *data)
{
    struct tenon__loop *l = data;
    int64_t part;
    while (!has_failed(l) && (part = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed)) < l->parts) {
        int64_t begin = part * l->part_size;
        int64_t end = part + 1 < l->parts ? begin + l->part_size : l->count;
        tenon_status status = l->body(l->context, begin, end), none = TENON_OK;
        if (status != TENON_OK)
            atomic_compare_exchange_strong(&l->status, &none, status);
    }
}

/* ----------------------------------------------------------------------------------------------- the host's threads */

/* A task may begin when the loop has ended, so that this lives as long as the last of them. */
typedef struct host_loop {
    struct tenon__loop loop;
    tenon__crew crew;
    _Atomic int users;
} host_loop;

static void leave_host_loop(host_loop *l)
{
    if (atomic_fetch_sub_explicit(&l->users, 1, memory_order_acq_rel) == 1)
        tenon__free(l, sizeof *l);
}

static void help_with_loop(void *data)
{
    host_loop *l = data;
    if (tenon__crew_join(&l->crew)) {
        work_on_loop(&l->loop);
        tenon__crew_leave(&l->crew);
    }
    leave_host_loop(l);
}

/* The caller works too, and waits only for tasks that have begun. False: there is no memory. */
static bool run_on_host_threads(tenon_frame *f, struct tenon__loop *loop, int threads)
{
    host_loop *l = tenon__alloc(sizeof *l, false);
    if (!l)
        return false;
    memcpy(&l->loop, loop, sizeof *loop);
    l->crew = (tenon__crew){0};
    atomic_init(&l->users, threads);
    f->loop = &l->loop;
    int unused = threads - 1;
    while (unused > 0 && f->client->schedule(f, help_with_loop, l) == 0)
        unused--;
    work_on_loop(&l->loop);
    tenon__crew_close(&l->crew);
    atomic_store(&loop->status, atomic_load(&l->loop.status));
    f->loop = loop;
    for (; unused >= 0; unused--) /* for those that were not scheduled, and the caller */
        leave_host_loop(l);
    return true;
}

/* --------------------------------------------------------------------------------------------------------- the loop */

static atomic_flag loop_runs = ATOMIC_FLAG_INIT;

/* TENON_NUM_THREADS is an upper limit. It is read once, as the variables of OpenMP are. */
static int limit_threads(int threads)
{
    enum { UNLIMITED = 1 << 20 };
    static int limit; /* 0: not read yet; only the loop that runs uses it */
    if (!limit) {
        const char *text = getenv("TENON_NUM_THREADS");
        char *end = NULL;
        long number = text ? strtol(text, &end, 10) : 0;
        limit = text && end != text && !*end && number > 0 && number < UNLIMITED ? (int)number : UNLIMITED;
    }
    return threads < limit ? threads : limit;
}

/* Run the loop on several threads. False: there are none for it, and nothing has happened. */
static bool run_on_threads(tenon_frame *f, struct tenon__loop *l, int64_t grain)
{
    int wanted = f->client->thread_count ? f->client->thread_count(f) : 0;
    bool on_host = wanted > 0 && f->client->schedule;
    const tenon__openmp *openmp = on_host || wanted == 1 ? NULL : tenon__openmp_find();
    if (!on_host && (!openmp || openmp->in_parallel()))
        return false;
    int threads = limit_threads(wanted > 0 ? wanted : openmp->max_threads());
    if (threads <= 1)
        return false;
    split_loop(l, grain, threads);
    f->loop = l;
    f->call.flags |= TENON__CALL_LOOP;
    bool done = true;
    if (on_host)
        done = run_on_host_threads(f, l, threads < l->parts ? threads : (int)l->parts);
    else
        openmp->parallel(work_on_loop, l, (unsigned)threads, 0); /* a smaller team would end threads of the runtime */
    f->call.flags &= ~TENON__CALL_LOOP;
    return done;
}

#endif

/* All parts at once, on this thread. The flags are changed only while no other thread uses them. */
static tenon_status run_inline(tenon_call *call, int64_t count, loop_body body, void *context)
{
    if (tenon__call_flags(call) & (TENON__CALL_LOOP | TENON__CALL_BODY))
        return body(context, 0, count);
    call->flags |= TENON__CALL_BODY;
    tenon_status status = body(context, 0, count);
    call->flags &= ~TENON__CALL_BODY;
    return status;
}

#ifdef TENON__POSIX

tenon_status tenon_frame_host_parallel(tenon_call *call, int64_t count, int64_t grain, loop_body body, void *context)
{
    tenon_frame *f = tenon__frame_of(call);
    if (count <= 0)
        return TENON_OK;
    if (tenon__call_has_failed(call))
        return TENON_EFAILED;
    grain = grain < 1 ? 1 : grain;
    if (count <= grain || tenon__process_is_forked() || atomic_flag_test_and_set(&loop_runs))
        return run_inline(call, count, body, context);
    struct tenon__loop l = {
        .body = body, .context = context, .call = call, .count = count, .caller = tenon__thread_id()};
    bool done = run_on_threads(f, &l, grain);
    atomic_flag_clear(&loop_runs);
    if (!done)
        return run_inline(call, count, body, context);
    tenon_status status = atomic_load(&l.status);
    return status == TENON_OK && tenon__call_has_failed(call) ? TENON_EFAILED : status;
}

/* ------------------------------------------------------------------------------------------------------- cancelling */

/* Only the thread that runs the function can ask the runtime; the others see what it has found. */
int32_t tenon_frame_host_cancelled(tenon_call *call)
{
    tenon_frame *f = tenon__frame_of(call);
    bool in_loop = tenon__call_flags(call) & TENON__CALL_LOOP;
    if (in_loop && f->loop->caller != tenon__thread_id())
        return atomic_load_explicit(&f->loop->cancelled, memory_order_relaxed);
    bool cancelled = f->client->cancelled && f->client->cancelled(f);
    if (in_loop && cancelled)
        atomic_store_explicit(&f->loop->cancelled, true, memory_order_relaxed);
    return cancelled;
}

#else

tenon_status tenon_frame_host_parallel(tenon_call *call, int64_t count, int64_t grain, loop_body body, void *context)
{
    (void)grain;
    return count > 0 ? run_inline(call, count, body, context) : TENON_OK;
}

int32_t tenon_frame_host_cancelled(tenon_call *call)
{
    tenon_frame *f = tenon__frame_of(call);
    return f->client->cancelled && f->client->cancelled(f);
}

#endif
