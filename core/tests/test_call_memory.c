/* Calls with the first, second, third, … block of memory failing: each is refused exactly once, or succeeds; memory that the
 * function gave is released exactly once, and no block is left. Linked with --wrap=malloc and --wrap=free. */
#include "driver.h"

#include <stdlib.h>

/* --------------------------------------------------------------------------------------------------------- failures */

void *__real_malloc(size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void __wrap_free(void *memory);

static bool counted;
static int made_blocks, live_blocks, fail_at;

void *__wrap_malloc(size_t size)
{
    if (counted && ++made_blocks == fail_at)
        return NULL;
    live_blocks += counted;
    return __real_malloc(size);
}

void __wrap_free(void *block)
{
    live_blocks -= counted && block;
    __real_free(block);
}

/* -------------------------------------------------------------------------------------------------------- scenarios */

static int released;
static float given_memory[8];

static void count_release(void *owner)
{
    assert_ptr_equal(owner, given_memory);
    released++;
}

/* Gives two results, of which the second one fails if there is no memory; then the first one is the host's to release. */
static tenon_status give_two(tenon_call *running)
{
    int64_t n = 4;
    tenon_status status = tenon_result_own(running, 0, given_memory, 1, &n, NULL, given_memory, count_release);
    if (status)
        return status;
    return tenon_result_of(running, 1, memory, 1, &n, NULL);
}

static tenon_status give_and_fail(tenon_call *running)
{
    tenon_status status = give_two(running);
    return status ? status : tenon_fail(running, TENON_EINVAL, "no");
}

static tenon_status write_results(tenon_call *running)
{
    float *first = tenon_result_data(running, 0, float);
    const tenon_view *second = tenon_result_alloc(running, 1, 1, DIMS(3));
    if (!second || !tenon_scratch(running, 100))
        return TENON_ENOMEM;
    first[0] = 1;
    tenon_at(second, float, 0) = 1;
    return TENON_OK;
}

typedef struct scenario {
    const char *text;
    tenon_status (*function)(tenon_call *running);
    bool checked, fails;
    int gives; /* releases after a call that reached its end */
} scenario;

static const scenario scenarios[] = {{"f(x: f32[n]) -> f32[?] own, f32[?] of(x)", give_two, false, false, 1},
                                     {"f(x: f32[n]) -> f32[?] own, f32[?] of(x)", give_two, true, false, 1},
                                     {"f(x: f32[n]) -> f32[?] own, f32[?] of(x)", give_and_fail, false, true, 1},
                                     {"f(x: f32[n]) -> f32[n], f32[?]", write_results, true, false, 0}};

/* Whether no block had to fail. */
static bool run_once(const scenario *s, int failing)
{
    host_frame f;
    released = 0;
    begin(&f, s->text);
    take(&f, 0, 5, cpu());
    assert_int_equal(tenon_frame_match(&f.base), 0);
    made_blocks = live_blocks = 0;
    fail_at = failing;
    counted = true;
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    code = s->function;
    int status = s->checked ? tenon_frame_run_checked(&f.base, 0) : tenon_frame_run(&f.base, &client);
    tenon_frame_end(&f.base);
    counted = false;
    bool passed = made_blocks < failing;
    assert_int_equal(live_blocks, 0);
    assert_int_equal(f.refusals, status ? 1 : 0);
    if (passed) {
        assert_int_equal(status, s->fails ? -1 : 0);
        assert_int_equal(released, s->gives);
    } else {
        assert_int_equal(status, -1);
        assert_true(f.refused.status == TENON_ENOMEM || s->fails);
        assert_in_range(released, 0, s->gives);
    }
    tenon_signature_release((tenon_signature *)(uintptr_t)f.base.signature);
    return passed;
}

static void sweep(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        int failing = 1;
        while (!run_once(&scenarios[i], failing))
            failing++;
        assert_true(failing > 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sweep), cmocka_unit_test(test_nothing_is_alive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
