/* What every host does alike: memory for a call, failures in words, results that the function makes. */
#include "signature_call.h"

/* A call as a host makes it, which keeps its failure here. */
typedef struct served {
    tenon_call call;
    tenon_error error;
    tenon_value results[2];
    tenon_block *blocks;
} served;

static tenon_status keep(tenon_call *running, tenon_status status, const char *message, size_t length)
{
    served *s = running->host_private;
    return tenon_call_fail(running, &s->error, status, message, length);
}

static const tenon_host host = {.size = sizeof(tenon_host), .minor = TENON_ABI_MINOR, .name = "test", .fail = keep};

static served *begin(served *s)
{
    memset(s, 0, sizeof *s);
    s->call.size = sizeof s->call;
    s->call.host = &host;
    s->call.host_private = s;
    s->call.results = s->results;
    s->call.nresults = 2;
    s->results[0] = (tenon_value){.kind = TENON_KIND_TENSOR, .flags = TENON_VALUE_UNSET};
    s->results[1] = (tenon_value){.kind = TENON_KIND_STR, .flags = TENON_VALUE_UNSET};
    return s;
}

static void end(served *s)
{
    tenon_blocks_release(s->blocks);
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
    assert_int_equal(tenon_fail(&s.call, TENON_ESHAPE, "n is %d", 3), TENON_ESHAPE);
    assert_int_equal(tenon_fail(&s.call, TENON_OK, "later"), TENON_EFAILED);
    tenon_call_failure(&s.call, TENON_ENOMEM, &s.error);
    assert_int_equal(s.error.status, TENON_ESHAPE);
    assert_string_equal(s.error.message, "n is 3");
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
            keep(&s.call, cases[i].given, i ? "" : NULL, 0);
        tenon_call_failure(&s.call, cases[i].returned, &s.error);
        assert_string_equal(s.error.message, cases[i].words);
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
    keep(&s.call, TENON_EINVAL, words, sizeof words);
    assert_int_equal(strlen(s.error.message), sizeof s.error.message - 1);
    assert_string_equal(s.error.message + sizeof s.error.message - 5, "x...");
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
            tenon_fail(&s.call, TENON_EINVAL, "%s", words); /* by function.h */
            size_t length = strlen(s.error.message);
            assert_true(length <= 799 && length > 799 - width && (length - before) % width == 0);
            end(&s);
            begin(&s);
            keep(&s.call, TENON_EINVAL, words, 799); /* as the function.h of the first release cut it */
            length = strlen(s.error.message);
            assert_true(length <= 799 && length > 799 - width && (length - before) % width == 0);
            end(&s);
            begin(&s);
            keep(&s.call, TENON_EINVAL, words, strlen(words)); /* by another language */
            length = strlen(s.error.message);
            assert_true(length < 1008 && length > 1004 - width && (length - 3 - before) % width == 0);
            assert_string_equal(s.error.message + length - 3, "...");
            end(&s);
        }
    }
    served s;
    begin(&s);
    keep(&s.call, TENON_EINVAL, "caf\xc3\xa9 \x80", strlen("caf\xc3\xa9 \x80")); /* not UTF-8: as it is */
    assert_string_equal(s.error.message, "caf\xc3\xa9 \x80");
    end(&s);
}

static void refuses(const served *s, const char *words)
{
    assert_true(s->call.flags & TENON_CALL_FAILED);
    assert_string_equal(s->error.message, words);
}

static void test_open_results(void **state)
{
    (void)state;
    call c;
    served s;
    tenon_dtype dtype = {0};
    fits(&c, "f() -> f32[?, 2], str", NULL);
    assert_true(tenon_call_open_result(&begin(&s)->call, c.signature, &c.bindings, 0, 2, DIMS(5, 2), &dtype));
    assert_true(tenon_dtype_equal(dtype, TENON_F32));
    assert_true(tenon_call_open_result(&s.call, c.signature, &c.bindings, 0, 2, DIMS(5, 2), &dtype));
    s.results[0].flags = 0; /* as a host does once it is made */
    assert_false(tenon_call_open_result(&s.call, c.signature, &c.bindings, 0, 2, DIMS(5, 2), &dtype));
    refuses(&s, "result 0 is not a tensor, or was already allocated");
    assert_false(tenon_call_open_result(&s.call, c.signature, &c.bindings, 0, 2, DIMS(5, 2), &dtype));
    for (int32_t index = -1; index < 3; index += 2) {
        char words[80];
        snprintf(words, sizeof words, "result %d is not a tensor, or was already allocated", index);
        assert_false(tenon_call_open_result(&begin(&s)->call, c.signature, &c.bindings, index, 2, DIMS(5, 2), &dtype));
        refuses(&s, words);
    }
    assert_false(tenon_call_open_result(&begin(&s)->call, c.signature, &c.bindings, 0, 2, DIMS(5, 3), &dtype));
    refuses(&s, "result 0: expected f32[?, 2], but the function asked for shape [5, 3]");
    assert_false(
        tenon_call_open_result(&begin(&s)->call, c.signature, &c.bindings, 0, 2, DIMS(INT64_MAX / 2, 2), &dtype));
    refuses(&s, "the shape of result 0 is too large for any memory");
    dtype = TENON_F64;
    assert_false(tenon_call_open_result(&begin(&s)->call, c.signature, &c.bindings, 0, 2, DIMS(5, 2), &dtype));
    refuses(&s, "the dtype of result 0 is not the one in the signature");
    done(&c);
}

static void test_texts_and_scratch(void **state)
{
    (void)state;
    served s;
    OK(tenon_call_result_str(&begin(&s)->call, &s.blocks, 1, "words", 4));
    assert_string_equal(s.results[1].as.list.data, "word");
    assert_int_equal(s.results[1].as.list.length, 4);
    assert_int_equal(s.results[1].flags, 0);
    OK(tenon_call_result_str(&s.call, &s.blocks, 1, NULL, 0));
    assert_string_equal(s.results[1].as.list.data, "");
    assert_non_null(tenon_call_scratch(&s.call, &s.blocks, 10, 64));
    assert_false(s.call.flags & TENON_CALL_FAILED);
    assert_null(tenon_call_scratch(&s.call, &s.blocks, 10, 3));
    refuses(&s, "the alignment of scratch memory must be a power of two up to 4096, got 3");
    end(&s);
    assert_int_equal(tenon_call_result_str(&begin(&s)->call, &s.blocks, 0, "words", 5), TENON_EFAILED);
    refuses(&s, "result 0 is not a str, or its string is NULL or too long");
    assert_int_equal(tenon_call_result_str(&begin(&s)->call, &s.blocks, 1, NULL, 5), TENON_EFAILED);
    assert_int_equal(tenon_call_result_str(&begin(&s)->call, &s.blocks, 2, "a", 1), TENON_EFAILED);
    assert_int_equal(tenon_call_result_str(&begin(&s)->call, &s.blocks, 1, "a", SIZE_MAX - 1), TENON_EFAILED);
    end(&s);
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
