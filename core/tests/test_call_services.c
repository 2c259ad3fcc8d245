/* What every host does alike: memory for a call, failures in words, results that the function makes. */
#include "signature_call.h"

/* A call of "f() -> f32[?, 2], str", in which the function runs. */
typedef struct served {
    step_frame f;
    tenon_call *call;
    tenon_signature *signature;
} served;

static served *begin(served *s)
{
    s->signature = compiled("f() -> f32[?, 2], str");
    step_begin(&s->f, s->signature, NULL, NULL);
    assert_int_equal(tenon_frame_match(&s->f.base), 0);
    s->call = &s->f.base.call;
    return s;
}

static void end(served *s)
{
    tenon_frame_end(&s->f.base);
    tenon_signature_release(s->signature);
}

/* What another language calls: `fail` of the host. */
static tenon_status fail_call(served *s, tenon_status status, const char *message, size_t length)
{
    return tenon_frame_host_fail(s->call, status, message, length);
}

/* The call ends with this status of the function: the message that the host gets. */
static const char *refusal(served *s, tenon_status status)
{
    assert_int_equal(tenon_frame_refuse_failure(&s->f.base, status), -1);
    return s->f.refused.message;
}

/* The call has failed with this message. */
static void refuses(served *s, const char *message)
{
    assert_true(s->call->flags & TENON_CALL_FAILED);
    assert_string_equal(refusal(s, TENON_OK), message);
    end(s);
}

static void test_blocks(void **state)
{
    (void)state;
    tenon_block *list = NULL;
    static const size_t aligns[] = {0, 1, 16, 64, 4096};
    for (size_t i = 0; i < sizeof aligns / sizeof *aligns; i++) {
        char *memory = tenon_block_alloc(&list, 100 * i, aligns[i]);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % (aligns[i] < 16 ? 16 : aligns[i]), 0);
        memset(memory, 0x5a, 100 * i);
    }
    tenon_block *before = list;
    assert_null(tenon_block_alloc(&list, 1, 24));
    assert_null(tenon_block_alloc(&list, 1, 8192));
    assert_null(tenon_block_alloc(&list, SIZE_MAX, 0));
    assert_null(tenon_block_alloc(&list, PTRDIFF_MAX, 16));
    assert_ptr_equal(list, before);
    tenon_blocks_release(list);
    tenon_blocks_release(NULL);
}

static void test_the_first_failure_stays(void **state)
{
    (void)state;
    served s;
    begin(&s);
    assert_int_equal(tenon_fail(s.call, TENON_ESHAPE, "n is %d", 3), TENON_ESHAPE);
    assert_int_equal(tenon_fail(s.call, TENON_OK, "later"), TENON_EFAILED);
    assert_string_equal(refusal(&s, TENON_ENOMEM), "n is 3");
    assert_int_equal(s.f.refused.status, TENON_ESHAPE);
    end(&s);
}

static void test_failures_without_words(void **state)
{
    (void)state;
    static const struct {
        tenon_status given, returned;
        const char *words;
    } cases[] = {
        {TENON_ESHAPE, TENON_OK, "it failed with TENON_ESHAPE and gave no reason"},
        {TENON_OK, TENON_OK, "it failed with TENON_EFAILED and gave no reason"},
        {(tenon_status)-1, TENON_ENOMEM, "it failed with TENON_ENOMEM and gave no reason"},
        {(tenon_status)-1, (tenon_status)99, "it returned 99, which is not a valid status"},
        {(tenon_status)-1, (tenon_status)-7, "it returned -7, which is not a valid status"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        served s;
        begin(&s);
        if (cases[i].given != (tenon_status)-1)
            fail_call(&s, cases[i].given, i ? "" : NULL, 0);
        assert_string_equal(refusal(&s, cases[i].returned), cases[i].words);
        end(&s);
    }
}

static void test_long_messages_are_cut(void **state)
{
    (void)state;
    static char words[4096];
    served s;
    begin(&s);
    memset(words, 'x', sizeof words);
    fail_call(&s, TENON_EINVAL, words, sizeof words);
    const char *message = refusal(&s, TENON_OK);
    assert_int_equal(strlen(message), sizeof s.f.refused.message - 1);
    assert_string_equal(message + sizeof s.f.refused.message - 5, "x...");
    end(&s);
}

/* Wherever a message is cut, it ends with a whole character: here each has one to four bytes. */
static void test_messages_are_cut_between_characters(void **state)
{
    (void)state;
    static const char *const characters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    static char words[4096];
    for (size_t width = 1; width <= 4; width++) {
        for (size_t before = 0; before < 4; before++) {
            memset(words, 'a', before);
            for (size_t at = before; at + width < sizeof words; at += width)
                memcpy(words + at, characters[width - 1], width + 1);
            served s;
            begin(&s);
            tenon_fail(s.call, TENON_EINVAL, "%s", words); /* by function.h */
            size_t length = strlen(refusal(&s, TENON_OK));
            assert_true(length <= 799 && length > 799 - width && (length - before) % width == 0);
            end(&s);
            begin(&s);
            fail_call(&s, TENON_EINVAL, words, 799); /* as a library that cuts at a byte does */
            length = strlen(refusal(&s, TENON_OK));
            assert_true(length <= 799 && length > 799 - width && (length - before) % width == 0);
            end(&s);
            begin(&s);
            fail_call(&s, TENON_EINVAL, words, strlen(words)); /* by another language */
            const char *message = refusal(&s, TENON_OK);
            length = strlen(message);
            assert_true(length < 1008 && length > 1004 - width && (length - 3 - before) % width == 0);
            assert_string_equal(message + length - 3, "...");
            end(&s);
        }
    }
    served s;
    begin(&s);
    fail_call(&s, TENON_EINVAL, "caf\xc3\xa9 \x80", strlen("caf\xc3\xa9 \x80")); /* not UTF-8: as it is */
    assert_string_equal(refusal(&s, TENON_OK), "caf\xc3\xa9 \x80");
    end(&s);
}

static const tenon_view *alloc_result(served *s, int32_t index, tenon_dtype dtype, const int64_t *shape)
{
    return s->call->host->result_alloc(s->call, index, dtype, 2, shape);
}

static void test_open_results(void **state)
{
    (void)state;
    served s;
    tenon_dtype any = tenon_dtype_of(0, 0, 0);
    const tenon_view *view = alloc_result(begin(&s), 0, any, DIMS(5, 2));
    assert_non_null(view);
    assert_ptr_equal(view, s.f.results[0].as.view);
    assert_true(tenon_dtype_equal(view->dtype, TENON_F32));
    assert_null(alloc_result(&s, 0, any, DIMS(5, 2)));
    assert_null(alloc_result(&s, 0, any, DIMS(5, 2))); /* the call has failed already */
    refuses(&s, "result 0 is not a tensor, or was already allocated");
    assert_non_null(alloc_result(begin(&s), 0, TENON_F32, DIMS(5, 2)));
    end(&s);
    for (int32_t index = -1; index < 3; index += 2) {
        char words[80];
        snprintf(words, sizeof words, "result %d is not a tensor, or was already allocated", index);
        assert_null(alloc_result(begin(&s), index, any, DIMS(5, 2)));
        refuses(&s, words);
    }
    assert_null(alloc_result(begin(&s), 0, any, DIMS(5, 3)));
    refuses(&s, "result 0: expected f32[?, 2], but the function asked for shape [5, 3]");
    assert_null(alloc_result(begin(&s), 0, any, DIMS(INT64_MAX / 2, 2)));
    refuses(&s, "the shape of result 0 is too large for any memory");
    assert_null(alloc_result(begin(&s), 0, TENON_F64, DIMS(5, 2)));
    refuses(&s, "the dtype of result 0 is not the one in the signature");
}

static tenon_status set_text(served *s, int32_t index, const char *text, size_t length)
{
    return s->call->host->result_str(s->call, index, text, length);
}

static void test_texts_and_scratch(void **state)
{
    (void)state;
    static const char wrong[] = "result %d is not a str, or its string is NULL or too long";
    char words[80];
    served s;
    tenon_device cpu = tenon_device_of(TENON_CPU, 0);
    OK(set_text(begin(&s), 1, "words", 4));
    assert_string_equal(s.f.results[1].as.list.data, "word");
    assert_int_equal(s.f.results[1].as.list.length, 4);
    assert_int_equal(s.f.results[1].flags, 0);
    OK(set_text(&s, 1, NULL, 0));
    assert_string_equal(s.f.results[1].as.list.data, "");
    assert_non_null(s.call->host->scratch(s.call, 10, 64, cpu));
    assert_false(s.call->flags & TENON_CALL_FAILED);
    assert_null(s.call->host->scratch(s.call, 10, 3, cpu));
    refuses(&s, "the alignment of scratch memory must be a power of two up to 4096, got 3");
    static const struct {
        int32_t index;
        const char *text;
        size_t length;
    } cases[] = {{0, "words", 5}, {1, NULL, 5}, {2, "a", 1}, {1, "a", SIZE_MAX - 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(set_text(begin(&s), cases[i].index, cases[i].text, cases[i].length), TENON_EFAILED);
        snprintf(words, sizeof words, wrong, (int)cases[i].index);
        refuses(&s, words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_the_first_failure_stays),
        cmocka_unit_test(test_failures_without_words),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_messages_are_cut_between_characters),
        cmocka_unit_test(test_open_results),
        cmocka_unit_test(test_texts_and_scratch),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
