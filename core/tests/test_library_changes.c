/* Libraries that several threads open, or that change while they are opened. */
#define _GNU_SOURCE
#ifdef TENON_TEST_LIBRARIES

#include "library_files.h"

#include <pthread.h>

static void *open_it(void *path)
{
    const tenon_module *module = NULL;
    return tenon_library_open(path, &module, NULL) ? NULL : (void *)module;
}

static void test_threads(void **state)
{
    (void)state;
    char path[NAME];
    pthread_t threads[8];
    void *first = NULL, *each;
    replace(built("answer_1.so"), fresh(path));
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_it, path), 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(threads[i], &each), 0);
        assert_non_null(each);
        assert_true(!first || first == each);
        first = each;
    }
}

static _Atomic bool stop;

static void *open_often(void *path)
{
    while (!stop)
        if (!open_it(path))
            return path;
    return NULL;
}

static void test_a_fork_waits(void **state)
{
    (void)state;
    char path[NAME];
    pthread_t thread;
    void *failed;
    replace(built("answer_1.so"), fresh(path));
    stop = false;
    assert_int_equal(pthread_create(&thread, NULL, open_often, path), 0);
    for (int i = 0; i < 50; i++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit(open_it(path) ? 0 : 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    stop = true;
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
}

/* ----------------------------------------------------------------------------------------- while it is being opened */

static char meanwhile[NAME];

/* Puts a library there that calls `function` while it is opened. */
static void prepare(void (*function)(void), const char *path)
{
    char number[32];
    uintptr_t address = 0;
    memcpy(&address, &function, sizeof function);
    snprintf(number, sizeof number, "%" PRIxPTR, address);
    snprintf(meanwhile, sizeof meanwhile, "%s", path);
    replace(built("constructor.so"), path);
    assert_int_equal(setenv("TENON_TEST_FUNCTION", number, 1), 0);
}

static const tenon_module *open_calling(void (*function)(void), const char *path)
{
    prepare(function, path);
    const tenon_module *module = open_ok(path);
    assert_int_equal(unsetenv("TENON_TEST_FUNCTION"), 0);
    return module;
}

static void replace_it(void)
{
    replace(built("answer_2.so"), meanwhile);
}

static void write_into_it(void)
{
    int file = open(meanwhile, O_WRONLY | O_APPEND);
    assert_int_equal(write(file, "", 1), 1);
    close(file);
    assert_int_equal(unsetenv("TENON_TEST_FUNCTION"), 0);
}

static void open_another(void)
{
    char path[NAME];
    replace(built("answer_1.so"), fresh(path));
    assert_int_equal(unsetenv("TENON_TEST_FUNCTION"), 0);
    assert_int_equal(answer(open_ok(path)), 1);
}

static void test_the_file_changes_meanwhile(void **state)
{
    (void)state;
    char path[NAME];
    assert_int_equal(answer(open_calling(replace_it, fresh(path))), 2);
    /* The one that was opened may be damaged. */
    const tenon_module *module = NULL;
    prepare(write_into_it, fresh(path));
    FAILS(TENON_EFAILED, tenon_library_open(path, &module, &err));
    assert_non_null(strstr(err.message, "it was overwritten while it was open"));
    assert_int_equal(errno, EBUSY);
    assert_null(module);
}

static char kept[NAME + 8];

static void replace_it_and_keep_the_old_one(void)
{
    assert_int_equal(rename(meanwhile, kept), 0);
    replace_it();
}

/* A file that was replaced while it was opened was not overwritten. */
static void test_the_old_file_is_whole(void **state)
{
    (void)state;
    char path[NAME];
    fresh(path);
    snprintf(kept, sizeof kept, "%s.old", path);
    assert_int_equal(answer(open_calling(replace_it_and_keep_the_old_one, path)), 2);
    assert_int_equal(answer(open_ok(kept)), 3);
}

static void test_a_constructor_opens_another(void **state)
{
    (void)state;
    char path[NAME];
    assert_int_equal(answer(open_calling(open_another, fresh(path))), 3);
}

/* Always another file: no attempt can succeed. */
static void replace_it_again(void)
{
    replace(built("constructor.so"), meanwhile);
    int file = open(meanwhile, O_WRONLY | O_APPEND);
    static const char more[100];
    static size_t times;
    assert_true(write(file, more, ++times) > 0);
    close(file);
}

static void test_the_file_never_comes_to_rest(void **state)
{
    (void)state;
    char path[NAME];
    const tenon_module *module = NULL;
    prepare(replace_it_again, fresh(path));
    FAILS_SAYING(TENON_EFAILED, "tenon_library_open(): the file is being written; load it when it is complete",
                 tenon_library_open(path, &module, &err));
    assert_int_equal(errno, EBUSY);
    assert_null(module);
    assert_int_equal(unsetenv("TENON_TEST_FUNCTION"), 0);
    assert_int_equal(answer(open_ok(path)), 3);
}

/* A file that is replaced while others open it. */
static void test_replaced_meanwhile(void **state)
{
    (void)state;
    char path[NAME], other[NAME + 8];
    pthread_t thread;
    void *failed;
    replace(built("answer_1.so"), fresh(path));
    snprintf(other, sizeof other, "%s.new", path);
    stop = false;
    assert_int_equal(pthread_create(&thread, NULL, open_often, path), 0);
    for (int i = 0; i < 100; i++) {
        replace(built(i % 2 ? "answer_1.so" : "answer_2.so"), other);
        assert_int_equal(rename(other, path), 0);
        assert_int_equal(answer(open_ok(path)), i % 2 ? 1 : 2);
    }
    stop = true;
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_a_fork_waits),
        cmocka_unit_test(test_the_file_changes_meanwhile),
        cmocka_unit_test(test_the_old_file_is_whole),
        cmocka_unit_test(test_a_constructor_opens_another),
        cmocka_unit_test(test_the_file_never_comes_to_rest),
        cmocka_unit_test(test_replaced_meanwhile),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#else

int main(void)
{
    return 0;
}

#endif
