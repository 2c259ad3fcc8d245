/* For all fuzz targets: numbers from the input, checks that abort, and view operations. */
#ifndef TENON_FUZZ_H
#define TENON_FUZZ_H

#include <tenon/tenon.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

typedef struct fuzz_input {
    const uint8_t *data;
    size_t size;
} fuzz_input;

/* The next `count` bytes of the input as a number. After the end of the input, bytes are 0. */
static inline uint64_t fuzz_bytes(fuzz_input *in, int count)
{
    uint64_t value = 0;
    for (int i = 0; i < count && in->size > 0; i++, in->data++, in->size--)
        value |= (uint64_t)*in->data << (8 * i);
    return value;
}

static inline int fuzz_byte(fuzz_input *in)
{
    return (int)fuzz_bytes(in, 1);
}

/* Mostly a small number, sometimes a limit of a type, sometimes any number. */
static inline int64_t fuzz_number(fuzz_input *in)
{
    int tag = fuzz_byte(in);
    if (tag < 240)
        return tag % 24 - 6;
    switch (tag) {
    case 240:
        return INT64_MAX;
    case 241:
        return INT64_MIN;
    case 242:
        return INT64_MIN + 1;
    case 243:
        return INT32_MAX;
    case 244:
        return INT32_MIN;
    case 245:
        return (int64_t)1 << (fuzz_byte(in) % 63);
    case 246:
        return -((int64_t)1 << (fuzz_byte(in) % 63));
    default:
        return (int64_t)fuzz_bytes(in, 8);
    }
}

static inline tenon_dtype fuzz_dtype(fuzz_input *in)
{
    static const uint8_t known[][2] = {{0, 8},  {1, 8},  {2, 32}, {1, 4},   {2, 64}, {5, 64}, {1, 1},  {15, 6},
                                       {4, 16}, {17, 4}, {6, 8},  {5, 128}, {0, 2},  {5, 32}, {0, 128}};
    int tag = fuzz_byte(in);
    if (tag >= 200)
        return tenon_dtype_of(fuzz_byte(in), fuzz_byte(in), (int)fuzz_bytes(in, 2));
    int i = tag % 15;
    return tenon_dtype_of(known[i][0], known[i][1], tag >= 180 ? 2 + tag % 3 : 1);
}

/* A view of up to 8 dimensions; `dims` has space for 16 numbers. False if the input does not describe a valid view. */
static inline bool fuzz_view(fuzz_input *in, tenon_view *view, int64_t *dims)
{
    int kind = fuzz_byte(in);
    int64_t shape[8], strides[8];
    int32_t ndim = kind % 9;
    for (int32_t i = 0; i < ndim; i++) {
        shape[i] = fuzz_number(in);
        strides[i] = kind >= 128 ? fuzz_number(in) : 0;
    }
    int device = fuzz_byte(in);
    tenon_dl_tensor source = {
        .data = (void *)(uintptr_t)(4096 + (uintptr_t)(fuzz_byte(in) * 8)),
        .device = tenon_device_of(device < 160 ? TENON_CPU : device % 19, device % 3),
        .ndim = ndim,
        .dtype = fuzz_dtype(in),
        .shape = shape,
        .strides = kind >= 128 ? strides : NULL,
    };
    return tenon_view_init(view, &source, (uint64_t)(fuzz_byte(in) & 1), dims, NULL) == TENON_OK;
}

/* Check that no tensor, struct or byte is alive. */
static inline void fuzz_nothing_left(void)
{
    tenon_stats counts = tenon_stats_read();
    FUZZ_CHECK(counts.tensors == 0 && counts.exports == 0 && counts.bytes == 0 && counts.deferred == 0);
}

/* Check that a failure sets a status and a message, and that success leaves both unchanged. */
static inline void fuzz_check_error(tenon_status status, const tenon_error *err)
{
    FUZZ_CHECK(status >= TENON_OK && status <= TENON_ESYSTEM);
    if (status == TENON_OK)
        return;
    FUZZ_CHECK(err->status == status);
    FUZZ_CHECK(err->message[0] && memchr(err->message, 0, sizeof err->message));
}

/* Run one view operation, chosen by the input. NULL if it fails. */
static inline tenon_tensor *fuzz_operate(fuzz_input *in, tenon_tensor *tensor)
{
    const tenon_view *view = tenon_tensor_view(tensor);
    tenon_tensor *out = NULL;
    tenon_error err = {0};
    tenon_status status = TENON_OK;
    int64_t shape[8], strides[8];
    int32_t axes[TENON_MAX_NDIM];
    int operation = fuzz_byte(in) % 13;
    int32_t ndim = 0;
    if (operation == 4 || operation == 8 || operation == 9) {
        ndim = fuzz_byte(in) % 9;
        for (int32_t i = 0; i < ndim; i++) {
            shape[i] = fuzz_number(in);
            strides[i] = operation == 9 ? fuzz_number(in) : 0;
        }
    }
    int64_t a = operation < 8 || operation == 9 ? fuzz_number(in) : 0;
    switch (operation) {
    case 0: {
        int64_t start = fuzz_number(in), stop = fuzz_number(in);
        status = tenon_tensor_slice(tensor, a, start, stop, fuzz_number(in), &out, &err);
        break;
    }
    case 1:
        status = tenon_tensor_select(tensor, a, fuzz_number(in), &out, &err);
        break;
    case 2:
        for (int32_t i = 0; i < view->ndim; i++)
            axes[i] = (a & 1) ? (int32_t)fuzz_number(in) : view->ndim - 1 - i;
        status = tenon_tensor_permute(tensor, axes, &out, &err);
        break;
    case 3:
        status = tenon_tensor_transpose(tensor, a, fuzz_number(in), &out, &err);
        break;
    case 4:
        status = tenon_tensor_reshape(tensor, ndim, shape, &out, &err);
        break;
    case 5:
        status = tenon_tensor_flatten(tensor, &out, &err);
        break;
    case 6:
        status = tenon_tensor_squeeze(tensor, a, &out, &err);
        break;
    case 7:
        status = tenon_tensor_expand_dims(tensor, a, &out, &err);
        break;
    case 8:
        status = tenon_tensor_broadcast_to(tensor, ndim, shape, &out, &err);
        break;
    case 9:
        status = tenon_tensor_as_strided(tensor, ndim, shape, strides, a, &out, &err);
        break;
    case 10:
        status = tenon_tensor_view_as(tensor, fuzz_dtype(in), &out, &err);
        break;
    case 11:
        status = tenon_tensor_real(tensor, &out, &err);
        break;
    default:
        status = tenon_tensor_imag(tensor, &out, &err);
        break;
    }
    fuzz_check_error(status, &err);
    FUZZ_CHECK((status == TENON_OK) == (out != NULL));
    if (out)
        FUZZ_CHECK(!(view->flags & TENON_READ_ONLY) || (tenon_tensor_view(out)->flags & TENON_READ_ONLY));
    return out;
}

/* Call every function on a view that does not read its elements. */
static inline void fuzz_ask(const tenon_view *view)
{
    char text[512];
    size_t length = tenon_view_format(view, text, sizeof text);
    FUZZ_CHECK(strlen(text) == (length < sizeof text ? length : sizeof text - 1));
    tenon_extent extent = tenon_view_extent(view);
    FUZZ_CHECK(extent.low <= 0 && extent.high >= 0 && (view->numel > 0) == (extent.high > 0));
    int64_t numel;
    FUZZ_CHECK(tenon_shape_numel(view->ndim, view->shape, &numel, NULL) == TENON_OK && numel == view->numel);
    int64_t nbytes = tenon_view_nbytes(view);
    FUZZ_CHECK(nbytes >= 0 && (nbytes > 0) == (numel > 0));
    if (view->flags & TENON_VIEW_DENSE)
        FUZZ_CHECK(extent.low == 0 && extent.high == nbytes && !tenon_view_self_overlaps(view));
    if (view->flags & (TENON_VIEW_C | TENON_VIEW_F))
        FUZZ_CHECK(view->flags & TENON_VIEW_DENSE);
    if ((uint64_t)nbytes > (uint64_t)extent.high - (uint64_t)extent.low)
        FUZZ_CHECK(tenon_view_self_overlaps(view));
    size_t alignment = tenon_view_alignment(view);
    FUZZ_CHECK(alignment >= 1 && alignment <= 4096 && (alignment & (alignment - 1)) == 0);
    FUZZ_CHECK(tenon_view_overlaps(view, view) == (numel > 0));
}

#endif
