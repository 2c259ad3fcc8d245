/* Scheduling: moving work to dirty schedulers, and reporting its time. */
#include "nif.h"

ERL_NIF_TERM tenon_nif_dirty(ErlNifEnv *env, const char *name,
                             ERL_NIF_TERM (*nif)(ErlNifEnv *, int, const ERL_NIF_TERM[]), int argc,
                             const ERL_NIF_TERM argv[])
{
    return enif_schedule_nif(env, name, ERL_NIF_DIRTY_JOB_CPU_BOUND, nif, argc, argv);
}

void tenon_nif_report(ErlNifEnv *env, uint64_t micros)
{
    /* A timeslice is a millisecond; less than a percent of it is not worth the call. */
    if (micros > 1 && enif_thread_type() == ERL_NIF_THR_NORMAL_SCHEDULER)
        enif_consume_timeslice(env, micros < 990 ? 1 + (int)micros / 10 : 100);
}
