/* Validate, inspect and copy views. Nothing here allocates memory or takes ownership. A NULL view counts as empty. */
#ifndef TENON_VIEW_H
#define TENON_VIEW_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <tenon/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Validate `source` and describe it in `view`. Every tensor that enters Tenon is validated here.
 *
 * `flags` are the three flags of DLPack. `dims` is storage for 2 * source->ndim values, and must be valid as long as the
 * view is: shape and strides are copied there. `source->shape` may be `dims` itself, and `source->strides` may be
 * `dims + ndim`. `dims` is not accessed if ndim is outside 0 to 64. NULL strides are replaced by those of C order. The
 * strides of dimensions of size 1, and of empty tensors, are copied but otherwise ignored. `source` is not modified. On
 * failure the contents of `view` and `dims` are undefined.
 *
 * Errors: TENON_EINVAL (NULL, unknown flags, NULL shape or data), TENON_ESHAPE (ndim outside 0 to 64, negative
 *         dimensions), TENON_EDTYPE, TENON_EDEVICE, TENON_EOVERFLOW, TENON_EBOUNDS (elements before the first or after
 *         the last possible address or offset). */
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
 * Errors: TENON_EINVAL, TENON_ESHAPE, TENON_EOVERFLOW (even if the overflow is hidden by a dimension of 0). */
TENON_API TENON_NODISCARD tenon_status tenon_shape_numel(int32_t ndim, const int64_t *shape, int64_t *out,
                                                         tenon_error *err);

/* The strides, in elements, of a contiguous tensor with this shape, in order 'C' or 'F'. A dimension of 0 counts as 1.
 *
 * Errors: those of tenon_shape_numel, and TENON_EINVAL for any other order. */
TENON_API TENON_NODISCARD tenon_status tenon_shape_strides(int32_t ndim, const int64_t *shape, char order, int64_t *out,
                                                           tenon_error *err);

/* The size of an element in bits: bits * lanes, or 8 * lanes for padded sub-byte values. It is a multiple of 8, except
 * for packed sub-byte values. */
TENON_API int64_t tenon_view_item_bits(const tenon_view *view);

/* The number of bytes that the elements occupy when stored without gaps. */
TENON_API int64_t tenon_view_nbytes(const tenon_view *view);

/* The range of bytes that the elements occupy, relative to the first element: from `low`, which is 0 or negative, up to
 * but not including `high`. Both are 0 for an empty view. */
typedef struct tenon_extent {
    int64_t low;
    int64_t high;
} tenon_extent;

/* The range of a view. */
TENON_API tenon_extent tenon_view_extent(const tenon_view *view);

/* The largest power of two, at most 4096, that divides the address (or handle offset) of the first element. */
TENON_API size_t tenon_view_alignment(const tenon_view *view);

/* Whether both views describe the same elements of the same memory: equal data, byte_offset, dtype, shape and strides, on
 * the same device or both in memory that the CPU can read. Packed and padded sub-byte values differ. Strides that have no
 * effect are not compared: those of dimensions of size 1, and of empty views. The flags are not compared either, so one
 * of the views may be read-only. NULL does not equal anything.
 *
 * Threads: any. */
TENON_API bool tenon_view_equal(const tenon_view *a, const tenon_view *b);

/* Whether the two views have a byte (or, for packed sub-byte dtypes, a bit) in common. The answer is exact, except for
 * views with strides that interleave in too many ways to search: for them it is true. Memory that the CPU can read is
 * compared by address, even with memory of another device. Memory of two different devices that the CPU cannot read
 * never overlaps. */
TENON_API bool tenon_view_overlaps(const tenon_view *a, const tenon_view *b);

/* Whether two elements of the view share memory, for example because a stride is 0. As exact as tenon_view_overlaps. */
TENON_API bool tenon_view_self_overlaps(const tenon_view *view);

/* Write a description such as "f32[2, 3] strides [3, 1] on cpu, read-only, at 0x…". Truncates and returns like
 * tenon_dtype_format. */
TENON_API size_t tenon_view_format(const tenon_view *view, char *buffer, size_t size);

/* Copy the elements of `src` to `dst`, and convert them if the dtypes differ. Both need the same shape, and memory that the CPU
 * can read; their strides may differ. The copy runs on the calling thread.
 *
 * All dtypes of DLPack are converted into each other, also packed and padded sub-byte values, except opaque values and
 * numbers of 128 bits (i128, u128, f128):
 * - to a float: rounded once, from the exact value, to nearest even. A number that is too large becomes infinity, NaN if the
 *   dtype has no infinity (f8_e4m3fn), and the largest number if it has neither (f6, f4). NaN becomes 0 in f6 and f4.
 * - to f8_e8m0fnu, which has only powers of two: the nearest one, of two the larger. 0, negative numbers and NaN become NaN.
 * - float to integer: rounded toward zero. Numbers out of range become the smallest or the largest integer, and NaN 0.
 * - integer to integer: wraps, as a cast in C does.
 * - to bool: whether it is not 0, so that NaN is true. bool to number: 0 or 1, whatever the byte is.
 * - to complex: the imaginary part is 0. Complex numbers are only converted to complex numbers.
 * The number of lanes must be the same. The floating-point environment must be the default one: the conversion rounds as the
 * thread does, and flushes subnormal numbers of f32 if the thread does.
 *
 * Threads: any. Two views of packed sub-byte values can share a byte without overlapping: do not write to both at the
 *          same time.
 * Errors:  TENON_EINVAL (NULL), TENON_ESHAPE, TENON_EDTYPE (a conversion that is not possible), TENON_EDEVICE,
 *          TENON_EREADONLY (dst), TENON_EOVERLAP (dst overlaps itself or src; copying a view onto itself is allowed and
 *          does nothing). On failure nothing is written. */
TENON_API TENON_NODISCARD tenon_status tenon_copy(const tenon_view *dst, const tenon_view *src, tenon_error *err);

#ifdef __cplusplus
}
#endif

#endif
