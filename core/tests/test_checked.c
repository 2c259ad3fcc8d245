/* The checked mode: guards around results, arguments that must not change, and results that were not written. */
#include "driver.h"

#include <math.h>

static float second[8];
static const char unchanged[] =
    "0: result 0: no byte of it changed: the function did not write to it, or wrote exactly the "
    "pattern that the checked mode fills results with";

/* Run `body` with f32[5] at `memory` + 8 for the first argument, and at `second` for the others. */
static int run_checked(host_frame *f, const char *text, uint32_t outs, tenon_status (*body)(tenon_call *))
{
    static roomy_view rooms[3];
    begin(f, text);
    for (int i = 0; i < 64; i++)
        memory[i] = (float)i;
    memset(second, 0, sizeof second);
    for (int32_t i = 0; i < f->base.signature->nparams; i++) {
        const tenon_view *view = view_of(&rooms[i], i ? second : memory + 8, TENON_F32, 1, DIMS(5), NULL);
        tenon_frame_set_view(&f->base, i, (tenon_view *)(uintptr_t)view);
    }
    if (tenon_frame_match(&f->base) || tenon_frame_make_results(&f->base, &client))
        return -1;
    code = body;
    return tenon_frame_run_checked(&f->base, outs);
}

static void fails_saying(const char *text, tenon_status (*body)(tenon_call *), int32_t index, const char *message)
{
    host_frame f;
    assert_int_equal(run_checked(&f, text, 0, body), -1);
    refused(&f, TENON_REFUSED_BY_CODE, index, TENON_EFAILED, message);
    end(&f);
}

/* -------------------------------------------------------------------------------------------------------- functions */

static float *result_of(tenon_call *running)
{
    return tenon_result_data(running, 0, float);
}

static tenon_status write_all(tenon_call *running)
{
    float *z = result_of(running);
    assert_ptr_not_equal(z, memory);
    assert_int_equal((uintptr_t)z % 64, 0);
    assert_true(isnan(z[0]));
    for (int64_t i = 0; i < tenon_result(running, 0)->numel; i++)
        z[i] = (float)(i + 100);
    return TENON_OK;
}

static tenon_status write_past_the_end(tenon_call *running)
{
    float *z = result_of(running);
    for (int i = 0; i <= 5; i++)
        z[i] = 0;
    return TENON_OK;
}

static tenon_status write_before_the_start(tenon_call *running)
{
    result_of(running)[-2] = 1;
    return TENON_OK;
}

static tenon_status write_far_past_the_end(tenon_call *running)
{
    result_of(running)[5 + 1023] = 1;
    return TENON_OK;
}

static tenon_status write_far_before_the_start(tenon_call *running)
{
    result_of(running)[-1024] = 1;
    return TENON_OK;
}

static tenon_status write_nothing(tenon_call *running)
{
    (void)running;
    return TENON_OK;
}

static tenon_status write_nan(tenon_call *running)
{
    for (int i = 0; i < 5; i++)
        result_of(running)[i] = NAN;
    return TENON_OK;
}

static tenon_status write_argument(tenon_call *running)
{
    ((float *)(uintptr_t)tenon_data(running, 0, float))[2] = -1;
    write_all(running);
    return TENON_OK;
}

static tenon_status write_second(tenon_call *running)
{
    tenon_rw_data(running, 1, float)[0] = 7;
    return TENON_OK;
}

static tenon_status alloc_and_write(tenon_call *running)
{
    const tenon_view *view = tenon_result_alloc(running, 0, 1, DIMS(5));
    assert_ptr_equal(view, tenon_result(running, 0));
    return write_all(running);
}

static tenon_status alloc_and_overrun(tenon_call *running)
{
    tenon_result_alloc(running, 0, 1, DIMS(5));
    return write_past_the_end(running);
}

static tenon_status fail_after_writing(tenon_call *running)
{
    write_past_the_end(running);
    return tenon_fail(running, TENON_EINVAL, "no");
}

static tenon_status fail_after_writing_argument(tenon_call *running)
{
    write_argument(running);
    return tenon_fail(running, TENON_EINVAL, "no");
}

static tenon_status fail_at_once(tenon_call *running)
{
    return tenon_fail(running, TENON_EINVAL, "no");
}

static tenon_status write_ints(tenon_call *running)
{
    assert_int_equal(tenon_result_data(running, 0, int32_t)[0], (int32_t)0xa5a5a5a5);
    tenon_result_data(running, 0, int32_t)[4] = 1;
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------------------------------ tests */

static void test_a_good_call(void **state)
{
    (void)state;
    static const char *const texts[] = {"f(x: f32[n]) -> f32[n]", "f(x: f32[n]) -> f32[?]"};
    tenon_status (*const functions[])(tenon_call *) = {write_all, alloc_and_write};
    for (int i = 0; i < 2; i++) {
        host_frame f;
        assert_int_equal(run_checked(&f, texts[i], 0, functions[i]), 0);
        assert_int_equal(f.refusals, 0);
        assert_string_equal(warned, "");
        assert_ptr_equal(f.results[0].as.view, &f.views[0].view); /* the real one again, with the elements */
        assert_ptr_equal(f.results[0].as.view->data, memory);
        assert_true(memory[0] == 100 && memory[4] == 104 && memory[5] == 5);
        assert_false(f.base.call.flags & TENON__CALL_CHECKED);
        end(&f);
    }
}

static void test_guards(void **state)
{
    (void)state;
    const char *past = "result 0: the function wrote past the end of its memory: byte 20, but it has 20 bytes";
    fails_saying("f(x: f32[n]) -> f32[n]", write_past_the_end, 0, past);
    fails_saying("f(x: f32[n]) -> f32[?]", alloc_and_overrun, 0, past);
    fails_saying("f(x: f32[n]) -> z: f32[n]", write_before_the_start, 0,
                 "result 'z': the function wrote before the start of its memory: byte -8, but it has 20 bytes");
    fails_saying("f(x: f32[n]) -> f32[n]", write_far_past_the_end, 0,
                 "result 0: the function wrote past the end of its memory: byte 4112, but it has 20 bytes");
    fails_saying("f(x: f32[n]) -> f32[n]", write_far_before_the_start, 0,
                 "result 0: the function wrote before the start of its memory: byte -4096, but it has 20 bytes");
}

static void test_arguments(void **state)
{
    (void)state;
    fails_saying("f(x: f32[n]) -> f32[n]", write_argument, -1,
                 "argument 'x': byte 10 of 20 changed during the call, but the argument is not 'rw'; the function "
                 "wrote to it, or another thread did");
    host_frame f;
    assert_int_equal(run_checked(&f, "f(x: f32[n], y: f32[n] rw)", 0, write_second), 0);
    end(&f);
}

static tenon_status write_strided(tenon_call *running)
{
    tenon_at(tenon_arg(running, 0), float, 1, 1) = -1;
    return TENON_OK;
}

/* The elements are compared, not the gaps between them; bytes count in C order. */
static tenon_status write_gap(tenon_call *running)
{
    (&tenon_at(tenon_arg(running, 0), float, 1, 1))[1] = -1;
    return TENON_OK;
}

static void test_strided_arguments(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        host_frame f;
        roomy_view room;
        begin(&f, "f(x: f32[n, k])");
        memset(memory, 0, sizeof memory);
        const tenon_view *view = view_of(&room, memory, TENON_F32, 2, DIMS(2, 3), DIMS(2, 8));
        tenon_frame_set_view(&f.base, 0, (tenon_view *)(uintptr_t)view);
        assert_int_equal(tenon_frame_match(&f.base), 0);
        code = i ? write_gap : write_strided;
        assert_int_equal(tenon_frame_run_checked(&f.base, 0), i ? 0 : -1);
        if (!i)
            refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EFAILED,
                    "argument 'x': byte 18 of 24 changed during the call, but the argument is not 'rw'; the function "
                    "wrote to it, or another thread did");
        end(&f);
    }
}

/* An argument that shares memory with what the function may write to is not compared. */
static void test_shared_memory(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[n], y: f32[n] rw alias)");
    take(&f, 0, 5, cpu());
    take(&f, 1, 5, cpu());
    assert_int_equal(tenon_frame_match(&f.base), 0);
    code = write_second;
    assert_int_equal(tenon_frame_run_checked(&f.base, 0), 0);
    end(&f);
}

static void test_results_that_were_not_written(void **state)
{
    (void)state;
    host_frame f;
    assert_int_equal(run_checked(&f, "f(x: f32[n]) -> f32[n]", 0, write_nothing), 0);
    assert_string_equal(warned, unchanged);
    assert_true(isnan(memory[0]));
    end(&f);
    assert_int_equal(run_checked(&f, "f(x: f32[n]) -> f32[n]", 0, write_nan), 0);
    assert_string_equal(warned, ""); /* a NaN that was written is another one */
    end(&f);
    assert_int_equal(run_checked(&f, "f(x: f32[n]) -> f32[n - 5]", 0, write_nothing), 0);
    assert_string_equal(warned, ""); /* nothing to write */
    end(&f);
    assert_int_equal(run_checked(&f, "f(x: f32[n]) -> i32[n]", 0, write_ints), 0);
    assert_string_equal(warned, "");
    end(&f);
    /* The host may make an error of it. */
    begin(&f, "f(n: int) -> f64[n]");
    f.args[0] = INT(5);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    code = write_nothing;
    warn_status = -1;
    assert_int_equal(tenon_frame_run_checked(&f.base, 0), -1);
    assert_int_equal(f.refusals, 0);
    end(&f);
}

/* Every float dtype has a NaN, so that what was not written spreads. */
static void test_the_pattern_of_each_dtype(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "f(x: f32[n]) -> f16[n]", "f(x: f32[n]) -> bf16[n]", "f(x: f32[n]) -> f32[n]",
        "f(x: f32[n]) -> f64[n]", "f(x: f32[n]) -> c64[n]",  "f(x: f32[n]) -> c128[n]",
        "f(x: f32[n]) -> u8[n]",  "f(x: f32[n]) -> bool[n]", "f(x: f32[n]) -> f4_e2m1fn[n]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        host_frame f;
        assert_int_equal(run_checked(&f, texts[i], 0, write_nothing), 0);
        assert_string_equal(warned, unchanged);
        double number;
        memcpy(&number, memory, sizeof number);
        uint16_t half;
        memcpy(&half, memory, sizeof half);
        if (i == 0)
            assert_true((half & 0x7c00) == 0x7c00 && (half & 0x3ff));
        else if (i == 1)
            assert_true((half & 0x7f80) == 0x7f80 && (half & 0x7f));
        else if (i == 2 || i == 4)
            assert_true(isnan(memory[0]) && isnan(memory[1]));
        else if (i == 3 || i == 5)
            assert_true(isnan(number));
        end(&f);
    }
}

static tenon_status write_a_bool(tenon_call *running)
{
    tenon_result_data(running, 0, bool)[1] = true;
    return TENON_OK;
}

static void test_bools_are_bools(void **state)
{
    (void)state;
    static const unsigned char expected[2][5] = {{0, 0, 0, 0, 0}, {0, 1, 0, 0, 0}};
    for (int i = 0; i < 2; i++) {
        host_frame f;
        assert_int_equal(run_checked(&f, "f(x: f32[n]) -> bool[n]", 0, i ? write_a_bool : write_nothing), 0);
        assert_string_equal(warned, i ? "" : unchanged);
        assert_memory_equal(memory, expected[i], 5);
        end(&f);
    }
}

/* A function that fails says why, and the host says what else it did. */
static void test_functions_that_fail(void **state)
{
    (void)state;
    static const char *const messages[] = {
        "no",
        "no; also, result 0: the function wrote past the end of its memory: byte 20, but it has 20 bytes",
        "no; also, argument 'x': byte 10 of 20 changed during the call, but the argument is not 'rw'; the function "
        "wrote "
        "to it, or another thread did",
    };
    tenon_status (*const functions[])(tenon_call *) = {fail_at_once, fail_after_writing, fail_after_writing_argument};
    for (int i = 0; i < 3; i++) {
        host_frame f;
        assert_int_equal(run_checked(&f, "f(x: f32[n]) -> f32[n]", 0, functions[i]), -1);
        refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EINVAL, messages[i]);
        assert_ptr_equal(f.results[0].as.view->data, memory);
        end(&f);
    }
}

/* Memory of the caller's is written directly. */
static void test_calls_that_are_not_checked(void **state)
{
    (void)state;
    host_frame f;
    assert_int_equal(run_checked(&f, "f(x: f32[n]) -> f32[n]", 1, write_past_the_end), 0);
    assert_true(memory[5] == 0);
    end(&f);
    begin(&f, "f(x: f32[n] cuda) -> f32[n] cuda");
    take(&f, 0, 5, cuda(0));
    assert_int_equal(tenon_frame_join_device(&f.base, 0, cuda(0)), 1);
    f.made_on = cuda(0);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    code = write_nothing;
    assert_int_equal(tenon_frame_run_checked(&f.base, 0), 0);
    assert_string_equal(warned, "");
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_good_call),
                                       cmocka_unit_test(test_guards),
                                       cmocka_unit_test(test_arguments),
                                       cmocka_unit_test(test_strided_arguments),
                                       cmocka_unit_test(test_shared_memory),
                                       cmocka_unit_test(test_results_that_were_not_written),
                                       cmocka_unit_test(test_the_pattern_of_each_dtype),
                                       cmocka_unit_test(test_bools_are_bools),
                                       cmocka_unit_test(test_functions_that_fail),
                                       cmocka_unit_test(test_calls_that_are_not_checked),
                                       cmocka_unit_test(test_nothing_is_alive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
