/* Tensors in memory that several processes share. */
#define _GNU_SOURCE
#include "check.h"

#ifdef __linux__

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HEADER = 4096, SEALS = 2 | 4, FUTURE_WRITE = 16 };

static const tenon_dtype f32 = {TENON_CODE_FLOAT, 32, 1};

static tenon_tensor *shared(int32_t ndim, const int64_t *shape)
{
    tenon_tensor *tensor = NULL;
    OK(tenon_shared_alloc(f32, ndim, shape, &tensor, &err));
    return tensor;
}

static float *data_of(const tenon_tensor *tensor)
{
    return tenon_tensor_view(tensor)->data;
}

static int descriptor(const tenon_tensor *tensor)
{
    int fd = -1;
    OK(tenon_shared_fd(tensor, &fd, &err));
    return fd;
}

static tenon_tensor *attached(int fd)
{
    tenon_tensor *tensor = NULL;
    OK(tenon_shared_attach(fd, &tensor, &err));
    return tensor;
}

static bool read_only(const tenon_tensor *tensor)
{
    return tenon_tensor_view(tensor)->flags & TENON_READ_ONLY;
}

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
    if (tenon_shared_open(name, &tensor, NULL))
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
    FAILS(TENON_ESYSTEM, tenon_shared_open(name, &other, &err));
    assert_int_equal(err.os_error, ENOENT);
    /* the same descriptor, but of another tensor, a pipe, a file */
    tensor = shared(1, DIMS(4));
    assert_int_equal(descriptor(tensor), fd);
    FAILS(TENON_ESYSTEM, tenon_shared_open(name, &other, &err));
    assert_int_equal(err.os_error, ENOENT);
    OK(tenon_shared_name(tensor, reused, &err));
    tenon_tensor_release(tensor);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(ends[0], fd);
    FAILS(TENON_ESYSTEM, tenon_shared_open(reused, &other, &err));
    assert_int_equal(err.os_error, ENOENT);
    close(ends[0]);
    close(ends[1]);
    /* a process that has ended */
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    snprintf(name, sizeof name, "tenon-shared:1:%d:%d%s", (int)child, fd, strrchr(reused, ':'));
    FAILS(TENON_ESYSTEM, tenon_shared_open(name, &other, &err));
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
        "tenon-shared:2:1:3:00112233445566778899aabbccddeeff",
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
        FAILS(TENON_EINVAL, tenon_shared_open(names[i], &out, &err));
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

/* --------------------------------------------------------------------------------------------------------- bad input */

static int new_file(size_t size, int seals)
{
    int file = (int)syscall(SYS_memfd_create, "other", 1 | 2);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, (off_t)size), 0);
    assert_int_equal(fcntl(file, F_ADD_SEALS, seals), 0);
    return file;
}

static void refuse(int file, tenon_status status, const char *reason)
{
    tenon_tensor *out = NULL;
    FAILS(status, tenon_shared_attach(file, &out, &err));
    if (!strstr(err.message, reason))
        fail_msg("%s", err.message);
    assert_null(out);
    close(file);
}

static void test_descriptors_that_are_not_ours(void **state)
{
    (void)state;
    int ends[2];
    refuse(-1, TENON_ESYSTEM, "argument 'fd'");
    refuse(1000000, TENON_ESYSTEM, "argument 'fd'");
    assert_int_equal(pipe(ends), 0);
    refuse(ends[0], TENON_EINVAL, "it is not a regular file");
    close(ends[1]);
    refuse(open("/", O_RDONLY), TENON_EINVAL, "it is not a regular file");
    refuse(open("/proc/self/exe", O_RDONLY), TENON_EINVAL, "its size is not sealed");
    refuse(open("/dev/zero", O_RDWR), TENON_EINVAL, "it is not a regular file");
    refuse(socket(AF_UNIX, SOCK_STREAM, 0), TENON_EINVAL, "it is not a regular file");
    refuse(new_file(8192, 0), TENON_EINVAL, "its size is not sealed");
    refuse(new_file(8192, 2), TENON_EINVAL, "its size is not sealed");
    refuse(new_file(0, SEALS), TENON_EINVAL, "shorter than a header");
    refuse(new_file(4095, SEALS), TENON_EINVAL, "shorter than a header");
    refuse(new_file(8192, SEALS), TENON_EINVAL, "TENONSHM");
}

/* A file of its own with this header. */
static int with_header(const unsigned char header[HEADER], size_t size)
{
    int file = new_file(size, 0);
    assert_int_equal(pwrite(file, header, HEADER, 0), HEADER);
    assert_int_equal(fcntl(file, F_ADD_SEALS, SEALS), 0);
    return file;
}

static void test_every_field_wrong(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(2, DIMS(3, 5));
    unsigned char good[HEADER];
    assert_int_equal(pread(descriptor(tensor), good, HEADER, 0), HEADER);
    tenon_tensor_release(tensor);
    int file = with_header(good, HEADER + 60);
    tenon_tensor_release(attached(file));
    close(file);
    const struct {
        int at;
        unsigned char value;
        tenon_status status;
        const char *reason;
    } cases[] = {
        {0, 't', TENON_EINVAL, "TENONSHM"},
        {8, 2, TENON_EVERSION, "expected version 1 of the header, got version 2"},
        {11, 1, TENON_EVERSION, "version 16777217"},
        {12, 1, TENON_EINVAL, "the size of the header"},
        {32, 99, TENON_EINVAL, "dtype"},
        {33, 31, TENON_EINVAL, "dtype"},
        {33, 64, TENON_EINVAL, "nbytes"},
        {34, 0, TENON_EINVAL, "dtype"},
        {34, 2, TENON_EINVAL, "nbytes"},
        {36, 65, TENON_EINVAL, "dimensions"},
        {39, 0x80, TENON_EINVAL, "dimensions"},
        {36, 1, TENON_EINVAL, "reserved"},
        {36, 3, TENON_EINVAL, "nbytes"},
        {40, 2, TENON_EINVAL, "flag"},
        {47, 0x80, TENON_EINVAL, "flag"},
        {49, 0, TENON_EINVAL, "first element"},
        {48, 4, TENON_EINVAL, "touches bytes"},
        {55, 0x80, TENON_EINVAL, "first element"},
        {56, 61, TENON_EINVAL, "nbytes"},
        {63, 0x80, TENON_EINVAL, "nbytes"},
        {64, 4, TENON_EINVAL, "nbytes"},
        {71, 0x80, TENON_EINVAL, "negative"},
        {80, 1, TENON_EINVAL, "reserved"},
        {575, 1, TENON_EINVAL, "reserved"},
        {576, 6, TENON_EINVAL, "touches bytes"},
        {583, 0x80, TENON_EINVAL, ""},
        {584, 2, TENON_EINVAL, "touches bytes"},
        {592, 1, TENON_EINVAL, "reserved"},
        {1088, 1, TENON_EINVAL, "reserved"},
        {4095, 1, TENON_EINVAL, "reserved"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bad[HEADER];
        memcpy(bad, good, HEADER);
        bad[cases[i].at] = cases[i].value;
        refuse(with_header(bad, HEADER + 60), cases[i].status, cases[i].reason);
    }
    refuse(with_header(good, HEADER + 59), TENON_EINVAL, "touches bytes");
    refuse(with_header(good, HEADER), TENON_EINVAL, "outside the file");
    /* one byte in a file that has only the header */
    unsigned char byte[HEADER];
    memcpy(byte, good, HEADER);
    memset(byte + 36, 0, 4);
    memset(byte + 56, 0, 1088 - 56);
    byte[32] = TENON_CODE_UINT;
    byte[33] = 8;
    byte[56] = 1;
    refuse(with_header(byte, HEADER), TENON_EINVAL, "outside the file");
}

/* A deterministic generator of random numbers. */
static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* What attach accepts, every element can be read. */
static void test_random_headers(void **state)
{
    (void)state;
    tenon_tensor *tensor = shared(3, DIMS(3, 2, 5));
    unsigned char good[HEADER];
    assert_int_equal(pread(descriptor(tensor), good, HEADER, 0), HEADER);
    tenon_tensor_release(tensor);
    static const int fields[] = {8, 12, 32, 33, 34, 36, 40, 48, 49, 56, 64, 72, 80, 576, 584, 592, 600};
    uint64_t seed = 1;
    int accepted = 0, rounds = getenv("TENON_VALGRIND") ? 200 : 20000;
    for (int i = 0; i < rounds; i++) {
        unsigned char bad[HEADER];
        memcpy(bad, good, HEADER);
        for (uint64_t j = 0; j <= next_random(&seed) % 3; j++) {
            int at = fields[next_random(&seed) % (sizeof fields / sizeof *fields)] + (int)(next_random(&seed) % 8);
            bad[at] = (unsigned char)(next_random(&seed) % 3 ? next_random(&seed) % 8 : next_random(&seed));
        }
        int file = with_header(bad, HEADER + 120 + next_random(&seed) % 64);
        tenon_tensor *other = NULL;
        if (tenon_shared_attach(file, &other, &err) == TENON_OK) {
            accepted++;
            tenon_tensor *copy;
            OK(tenon_tensor_copy(other, &copy, &err));
            tenon_tensor_release(copy);
            tenon_tensor_release(other);
        } else {
            assert_null(other);
        }
        close(file);
    }
    assert_true(accepted > 0 && accepted < rounds);
}

static void test_arguments(void **state)
{
    (void)state;
    tenon_tensor *plain, *out = NULL;
    char name[TENON_SHARED_NAME_SIZE];
    int fd;
    OK(tenon_tensor_alloc(f32, 1, DIMS(4), 0, &plain, &err));
    FAILS(TENON_EINVAL, tenon_shared_fd(plain, &fd, &err));
    assert_non_null(strstr(err.message, "is not shared"));
    FAILS(TENON_EINVAL, tenon_shared_fd(NULL, &fd, &err));
    FAILS(TENON_EINVAL, tenon_shared_fd(plain, NULL, &err));
    FAILS(TENON_EINVAL, tenon_shared_name(plain, name, &err));
    FAILS(TENON_EINVAL, tenon_shared_name(NULL, name, &err));
    FAILS(TENON_EINVAL, tenon_shared_name(plain, NULL, &err));
    FAILS(TENON_EINVAL, tenon_shared_freeze(plain, &err));
    FAILS(TENON_EINVAL, tenon_shared_freeze(NULL, &err));
    FAILS(TENON_EINVAL, tenon_shared_attach(0, NULL, &err));
    FAILS(TENON_EINVAL, tenon_shared_open(NULL, &out, &err));
    FAILS(TENON_EINVAL, tenon_shared_open("x", NULL, &err));
    FAILS(TENON_EINVAL, tenon_shared_alloc(f32, 1, DIMS(4), NULL, &err));
    FAILS(TENON_EINVAL, tenon_shared_alloc(f32, 1, NULL, &out, &err));
    FAILS(TENON_ESHAPE, tenon_shared_alloc(f32, 1, DIMS(-1), &out, &err));
    FAILS(TENON_EDTYPE, tenon_shared_alloc((tenon_dtype){99, 32, 1}, 1, DIMS(1), &out, &err));
    FAILS(TENON_ENOMEM, tenon_shared_alloc(f32, 1, DIMS((int64_t)1 << 50), &out, &err));
    assert_int_equal(err.os_error, ENOMEM);
    FAILS(TENON_EOVERFLOW, tenon_shared_alloc(f32, 2, DIMS(INT64_MAX, 2), &out, &err));
    assert_null(out);
    tenon_tensor_release(plain);
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
            OK(tenon_shared_open(name, &other, &err));
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
    if (tenon_shared_open(name, &tensor, NULL))
        return 1;
    kill(getpid(), SIGKILL);
    return 2;
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
        cmocka_unit_test(test_descriptors_that_are_not_ours),
        cmocka_unit_test(test_every_field_wrong),
        cmocka_unit_test(test_random_headers),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_processes_that_end),
        cmocka_unit_test(test_a_watcher_is_called_once),
        cmocka_unit_test(test_a_hostile_peer),
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
