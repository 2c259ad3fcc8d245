#include "internal.h"

#include <string.h>

/* --------------------------------------------------------------------------------------------------------- checks */

static bool copy_same_shape(const tenon_view *a, const tenon_view *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int32_t i = 0; i < a->ndim; i++) {
        if (a->shape[i] != b->shape[i])
            return false;
    }
    return true;
}

static tenon__phrase copy_type(const tenon_view *view)
{
    return tenon__type_phrase(view->dtype, view->ndim, view->shape);
}

static tenon_status copy_check_type(const tenon_view *dst, const tenon_view *src, tenon_error *err)
{
    if (!copy_same_shape(dst, src))
        return tenon_error_set_in(err, TENON_ESHAPE, "tenon_copy",
                                  "argument 'src': expected %s, got %s; both need the same shape, which "
                                  "tenon_tensor_broadcast_to can provide",
                                  copy_type(dst).text, copy_type(src).text);
    return tenon__convert_needed(dst, src) ? tenon__convert_check(dst, src, err) : TENON_OK;
}

static tenon_status copy_check_device(const tenon_view *view, const char *argument, tenon_error *err)
{
    if (tenon_device_on_host(view->device))
        return TENON_OK;
    return tenon_error_set_in(err, TENON_EDEVICE, "tenon_copy",
                              "argument '%s': expected memory that the CPU can reach, got %s on %s; copy it "
                              "with the device's own runtime",
                              argument, copy_type(view).text, tenon__device_phrase(view->device).text);
}

static tenon_status copy_check_overlap(const tenon_view *dst, const tenon_view *src, tenon_error *err)
{
    if (tenon_view_self_overlaps(dst))
        return tenon_error_set_in(err, TENON_EOVERLAP, "tenon_copy",
                                  "argument 'dst': expected distinct memory for each element, got %s with "
                                  "strides %s, which overlaps itself; copy into a tensor that does not",
                                  copy_type(dst).text, tenon__list_phrase(dst->ndim, dst->strides).text);
    if (tenon_view_overlaps(dst, src))
        return tenon_error_set_in(err, TENON_EOVERLAP, "tenon_copy",
                                  "argument 'src': expected memory that does not overlap 'dst', got %s with "
                                  "strides %s, which does; copy 'src' elsewhere first",
                                  copy_type(src).text, tenon__list_phrase(src->ndim, src->strides).text);
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------------- loops */

static int64_t copy_step_size(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

void tenon__loops_add(tenon__loops *loops, int64_t size, int64_t to, int64_t from)
{
    int32_t at = loops->ndim++;
    for (; at > 0 && copy_step_size(loops->to[at - 1]) > copy_step_size(to); at--) {
        loops->shape[at] = loops->shape[at - 1];
        loops->to[at] = loops->to[at - 1];
        loops->from[at] = loops->from[at - 1];
    }
    loops->shape[at] = size;
    loops->to[at] = to;
    loops->from[at] = from;
}

void tenon__loops_add_views(tenon__loops *loops, const tenon_view *dst, const tenon_view *src, int64_t to, int64_t from)
{
    for (int32_t d = 0; d < dst->ndim; d++) {
        if (dst->shape[d] != 1)
            tenon__loops_add(loops, dst->shape[d], dst->strides[d] * to, src->strides[d] * from);
    }
}

/* Make all strides of dst positive. Returns how far the first element moves in dst and in src. */
static void copy_make_strides_positive(tenon__loops *loops, int64_t *dst_shift, int64_t *src_shift)
{
    *dst_shift = *src_shift = 0;
    for (int32_t i = 0; i < loops->ndim; i++) {
        if (loops->to[i] >= 0)
            continue;
        *dst_shift += (loops->shape[i] - 1) * loops->to[i];
        *src_shift += (loops->shape[i] - 1) * loops->from[i];
        loops->to[i] = -loops->to[i];
        loops->from[i] = -loops->from[i];
    }
}

void tenon__loops_merge(tenon__loops *loops)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < loops->ndim; i++) {
        if (kept == 0 && loops->to[i] == loops->item && loops->from[i] == loops->item) {
            loops->item *= loops->shape[i];
            continue;
        }
        if (kept > 0 && loops->to[i] == loops->to[kept - 1] * loops->shape[kept - 1] &&
            loops->from[i] == loops->from[kept - 1] * loops->shape[kept - 1]) {
            loops->shape[kept - 1] *= loops->shape[i];
            continue;
        }
        loops->shape[kept] = loops->shape[i];
        loops->to[kept] = loops->to[i];
        loops->from[kept] = loops->from[i];
        kept++;
    }
    loops->ndim = kept;
}

/* Convert from bits to bytes. Returns false if something is not a whole number of bytes. */
static bool copy_bits_to_bytes(tenon__loops *loops)
{
    int64_t odd = loops->item;
    for (int32_t i = 0; i < loops->ndim; i++)
        odd |= loops->to[i] | loops->from[i];
    if (odd & 7)
        return false;
    loops->item /= 8;
    for (int32_t i = 0; i < loops->ndim; i++) {
        loops->to[i] /= 8;
        loops->from[i] /= 8;
    }
    return true;
}

tenon_status tenon_copy(const tenon_view *dst, const tenon_view *src, tenon_error *err)
{
    if (!dst || !src)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_copy", "argument '%s' is NULL", dst ? "src" : "dst");
    tenon_status status = copy_check_type(dst, src, err);
    if (status || (status = copy_check_device(dst, "dst", err)) || (status = copy_check_device(src, "src", err)))
        return status;
    if (dst->flags & TENON_READ_ONLY)
        return tenon_error_set_in(err, TENON_EREADONLY, "tenon_copy",
                                  "argument 'dst': expected writable memory, got read-only %s; copy into "
                                  "memory of your own",
                                  copy_type(dst).text);
    if (dst->numel == 0 || tenon_view_equal(dst, src))
        return TENON_OK;
    if ((status = copy_check_overlap(dst, src, err)))
        return status;
    if (tenon__convert_needed(dst, src)) {
        tenon__convert(dst, src);
        return TENON_OK;
    }

    const int64_t bits = tenon_view_item_bits(dst);
    const bool packed = bits % 8 != 0;
    tenon__loops loops;
    int64_t dst_shift, src_shift;
    const int64_t unit = packed ? bits : bits / 8;
    loops.dst = dst->data;
    loops.src = src->data;
    loops.item = unit;
    loops.ndim = 0;
    tenon__loops_add_views(&loops, dst, src, unit, unit);
    copy_make_strides_positive(&loops, &dst_shift, &src_shift);
    tenon__loops_merge(&loops);
    if (!packed) {
        loops.dst += dst_shift;
        loops.src += src_shift;
        tenon__copy_bytes(&loops);
    } else if (dst_shift % 8 == 0 && src_shift % 8 == 0 && copy_bits_to_bytes(&loops)) {
        loops.dst += dst_shift / 8;
        loops.src += src_shift / 8;
        tenon__copy_bytes(&loops);
    } else {
        tenon__copy_bits(&loops, dst_shift, src_shift);
    }
    return TENON_OK;
}
