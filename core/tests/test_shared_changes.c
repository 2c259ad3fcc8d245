/* Files that another process changes while this one attaches to them. */
#define _GNU_SOURCE
#include "shared_tensors.h"

#ifdef __linux__

#include "../src/system/internal.h"
#include "random.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, SIZE = HEADER + 4 * PAGE, USED = 592 /* of a header with two dimensions */ };

/* Linked with --wrap: what the core maps last, and code that runs before the core reads the seals. */
int __real_tenon__memory_map(tenon__file file, size_t size, bool writable, void **out);
int __wrap_tenon__memory_map(tenon__file file, size_t size, bool writable, void **out);
int __real_tenon__memory_file_seals(tenon__file file);
int __wrap_tenon__memory_file_seals(tenon__file file);
static const char *mapped, *mapped_end;
static void (*before_seals)(tenon__file file);

int __wrap_tenon__memory_map(tenon__file file, size_t size, bool writable, void **out)
{
    int code = __real_tenon__memory_map(file, size, writable, out);
    mapped = code ? NULL : *out;
    mapped_end = mapped ? mapped + size : NULL;
    return code;
}

int __wrap_tenon__memory_file_seals(tenon__file file)
{
    if (before_seals)
        before_seals(file);
    return __real_tenon__memory_file_seals(file);
}

static int new_file(size_t size)
{
    int file = (int)syscall(SYS_memfd_create, "other", 1 | 2);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, (off_t)size), 0);
    return file;
}

static void put(unsigned char header[HEADER], int at, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        header[at + i] = (unsigned char)(value >> 8 * i);
}

/* The header of u8[rows, columns]. */
static void fill(unsigned char header[HEADER], uint64_t rows, uint64_t columns)
{
    static unsigned char valid[HEADER]; /* the fields that are the same in each */
    if (!valid[0]) {
        tenon_tensor *tensor = shared(2, DIMS(1, 1));
        assert_int_equal(pread(descriptor(tensor), valid, HEADER, 0), HEADER);
        tenon_tensor_release(tensor);
    }
    memcpy(header, valid, HEADER);
    put(header, 32, TENON_CODE_UINT, 1);
    put(header, 33, 8, 1);
    put(header, 56, rows * columns, 8);
    put(header, 64, rows, 8);
    put(header, 72, columns, 8);
    put(header, 576, columns, 8);
}

/* All elements are in the mapping and in the file, and can be read. */
static void check_elements(const tenon_tensor *tensor, int file)
{
    const tenon_view *view = tenon_tensor_view(tensor);
    tenon_extent extent = tenon_view_extent(view);
    const char *data = view->data;
    assert_non_null(mapped);
    assert_true(data + extent.low >= mapped + HEADER && data + extent.high <= mapped_end);
    assert_true(mapped_end - mapped <= lseek(file, 0, SEEK_END));
    for (int64_t at = extent.low; at < extent.high; at++)
        (void)*(const volatile char *)&data[at];
}

/* ------------------------------------------------------------------------------------------------ one change, in time */

static void cut_and_seal(tenon__file file)
{
    assert_int_equal(ftruncate(file, HEADER + 60), 0);
    assert_int_equal(fcntl(file, F_ADD_SEALS, SEALS), 0);
    before_seals = NULL;
}

/* The size that counts is that of the sealed file. With an earlier one the elements would be beyond the end of the file. */
static void test_a_file_that_becomes_shorter_before_it_is_sealed(void **state)
{
    (void)state;
    unsigned char header[HEADER];
    fill(header, 4, PAGE);
    int file = new_file(SIZE);
    tenon_tensor *tensor = NULL;
    assert_int_equal(pwrite(file, header, HEADER, 0), HEADER);
    before_seals = cut_and_seal;
    FAILS(TENON_EINVAL, tenon_shared_attach(file, &tensor, &err));
    assert_non_null(strstr(err.message, "touches bytes"));
    assert_null(tensor);
    close(file);
}

/* --------------------------------------------------------------------------------------------- changes all the time */

/* What a thread changes through a descriptor and a mapping of its own, as another process would. */
typedef struct changes {
    pthread_mutex_t lock;
    int file;
    unsigned char *header;
    bool done;
    unsigned char headers[4][HEADER];
} changes;

static void change_once(changes *c)
{
    int choice = below(100);
    if (choice < 88) { /* each of them is valid, but parts of two are not */
        int from = choice < 60 ? 0 : below(USED);
        memcpy(c->header + from, c->headers[choice % 4] + from, (size_t)(HEADER - from));
    } else if (choice < 92) {
        c->header[below(2) ? 32 + below(32) : below(2 * USED)] = (unsigned char)below(256);
    } else if (choice < 97) { /* which fails once it is sealed */
        (void)!ftruncate(c->file, HEADER + below(SIZE - HEADER));
    } else if (choice < 99) {
        (void)fcntl(c->file, F_ADD_SEALS, SEALS);
    } else {
        (void)fcntl(c->file, F_ADD_SEALS, FUTURE_WRITE);
    }
}

static void *change(void *argument)
{
    changes *c = argument;
    for (bool done = false; !done;) {
        pthread_mutex_lock(&c->lock);
        if (c->header)
            change_once(c);
        done = c->done;
        pthread_mutex_unlock(&c->lock);
    }
    return NULL;
}

/* Let the thread change this file from now on, or none: -1. */
static void give(changes *c, int file)
{
    pthread_mutex_lock(&c->lock);
    if (c->header) {
        munmap(c->header, HEADER);
        c->header = NULL;
        close(c->file);
    }
    if (file >= 0) {
        c->file = dup(file);
        c->header = mmap(NULL, HEADER, PROT_READ | PROT_WRITE, MAP_SHARED, c->file, 0);
        assert_ptr_not_equal(c->header, MAP_FAILED);
    }
    pthread_mutex_unlock(&c->lock);
}

/* Attach again, by what the attached tensor says about itself, and make a view of it. */
static void share_again(tenon_tensor *tensor, int file)
{
    tenon_tensor *again = NULL, *view = NULL;
    char name[TENON_SHARED_NAME_SIZE];
    OK(tenon_shared_name(tensor, name, &err));
    if (tenon_shared_attach_name(name, &again, &err) == TENON_OK)
        check_elements(again, file);
    else
        assert_null(again);
    if (again && tenon_tensor_view(again)->ndim && tenon_tensor_slice(again, 0, 0, 1, 1, &view, &err) == TENON_OK)
        check_elements(view, file);
    tenon_tensor_release(again);
    tenon_tensor_release(view);
}

static int attach_to_one_file(changes *c, int number)
{
    int accepted = 0, file = new_file(SIZE);
    assert_int_equal(pwrite(file, c->headers[number % 4], HEADER, 0), HEADER);
    if (number % 2)
        assert_int_equal(fcntl(file, F_ADD_SEALS, SEALS), 0);
    give(c, file);
    for (int i = 0; i < 16; i++) {
        tenon_tensor *tensor = NULL;
        if (tenon_shared_attach(file, &tensor, &err)) {
            assert_null(tensor);
            continue;
        }
        accepted++;
        check_elements(tensor, file);
        share_again(tensor, file);
        tenon_tensor_release(tensor);
    }
    give(c, -1);
    close(file);
    return accepted;
}

static void test_changes_at_random_moments(void **state)
{
    (void)state;
    static changes c;
    const char *files = getenv("TENON_FILES");
    int accepted = 0, count = files ? atoi(files) : getenv("TENON_VALGRIND") ? 20 : 500;
    pthread_t thread;
    for (uint64_t i = 0; i < 4; i++)
        fill(c.headers[i], (const uint64_t[]){4, 1, 0, 3}[i], (const uint64_t[]){PAGE, 60, 9, PAGE + 1}[i]);
    assert_int_equal(pthread_mutex_init(&c.lock, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, change, &c), 0);
    for (int i = 0; i < count; i++)
        accepted += attach_to_one_file(&c, i);
    pthread_mutex_lock(&c.lock);
    c.done = true;
    pthread_mutex_unlock(&c.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    printf("%d files, %d attached\n", count, accepted);
    assert_true(accepted > 0 && accepted < 16 * count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_that_becomes_shorter_before_it_is_sealed),
        cmocka_unit_test(test_changes_at_random_moments),
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
