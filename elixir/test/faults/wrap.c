/* Linked into the NIF with -Wl,--wrap (tools/check-elixir): the n-th allocation that the NIF or its core makes fails.
 *
 * enif_alloc_resource is left out, since the VM ends by itself if that has no memory. control.c finds these functions in the loaded
 * NIF. */
#include <erl_nif.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

static _Atomic int64_t made, fail_at, held;

/* Let the n-th allocation fail, counted from 1 and from now on; 0: none. */
EXPORTED void faults_arm(int64_t n);
/* The number of allocations since then. */
EXPORTED int64_t faults_disarm(void);
/* Blocks that were allocated and not freed. Binaries do not count: terms take them. */
EXPORTED int64_t faults_held(void);

void faults_arm(int64_t n)
{
    atomic_store(&made, 0);
    atomic_store(&fail_at, n);
}

int64_t faults_disarm(void)
{
    atomic_store(&fail_at, 0);
    return atomic_load(&made);
}

int64_t faults_held(void)
{
    return atomic_load(&held);
}

static bool fails(void)
{
    return atomic_fetch_add(&made, 1) + 1 == atomic_load(&fail_at);
}

static void *count(void *block)
{
    if (block)
        atomic_fetch_add(&held, 1);
    return block;
}

#define UNLESS_IT_FAILS(call) (fails() ? NULL : count(call))

void *__real_malloc(size_t), *__real_calloc(size_t, size_t), *__real_realloc(void *, size_t);
void *__real_enif_alloc(size_t), *__real_enif_realloc(void *, size_t);
ErlNifEnv *__real_enif_alloc_env(void);
int __real_enif_alloc_binary(size_t, ErlNifBinary *);
void __real_free(void *), __real_enif_free(void *), __real_enif_free_env(ErlNifEnv *);

void *__wrap_malloc(size_t);
void *__wrap_malloc(size_t size)
{
    return UNLESS_IT_FAILS(__real_malloc(size));
}

void *__wrap_calloc(size_t, size_t);
void *__wrap_calloc(size_t number, size_t size)
{
    return UNLESS_IT_FAILS(__real_calloc(number, size));
}

void *__wrap_realloc(void *, size_t);
void *__wrap_realloc(void *block, size_t size)
{
    return fails() ? NULL : block ? __real_realloc(block, size) : count(__real_realloc(NULL, size));
}

void *__wrap_enif_alloc(size_t);
void *__wrap_enif_alloc(size_t size)
{
    return UNLESS_IT_FAILS(__real_enif_alloc(size));
}

void *__wrap_enif_realloc(void *, size_t);
void *__wrap_enif_realloc(void *block, size_t size)
{
    return fails() ? NULL : block ? __real_enif_realloc(block, size) : count(__real_enif_realloc(NULL, size));
}

ErlNifEnv *__wrap_enif_alloc_env(void);
ErlNifEnv *__wrap_enif_alloc_env(void)
{
    return UNLESS_IT_FAILS(__real_enif_alloc_env());
}

int __wrap_enif_alloc_binary(size_t, ErlNifBinary *);
int __wrap_enif_alloc_binary(size_t size, ErlNifBinary *out)
{
    return !fails() && __real_enif_alloc_binary(size, out);
}

void __wrap_free(void *);
void __wrap_free(void *block)
{
    atomic_fetch_sub(&held, block != NULL);
    __real_free(block);
}

void __wrap_enif_free(void *);
void __wrap_enif_free(void *block)
{
    atomic_fetch_sub(&held, block != NULL);
    __real_enif_free(block);
}

void __wrap_enif_free_env(ErlNifEnv *);
void __wrap_enif_free_env(ErlNifEnv *env)
{
    atomic_fetch_sub(&held, 1);
    __real_enif_free_env(env);
}
