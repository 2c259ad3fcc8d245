/* A NIF by which Elixir calls the functions of wrap.c, which are in another NIF. */
#include <dlfcn.h>
#include <erl_nif.h>
#include <stdint.h>
#include <string.h>

static void (*arm)(int64_t);
static int64_t (*disarm)(void);
static int64_t (*held)(void);

static ERL_NIF_TERM nif_find(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    char path[4096];
    (void)argc;
    void *nif = enif_get_string(env, argv[0], path, sizeof path, ERL_NIF_LATIN1) > 0
                    ? dlopen(path, RTLD_NOW | RTLD_NOLOAD)
                    : NULL;
    if (!nif)
        return enif_make_badarg(env);
    *(void **)&arm = dlsym(nif, "faults_arm");
    *(void **)&disarm = dlsym(nif, "faults_disarm");
    *(void **)&held = dlsym(nif, "faults_held");
    return arm && disarm && held ? enif_make_atom(env, "ok") : enif_make_badarg(env);
}

static ERL_NIF_TERM nif_arm(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ErlNifSInt64 n;
    (void)argc;
    if (!enif_get_int64(env, argv[0], &n))
        return enif_make_badarg(env);
    arm(n);
    return enif_make_atom(env, "ok");
}

static ERL_NIF_TERM nif_disarm(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    return enif_make_int64(env, disarm());
}

static ERL_NIF_TERM nif_held(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    return enif_make_int64(env, held());
}

static ErlNifFunc functions[] = {
    {"find", 1, nif_find, 0}, {"arm", 1, nif_arm, 0}, {"disarm", 0, nif_disarm, 0}, {"held", 0, nif_held, 0}};

ERL_NIF_INIT(Elixir.Tenon.Faults, functions, NULL, NULL, NULL, NULL)
