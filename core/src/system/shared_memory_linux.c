/* Anonymous files that several processes map. */
#define _GNU_SOURCE 1 /* fallocate, syscall, MADV_DONTFORK, dladdr */

#include "internal.h"

#if defined(__linux__) && !defined(TENON_NO_SYSTEM)

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

/* ----------------------------------------------------------------------------------------------------------- files */

/* Kernels have these for longer than the headers of old C libraries, whose symbols the wheels are limited to. */
enum { MEMFD_CLOEXEC = 1, MEMFD_ALLOW_SEALING = 2, MEMFD_NOEXEC_SEAL = 8, ADD_SEALS = 1033, GET_SEALS = 1034 };

uint64_t tenon__file_size_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

int64_t tenon__file_write(tenon__file file, const void *bytes, size_t size, int64_t at)
{
    ssize_t done;
    do {
        done = pwrite(file, bytes, size, (off_t)at);
    } while (done < 0 && errno == EINTR);
    return done;
}

tenon__file tenon__file_duplicate(int file)
{
    return fcntl(file, F_DUPFD_CLOEXEC, 0);
}

bool tenon__file_is_writable(tenon__file file)
{
    return (fcntl(file, F_GETFL) & O_ACCMODE) == O_RDWR;
}

tenon__file tenon__memory_file_create(void)
{
    long file = syscall(SYS_memfd_create, "tenon", MEMFD_CLOEXEC | MEMFD_ALLOW_SEALING | MEMFD_NOEXEC_SEAL);
    if (file < 0 && errno == EINVAL) /* before Linux 6.3 */
        file = syscall(SYS_memfd_create, "tenon", MEMFD_CLOEXEC | MEMFD_ALLOW_SEALING);
    return (int)file;
}

tenon__file tenon__memory_file_open(const char *path)
{
    int file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0 && (errno == EACCES || errno == EPERM || errno == EROFS || errno == ETXTBSY))
        file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return file;
}

int tenon__memory_file_allocate(tenon__file file, uint64_t size)
{
    struct sysinfo machine;
    if (size > INT64_MAX)
        return ENOMEM;
    if (size > tenon__file_size_limit()) /* the kernel would send SIGXFSZ, which ends the process */
        return EFBIG;
    if (sysinfo(&machine) == 0 && size / machine.mem_unit > machine.totalram + machine.totalswap)
        return ENOMEM;
    int code;
    do {
        code = fallocate(file, 0, 0, (off_t)size) < 0 ? errno : 0;
    } while (code == EINTR);
    return code;
}

int tenon__memory_file_seals(tenon__file file)
{
    return fcntl(file, GET_SEALS);
}

bool tenon__memory_file_seal(tenon__file file, int seals)
{
    return fcntl(file, ADD_SEALS, seals) == 0;
}

bool tenon__random_bytes(void *out, size_t size)
{
    long got;
    do {
        got = syscall(SYS_getrandom, out, size, 0);
    } while (got < 0 && errno == EINTR);
    return got == (long)size;
}

/* ------------------------------------------------------------------------------------------------------------ maps */

int tenon__memory_map(tenon__file file, size_t size, bool writable, void **out)
{
    void *map = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        return errno;
    *out = map;
    return 0;
}

int tenon__memory_protect(void *map, size_t size, bool writable)
{
    return mprotect(map, size, PROT_READ | (writable ? PROT_WRITE : 0)) < 0 ? errno : 0;
}

/* --------------------------------------------------------------------------------------------------------- unmapping
 *
 * Large memory is unmapped in a thread of its own. It takes about 0.2 s for each GB, and the thread that releases a tensor
 * may have a lock that everything else waits for: the interpreter's lock of Python, or a scheduler of the BEAM. It must not
 * release that lock either, because it would then wait for it. */

enum { UNMAP_LARGE = 64 << 20 }; /* from this size on a thread is worth its cost */

typedef struct unmapping {
    void *map;
    size_t size;
} unmapping;

static atomic_llong unmappings_started, unmappings_ended;
static pthread_once_t unmapping_once = PTHREAD_ONCE_INIT;

/* The child of a fork has neither the threads nor the memory. */
static void forget_threads(void)
{
    atomic_store(&unmappings_ended, atomic_load(&unmappings_started));
}

/* The library that has this code must not be unloaded while a thread runs it. */
static void prepare_threads(void)
{
    Dl_info info;
    pthread_atfork(NULL, NULL, forget_threads);
    if (dladdr(&unmappings_started, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void *run_unmapping(void *pointer)
{
    unmapping job = *(unmapping *)pointer;
    free(pointer);
    munmap(job.map, job.size);
    atomic_fetch_add(&unmappings_ended, 1);
    return NULL;
}

/* Start a thread that handles no signals. */
static bool start_unmapping(unmapping *job)
{
    pthread_t thread;
    pthread_attr_t detached;
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_attr_init(&detached))
        return false;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_fetch_add(&unmappings_started, 1);
    bool started = pthread_create(&thread, &detached, run_unmapping, job) == 0;
    if (!started)
        atomic_fetch_add(&unmappings_ended, 1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return started;
}

void tenon__memory_unmap(void *map, size_t size)
{
    unmapping *job = NULL;
    if (size >= UNMAP_LARGE && madvise(map, size, MADV_DONTFORK) == 0)
        job = malloc(sizeof *job);
    if (job) {
        *job = (unmapping){map, size};
        pthread_once(&unmapping_once, prepare_threads);
        if (start_unmapping(job))
            return;
        free(job);
    }
    munmap(map, size);
}

/* Wait for as many as have been started by now. Other threads may start more all the time. */
void tenon__memory_await_unmap(size_t size)
{
    long long started = atomic_load(&unmappings_started);
    while (size >= UNMAP_LARGE && atomic_load(&unmappings_ended) < started)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

#endif
