/* The table of the functions that compiled programs may call: a hash table that only grows, so that it is read without a
 * lock. */
#include "internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { JAX_BUCKETS = 1024 };

static _Atomic(tenon__jax_function *) jax_buckets[JAX_BUCKETS];

/* Each call compares a short name; libc's memcmp takes longer. */
static bool jax_equal(const char *a, const char *b, size_t length)
{
    if (length < 8)
        return memcmp(a, b, length) == 0;
    for (size_t i = 0; i + 8 < length; i += 8)
        if (memcmp(a + i, b + i, 8) != 0)
            return false;
    return memcmp(a + length - 8, b + length - 8, 8) == 0;
}

/* By name only, so that all versions of a function are in one list. The functions of a module differ in their last
 * characters. */
JAX_INLINE _Atomic(tenon__jax_function *) *jax_bucket(xla_span fn)
{
    uint64_t last = 0;
    if (fn.length >= sizeof last)
        memcpy(&last, fn.text + fn.length - sizeof last, sizeof last);
    else if (fn.length)
        memcpy(&last, fn.text, fn.length);
    uint64_t mixed = (last + fn.length) * 0x9e3779b97f4a7c15u;
    return &jax_buckets[(mixed >> 32) % JAX_BUCKETS];
}

JAX_INLINE const tenon__jax_function *jax_search(const tenon__jax_function *list, xla_span fn, xla_span hash)
{
    for (; list; list = list->next) {
        if (list->length == fn.length && jax_equal(list->fn, fn.text, fn.length) &&
            (!hash.text ||
             (hash.length == TENON_HASH_SIZE - 1 && memcmp(list->hash, hash.text, TENON_HASH_SIZE - 1) == 0)))
            return list;
    }
    return NULL;
}

const tenon__jax_function *tenon__jax_find(xla_span fn, xla_span hash)
{
    return jax_search(atomic_load_explicit(jax_bucket(fn), memory_order_acquire), fn, hash);
}

/* The length of the module's name in "module.function". */
static size_t jax_module_length(const char *fn, size_t length)
{
    while (length && fn[length - 1] != '.')
        length--;
    return length ? length - 1 : 0;
}

const tenon__jax_function *tenon__jax_find_renamed(xla_span fn, xla_span hash)
{
    size_t module = jax_module_length(fn.text, fn.length), rest = fn.length - module;
    if (!module || hash.length != TENON_HASH_SIZE - 1)
        return NULL;
    for (size_t i = 0; i < JAX_BUCKETS; i++) {
        const tenon__jax_function *f = atomic_load_explicit(&jax_buckets[i], memory_order_acquire);
        for (; f; f = f->next)
            if (memcmp(f->hash, hash.text, hash.length) == 0 &&
                f->length - jax_module_length(f->fn, f->length) == rest &&
                memcmp(f->fn + f->length - rest, fn.text + module, rest) == 0)
                return f;
    }
    return NULL;
}

/* Why XLA cannot call a function with this signature, or NULL. */
static const char *jax_obstacle(const tenon_signature *s)
{
    for (int32_t i = 0; i < s->nparams; i++) {
        if (s->params[i].kind == TENON_KIND_CALLABLE)
            return "a parameter is a callable, which a program of XLA cannot call";
        if (s->params[i].kind == TENON_KIND_BYTES || s->params[i].kind == TENON_KIND_STRS)
            return "a parameter is bytes or a list of strings, which XLA cannot pass";
        if (s->params[i].kind == TENON_KIND_HANDLE)
            return "a parameter is a handle";
        if (s->params[i].flags & TENON_PARAMETER_KEEP)
            return "it keeps an argument, whose memory XLA uses again after the call";
    }
    for (int32_t i = 0; i < s->nresults; i++) {
        const tenon_parameter *result = &s->results[i];
        if (result->flags & TENON_PARAMETER_OPTIONAL)
            return "a result is optional";
        if (result->flags & TENON_PARAMETER_OPEN)
            return "the size of a result is known only to the function";
        if (!result->items && (result->kind < TENON_KIND_TENSOR || result->kind > TENON_KIND_BOOL))
            return "a result is neither a tensor nor a number";
    }
    return s->nresults == 0 && s->nwritten == 0 ? "it neither returns nor writes anything" : NULL;
}

static void jax_function_free(tenon__jax_function *function)
{
    tenon_library_lock_release(function->library_lock);
    tenon_signature_release(function->signature);
    free(function);
}

/* NULL with an error. */
static tenon__jax_function *jax_function_new(xla_span fn, const char *hash, const tenon_function *function,
                                             const void *library, tenon_error *err)
{
    tenon__jax_function *made = calloc(1, sizeof *made + fn.length + 1);
    if (!made) {
        tenon_error_set(err, TENON_ENOMEM, "out of memory");
        return NULL;
    }
    made->function = *function;
    made->length = fn.length;
    memcpy(made->fn, fn.text, fn.length);
    memcpy(made->hash, hash, sizeof made->hash);
    tenon_status status = tenon_signature_alloc(function->signature, NULL, TENON_HOST_LAYOUT, &made->signature, err);
    const char *obstacle = status ? NULL : jax_obstacle(made->signature);
    if (obstacle)
        status = tenon_error_set(err, TENON_EINVAL, "%s(): XLA cannot call it: %s", made->signature->name, obstacle);
    if (!status && !(function->flags & TENON_RELEASE_LOCK) &&
        !(made->library_lock = tenon_library_lock_retain(library)))
        status = tenon_error_set(err, TENON_ENOMEM, "out of memory");
    if (!status)
        return made;
    jax_function_free(made);
    return NULL;
}

tenon_status tenon__jax_register(const char *fn, const char *hash, const tenon_function *function, void *state,
                                 const void *library, bool *added, tenon_error *err)
{
    xla_span name = {fn, strlen(fn)}, digits = {hash, strlen(hash)};
    _Atomic(tenon__jax_function *) *bucket = jax_bucket(name);
    *added = false;
    if (digits.length != TENON_HASH_SIZE - 1)
        return tenon_error_set(err, TENON_EINVAL, "a hash has 32 digits");
    if (tenon__jax_find(name, digits))
        return TENON_OK;
    tenon__jax_function *made = jax_function_new(name, hash, function, library, err);
    if (!made)
        return err->status;
    tenon__jax_call_init(made, state);
    made->next = atomic_load_explicit(bucket, memory_order_acquire);
    do { /* another thread may add the same one meanwhile */
        if (jax_search(made->next, name, digits)) {
            jax_function_free(made);
            return TENON_OK;
        }
    } while (
        !atomic_compare_exchange_weak_explicit(bucket, &made->next, made, memory_order_release, memory_order_acquire));
    *added = true;
    return TENON_OK;
}
