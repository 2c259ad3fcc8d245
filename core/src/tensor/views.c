#include "internal.h"

#include <inttypes.h>
#include <string.h>

/* A view under construction: the tensor it is taken from, and its own shape, strides and dtype. */
typedef struct draft {
    const char *function;
    tenon_error *err;
    tenon_tensor *tensor;
    tenon_dtype dtype;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    int64_t strides[TENON_MAX_NDIM];
    int64_t offset;   /* bytes from the tensor's first element to the view's */
    bool inside_byte; /* plus some bits */
} draft;

/* Start with the tensor itself. */
static tenon_status draft_begin(draft *d, const char *function, tenon_tensor *tensor, tenon_tensor **out,
                                tenon_error *err)
{
    if (!tensor || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", tensor ? "out" : "tensor");
    const tenon_view *view = &tensor->view;
    d->function = function;
    d->err = err;
    d->tensor = tensor;
    d->dtype = view->dtype;
    d->ndim = view->ndim;
    d->offset = 0;
    d->inside_byte = false;
    if (view->ndim > 0) {
        memcpy(d->shape, view->shape, (size_t)view->ndim * sizeof *d->shape);
        memcpy(d->strides, view->strides, (size_t)view->ndim * sizeof *d->strides);
    }
    return TENON_OK;
}

/* Move the start of the view by `count` elements. False on overflow, which cannot happen inside the tensor. */
static bool draft_advance(draft *d, int64_t count)
{
    int64_t bits = tenon_view_item_bits(&d->tensor->view);
    if (bits % 8 == 0)
        return !tenon__mul_overflows(count, bits / 8, &d->offset);
    if (tenon__mul_overflows(count, bits, &bits))
        return false;
    d->offset = bits / 8;
    d->inside_byte = bits % 8 != 0;
    return true;
}

/* Create the tensor that the draft describes. */
static tenon_status draft_finish(draft *d, tenon_tensor **out)
{
    const tenon_view *view = &d->tensor->view;
    if (d->inside_byte)
        return tenon_error_set_in(d->err, TENON_ELAYOUT, d->function,
                                  "the view would start inside a byte of packed %s values; start at a whole byte, or "
                                  "make a copy",
                                  tenon__dtype_phrase(view->dtype).text);
    bool empty = false;
    for (int32_t i = 0; i < d->ndim; i++)
        empty |= d->shape[i] == 0;
    bool addresses = tenon_device_has_addresses(view->device);
    /* A view without elements keeps the position of the tensor, so that its position is always inside the memory. */
    uint64_t position = tenon__view_position(view) + (empty ? 0 : (uint64_t)d->offset);
    tenon_dl_tensor source = {
        .data = addresses ? (void *)(uintptr_t)position : view->data,
        .device = view->device,
        .ndim = d->ndim,
        .dtype = d->dtype,
        .shape = d->shape,
        .strides = d->strides,
        .byte_offset = addresses ? 0 : position,
    };
    tenon_tensor *block = tenon__tensor_alloc_block(d->ndim, 0, false, d->function, d->err);
    if (!block)
        return TENON_ENOMEM;
    uint64_t flags = view->flags & (TENON_READ_ONLY | TENON_IS_COPIED | TENON_SUBBYTE_PADDED);
    tenon_status status = tenon__view_init(&block->view, &source, flags, block->dims, d->function, d->err);
    if (status) {
        tenon__tensor_free_block(block);
        return status;
    }
    tenon__tensor_init(block, d->tensor->root);
    *out = block;
    return TENON_OK;
}

/* A dimension from 0 to count - 1, or from -count to -1. */
static tenon_status resolve_dim(const draft *d, const char *argument, int64_t dim, int32_t count, int32_t *out)
{
    if (dim < -count || dim >= count)
        return tenon_error_set_in(
            d->err, TENON_EBOUNDS, d->function,
            "argument '%s': expected one of %d dimensions, counted from 0 or backwards from -1, got %" PRId64, argument,
            count, dim);
    *out = (int32_t)(dim < 0 ? dim + count : dim);
    return TENON_OK;
}

static void remove_dim(draft *d, int32_t dim)
{
    d->ndim--;
    for (int32_t i = dim; i < d->ndim; i++) {
        d->shape[i] = d->shape[i + 1];
        d->strides[i] = d->strides[i + 1];
    }
}

/* ---------------------------------------------------------------------------------------------------- slice, select */

/* A bound of a slice, with Python's rules: negative counts from the end; then clamp to low..high. */
static int64_t clip(int64_t index, int64_t size, int64_t low, int64_t high)
{
    if (index < 0)
        index += size;
    return index < low ? low : index > high ? high : index;
}

tenon_status tenon_tensor_slice(tenon_tensor *tensor, int64_t dim, int64_t start, int64_t stop, int64_t step,
                                tenon_tensor **out, tenon_error *err)
{
    draft d;
    int32_t i = 0;
    tenon_status status = draft_begin(&d, "tenon_tensor_slice", tensor, out, err);
    if (!status)
        status = resolve_dim(&d, "dim", dim, d.ndim, &i);
    if (status)
        return status;
    if (step == 0 || step == TENON_OMIT)
        return tenon_error_set_in(err, TENON_EINVAL, d.function,
                                  "argument 'step': expected a number other than 0, such as 1");
    int64_t size = d.shape[i];
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    start = start == TENON_OMIT ? (step > 0 ? low : high) : clip(start, size, low, high);
    stop = stop == TENON_OMIT ? (step > 0 ? high : low) : clip(stop, size, low, high);
    int64_t count = 0;
    if (step > 0 && start < stop)
        count = (stop - start - 1) / step + 1;
    else if (step < 0 && start > stop)
        count = (start - stop - 1) / -step + 1;
    if (count > 0 && size > 1 && tensor->view.numel)
        draft_advance(&d, start * d.strides[i]);
    d.shape[i] = count;
    d.strides[i] = tenon__mul_wrapping(d.strides[i], step);
    return draft_finish(&d, out);
}

tenon_status tenon_tensor_select(tenon_tensor *tensor, int64_t dim, int64_t index, tenon_tensor **out, tenon_error *err)
{
    draft d;
    int32_t i = 0;
    tenon_status status = draft_begin(&d, "tenon_tensor_select", tensor, out, err);
    if (!status)
        status = resolve_dim(&d, "dim", dim, d.ndim, &i);
    if (status)
        return status;
    int64_t size = d.shape[i];
    if (index < -size || index >= size)
        return tenon_error_set_in(err, TENON_EBOUNDS, d.function,
                                  "argument 'index': expected %" PRId64 " to %" PRId64
                                  " along dimension %d, got %" PRId64,
                                  -size, size - 1, i, index);
    if (tensor->view.numel && size > 1)
        draft_advance(&d, (index < 0 ? index + size : index) * d.strides[i]);
    remove_dim(&d, i);
    return draft_finish(&d, out);
}

/* -------------------------------------------------------------------------------------------- order of dimensions */

tenon_status tenon_tensor_permute(tenon_tensor *tensor, const int32_t *axes, tenon_tensor **out, tenon_error *err)
{
    draft d;
    tenon_status status = draft_begin(&d, "tenon_tensor_permute", tensor, out, err);
    if (status)
        return status;
    if (d.ndim > 0 && !axes)
        return tenon_error_set_in(err, TENON_EINVAL, d.function, "argument 'axes' is NULL");
    const tenon_view *view = &tensor->view;
    uint64_t seen = 0;
    for (int32_t i = 0; i < d.ndim; i++) {
        int32_t from = 0;
        status = resolve_dim(&d, "axes", axes[i], d.ndim, &from);
        if (status)
            return status;
        if (seen >> from & 1)
            return tenon_error_set_in(err, TENON_EINVAL, d.function, "argument 'axes': dimension %d appears twice",
                                      from);
        seen |= (uint64_t)1 << from;
        d.shape[i] = view->shape[from];
        d.strides[i] = view->strides[from];
    }
    return draft_finish(&d, out);
}

tenon_status tenon_tensor_transpose(tenon_tensor *tensor, int64_t dim0, int64_t dim1, tenon_tensor **out,
                                    tenon_error *err)
{
    draft d;
    int32_t i = 0, j = 0;
    tenon_status status = draft_begin(&d, "tenon_tensor_transpose", tensor, out, err);
    if (!status)
        status = resolve_dim(&d, "dim0", dim0, d.ndim, &i);
    if (!status)
        status = resolve_dim(&d, "dim1", dim1, d.ndim, &j);
    if (status)
        return status;
    const tenon_view *view = &tensor->view;
    d.shape[i] = view->shape[j];
    d.strides[i] = view->strides[j];
    d.shape[j] = view->shape[i];
    d.strides[j] = view->strides[i];
    return draft_finish(&d, out);
}

/* --------------------------------------------------------------------------------------------------------- reshape */

/* The strides with which the new shape has the tensor's elements in C order. False if there are no such strides. Both
 * shapes have the same number of elements, not 0. Groups of old and new dimensions with the same product correspond to
 * each other, and each group of old dimensions must be contiguous. */
static bool strides_after_reshape(const draft *old, int32_t ndim, const int64_t *shape, int64_t *strides)
{
    int32_t i = 0, k = 0;
    int64_t last_stride = 1;
    while (k < ndim) {
        while (i < old->ndim && old->shape[i] == 1)
            i++;
        int32_t first = k;
        if (i == old->ndim) { /* only ones are left */
            strides[k++] = last_stride;
            continue;
        }
        int64_t in_old = old->shape[i], in_new = shape[k++], stride = old->strides[i];
        while (in_old != in_new) {
            if (in_new < in_old) {
                in_new *= shape[k++];
                continue;
            }
            while (old->shape[++i] == 1) {
            }
            int64_t whole;
            if (tenon__mul_overflows(old->shape[i], old->strides[i], &whole) || whole != stride)
                return false;
            stride = old->strides[i];
            in_old *= old->shape[i];
        }
        last_stride = stride;
        for (int32_t j = k - 1; j >= first; j--) {
            strides[j] = stride;
            stride = tenon__mul_wrapping(stride, shape[j]);
        }
        i++;
    }
    return true;
}

static tenon_status draft_reshape(draft *d, int32_t ndim, const int64_t *shape, tenon_tensor **out)
{
    const tenon_view *view = &d->tensor->view;
    int64_t strides[TENON_MAX_NDIM];
    bool fits = view->numel == 0 || (view->flags & TENON_VIEW_C) ? tenon__fill_strides(ndim, shape, 'C', strides)
                                                                 : strides_after_reshape(d, ndim, shape, strides);
    if (!fits && view->numel == 0)
        return tenon_error_set_in(d->err, TENON_EOVERFLOW, d->function, "%s has more bytes than 64 bits can count",
                                  tenon__type_phrase(view->dtype, ndim, shape).text);
    if (!fits)
        return tenon_error_set_in(d->err, TENON_ELAYOUT, d->function,
                                  "%s with strides %s cannot become %s without a copy; use tenon_tensor_contiguous "
                                  "first",
                                  tenon__type_phrase(view->dtype, view->ndim, view->shape).text,
                                  tenon__list_phrase(view->ndim, view->strides).text,
                                  tenon__list_phrase(ndim, shape).text);
    d->ndim = ndim;
    for (int32_t i = 0; i < ndim; i++) {
        d->shape[i] = shape[i];
        d->strides[i] = strides[i];
    }
    return draft_finish(d, out);
}

tenon_status tenon_tensor_reshape(tenon_tensor *tensor, int32_t ndim, const int64_t *shape, tenon_tensor **out,
                                  tenon_error *err)
{
    draft d;
    tenon_status status = draft_begin(&d, "tenon_tensor_reshape", tensor, out, err);
    if (status)
        return status;
    int64_t wanted[TENON_MAX_NDIM];
    int32_t inferred = -1;
    for (int32_t i = 0; shape && i < ndim && i < TENON_MAX_NDIM; i++) {
        wanted[i] = shape[i];
        if (shape[i] != -1)
            continue;
        if (inferred >= 0)
            return tenon_error_set_in(err, TENON_ESHAPE, d.function, "argument 'shape': only one dimension may be -1");
        inferred = i;
        wanted[i] = 1;
    }
    int64_t numel, bytes;
    status = tenon__check_shape(ndim, shape ? wanted : NULL, d.function, err);
    if (!status)
        status = tenon__shape_bytes(d.dtype, tensor->view.flags, ndim, wanted, &numel, &bytes, d.function, err);
    if (status)
        return status;
    if (inferred >= 0 && numel > 0 && tensor->view.numel % numel == 0) {
        wanted[inferred] = tensor->view.numel / numel;
        numel = tensor->view.numel;
    }
    if (numel != tensor->view.numel || (inferred >= 0 && numel == 0 && wanted[inferred] != 0))
        return tenon_error_set_in(err, TENON_ESHAPE, d.function,
                                  "argument 'shape': %s cannot hold the %" PRId64 " elements of %s",
                                  tenon__list_phrase(ndim, shape).text, tensor->view.numel,
                                  tenon__type_phrase(d.dtype, d.ndim, d.shape).text);
    return draft_reshape(&d, ndim, wanted, out);
}

tenon_status tenon_tensor_flatten(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err)
{
    draft d;
    tenon_status status = draft_begin(&d, "tenon_tensor_flatten", tensor, out, err);
    return status ? status : draft_reshape(&d, 1, &tensor->view.numel, out);
}

/* ------------------------------------------------------------------------------------------- dimensions of size 1 */

tenon_status tenon_tensor_squeeze(tenon_tensor *tensor, int64_t dim, tenon_tensor **out, tenon_error *err)
{
    draft d;
    tenon_status status = draft_begin(&d, "tenon_tensor_squeeze", tensor, out, err);
    if (status)
        return status;
    if (dim == TENON_OMIT) {
        for (int32_t i = d.ndim - 1; i >= 0; i--)
            if (d.shape[i] == 1)
                remove_dim(&d, i);
        return draft_finish(&d, out);
    }
    int32_t i = 0;
    status = resolve_dim(&d, "dim", dim, d.ndim, &i);
    if (status)
        return status;
    if (d.shape[i] != 1)
        return tenon_error_set_in(err, TENON_ESHAPE, d.function,
                                  "argument 'dim': expected a dimension of size 1, but dimension %d has size %" PRId64,
                                  i, d.shape[i]);
    remove_dim(&d, i);
    return draft_finish(&d, out);
}

tenon_status tenon_tensor_expand_dims(tenon_tensor *tensor, int64_t dim, tenon_tensor **out, tenon_error *err)
{
    draft d;
    int32_t at = 0;
    tenon_status status = draft_begin(&d, "tenon_tensor_expand_dims", tensor, out, err);
    if (!status)
        status = resolve_dim(&d, "dim", dim, d.ndim + 1, &at);
    if (status)
        return status;
    if (d.ndim == TENON_MAX_NDIM)
        return tenon_error_set_in(err, TENON_ESHAPE, d.function, "argument 'tensor' already has %d dimensions",
                                  TENON_MAX_NDIM);
    for (int32_t i = d.ndim; i > at; i--) {
        d.shape[i] = d.shape[i - 1];
        d.strides[i] = d.strides[i - 1];
    }
    d.ndim++;
    d.strides[at] = at + 1 < d.ndim ? tenon__mul_wrapping(d.shape[at + 1], d.strides[at + 1]) : 1;
    d.shape[at] = 1;
    return draft_finish(&d, out);
}

tenon_status tenon_tensor_broadcast_to(tenon_tensor *tensor, int32_t ndim, const int64_t *shape, tenon_tensor **out,
                                       tenon_error *err)
{
    draft d;
    tenon_status status = draft_begin(&d, "tenon_tensor_broadcast_to", tensor, out, err);
    if (!status)
        status = tenon__check_shape(ndim, shape, d.function, err);
    if (status)
        return status;
    const tenon_view *view = &tensor->view;
    int32_t added = ndim - view->ndim;
    bool fits = added >= 0;
    for (int32_t i = 0; i < ndim && fits; i++) {
        bool old = i >= added;
        int64_t size = old ? view->shape[i - added] : 1;
        fits = size == shape[i] || size == 1;
        d.shape[i] = shape[i];
        d.strides[i] = old && size == shape[i] ? view->strides[i - added] : 0;
    }
    if (!fits)
        return tenon_error_set_in(err, TENON_ESHAPE, d.function, "argument 'shape': %s cannot be broadcast to %s",
                                  tenon__type_phrase(view->dtype, view->ndim, view->shape).text,
                                  tenon__list_phrase(ndim, shape).text);
    d.ndim = ndim;
    return draft_finish(&d, out);
}

/* --------------------------------------------------------------------------------------------- strides and dtypes */

tenon_status tenon_tensor_as_strided(tenon_tensor *tensor, int32_t ndim, const int64_t *shape, const int64_t *strides,
                                     int64_t offset, tenon_tensor **out, tenon_error *err)
{
    draft d;
    tenon_status status = draft_begin(&d, "tenon_tensor_as_strided", tensor, out, err);
    if (!status)
        status = tenon__check_shape(ndim, shape, d.function, err);
    if (status)
        return status;
    if (ndim > 0 && !strides)
        return tenon_error_set_in(err, TENON_EINVAL, d.function, "argument 'strides' is NULL");
    if (!draft_advance(&d, offset))
        return tenon_error_set_in(err, TENON_EOVERFLOW, d.function,
                                  "argument 'offset': %" PRId64 " elements are more bytes than 64 bits can count",
                                  offset);
    d.ndim = ndim;
    for (int32_t i = 0; i < ndim; i++) {
        d.shape[i] = shape[i];
        d.strides[i] = strides[i];
    }
    const tenon_tensor *root = tensor->root;
    tenon_tensor *view;
    status = draft_finish(&d, &view);
    if (status)
        return status;
    uint64_t position = tenon__view_position(&view->view);
    tenon_extent extent = tenon_view_extent(&view->view);
    if (view->view.numel &&
        (position + (uint64_t)extent.low < root->low || position + (uint64_t)extent.high > root->high)) {
        tenon_tensor_release(view);
        return tenon_error_set_in(err, TENON_EBOUNDS, d.function,
                                  "shape %s with strides %s at offset %" PRId64 " reaches outside the owner's %" PRIu64
                                  " bytes",
                                  tenon__list_phrase(ndim, shape).text, tenon__list_phrase(ndim, strides).text, offset,
                                  root->high - root->low);
    }
    *out = view;
    return TENON_OK;
}

tenon_status tenon_tensor_view_as(tenon_tensor *tensor, tenon_dtype dtype, tenon_tensor **out, tenon_error *err)
{
    draft d;
    tenon_status status = draft_begin(&d, "tenon_tensor_view_as", tensor, out, err);
    if (!status)
        status = tenon__check_dtype(dtype, d.function, err);
    if (status)
        return status;
    uint64_t flags = tensor->view.flags;
    if (dtype.bits * dtype.lanes != d.dtype.bits * d.dtype.lanes ||
        tenon__item_bits(dtype, flags) != tenon__item_bits(d.dtype, flags))
        return tenon_error_set_in(err, TENON_EDTYPE, d.function,
                                  "argument 'dtype': expected a dtype of the same size as %s, got %s",
                                  tenon__dtype_phrase(d.dtype).text, tenon__dtype_phrase(dtype).text);
    d.dtype = dtype;
    return draft_finish(&d, out);
}

static tenon_status complex_part(const char *function, tenon_tensor *tensor, bool imaginary, tenon_tensor **out,
                                 tenon_error *err)
{
    draft d;
    tenon_status status = draft_begin(&d, function, tensor, out, err);
    if (status)
        return status;
    if (d.dtype.code != TENON_CODE_COMPLEX || d.dtype.lanes != 1)
        return tenon_error_set_in(err, TENON_EDTYPE, function,
                                  "argument 'tensor': expected a complex dtype of one lane, got %s",
                                  tenon__dtype_phrase(d.dtype).text);
    if (imaginary && tensor->view.numel)
        d.offset = d.dtype.bits / 16;
    d.dtype = tenon_dtype_of(TENON_CODE_FLOAT, d.dtype.bits / 2, 1);
    for (int32_t i = 0; i < d.ndim; i++)
        d.strides[i] = tenon__mul_wrapping(d.strides[i], 2);
    return draft_finish(&d, out);
}

tenon_status tenon_tensor_real(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err)
{
    return complex_part("tenon_tensor_real", tensor, false, out, err);
}

tenon_status tenon_tensor_imag(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err)
{
    return complex_part("tenon_tensor_imag", tensor, true, out, err);
}
