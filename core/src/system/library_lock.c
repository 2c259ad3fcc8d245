/* Turns: the functions of a library that do not release the runtime's lock run one at a time, even in hosts whose threads
 * have no such lock. */
#define _POSIX_C_SOURCE 200809L /* PTHREAD_MUTEX_RECURSIVE */

#include "internal.h"

#if defined(TENON__WINDOWS)
#include <stdlib.h>
#define WIN32_LEAN_AND_MEAN /* without macros such as `interface` */
#include <windows.h>
#undef near /* sources that follow in the bundle use these names */
#undef far
#elif defined(TENON__POSIX)
#include <pthread.h>
#include <stdlib.h>
#endif

#ifndef TENON_NO_SYSTEM

#ifdef TENON__WINDOWS
typedef CRITICAL_SECTION library_mutex; /* recursive */
#else
typedef pthread_mutex_t library_mutex;
#endif

struct tenon_library_lock {
    tenon_library_lock *next;
    const void *library;
    int64_t users;
    library_mutex mutex;
};

static tenon_library_lock *all_library_locks;

#ifdef TENON__WINDOWS

static SRWLOCK library_locks_mutex = SRWLOCK_INIT;

static void init_library_lock(tenon_library_lock *lock)
{
    InitializeCriticalSection(&lock->mutex);
}

static void destroy_library_lock(tenon_library_lock *lock)
{
    DeleteCriticalSection(&lock->mutex);
}

static void lock_library_locks(void)
{
    AcquireSRWLockExclusive(&library_locks_mutex);
}

static void unlock_library_locks(void)
{
    ReleaseSRWLockExclusive(&library_locks_mutex);
}

void tenon_library_lock_enter(tenon_library_lock *lock)
{
    if (lock)
        EnterCriticalSection(&lock->mutex);
}

void tenon_library_lock_leave(tenon_library_lock *lock)
{
    if (lock)
        LeaveCriticalSection(&lock->mutex);
}

#else

static pthread_mutex_t library_locks_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t library_locks_once = PTHREAD_ONCE_INIT;

static void init_library_lock(tenon_library_lock *lock)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE); /* a function may call others of its library */
    pthread_mutex_init(&lock->mutex, &kind);
    pthread_mutexattr_destroy(&kind);
}

static void destroy_library_lock(tenon_library_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

static void lock_library_locks(void)
{
    pthread_mutex_lock(&library_locks_mutex);
}

static void unlock_library_locks(void)
{
    pthread_mutex_unlock(&library_locks_mutex);
}

/* The threads that were in a library do not exist in a child process. */
static void reset_library_locks(void)
{
    for (tenon_library_lock *lock = all_library_locks; lock; lock = lock->next)
        init_library_lock(lock);
    pthread_mutex_init(&library_locks_mutex, NULL);
}

static void watch_forks_of_library_locks(void)
{
    pthread_atfork(lock_library_locks, unlock_library_locks, reset_library_locks);
}

void tenon_library_lock_enter(tenon_library_lock *lock)
{
    if (lock)
        pthread_mutex_lock(&lock->mutex);
}

void tenon_library_lock_leave(tenon_library_lock *lock)
{
    if (lock)
        pthread_mutex_unlock(&lock->mutex);
}

#endif

tenon_library_lock *tenon_library_lock_retain(const void *library)
{
#ifdef TENON__POSIX
    pthread_once(&library_locks_once, watch_forks_of_library_locks);
#endif
    lock_library_locks();
    tenon_library_lock *lock = all_library_locks;
    while (lock && lock->library != library)
        lock = lock->next;
    if (!lock && (lock = malloc(sizeof *lock))) {
        lock->library = library;
        lock->users = 0;
        lock->next = all_library_locks;
        init_library_lock(lock);
        all_library_locks = lock;
    }
    if (lock)
        lock->users++;
    unlock_library_locks();
    return lock;
}

void tenon_library_lock_release(tenon_library_lock *lock)
{
    if (!lock)
        return;
    lock_library_locks();
    bool last = --lock->users == 0;
    if (last) {
        tenon_library_lock **link = &all_library_locks;
        while (*link != lock)
            link = &(*link)->next;
        *link = lock->next;
        destroy_library_lock(lock);
    }
    unlock_library_locks();
    if (last)
        free(lock);
}

#endif
