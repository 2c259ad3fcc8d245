/* Questions about a view's memory, and the one copy. Nothing here allocates or owns. A NULL view has no bytes. */
#ifndef TENON_VIEW_H
#define TENON_VIEW_H

#include <tenon/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The one validation: describe `source` in `view`, or say what is wrong with it. Every tensor from outside passes here.
 *
 * `flags` are DLPack's three. `dims` is room for 2 * source->ndim values that lives as long as the view: shape and
 * strides are copied there (`source->shape` may be `dims` itself, `source->strides` `dims + ndim`); it is not touched
 * where ndim is outside 0 to 64. NULL strides are filled in, in C order. Strides of dimensions of size 1 or of empty
 * tensors are kept as they came and never looked at. `source` is only read. On failure `view` and `dims` may be half
 * written.
 *
 * Errors: TENON_EINVAL (NULL, unknown flags, NULL shape or data), TENON_ESHAPE (ndim outside 0 to 64, negative
 *         dimensions), TENON_EDTYPE, TENON_EDEVICE, TENON_EOVERFLOW, TENON_EBOUNDS (reaches below address or handle
 *         offset 0, or past the last). */
TENON_API TENON_NODISCARD tenon_status tenon_view_init(tenon_view *view, const tenon_dl_tensor *source, uint64_t flags,
                                                       int64_t *dims, tenon_error *err);

/* As tenon_view_init, for strides in bytes, which buffers and the arrays of NumPy have. They are stored in elements.
 * A stride that addresses nothing (of a dimension of size 1, or of an empty tensor) is rounded down if it has to be.
 * `source->strides` may not be in `dims`.
 *
 * Errors: those of tenon_view_init, and TENON_ELAYOUT (a stride is not a multiple of the item size, or the dtype is
 *         packed, so that an element has no bytes of its own). */
TENON_API TENON_NODISCARD tenon_status tenon_view_init_bytes(tenon_view *view, const tenon_dl_tensor *source,
                                                             uint64_t flags, int64_t *dims, tenon_error *err);

/* The number of elements of a shape.
 *
 * Errors: TENON_EINVAL, TENON_ESHAPE, TENON_EOVERFLOW (also where only a dimension of 0 keeps the product small). */
TENON_API TENON_NODISCARD tenon_status tenon_shape_numel(int32_t ndim, const int64_t *shape, int64_t *out,
                                                         tenon_error *err);

/* The strides, in elements, of a shape without gaps, in order 'C' or 'F'. A dimension of 0 counts as 1.
 *
 * Errors: as tenon_shape_numel, and TENON_EINVAL for another order. */
TENON_API TENON_NODISCARD tenon_status tenon_shape_strides(int32_t ndim, const int64_t *shape, char order, int64_t *out,
                                                           tenon_error *err);

/* The bits between one element and the next where the stride is 1: bits * lanes, or 8 * lanes for padded sub-byte
 * values. A multiple of 8 but for packed sub-byte dtypes. */
TENON_API int64_t tenon_view_item_bits(const tenon_view *view);

/* The bytes that the elements would take without gaps. */
TENON_API int64_t tenon_view_nbytes(const tenon_view *view);

/* The bytes that the view touches, relative to its first element: from `low` (0 or negative) up to, not including,
 * `high`. Both 0 for an empty view. */
typedef struct tenon_extent {
    int64_t low;
    int64_t high;
} tenon_extent;

TENON_API tenon_extent tenon_view_extent(const tenon_view *view);

/* The largest power of two, at most 4096, that divides the address (or handle offset) of the first element. */
TENON_API size_t tenon_view_alignment(const tenon_view *view);

/* Whether both views are the same elements of the same memory: equal data, byte_offset, dtype (packed and padded sub-byte
 * values differ), shape and strides, on the same device or both in memory that the CPU can read. Strides that address
 * nothing are not compared: those of dimensions of size 1, and of empty views. Neither are the flags, so one of them may be
 * read-only. NULL is equal to nothing.
 *
 * Threads: any. */
TENON_API bool tenon_view_equal(const tenon_view *a, const tenon_view *b);

/* Whether some byte (some bit of packed sub-byte dtypes) belongs to both. Exact but for views whose strides interleave
 * in so many ways that counting them out would take long: there the answer is yes. Memory that the CPU can read is
 * compared with any other by address; on two different devices that it cannot read nothing overlaps. */
TENON_API bool tenon_view_overlaps(const tenon_view *a, const tenon_view *b);

/* Whether two elements of the view share memory: a stride of 0, or strides that fold. Exact as tenon_view_overlaps. */
TENON_API bool tenon_view_self_overlaps(const tenon_view *view);

/* Write "f32[2, 3] strides [3, 1] on cpu, read-only, at 0x…" in one line. Ends and returns as tenon_dtype_format. */
TENON_API size_t tenon_view_format(const tenon_view *view, char *buffer, size_t size);

/* Copy every element of `src` to its place in `dst`: same dtype and shape, any two layouts, memory the CPU can reach.
 * Runs on the calling thread. Two packed sub-byte views can share a byte without overlapping: they may not be written
 * at the same time.
 *
 * Errors: TENON_EINVAL (NULL), TENON_EDTYPE (another dtype; packed and padded sub-byte values differ), TENON_ESHAPE,
 *         TENON_EDEVICE, TENON_EREADONLY (dst), TENON_EOVERLAP (dst overlaps itself or src, but for a copy of a view
 *         onto itself, which does nothing). Nothing is written then. */
TENON_API TENON_NODISCARD tenon_status tenon_copy(const tenon_view *dst, const tenon_view *src, tenon_error *err);

#ifdef __cplusplus
}
#endif

#endif
