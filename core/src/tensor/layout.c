#include "internal.h"

#include <inttypes.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- checks */

tenon_status tenon__check_dtype(tenon_dtype dtype, const char *function, tenon_error *err)
{
    if (tenon_dtype_known(dtype))
        return TENON_OK;
    return tenon_error_set_in(err, TENON_EDTYPE, function,
                              "dtype: expected a dtype of DLPack 1.3, got code %d with %d bits and %d lanes",
                              dtype.code, dtype.bits, dtype.lanes);
}

tenon_status tenon__check_shape(int32_t ndim, const int64_t *shape, const char *function, tenon_error *err)
{
    if (ndim < 0 || ndim > TENON_MAX_NDIM)
        return tenon_error_set_in(err, TENON_ESHAPE, function, "ndim: expected 0 to %d, got %d", TENON_MAX_NDIM, ndim);
    if (ndim > 0 && !shape)
        return tenon_error_set_in(err, TENON_EINVAL, function, "shape is NULL, but ndim is %d", ndim);
    for (int32_t i = 0; i < ndim; i++)
        if (shape[i] < 0)
            return tenon_error_set_in(err, TENON_ESHAPE, function,
                                      "shape: dimension %d is %" PRId64 ", which is negative", i, shape[i]);
    return TENON_OK;
}

static tenon_status too_large(tenon_dtype dtype, int32_t ndim, const int64_t *shape, const char *function,
                              tenon_error *err)
{
    return tenon_error_set_in(err, TENON_EOVERFLOW, function, "%s has more bytes than 64 bits can count",
                              tenon__type_phrase(dtype, ndim, shape).text);
}

static tenon_status too_many(const char *function, tenon_error *err)
{
    return tenon_error_set_in(err, TENON_EOVERFLOW, function, "the shape has more elements than 64 bits can count");
}

/* The product of a checked shape, in which a dimension of 0 counts as 1. False on overflow. */
static bool padded_product(int32_t ndim, const int64_t *shape, int64_t *out, bool *empty)
{
    int64_t product = 1;
    *empty = false;
    for (int32_t i = 0; i < ndim; i++) {
        *empty |= shape[i] == 0;
        if (tenon__mul_overflows(product, shape[i] ? shape[i] : 1, &product))
            return false;
    }
    *out = product;
    return true;
}

static int64_t bytes_of(int64_t elements, int64_t item_bits)
{
    if (item_bits % 8 == 0)
        return elements * (item_bits / 8);
    return elements / 8 * item_bits + (elements % 8 * item_bits + 7) / 8;
}

tenon_status tenon__shape_bytes(tenon_dtype dtype, uint64_t flags, int32_t ndim, const int64_t *shape, int64_t *numel,
                                int64_t *bytes, const char *function, tenon_error *err)
{
    int64_t product, bits;
    bool empty;
    if (!padded_product(ndim, shape, &product, &empty) ||
        tenon__mul_overflows(product, (tenon__item_bits(dtype, flags) + 7) / 8, &bits))
        return too_large(dtype, ndim, shape, function, err);
    *numel = empty ? 0 : product;
    *bytes = empty ? 0 : bytes_of(product, tenon__item_bits(dtype, flags));
    return TENON_OK;
}

tenon_status tenon_shape_numel(int32_t ndim, const int64_t *shape, int64_t *out, tenon_error *err)
{
    if (!out)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_shape_numel", "argument 'out' is NULL");
    tenon_status status = tenon__check_shape(ndim, shape, "tenon_shape_numel", err);
    if (status)
        return status;
    int64_t product;
    bool empty;
    if (!padded_product(ndim, shape, &product, &empty))
        return too_many("tenon_shape_numel", err);
    *out = empty ? 0 : product;
    return TENON_OK;
}

bool tenon__fill_strides(int32_t ndim, const int64_t *shape, char order, int64_t *strides)
{
    int64_t stride = 1;
    for (int32_t k = 0; k < ndim; k++) {
        int32_t i = order == 'C' ? ndim - 1 - k : k;
        strides[i] = stride;
        if (tenon__mul_overflows(stride, shape[i] ? shape[i] : 1, &stride))
            return false;
    }
    return true;
}

tenon_status tenon_shape_strides(int32_t ndim, const int64_t *shape, char order, int64_t *out, tenon_error *err)
{
    const char *function = "tenon_shape_strides";
    if (order != 'C' && order != 'F')
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'order': expected 'C' or 'F'");
    if (ndim > 0 && !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'out' is NULL");
    tenon_status status = tenon__check_shape(ndim, shape, function, err);
    if (status)
        return status;
    int64_t strides[TENON_MAX_NDIM];
    if (!tenon__fill_strides(ndim, shape, order, strides))
        return too_many(function, err);
    if (ndim > 0)
        memcpy(out, strides, (size_t)ndim * sizeof *out);
    return TENON_OK;
}

/* ----------------------------------------------------------------------------------------------------- contiguity */

static bool in_f_order(int32_t ndim, const int64_t *shape, const int64_t *strides)
{
    int64_t expected = 1;
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] != 1 && strides[i] != expected)
            return false;
        expected *= shape[i];
    }
    return true;
}

/* Whether there is an order of the dimensions without gaps: their strides are 1, d, d*e, …, each of them once. */
static bool is_dense(int32_t ndim, const int64_t *shape, const int64_t *strides, int64_t numel)
{
    int64_t expected = 1;
    while (expected != numel) { /* each pass consumes one dimension larger than 1 */
        int32_t i = 0;
        while (i < ndim && (shape[i] == 1 || strides[i] != expected))
            i++;
        if (i == ndim)
            return false;
        expected *= shape[i];
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------- the validation */

static tenon_status bad_strides(int32_t ndim, const int64_t *shape, const int64_t *strides, const char *function,
                                tenon_error *err)
{
    return tenon_error_set_in(err, TENON_EOVERFLOW, function,
                              "strides %s of shape %s reach farther than 64 bits can address",
                              tenon__list_phrase(ndim, strides).text, tenon__list_phrase(ndim, shape).text);
}

/* The range of bytes from element `low` to element `high`. False on overflow. */
static bool extent_bytes(int64_t low, int64_t high, int64_t item_bits, tenon_extent *out)
{
    if (item_bits % 8 == 0)
        return !tenon__mul_overflows(low, item_bits / 8, &out->low) && !tenon__add_overflows(high, 1, &high) &&
               !tenon__mul_overflows(high, item_bits / 8, &out->high) && out->low != INT64_MIN;
    if (tenon__mul_overflows(low, item_bits, &low) || tenon__add_overflows(low, -7, &low) ||
        tenon__add_overflows(high, 1, &high) || tenon__mul_overflows(high, item_bits, &high) ||
        tenon__add_overflows(high, 7, &high))
        return false;
    out->low = low / 8;
    out->high = high / 8;
    return true;
}

/* The range of bytes of a shape without zeros. False on overflow. */
static bool find_extent(int32_t ndim, const int64_t *shape, const int64_t *strides, int64_t item_bits,
                        tenon_extent *out)
{
    int64_t low = 0, high = 0, far;
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] == 1)
            continue;
        if (tenon__mul_overflows(shape[i] - 1, strides[i], &far))
            return false;
        int64_t *end = far < 0 ? &low : &high;
        if (tenon__add_overflows(*end, far, end))
            return false;
    }
    return extent_bytes(low, high, item_bits, out);
}

static tenon_status check_device_and_flags(const tenon_dl_tensor *source, uint64_t flags, const int64_t *dims,
                                           const char *function, tenon_error *err)
{
    if (!tenon_device_known(source->device))
        return tenon_error_set_in(err, TENON_EDEVICE, function,
                                  "device: expected a device of DLPack 1.3, got type %d with id %d",
                                  source->device.device_type, source->device.device_id);
    if (flags & ~(TENON_READ_ONLY | TENON_IS_COPIED | TENON_SUBBYTE_PADDED))
        return tenon_error_set_in(err, TENON_EINVAL, function, "flags: expected DLPack's bits 0 to 2, got 0x%" PRIx64,
                                  flags);
    if (source->ndim > 0 && !dims)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'dims' is NULL, but ndim is %d", source->ndim);
    return TENON_OK;
}

static tenon_status refuse_memory(const tenon_dl_tensor *source, const int64_t *shape, tenon_extent extent,
                                  const char *function, tenon_error *err)
{
    if (!source->data)
        return tenon_error_set_in(err, TENON_EINVAL, function, "data is NULL, but %s has elements",
                                  tenon__type_phrase(source->dtype, source->ndim, shape).text);
    return tenon_error_set_in(err, TENON_EBOUNDS, function,
                              "bytes %" PRId64 " to %" PRId64 " from 0x%" PRIxPTR " + %" PRIu64
                              " are outside the address space",
                              extent.low, extent.high, (uintptr_t)source->data, source->byte_offset);
}

/* Whether a source with a known dtype is what tenon_view_init_fast wants, except for its ndim, shape and dims. */
static inline bool suits_fast_path(const tenon_dl_tensor *source, uint64_t flags)
{
    return source->device.device_type == TENON_CPU && source->device.device_id == 0 && flags <= TENON_READ_ONLY &&
           source->byte_offset == 0 && source->dtype.bits * source->dtype.lanes % 8 == 0;
}

static inline bool describe_fast(tenon_view *view, const tenon_dl_tensor *source, int stride_shift, uint64_t flags,
                                 int64_t *dims)
{
    return tenon_view_init_fast(view, source->data, &source->dtype, source->ndim, source->shape, source->strides,
                                stride_shift, flags, dims);
}

/* Every tensor that enters Tenon is validated here. */
tenon_status tenon__view_init(tenon_view *view, const tenon_dl_tensor *source, uint64_t flags, int64_t *dims,
                              const char *function, tenon_error *err)
{
    int32_t ndim = source->ndim;
    tenon_status status;
    if (tenon__unlikely((uint32_t)ndim > TENON_MAX_NDIM || (ndim > 0 && !source->shape)))
        return tenon__check_shape(ndim, source->shape, function, err);
    if (tenon__unlikely(!tenon__dtype_known(source->dtype)))
        return tenon__check_dtype(source->dtype, function, err);
    bool fast = suits_fast_path(source, flags);
    int64_t item_bits = tenon__item_bits(source->dtype, flags);
    if (fast && dims && describe_fast(view, source, 0, flags, dims))
        return TENON_OK;
    status = check_device_and_flags(source, flags, dims, function, err);
    if (status)
        return status;

    int64_t *shape = dims, *strides = dims ? dims + ndim : NULL;
    int64_t product = 1, nbytes; /* a size of 0 counts as 1 */
    int32_t long_dims = 0;
    int64_t smallest = 1;
    bool c_order = true, overflow = false;
    for (int32_t i = ndim - 1; i >= 0; i--) {
        int64_t size = source->shape[i], stride = source->strides ? source->strides[i] : product;
        shape[i] = size;
        strides[i] = stride;
        if (size > 1) {
            long_dims++;
            c_order &= stride == product;
            overflow |= tenon__mul_overflows(product, size, &product);
        } else if (size < smallest) {
            smallest = size;
        }
    }
    overflow |= tenon__mul_overflows(product, (item_bits + 7) / 8, &nbytes);
    if (tenon__unlikely(smallest < 0))
        return tenon__check_shape(ndim, shape, function, err);
    if (tenon__unlikely(overflow))
        return too_large(source->dtype, ndim, shape, function, err);

    bool addresses = !tenon__device_in(source->device, TENON__HANDLE_DEVICES);
    view->device = source->device;
    view->ndim = ndim;
    view->dtype = source->dtype;
    view->shape = shape;
    view->strides = strides;
    view->byte_offset = addresses ? 0 : source->byte_offset;
    if (tenon__unlikely(smallest == 0)) {
        /* There are no elements, so any pointer, offset and strides are valid. */
        bool moves = addresses && source->data && source->byte_offset <= UINTPTR_MAX - (uintptr_t)source->data;
        view->data = moves ? (void *)((uintptr_t)source->data + source->byte_offset) : source->data;
        view->numel = 0;
        view->flags = flags | TENON_VIEW_C | TENON_VIEW_F | TENON_VIEW_DENSE;
        return TENON_OK;
    }

    tenon_extent extent = {0, nbytes};
    if (tenon__unlikely(!c_order || item_bits % 8) && !find_extent(ndim, shape, strides, item_bits, &extent))
        return bad_strides(ndim, shape, strides, function, err);
    /* A position is an address, or an offset if data is a handle. Neither the lowest nor the highest may overflow. */
    uint64_t position = addresses ? (uintptr_t)source->data : 0, limit = addresses ? UINTPTR_MAX : INT64_MAX, last;
    bool outside = tenon__add_overflows(position, source->byte_offset, &position) ||
                   position < 0 - (uint64_t)extent.low ||
                   tenon__add_overflows(position, (uint64_t)extent.high, &last) || last > limit;
    if (tenon__unlikely(!source->data || outside))
        return refuse_memory(source, shape, extent, function, err);
    view->data = addresses ? (void *)(uintptr_t)position : source->data;
    view->numel = product;
    if (c_order)
        view->flags = flags | TENON_VIEW_C | TENON_VIEW_DENSE | (long_dims <= 1 ? TENON_VIEW_F : 0);
    else if (in_f_order(ndim, shape, strides))
        view->flags = flags | TENON_VIEW_F | TENON_VIEW_DENSE;
    else
        view->flags = flags | (is_dense(ndim, shape, strides, product) ? TENON_VIEW_DENSE : 0);
    return TENON_OK;
}

tenon_status tenon_view_init(tenon_view *view, const tenon_dl_tensor *source, uint64_t flags, int64_t *dims,
                             tenon_error *err)
{
    if (!view || !source)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_view_init", "argument '%s' is NULL",
                                  view ? "source" : "view");
    return tenon__view_init(view, source, flags, dims, "tenon_view_init", err);
}

/* Write strides in bytes to `out` in elements. A stride that addresses nothing may have any value. */
static tenon_status divide_strides(const tenon_dl_tensor *source, uint64_t flags, int64_t *out, const char *function,
                                   tenon_error *err)
{
    int64_t item_bits = tenon__item_bits(source->dtype, flags), item = item_bits / 8;
    bool empty = false, whole = true;
    if (item_bits % 8)
        return tenon_error_set_in(err, TENON_ELAYOUT, function,
                                  "strides in bytes: elements of %s have no bytes of their own",
                                  tenon__dtype_phrase(source->dtype).text);
    for (int32_t i = 0; i < source->ndim; i++) {
        int64_t stride = source->strides[i], rest = stride % item;
        empty |= source->shape[i] == 0;
        whole &= source->shape[i] <= 1 || rest == 0;
        out[i] = stride / item - (rest < 0);
    }
    if (whole || empty)
        return TENON_OK;
    return tenon_error_set_in(err, TENON_ELAYOUT, function,
                              "strides of %s bytes are not multiples of the item size, %" PRId64
                              " (a field of a structured array?); pass a copy",
                              tenon__list_phrase(source->ndim, source->strides).text, item);
}

tenon_status tenon_view_init_bytes(tenon_view *view, const tenon_dl_tensor *source, uint64_t flags, int64_t *dims,
                                   tenon_error *err)
{
    const char *function = "tenon_view_init_bytes";
    if (!view || !source)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", view ? "source" : "view");
    tenon_dl_tensor in_elements = *source;
    /* tenon__view_init finds all other mistakes. */
    if (source->strides && source->shape && dims && source->ndim > 0 && source->ndim <= TENON_MAX_NDIM &&
        tenon__dtype_known(source->dtype)) {
        int64_t item = tenon__item_bits(source->dtype, flags) / 8;
        if (item > 0 && (item & (item - 1)) == 0 && suits_fast_path(source, flags) &&
            describe_fast(view, source, tenon__lowest_bit((uint64_t)item), flags, dims))
            return TENON_OK;
        in_elements.strides = dims + source->ndim;
        tenon_status status = divide_strides(source, flags, in_elements.strides, function, err);
        if (status)
            return status;
    }
    return tenon__view_init(view, &in_elements, flags, dims, function, err);
}

/* ---------------------------------------------------------------------------------------------------------- queries */

int64_t tenon_view_item_bits(const tenon_view *view)
{
    return view ? tenon__item_bits(view->dtype, view->flags) : 0;
}

int64_t tenon_view_nbytes(const tenon_view *view)
{
    if (!view)
        return 0;
    return bytes_of(view->numel, tenon_view_item_bits(view));
}

tenon_extent tenon_view_extent(const tenon_view *view)
{
    tenon_extent extent = {0, 0};
    if (!view || view->numel == 0)
        return extent;
    int64_t item_bits = tenon__item_bits(view->dtype, view->flags);
    if (view->flags & TENON_VIEW_DENSE)
        extent.high = bytes_of(view->numel, item_bits);
    else
        find_extent(view->ndim, view->shape, view->strides, item_bits, &extent);
    return extent;
}

bool tenon_view_equal(const tenon_view *a, const tenon_view *b)
{
    if (!a || !b || a->data != b->data || a->byte_offset != b->byte_offset || a->ndim != b->ndim ||
        !tenon_dtype_equal(a->dtype, b->dtype))
        return false;
    if (a->dtype.bits < 8 && ((a->flags ^ b->flags) & TENON_SUBBYTE_PADDED))
        return false;
    if (!tenon_device_equal(a->device, b->device) &&
        !(tenon__device_in(a->device, TENON__HOST_DEVICES) && tenon__device_in(b->device, TENON__HOST_DEVICES)))
        return false;
    for (int32_t i = 0; i < a->ndim; i++) {
        if (a->shape[i] != b->shape[i])
            return false;
        if (a->strides[i] != b->strides[i] && a->shape[i] > 1 && a->numel > 0)
            return false;
    }
    return true;
}

uint64_t tenon__view_position(const tenon_view *view)
{
    bool handle = tenon__device_in(view->device, TENON__HANDLE_DEVICES);
    return handle ? view->byte_offset : (uint64_t)(uintptr_t)view->data;
}

size_t tenon_view_alignment(const tenon_view *view)
{
    if (!view)
        return 0;
    uint64_t position = tenon__view_position(view) | 4096;
    return (size_t)(position & (~position + 1));
}
