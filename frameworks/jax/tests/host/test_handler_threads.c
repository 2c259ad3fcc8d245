/* The handler on several threads: its table, and the turns of functions that do not release the lock. */
#define _POSIX_C_SOURCE 200809L /* nanosleep, fork */

#include "handmade.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Waits for another call to come inside, for at most so many milliseconds, and returns whether one came. The second call does
 * not wait, and may have left when the first one looks: that they met is remembered. */
static _Atomic int inside;
static _Atomic bool met;

static tenon_status meet(tenon_call *call)
{
    if (++inside > 1)
        met = true;
    for (int64_t i = 0; !met && i < tenon_arg_int(call, 0); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    inside--;
    tenon_return_bool(call, 0, met);
    return TENON_OK;
}

static tenon_status look(tenon_call *call)
{
    return tenon_arg(call, 0) ? TENON_OK : TENON_EFAILED;
}

static int set_up(void **state)
{
    (void)state;
    add("meet(milliseconds: int) -> bool", meet, 0);
    add("meet_kept(milliseconds: int) -> bool", meet, TENON_KEEP_LOCK);
    add("meet_released(milliseconds: int) -> bool", meet, TENON_RELEASE_LOCK);
    add("look(x: T[*b]) -> u8[1] where T = any", look, 0);
    return 0;
}

/* Several threads add the same functions while others call one. */
static void *race(void *unused)
{
    xla_call c;
    (void)unused;
    for (int i = 0; i < 300; i++) {
        tenon_function entry = {.signature = "f(x: f32[n]) -> f32[n]", .call = look};
        char name[32];
        tenon_error err;
        bool added;
        snprintf(name, sizeof name, "race.f%d", i);
        if (tenon__jax_register(name, digits, &entry, NULL, &library, &added, &err))
            return &xla;
        static _Atomic int additions[300];
        if (added && additions[i]++)
            return &xla;
        if (!tenon__jax_find((xla_span){name, strlen(name)}, (xla_span){digits, 32}))
            return &xla;
        begin(&c, "t", "test.look");
        unsigned char out[1], in[1] = {0};
        int64_t one[] = {1};
        add_operand(&c, xla_u8, in, 1, one);
        add_result(&c, xla_u8, out, 1, one);
        if (tenon__jax_handle_cpu(&c.frame))
            return &xla;
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

typedef struct meeting {
    const char *fn;
    int64_t milliseconds;
    uint8_t met;
} meeting;

static void *call_meet(void *arguments)
{
    meeting *m = arguments;
    xla_call c;
    begin(&c, "v", m->fn);
    add_scalar(&c, "v00", xla_s64, &m->milliseconds);
    add_result(&c, xla_pred, &m->met, 0, NULL);
    return tenon__jax_handle_cpu(&c.frame);
}

static bool can_meet(const char *one, const char *other, int64_t milliseconds)
{
    meeting meetings[2] = {{one, milliseconds, 0}, {other, milliseconds, 0}};
    pthread_t threads[2];
    met = false;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_meet, &meetings[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    return meetings[0].met || meetings[1].met;
}

static void test_functions_take_turns(void **state)
{
    (void)state;
    assert_false(can_meet("test.meet", "test.meet", 50));
    assert_false(can_meet("test.meet", "test.meet_kept", 50));
    assert_true(can_meet("test.meet_released", "test.meet_released", 20000));
    assert_true(can_meet("test.meet", "test.meet_released", 20000));
}

/* A forked child may call while another thread of its parent was in its turn. */
static void test_turns_after_a_fork(void **state)
{
    (void)state;
    meeting outer = {"test.meet", 200, 0}, inner = {"test.meet", 0, 0};
    pthread_t thread;
    void *failed;
    int status = -1;
    met = false;
    assert_int_equal(pthread_create(&thread, NULL, call_meet, &outer), 0);
    while (inside == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(call_meet(&inner) ? 1 : 0);
    }
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_functions_take_turns),
        cmocka_unit_test(test_turns_after_a_fork),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
