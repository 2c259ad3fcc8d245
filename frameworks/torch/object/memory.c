/* Views of a tensor's memory, and tensors on new memory. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------- view */

/* The reason why the tensor has no plain memory, or NULL if it is not known. Only an attached thread can ask: for the
 * class only, or for everything. */
static const char *reason_of(const tenon__torch_block *block, bool by_class_only)
{
    const char *reason = NULL;
    tenon__py_kind room;
    if (tenon__py_attached_to(block->api->interp)) {
        tenon__py_scope scope = tenon__py_enter_scope();
        PyObject *object = tenon__torch_object(block);
        const tenon__py_kind *kind = object ? tenon__py_kind_of(object, &room) : NULL;
        reason = kind ? kind->reason : NULL;
        if (object && !reason && !by_class_only)
            reason = tenon__py_torch_advice(object);
        Py_XDECREF(object);
        tenon__py_leave_scope(scope);
    }
    return reason;
}

/* Ask whether one of the bits is set that change the meaning of the memory. */
static tenon_status ask_bit(tenon_torch *tensor, const char *name, bool *out, tenon_error *err)
{
    tenon_torch_value argument = tenon_torch_tensor(tensor), result;
    const tenon_torch_op *op;
    tenon_status status = tenon_torch_find(name, "", &op, err);
    /* Ask the tensor itself if possible, not its subclass or a mode. */
    if (!status)
        status = op->carried ? tenon__torch_call_stable(op, &argument, &result, err)
                             : tenon_torch_call_op(op, 1, &argument, 1, &result, err);
    *out = !status && result.as.integer;
    return status;
}

/* `bytes`: the size of its storage, or -1 if it is not known. */
static tenon_status set_no_memory_error(tenon_torch *tensor, int64_t bytes, tenon_error *err)
{
    bool zeros = false;
    const char *reason = reason_of(tenon__torch_block_of(tensor), false);
    if (!reason && bytes == 0)
        reason = "it was freed: its storage has 0 bytes";
    else if (!reason && ask_bit(tensor, "aten::_is_zerotensor", &zeros, NULL) == TENON_OK && zeros)
        reason = "a ZeroTensor has none; pass x.clone()";
    return tenon_error_set_in(err, TENON_ELAYOUT, "tenon_torch_view", "the tensor has no plain memory%s%s",
                              reason ? ": " : "",
                              reason ? reason
                                     : " of its own (a meta, fake, sparse, oneDNN or nested tensor, one inside "
                                       "torch.vmap, or a ZeroTensor)");
}

static tenon_status set_no_dtype_error(const tenon__torch_block *block, int32_t dtype, tenon_error *err)
{
    const char *reason = reason_of(block, false);
    return tenon_error_set_in(err, TENON_EDTYPE, "tenon_torch_view", "Tenon does not know torch's dtype number %d%s%s",
                              (int)dtype, reason ? "; " : "", reason ? reason : "");
}

static tenon_status check_bits(tenon_torch *tensor, bool is_complex, tenon_error *err)
{
    bool conjugated = false, negated = false;
    tenon_status status = TENON_OK;
    if (is_complex)
        status = ask_bit(tensor, "aten::is_conj", &conjugated, err);
    if (!status && !conjugated)
        status = ask_bit(tensor, "aten::is_neg", &negated, err);
    if (conjugated || negated)
        status = tenon_error_set_in(err, TENON_ELAYOUT, "tenon_torch_view", "the tensor is a %s view; pass x.%s()",
                                    conjugated ? "conjugate" : "negated", conjugated ? "resolve_conj" : "resolve_neg");
    return status;
}

bool tenon__torch_describe(const tenon__torch_api *api, tenon__torch_handle handle,
                           int32_t (*get_data)(tenon__torch_handle, void **), tenon_dl_tensor *out, int32_t *dtype,
                           int32_t *device_type)
{
    int64_t ndim;
    int32_t device_index;
    if (api->get_device_type(handle, device_type) || api->get_device_index(handle, &device_index) ||
        api->get_dtype(handle, dtype) || api->get_dim(handle, &ndim) || api->get_sizes(handle, &out->shape) ||
        api->get_strides(handle, &out->strides) || get_data(handle, &out->data) || ndim > INT32_MAX)
        return false;
    bool known = *dtype >= 0 && *dtype < TENON__TORCH_DTYPES;
    out->ndim = (int32_t)ndim;
    out->dtype = known ? api->dtypes[*dtype] : tenon_dtype_of(0, 0, 0);
    out->device =
        *device_type == api->cuda ? tenon_device_of(api->cuda_device, device_index) : tenon_device_of(TENON_CPU, 0);
    out->byte_offset = 0;
    return true;
}

tenon_status tenon_torch_view(tenon_torch *tensor, tenon_view *out, int64_t *dims, tenon_error *err)
{
    tenon__torch_block *block = tenon__torch_block_of(tensor);
    if (!block)
        return tenon__torch_released("tenon_torch_view", err);
    if (!out || !dims)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_torch_view", "argument '%s' is NULL", out ? "dims" : "out");
    const tenon__torch_api *api = block->api;
    tenon__torch_handle handle = block->handle;
    tenon_dl_tensor source;
    int64_t bytes = -1;
    int32_t dtype, device_type;
    /* Before torch is called: it warns about the address of a fake tensor, and before 2.13 writes to stderr. */
    if (block->is_subclass && reason_of(block, true))
        return set_no_memory_error(tensor, bytes, err);
    /* oneDNN's tensors have an address but no storage: their elements are in a private order. */
    if (api->get_storage_size(handle, &bytes) ||
        !tenon__torch_describe(api, handle, api->get_data, &source, &dtype, &device_type))
        return set_no_memory_error(tensor, bytes, err);
    if (!source.dtype.bits)
        return set_no_dtype_error(block, dtype, err);
    if (source.ndim > TENON_MAX_NDIM)
        return tenon_error_set_in(err, TENON_ESHAPE, "tenon_torch_view",
                                  "the tensor has %d dimensions, and at most %d are allowed", (int)source.ndim,
                                  TENON_MAX_NDIM);
    bool empty = false;
    for (int32_t i = 0; i < source.ndim; i++)
        empty |= source.shape[i] == 0;
    if (!source.data && !empty)
        return set_no_memory_error(tensor, bytes, err);
    if (device_type != api->cpu && device_type != api->cuda)
        return tenon_error_set_in(err, TENON_EDEVICE, "tenon_torch_view", "Tenon does not know torch's device type %d",
                                  (int)device_type);
    bool is_plain = tenon__torch_is_plain(handle);
    tenon_status status = is_plain ? TENON_OK : check_bits(tensor, source.dtype.code == TENON_CODE_COMPLEX, err);
    /* An operator may be seen by a mode, which runs any code: the memory is read after it. */
    if (!status && !is_plain && !tenon__torch_describe(api, handle, api->get_data, &source, &dtype, &device_type))
        return set_no_memory_error(tensor, bytes, err);
    return status ? status : tenon_view_init(out, &source, 0, dims, err);
}

/* ------------------------------------------------------------------------------------------------------ new tensors */

/* torch's numbers for a dtype and a device. */
static tenon_status numbers_of(const tenon__torch_api *api, const char *who, tenon_dtype dtype, tenon_device device,
                               int32_t numbers[3], tenon_error *err)
{
    char word[64];
    if (!tenon__torch_dtype_number(api, dtype, &numbers[0])) {
        tenon_dtype_format(dtype, word, sizeof word);
        return tenon_error_set_in(err, TENON_EDTYPE, who, "torch %s has no dtype %s", api->report.version, word);
    }
    if (!tenon__torch_device_number(api, device, &numbers[1], &numbers[2])) {
        tenon_device_format(device, word, sizeof word);
        return tenon_error_set_in(err, TENON_EDEVICE, who, "torch cannot make a tensor on %s here", word);
    }
    return TENON_OK;
}

/* Make a tenon_torch for a new handle of torch. Takes it on success. */
static tenon_status wrap(const tenon__torch_api *api, const char *who, tenon__torch_handle handle, tenon_torch **out,
                         tenon_error *err)
{
    tenon_torch *tensor = tenon__torch_wrap(api, handle);
    if (!tensor) {
        api->delete_handle(handle); /* it has no Python object yet, so this needs no lock */
        return tenon_error_set_in(err, TENON_ENOMEM, who, "out of memory");
    }
    *out = tensor;
    return TENON_OK;
}

tenon_status tenon_torch_empty(tenon_dtype dtype, tenon_device device, int32_t ndim, const int64_t *shape,
                               tenon_torch **out, tenon_error *err)
{
    static const char *const who = "tenon_torch_empty";
    int32_t numbers[3];
    int64_t strides[TENON_MAX_NDIM];
    tenon__torch_handle handle = NULL;
    if (!out)
        return tenon_error_set_in(err, TENON_EINVAL, who, "argument 'out' is NULL");
    const tenon__torch_api *api = tenon__torch_find_api(err);
    if (!api)
        return TENON_EFAILED;
    tenon_status status = tenon_shape_strides(ndim, shape, 'C', strides, err);
    if (status == TENON_EOVERFLOW)
        return tenon_error_set_in(err, status, who, "the number of elements overflows 64 bits");
    status = status ? status : numbers_of(api, who, dtype, device, numbers, err);
    if (status)
        return status;
    if (api->empty_strided(ndim, shape, strides, numbers[0], numbers[1], numbers[2], &handle) != 0)
        return tenon__torch_failed(api, who, err);
    return wrap(api, who, handle, out, err);
}

void *tenon_torch_pointer(tenon_torch *tensor)
{
    tenon__torch_block *block = tenon__torch_block_of(tensor);
    return block ? block->handle : NULL;
}

tenon_status tenon_torch_from_pointer(void *pointer, tenon_torch **out, tenon_error *err)
{
    static const char *const who = "tenon_torch_from_pointer";
    tenon__torch_handle handle = NULL;
    bool defined = false;
    if (!pointer || !out)
        return tenon_error_set_in(err, TENON_EINVAL, who, "argument '%s' is NULL", pointer ? "out" : "pointer");
    const tenon__torch_api *api = tenon__torch_find_api(err);
    if (!api)
        return TENON_EFAILED;
    if (!api->new_handle || !api->is_defined)
        return tenon_error_set_in(err, TENON_EFAILED, who, "this needs torch 2.13 or newer");
    if (api->is_defined(pointer, &defined) != 0 || !defined)
        return tenon_error_set_in(err, TENON_EINVAL, who, "the tensor is undefined");
    if (api->new_handle(pointer, &handle) != 0)
        return tenon__torch_failed(api, who, err);
    return wrap(api, who, handle, out, err);
}

/* The owner of a blob while torch holds it. The caller keeps the owner until this struct is armed: if torch fails, only
 * the struct can be lost. */
typedef struct blob_owner {
    tenon_release_fn release;
    void *owner;
    bool armed;     /* torch has it */
    bool ran;       /* torch has released it */
    bool abandoned; /* it failed, and torch still holds this struct */
} blob_owner;

static void owner_release(void *pointer)
{
    blob_owner *owner = pointer;
    if (owner->armed && owner->release)
        owner->release(owner->owner);
    if (owner->armed || owner->abandoned)
        free(owner);
    else
        owner->ran = true;
}

static void owner_delete(void *data, void *context)
{
    (void)data;
    owner_release(context);
}

/* The view that a blob describes, and room for its shape and strides. */
static tenon_status blob_view(const tenon_blob *blob, tenon_view *view, int64_t *dims, tenon_error *err)
{
    static const char *const who = "tenon_torch_from_blob";
    tenon_blob unowned = *blob;
    tenon_tensor *checked;
    unowned.owner = NULL;
    unowned.release = NULL;
    tenon_status status = tenon_tensor_from_blob(&unowned, &checked, err);
    if (status)
        return status;
    *view = *tenon_tensor_view(checked);
    size_t bytes = (size_t)view->ndim * sizeof *dims;
    if (bytes) {
        memcpy(dims, view->shape, bytes);
        memcpy(dims + view->ndim, view->strides, bytes);
    }
    view->shape = dims;
    view->strides = dims + view->ndim;
    tenon_tensor_release(checked);
    if (view->flags & TENON_READ_ONLY)
        return tenon_error_set_in(err, TENON_EREADONLY, who, "torch has no read-only tensors");
    for (int32_t i = 0; i < view->ndim; i++) {
        if (view->strides[i] < 0)
            return tenon_error_set_in(err, TENON_ELAYOUT, who, "torch has no negative strides");
    }
    return TENON_OK;
}

/* Before 2.11, torch accepts memory with an owner only through DLPack. */
static tenon_status import_blob(const tenon__torch_api *api, const tenon_view *view, blob_owner *owner,
                                tenon_torch **out, tenon_error *err)
{
    static const char *const who = "tenon_torch_from_blob";
    if (!tenon__py_attached_to(api->interp))
        return tenon_error_set_in(err, TENON_EFAILED, who, "torch %s needs the interpreter lock for this",
                                  api->report.version);
    tenon_tensor *tensor;
    tenon_status status = tenon_tensor_from_view(view, owner, owner_release, &tensor, err);
    if (status)
        return status;
    tenon__py_scope scope = tenon__py_enter_scope();
    PyObject *object = tenon_py_export(tensor, TENON_PY_AS_TORCH);
    tenon_tensor_release(tensor);
    if (!object || tenon_torch_import(object, out) < 0)
        status = tenon__torch_take_exception(who, err);
    Py_XDECREF(object);
    owner->abandoned = status && !owner->ran;
    tenon__py_leave_scope(scope);
    return status;
}

tenon_status tenon_torch_from_blob(const tenon_blob *blob, tenon_torch **out, tenon_error *err)
{
    static const char *const who = "tenon_torch_from_blob";
    tenon_view view;
    int64_t dims[2 * TENON_MAX_NDIM];
    int32_t numbers[3];
    if (!blob || !out)
        return tenon_error_set_in(err, TENON_EINVAL, who, "argument '%s' is NULL", blob ? "out" : "blob");
    const tenon__torch_api *api = tenon__torch_find_api(err);
    if (!api)
        return TENON_EFAILED;
    tenon_status status = blob_view(blob, &view, dims, err);
    status = status ? status : numbers_of(api, who, view.dtype, view.device, numbers, err);
    if (status)
        return status;
    /* An empty tensor is never read. Its own block saves torch from an owner without memory. */
    bool nowhere = !view.data || view.numel == 0;
    blob_owner *owner = malloc(sizeof *owner);
    tenon__torch_handle handle = NULL;
    if (!owner)
        return tenon_error_set_in(err, TENON_ENOMEM, who, "out of memory");
    *owner = (blob_owner){.release = blob->release, .owner = blob->owner};
    if (nowhere) {
        if (api->empty_strided(view.ndim, view.shape, view.strides, numbers[0], numbers[1], numbers[2], &handle) != 0)
            status = tenon__torch_failed(api, who, err);
    } else if (!api->from_blob) {
        status = import_blob(api, &view, owner, out, err);
    } else if (api->from_blob((char *)view.data + view.byte_offset, view.ndim, view.shape, view.strides, 0, numbers[0],
                              numbers[1], numbers[2], &handle, api->strided, NULL, 0, owner_delete, owner) != 0) {
        status = tenon__torch_failed(api, who, err);
    }
    if (!status && handle)
        status = wrap(api, who, handle, out, err);
    if (status) {
        if (!owner->abandoned)
            free(owner);
        return status;
    }
    owner->armed = true;
    if (nowhere)
        owner_release(owner);
    return TENON_OK;
}
