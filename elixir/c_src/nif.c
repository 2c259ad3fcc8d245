
#include "nif.h"

/* ------------------------------------------------------------------------------------------------------ schedulers */

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

tenon_nif_atom_table tenon_nif_atoms;

/* storage.c */
bool tenon_nif_storage_init(ErlNifEnv *env);

static ErlNifFunc functions[] = {
    {"from_binary", 5, tenon_nif_from_binary, 0},
    {"to_binary", 2, tenon_nif_to_binary, 0},
    {"zeros", 2, tenon_nif_zeros, 0},
    {"from_list", 2, tenon_nif_from_list, 0},
    {"to_list", 1, tenon_nif_to_list, 0},
    {"slice", 4, tenon_nif_slice, 0},
    {"transpose", 2, tenon_nif_transpose, 0},
    {"reshape", 2, tenon_nif_reshape, 0},
    {"broadcast", 2, tenon_nif_broadcast, 0},
    {"squeeze", 2, tenon_nif_squeeze, 0},
    {"new_axis", 2, tenon_nif_new_axis, 0},
    {"writable", 1, tenon_nif_writable, 0},
    {"copied", 1, tenon_nif_copied, 0},
    {"unowned", 1, tenon_nif_unowned, 0},
    {"release", 1, tenon_nif_release, 0},
    {"stats", 0, tenon_nif_stats, 0},
    {"to_blob", 1, tenon_nif_to_blob, 0},
    {"from_blob", 4, tenon_nif_from_blob, 0},
    {"from_resource", 4, tenon_nif_from_resource, 0},
    {"shared_zeros", 2, tenon_nif_shared_zeros, 0},
    {"shared_share", 1, tenon_nif_shared_share, 0},
    {"shared_freeze", 1, tenon_nif_shared_freeze, 0},
    {"shared_name", 1, tenon_nif_shared_name, 0},
    /* The name may lead to a file whose system does not answer. */
    {"shared_attach", 2, tenon_nif_shared_attach, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"library_open", 2, tenon_nif_library_open, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"library_describe", 1, tenon_nif_library_describe, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"call", 3, tenon_nif_call, 0},
    {"close", 4, tenon_nif_close, 0},
};

static void init_atoms(ErlNifEnv *env)
{
#define INIT_ATOM(name) tenon_nif_atoms.name = enif_make_atom(env, #name);
    TENON_NIF_ATOMS(INIT_ATOM)
#undef INIT_ATOM
    tenon_nif_atoms.yes = enif_make_atom(env, "true");
    tenon_nif_atoms.no = enif_make_atom(env, "false");
    tenon_nif_atoms.boolean = enif_make_atom(env, "bool");
    tenon_nif_atoms.tensor_module = enif_make_atom(env, "Elixir.Tenon.Tensor");
    tenon_nif_atoms.error_module = enif_make_atom(env, "Elixir.Tenon.Error");
}

/* ---------------------------------------------------------------------------------------------------------- upgrades
 *
 * After an upgrade to another copy of this library the older copy stays mapped, and its reaper keeps running. Each copy
 * has a core with its own counters. One may count up what another counts down, so only the sum is meaningful. */

typedef struct copy {
    uint64_t
        layout; /* of this struct, libraries, storages, tensors and handles: a copy with another layout cannot take over */
    tenon_stats (*stats)(void);
    tenon_nif_opened *(*opened)(void);
    tenon_status (*open_library)(const char *path, const tenon_module **out, tenon_error *err); /* of the first copy */
    struct copy *older;
} copy;

enum { COPY_LAYOUT = 9 };

static tenon_stats own_stats(void)
{
    tenon_stats counts = tenon_stats_read();
    counts.bytes += tenon_nif_held_bytes();
    return counts;
}

static copy this_copy = {COPY_LAYOUT, own_stats, tenon_nif_library_opened, tenon_library_open, NULL};

tenon_status tenon_nif_open_library(const char *path, const tenon_module **out, tenon_error *err)
{
    return this_copy.open_library(path, out, err);
}

TENON_NIF(stats)
{
    (void)argc;
    (void)argv;
    int64_t live = 0, bytes = 0, deferred = 0;
    for (const copy *each = &this_copy; each; each = each->older) {
        tenon_stats counts = each->stats();
        live += counts.tensors;
        bytes += counts.bytes;
        deferred += counts.deferred;
    }
    ERL_NIF_TERM keys[] = {tenon_nif_atoms.live, tenon_nif_atoms.bytes, tenon_nif_atoms.deferred}, map;
    ERL_NIF_TERM values[] = {enif_make_int64(env, live), enif_make_int64(env, bytes), enif_make_int64(env, deferred)};
    enif_make_map_from_arrays(env, keys, values, 3, &map);
    return map;
}

static int start(ErlNifEnv *env, void **private_data, tenon_nif_opened *earlier)
{
    init_atoms(env);
    tenon_nif_terms_init(env);
    *private_data = &this_copy;
    return tenon_nif_storage_init(env) && tenon_nif_library_init(env, earlier) ? 0 : 1;
}

static int load(ErlNifEnv *env, void **private_data, ERL_NIF_TERM info)
{
    (void)info;
    return start(env, private_data, NULL);
}

/* The old copy may be this same copy, or have it in its list of older copies. */
static int upgrade(ErlNifEnv *env, void **private_data, void **old_private_data, ERL_NIF_TERM info)
{
    (void)info;
    copy *old = *old_private_data;
    if (old->layout != COPY_LAYOUT)
        return 1;
    if (old != &this_copy) {
        for (copy **link = &old->older; *link; link = &(*link)->older) {
            if (*link == &this_copy) {
                *link = this_copy.older;
                break;
            }
        }
        this_copy.older = old;
        this_copy.open_library = old->open_library;
    }
    return start(env, private_data, old == &this_copy ? NULL : old->opened());
}

ERL_NIF_INIT(Elixir.Tenon.Nif, functions, load, NULL, upgrade, NULL)
