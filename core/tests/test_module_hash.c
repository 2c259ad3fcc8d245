/* The hash that identifies the code of a module. */
#define _GNU_SOURCE
#ifdef TENON_TEST_LIBRARIES

#include "library_files.h"

static void hash(const tenon_module *module, char text[TENON_HASH_SIZE])
{
    int64_t blocks = check_blocks;
    OK(tenon_module_hash(module, text, &err));
    assert_int_equal(check_blocks, blocks);
    assert_int_equal(strspn(text, "0123456789abcdef"), 32);
    assert_int_equal(strlen(text), 32);
}

static void test_it_is_that_of_the_content(void **state)
{
    (void)state;
    char path[NAME], one[TENON_HASH_SIZE], two[TENON_HASH_SIZE], again[TENON_HASH_SIZE];
    replace(built("answer_1.so"), fresh(path));
    hash(open_ok(path), one);
    replace(built("answer_1.so"), fresh(path));
    hash(open_ok(path), again);
    assert_string_equal(one, again);
    replace(built("answer_2.so"), fresh(path));
    hash(open_ok(path), two);
    assert_string_not_equal(one, two);
}

static void test_null_arguments(void **state)
{
    (void)state;
    char text[TENON_HASH_SIZE], path[NAME];
    replace(built("answer_1.so"), fresh(path));
    FAILS_SAYING(TENON_EINVAL, "tenon_module_hash(): argument 'module' is NULL", tenon_module_hash(NULL, text, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_module_hash(): argument 'text' is NULL",
                 tenon_module_hash(open_ok(path), NULL, &err));
}

static void test_it_stays_when_the_file_changes(void **state)
{
    (void)state;
    char path[NAME], before[TENON_HASH_SIZE], after[TENON_HASH_SIZE], other[TENON_HASH_SIZE];
    replace(built("answer_1.so"), fresh(path));
    const tenon_module *module = open_ok(path);
    hash(module, before);
    replace(built("answer_2.so"), path);
    hash(open_ok(path), other);
    hash(module, after);
    assert_string_equal(before, after);
    assert_string_not_equal(before, other);
    overwrite(built("answer_1.so"), path);
    hash(module, after);
    assert_string_equal(before, after);
}

/* A file that is too large to be hashed when it is opened. */
static void test_a_large_file_is_hashed_later(void **state)
{
    (void)state;
    char path[NAME], text[TENON_HASH_SIZE], again[TENON_HASH_SIZE];
    struct timespec long_ago[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    for (int changes = 0; changes < 2; changes++) {
        replace(built("answer_1.so"), fresh(path));
        assert_int_equal(truncate(path, (off_t)1 << 27), 0);
        assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
        const tenon_module *module = open_ok(path);
        if (changes) {
            unlink(path);
            assert_int_equal(tenon_module_hash(module, text, &err), TENON_EFAILED);
            assert_string_equal(err.message, "its file was changed after it was loaded; load it again");
        } else {
            hash(module, text);
            unlink(path);
            hash(module, again);
            assert_string_equal(text, again);
        }
    }
}

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

/* A module that was not opened: the file that it is in, here this program. */
static void test_a_module_in_another_file(void **state)
{
    (void)state;
    const tenon_function functions[] = {{.signature = "f() -> int", .call = nothing}};
    const tenon_function others[] = {{.signature = "f() -> bool", .call = nothing}};
    static tenon_module here;
    char text[TENON_HASH_SIZE], on_stack[TENON_HASH_SIZE], other[TENON_HASH_SIZE];
    here.function_size = sizeof(tenon_function);
    here.nfunctions = 1;
    here.functions = functions;
    tenon_module copy = here; /* is in no file: its signatures are hashed */
    hash(&here, text);
    hash(&copy, on_stack);
    assert_string_not_equal(text, on_stack);
    here.functions = others;
    hash(&here, other);
    assert_string_equal(text, other);
    copy.functions = others;
    hash(&copy, other);
    assert_string_not_equal(on_stack, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_that_of_the_content),      cmocka_unit_test(test_null_arguments),
        cmocka_unit_test(test_it_stays_when_the_file_changes), cmocka_unit_test(test_a_large_file_is_hashed_later),
        cmocka_unit_test(test_a_module_in_another_file),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#else

int main(void)
{
    return 0;
}

#endif
