/* Tensors in memory that other processes attach to. The other processes may write to it, so its storages are foreign. */
#include "nif.h"

#include <string.h>

static const tenon_nif_shared own_core = {tenon_shared_seal, tenon_shared_name};

/* Each tensor has a file descriptor, of which a process has about a thousand. It is charged as this many bytes, so that a
 * process collects its garbage after 256 of them. */
enum { DESCRIPTOR_CHARGE = 128 * 1024 };

/* {:ok, t} for a tensor of the core, which is taken. `immutable`: no process can write to it. */
static ERL_NIF_TERM make_shared(ErlNifEnv *env, tenon_tensor *tensor, bool immutable, uint64_t bytes,
                                const char *function, const char *argument)
{
    tenon_nif_storage *storage;
    ERL_NIF_TERM error;
    if (!tenon_nif_adopt(env, tensor, function, argument, &storage, &error))
        return error;
    storage->shared = &own_core;
    if (immutable)
        (void)tenon_nif_freeze(storage);
    ERL_NIF_TERM term = tenon_nif_make_tensor(env, tenon_tensor_retain(tensor), storage);
    tenon_nif_storage_release(storage);
    return tenon_nif_charged(env, tenon_nif_ok(env, term), bytes > DESCRIPTOR_CHARGE ? bytes : DESCRIPTOR_CHARGE);
}

/* ------------------------------------------------------------------------------------------------------------- make */

static ERL_NIF_TERM zeros(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    const char *function = "zeros";
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    tenon_dtype dtype;
    tenon_tensor *tensor;
    tenon_error err;
    ERL_NIF_TERM error;
    if (!tenon_nif_get_layout(env, argv, function, &ndim, shape, &dtype, &error))
        return error;
    if (tenon_shared_zeros(dtype, ndim, shape, &tensor, &err))
        return tenon_nif_core_error(env, &err, function, "shape");
    uint64_t bytes = (uint64_t)tenon_view_nbytes(tenon_tensor_view(tensor));
    return make_shared(env, tensor, false, bytes, function, "shape");
}

TENON_NIF(shared_zeros)
{
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    tenon_dtype dtype;
    bool is_large = tenon_nif_get_dims(env, argv[0], &ndim, shape) && tenon_nif_get_type(env, argv[1], &dtype) &&
                    tenon_nif_is_large(ndim, shape, dtype);
    return is_large ? tenon_nif_dirty(env, "zeros", zeros, argc, argv) : zeros(env, argc, argv);
}

/* A frozen copy of a view, which the caller may read. */
static ERL_NIF_TERM share_view(ErlNifEnv *env, const tenon_view *view)
{
    const char *function = "share", *argument = "tensor";
    tenon_tensor *tensor;
    tenon_error err;
    if (tenon_shared_zeros(view->dtype, view->ndim, view->shape, &tensor, &err))
        return tenon_nif_core_error(env, &err, function, argument);
    if (tenon_copy(tenon_tensor_view(tensor), view, &err) || tenon_shared_freeze(tensor, &err)) {
        tenon_tensor_release(tensor);
        return tenon_nif_core_error(env, &err, function, argument);
    }
    return make_shared(env, tensor, true, (uint64_t)tenon_view_nbytes(view), function, argument);
}

static ERL_NIF_TERM share(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    ERL_NIF_TERM result;
    tenon_nif_tensor *handle = tenon_nif_tensor_pin(env, argv[0], "share", "tensor", &result);
    if (!handle)
        return result;
    tenon_nif_access access = tenon_nif_read_begin(handle->storage);
    if (access == TENON_NIF_GRANTED) {
        result = share_view(env, tenon_tensor_view(handle->tensor));
        tenon_nif_read_end(handle->storage);
    } else {
        result = tenon_nif_access_error(env, access, "share", "tensor");
    }
    tenon_nif_tensor_unpin(handle);
    return result;
}

TENON_NIF(shared_share)
{
    ERL_NIF_TERM result;
    tenon_nif_tensor *handle = tenon_nif_tensor_pin(env, argv[0], "share", "tensor", &result);
    if (!handle)
        return result;
    const tenon_view *view = tenon_tensor_view(handle->tensor);
    if (!tenon_device_on_host(view->device)) {
        ERL_NIF_TERM device = tenon_nif_make_device(env, view->device);
        result =
            tenon_nif_error(env, enif_make_tuple3(env, tenon_nif_atoms.device_mismatch, tenon_nif_atoms.cpu, device),
                            "share", "tensor", "share(): argument 'tensor' is in memory that the CPU cannot read");
    } else if (tenon_view_nbytes(view) > TENON_NIF_DIRTY_BYTES) {
        result = tenon_nif_dirty(env, "share", share, argc, argv);
    } else {
        result = share(env, argc, argv);
    }
    tenon_nif_tensor_unpin(handle);
    return result;
}

/* ----------------------------------------------------------------------------------------------------------- attach */

static ERL_NIF_TERM attach_error(ErlNifEnv *env, const tenon_error *err)
{
    const tenon_nif_atom_table *a = &tenon_nif_atoms;
    if (err->status != TENON_EINVAL && err->status != TENON_EVERSION)
        return tenon_nif_core_error(env, err, "attach", "name");
    ERL_NIF_TERM why = err->status == TENON_EINVAL ? a->invalid : a->version;
    return tenon_nif_error(env, enif_make_tuple2(env, a->shared, why), "attach", "name", "attach(): %s",
                           tenon_error_reason(err));
}

TENON_NIF(shared_attach)
{
    (void)argc;
    const char *function = "attach";
    char name[TENON_SHARED_NAME_SIZE] = "";
    ErlNifBinary text;
    tenon_tensor *tensor;
    tenon_error err;
    bool immutable = enif_is_identical(argv[1], tenon_nif_atoms.yes);
    if (!immutable && !enif_is_identical(argv[1], tenon_nif_atoms.no))
        return tenon_nif_badarg(env, function, "immutable", "true or false");
    if (!enif_inspect_binary(env, argv[0], &text))
        return tenon_nif_badarg(env, function, "name", "a string, the name of a shared tensor");
    /* A name that is cut is not a name either, and neither is one that a zero ends early. */
    size_t length = text.size < sizeof name ? text.size : sizeof name - 1;
    memcpy(name, text.data, length);
    if (length < text.size || memchr(name, 0, length))
        return tenon_nif_error(env, enif_make_tuple2(env, tenon_nif_atoms.shared, tenon_nif_atoms.invalid), function,
                               "name", "attach(): argument 'name' is not the name of a shared tensor: \"%s\"", name);
    if (tenon_shared_attach_name(name, &tensor, &err))
        return attach_error(env, &err);
    if (immutable && !(tenon_tensor_view(tensor)->flags & TENON_READ_ONLY)) {
        tenon_tensor_release(tensor);
        return tenon_nif_badarg(env, function, "immutable", "memory that is frozen; freeze it first, in any process");
    }
    return make_shared(env, tensor, immutable, 0, function, "name");
}

/* --------------------------------------------------------------------------------------------------- name and freeze */

/* A whole shared tensor, pinned. NULL: *error is {:error, …}. */
static tenon_nif_tensor *pin_whole(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, ERL_NIF_TERM *error)
{
    tenon_nif_tensor *handle = tenon_nif_tensor_pin(env, term, function, "tensor", error);
    if (!handle || (handle->storage->shared && handle->tensor == handle->storage->root))
        return handle;
    *error = tenon_nif_badarg(env, function, "tensor",
                              handle->storage->shared ? "a whole shared tensor, got a view of one"
                                                      : "a shared tensor, from Tenon.Shared");
    tenon_nif_tensor_unpin(handle);
    return NULL;
}

TENON_NIF(shared_name)
{
    (void)argc;
    char name[TENON_SHARED_NAME_SIZE];
    tenon_error err;
    ERL_NIF_TERM result;
    tenon_nif_tensor *handle = pin_whole(env, argv[0], "name", &result);
    if (!handle)
        return result;
    if (handle->storage->shared->name(handle->tensor, name, &err)) {
        result = tenon_nif_core_error(env, &err, "name", "tensor");
    } else {
        size_t length = strlen(name);
        memcpy(enif_make_new_binary(env, length, &result), name, length);
        result = tenon_nif_ok(env, result);
    }
    tenon_nif_tensor_unpin(handle);
    return result;
}

/* Other schedulers may read the tensor and make views of it meanwhile, so it stays as it is: the state of the storage decides
 * who may write. */
static ERL_NIF_TERM freeze(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    const char *function = "freeze";
    ERL_NIF_TERM result;
    tenon_error err;
    tenon_nif_tensor *handle = pin_whole(env, argv[0], function, &result);
    if (!handle)
        return result;
    tenon_nif_storage *storage = handle->storage;
    tenon_nif_access access = tenon_nif_write_begin(storage);
    if (access == TENON_NIF_BUSY) {
        result = tenon_nif_access_error(env, access, function, "tensor");
    } else {
        /* Memory that is read-only here may still have to be sealed. */
        tenon_status status = storage->shared->seal(handle->tensor, &err);
        if (access == TENON_NIF_GRANTED && status)
            tenon_nif_write_end(storage);
        else if (access == TENON_NIF_GRANTED)
            tenon_nif_seal(storage);
        result = status ? tenon_nif_core_error(env, &err, function, "tensor") : tenon_nif_ok(env, argv[0]);
    }
    tenon_nif_tensor_unpin(handle);
    return result;
}

TENON_NIF(shared_freeze)
{
    ERL_NIF_TERM result;
    tenon_nif_tensor *handle = pin_whole(env, argv[0], "freeze", &result);
    if (!handle)
        return result;
    bool is_large = tenon_view_nbytes(tenon_tensor_view(handle->tensor)) > TENON_NIF_DIRTY_BYTES;
    tenon_nif_tensor_unpin(handle);
    return is_large ? tenon_nif_dirty(env, "freeze", freeze, argc, argv) : freeze(env, argc, argv);
}
