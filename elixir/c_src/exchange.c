#include "nif.h"

#include <tenon/nif.h>

#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- giving */

/* An exported struct holds the storage, and counts as one of its readers or as its writer. */
typedef struct lent {
    tenon_nif_storage *storage;
    bool written;
} lent;

static void give_back(void *owner)
{
    lent *share = owner;
    if (share->written)
        tenon_nif_write_end(share->storage);
    else
        tenon_nif_read_end(share->storage);
    tenon_nif_storage_release(share->storage);
    enif_free(share);
}

/* Takes the access that was granted, even on failure. */
static int32_t export_view(tenon_nif_tensor *tensor, bool written, void **out)
{
    lent *owner = enif_alloc(sizeof *owner);
    tenon_view view = *tenon_tensor_view(tensor->tensor);
    tenon_tensor *whole;
    tenon_dl_managed *managed;
    if (!owner) {
        if (written)
            tenon_nif_write_end(tensor->storage);
        else
            tenon_nif_read_end(tensor->storage);
        return TENON_NIF_E_MEMORY;
    }
    *owner = (lent){tensor->storage, written};
    tenon_nif_storage_keep(tensor->storage);
    if (!written)
        view.flags |= TENON_READ_ONLY;
    if (tenon_tensor_from_view(&view, owner, give_back, &whole, NULL)) {
        give_back(owner);
        return TENON_NIF_E_MEMORY;
    }
    tenon_status status = tenon_tensor_export(whole, &managed, NULL);
    tenon_tensor_release(whole);
    if (status)
        return TENON_NIF_E_MEMORY;
    *out = managed;
    return TENON_NIF_OK;
}

void tenon_nif_answer(ErlNifEnv *env, void *object, void *call_data)
{
    (void)env;
    tenon_nif_request *request = call_data;
    tenon_nif_tensor *tensor = object;
    if (request->size < sizeof *request || request->version != 1 || request->flags & ~TENON_NIF_WRITE) {
        request->status = TENON_NIF_E_VERSION;
        return;
    }
    if (!tenon_nif_tensor_try_pin(tensor)) {
        request->status = TENON_NIF_E_RELEASED;
        return;
    }
    bool written = request->flags & TENON_NIF_WRITE;
    if (written && tenon_view_self_overlaps(tenon_tensor_view(tensor->tensor))) {
        tenon_nif_tensor_unpin(tensor);
        request->status = TENON_NIF_E_OVERLAP;
        return;
    }
    tenon_nif_access access = written ? tenon_nif_write_begin(tensor->storage) : tenon_nif_read_begin(tensor->storage);
    if (access == TENON_NIF_GRANTED)
        request->status = export_view(tensor, written, &request->managed);
    else
        request->status = access == TENON_NIF_BUSY ? TENON_NIF_E_BUSY : TENON_NIF_E_READONLY;
    tenon_nif_tensor_unpin(tensor);
}

/* ---------------------------------------------------------------------------------------------------------- taking */

typedef struct refused {
    tenon_deferred_node node;
    tenon_dl_managed *managed;
} refused;

static void delete_refused(void *owner)
{
    refused *item = owner;
    item->managed->deleter(item->managed);
    enif_free(item);
}

/* We own even a struct that we cannot use, and its deleter may be slow. */
static void refuse(tenon_dl_managed *managed)
{
    refused *item = managed->deleter ? enif_alloc(sizeof *item) : NULL;
    if (item) {
        item->managed = managed;
        tenon_nif_reap(&item->node, delete_refused, item);
    } else if (managed->deleter) {
        managed->deleter(managed);
    }
}

static ERL_NIF_TERM answer_error(ErlNifEnv *env, int32_t status)
{
    const char *function = "from_resource", *argument = "resource";
    const tenon_nif_atom_table *a = &tenon_nif_atoms;
    switch (status) {
    case TENON_NIF_E_RELEASED:
        return tenon_nif_error(env, a->released, function, argument, "from_resource(): the tensor was released");
    case TENON_NIF_E_BUSY:
        return tenon_nif_access_error(env, TENON_NIF_BUSY, function, argument);
    case TENON_NIF_E_READONLY:
        return tenon_nif_access_error(env, TENON_NIF_READONLY, function, argument);
    case TENON_NIF_E_MEMORY:
        return tenon_nif_error(env, tenon_nif_failed(env, TENON_ENOMEM), function, argument,
                               "from_resource(): the other NIF has no memory");
    default:
        return tenon_nif_error(env, enif_make_tuple2(env, a->failed, enif_make_int(env, status)), function, argument,
                               status == TENON_NIF_UNANSWERED
                                   ? "from_resource(): the other NIF did not answer; status %d"
                                   : "from_resource(): the other NIF answered with status %d",
                               status);
    }
}

static ERL_NIF_TERM bad_type(ErlNifEnv *env, tenon_dtype dtype, const char *function, const char *argument)
{
    char name[32] = "unknown";
    if (tenon_dtype_known(dtype))
        tenon_dtype_format(dtype, name, sizeof name);
    return tenon_nif_error(env, enif_make_tuple2(env, tenon_nif_atoms.unsupported_type, enif_make_atom(env, name)),
                           function, argument,
                           "%s(): argument '%s': the type of its elements is %s (code %d, %d bits, %d lanes)", function,
                           argument, name, dtype.code, dtype.bits, dtype.lanes);
}

bool tenon_nif_adopt(ErlNifEnv *env, tenon_tensor *tensor, const char *function, const char *argument,
                     tenon_nif_storage **out, ERL_NIF_TERM *error)
{
    tenon_nif_storage *storage = tenon_nif_storage_alloc(tensor, TENON_NIF_FOREIGN, true, NULL, 0);
    const tenon_view *view = tenon_tensor_view(tensor);
    if (!storage) {
        tenon_tensor_release(tensor);
        *error = tenon_nif_error(env, tenon_nif_reason(env, TENON_ENOMEM, NULL), function, NULL, "%s(): no memory",
                                 function);
        return false;
    }
    if (!tenon_nif_has_type(view->dtype)) {
        *error = bad_type(env, view->dtype, function, argument);
    } else if (view->numel && tenon_device_has_addresses(view->device) &&
               (uintptr_t)view->data % tenon_dtype_alignment(view->dtype)) {
        *error = tenon_nif_misaligned(env, view->dtype, (uintptr_t)view->data, function, argument, "");
    } else {
        *out = storage;
        return true;
    }
    tenon_nif_storage_release(storage);
    return false;
}

TENON_NIF(from_resource)
{
    (void)argc;
    const char *function = "from_resource";
    tenon_nif_request request = TENON_NIF_REQUEST;
    tenon_error err;
    tenon_tensor *tensor;
    bool immutable = enif_is_identical(argv[3], tenon_nif_atoms.yes);
    if (!immutable && !enif_is_identical(argv[3], tenon_nif_atoms.no))
        return tenon_nif_badarg(env, function, "immutable", "true or false");
    if (!enif_is_ref(env, argv[0]))
        return tenon_nif_badarg(env, function, "resource", "a reference");
    if (!enif_is_atom(env, argv[1]) || !enif_is_atom(env, argv[2]) ||
        enif_dynamic_resource_call(env, argv[1], argv[2], argv[0], &request)) {
        ERL_NIF_TERM not_local = tenon_nif_not_local(env, argv[0], function, "resource", "only that node can use it");
        return not_local ? not_local
                         : tenon_nif_badarg(env, function, "type", "the module and the name of this resource's type");
    }
    if (request.status != TENON_NIF_OK || !request.managed)
        return answer_error(env, request.status);
    if (tenon_tensor_import(request.managed, &tensor, &err)) {
        tenon_dl_managed *managed = request.managed;
        ERL_NIF_TERM refusal = err.status == TENON_EDTYPE
                                   ? bad_type(env, managed->dl_tensor.dtype, function, "resource")
                                   : tenon_nif_core_error(env, &err, function, "resource");
        refuse(managed);
        return refusal;
    }
    tenon_nif_storage *storage;
    ERL_NIF_TERM result;
    if (!tenon_nif_adopt(env, tensor, function, "resource", &storage, &result))
        return result;
    if (immutable)
        (void)tenon_nif_freeze(storage);
    tenon_extent extent = tenon_view_extent(tenon_tensor_view(tensor));
    result = tenon_nif_charged(env, tenon_nif_ok(env, tenon_nif_make_tensor(env, tenon_tensor_retain(tensor), storage)),
                               (uint64_t)(extent.high - extent.low));
    tenon_nif_storage_release(storage);
    return result;
}
