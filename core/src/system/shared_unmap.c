/* Unmap large memory in a thread of its own. It takes about 0.2 s for each GB, and the thread that releases a tensor may
 * have a lock that everything else waits for: the interpreter's lock of Python, or a scheduler of the BEAM. It must not
 * release that lock either, because it would then wait for it. */
#define _GNU_SOURCE 1 /* MADV_DONTFORK, dladdr */

#include "system.h"

#if defined(__linux__) && !defined(TENON_NO_SYSTEM)

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

enum { UNMAP_LARGE = 64 << 20 }; /* from this size on a thread is worth its cost */

typedef struct unmapping {
    void *map;
    size_t size;
} unmapping;

static atomic_int unmapping_threads;
static pthread_once_t unmapping_once = PTHREAD_ONCE_INIT;

/* The child of a fork has neither the threads nor the memory. */
static void forget_threads(void)
{
    atomic_store(&unmapping_threads, 0);
}

/* The library that has this code must not be unloaded while a thread runs it. */
static void prepare_threads(void)
{
    Dl_info info;
    pthread_atfork(NULL, NULL, forget_threads);
    if (dladdr(&unmapping_threads, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void *run_unmapping(void *pointer)
{
    unmapping job = *(unmapping *)pointer;
    tenon__free(pointer, sizeof job);
    munmap(job.map, job.size);
    atomic_fetch_sub(&unmapping_threads, 1);
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
    atomic_fetch_add(&unmapping_threads, 1);
    bool started = pthread_create(&thread, &detached, run_unmapping, job) == 0;
    if (!started)
        atomic_fetch_sub(&unmapping_threads, 1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return started;
}

void tenon__shared_unmap(void *map, size_t size)
{
    unmapping *job = NULL;
    if (size >= UNMAP_LARGE && madvise(map, size, MADV_DONTFORK) == 0)
        job = tenon__alloc(sizeof *job, false);
    if (job) {
        *job = (unmapping){map, size};
        pthread_once(&unmapping_once, prepare_threads);
        if (start_unmapping(job))
            return;
        tenon__free(job, sizeof *job);
    }
    munmap(map, size);
}

void tenon__shared_await_unmap(size_t size)
{
    while (size >= UNMAP_LARGE && atomic_load(&unmapping_threads) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

#endif
