/* Turns: the functions of a library that do not release the runtime's lock run one at a time, even in hosts whose threads
 * have no such lock. */
#define _POSIX_C_SOURCE 200809L /* PTHREAD_MUTEX_RECURSIVE */

#include "system.h"

#if defined(TENON__WINDOWS)
#include <stdlib.h>
#define WIN32_LEAN_AND_MEAN /* without macros such as `interface` */
#include <windows.h>
#elif defined(TENON__POSIX)
#include <pthread.h>
#include <stdlib.h>
#endif

#ifndef TENON_NO_SYSTEM

#ifdef TENON__WINDOWS
typedef CRITICAL_SECTION turn_mutex; /* recursive */
#else
typedef pthread_mutex_t turn_mutex;
#endif

struct tenon_turn {
    tenon_turn *next;
    const void *library;
    int64_t users;
    turn_mutex mutex;
};

static tenon_turn *all_turns;

#ifdef TENON__WINDOWS

static SRWLOCK turns_lock = SRWLOCK_INIT;

static void init_turn(tenon_turn *turn)
{
    InitializeCriticalSection(&turn->mutex);
}

static void destroy_turn(tenon_turn *turn)
{
    DeleteCriticalSection(&turn->mutex);
}

static void lock_turns(void)
{
    AcquireSRWLockExclusive(&turns_lock);
}

static void unlock_turns(void)
{
    ReleaseSRWLockExclusive(&turns_lock);
}

void tenon_turn_enter(tenon_turn *turn)
{
    if (turn)
        EnterCriticalSection(&turn->mutex);
}

void tenon_turn_leave(tenon_turn *turn)
{
    if (turn)
        LeaveCriticalSection(&turn->mutex);
}

#else

static pthread_mutex_t turns_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t turns_once = PTHREAD_ONCE_INIT;

static void init_turn(tenon_turn *turn)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE); /* a function may call others of its library */
    pthread_mutex_init(&turn->mutex, &kind);
    pthread_mutexattr_destroy(&kind);
}

static void destroy_turn(tenon_turn *turn)
{
    pthread_mutex_destroy(&turn->mutex);
}

static void lock_turns(void)
{
    pthread_mutex_lock(&turns_lock);
}

static void unlock_turns(void)
{
    pthread_mutex_unlock(&turns_lock);
}

/* The threads that were in their turn do not exist in a child process. */
static void reset_turns(void)
{
    for (tenon_turn *turn = all_turns; turn; turn = turn->next)
        init_turn(turn);
    pthread_mutex_init(&turns_lock, NULL);
}

static void watch_turns(void)
{
    pthread_atfork(lock_turns, unlock_turns, reset_turns);
}

void tenon_turn_enter(tenon_turn *turn)
{
    if (turn)
        pthread_mutex_lock(&turn->mutex);
}

void tenon_turn_leave(tenon_turn *turn)
{
    if (turn)
        pthread_mutex_unlock(&turn->mutex);
}

#endif

tenon_turn *tenon_turn_retain(const void *library)
{
#ifdef TENON__POSIX
    pthread_once(&turns_once, watch_turns);
#endif
    lock_turns();
    tenon_turn *turn = all_turns;
    while (turn && turn->library != library)
        turn = turn->next;
    if (!turn && (turn = malloc(sizeof *turn))) {
        turn->library = library;
        turn->users = 0;
        turn->next = all_turns;
        init_turn(turn);
        all_turns = turn;
    }
    if (turn)
        turn->users++;
    unlock_turns();
    return turn;
}

void tenon_turn_release(tenon_turn *turn)
{
    if (!turn)
        return;
    lock_turns();
    bool last = --turn->users == 0;
    if (last) {
        tenon_turn **link = &all_turns;
        while (*link != turn)
            link = &(*link)->next;
        *link = turn->next;
        destroy_turn(turn);
    }
    unlock_turns();
    if (last)
        free(turn);
}

#endif
