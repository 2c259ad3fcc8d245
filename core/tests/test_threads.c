/* Counts and the deferred list under threads. Meant for ThreadSanitizer as well. */
#define _DEFAULT_SOURCE
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, ROUNDS = 4000 };

static void run_threads(void *(*body)(void *), void *argument)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, argument), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* A small generator of each thread's own; rand() takes a lock and would order the threads. */
static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* ---------------------------------------------------------------------------------------------------------- counts */

static atomic_int releases;
static atomic_int failures; /* cmocka's assertions may not be used off the main thread */

static void count_release(void *pointer)
{
    (void)pointer;
    atomic_fetch_add(&releases, 1);
}

/* Each thread owns one count and spends ROUNDS on taking and giving counts, views and exports, at random. */
static void *juggle(void *argument)
{
    tenon_tensor *t = argument, *held[16] = {NULL};
    tenon_dl_managed *exports[16] = {NULL};
    uint32_t seed = (uint32_t)(uintptr_t)&seed;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t slot = next_random(&seed) % 16;
        if (exports[slot]) {
            exports[slot]->deleter(exports[slot]);
            exports[slot] = NULL;
        } else if (held[slot]) {
            tenon_tensor_release(held[slot]);
            held[slot] = NULL;
        } else {
            tenon_status status = TENON_OK;
            switch (next_random(&seed) % 3) {
            case 0:
                held[slot] = tenon_tensor_retain(t);
                break;
            case 1:
                status = tenon_tensor_slice(t, 0, 0, 1, 1, &held[slot], NULL);
                break;
            default:
                status = tenon_tensor_export(t, &exports[slot], NULL);
            }
            if (status)
                atomic_fetch_add(&failures, 1);
        }
    }
    for (int i = 0; i < 16; i++) {
        tenon_tensor_release(held[i]);
        if (exports[i])
            exports[i]->deleter(exports[i]);
    }
    tenon_tensor_release(t);
    return NULL;
}

static void released_exactly_once(void **state)
{
    (void)state;
    float data[4] = {0};
    int64_t shape[] = {4};
    tenon_blob blob = {.data = data, .dtype = TENON_F32, .ndim = 1, .shape = shape, .release = count_release};
    for (int round = 0; round < 20; round++) {
        tenon_tensor *t = NULL;
        atomic_store(&releases, 0);
        assert_ok(tenon_tensor_from_blob(&blob, &t, err));
        for (int i = 1; i < THREADS; i++)
            tenon_tensor_retain(t);
        run_threads(juggle, t);
        assert_int_equal(atomic_load(&releases), 1);
        assert_int_equal(atomic_load(&failures), 0);
    }
}

/* Release tensors that the main thread has made, and make others. */
static void *exchange_tensors(void *argument)
{
    tenon_tensor **tensors = argument;
    int64_t shape[] = {2};
    for (int i = 0; i < ROUNDS; i++) {
        tenon_tensor_release(tensors[i]);
        if (tenon_tensor_alloc(TENON_F32, 1, shape, 0, &tensors[i], NULL))
            atomic_fetch_add(&failures, 1);
    }
    return NULL;
}

static void counts_are_those_of_all_threads(void **state)
{
    (void)state;
    static tenon_tensor *tensors[2 * ROUNDS];
    int64_t shape[] = {2};
    pthread_t other;
    for (int i = 0; i < ROUNDS; i++)
        assert_ok(tenon_tensor_alloc(TENON_F32, 1, shape, 0, &tensors[i], err));
    assert_int_equal(pthread_create(&other, NULL, exchange_tensors, tensors), 0);
    for (int i = ROUNDS; i < 2 * ROUNDS; i++) /* at the same time */
        assert_ok(tenon_tensor_alloc(TENON_F32, 1, shape, 0, &tensors[i], err));
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(tenon_stats_read().tensors, 2 * ROUNDS);
    assert_int_equal(tenon_stats_read().bytes, 2 * ROUNDS * 2 * (int64_t)sizeof(float));
    for (int i = 0; i < 2 * ROUNDS; i++)
        tenon_tensor_release(tensors[i]);
    assert_int_equal(tenon_stats_read().tensors, 0);
    assert_int_equal(tenon_stats_read().bytes, 0);
}

/* -------------------------------------------------------------------------------------------------------- deferred */

typedef struct job {
    tenon_deferred_node node;
    int order;
    int done;
} job;

static tenon_deferred list;
static job jobs[THREADS][ROUNDS];
static atomic_int next_thread, drained;

static void run_job(void *pointer)
{
    ((job *)pointer)->done++;
    atomic_fetch_add(&drained, 1);
}

static void *push_jobs(void *argument)
{
    (void)argument;
    int self = atomic_fetch_add(&next_thread, 1);
    for (int i = 0; i < ROUNDS; i++) {
        tenon_deferred_push(&list, &jobs[self][i].node, run_job, &jobs[self][i]);
        if (i % 100 == self)
            tenon_deferred_drain(&list);
    }
    return NULL;
}

static void each_job_runs_once(void **state)
{
    (void)state;
    run_threads(push_jobs, NULL);
    tenon_deferred_drain(&list);
    assert_int_equal(atomic_load(&drained), THREADS * ROUNDS);
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < ROUNDS; j++)
            assert_int_equal(jobs[i][j].done, 1);
    assert_int_equal(tenon_stats_read().deferred, 0);
}

static job ordered[5];
static int turn;

static void note_order(void *pointer)
{
    ((job *)pointer)->order = turn++;
}

static void push_again(void *pointer)
{
    job *j = pointer;
    note_order(j);
    tenon_deferred_push(&list, &j->node, note_order, j);
}

static void drains_in_order(void **state)
{
    (void)state;
    assert_int_equal(tenon_deferred_drain(&list), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(tenon_deferred_push(&list, &ordered[i].node, i == 1 ? push_again : note_order, &ordered[i]),
                         i == 0); /* only the first push wakes */
    assert_int_equal(tenon_stats_read().deferred, 5);
    assert_int_equal(tenon_deferred_drain(&list), 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ordered[i].order, i);
    assert_int_equal(tenon_stats_read().deferred, 1); /* what a release pushes waits for the next drain */
    assert_int_equal(tenon_deferred_drain(&list), 1);
    assert_int_equal(ordered[1].order, 5);
}

/* A node may be inside the owner that its release frees. */
static void free_job(void *pointer)
{
    free(pointer);
}

static void release_may_free_the_node(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        job *j = malloc(sizeof *j);
        assert_non_null(j);
        tenon_deferred_push(&list, &j->node, free_job, j);
    }
    assert_int_equal(tenon_deferred_drain(&list), 3);
}

static void nothing_is_pushed(void **state)
{
    (void)state;
    job j = {.done = 0};
    assert_false(tenon_deferred_push(NULL, &j.node, run_job, &j));
    assert_false(tenon_deferred_push(&list, NULL, run_job, &j));
    assert_int_equal(tenon_deferred_drain(NULL), 0);
    assert_true(tenon_deferred_push(&list, &j.node, NULL, &j));
    assert_int_equal(tenon_deferred_drain(&list), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(released_exactly_once, nothing_alive),
        cmocka_unit_test_teardown(counts_are_those_of_all_threads, nothing_alive),
        cmocka_unit_test_teardown(each_job_runs_once, nothing_alive),
        cmocka_unit_test_teardown(drains_in_order, nothing_alive),
        cmocka_unit_test_teardown(release_may_free_the_node, nothing_alive),
        cmocka_unit_test_teardown(nothing_is_pushed, nothing_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
