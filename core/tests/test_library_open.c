/* Opening libraries: in place, again after a new build, and what is not a library. */
#define _GNU_SOURCE /* dladdr */
#ifdef TENON_TEST_LIBRARIES

#include "library_files.h"

#define SAYS(status, number, what, path)                                                                               \
    do {                                                                                                               \
        const tenon_module *untouched = (const void *)path;                                                            \
        errno = 0;                                                                                                     \
        FAILS_SAYING(status, "tenon_library_open(): " what, tenon_library_open(path, &untouched, &err));               \
        assert_int_equal((number) ? errno : 0, number);                                                                \
        assert_ptr_equal(untouched, path);                                                                             \
        assert_int_equal(tenon_library_open(path, &untouched, NULL), status);                                          \
    } while (0)

static void test_in_place(void **state)
{
    (void)state;
    char path[NAME];
    replace(built("answer_1.so"), fresh(path));
    const tenon_module *module = open_ok(path);
    Dl_info info;
    assert_int_equal(answer(module), 1);
    assert_true(is_mapped_from(module, path));
    assert_int_not_equal(dladdr(module, &info), 0);
    assert_string_equal(info.dli_fname, path);
    assert_int_equal(entries(temporary), 0);
}

static void test_the_same_file(void **state)
{
    (void)state;
    char path[NAME], other[NAME + 8], folder[NAME], here[NAME];
    replace(built("answer_1.so"), fresh(path));
    const tenon_module *module = open_ok(path);
    assert_ptr_equal(open_ok(path), module);
    snprintf(other, sizeof other, "%s.link", path);
    assert_int_equal(symlink(path, other), 0);
    assert_ptr_equal(open_ok(other), module);
    snprintf(other, sizeof other, "%s.hard", path);
    assert_int_equal(link(path, other), 0);
    assert_ptr_equal(open_ok(other), module);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_ptr_equal(open_ok("kernels.so"), module);
    assert_ptr_equal(open_ok("./kernels.so"), module);
    assert_int_equal(chdir(here), 0);
}

static void test_other_files_are_other_libraries(void **state)
{
    (void)state;
    char one[NAME], two[NAME];
    replace(built("answer_1.so"), fresh(one));
    replace(built("answer_1.so"), fresh(two));
    const tenon_module *first = open_ok(one), *second = open_ok(two);
    assert_ptr_not_equal(first, second);
    assert_int_equal(next(first), 1);
    assert_int_equal(next(second), 1);
}

static void test_a_relative_name_in_two_folders(void **state)
{
    (void)state;
    char path[NAME], folder[NAME], here[NAME];
    assert_non_null(getcwd(here, sizeof here));
    for (int i = 1; i <= 2; i++) {
        replace(built(i == 1 ? "answer_1.so" : "answer_2.so"), fresh(path));
        snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
        assert_int_equal(chdir(folder), 0);
        assert_int_equal(answer(open_ok("kernels.so")), i);
        assert_int_equal(chdir(here), 0);
    }
}

static void test_replaced(void **state)
{
    (void)state;
    char path[NAME], folder[NAME];
    replace(built("answer_1.so"), fresh(path));
    const tenon_module *old = open_ok(path);
    replace(built("answer_2.so"), path);
    const tenon_module *new = open_ok(path);
    assert_int_equal(answer(old), 1);
    assert_int_equal(answer(new), 2);
    assert_true(is_mapped_from(new, path));
    assert_ptr_equal(open_ok(path), new);
    /* The content of an earlier build is that build. */
    replace(built("answer_1.so"), path);
    assert_ptr_equal(open_ok(path), old);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(entries(folder), 1);
    assert_int_equal(entries(temporary), 0);
}

/* As ctypes.CDLL does it: the name belongs to a handle that is not ours. */
static void test_replaced_after_others_opened_it(void **state)
{
    (void)state;
    char path[NAME];
    replace(built("answer_1.so"), fresh(path));
    assert_non_null(dlopen(path, RTLD_NOW | RTLD_LOCAL));
    replace(built("answer_2.so"), path);
    assert_int_equal(answer(open_ok(path)), 2);
}

#define OVERWRITTEN                                                                                                    \
    "it was overwritten while it was open, which damages the functions that are loaded; restart the program, and "     \
    "replace the file with a new one instead of overwriting it"

static void test_written_again(void **state)
{
    (void)state;
    char path[NAME], folder[NAME];
    replace(built("answer_1.so"), fresh(path));
    const tenon_module *old = open_ok(path);
    overwrite(built("answer_2.so"), path);
    SAYS(TENON_EFAILED, EBUSY, OVERWRITTEN, path);
    /* Its memory may be damaged even if the content is the same again. */
    overwrite(built("answer_1.so"), path);
    SAYS(TENON_EFAILED, EBUSY, OVERWRITTEN, path);
    replace(built("answer_1.so"), path);
    const tenon_module *new = open_ok(path);
    assert_ptr_not_equal(new, old);
    assert_int_equal(answer(new), 1);
    assert_true(is_mapped_from(new, path));
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(entries(folder), 1);
}

/* As `cp` does it. The code of the old functions is gone while the file is empty, and a normal end of the process needs
 * some of it. */
static void test_truncated_and_written_again(void **state)
{
    (void)state;
    char path[NAME];
    int status;
    replace(built("answer_1.so"), fresh(path));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const tenon_module *module;
        bool right = tenon_library_open(path, &module, NULL) == TENON_OK && answer(module) == 1;
        copy_into(built("answer_2.so"), path, O_TRUNC);
        right = right && tenon_library_open(path, &module, NULL) == TENON_EFAILED && errno == EBUSY;
        replace(built("answer_2.so"), path);
        right = right && tenon_library_open(path, &module, NULL) == TENON_OK && answer(module) == 2;
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void set_time(const char *path)
{
    struct timespec long_ago[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
}

static const tenon_module *open_large(const char *path)
{
    replace(built("answer_1.so"), path);
    assert_int_equal(truncate(path, (off_t)300 << 20), 0);
    set_time(path);
    return open_ok(path);
}

/* The content of a large file is not compared. */
static void test_a_large_one_is_written_again(void **state)
{
    (void)state;
    char path[NAME], other[NAME + 8];
    const tenon_module *module = open_large(fresh(path));
    /* These change the file's time of change, but not its content. */
    snprintf(other, sizeof other, "%s.link", path);
    assert_int_equal(link(path, other), 0);
    assert_ptr_equal(open_ok(path), module);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(rename(path, other), 0);
    assert_ptr_equal(open_ok(other), module);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(chmod(path, 0700), 0);
    assert_ptr_equal(open_ok(path), module);
    /* As `cp -p` does it: neither the size nor the time of the last write shows it. */
    open_large(fresh(path));
    usleep(20000); /* the resolution of the file system's clock */
    overwrite(built("answer_2.so"), path);
    set_time(path);
    SAYS(TENON_EFAILED, EBUSY, OVERWRITTEN, path);
}

/* A dependency beside the library is found. This needs a process of its own: the loader opens one once for each name. */
static void test_origin(void **state)
{
    (void)state;
    char path[NAME], helper[NAME + 16];
    int status, folder;
    fresh(path);
    folder = (int)(strrchr(path, '/') - path);
    snprintf(helper, sizeof helper, "%.*s/lib1", folder, path);
    assert_int_equal(mkdir(helper, 0755), 0);
    snprintf(helper, sizeof helper, "%.*s/lib1/helper.so", folder, path);
    replace(built("lib1/helper.so"), helper);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const tenon_module *module;
        replace(built("dependent.so"), path);
        bool right = tenon_library_open(path, &module, NULL) == TENON_OK && answer(module) == 1;
        replace(built("answer_2.so"), path);
        right = right && tenon_library_open(path, &module, NULL) == TENON_OK && answer(module) == 2;
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Bytes that this process has read so far. */
static long bytes_read(void)
{
    FILE *file = fopen("/proc/self/io", "r");
    long count = -1;
    if (file && fscanf(file, "rchar: %ld", &count) != 1)
        count = -1;
    if (file)
        fclose(file);
    return count;
}

static void test_a_large_one_is_not_read(void **state)
{
    (void)state;
    char path[NAME];
    replace(built("answer_1.so"), fresh(path));
    assert_int_equal(truncate(path, (off_t)300 << 20), 0);
    long before = bytes_read();
    if (before < 0)
        skip();
    const tenon_module *module = open_ok(path);
    assert_true(bytes_read() - before < 100000);
    assert_int_equal(answer(module), 1);
    assert_ptr_equal(open_ok(path), module);
    assert_true(bytes_read() - before < 100000);
}

/* ------------------------------------------------------------------------------------------------------------- errors */

static void test_files_that_cannot_be_read(void **state)
{
    (void)state;
    char path[NAME], longer[5000];
    const tenon_module *module;
    SAYS(TENON_EFAILED, ENOENT, "No such file or directory", "/no/such/file.so");
    SAYS(TENON_EFAILED, ENOENT, "No such file or directory", "");
    SAYS(TENON_EFAILED, ENOENT, "No such file or directory", "answer_1.so");
    SAYS(TENON_EFAILED, EISDIR, "Is a directory", root);
    SAYS(TENON_EFAILED, EINVAL, "it is not a regular file", "/dev/null");
    assert_int_equal(mkfifo(fresh(path), 0644), 0);
    SAYS(TENON_EFAILED, EINVAL, "it is not a regular file", path);
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    SAYS(TENON_EFAILED, ENAMETOOLONG, "File name too long", longer);
    FAILS_SAYING(TENON_EINVAL, "tenon_library_open(): argument 'path' is NULL",
                 tenon_library_open(NULL, &module, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_library_open(): argument 'out' is NULL", tenon_library_open("x", NULL, &err));
    if (geteuid() != 0) {
        replace(built("answer_1.so"), fresh(path));
        assert_int_equal(chmod(path, 0), 0);
        SAYS(TENON_EFAILED, EACCES, "Permission denied", path);
    }
}

static void test_files_that_are_not_libraries(void **state)
{
    (void)state;
    char path[NAME];
    replace("/dev/null", fresh(path));
    SAYS(TENON_EINVAL, 0, "it is not a shared library that can be loaded here: the file is empty", path);
    replace("/etc/passwd", path);
    SAYS(TENON_EINVAL, 0, "it is not a shared library that can be loaded here: it is not an ELF file", path);
    for (off_t size = 4; size < 5000; size += size < 1000 ? 60 : 1000) {
        replace(built("answer_1.so"), path);
        assert_int_equal(truncate(path, size), 0);
        SAYS(TENON_EINVAL, 0,
             "it is not a shared library that can be loaded here: the file is truncated; build it again", path);
    }
    replace(built("no_module.so"), path);
    SAYS(TENON_EINVAL, 0,
         "it has no tenon_module_v1(): it is not a library of Tenon functions; define them with TENON_MODULE", path);
    replace(built("answer_1.so"), path);
    assert_int_equal(answer(open_ok(path)), 1);
}

/* It is closed, so that its file can be overwritten, unless other code has opened it too. */
static void test_refused_libraries_are_closed(void **state)
{
    (void)state;
    char path[NAME];
    replace(built("no_module.so"), fresh(path));
    FAILS(TENON_EINVAL, tenon_library_open(path, &(const tenon_module *){NULL}, &err));
    assert_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
    overwrite(built("answer_1.so"), path);
    const tenon_module *module = open_ok(path);
    assert_int_equal(answer(module), 1);
    assert_true(is_mapped_from(module, path)); /* in place: it is not taken for an open file that was overwritten */

    replace(built("no_module.so"), fresh(path));
    void *mine = dlopen(path, RTLD_NOW);
    for (int i = 0; i < 2; i++)
        FAILS(TENON_EINVAL, tenon_library_open(path, &(const tenon_module *){NULL}, &err));
    assert_ptr_equal(dlopen(path, RTLD_NOW | RTLD_NOLOAD), mine);
}

/* An open library that is cut off is an error; it was written into, so that nothing may run in it again. */
static void test_cut_off_while_it_is_open(void **state)
{
    (void)state;
    char path[NAME];
    int status;
    replace(built("answer_1.so"), fresh(path));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const tenon_module *module;
        bool right = tenon_library_open(path, &module, NULL) == TENON_OK && truncate(path, 1000) == 0 &&
                     tenon_library_open(path, &module, NULL) == TENON_EFAILED;
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int allowed;

static void *fail_later(void *context, size_t size, bool zeroed)
{
    (void)context;
    if (allowed-- <= 0)
        return NULL;
    return zeroed ? calloc(1, size) : malloc(size);
}

static void free_plainly(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    free(memory);
}

static void test_no_memory(void **state)
{
    (void)state;
    char path[NAME];
    const tenon_module *module = NULL;
    tenon_allocator failing = {fail_later, free_plainly, NULL};
    replace(built("answer_1.so"), fresh(path));
    OK(tenon_set_allocator(&failing, &err));
    int needed = 0;
    for (; needed < 20; needed++) {
        allowed = needed;
        tenon_status status = tenon_library_open(path, &module, &err);
        if (!status)
            break;
        assert_int_equal(status, TENON_ENOMEM);
        assert_null(module);
    }
    OK(tenon_set_allocator(NULL, &err));
    assert_in_range(needed, 1, 10);
    assert_ptr_equal(open_ok(path), module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_the_same_file),
        cmocka_unit_test(test_other_files_are_other_libraries),
        cmocka_unit_test(test_a_relative_name_in_two_folders),
        cmocka_unit_test(test_replaced),
        cmocka_unit_test(test_replaced_after_others_opened_it),
        cmocka_unit_test(test_written_again),
        cmocka_unit_test(test_truncated_and_written_again),
        cmocka_unit_test(test_a_large_one_is_written_again),
        cmocka_unit_test(test_origin),
        cmocka_unit_test(test_a_large_one_is_not_read),
        cmocka_unit_test(test_files_that_cannot_be_read),
        cmocka_unit_test(test_files_that_are_not_libraries),
        cmocka_unit_test(test_refused_libraries_are_closed),
        cmocka_unit_test(test_cut_off_while_it_is_open),
        cmocka_unit_test(test_no_memory),
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
