/* Tensors in memory that several processes share. */
#define _GNU_SOURCE
#include "shared_tensors.h"

#ifdef __linux__

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The number of open descriptors, or of mappings of our memory. */
static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static int count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;
    while (fgets(line, sizeof line, file))
        count += strstr(line, "memfd:tenon") != NULL;
    fclose(file);
    return count;
}

/* Run `body` in a child process. Returns its status. */
static int in_child(int (*body)(const void *), const void *argument)
{
    pid_t child = fork();
    if (child == 0)
        _exit(body(argument));
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- the header */

static void test_the_layout_of_the_file(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(2, DIMS(3, 5));
    unsigned char header[HEADER], expected[HEADER] = "TENONSHM\1\0\0\0\0\x10";
    assert_int_equal(pread(descriptor(tensor), header, HEADER, 0), HEADER);
    memcpy(expected + 16, header + 16, 16);
    const unsigned char dtype[] = {2, 32, 1, 0};
    memcpy(expected + 32, dtype, 4);
    expected[36] = 2;
    expected[48 + 1] = 0x10;
    expected[56] = 60;
    expected[64] = 3;
    expected[72] = 5;
    expected[576] = 5;
    expected[584] = 1;
    assert_memory_equal(header, expected, HEADER);
    struct stat info;
    assert_int_equal(fstat(descriptor(tensor), &info), 0);
    assert_int_equal(info.st_size, HEADER + 60);
    assert_int_equal(fcntl(descriptor(tensor), F_GET_SEALS) & 31, SEALS);
    assert_int_equal(fcntl(descriptor(tensor), F_GETFD), FD_CLOEXEC);
    assert_dims(tenon_tensor_view(tensor), 2, DIMS(3, 5), DIMS(5, 1));
    assert_int_equal((uintptr_t)data_of(tensor) % 4096, 0);
    tenon_tensor_release(tensor);
}

static void test_two_tensors_have_different_ids(void **state)
{
    (void)state;
    tenon_tensor *one = shared(1, DIMS(1)), *two = shared(1, DIMS(1));
    char first[TENON_SHARED_NAME_SIZE], second[TENON_SHARED_NAME_SIZE];
    OK(tenon_shared_name(one, first, &err));
    OK(tenon_shared_name(two, second, &err));
    assert_string_not_equal(strrchr(first, ':'), strrchr(second, ':'));
    tenon_tensor_release(one);
    tenon_tensor_release(two);
}

static void test_shapes(void **state)
{
    (void)state;
    int64_t many[TENON_MAX_NDIM];
    for (int i = 0; i < TENON_MAX_NDIM; i++)
        many[i] = i == 7 ? 3 : 1;
    const struct {
        int32_t ndim;
        const int64_t *shape;
        int64_t numel;
    } cases[] = {
        {0, NULL, 1}, {1, DIMS(0), 0}, {3, DIMS(4, 0, 2), 0}, {1, DIMS(5000), 5000}, {TENON_MAX_NDIM, many, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tenon_tensor *tensor = shared(cases[i].ndim, cases[i].shape), *other = attached(descriptor(tensor));
        const tenon_view *view = tenon_tensor_view(other);
        assert_int_equal(view->numel, cases[i].numel);
        assert_dims(view, cases[i].ndim, tenon_tensor_view(tensor)->shape, tenon_tensor_view(tensor)->strides);
        for (int64_t j = 0; j < view->numel; j++)
            assert_true(data_of(other)[j] == 0.0f);
        tenon_tensor_release(tensor);
        tenon_tensor_release(other);
    }
}

/* ------------------------------------------------------------------------------------------------------- attaching */

static void test_attach_shares_the_memory(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(1000)), *other = attached(descriptor(tensor));
    assert_ptr_not_equal(data_of(tensor), data_of(other));
    data_of(tensor)[7] = 7.5f;
    assert_true(data_of(other)[7] == 7.5f);
    data_of(other)[8] = 8.5f;
    assert_true(data_of(tensor)[8] == 8.5f);
    tenon_tensor_release(tensor); /* the other keeps the memory */
    assert_true(data_of(other)[7] == 7.5f);
    tenon_tensor_release(other);
    assert_int_equal(count_mappings(), 0);
}

static int open_and_write(const void *name)
{
    tenon_tensor *tensor;
    if (tenon_shared_attach_name(name, &tensor, NULL))
        return 1;
    data_of(tensor)[3] += 1.0f;
    tenon_tensor_release(tensor);
    return 0;
}

static void test_open_by_name_in_another_process(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(4));
    char name[TENON_SHARED_NAME_SIZE], expected[64];
    OK(tenon_shared_name(tensor, name, &err));
    snprintf(expected, sizeof expected, "tenon-shared:1:%d:%d:", (int)getpid(), descriptor(tensor));
    assert_memory_equal(name, expected, strlen(expected));
    assert_int_equal(strlen(name), strlen(expected) + 32);
    data_of(tensor)[3] = 41.0f;
    assert_int_equal(in_child(open_and_write, name), 0);
    assert_true(data_of(tensor)[3] == 42.0f);
    tenon_tensor_release(tensor);
}

static void test_a_name_whose_owner_is_gone(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(4)), *other = NULL;
    char name[TENON_SHARED_NAME_SIZE], reused[TENON_SHARED_NAME_SIZE];
    OK(tenon_shared_name(tensor, name, &err));
    int fd = descriptor(tensor);
    tenon_tensor_release(tensor);
    FAILS(TENON_ESYSTEM, tenon_shared_attach_name(name, &other, &err));
    assert_int_equal(err.os_error, ENOENT);
    /* the same descriptor, but of another tensor, a pipe, a file */
    tensor = shared(1, DIMS(4));
    assert_int_equal(descriptor(tensor), fd);
    FAILS(TENON_ESYSTEM, tenon_shared_attach_name(name, &other, &err));
    assert_int_equal(err.os_error, ENOENT);
    OK(tenon_shared_name(tensor, reused, &err));
    tenon_tensor_release(tensor);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(ends[0], fd);
    FAILS(TENON_ESYSTEM, tenon_shared_attach_name(reused, &other, &err));
    assert_int_equal(err.os_error, ENOENT);
    close(ends[0]);
    close(ends[1]);
    /* a process that has ended */
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    snprintf(name, sizeof name, "tenon-shared:1:%d:%d%s", (int)child, fd, strrchr(reused, ':'));
    FAILS(TENON_ESYSTEM, tenon_shared_attach_name(name, &other, &err));
    assert_int_equal(err.os_error, ENOENT);
    assert_null(other);
}

static void test_names_that_are_not_names(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "tenon-shared",
        "tenon-shared:1:",
        "tenon-shared:0:1:3:00112233445566778899aabbccddeeff",
        "tenon-shared:1:0:3:00112233445566778899aabbccddeeff",
        "tenon-shared:1:-1:3:00112233445566778899aabbccddeeff",
        "tenon-shared:1:1:-3:00112233445566778899aabbccddeeff",
        "tenon-shared:1:01:3:00112233445566778899aabbccddeeff",
        "tenon-shared:1:99999999999:3:00112233445566778899aabbccddeeff",
        "tenon-shared:1:1:99999999999999999999999:00112233445566778899aabbccddeeff",
        "tenon-shared:1:1:3:00112233445566778899aabbccddeef",
        "tenon-shared:1:1:3:00112233445566778899aabbccddeeff0",
        "tenon-shared:1:1:3:00112233445566778899AABBCCDDEEFF",
        "tenon-shared:1:1:3:00112233445566778899aabbccddeeff ",
        "tenon-shared:1: 1:3:00112233445566778899aabbccddeeff",
        "tenon-shared:1:1/../2:3:00112233445566778899aabbccddeeff",
    };
    tenon_tensor *out = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        FAILS(TENON_EINVAL, tenon_shared_attach_name(names[i], &out, &err));
    FAILS(TENON_EVERSION, tenon_shared_attach_name("tenon-shared:2:anything", &out, &err));
    assert_null(out);
}

/* ---------------------------------------------------------------------------------------------------------- freezing */

static void test_freezing(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(1000)), *before = attached(descriptor(tensor));
    data_of(tensor)[1] = 1.0f;
    OK(tenon_shared_freeze(tensor, &err));
    assert_true(read_only(tensor));
    OK(tenon_shared_freeze(tensor, &err)); /* again */
    assert_int_equal(fcntl(descriptor(tensor), F_GET_SEALS) & (FUTURE_WRITE | 1), FUTURE_WRITE | 1);
    unsigned char flags;
    assert_int_equal(pread(descriptor(tensor), &flags, 1, 40), 1);
    assert_int_equal(flags, 1);
    tenon_tensor *after = attached(descriptor(tensor));
    assert_true(read_only(after));
    assert_false(read_only(before)); /* documented */
    data_of(before)[2] = 2.0f;
    assert_true(data_of(after)[2] == 2.0f);
    /* no way to write to it through a new mapping or the file */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor(tensor));
    int file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), MAP_FAILED);
    assert_int_equal(pwrite(file, "x", 1, HEADER), -1);
    assert_int_equal(ftruncate(file, 100), -1);
    close(file);
    tenon_tensor_release(before);
    tenon_tensor_release(after);
    tenon_tensor_release(tensor);
}

static int write_first(const void *tensor)
{
    signal(SIGSEGV, SIG_DFL); /* without the handler of cmocka */
    data_of(tensor)[0] = 1.0f;
    return 0;
}

static void test_a_write_after_freezing_is_a_fault(void **state)
{
    (void)state;
    if (getenv("TENON_VALGRIND"))
        return;
    tenon_tensor *tensor = shared(1, DIMS(4));
    assert_int_equal(in_child(write_first, tensor), 0);
    OK(tenon_shared_freeze(tensor, &err));
    assert_true(in_child(write_first, tensor) != 0); /* SIGSEGV; a sanitizer makes an exit status of it */
    tenon_tensor_release(tensor);
}

static void test_freezing_is_refused_while_there_are_others(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(4)), *view;
    OK(tenon_tensor_slice(tensor, 0, 0, 2, 1, &view, &err));
    FAILS(TENON_EFAILED, tenon_shared_freeze(tensor, &err));
    FAILS(TENON_EINVAL, tenon_shared_freeze(view, &err));
    assert_non_null(strstr(err.message, "is a view"));
    assert_false(read_only(tensor));
    data_of(tensor)[0] = 1.0f;
    tenon_tensor_release(view);
    OK(tenon_shared_freeze(tensor, &err));
    OK(tenon_tensor_slice(tensor, 0, 0, 2, 1, &view, &err));
    assert_true(read_only(view));
    tenon_tensor_release(view);
    tenon_tensor_release(tensor);
}

static void test_freezing_that_the_system_refuses(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(4));
    assert_int_equal(fcntl(descriptor(tensor), F_ADD_SEALS, 1), 0); /* a peer forbids more seals */
    FAILS(TENON_ESYSTEM, tenon_shared_freeze(tensor, &err));
    assert_int_equal(err.os_error, EPERM);
    assert_false(read_only(tensor));
    data_of(tensor)[0] = 1.0f; /* still writable */
    tenon_tensor *other = attached(descriptor(tensor));
    assert_false(read_only(other));
    tenon_tensor_release(other);
    tenon_tensor_release(tensor);
}

static void test_a_read_only_descriptor(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(4)), *other;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor(tensor));
    int file = open(path, O_RDONLY | O_CLOEXEC);
    other = attached(file);
    assert_true(read_only(other));
    FAILS(TENON_ESYSTEM, tenon_shared_freeze(other, &err));
    close(file);
    tenon_tensor_release(other);
    tenon_tensor_release(tensor);
}

static void test_sealing(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(4)), *view, *plain;
    OK(tenon_tensor_slice(tensor, 0, 0, 2, 1, &view, &err));
    FAILS(TENON_EINVAL, tenon_shared_seal(view, &err));
    FAILS(TENON_EINVAL, tenon_shared_seal(NULL, &err));
    OK(tenon_tensor_alloc(f32, 1, DIMS(4), 0, &plain, &err));
    FAILS(TENON_EINVAL, tenon_shared_seal(plain, &err));
    tenon_tensor_release(plain);
    OK(tenon_shared_seal(tensor, &err)); /* although there is a view */
    OK(tenon_shared_seal(tensor, &err)); /* again */
    assert_false(read_only(tensor) || read_only(view));
    if (!getenv("TENON_VALGRIND"))
        assert_true(in_child(write_first, view) != 0);
    tenon_tensor *after = attached(descriptor(tensor));
    assert_true(read_only(after));
    tenon_tensor_release(after);
    tenon_tensor_release(view);
    OK(tenon_shared_freeze(tensor, &err));
    assert_true(read_only(tensor));
    tenon_tensor_release(tensor);

    tensor = shared(1, DIMS(4));
    assert_int_equal(fcntl(descriptor(tensor), F_ADD_SEALS, 1), 0);
    FAILS(TENON_ESYSTEM, tenon_shared_seal(tensor, &err));
    data_of(tensor)[0] = 1.0f; /* still writable */
    tenon_tensor_release(tensor);
}

/* -------------------------------------------------------------------------------------------------------- lifetimes */

static void test_nothing_is_left(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(100000));
    int descriptors = count_descriptors(), mappings = count_mappings();
    int rounds = getenv("TENON_VALGRIND") ? 100 : 10000;
    char name[TENON_SHARED_NAME_SIZE];
    OK(tenon_shared_name(tensor, name, &err));
    for (int i = 0; i < rounds; i++) {
        tenon_tensor *other;
        if (i % 2)
            OK(tenon_shared_attach_name(name, &other, &err));
        else
            other = attached(descriptor(tensor));
        tenon_tensor_release(other);
    }
    assert_int_equal(count_descriptors(), descriptors);
    assert_int_equal(count_mappings(), mappings);
    tenon_tensor_release(tensor);
    assert_int_equal(count_mappings(), mappings - 1);
}

static int release_it(const void *tensor)
{
    tenon_tensor_release((tenon_tensor *)(uintptr_t)tensor);
    return 0;
}

static int die(const void *name)
{
    tenon_tensor *tensor;
    if (tenon_shared_attach_name(name, &tensor, NULL))
        return 1;
    kill(getpid(), SIGKILL);
    return 2;
}

/* ------------------------------------------------------------------------------------------------------ limits */

static bool is_system_error(tenon_status status, int code, const char *advice)
{
    return status == TENON_ESYSTEM && err.os_error == code && strstr(err.message, advice);
}

static int without_descriptors(const void *tensor)
{
    int fd, next = dup(0);
    char name[TENON_SHARED_NAME_SIZE];
    tenon_tensor *other;
    const char *advice = "raise the limit of this process (ulimit -n)";
    close(next);
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, (rlim_t)next}) || tenon_shared_fd(tensor, &fd, &err) ||
        tenon_shared_name(tensor, name, &err))
        return 1;
    return is_system_error(tenon_shared_zeros(f32, 1, DIMS(4), &other, &err), EMFILE, advice) &&
                   is_system_error(tenon_shared_attach(fd, &other, &err), EMFILE, advice) &&
                   is_system_error(tenon_shared_attach_name(name, &other, &err), EMFILE, advice)
               ? 0
               : 2;
}

static void test_no_descriptor_is_left(void **state)
{
    (void)state;
    if (getenv("TENON_VALGRIND")) /* it has descriptors of its own above the limit */
        return;
    tenon_tensor *tensor = shared(1, DIMS(4));
    assert_int_equal(in_child(without_descriptors, tensor), 0);
    tenon_tensor_release(tensor);
}

static void test_processes_that_end(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(4));
    char name[TENON_SHARED_NAME_SIZE];
    OK(tenon_shared_name(tensor, name, &err));
    data_of(tensor)[0] = 5.0f;
    assert_int_equal(in_child(release_it, tensor), 0); /* a fork releases its own mapping only */
    assert_true(WIFSIGNALED(in_child(die, name)));
    assert_true(data_of(tensor)[0] == 5.0f);
    tenon_tensor_release(tensor);
}

static void count_up(void *count)
{
    ++*(int *)count;
}

static void test_a_watcher_is_called_once(void **state)
{
    (void)state;
    int calls = 0;
    tenon_tensor *tensor = shared(1, DIMS(4)), *view, *plain;
    OK(tenon_shared_watch(tensor, &calls, count_up, &err));
    FAILS(TENON_EINVAL, tenon_shared_watch(tensor, &calls, count_up, &err)); /* again */
    OK(tenon_tensor_slice(tensor, 0, 0, 2, 1, &view, &err));
    FAILS(TENON_EINVAL, tenon_shared_watch(view, &calls, count_up, &err));
    FAILS(TENON_EINVAL, tenon_shared_watch(NULL, &calls, count_up, &err));
    FAILS(TENON_EINVAL, tenon_shared_watch(tensor, &calls, NULL, &err));
    OK(tenon_tensor_alloc(f32, 1, DIMS(4), 0, &plain, &err));
    FAILS(TENON_EINVAL, tenon_shared_watch(plain, &calls, count_up, &err));
    tenon_tensor_release(plain);
    tenon_tensor_release(tensor);
    assert_int_equal(calls, 0); /* the view holds the memory */
    tenon_tensor_release(view);
    assert_int_equal(calls, 1);
}

/* A peer may write, or free pages: then there are zeros. It cannot make the file shorter. */
static void test_a_hostile_peer(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(100000));
    int file = descriptor(tensor);
    data_of(tensor)[50000] = 1.0f;
    assert_int_equal(ftruncate(file, 0), -1);
    assert_int_equal(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HEADER + 400000), 0);
    assert_true(data_of(tensor)[50000] == 0.0f);
    assert_dims(tenon_tensor_view(tensor), 1, DIMS(100000), DIMS(1));
    tenon_tensor *other = NULL;
    FAILS(TENON_EINVAL, tenon_shared_attach(file, &other, &err)); /* the header is gone */
    tenon_tensor_release(tensor);
}

/* 0 if a call failed with this limit on the size of files, and said so. */
static int told_limit(tenon_status status, const char *limit)
{
    return status == TENON_ESYSTEM && err.os_error == EFBIG && strstr(err.message, limit) &&
                   strstr(err.message, "ulimit -f")
               ? 0
               : 1;
}

static int exceed_the_limit(const void *argument)
{
    tenon_tensor *const *existing = argument, *tensor = NULL;
    const struct rlimit some = {HEADER + 400, RLIM_INFINITY}, none = {0, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &some);
    if (tenon_shared_zeros(TENON_F32, 1, DIMS(100), &tensor, &err))
        return 2;
    tenon_tensor_release(tensor);
    if (told_limit(tenon_shared_zeros(TENON_F32, 1, DIMS(101), &tensor, &err), "is 4496 bytes"))
        return 3;
    setrlimit(RLIMIT_FSIZE, &none);
    if (told_limit(tenon_shared_zeros(TENON_F32, 1, DIMS(0), &tensor, &err), "is 0 bytes"))
        return 4;
    if (told_limit(tenon_shared_freeze(*existing, &err), "is 0 bytes"))
        return 5;
    data_of(*existing)[0] = 1.0f; /* still writable */
    return 0;
}

static void test_the_limit_on_the_size_of_files(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(1, DIMS(3));
    assert_int_equal(in_child(exceed_the_limit, &tensor), 0);
    assert_true(data_of(tensor)[0] == 1.0f);
    tenon_tensor_release(tensor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_layout_of_the_file),
        cmocka_unit_test(test_two_tensors_have_different_ids),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_attach_shares_the_memory),
        cmocka_unit_test(test_open_by_name_in_another_process),
        cmocka_unit_test(test_a_name_whose_owner_is_gone),
        cmocka_unit_test(test_names_that_are_not_names),
        cmocka_unit_test(test_freezing),
        cmocka_unit_test(test_a_write_after_freezing_is_a_fault),
        cmocka_unit_test(test_freezing_is_refused_while_there_are_others),
        cmocka_unit_test(test_freezing_that_the_system_refuses),
        cmocka_unit_test(test_a_read_only_descriptor),
        cmocka_unit_test(test_sealing),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_no_descriptor_is_left),
        cmocka_unit_test(test_processes_that_end),
        cmocka_unit_test(test_a_watcher_is_called_once),
        cmocka_unit_test(test_a_hostile_peer),
        cmocka_unit_test(test_the_limit_on_the_size_of_files),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
