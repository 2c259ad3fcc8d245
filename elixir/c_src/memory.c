/* Memory of the tensors that Tenon makes: binaries of the runtime, so that the garbage collector knows their size. */
#include "nif.h"

#include <string.h>

/* The alignment of a tensor's elements inside its binary. */
enum { ALIGNMENT = 64 };

static _Atomic int64_t held_bytes;

/* A binary. It is private until it is published, and from then on a term in an environment of its own. */
typedef struct block {
    ErlNifBinary bytes;
    ErlNifEnv *env; /* NULL until it is published */
    ERL_NIF_TERM term;
    int64_t size; /* of the elements */
} block;

static void release_block(void *owner)
{
    block *b = owner;
    atomic_fetch_sub_explicit(&held_bytes, b->size, memory_order_relaxed);
    if (b->env)
        enif_free_env(b->env);
    else
        enif_release_binary(&b->bytes);
    enif_free(b);
}

int64_t tenon_nif_held_bytes(void)
{
    return atomic_load_explicit(&held_bytes, memory_order_relaxed);
}

static tenon_status alloc_block(size_t size, bool zeroed, block **out)
{
    block *b = enif_alloc(sizeof *b);
    if (!b)
        return TENON_ENOMEM;
    if (!enif_alloc_binary(size + ALIGNMENT, &b->bytes)) {
        enif_free(b);
        return TENON_ENOMEM;
    }
    if (zeroed)
        memset(b->bytes.data, 0, b->bytes.size);
    b->env = NULL;
    b->size = (int64_t)size;
    atomic_fetch_add_explicit(&held_bytes, b->size, memory_order_relaxed);
    *out = b;
    return TENON_OK;
}

tenon_status tenon_nif_alloc(tenon_dtype dtype, int32_t ndim, const int64_t *shape, uint32_t options,
                             tenon_tensor **out, tenon_error *err)
{
    int64_t numel, size;
    block *b;
    if (tenon_shape_numel(ndim, shape, &numel, NULL) || __builtin_mul_overflow(numel, dtype.bits / 8, &size) ||
        size > INT64_MAX - ALIGNMENT)
        return tenon_tensor_alloc(dtype, ndim, shape, options, out, err);
    if (size < TENON_NIF_CHARGED_BYTES) { /* the C library's calloc has no fast path for small blocks */
        tenon_status status = tenon_tensor_alloc(dtype, ndim, shape, 0, out, err);
        if (!status && (options & TENON_ZEROED))
            memset(tenon_tensor_view(*out)->data, 0, (size_t)size);
        return status;
    }
    if (alloc_block((size_t)size, options & TENON_ZEROED, &b))
        return tenon_error_set(err, TENON_ENOMEM, "no memory for %lld bytes", (long long)size);
    size_t skipped = (ALIGNMENT - (uintptr_t)b->bytes.data % ALIGNMENT) % ALIGNMENT;
    tenon_blob blob = {.data = b->bytes.data + skipped,
                       .data_size = (uint64_t)size,
                       .dtype = dtype,
                       .ndim = ndim,
                       .shape = shape,
                       .owner = b,
                       .release = release_block};
    tenon_status status = tenon_tensor_from_blob(&blob, out, err);
    if (status)
        release_block(b);
    return status;
}

bool tenon_nif_publish(ErlNifEnv *env, tenon_tensor *tensor)
{
    block *b = tenon_tensor_owner(tensor, release_block);
    if (!b || b->env)
        return true;
    ErlNifEnv *own = enif_alloc_env();
    if (!own)
        return false;
    /* The caller's process is charged for the term that is made first. No other term refers to it, so the next garbage
     * collection frees it, which comes sooner if the binary is larger. */
    b->term = enif_make_copy(own, enif_make_binary(env, &b->bytes));
    b->env = own;
    return true;
}

bool tenon_nif_binary_of(ErlNifEnv *env, const tenon_tensor *root, ERL_NIF_TERM *out)
{
    const block *b = tenon_tensor_owner(root, release_block);
    if (!b || !b->env)
        return false;
    *out = enif_make_copy(env, b->term);
    return true;
}

ERL_NIF_TERM tenon_nif_charged(ErlNifEnv *env, ERL_NIF_TERM result, uint64_t bytes)
{
    if (bytes < TENON_NIF_CHARGED_BYTES)
        return result;
    tenon_nif_report(env, bytes / TENON_NIF_BYTES_PER_MICROSECOND);
    return enif_make_tuple3(env, tenon_nif_atoms.charge, enif_make_uint64(env, bytes), result);
}
