/* Parallel loops: their parts and threads, failures, cancelling, and the loops that run on one thread. libraries/openmp.c is
 * the OpenMP runtime, with four threads. */
#define _GNU_SOURCE 1

#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { THREADS = 4, MOST_ITEMS = 100000 };

static int *regions, *in_parallel;
static unsigned *team_size;

static void find_runtime(void)
{
    void *library = dlopen(TENON_TEST_OPENMP, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    regions = dlsym(library, "openmp_regions");
    team_size = dlsym(library, "openmp_team_size");
    in_parallel = dlsym(library, "openmp_in_parallel");
}

/* ------------------------------------------------------------------------------------------------------------- loops */

typedef struct loop {
    tenon_call *call;
    int64_t count, grain;
    _Atomic int64_t items, parts, on_caller;
    _Atomic int visits[MOST_ITEMS];
    pthread_t caller;
} loop;

static loop all;

static void prepare(tenon_call *running, int64_t count, int64_t grain)
{
    memset(&all, 0, sizeof all);
    all.call = running;
    all.count = count;
    all.grain = grain;
    all.caller = pthread_self();
}

/* Count the items; only the last part may be shorter than the grain. */
static tenon_status visit(void *context, int64_t begin, int64_t end)
{
    loop *l = context;
    if (begin < 0 || end <= begin || end > l->count || (end < l->count && end - begin < l->grain))
        return TENON_EBOUNDS;
    for (int64_t i = begin; i < end && l->count <= MOST_ITEMS; i++)
        l->visits[i]++;
    l->items += end - begin;
    l->parts++;
    l->on_caller += pthread_equal(pthread_self(), l->caller) != 0;
    return TENON_OK;
}

static tenon_status visit_all(tenon_call *running, int64_t count, int64_t grain)
{
    prepare(running, count, grain);
    return tenon_parallel_for(running, count, grain, visit, &all);
}

static void visited_once(int64_t count)
{
    assert_int_equal(all.items, count);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(all.visits[i], 1);
}

static host_frame frame;

static tenon_call *start(void)
{
    begin(&frame, "f()");
    return &frame.base.call;
}

static void test_parts(void **state)
{
    (void)state;
    tenon_call *running = start();
    static const int64_t counts[] = {2, 3, 5, 16, 17, 1000, 4099, 65536, MOST_ITEMS};
    static const int64_t grains[] = {1, 2, 7, 100, 1023};
    for (size_t i = 0; i < COUNT(counts); i++) {
        for (size_t j = 0; j < COUNT(grains); j++) {
            int before = *regions;
            assert_int_equal(visit_all(running, counts[i], grains[j]), TENON_OK);
            visited_once(counts[i]);
            assert_in_range(all.parts, 1, 4 * THREADS);
            assert_int_equal(*regions - before, counts[i] > grains[j]);
        }
    }
    assert_int_equal(*team_size, THREADS);
    end(&frame);
}

static void test_small_loops_stay_on_their_thread(void **state)
{
    (void)state;
    tenon_call *running = start();
    int before = *regions;
    assert_int_equal(visit_all(running, 0, 1), TENON_OK);
    assert_int_equal(all.parts, 0);
    assert_int_equal(visit_all(running, -1, 1), TENON_OK);
    assert_int_equal(visit_all(running, INT64_MIN, INT64_MIN), TENON_OK);
    assert_int_equal(all.parts, 0);
    assert_int_equal(visit_all(running, 1, -5), TENON_OK);
    assert_int_equal(visit_all(running, 100, 100), TENON_OK);
    assert_int_equal(all.parts, 1);
    assert_int_equal(all.on_caller, 1);
    assert_int_equal(visit_all(running, 100, INT64_MAX), TENON_OK);
    visited_once(100);
    assert_int_equal(*regions, before);
    assert_int_equal(visit_all(running, 100, INT64_MIN), TENON_OK); /* less than 1 is 1 */
    visited_once(100);
    assert_int_equal(*regions, before + 1);
    end(&frame);
}

static void test_the_largest_count(void **state)
{
    (void)state;
    tenon_call *running = start();
    static const int64_t grains[] = {1, INT64_MAX / 2, INT64_MAX / 2 + 1, INT64_MAX - 1, INT64_MAX};
    for (size_t i = 0; i < COUNT(grains); i++) {
        assert_int_equal(visit_all(running, INT64_MAX, grains[i]), TENON_OK);
        assert_int_equal(all.items, INT64_MAX);
    }
    end(&frame);
}

static pthread_barrier_t barrier;
static _Thread_local bool has_met;

/* The first part of each thread waits for those of the others. */
static tenon_status meet(void *context, int64_t begin, int64_t end)
{
    if (!has_met)
        pthread_barrier_wait(&barrier);
    has_met = true;
    return visit(context, begin, end);
}

static void test_all_threads_work(void **state)
{
    (void)state;
    tenon_call *running = start();
    pthread_barrier_init(&barrier, NULL, THREADS);
    prepare(running, 1000, 1);
    has_met = false;
    assert_int_equal(tenon_parallel_for(running, 1000, 1, meet, &all), TENON_OK);
    visited_once(1000);
    assert_true(all.on_caller < all.parts);
    end(&frame);
}

/* --------------------------------------------------------------------------------------------------- one at a time */

static tenon_status nest(void *context, int64_t begin, int64_t end)
{
    loop *l = context;
    int before = *regions;
    (void)begin;
    (void)end;
    tenon_status status = tenon_parallel_for(l->call, MOST_ITEMS, 1, visit, l);
    return *regions == before ? status : TENON_EFAILED;
}

static void test_a_nested_loop_is_inline(void **state)
{
    (void)state;
    tenon_call *running = start();
    prepare(running, MOST_ITEMS, 1);
    assert_int_equal(tenon_parallel_for(running, 3, 1, nest, &all), TENON_OK);
    assert_int_equal(all.parts, 3); /* each of them whole */
    assert_int_equal(all.items, 3 * MOST_ITEMS);
    end(&frame);
}

static _Atomic int entered, released;

static tenon_status wait_for_release(void *context, int64_t begin, int64_t end)
{
    (void)context;
    (void)begin;
    (void)end;
    entered = 1;
    while (!released)
        sched_yield();
    return TENON_OK;
}

static void *run_other_loop(void *unused)
{
    static host_frame other;
    (void)unused;
    tenon_error ignored;
    tenon_signature *signature = NULL;
    tenon_call constant;
    assert_int_equal(tenon_signature_alloc("f()", NULL, TENON_HOST_LAYOUT, &signature, &ignored), TENON_OK);
    tenon_call_init(&constant, &host, &function, NULL, signature);
    tenon_frame_begin(&other.base, &client, &constant, signature);
    tenon_status status = tenon_parallel_for(&other.base.call, 100, 1, wait_for_release, NULL);
    assert_int_equal(status, TENON_OK);
    tenon_frame_end(&other.base);
    tenon_signature_release(signature);
    return NULL;
}

/* While another thread's loop runs, and in a child that is forked then. */
static void test_loops_that_start_meanwhile_are_inline(void **state)
{
    (void)state;
    pthread_t thread;
    tenon_call *running = start();
    entered = released = 0;
    assert_int_equal(pthread_create(&thread, NULL, run_other_loop, NULL), 0);
    while (!entered)
        sched_yield();
    int before = *regions;
    assert_int_equal(visit_all(running, 1000, 1), TENON_OK);
    assert_int_equal(all.parts, 1);
    assert_int_equal(all.on_caller, 1);
    assert_int_equal(*regions, before);
    pid_t child = fork();
    if (child == 0)
        _exit(visit_all(running, 1000, 1) == TENON_OK && all.parts == 1 ? 0 : 1);
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    released = 1;
    pthread_join(thread, NULL);
    assert_int_equal(visit_all(running, 1000, 1), TENON_OK); /* the threads are free again */
    assert_int_equal(*regions, before + 1);
    end(&frame);
}

static void test_a_forked_child_is_inline(void **state)
{
    (void)state;
    tenon_call *running = start();
    assert_int_equal(visit_all(running, 1000, 1), TENON_OK);
    pid_t child = fork();
    if (child == 0) {
        int before = *regions;
        bool good = visit_all(running, 1000, 1) == TENON_OK && all.parts == 1 && *regions == before;
        _exit(good ? 0 : 1);
    }
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    end(&frame);
}

static jmp_buf outside;

static tenon_status leave_by_jump(void *context, int64_t begin, int64_t end)
{
    (void)context;
    (void)begin;
    (void)end;
    longjmp(outside, 1);
}

/* Bodies must not do it. On one thread only the call is affected: it cannot use callbacks any more. */
static void test_longjmp_out_of_a_body(void **state)
{
    (void)state;
    tenon_call *running = start();
    if (setjmp(outside) == 0) {
        (void)tenon_parallel_for(running, 10, 10, leave_by_jump, NULL);
        fail();
    }
    end(&frame);
    tenon_call *next = start();
    int before = *regions;
    assert_int_equal(visit_all(next, 1000, 1), TENON_OK);
    assert_int_equal(*regions, before + 1);
    end(&frame);
}

static void test_a_loop_inside_a_region_of_the_runtime_is_inline(void **state)
{
    (void)state;
    tenon_call *running = start();
    int before = *regions;
    *in_parallel = 1;
    assert_int_equal(visit_all(running, 1000, 1), TENON_OK);
    *in_parallel = 0;
    assert_int_equal(all.parts, 1);
    assert_int_equal(*regions, before);
    end(&frame);
}

/* --------------------------------------------------------------------------------------------------------- failures */

static tenon_status fail_with_message(void *context, int64_t begin, int64_t end)
{
    loop *l = context;
    l->parts++;
    (void)end;
    return tenon_fail(l->call, begin ? TENON_EINVAL : TENON_EBOUNDS, "part %d", (int)begin);
}

/* Each thread fails with its own status and message: those of the same thread are kept. */
static tenon_status fail_together(void *context, int64_t begin, int64_t end)
{
    pthread_barrier_wait(&barrier);
    return fail_with_message(context, begin, end);
}

static tenon_status run_failing(tenon_call *running)
{
    prepare(running, 1000, 1);
    return tenon_parallel_for(running, 1000, 1, fail_together, &all);
}

static void test_the_first_failure_ends_the_call(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        start();
        code = run_failing;
        pthread_barrier_init(&barrier, NULL, THREADS);
        assert_int_equal(tenon_frame_run(&frame.base, &client), -1);
        assert_int_equal(frame.why, TENON_REFUSED_BY_CODE);
        assert_int_equal(all.parts, THREADS); /* no thread took another part */
        int part = -1;
        assert_int_equal(sscanf(frame.refused.message, "part %d", &part), 1);
        assert_int_equal(frame.refused.status, part ? TENON_EINVAL : TENON_EBOUNDS);
        end(&frame);
    }
}

static tenon_status return_status(void *context, int64_t begin, int64_t end)
{
    (void)context;
    (void)end;
    return begin == 0 ? TENON_EOVERFLOW : TENON_OK;
}

static tenon_status fail_and_go_on(void *context, int64_t begin, int64_t end)
{
    (void)fail_with_message(context, begin, end);
    return TENON_OK;
}

static void test_failures_of_bodies(void **state)
{
    (void)state;
    tenon_call *running = start();
    assert_int_equal(tenon_parallel_for(running, 1000, 1, return_status, NULL), TENON_EOVERFLOW);
    assert_false(running->flags & TENON_CALL_FAILED); /* the function decides what it means */
    assert_int_equal(visit_all(running, 1000, 1), TENON_OK);
    prepare(running, 1000, 1);
    assert_int_equal(tenon_parallel_for(running, 1000, 1, fail_and_go_on, &all), TENON_EFAILED);
    assert_true(running->flags & TENON_CALL_FAILED);
    assert_int_equal(visit_all(running, 1000, 1), TENON_EFAILED); /* a call that has failed does no more work */
    assert_int_equal(all.parts, 0);
    end(&frame);
}

/* ------------------------------------------------------------------------------------------------------- cancelling */

static _Atomic int asked, asked_elsewhere, seen_elsewhere;

static bool is_cancelled(tenon_frame *base)
{
    (void)base;
    asked++;
    asked_elsewhere += !pthread_equal(pthread_self(), all.caller);
    return asked > 3;
}

/* Each thread waits in its first part until it is cancelled. */
static tenon_status wait_until_cancelled(void *context, int64_t begin, int64_t end)
{
    loop *l = context;
    (void)begin;
    (void)end;
    pthread_barrier_wait(&barrier);
    while (!tenon_cancelled(l->call))
        sched_yield();
    l->parts++;
    seen_elsewhere += !pthread_equal(pthread_self(), l->caller);
    return TENON_EFAILED;
}

static void test_cancelled_on_other_threads(void **state)
{
    (void)state;
    tenon_client cancelling = client;
    cancelling.cancelled = is_cancelled;
    tenon_call *running = start();
    assert_false(tenon_cancelled(running));
    frame.base.client = &cancelling;
    pthread_barrier_init(&barrier, NULL, THREADS);
    prepare(running, 1000, 1);
    assert_int_equal(tenon_parallel_for(running, 1000, 1, wait_until_cancelled, &all), TENON_EFAILED);
    assert_int_equal(asked_elsewhere, 0); /* only the thread of the call asks the host */
    assert_int_equal(all.parts, THREADS);
    assert_int_equal(seen_elsewhere, THREADS - 1);
    frame.base.client = &client;
    end(&frame);
}

/* ------------------------------------------------------------------------------------------------ the host's threads */

enum { MOST_TASKS = 8 };
static void (*tasks[MOST_TASKS])(void *);
static void *task_data[MOST_TASKS];
static int ntasks, room_for_tasks, pool_size;
static bool runs_at_once, runs_on_threads;
static pthread_t pool_threads[MOST_TASKS];

static void *run_task(void *index)
{
    int *i = index;
    tasks[*i](task_data[*i]);
    return NULL;
}

static int pool_thread_count(tenon_frame *base)
{
    (void)base;
    return pool_size;
}

static int schedule(tenon_frame *base, void (*task)(void *), void *data)
{
    static int numbers[MOST_TASKS];
    (void)base;
    if (ntasks == room_for_tasks)
        return -1;
    int i = ntasks++;
    tasks[i] = task;
    task_data[i] = data;
    numbers[i] = i;
    if (runs_at_once)
        run_task(&numbers[i]);
    else if (runs_on_threads)
        assert_int_equal(pthread_create(&pool_threads[i], NULL, run_task, &numbers[i]), 0);
    return 0;
}

static tenon_client pool_client;

static tenon_call *start_with_pool(int size, int room)
{
    tenon_call *running = start();
    pool_client = client;
    pool_client.thread_count = pool_thread_count;
    pool_client.schedule = schedule;
    frame.base.client = &pool_client;
    pool_size = size;
    room_for_tasks = room;
    ntasks = 0;
    runs_at_once = runs_on_threads = false;
    return running;
}

/* The caller never waits for a task that has not begun; one that comes late finds nothing to do. */
static void test_tasks_that_begin_too_late(void **state)
{
    (void)state;
    int before = *regions;
    for (int room = 0; room <= 3; room++) { /* some cannot be scheduled */
        tenon_call *running = start_with_pool(4, room);
        assert_int_equal(visit_all(running, 1000, 1), TENON_OK);
        visited_once(1000);
        assert_int_equal(all.on_caller, all.parts);
        assert_int_equal(ntasks, room);
        end(&frame);
        for (int i = 0; i < ntasks; i++)
            tasks[i](task_data[i]); /* the last one frees the memory */
    }
    assert_int_equal(*regions, before);
}

static void test_tasks_that_run_at_once(void **state)
{
    (void)state;
    tenon_call *running = start_with_pool(3, MOST_TASKS);
    runs_at_once = true;
    assert_int_equal(visit_all(running, 1000, 1), TENON_OK);
    visited_once(1000);
    assert_int_equal(ntasks, 2);
    prepare(running, 1000, 1);
    ntasks = 0;
    assert_int_equal(tenon_parallel_for(running, 2, 1, fail_with_message, &all), TENON_EBOUNDS);
    assert_int_equal(ntasks, 1); /* no more than there are parts */
    assert_string_equal(frame.base.error->message, "part 0");
    end(&frame);
}

static void test_the_threads_of_the_host(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        tenon_call *running = start_with_pool(4, MOST_TASKS);
        runs_on_threads = true;
        assert_int_equal(visit_all(running, MOST_ITEMS, 1), TENON_OK);
        visited_once(MOST_ITEMS);
        end(&frame);
        for (int j = 0; j < ntasks; j++)
            pthread_join(pool_threads[j], NULL);
    }
}

static void test_the_number_of_threads_of_a_host(void **state)
{
    (void)state;
    tenon_call *running = start_with_pool(1, MOST_TASKS); /* a pool of one thread, or a thread that must not wait */
    int before = *regions;
    assert_int_equal(visit_all(running, 1000, 1), TENON_OK);
    assert_int_equal(all.parts, 1);
    assert_int_equal(*regions, before);
    pool_size = 0; /* no pool: OpenMP */
    assert_int_equal(visit_all(running, 1000, 1), TENON_OK);
    assert_int_equal(*regions, before + 1);
    assert_int_equal(*team_size, THREADS);
    pool_size = 2; /* a number for OpenMP */
    pool_client.schedule = NULL;
    assert_int_equal(visit_all(running, 1000, 1), TENON_OK);
    assert_int_equal(*regions, before + 2);
    assert_int_equal(*team_size, 2);
    assert_int_equal(ntasks, 0);
    end(&frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_small_loops_stay_on_their_thread),
        cmocka_unit_test(test_the_largest_count),
        cmocka_unit_test(test_all_threads_work),
        cmocka_unit_test(test_a_nested_loop_is_inline),
        cmocka_unit_test(test_loops_that_start_meanwhile_are_inline),
        cmocka_unit_test(test_a_forked_child_is_inline),
        cmocka_unit_test(test_longjmp_out_of_a_body),
        cmocka_unit_test(test_a_loop_inside_a_region_of_the_runtime_is_inline),
        cmocka_unit_test(test_the_first_failure_ends_the_call),
        cmocka_unit_test(test_failures_of_bodies),
        cmocka_unit_test(test_cancelled_on_other_threads),
        cmocka_unit_test(test_tasks_that_begin_too_late),
        cmocka_unit_test(test_tasks_that_run_at_once),
        cmocka_unit_test(test_the_threads_of_the_host),
        cmocka_unit_test(test_the_number_of_threads_of_a_host),
    };
    find_runtime();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
