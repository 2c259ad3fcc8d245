#include "internal.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- export */

/* The flags and the minor version that describe the tensor to a consumer. */
static uint64_t export_flags(const tenon_view *view)
{
    return view->flags & (TENON_READ_ONLY | TENON_IS_COPIED | TENON_SUBBYTE_PADDED);
}

/* The oldest minor that defines what the struct holds: a consumer may refuse one that is newer than itself. */
static uint32_t export_minor(const tenon_view *view)
{
    if (view->device.device_type == TENON_TRAINIUM)
        return 2;
    return view->dtype.code >= TENON_CODE_F8_E3M4 || (view->flags & TENON_SUBBYTE_PADDED) ? 1 : 0;
}

/* Shape and strides stay in the tensor's block, which the struct's count keeps. */
static tenon_dl_tensor export_tensor(const tenon_view *view)
{
    return *tenon_dltensor(view);
}

static void drop_export(tenon_tensor *tensor, void *memory, size_t size)
{
    tenon__free(memory, size);
    tenon__count(&tenon__live.exports, -1);
    tenon_tensor_release(tensor);
}

static void delete_managed(tenon_dl_managed *self)
{
    if (self)
        drop_export(self->manager_ctx, self, sizeof *self);
}

static void delete_managed_legacy(tenon_dl_managed_legacy *self)
{
    if (self)
        drop_export(self->manager_ctx, self, sizeof *self);
}

static tenon_status export_block(const tenon_tensor *tensor, const void *out, size_t size, const char *function,
                                 void **block, tenon_error *err)
{
    if (!tensor || !out)
        return tenon_error_set(err, TENON_EINVAL, "%s(): argument '%s' is NULL", function, tensor ? "out" : "tensor");
    *block = tenon__alloc(size, false);
    if (!*block)
        return tenon_error_set(err, TENON_ENOMEM, "%s(): no memory for %zu bytes", function, size);
    tenon__count(&tenon__live.exports, 1);
    return TENON_OK;
}

tenon_status tenon_tensor_export(tenon_tensor *tensor, tenon_dl_managed **out, tenon_error *err)
{
    void *block;
    tenon_status status = export_block(tensor, out, sizeof(tenon_dl_managed), "tenon_tensor_export", &block, err);
    if (status)
        return status;
    tenon_dl_managed *managed = block;
    managed->version.major = TENON_DL_MAJOR;
    managed->version.minor = export_minor(&tensor->view);
    managed->manager_ctx = tenon_tensor_retain(tensor);
    managed->deleter = delete_managed;
    managed->flags = export_flags(&tensor->view);
    managed->dl_tensor = export_tensor(&tensor->view);
    *out = managed;
    return TENON_OK;
}

tenon_status tenon_tensor_export_legacy(tenon_tensor *tensor, tenon_dl_managed_legacy **out, tenon_error *err)
{
    const char *function = "tenon_tensor_export_legacy";
    if (tensor && (tensor->view.flags & TENON_READ_ONLY))
        return tenon_error_set(err, TENON_EREADONLY,
                               "%s(): argument 'tensor' is read-only, which a legacy struct cannot say; use "
                               "tenon_tensor_export",
                               function);
    if (tensor && (tensor->view.flags & TENON_SUBBYTE_PADDED) && tensor->view.dtype.bits < 8)
        return tenon_error_set(
            err, TENON_EDTYPE,
            "%s(): argument 'tensor' has padded sub-byte values, which a legacy struct cannot say; use "
            "tenon_tensor_export",
            function);
    void *block;
    tenon_status status = export_block(tensor, out, sizeof(tenon_dl_managed_legacy), function, &block, err);
    if (status)
        return status;
    tenon_dl_managed_legacy *managed = block;
    managed->manager_ctx = tenon_tensor_retain(tensor);
    managed->deleter = delete_managed_legacy;
    managed->dl_tensor = export_tensor(&tensor->view);
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

/* A struct of ours that nobody has changed stands for the tensor itself: its count passes to the caller, and no wrapper
 * is put on a wrapper. */
static bool is_own(const tenon_tensor *tensor, const tenon_dl_tensor *exported)
{
    return memcmp(exported, tenon_dltensor(&tensor->view), sizeof *exported) == 0;
}

static tenon_tensor *unwrap(tenon_tensor *tensor, void *memory, size_t size)
{
    tenon_tensor_retain(tensor);
    drop_export(tensor, memory, size);
    return tensor;
}

tenon_status tenon_tensor_import(tenon_dl_managed *managed, tenon_tensor **out, tenon_error *err)
{
    const char *function = "tenon_tensor_import";
    if (!managed || !out)
        return tenon_error_set(err, TENON_EINVAL, "%s(): argument '%s' is NULL", function, managed ? "out" : "managed");
    if (managed->version.major != TENON_DL_MAJOR)
        return tenon_error_set(err, TENON_EVERSION,
                               "%s(): argument 'managed': expected DLPack %d, got %u.%u; ask the producer for "
                               "max_version (%d, %d)",
                               function, TENON_DL_MAJOR, (unsigned)managed->version.major,
                               (unsigned)managed->version.minor, TENON_DL_MAJOR, TENON_DL_MINOR);
    if (managed->deleter == delete_managed) {
        tenon_tensor *tensor = managed->manager_ctx;
        if (managed->flags == export_flags(&tensor->view) && is_own(tensor, &managed->dl_tensor)) {
            *out = unwrap(tensor, managed, sizeof *managed);
            return TENON_OK;
        }
    }
    return tenon__tensor_wrap(&managed->dl_tensor, managed->flags, 0, managed, release_managed, function, out, err);
}

tenon_status tenon_tensor_import_legacy(tenon_dl_managed_legacy *managed, tenon_tensor **out, tenon_error *err)
{
    const char *function = "tenon_tensor_import_legacy";
    if (!managed || !out)
        return tenon_error_set(err, TENON_EINVAL, "%s(): argument '%s' is NULL", function, managed ? "out" : "managed");
    if (managed->deleter == delete_managed_legacy && is_own(managed->manager_ctx, &managed->dl_tensor)) {
        *out = unwrap(managed->manager_ctx, managed, sizeof *managed);
        return TENON_OK;
    }
    return tenon__tensor_wrap(&managed->dl_tensor, 0, 0, managed, release_managed_legacy, function, out, err);
}
