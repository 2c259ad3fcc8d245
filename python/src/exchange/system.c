/* What the bridge needs of the operating system, on POSIX and on Windows. */
#define _GNU_SOURCE 1 /* dl_iterate_phdr */

#include "../internal.h"

#ifdef _WIN32
#include <malloc.h>
#define WIN32_LEAN_AND_MEAN /* without macros such as `interface` */
#include <windows.h>
#undef near /* macros of 16-bit Windows */
#undef far
#else
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <link.h>
#endif
#endif

#ifdef _WIN32

void *tenon__py_loaded_library(const char *name)
{
    return (void *)GetModuleHandleA(name);
}

uint64_t tenon__py_load_count(void)
{
    return 0;
}

bool tenon__py_symbol(void *library, const char *name, void *place)
{
    FARPROC symbol = GetProcAddress((HMODULE)library, name);
    memcpy(place, &symbol, sizeof symbol);
    return symbol;
}

void tenon__py_after_fork(void (*in_child)(void))
{
    (void)in_child;
}

void tenon__py_run_at_exit_too(void (*run)(void *context), void *context)
{
    run(context); /* the system ends threads without unwinding their stacks */
}

int64_t tenon__py_microseconds(void)
{
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    int64_t seconds = ticks.QuadPart / per_second.QuadPart, rest = ticks.QuadPart % per_second.QuadPart;
    return seconds * 1000000 + rest * 1000000 / per_second.QuadPart;
}

void tenon__py_yield(void)
{
    SwitchToThread();
}

void *tenon__py_aligned_alloc(size_t alignment, size_t size)
{
    return _aligned_malloc(size, alignment);
}

#else

#ifdef __APPLE__

uint64_t tenon__py_load_count(void)
{
    return _dyld_image_count();
}

#else

static int read_load_count(struct dl_phdr_info *library, size_t size, void *count)
{
    (void)size;
    *(uint64_t *)count = library->dlpi_adds;
    return 1; /* it is the same in all of them */
}

uint64_t tenon__py_load_count(void)
{
    uint64_t count = 0;
    dl_iterate_phdr(read_load_count, &count);
    return count;
}

#endif

void *tenon__py_loaded_library(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library)
        dlclose(library); /* whoever loaded it keeps it */
    return library;
}

bool tenon__py_symbol(void *library, const char *name, void *place)
{
    void *symbol = dlsym(library, name); /* C keeps the addresses of functions apart from those of objects */
    memcpy(place, &symbol, sizeof symbol);
    return symbol;
}

void tenon__py_after_fork(void (*in_child)(void))
{
    pthread_atfork(NULL, NULL, in_child);
}

static void sleep_permanently(void *unused)
{
    (void)unused;
    for (;;)
        pause();
}

void tenon__py_run_at_exit_too(void (*run)(void *context), void *context)
{
    pthread_cleanup_push(sleep_permanently, NULL);
    run(context);
    pthread_cleanup_pop(0);
}

int64_t tenon__py_microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void tenon__py_yield(void)
{
    sched_yield();
}

void *tenon__py_aligned_alloc(size_t alignment, size_t size)
{
    return aligned_alloc(alignment, size);
}

#endif
