/* A result that is the library's own memory (`own`): a file, mapped into memory. Nothing is read before it is used.
 *
 *   cc -O3 -shared -fPIC $(python -m tenon cflags) mapped.c -o mapped.so */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tenon/function.h>
#include <unistd.h>

typedef struct mapping {
    void *memory;
    size_t bytes;
} mapping;

/* The host calls this once, when the last array is gone, on any thread. */
static void unmap(void *owner)
{
    mapping *m = owner;
    munmap(m->memory, m->bytes);
    free(m);
}

static tenon_status load(tenon_call *call)
{
    const char *path = tenon_arg_str(call, 0, NULL);
    int64_t columns = tenon_dim_named(call, "columns");
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &about) < 0) {
        int why = errno;
        if (file >= 0)
            close(file);
        return tenon_fail(call, TENON_EINVAL, "%s: %s", path, strerror(why));
    }
    int64_t row = columns * (int64_t)sizeof(float);
    if (row <= 0 || about.st_size == 0 || about.st_size % row) {
        close(file);
        return tenon_fail(call, TENON_EINVAL, "%s has %lld bytes, which is not a number of rows with %lld columns",
                          path, (long long)about.st_size, (long long)columns);
    }
    mapping *m = malloc(sizeof *m);
    if (m) { /* a private mapping: the caller may write to the array, and the file stays as it is */
        m->bytes = (size_t)about.st_size;
        m->memory = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    }
    close(file);
    if (!m || m->memory == MAP_FAILED) {
        free(m);
        return TENON_ENOMEM;
    }
    tenon_status status =
        tenon_result_own(call, 0, m->memory, 2, (int64_t[]){about.st_size / row, columns}, NULL, m, unmap);
    if (status != TENON_OK)
        unmap(m); /* the host has not taken it */
    return status;
}

TENON_MODULE(mapped, "Arrays in files.",
             TENON_FUNCTION("load(path: str, columns: int) -> f32[?, columns] own", load,
                            "Maps a file of 32-bit floats."))
