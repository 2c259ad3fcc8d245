#include "internal.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- export */

/* The flags that describe the tensor to a consumer. */
static uint64_t export_flags(const tenon_view *view)
{
    return view->flags & (TENON_READ_ONLY | TENON_IS_COPIED | TENON_SUBBYTE_PADDED);
}

/* The oldest minor version that defines the contents of the struct: a consumer may refuse a version newer than its own. */
static uint32_t export_minor(const tenon_view *view)
{
    if (view->device.device_type == TENON_TRAINIUM)
        return 2;
    return view->dtype.code >= TENON_CODE_F8_E3M4 || (view->flags & TENON_SUBBYTE_PADDED) ? 1 : 0;
}

/* An exported struct. It has its own copy of shape and strides, so that a consumer that modifies them does not change the
 * tensor. */
typedef struct exported {
    tenon_tensor *tensor;
    size_t size;
    union {
        tenon_dl_managed managed;
        tenon_dl_managed_legacy legacy;
    } as;
    int64_t dims[];
} exported;

static void drop_export(exported *block)
{
    tenon_tensor *tensor = block->tensor;
    tenon__free(block, block->size);
    tenon__count(&tenon__live.exports, -1);
    tenon_tensor_release(tensor);
}

static void delete_managed(tenon_dl_managed *self)
{
    if (self)
        drop_export(self->manager_ctx);
}

static void delete_managed_legacy(tenon_dl_managed_legacy *self)
{
    if (self)
        drop_export(self->manager_ctx);
}

/* The DLTensor that the block was exported with. */
static tenon_dl_tensor exported_tensor(exported *block)
{
    const tenon_view *view = &block->tensor->view;
    tenon_dl_tensor tensor = *tenon_dltensor(view);
    tensor.shape = block->dims;
    tensor.strides = block->dims + view->ndim;
    return tensor;
}

static exported *export_block(tenon_tensor *tensor, const char *function, tenon_error *err)
{
    const tenon_view *view = &tensor->view;
    size_t dims = (size_t)view->ndim * sizeof(int64_t), size = sizeof(exported) + 2 * dims;
    exported *block = tenon__alloc(size, false);
    if (!block) {
        tenon_error_set_in(err, TENON_ENOMEM, function, "no memory for %zu bytes", size);
        return NULL;
    }
    tenon__count(&tenon__live.exports, 1);
    block->tensor = tenon_tensor_retain(tensor);
    block->size = size;
    if (dims) {
        memcpy(block->dims, view->shape, dims);
        memcpy(block->dims + view->ndim, view->strides, dims);
    }
    return block;
}

static tenon_status refuse_null(const char *function, const char *argument, tenon_error *err)
{
    return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", argument);
}

tenon_status tenon_tensor_export(tenon_tensor *tensor, tenon_dl_managed **out, tenon_error *err)
{
    const char *function = "tenon_tensor_export";
    if (!tensor || !out)
        return refuse_null(function, tensor ? "out" : "tensor", err);
    exported *block = export_block(tensor, function, err);
    if (!block)
        return TENON_ENOMEM;
    tenon_dl_managed *managed = &block->as.managed;
    managed->version.major = TENON_DL_MAJOR;
    managed->version.minor = export_minor(&tensor->view);
    managed->manager_ctx = block;
    managed->deleter = delete_managed;
    managed->flags = export_flags(&tensor->view);
    managed->dl_tensor = exported_tensor(block);
    *out = managed;
    return TENON_OK;
}

tenon_status tenon_tensor_export_legacy(tenon_tensor *tensor, tenon_dl_managed_legacy **out, tenon_error *err)
{
    const char *function = "tenon_tensor_export_legacy";
    if (!tensor || !out)
        return refuse_null(function, tensor ? "out" : "tensor", err);
    if (tensor->view.flags & TENON_READ_ONLY)
        return tenon_error_set_in(err, TENON_EREADONLY, function,
                                  "argument 'tensor' is read-only, which a legacy struct cannot express; use "
                                  "tenon_tensor_export");
    if ((tensor->view.flags & TENON_SUBBYTE_PADDED) && tensor->view.dtype.bits < 8)
        return tenon_error_set_in(err, TENON_EDTYPE, function,
                                  "argument 'tensor' has padded sub-byte values, which a legacy struct cannot express; "
                                  "use tenon_tensor_export");
    exported *block = export_block(tensor, function, err);
    if (!block)
        return TENON_ENOMEM;
    tenon_dl_managed_legacy *managed = &block->as.legacy;
    managed->manager_ctx = block;
    managed->deleter = delete_managed_legacy;
    managed->dl_tensor = exported_tensor(block);
    *out = managed;
    return TENON_OK;
}

/* ---------------------------------------------------------------------------------------------------------- import */

static void release_managed(void *owner)
{
    tenon_dl_managed *managed = owner;
    if (managed->deleter)
        managed->deleter(managed);
}

static void release_managed_legacy(void *owner)
{
    tenon_dl_managed_legacy *managed = owner;
    if (managed->deleter)
        managed->deleter(managed);
}

/* Whether a struct that we exported is still as it was. Importing it then returns the tensor itself, so that wrappers do
 * not pile up. */
static bool is_unchanged(exported *block, const tenon_dl_tensor *given)
{
    tenon_dl_tensor own = exported_tensor(block);
    const tenon_view *view = &block->tensor->view;
    size_t dims = (size_t)view->ndim * sizeof(int64_t);
    return memcmp(given, &own, sizeof own) == 0 &&
           (!dims || (memcmp(block->dims, view->shape, dims) == 0 &&
                      memcmp(block->dims + view->ndim, view->strides, dims) == 0));
}

static tenon_tensor *take_tensor_back(exported *block)
{
    tenon_tensor *tensor = tenon_tensor_retain(block->tensor);
    drop_export(block);
    return tensor;
}

tenon_status tenon_tensor_import(tenon_dl_managed *managed, tenon_tensor **out, tenon_error *err)
{
    const char *function = "tenon_tensor_import";
    if (!managed || !out)
        return refuse_null(function, managed ? "out" : "managed", err);
    if (managed->version.major != TENON_DL_MAJOR)
        return tenon_error_set_in(err, TENON_EVERSION, function,
                                  "argument 'managed': expected DLPack %d, got %u.%u; ask the producer for "
                                  "max_version (%d, %d)",
                                  TENON_DL_MAJOR, (unsigned)managed->version.major, (unsigned)managed->version.minor,
                                  TENON_DL_MAJOR, TENON_DL_MINOR);
    if (managed->deleter == delete_managed) {
        exported *block = managed->manager_ctx;
        if (managed->flags == export_flags(&block->tensor->view) && is_unchanged(block, &managed->dl_tensor)) {
            *out = take_tensor_back(block);
            return TENON_OK;
        }
    }
    return tenon__tensor_wrap(&managed->dl_tensor, managed->flags, 0, managed, release_managed, function, out, err);
}

tenon_status tenon_tensor_import_legacy(tenon_dl_managed_legacy *managed, tenon_tensor **out, tenon_error *err)
{
    const char *function = "tenon_tensor_import_legacy";
    if (!managed || !out)
        return refuse_null(function, managed ? "out" : "managed", err);
    if (managed->deleter == delete_managed_legacy && is_unchanged(managed->manager_ctx, &managed->dl_tensor)) {
        *out = take_tensor_back(managed->manager_ctx);
        return TENON_OK;
    }
    return tenon__tensor_wrap(&managed->dl_tensor, 0, 0, managed, release_managed_legacy, function, out, err);
}
