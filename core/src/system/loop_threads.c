/* What a parallel loop needs of the system: which process and thread it runs in, and a way to wait for threads. */
#define _POSIX_C_SOURCE 200809L /* pthread.h */

#include "internal.h"

#ifdef TENON__POSIX
#include <pthread.h>
#include <stdatomic.h>
#endif

#ifdef TENON__POSIX

static _Atomic int first_process; /* that used the core */

void tenon__process_note(void)
{
    int unknown = 0;
    if (atomic_load_explicit(&first_process, memory_order_relaxed) == 0)
        atomic_compare_exchange_strong(&first_process, &unknown, tenon__process_id());
}

bool tenon__process_is_forked(void)
{
    return atomic_load_explicit(&first_process, memory_order_relaxed) != tenon__process_id();
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
