#include "internal.h"

#include <tenon/host/room.h>

#include <inttypes.h>
#include <string.h>

enum { DATA_ALIGNMENT = 64 };
_Static_assert(sizeof(tenon_tensor_room) == sizeof(tenon_tensor), "the room of a tensor");

/* ---------------------------------------------------------------------------------------------------------- blocks */

static void clear_block(tenon_tensor *block, size_t size)
{
    block->block_size = size;
    block->owner = NULL;
    block->release = NULL;
    block->stream = NULL;
    block->data_bytes = 0;
}

tenon_tensor *tenon__tensor_alloc_block(int32_t ndim, size_t extra, bool zeroed, const char *function, tenon_error *err)
{
    size_t size = sizeof(tenon_tensor) + 2 * (size_t)ndim * sizeof(int64_t);
    tenon_tensor *block = tenon__add_overflows(size, extra, &size) ? NULL : tenon__alloc(size, zeroed);
    if (!block) {
        tenon_error_set_in(err, TENON_ENOMEM, function, "no memory for %zu bytes", extra + sizeof(tenon_tensor));
        return NULL;
    }
    clear_block(block, size);
    return block;
}

void tenon__tensor_free_block(tenon_tensor *block)
{
    tenon__free(block, block->block_size);
}

/* Begin the life of a tensor that owns its memory. */
static inline void begin_root(tenon_tensor *block)
{
    block->root = block;
    atomic_init(&block->count, 1);
    tenon__count(&tenon__live.tensors, 1);
}

void tenon__tensor_init(tenon_tensor *block, tenon_tensor *root)
{
    begin_root(block);
    if (root)
        block->root = tenon_tensor_retain(root);
    if (block->data_bytes)
        tenon__count(&tenon__live.bytes, block->data_bytes);
    if (tenon__debug())
        tenon__debug_add(block);
}

/* -------------------------------------------------------------------------------------------------------- counting */

tenon_tensor *tenon_tensor_retain(tenon_tensor *tensor)
{
    if (!tensor)
        return NULL;
    int64_t before = atomic_fetch_add_explicit(&tensor->count, 1, memory_order_relaxed);
    if (tenon__debug())
        tenon__debug_check(tensor, before, "tenon_tensor_retain");
    return tensor;
}

void tenon_tensor_release(tenon_tensor *tensor)
{
    if (!tensor)
        return;
    bool debug = tenon__debug();
    /* If the count is 1, the caller holds the only reference and no other thread can add one. This avoids the slower atomic
     * subtraction for most tensors. */
    int64_t before = atomic_load_explicit(&tensor->count, memory_order_acquire);
    if (before != 1 || debug)
        before = atomic_fetch_sub_explicit(&tensor->count, 1, memory_order_release);
    if (debug)
        tenon__debug_check(tensor, before, "tenon_tensor_release");
    if (before != 1)
        return;
    /* Everything that other threads did before they dropped their references happens before the release. */
    atomic_load_explicit(&tensor->count, memory_order_acquire);
    tenon_tensor *root = tensor->root == tensor ? NULL : tensor->root;
    bool is_placed = tensor->block_size == 0; /* the release frees it */
    if (tensor->data_bytes)
        tenon__count(&tenon__live.bytes, -tensor->data_bytes);
    if (!root && tensor->release)
        tensor->release(tensor->owner);
    if (debug)
        tenon__debug_retire(tensor);
    else if (!is_placed)
        tenon__tensor_free_block(tensor);
    tenon__count(&tenon__live.tensors, -1);
    tenon_tensor_release(root);
}

const tenon_view *tenon_tensor_view(const tenon_tensor *tensor)
{
    return tensor ? &tensor->view : NULL;
}

int64_t tenon_tensor_refcount(const tenon_tensor *tensor)
{
    return tensor ? atomic_load_explicit(&tensor->count, memory_order_acquire) : 0;
}

void *tenon_tensor_owner(const tenon_tensor *tensor, tenon_release_fn release)
{
    return tensor && release && tensor->root == tensor && tensor->release == release ? tensor->owner : NULL;
}

tenon_tensor *tenon_tensor_root(const tenon_tensor *tensor)
{
    return tensor ? tensor->root : NULL;
}

void *tenon_tensor_stream(const tenon_tensor *tensor)
{
    return tensor ? tensor->root->stream : NULL;
}

/* -------------------------------------------------------------------------------------------------------- creating */

/* Set the bounds to the positions of the view's elements. */
static void set_strided_bounds(tenon_tensor *block)
{
    tenon_extent extent = tenon_view_extent(&block->view);
    block->low = block->high = tenon__view_position(&block->view);
    block->low += (uint64_t)extent.low;
    block->high += (uint64_t)extent.high;
}

static inline void set_bounds(tenon_tensor *block)
{
    const tenon_view *view = &block->view;
    if (tenon__unlikely(!(view->flags & TENON_VIEW_C) || view->dtype.bits % 8)) {
        set_strided_bounds(block);
        return;
    }
    block->low = tenon__view_position(view);
    block->high = block->low + (uint64_t)(view->numel * (view->dtype.bits / 8 * view->dtype.lanes));
}

tenon_status tenon__tensor_wrap(const tenon_dl_tensor *source, uint64_t flags, uint64_t block_size, void *owner,
                                tenon_release_fn release, const char *function, tenon_tensor **out, tenon_error *err)
{
    if (source->ndim < 0 || source->ndim > TENON_MAX_NDIM)
        return tenon__check_shape(source->ndim, source->shape, function, err);
    tenon_tensor *block = tenon__tensor_alloc_block(source->ndim, 0, false, function, err);
    if (!block)
        return TENON_ENOMEM;
    tenon_status status = tenon__view_init(&block->view, source, flags, block->dims, function, err);
    if (status) {
        tenon__tensor_free_block(block);
        return status;
    }
    set_bounds(block);
    if (block_size) {
        uint64_t start = tenon_device_has_addresses(source->device) ? (uint64_t)(uintptr_t)source->data : 0, end;
        bool wraps = tenon__add_overflows(start, block_size, &end);
        tenon_extent extent = tenon_view_extent(&block->view);
        if (wraps || source->byte_offset > block_size || block->low < start || block->high > end) {
            tenon__tensor_free_block(block);
            if (wraps)
                return tenon_error_set_in(err, TENON_EBOUNDS, function,
                                          "data_size %" PRIu64 " from 0x%" PRIxPTR " reaches past the last address",
                                          block_size, (uintptr_t)source->data);
            return tenon_error_set_in(err, TENON_EBOUNDS, function,
                                      "%s touches bytes %" PRId64 " to %" PRId64
                                      " from its first element, which is at byte %" PRIu64 " of data_size %" PRIu64,
                                      tenon__type_phrase(source->dtype, source->ndim, source->shape).text, extent.low,
                                      extent.high, source->byte_offset, block_size);
        }
        block->low = start;
        block->high = end;
    }
    block->owner = owner;
    block->release = release;
    tenon__tensor_init(block, NULL);
    *out = block;
    return TENON_OK;
}

tenon_status tenon_tensor_from_blob(const tenon_blob *blob, tenon_tensor **out, tenon_error *err)
{
    const char *function = "tenon_tensor_from_blob";
    if (!blob || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", blob ? "out" : "blob");
    tenon_dl_tensor source = {
        .data = blob->data,
        .device = blob->device.device_type || blob->device.device_id ? blob->device : tenon_device_of(TENON_CPU, 0),
        .ndim = blob->ndim,
        .dtype = blob->dtype,
        .shape = (int64_t *)(uintptr_t)blob->shape,
        .strides = (int64_t *)(uintptr_t)blob->strides,
        .byte_offset = blob->byte_offset,
    };
    tenon_status status =
        tenon__tensor_wrap(&source, blob->flags, blob->data_size, blob->owner, blob->release, function, out, err);
    if (!status)
        (*out)->stream = blob->stream;
    return status;
}

/* Turn a block into a tensor on the memory of a view, with the view's own shape and strides. Its bounds are still to be set. */
static inline void own_view(tenon_tensor *block, const tenon_view *view, void *owner, tenon_release_fn release)
{
    block->view = *view;
    block->view.flags &= ~(TENON_VIEW_WRITTEN | TENON_VIEW_FRESH); /* these belong to a call, not to the memory */
    block->owner = owner;
    block->release = release;
}

tenon_status tenon_tensor_from_view(const tenon_view *view, void *owner, tenon_release_fn release, tenon_tensor **out,
                                    tenon_error *err)
{
    const char *function = "tenon_tensor_from_view";
    if (!view || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", view ? "out" : "view");
    tenon_tensor *block = tenon__tensor_alloc_block(view->ndim, 0, false, function, err);
    if (!block)
        return TENON_ENOMEM;
    own_view(block, view, owner, release);
    set_bounds(block);
    for (int32_t i = 0; i < view->ndim; i++) {
        block->dims[i] = view->shape[i];
        block->dims[view->ndim + i] = view->strides[i];
    }
    block->view.shape = block->dims;
    block->view.strides = block->dims + view->ndim;
    tenon__tensor_init(block, NULL);
    *out = block;
    return TENON_OK;
}

static inline tenon_status place(tenon_tensor_room *room, const tenon_view *view, void *owner, tenon_release_fn release,
                                 tenon_tensor **out)
{
    tenon_tensor *block = (tenon_tensor *)(void *)room;
    clear_block(block, 0);
    own_view(block, view, owner, release);
    begin_root(block);
    *out = block;
    set_bounds(block); /* last: then nothing is kept in registers for its rare call */
    return TENON_OK;
}

/* With TENON_DEBUG, or if it is not known yet whether it is set. */
static tenon__noinline tenon_status place_or_debug(tenon_tensor_room *room, const tenon_view *view, void *owner,
                                                   tenon_release_fn release, tenon_tensor **out, tenon_error *err)
{
    return tenon__debug() ? tenon_tensor_from_view(view, owner, release, out, err)
                          : place(room, view, owner, release, out);
}

tenon_status tenon_tensor_place(tenon_tensor_room *room, const tenon_view *view, void *owner, tenon_release_fn release,
                                tenon_tensor **out, tenon_error *err)
{
    if (!view || !out)
        return tenon_tensor_from_view(view, owner, release, out, err);
    if (tenon__debug_is_off())
        return place(room, view, owner, release, out);
    return place_or_debug(room, view, owner, release, out, err);
}

tenon_status tenon__tensor_alloc(tenon_dtype dtype, uint64_t flags, int32_t ndim, const int64_t *shape, bool zeroed,
                                 const char *function, tenon_tensor **out, tenon_error *err)
{
    int64_t numel, bytes;
    tenon_status status = tenon__check_shape(ndim, shape, function, err);
    if (!status)
        status = tenon__check_dtype(dtype, function, err);
    if (!status)
        status = tenon__shape_bytes(dtype, flags, ndim, shape, &numel, &bytes, function, err);
    if (status)
        return status;
    size_t room;
    if (tenon__add_overflows((size_t)bytes, DATA_ALIGNMENT, &room))
        room = SIZE_MAX;
    tenon_tensor *block = tenon__tensor_alloc_block(ndim, room, zeroed, function, err);
    if (!block)
        return TENON_ENOMEM;
    uintptr_t start = ((uintptr_t)(block->dims + 2 * ndim) + DATA_ALIGNMENT - 1) & ~(uintptr_t)(DATA_ALIGNMENT - 1);
    tenon_dl_tensor source = {
        .data = (void *)start,
        .device = tenon_device_of(TENON_CPU, 0),
        .ndim = ndim,
        .dtype = dtype,
        .shape = (int64_t *)(uintptr_t)shape,
    };
    status = tenon__view_init(&block->view, &source, flags, block->dims, function, err);
    if (status) {
        tenon__tensor_free_block(block);
        return status;
    }
    block->low = start;
    block->high = start + (uint64_t)bytes;
    block->data_bytes = bytes;
    tenon__tensor_init(block, NULL);
    *out = block;
    return TENON_OK;
}

tenon_status tenon_tensor_alloc(tenon_dtype dtype, int32_t ndim, const int64_t *shape, uint32_t options,
                                tenon_tensor **out, tenon_error *err)
{
    const char *function = "tenon_tensor_alloc";
    if (!out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'out' is NULL");
    if (options & ~TENON_ZEROED)
        return tenon_error_set_in(err, TENON_EINVAL, function,
                                  "argument 'options': expected 0 or TENON_ZEROED, got 0x%" PRIx32, options);
    return tenon__tensor_alloc(dtype, 0, ndim, shape, options & TENON_ZEROED, function, out, err);
}

static tenon_status copy_for(const char *function, tenon_tensor *tensor, tenon_tensor **out, tenon_error *err)
{
    const tenon_view *view = &tensor->view;
    if (!tenon_device_on_host(view->device))
        return tenon_error_set_in(err, TENON_EDEVICE, function,
                                  "argument 'tensor' is on %s, which the CPU cannot read; copy it with that device's "
                                  "own functions",
                                  tenon__device_phrase(view->device).text);
    tenon_tensor *copy;
    uint64_t flags = TENON_IS_COPIED | (view->flags & TENON_SUBBYTE_PADDED);
    tenon_status status = tenon__tensor_alloc(view->dtype, flags, view->ndim, view->shape, false, function, &copy, err);
    if (status)
        return status;
    status = tenon_copy(&copy->view, view, err);
    if (status) {
        tenon_tensor_release(copy);
        return status;
    }
    *out = copy;
    return TENON_OK;
}

tenon_status tenon_tensor_copy(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err)
{
    const char *function = "tenon_tensor_copy";
    if (!tensor || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", tensor ? "out" : "tensor");
    return copy_for(function, tensor, out, err);
}

tenon_status tenon_tensor_contiguous(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err)
{
    const char *function = "tenon_tensor_contiguous";
    if (!tensor || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", tensor ? "out" : "tensor");
    if (!(tensor->view.flags & TENON_VIEW_C))
        return copy_for(function, tensor, out, err);
    if (tenon__debug())
        tenon__debug_forget_origin();
    *out = tenon_tensor_retain(tensor);
    return TENON_OK;
}
