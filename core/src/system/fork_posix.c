/* Handlers that run around a fork. */
#include "system.h"

#ifdef TENON__POSIX
#include <pthread.h>
#endif

#ifdef TENON__POSIX

void tenon__at_fork(void (*before)(void), void (*after)(void))
{
    pthread_atfork(before, after, after);
}

#endif
