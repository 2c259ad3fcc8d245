/* Tensors in anonymous files that several processes map. */
#include "internal.h"

#if defined(__linux__) && !defined(TENON_NO_SYSTEM)

#include <tenon/shared.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The message without "function(): ", with the number of the failure. */
static tenon_status shared_failure(int code, const char *function, const char *what, tenon_error *err)
{
    tenon_status status = code == ENOMEM || code == ENOSPC ? TENON_ENOMEM : TENON_ESYSTEM;
    uint64_t limit = tenon__file_size_limit();
    if (code == EFBIG && limit < UINT64_MAX)
        tenon_error_set_in(err, status, function,
                           "%s: shared memory counts as a file, and the limit of this process on the size of files is "
                           "%" PRIu64 " bytes; raise it (ulimit -f)",
                           what, limit);
    else
        tenon_error_set_in(err, status, function, "%s: %s%s", what, strerror(code),
                           code == EMFILE ? "; each shared tensor holds a file descriptor: release some, put several "
                                            "into one tensor, or raise the limit of this process (ulimit -n)"
                                          : "");
    if (err)
        err->os_error = code;
    return status;
}

enum { HEADER_SIZE = 4096, HEADER_VERSION = 1, HEADER_FROZEN = 1, ID_SIZE = TENON__SHARED_ID_SIZE };
enum {
    FIELD_VERSION = 8,
    FIELD_SIZE = 12,
    FIELD_ID = 16,
    FIELD_DTYPE = 32,
    FIELD_NDIM = 36,
    FIELD_FLAGS = 40,
    FIELD_OFFSET = 48
};
enum { FIELD_NBYTES = 56, FIELD_SHAPE = 64, FIELD_STRIDES = 576, FIELD_END = 1088 };

static const char shared_magic[8] = {'T', 'E', 'N', 'O', 'N', 'S', 'H', 'M'};

_Static_assert(FIELD_STRIDES == FIELD_SHAPE + TENON_MAX_NDIM * 8 && FIELD_END == FIELD_STRIDES + TENON_MAX_NDIM * 8,
               "the header");

/* The owner of a shared tensor. */
typedef struct shared_memory {
    int file;
    void *map; /* the whole file */
    size_t size;
    unsigned char id[ID_SIZE];
    void *watcher; /* of tenon_shared_watch */
    tenon_release_fn unmapped;
} shared_memory;

static void shared_release(void *owner)
{
    shared_memory *memory = owner;
    if (memory->unmapped)
        memory->unmapped(memory->watcher);
    tenon__file_close(memory->file);
    if (memory->map) /* last: this frees the pages */
        tenon__memory_unmap(memory->map, memory->size);
    tenon__free(memory, sizeof *memory);
}

/* ---------------------------------------------------------------------------------------------------------- header */

/* The numbers of the header are little-endian. */
static void put_number(unsigned char *at, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get_number(const unsigned char *at, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static void fill_header(unsigned char header[HEADER_SIZE], tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                        const int64_t *strides, int64_t bytes)
{
    memset(header, 0, HEADER_SIZE);
    memcpy(header, shared_magic, sizeof shared_magic);
    put_number(header + FIELD_VERSION, HEADER_VERSION, 4);
    put_number(header + FIELD_SIZE, HEADER_SIZE, 4);
    header[FIELD_DTYPE] = dtype.code;
    header[FIELD_DTYPE + 1] = dtype.bits;
    put_number(header + FIELD_DTYPE + 2, dtype.lanes, 2);
    put_number(header + FIELD_NDIM, (uint32_t)ndim, 4);
    put_number(header + FIELD_OFFSET, HEADER_SIZE, 8);
    put_number(header + FIELD_NBYTES, (uint64_t)bytes, 8);
    for (int32_t i = 0; i < ndim; i++) {
        put_number(header + FIELD_SHAPE + 8 * i, (uint64_t)shape[i], 8);
        put_number(header + FIELD_STRIDES + 8 * i, (uint64_t)strides[i], 8);
    }
}

static bool all_zero(const unsigned char *from, const unsigned char *to)
{
    while (from < to && *from == 0)
        from++;
    return from == to;
}

/* The mistake in a header, or NULL. The layout is checked later, by tenon__tensor_wrap. */
static const char *mistake_in_header(const unsigned char *header, uint64_t file_size)
{
    uint64_t ndim = get_number(header + FIELD_NDIM, 4);
    if (get_number(header + FIELD_SIZE, 4) != HEADER_SIZE)
        return "the size of the header is not 4096";
    if (ndim > TENON_MAX_NDIM)
        return "the number of dimensions is not between 0 and 64";
    if (get_number(header + FIELD_FLAGS, 8) & ~(uint64_t)HEADER_FROZEN)
        return "a flag is unknown";
    if (get_number(header + FIELD_OFFSET, 8) < HEADER_SIZE || get_number(header + FIELD_OFFSET, 8) > file_size)
        return "the first element is outside the file";
    if (!all_zero(header + FIELD_SHAPE + 8 * ndim, header + FIELD_STRIDES) ||
        !all_zero(header + FIELD_STRIDES + 8 * ndim, header + FIELD_END) ||
        !all_zero(header + FIELD_END, header + HEADER_SIZE))
        return "bytes that are reserved are not 0";
    return NULL;
}

static tenon_status not_shared(const char *function, const char *reason, tenon_error *err)
{
    return tenon_error_set_in(err, TENON_EINVAL, function, "this is not a shared tensor: %s", reason);
}

static tenon_status check_shared_dtype(tenon_dtype dtype, const char *function, tenon_error *err)
{
    if (dtype.code == TENON_CODE_OPAQUE)
        return tenon_error_set_in(err, TENON_EDTYPE, function,
                                  "opaque values are addresses of one process, which others must not use");
    return tenon__check_dtype(dtype, function, err);
}

/* Create the tensor that a header describes in memory that is mapped. Takes `memory` on TENON_OK. */
static tenon_status wrap_header(shared_memory *memory, const unsigned char *header, uint64_t flags,
                                const char *function, tenon_tensor **out, tenon_error *err)
{
    int64_t shape[TENON_MAX_NDIM], strides[TENON_MAX_NDIM], numel, bytes;
    tenon_dl_tensor source = {
        .data = (char *)memory->map + HEADER_SIZE,
        .device = tenon_device_of(TENON_CPU, 0),
        .ndim = (int32_t)get_number(header + FIELD_NDIM, 4),
        .dtype =
            tenon_dtype_of(header[FIELD_DTYPE], header[FIELD_DTYPE + 1], (int)get_number(header + FIELD_DTYPE + 2, 2)),
        .shape = shape,
        .strides = strides,
        .byte_offset = get_number(header + FIELD_OFFSET, 8) - HEADER_SIZE,
    };
    for (int32_t i = 0; i < source.ndim; i++) {
        shape[i] = (int64_t)get_number(header + FIELD_SHAPE + 8 * i, 8);
        strides[i] = (int64_t)get_number(header + FIELD_STRIDES + 8 * i, 8);
    }
    tenon_error inner = {0};
    tenon_status status = tenon__check_shape(source.ndim, shape, function, &inner);
    if (!status)
        status = check_shared_dtype(source.dtype, function, &inner);
    if (!status)
        status = tenon__shape_bytes(source.dtype, 0, source.ndim, shape, &numel, &bytes, function, &inner);
    if (!status && (uint64_t)bytes != get_number(header + FIELD_NBYTES, 8))
        return not_shared(function, "nbytes does not agree with the dtype and the shape", err);
    /* A block of 0 bytes would mean that the size is unknown. */
    uint64_t room = memory->size - HEADER_SIZE;
    if (!status && room == 0 && numel > 0)
        return not_shared(function, "the first element is outside the file", err);
    if (!status)
        status = tenon__tensor_wrap(&source, flags, room ? room : 1, memory, shared_release, function, out, &inner);
    if (status == TENON_ENOMEM)
        return tenon_error_set_in(err, status, function, "%s", tenon_error_reason(&inner));
    return status ? not_shared(function, tenon_error_reason(&inner), err) : TENON_OK;
}

/* ----------------------------------------------------------------------------------------------------------- files */

static bool write_header(int file, const unsigned char header[HEADER_SIZE])
{
    for (size_t done = 0; done < HEADER_SIZE;) {
        int64_t put_now = tenon__file_write(file, header + done, HEADER_SIZE - done, (int64_t)done);
        if (put_now < 0)
            return false;
        done += (size_t)put_now;
    }
    return true;
}

static shared_memory *new_memory(const char *function, tenon_error *err)
{
    shared_memory *memory = tenon__alloc(sizeof *memory, true);
    if (memory)
        memory->file = -1;
    else
        tenon_error_set_in(err, TENON_ENOMEM, function, "no memory for %zu bytes", sizeof *memory);
    return memory;
}

/* -------------------------------------------------------------------------------------------------- create, attach */

/* Map the whole file. Returns errno. */
static int map_file(shared_memory *memory, bool writable)
{
    return tenon__memory_map(memory->file, memory->size, writable, &memory->map);
}

/* Create the file of a new tensor and fill its header. */
static tenon_status create_file(shared_memory *memory, unsigned char header[HEADER_SIZE], const char *function,
                                tenon_error *err)
{
    if (!tenon__random_bytes(memory->id, ID_SIZE))
        return shared_failure(errno, function, "getrandom", err);
    memcpy(header + FIELD_ID, memory->id, ID_SIZE);
    tenon__memory_await_unmap(memory->size);
    memory->file = tenon__memory_file_create();
    if (memory->file < 0)
        return shared_failure(errno, function, "memfd_create", err);
    int code = tenon__memory_file_allocate(memory->file, memory->size);
    if (code)
        return shared_failure(code, function, "allocating the memory", err);
    if (!write_header(memory->file, header))
        return shared_failure(errno, function, "writing the header", err);
    if (!tenon__memory_file_seal(memory->file, TENON__SEAL_SHRINK | TENON__SEAL_GROW))
        return shared_failure(errno, function, "sealing the size", err);
    code = map_file(memory, true);
    return code ? shared_failure(code, function, "mmap", err) : TENON_OK;
}

tenon_status tenon_shared_zeros(tenon_dtype dtype, int32_t ndim, const int64_t *shape, tenon_tensor **out,
                                tenon_error *err)
{
    const char *function = "tenon_shared_zeros";
    int64_t numel, bytes, strides[TENON_MAX_NDIM];
    if (!out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'out' is NULL");
    tenon_status status = tenon__check_shape(ndim, shape, function, err);
    if (!status)
        status = check_shared_dtype(dtype, function, err);
    if (!status)
        status = tenon__shape_bytes(dtype, 0, ndim, shape, &numel, &bytes, function, err);
    if (status)
        return status;
    if (bytes > INT64_MAX - HEADER_SIZE || !tenon__fill_strides(ndim, shape, 'C', strides))
        return tenon_error_set_in(err, TENON_ENOMEM, function, "no memory for %" PRId64 " bytes", bytes);
    shared_memory *memory = new_memory(function, err);
    if (!memory)
        return TENON_ENOMEM;
    unsigned char header[HEADER_SIZE];
    memory->size = (size_t)bytes + HEADER_SIZE;
    fill_header(header, dtype, ndim, shape, strides, bytes);
    status = create_file(memory, header, function, err);
    if (!status)
        status = wrap_header(memory, header, 0, function, out, err);
    if (status)
        shared_release(memory);
    return status;
}

/* Read the header of a file that has the type and the seals of a shared tensor. */
static tenon_status read_header(shared_memory *memory, int *seals, unsigned char header[HEADER_SIZE],
                                const char *function, tenon_error *err)
{
    const int size_seals = TENON__SEAL_SHRINK | TENON__SEAL_GROW;
    tenon__file_state info;
    /* Before the size: until it is sealed, another process can make the file shorter. */
    *seals = tenon__memory_file_seals(memory->file);
    int code = errno;
    if (!tenon__file_state_read(memory->file, &info))
        return shared_failure(errno, function, "fstat", err);
    if (!info.is_regular)
        return not_shared(function, "it is not a regular file", err);
    if (*seals < 0 && code != EINVAL) /* which a file without seals gives */
        return shared_failure(code, function, "reading the seals", err);
    if (*seals < 0 || (*seals & size_seals) != size_seals)
        return not_shared(function, "its size is not sealed", err);
    int64_t got = tenon__file_read(memory->file, header, HEADER_SIZE, 0);
    if (got < 0)
        return shared_failure(errno, function, "reading the header", err);
    if (got != HEADER_SIZE)
        return not_shared(function, "it is shorter than a header", err);
    memory->size = (size_t)info.size;
    memcpy(memory->id, header + FIELD_ID, ID_SIZE);
    return TENON_OK;
}

/* Check everything that does not concern the elements. */
static tenon_status check_header(const unsigned char header[HEADER_SIZE], uint64_t file_size, const char *function,
                                 tenon_error *err)
{
    if (memcmp(header, shared_magic, sizeof shared_magic) != 0)
        return not_shared(function, "it does not begin with \"TENONSHM\"", err);
    if (get_number(header + FIELD_VERSION, 4) != HEADER_VERSION)
        return tenon_error_set_in(err, TENON_EVERSION, function,
                                  "expected version 1 of the header, got version %" PRIu64 "; use the same version of "
                                  "Tenon in both processes",
                                  get_number(header + FIELD_VERSION, 4));
    const char *mistake = mistake_in_header(header, file_size);
    return mistake ? not_shared(function, mistake, err) : TENON_OK;
}

/* Create a tensor from a file, which is closed on failure. If `id` is not NULL, *is_other says that the file is not the
 * tensor with that id: the status is TENON_EINVAL. */
static tenon_status attach(int file, const unsigned char *id, bool *is_other, const char *function, tenon_tensor **out,
                           tenon_error *err)
{
    unsigned char header[HEADER_SIZE];
    int seals = 0;
    shared_memory *memory = new_memory(function, err);
    if (!memory) {
        tenon__file_close(file);
        return TENON_ENOMEM;
    }
    memory->file = file;
    tenon_status status = read_header(memory, &seals, header, function, err);
    if (!status && id && memcmp(memory->id, id, ID_SIZE) != 0)
        status = not_shared(function, "it has another id", err);
    if (id)
        *is_other = status == TENON_EINVAL;
    if (!status)
        status = check_header(header, memory->size, function, err);
    if (!status) {
        /* The flag alone does not keep anyone from writing. */
        bool frozen = seals & (TENON__SEAL_WRITE | TENON__SEAL_FUTURE_WRITE);
        bool writable = !frozen && tenon__file_is_writable(file);
        int code = map_file(memory, writable);
        if (code == EPERM && writable) { /* it was frozen since the seals were read */
            writable = false;
            code = map_file(memory, writable);
        }
        status = code ? shared_failure(code, function, "mmap", err)
                      : wrap_header(memory, header, writable ? 0 : TENON_READ_ONLY, function, out, err);
    }
    if (status)
        shared_release(memory);
    return status;
}

tenon_status tenon_shared_attach(int fd, tenon_tensor **out, tenon_error *err)
{
    const char *function = "tenon_shared_attach";
    if (!out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'out' is NULL");
    int file = tenon__file_duplicate(fd);
    if (file < 0)
        return shared_failure(errno, function, "argument 'fd'", err);
    return attach(file, NULL, NULL, function, out, err);
}

/* ----------------------------------------------------------------------------------------------------------- names */

tenon_status tenon_shared_attach_name(const char *name, tenon_tensor **out, tenon_error *err)
{
    const char *function = "tenon_shared_attach_name";
    if (!name || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", name ? "out" : "name");
    tenon__shared_name at;
    tenon_status status = tenon__shared_name_read(name, &at, function, err);
    if (status)
        return status;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", at.process, at.file);
    /* Without stat, the open could wait for the other end of a pipe, or start a device. */
    tenon__file_state info;
    int file = -1, code = tenon__path_state_read(path, &info) ? 0 : errno;
    if (!code && info.is_regular) {
        file = tenon__memory_file_open(path);
        code = file < 0 ? errno : 0;
    }
    bool is_other = file < 0; /* the process or the descriptor is a different one now */
    tenon_error inner = {0};
    status = file < 0 ? TENON_EINVAL : attach(file, at.id, &is_other, function, out, &inner);
    if (!code && is_other)
        code = ENOENT;
    if (code == ENOENT || code == ESRCH) {
        tenon_error_set_in(err, TENON_ESYSTEM, function,
                           "process %d does not hold this tensor (any more); it must hold it until it is opened",
                           at.process);
        if (err)
            err->os_error = ENOENT;
        return TENON_ESYSTEM;
    }
    if (code)
        return shared_failure(code, function, "opening the memory of the other process", err);
    if (status && err)
        *err = inner;
    return status;
}

/* --------------------------------------------------------------------------------------------------------- queries */

static shared_memory *shared_memory_of(const tenon_tensor *tensor, const char *function, tenon_error *err)
{
    if (!tensor) {
        tenon_error_set_in(err, TENON_EINVAL, function, "argument 'tensor' is NULL");
        return NULL;
    }
    shared_memory *memory = tenon_tensor_owner(tensor, shared_release);
    bool view = !memory && tenon_tensor_owner(tenon_tensor_root(tensor), shared_release);
    if (!memory)
        tenon_error_set_in(err, TENON_EINVAL, function,
                           view ? "argument 'tensor' is a view; pass the whole shared tensor"
                                : "argument 'tensor' is not shared; create it with tenon_shared_zeros");
    return memory;
}

tenon_status tenon_shared_fd(const tenon_tensor *tensor, int *fd, tenon_error *err)
{
    const char *function = "tenon_shared_fd";
    if (!fd)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'fd' is NULL");
    shared_memory *memory = shared_memory_of(tensor, function, err);
    if (!memory)
        return TENON_EINVAL;
    *fd = memory->file;
    return TENON_OK;
}

tenon_status tenon_shared_name(const tenon_tensor *tensor, char out[TENON_SHARED_NAME_SIZE], tenon_error *err)
{
    const char *function = "tenon_shared_name";
    if (!out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'out' is NULL");
    shared_memory *memory = shared_memory_of(tensor, function, err);
    if (!memory)
        return TENON_EINVAL;
    tenon__shared_name name = {tenon__process_id(), memory->file, {0}};
    memcpy(name.id, memory->id, sizeof name.id);
    tenon__shared_name_write(&name, out);
    return TENON_OK;
}

tenon_status tenon_shared_watch(tenon_tensor *tensor, void *watcher, tenon_release_fn unmapped, tenon_error *err)
{
    const char *function = "tenon_shared_watch";
    if (!unmapped)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'unmapped' is NULL");
    shared_memory *memory = shared_memory_of(tensor, function, err);
    if (!memory)
        return TENON_EINVAL;
    if (memory->unmapped)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'tensor' is watched already");
    memory->watcher = watcher;
    memory->unmapped = unmapped;
    return TENON_OK;
}

/* ---------------------------------------------------------------------------------------------------------- freeze */

static bool write_flags(int file, uint64_t flags)
{
    unsigned char bytes[8];
    put_number(bytes, flags, sizeof bytes);
    if (FIELD_FLAGS + sizeof bytes > tenon__file_size_limit()) { /* as in tenon__memory_file_allocate */
        errno = EFBIG;
        return false;
    }
    return tenon__file_write(file, bytes, sizeof bytes, FIELD_FLAGS) == sizeof bytes;
}

/* Whether no new mapping can be writable. */
static bool is_sealed(int file)
{
    int seals = tenon__memory_file_seals(file);
    return seals >= 0 && (seals & (TENON__SEAL_WRITE | TENON__SEAL_FUTURE_WRITE));
}

/* Returns 0 or an errno. */
static int seal(int file)
{
    if (is_sealed(file) || (write_flags(file, HEADER_FROZEN) &&
                            tenon__memory_file_seal(file, TENON__SEAL_FUTURE_WRITE | TENON__SEAL_SEAL)))
        return 0;
    int code = errno ? errno : EIO; /* a write that was cut short has none */
    if (is_sealed(file))            /* by another thread or process, at the same time */
        return 0;
    write_flags(file, 0);
    return code;
}

/* Seals cannot be removed, so they come last. */
static tenon_status protect(const shared_memory *memory, bool writable, const char *function, tenon_error *err)
{
    int code = writable ? tenon__memory_protect(memory->map, memory->size, false) : 0;
    if (code)
        return shared_failure(code, function, "mprotect", err);
    code = seal(memory->file);
    if (!code)
        return TENON_OK;
    if (writable)
        tenon__memory_protect(memory->map, memory->size, true);
    return shared_failure(code, function, "sealing the memory", err);
}

tenon_status tenon_shared_freeze(tenon_tensor *tensor, tenon_error *err)
{
    const char *function = "tenon_shared_freeze";
    const shared_memory *memory = shared_memory_of(tensor, function, err);
    if (!memory)
        return TENON_EINVAL;
    bool writable = !(tensor->view.flags & TENON_READ_ONLY);
    if (writable && tenon_tensor_refcount(tensor) != 1)
        return tenon_error_set_in(err, TENON_EFAILED, function,
                                  "%" PRId64 " other references to the tensor exist, through which it could be written "
                                  "to; release its views and exports first",
                                  tenon_tensor_refcount(tensor) - 1);
    tenon_status status = protect(memory, writable, function, err);
    if (!status)
        tensor->view.flags |= TENON_READ_ONLY;
    return status;
}

tenon_status tenon_shared_seal(const tenon_tensor *tensor, tenon_error *err)
{
    const char *function = "tenon_shared_seal";
    const shared_memory *memory = shared_memory_of(tensor, function, err);
    return memory ? protect(memory, !(tensor->view.flags & TENON_READ_ONLY), function, err) : TENON_EINVAL;
}

#endif /* __linux__ */
