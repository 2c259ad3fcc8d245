/* An OpenMP runtime for tests, as far as Tenon uses one: its threads are plain threads, which sanitizers understand. */
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4 };

void GOMP_parallel(void (*work)(void *data), void *data, unsigned threads, unsigned flags);
int omp_get_max_threads(void);
int omp_in_parallel(void);

int openmp_regions;        /* how many have run */
unsigned openmp_team_size; /* of the last one */
int openmp_in_parallel;    /* what omp_in_parallel says */

typedef struct member {
    void (*work)(void *data);
    void *data;
} member;

static void *run_member(void *pointer)
{
    member *m = pointer;
    m->work(m->data);
    return NULL;
}

void GOMP_parallel(void (*work)(void *data), void *data, unsigned threads, unsigned flags)
{
    member m = {work, data};
    pthread_t team[64];
    (void)flags;
    openmp_regions++;
    openmp_team_size = threads;
    if (threads > 64)
        abort();
    for (unsigned i = 1; i < threads; i++)
        if (pthread_create(&team[i], NULL, run_member, &m) != 0)
            abort();
    work(data);
    for (unsigned i = 1; i < threads; i++)
        pthread_join(team[i], NULL);
}

int omp_get_max_threads(void)
{
    return THREADS;
}

int omp_in_parallel(void)
{
    return openmp_in_parallel;
}
