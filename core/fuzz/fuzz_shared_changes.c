/* Attaches to files that another process changes meanwhile. Before each step of an attachment, the input may write to the
 * header, change the size of the file, seal it, or close its descriptor and open another file: an attachment fails, or all
 * its elements are in the file. */
#define _GNU_SOURCE
#include "fuzz.h"

#ifdef __linux__

#include "../src/system/internal.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HEADER = 4096, PAGE = 4096, MOST = HEADER + 4 * PAGE, ADD_SEALS = 1033, ALLOW_SEALING = 2, SIZE_SEALS = 2 | 4 };

static fuzz_input *changes; /* NULL: nothing is changed */
static int file = -1;       /* the descriptor that is attached to */
static int same = -1;       /* another one for the same file, or for the last one that was changed */
static unsigned char valid[HEADER];
static const char *mapped, *mapped_end;

static int fuzz_new_file(size_t size)
{
    int created = (int)syscall(SYS_memfd_create, "fuzz", ALLOW_SEALING);
    FUZZ_CHECK(created >= 0 && ftruncate(created, (off_t)size) == 0);
    return created;
}

/* ---------------------------------------------------------------------------------------------------------- changes */

static void fuzz_put(int at, uint64_t value, int size)
{
    unsigned char bytes[8];
    for (int i = 0; i < size; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    (void)!pwrite(same, bytes, (size_t)size, at);
}

/* The header of u8[count], which fits into the file if that is long enough. */
static void fuzz_put_header(uint64_t count)
{
    (void)!pwrite(same, valid, HEADER, 0);
    fuzz_put(32, TENON_CODE_UINT, 1);
    fuzz_put(33, 8, 1);
    fuzz_put(36, 1, 4);
    fuzz_put(56, count, 8);
    fuzz_put(64, count, 8);
    fuzz_put(72, 0, 8);
    fuzz_put(576, 1, 8);
    fuzz_put(584, 0, 8);
}

static void fuzz_change(void)
{
    static const int fields[] = {0, 8, 12, 16, 32, 33, 34, 36, 40, 48, 56, 64, 72, 576, 584, 592, 1080, 1088};
    switch (fuzz_byte(changes) % 8) {
    case 0: {
        int at = fields[(size_t)fuzz_byte(changes) % (sizeof fields / sizeof *fields)];
        int size = 1 + fuzz_byte(changes) % 8;
        fuzz_put(at, fuzz_bytes(changes, size), size);
        break;
    }
    case 1:
        (void)!pwrite(same, valid, HEADER, 0);
        break;
    case 2:
        fuzz_put_header(fuzz_bytes(changes, 2) % (MOST - HEADER + 2));
        break;
    case 3:
        (void)!ftruncate(same, (off_t)(fuzz_bytes(changes, 2) % MOST));
        break;
    case 4:
        (void)fcntl(same, ADD_SEALS, SIZE_SEALS);
        break;
    case 5:
        (void)fcntl(same, ADD_SEALS, fuzz_byte(changes) % 32);
        break;
    case 6: {
        int other = fuzz_new_file((size_t)(fuzz_bytes(changes, 2) % MOST));
        FUZZ_CHECK(dup2(other, file) == file && dup2(other, same) == same);
        close(other);
        break;
    }
    default: {
        int other = open(fuzz_byte(changes) % 2 ? "/dev/zero" : "/", O_RDONLY);
        FUZZ_CHECK(other >= 0 && dup2(other, file) == file);
        close(other);
        break;
    }
    }
}

/* Mostly nothing: an attachment has few steps that matter. */
static void fuzz_step(void)
{
    int count = changes ? fuzz_byte(changes) : 0;
    for (int i = 0; i < (count < 192 ? 0 : 1 + count % 4); i++)
        fuzz_change();
}

/* The steps are the system calls, which are linked with --wrap. */
#define FUZZ_STEP(type, name, parameters, arguments)                                                                   \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        fuzz_step();                                                                                                   \
        return __real_##name arguments;                                                                                \
    }

FUZZ_STEP(tenon__file, tenon__file_duplicate, (int from), (from))
FUZZ_STEP(bool, tenon__file_state_read, (tenon__file from, tenon__file_state *out), (from, out))
FUZZ_STEP(bool, tenon__path_state_read, (const char *path, tenon__file_state *out), (path, out))
FUZZ_STEP(tenon__file, tenon__memory_file_open, (const char *path), (path))
FUZZ_STEP(int, tenon__memory_file_seals, (tenon__file from), (from))
FUZZ_STEP(int64_t, tenon__file_read, (tenon__file from, void *memory, size_t size, int64_t at),
          (from, memory, size, at))
FUZZ_STEP(bool, tenon__file_is_writable, (tenon__file from), (from))

int __real_tenon__memory_map(tenon__file from, size_t size, bool writable, void **out);
int __wrap_tenon__memory_map(tenon__file from, size_t size, bool writable, void **out);

int __wrap_tenon__memory_map(tenon__file from, size_t size, bool writable, void **out)
{
    fuzz_step();
    int code = __real_tenon__memory_map(from, size, writable, out);
    mapped = code ? NULL : *out;
    mapped_end = mapped ? mapped + size : NULL;
    return code;
}

/* ------------------------------------------------------------------------------------------------------------ checks */

/* Read every element. */
static void fuzz_read(const tenon_view *view, const char *from, const char *to)
{
    tenon_extent extent = tenon_view_extent(view);
    const char *data = view->data;
    FUZZ_CHECK(data + extent.low >= from + HEADER && data + extent.high <= to);
    for (int64_t at = extent.low; at < extent.high; at++)
        (void)*(const volatile char *)&data[at];
}

static void fuzz_check_attached(const tenon_tensor *tensor)
{
    int fd = -1;
    FUZZ_CHECK(tenon_shared_fd(tensor, &fd, NULL) == TENON_OK);
    FUZZ_CHECK(mapped && mapped_end - mapped == lseek(fd, 0, SEEK_END));
    fuzz_read(tenon_tensor_view(tensor), mapped, mapped_end);
}

/* Views of an attached tensor, and other attachments to it, while the changes go on. */
static void fuzz_use(tenon_tensor *tensor)
{
    const char *from = mapped, *to = mapped_end;
    char name[TENON_SHARED_NAME_SIZE];
    tenon_tensor *view = fuzz_operate(changes, tensor), *again = NULL;
    tenon_error err = {0};
    if (view)
        fuzz_read(tenon_tensor_view(view), from, to);
    FUZZ_CHECK(tenon_shared_name(tensor, name, NULL) == TENON_OK);
    tenon_status status = tenon_shared_attach_name(name, &again, &err);
    fuzz_check_error(status, &err);
    if (again)
        fuzz_check_attached(again);
    tenon_tensor_release(view);
    if (fuzz_byte(changes) % 4 == 0)
        fuzz_check_error(tenon_shared_freeze(tensor, &err), &err);
    fuzz_step();
    fuzz_read(tenon_tensor_view(tensor), from, to);
    tenon_tensor_release(again);
}

/* By the descriptor, or by the name that a sender would give. */
static tenon_status fuzz_attach(tenon_tensor **tensor, tenon_error *err)
{
    if (fuzz_byte(changes) % 2)
        return tenon_shared_attach(file, tensor, err);
    char name[TENON_SHARED_NAME_SIZE];
    int length = snprintf(name, sizeof name, "tenon-shared:1:%d:%d:", (int)getpid(), file);
    for (int i = 0; i < 16; i++)
        length += snprintf(name + length, sizeof name - (size_t)length, "%02x", valid[16 + i]);
    return tenon_shared_attach_name(name, tensor, err);
}

static void fuzz_read_valid_header(void)
{
    tenon_tensor *tensor = NULL;
    int own = -1;
    FUZZ_CHECK(tenon_shared_zeros((tenon_dtype){TENON_CODE_FLOAT, 32, 1}, 2, (int64_t[]){2, 3}, &tensor, NULL) ==
               TENON_OK);
    FUZZ_CHECK(tenon_shared_fd(tensor, &own, NULL) == TENON_OK && pread(own, valid, HEADER, 0) == HEADER);
    tenon_tensor_release(tensor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    if (!valid[0])
        fuzz_read_valid_header();
    file = fuzz_new_file(MOST);
    same = dup(file);
    FUZZ_CHECK(same >= 0 && pwrite(same, valid, HEADER, 0) == HEADER);
    changes = &in;
    for (bool again = true; again; again = in.size > 0) {
        tenon_tensor *tensor = NULL;
        tenon_error err = {0};
        fuzz_step();
        tenon_status status = fuzz_attach(&tensor, &err);
        fuzz_check_error(status, &err);
        FUZZ_CHECK((status == TENON_OK) == (tensor != NULL));
        if (tensor) {
            fuzz_check_attached(tensor);
            fuzz_use(tensor);
        }
        tenon_tensor_release(tensor);
    }
    changes = NULL;
    close(same);
    close(file);
    fuzz_nothing_left();
    return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)data, (void)size;
    return 0;
}

#endif
