/* Preloaded before Python: the n-th allocation, or the n-th system call, that one of the watched libraries makes fails.
 *
 * A call counts if its return address is in a watched library, so the interpreter and the frameworks go on as usual. Python arms it
 * by ctypes (faulty.py). Only the thread that armed it is counted. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { MEMORY, SYSTEM, KINDS };

static struct {
    uintptr_t begin, end;
} watched[16];
static int nwatched;
static _Thread_local bool armed[KINDS];
static int64_t made[KINDS], fail_at[KINDS];
static int error_number;

static int note_segments(struct dl_phdr_info *info, size_t size, void *name)
{
    (void)size;
    if (!strstr(info->dlpi_name, name))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X && nwatched < 16) {
            watched[nwatched].begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            watched[nwatched].end = watched[nwatched].begin + info->dlpi_phdr[i].p_memsz;
            nwatched++;
        }
    return 0;
}

/* Watch the loaded libraries whose path contains the name; the number of their segments with code so far. */
int faults_watch(const char *name)
{
    dl_iterate_phdr(note_segments, (void *)name);
    return nwatched;
}

/* Let the n-th call of that kind fail with that error, counted from 1 and from now on; 0: only count. A number below 0 is that of a
 * signal, which the process gets instead. */
void faults_arm(int kind, int64_t n, int number)
{
    made[kind] = 0;
    fail_at[kind] = n;
    error_number = number;
    armed[kind] = true;
}

/* The number of calls since it was armed. */
int64_t faults_disarm(int kind)
{
    armed[kind] = false;
    return made[kind];
}

static bool fails(int kind, void *caller)
{
    if (!armed[kind])
        return false;
    for (int i = 0; i < nwatched; i++)
        if ((uintptr_t)caller >= watched[i].begin && (uintptr_t)caller < watched[i].end) {
            if (++made[kind] != fail_at[kind])
                return false;
            if (error_number < 0)
                return raise(-error_number), false;
            errno = kind == MEMORY ? ENOMEM : error_number;
            return true;
        }
    return false;
}

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))
#define REAL(name)                                                                                                     \
    static __typeof__(&name) real;                                                                                     \
    if (!real)                                                                                                         \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name);

/* glibc's own names of its allocator: dlsym allocates, so it cannot find them here. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size)
{
    return fails(MEMORY, CALLER) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails(MEMORY, CALLER) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return fails(MEMORY, CALLER) ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails(MEMORY, CALLER) ? NULL : __libc_memalign(alignment, size);
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    REAL(open)
    return fails(SYSTEM, CALLER) ? -1 : real(path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    REAL(fcntl)
    return fails(SYSTEM, CALLER) ? -1 : real(fd, command, argument);
}

long syscall(long number, ...)
{
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long), d = va_arg(rest, long);
    long e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    REAL(syscall)
    return fails(SYSTEM, CALLER) ? -1 : real(number, a, b, c, d, e, f);
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    REAL(fallocate)
    return fails(SYSTEM, CALLER) ? -1 : real(fd, mode, offset, length);
}

int fstat(int fd, struct stat *out)
{
    REAL(fstat)
    return fails(SYSTEM, CALLER) ? -1 : real(fd, out);
}

int stat(const char *path, struct stat *out)
{
    REAL(stat)
    return fails(SYSTEM, CALLER) ? -1 : real(path, out);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    REAL(mmap)
    return fails(SYSTEM, CALLER) ? MAP_FAILED : real(address, size, protection, flags, fd, offset);
}

int mprotect(void *address, size_t size, int protection)
{
    REAL(mprotect)
    return fails(SYSTEM, CALLER) ? -1 : real(address, size, protection);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    REAL(pread)
    return fails(SYSTEM, CALLER) ? -1 : real(fd, data, size, offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    REAL(pwrite)
    return fails(SYSTEM, CALLER) ? -1 : real(fd, data, size, offset);
}

DIR *opendir(const char *path)
{
    REAL(opendir)
    return fails(SYSTEM, CALLER) ? NULL : real(path);
}

void *dlopen(const char *path, int flags)
{
    REAL(dlopen)
    return fails(SYSTEM, CALLER) ? NULL : real(path, flags);
}
