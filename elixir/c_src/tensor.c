#include "nif.h"

#include <inttypes.h>
#include <string.h>

/* The runtime keeps binaries up to this size on each process's heap, and copies them with their term. */
enum { HEAP_BINARY = 64 };

/* ---------------------------------------------------------------------------------------------------- from binaries */

static bool set_error(ERL_NIF_TERM *error, ERL_NIF_TERM term)
{
    *error = term;
    return false;
}

/* Copy the binary's term into an environment of its own. False if that moved its bytes, or there is no memory. */
static bool hold_term(ERL_NIF_TERM binary, const ErlNifBinary *bytes, ErlNifEnv **out, ERL_NIF_TERM *held)
{
    if (bytes->size <= HEAP_BINARY)
        return false;
    ErlNifEnv *own = enif_alloc_env();
    if (!own)
        return false;
    ErlNifBinary inside;
    *held = enif_make_copy(own, binary);
    if (!enif_inspect_binary(own, *held, &inside) || inside.data != bytes->data) {
        enif_free_env(own);
        return false;
    }
    *out = own;
    return true;
}

typedef enum copy_mode { COPY_NEVER, COPY_ALLOW, COPY_ALWAYS } copy_mode;

/* The arguments of from_binary. */
typedef struct binary_request {
    ErlNifBinary bytes;
    tenon_dtype dtype;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    copy_mode copy;
} binary_request;

static ERL_NIF_TERM no_memory(ErlNifEnv *env)
{
    return tenon_nif_error(env, tenon_nif_reason(env, TENON_ENOMEM, NULL), "from_binary", NULL,
                           "from_binary(): no memory");
}

static ERL_NIF_TERM would_copy(ErlNifEnv *env)
{
    return tenon_nif_error(env, tenon_nif_atoms.would_copy, "from_binary", "binary",
                           "from_binary(): argument 'binary': the runtime copies binaries of 64 bytes or less and "
                           "those that do not start at a byte; pass copy: :allow");
}

static bool copy_binary(ErlNifEnv *env, const binary_request *r, tenon_tensor **tensor, tenon_nif_storage **storage,
                        ERL_NIF_TERM *error)
{
    tenon_error err;
    if (tenon_nif_alloc(r->dtype, r->ndim, r->shape, 0, tensor, &err))
        return set_error(error, tenon_nif_core_error(env, &err, "from_binary", "shape"));
    if (r->bytes.size)
        memcpy(tenon_tensor_view(*tensor)->data, r->bytes.data, r->bytes.size);
    *storage =
        tenon_nif_publish(env, *tensor) ? tenon_nif_storage_alloc(*tensor, TENON_NIF_OURS, false, NULL, 0) : NULL;
    if (!*storage) {
        tenon_tensor_release(*tensor);
        return set_error(error, no_memory(env));
    }
    (*storage)->copied = true;
    return true;
}

/* Make the tensor and the storage for a binary that is held in `own`, which is taken. */
static bool wrap_binary(ErlNifEnv *env, const binary_request *r, ErlNifEnv *own, ERL_NIF_TERM held,
                        tenon_tensor **tensor, tenon_nif_storage **storage, ERL_NIF_TERM *error)
{
    tenon_error err;
    tenon_blob blob = {.data = r->bytes.data,
                       .data_size = r->bytes.size,
                       .dtype = r->dtype,
                       .ndim = r->ndim,
                       .shape = r->shape,
                       .flags = TENON_READ_ONLY};
    if (tenon_tensor_from_blob(&blob, tensor, &err)) {
        *error = tenon_nif_core_error(env, &err, "from_binary", "shape");
    } else if ((*storage = tenon_nif_storage_alloc(*tensor, TENON_NIF_BINARY, true, own, held))) {
        return true;
    } else {
        tenon_tensor_release(*tensor);
        *error = no_memory(env);
    }
    enif_free_env(own);
    return false;
}

/* Hold a binary without copying. It is copied if the runtime would move it (64 bytes or less, bits that do not start at
 * a byte) or if its address is not aligned for the dtype; storage->copied says so. True: a new reference each. */
static bool hold_binary(ErlNifEnv *env, ERL_NIF_TERM binary, bool unaligned_bits, const binary_request *r,
                        tenon_tensor **tensor, tenon_nif_storage **storage, ERL_NIF_TERM *error)
{
    const char *function = "from_binary", *argument = "binary";
    tenon_error err;
    int64_t numel, expected;
    if (tenon_shape_numel(r->ndim, r->shape, &numel, &err))
        return set_error(error, tenon_nif_core_error(env, &err, function, "shape"));
    if (__builtin_mul_overflow(numel, r->dtype.bits / 8, &expected))
        return set_error(error,
                         tenon_nif_error(env, tenon_nif_reason(env, TENON_EOVERFLOW, "shape"), function, "shape",
                                         "from_binary(): argument 'shape': its size in bytes does not fit in 64 bits"));
    if ((uint64_t)expected != r->bytes.size) {
        ERL_NIF_TERM wanted = enif_make_int64(env, expected), got = enif_make_uint64(env, r->bytes.size);
        return set_error(
            error, tenon_nif_error(env, enif_make_tuple3(env, tenon_nif_atoms.size_mismatch, wanted, got), function,
                                   argument, "%s(): argument '%s': the shape and type need %" PRId64 " bytes, got %zu",
                                   function, argument, expected, r->bytes.size));
    }
    bool aligned = (uintptr_t)r->bytes.data % tenon_dtype_alignment(r->dtype) == 0;
    ErlNifEnv *own;
    ERL_NIF_TERM held;
    if (r->copy != COPY_ALWAYS && aligned && !unaligned_bits && hold_term(binary, &r->bytes, &own, &held))
        return wrap_binary(env, r, own, held, tensor, storage, error);
    if (r->copy == COPY_NEVER && !aligned)
        return set_error(error, tenon_nif_misaligned(env, r->dtype, (uintptr_t)r->bytes.data, function, argument,
                                                     "; pass copy: :allow to copy it"));
    if (r->copy == COPY_NEVER)
        return set_error(error, would_copy(env));
    return copy_binary(env, r, tensor, storage, error);
}

bool tenon_nif_share_binary(ErlNifEnv *env, ERL_NIF_TERM binary, const tenon_view *view, tenon_tensor **tensor,
                            tenon_nif_storage **storage, ERL_NIF_TERM *error)
{
    binary_request r = {.dtype = view->dtype, .ndim = view->ndim, .copy = COPY_ALLOW};
    if (view->ndim)
        memcpy(r.shape, view->shape, (size_t)view->ndim * sizeof *r.shape);
    enif_inspect_binary(env, binary, &r.bytes);
    if (!hold_binary(env, binary, false, &r, tensor, storage, error))
        return false;
    (void)tenon_nif_freeze(*storage);
    *tensor = tenon_tensor_retain(*tensor);
    return true;
}

static bool get_copy(ERL_NIF_TERM term, copy_mode *out)
{
    if (enif_is_identical(term, tenon_nif_atoms.never))
        *out = COPY_NEVER;
    else if (enif_is_identical(term, tenon_nif_atoms.allow))
        *out = COPY_ALLOW;
    else if (enif_is_identical(term, tenon_nif_atoms.always))
        *out = COPY_ALWAYS;
    else
        return false;
    return true;
}

/* Read the arguments, except the bytes. Returns 0 or {:error, …}. */
static ERL_NIF_TERM get_request(ErlNifEnv *env, const ERL_NIF_TERM argv[], binary_request *r)
{
    const char *function = "from_binary";
    if (!enif_is_binary(env, argv[0]))
        return tenon_nif_badarg(env, function, "binary", "a binary");
    if (!tenon_nif_get_type(env, argv[2], &r->dtype))
        return tenon_nif_bad_type(env, argv[2], function, "type");
    r->ndim = 1;
    if (!enif_is_identical(argv[3], tenon_nif_atoms.nil) && !tenon_nif_get_dims(env, argv[3], &r->ndim, r->shape))
        return tenon_nif_bad_dims(env, argv[3], function, "shape", "a tuple or list of up to 64 integers");
    if (!get_copy(argv[4], &r->copy))
        return tenon_nif_badarg(env, function, "copy", ":never, :allow or :always");
    return 0;
}

static ERL_NIF_TERM from_binary(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    binary_request r;
    tenon_tensor *tensor;
    tenon_nif_storage *storage;
    ERL_NIF_TERM error = get_request(env, argv, &r);
    if (error)
        return error;
    enif_inspect_binary(env, argv[0], &r.bytes);
    if (enif_is_identical(argv[3], tenon_nif_atoms.nil)) {
        size_t item = r.dtype.bits / 8u, whole = (r.bytes.size + item - 1) / item * item;
        if (whole != r.bytes.size)
            return tenon_nif_error(env,
                                   enif_make_tuple3(env, tenon_nif_atoms.size_mismatch, enif_make_uint64(env, whole),
                                                    enif_make_uint64(env, r.bytes.size)),
                                   "from_binary", "binary",
                                   "from_binary(): argument 'binary': its size must be a multiple of %zu, but is %zu",
                                   item, r.bytes.size);
        r.shape[0] = (int64_t)(whole / item);
    }
    if (!hold_binary(env, argv[0], tenon_nif_is_copied_to_show(env, argv[1]), &r, &tensor, &storage, &error))
        return error;
    /* A tensor made from a binary is always frozen, even if a small one was copied, unless the caller asks for a copy. */
    if (r.copy != COPY_ALWAYS)
        (void)tenon_nif_freeze(storage);
    ERL_NIF_TERM term = tenon_nif_make_tensor(env, tenon_tensor_retain(tensor), storage);
    bool copied = storage->copied;
    tenon_nif_storage_release(storage);
    return tenon_nif_charged(env, tenon_nif_ok(env, term), copied ? r.bytes.size : 0);
}

TENON_NIF(from_binary)
{
    binary_request r;
    ERL_NIF_TERM error = get_request(env, argv, &r);
    if (error)
        return error;
    /* Only a copy takes long, and inspecting bits that start inside a byte is a copy too. */
    if (tenon_nif_is_copied_to_show(env, argv[1]))
        return r.copy == COPY_NEVER ? would_copy(env) : tenon_nif_dirty(env, "from_binary", from_binary, argc, argv);
    enif_inspect_binary(env, argv[0], &r.bytes);
    if (r.bytes.size > TENON_NIF_DIRTY_BYTES &&
        (r.copy == COPY_ALWAYS || (uintptr_t)r.bytes.data % tenon_dtype_alignment(r.dtype)))
        return tenon_nif_dirty(env, "from_binary", from_binary, argc, argv);
    return from_binary(env, argc, argv);
}

/* ------------------------------------------------------------------------------------------------------ to binaries */

/* Make a binary that refers to the bytes of a view, whose storage is frozen. */
static ERL_NIF_TERM make_shared_binary(ErlNifEnv *env, const tenon_view *view, size_t size, tenon_nif_storage *storage)
{
    ERL_NIF_TERM binary;
    ErlNifBinary bytes;
    if (storage->origin == TENON_NIF_BINARY)
        binary = enif_make_copy(env, storage->owner);
    else if (!tenon_nif_binary_of(env, storage->root, &binary))
        return tenon_nif_storage_binary(env, storage, view->data, size);
    enif_inspect_binary(env, binary, &bytes);
    if (size == bytes.size)
        return binary;
    return enif_make_sub_binary(env, binary, (size_t)((const unsigned char *)view->data - bytes.data), size);
}

static ERL_NIF_TERM copy_out(ErlNifEnv *env, const tenon_view *view, size_t size)
{
    ERL_NIF_TERM term;
    tenon_error err;
    int64_t dims[2 * TENON_MAX_NDIM];
    tenon_view target;
    ErlNifBinary binary;
    if (!enif_alloc_binary(size, &binary))
        return tenon_nif_error(env, tenon_nif_reason(env, TENON_ENOMEM, NULL), "to_binary", NULL,
                               "to_binary(): no memory for %zu bytes", size);
    tenon_dl_tensor source = {.data = binary.data,
                              .device = tenon_device_of(TENON_CPU, 0),
                              .ndim = view->ndim,
                              .dtype = view->dtype,
                              .shape = view->shape};
    if (tenon_view_init(&target, &source, 0, dims, &err) || tenon_copy(&target, view, &err)) {
        enif_release_binary(&binary);
        return tenon_nif_core_error(env, &err, "to_binary", "tensor");
    }
    term = enif_make_binary(env, &binary);
    return tenon_nif_ok(env, term);
}

static ERL_NIF_TERM copy_pinned(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    ERL_NIF_TERM result;
    tenon_nif_tensor *tensor = tenon_nif_tensor_pin(env, argv[0], "to_binary", "tensor", &result);
    if (!tensor)
        return result;
    tenon_nif_access access = tenon_nif_read_begin(tensor->storage);
    if (access == TENON_NIF_GRANTED) {
        const tenon_view *view = tenon_tensor_view(tensor->tensor);
        result = copy_out(env, view, (size_t)tenon_view_nbytes(view));
        tenon_nif_read_end(tensor->storage);
    } else {
        result = tenon_nif_access_error(env, access, "to_binary", "tensor");
    }
    tenon_nif_tensor_unpin(tensor);
    return result;
}

/* Why a binary cannot refer to the bytes: :not_contiguous or :would_copy; 0 if it can. */
static ERL_NIF_TERM why_copy(const tenon_view *view, tenon_nif_storage *storage, const char **text)
{
    if (!(view->flags & TENON_VIEW_C)) {
        *text = "its elements are not contiguous in C order";
        return tenon_nif_atoms.not_contiguous;
    }
    if (storage->origin == TENON_NIF_FOREIGN && !tenon_nif_frozen(storage)) {
        *text = storage->shared
                    ? "other processes may write to its memory (unless it was made by Tenon.Shared.share, or "
                      "attached with immutable: true)"
                    : "its memory is foreign and may change (unless it was made with immutable: true)";
        return tenon_nif_atoms.would_copy;
    }
    return 0;
}

TENON_NIF(to_binary)
{
    const char *function = "to_binary", *text = NULL;
    copy_mode copy;
    ERL_NIF_TERM result, why = 0;
    if (!get_copy(argv[1], &copy))
        return tenon_nif_badarg(env, function, "copy", ":never, :allow or :always");
    tenon_nif_tensor *tensor = tenon_nif_tensor_pin(env, argv[0], function, "tensor", &result);
    if (!tensor)
        return result;
    const tenon_view *view = tenon_tensor_view(tensor->tensor);
    size_t size = (size_t)tenon_view_nbytes(view);
    if (!tenon_device_on_host(view->device)) {
        ERL_NIF_TERM device = tenon_nif_make_device(env, view->device);
        result =
            tenon_nif_error(env, enif_make_tuple3(env, tenon_nif_atoms.device_mismatch, tenon_nif_atoms.cpu, device),
                            function, "tensor", "to_binary(): argument 'tensor' is in memory that the CPU cannot read");
    } else if (size == 0) { /* the binary is empty, so nothing has to be frozen */
        enif_make_new_binary(env, 0, &result);
        result = tenon_nif_ok(env, result);
    } else if (copy != COPY_ALWAYS && !(why = why_copy(view, tensor->storage, &text))) {
        tenon_nif_access access = tenon_nif_freeze(tensor->storage);
        result = access == TENON_NIF_GRANTED ? tenon_nif_ok(env, make_shared_binary(env, view, size, tensor->storage))
                                             : tenon_nif_access_error(env, access, function, "tensor");
    } else if (copy == COPY_NEVER) {
        result = tenon_nif_error(env, why, function, "tensor",
                                 "to_binary(): argument 'tensor' needs a copy: %s; pass copy: :allow", text);
    } else if (size > TENON_NIF_DIRTY_BYTES) {
        result = tenon_nif_dirty(env, function, copy_pinned, argc, argv);
    } else {
        tenon_nif_report(env, size / TENON_NIF_BYTES_PER_MICROSECOND);
        result = copy_pinned(env, argc, argv);
    }
    tenon_nif_tensor_unpin(tensor);
    return result;
}

/* ----------------------------------------------------------------------------------------------------------- others */

/* go_dirty is set if the caller should be on a dirty scheduler, and is not: the result means nothing then. */
static ERL_NIF_TERM make_zeros(ErlNifEnv *env, const ERL_NIF_TERM argv[], bool dirty, bool *go_dirty)
{
    const char *function = "zeros";
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    tenon_dtype dtype;
    tenon_tensor *tensor;
    tenon_error err;
    ERL_NIF_TERM error;
    if (!tenon_nif_get_layout(env, argv, function, &ndim, shape, &dtype, &error))
        return error;
    *go_dirty = !dirty && tenon_nif_is_large(ndim, shape, dtype);
    if (*go_dirty)
        return 0;
    if (tenon_nif_alloc(dtype, ndim, shape, TENON_ZEROED, &tensor, &err))
        return tenon_nif_core_error(env, &err, function, "shape");
    uint64_t bytes = (uint64_t)tenon_view_nbytes(tenon_tensor_view(tensor));
    ERL_NIF_TERM term = tenon_nif_make_owned(env, tensor, function);
    return enif_is_map(env, term) ? tenon_nif_charged(env, tenon_nif_ok(env, term), bytes) : term;
}

static ERL_NIF_TERM zeros_dirty(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    bool ignored;
    return make_zeros(env, argv, true, &ignored);
}

TENON_NIF(zeros)
{
    bool go_dirty = false;
    ERL_NIF_TERM result = make_zeros(env, argv, false, &go_dirty);
    return go_dirty ? tenon_nif_dirty(env, "zeros", zeros_dirty, argc, argv) : result;
}

TENON_NIF(writable)
{
    (void)argc;
    ERL_NIF_TERM error;
    tenon_nif_tensor *tensor = tenon_nif_tensor_pin(env, argv[0], "writable?", "tensor", &error);
    if (!tensor)
        return error;
    bool writable = tenon_nif_may_write(tensor->storage);
    tenon_nif_tensor_unpin(tensor);
    return writable ? tenon_nif_atoms.yes : tenon_nif_atoms.no;
}

TENON_NIF(copied)
{
    (void)argc;
    ERL_NIF_TERM error;
    tenon_nif_tensor *tensor = tenon_nif_tensor_pin(env, argv[0], "copied?", "tensor", &error);
    if (!tensor)
        return error;
    bool copied = tensor->storage->copied;
    tenon_nif_tensor_unpin(tensor);
    return copied ? tenon_nif_atoms.yes : tenon_nif_atoms.no;
}
