/* Files, descriptors and arguments that are not shared tensors. */
#define _GNU_SOURCE
#include "shared_tensors.h"

#ifdef __linux__

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* The name of a tensor with this id whose descriptor would be `file`. */
static const char *name_of(int file, const unsigned char id[16])
{
    static char name[TENON_SHARED_NAME_SIZE];
    int length = snprintf(name, sizeof name, "tenon-shared:1:%d:%d:", (int)getpid(), file);
    for (int i = 0; i < 16; i++)
        length += snprintf(name + length, sizeof name - (size_t)length, "%02x", id[i]);
    return name;
}

static void refuse_header(const unsigned char header[HEADER], size_t size, tenon_status status, const char *reason)
{
    tenon_tensor *out = NULL;
    int file = with_header(header, size);
    FAILS(status, tenon_shared_attach_name(name_of(file, header + 16), &out, &err));
    if (!strstr(err.message, reason))
        fail_msg("%s", err.message);
    assert_null(out);
    refuse(file, status, reason);
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
        {32, TENON_CODE_OPAQUE, TENON_EINVAL, "opaque"},
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
        refuse_header(bad, HEADER + 60, cases[i].status, cases[i].reason);
    }
    refuse_header(good, HEADER + 59, TENON_EINVAL, "touches bytes");
    refuse_header(good, HEADER, TENON_EINVAL, "outside the file");
    /* one byte in a file that has only the header */
    unsigned char byte[HEADER];
    memcpy(byte, good, HEADER);
    memset(byte + 36, 0, 4);
    memset(byte + 56, 0, 1088 - 56);
    byte[32] = TENON_CODE_UINT;
    byte[33] = 8;
    byte[56] = 1;
    refuse_header(byte, HEADER, TENON_EINVAL, "outside the file");
}

static void expect_gone(int file, const unsigned char id[16])
{
    tenon_tensor *out = NULL;
    FAILS(TENON_ESYSTEM, tenon_shared_attach_name(name_of(file, id), &out, &err));
    assert_int_equal(err.os_error, ENOENT);
    assert_non_null(strstr(err.message, "does not hold this tensor"));
    assert_null(out);
    close(file);
}

/* The descriptor that a name means is another file now: the owner has released the tensor. */
static void test_names_of_other_files(void **state)
{
    (void)state;
    static const unsigned char zeros[16], ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    tenon_tensor *tensor = shared(1, DIMS(3));
    unsigned char header[HEADER];
    assert_int_equal(pread(descriptor(tensor), header, HEADER, 0), HEADER);
    tenon_tensor_release(tensor);
    expect_gone(new_file(8192, 0), zeros);
    expect_gone(new_file(100, SEALS), zeros);
    expect_gone(new_file(8192, SEALS), ones);
    expect_gone(open("/proc/self/exe", O_RDONLY), zeros);
    expect_gone(with_header(header, HEADER + 12), ones);
    header[8] = 2; /* another tensor, of another version */
    expect_gone(with_header(header, HEADER + 12), ones);
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
    FAILS(TENON_EINVAL, tenon_shared_attach_name(NULL, &out, &err));
    FAILS(TENON_EINVAL, tenon_shared_attach_name("x", NULL, &err));
    FAILS(TENON_EINVAL, tenon_shared_zeros(f32, 1, DIMS(4), NULL, &err));
    FAILS(TENON_EINVAL, tenon_shared_zeros(f32, 1, NULL, &out, &err));
    FAILS(TENON_ESHAPE, tenon_shared_zeros(f32, 1, DIMS(-1), &out, &err));
    FAILS(TENON_EDTYPE, tenon_shared_zeros((tenon_dtype){99, 32, 1}, 1, DIMS(1), &out, &err));
    FAILS(TENON_EDTYPE, tenon_shared_zeros((tenon_dtype){TENON_CODE_OPAQUE, 64, 1}, 1, DIMS(1), &out, &err));
    FAILS(TENON_ENOMEM, tenon_shared_zeros(f32, 1, DIMS((int64_t)1 << 50), &out, &err));
    assert_int_equal(err.os_error, ENOMEM);
    FAILS(TENON_EOVERFLOW, tenon_shared_zeros(f32, 2, DIMS(INT64_MAX, 2), &out, &err));
    assert_null(out);
    tenon_tensor_release(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors_that_are_not_ours),
        cmocka_unit_test(test_every_field_wrong),
        cmocka_unit_test(test_names_of_other_files),
        cmocka_unit_test(test_random_headers),
        cmocka_unit_test(test_arguments),
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
