/* What a parallel loop needs of the system: which process and thread it runs in, and a way to wait for threads. */
#define _POSIX_C_SOURCE 200809L /* pthread.h */

#include "internal.h"

#ifdef TENON__POSIX
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#endif

#ifdef TENON__POSIX

static int loading_process; /* that loaded the core */

__attribute__((constructor)) static void note_process(void)
{
    loading_process = tenon__process_id();
}

/* Whether the kernel says that the process was forked and has not called exec since. False if it does not say. */
static bool is_fork_for_kernel(void)
{
#ifdef __linux__
    const unsigned long forked_without_exec = 0x40; /* PF_FORKNOEXEC, of the flags: the seventh field after the name */
    char text[1024] = "";
    tenon__file file = tenon__file_open("/proc/self/stat");
    if (file == TENON__NO_FILE)
        return false;
    int64_t size = tenon__file_read(file, text, sizeof text - 1, 0);
    tenon__file_close(file);
    const char *at = size > 0 ? strrchr(text, ')') : NULL;
    for (int field = 0; at && field < 7; field++)
        at = strchr(at + 1, ' ');
    return at && (strtoul(at, NULL, 10) & forked_without_exec);
#else
    return false;
#endif
}

bool tenon__process_is_forked(void)
{
    static _Atomic int known; /* the process, or minus that if it is a fork */
    int self = tenon__process_id(), last = atomic_load_explicit(&known, memory_order_relaxed);
    if (last == self || last == -self)
        return last < 0;
    bool forked = self != loading_process || is_fork_for_kernel();
    atomic_store_explicit(&known, forked ? -self : self, memory_order_relaxed);
    return forked;
}

uintptr_t tenon__thread_id(void)
{
    return (uintptr_t)pthread_self();
}

/* One lock for all crews: there is one loop at a time, and a helper takes it twice. */
static pthread_mutex_t crew_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t crew_left = PTHREAD_COND_INITIALIZER;

bool tenon__crew_join(tenon__crew *crew)
{
    pthread_mutex_lock(&crew_mutex);
    bool joined = !crew->closed;
    crew->members += joined;
    pthread_mutex_unlock(&crew_mutex);
    return joined;
}

void tenon__crew_leave(tenon__crew *crew)
{
    pthread_mutex_lock(&crew_mutex);
    if (--crew->members == 0)
        pthread_cond_broadcast(&crew_left);
    pthread_mutex_unlock(&crew_mutex);
}

void tenon__crew_close(tenon__crew *crew)
{
    pthread_mutex_lock(&crew_mutex);
    crew->closed = true;
    while (crew->members > 0)
        pthread_cond_wait(&crew_left, &crew_mutex);
    pthread_mutex_unlock(&crew_mutex);
}

#endif
