/* tenon_copy between two dtypes: what is converted, and how the numbers come from any layout into any other. */
#include "internal.h"

#include <string.h>

enum { CONVERT_TILE = 1024 }; /* numbers of dst after which the next line begins, if src is in another order */

static bool convert_is_complex(const tenon_view *view)
{
    return view->dtype.code == TENON_CODE_COMPLEX;
}

static bool convert_is_packed(const tenon_view *view)
{
    return view->dtype.bits < 8 && !(view->flags & TENON_SUBBYTE_PADDED);
}

/* Integers of one size have the same bytes: the value wraps. */
bool tenon__convert_needed(const tenon_view *dst, const tenon_view *src)
{
    const tenon_dtype to = dst->dtype, from = src->dtype;
    bool same_bits = to.code == from.code || (to.code <= TENON_CODE_UINT && from.code <= TENON_CODE_UINT);
    return !same_bits || to.bits != from.bits || to.lanes != from.lanes ||
           convert_is_packed(dst) != convert_is_packed(src);
}

bool tenon__dtype_converts(tenon_dtype from, tenon_dtype to)
{
    tenon__number source, target;
    if (tenon_dtype_equal(from, to))
        return true;
    if (!tenon__number_init(&source, from) || !tenon__number_init(&target, to) || from.lanes != to.lanes)
        return false;
    if (from.code == TENON_CODE_BOOL)
        return true;
    if (from.code == TENON_CODE_COMPLEX || to.code == TENON_CODE_COMPLEX)
        return from.code == to.code;
    if (!target.is_integer)
        return true;
    if (!source.is_integer || to.code == TENON_CODE_BOOL)
        return false;
    bool same_sign = source.is_signed == target.is_signed;
    return target.bits > source.bits && (same_sign || target.is_signed);
}

tenon_status tenon__convert_check(const tenon_view *dst, const tenon_view *src, tenon_error *err)
{
    tenon__number number;
    const char *why = NULL;
    if (!tenon__number_init(&number, dst->dtype) || !tenon__number_init(&number, src->dtype))
        why = "opaque values and numbers of 128 bits are not converted, so both need the same dtype";
    else if (dst->dtype.lanes != src->dtype.lanes)
        why = "both need the same number of lanes";
    else if (convert_is_complex(src) && !convert_is_complex(dst))
        why = "the imaginary parts would be lost; copy the real parts (tenon_tensor_real)";
    if (!why)
        return TENON_OK;
    return tenon_error_set_in(err, TENON_EDTYPE, "tenon_copy", "argument 'src': expected %s, got %s; %s",
                              tenon__type_phrase(dst->dtype, dst->ndim, dst->shape).text,
                              tenon__type_phrase(src->dtype, src->ndim, src->shape).text, why);
}

/* ------------------------------------------------------------------------------------------------------- positions */

/* One side of a conversion: which number is next. Positions and strides are in bytes, or in bits if it is packed. */
typedef struct convert_side {
    char *data;
    const int64_t *strides;
    int64_t at;
    int64_t index[TENON_MAX_NDIM];
    tenon__number number;
    bool packed;
} convert_side;

/* Go on by `count` numbers, which do not reach beyond the end of the line. */
static void convert_advance(convert_side *side, const tenon__loops *loops, int64_t count)
{
    side->at += count * side->strides[0];
    side->index[0] += count;
    for (int32_t d = 0; d < loops->ndim && side->index[d] == loops->shape[d]; d++) {
        side->at -= loops->shape[d] * side->strides[d];
        side->index[d] = 0;
        if (d + 1 < loops->ndim) {
            side->at += side->strides[d + 1];
            side->index[d + 1]++;
        }
    }
}

static unsigned convert_get_bits(const char *data, int64_t at, int bits)
{
    const unsigned char *bytes = (const unsigned char *)data + (at >> 3); /* rounds down: `at` may be negative */
    int shift = (int)(at & 7);
    unsigned value = (unsigned)bytes[0] >> shift;
    if (shift + bits > 8)
        value |= (unsigned)bytes[1] << (8 - shift);
    return value & ((1u << bits) - 1);
}

static void convert_set_bits(char *data, int64_t at, int bits, unsigned value)
{
    unsigned char *bytes = (unsigned char *)data + (at >> 3);
    int shift = (int)(at & 7);
    unsigned mask = ((1u << bits) - 1) << shift;
    bytes[0] = (unsigned char)((bytes[0] & ~mask) | value << shift);
    if (shift + bits > 8)
        bytes[1] = (unsigned char)((bytes[1] & ~(mask >> 8)) | value << shift >> 8);
}

/* Copy numbers of a constant size between a line and a buffer. */
#define CONVERT_COPY_LINE(size)                                                                                        \
    for (int64_t i = 0; i < count; i++, to += to_step, from += from_step)                                              \
    memcpy(to, from, size)

static void convert_copy_line(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count, int size)
{
    switch (size) {
    case 1:
        CONVERT_COPY_LINE(1);
        break;
    case 2:
        CONVERT_COPY_LINE(2);
        break;
    case 4:
        CONVERT_COPY_LINE(4);
        break;
    default:
        CONVERT_COPY_LINE(8);
        break;
    }
}

static int64_t convert_rest_of_line(const convert_side *side, const tenon__loops *loops)
{
    return loops->shape[0] - side->index[0];
}

static void convert_gather(convert_side *side, const tenon__loops *loops, char *buffer, int64_t count)
{
    const int size = side->number.bytes;
    for (int64_t n; count > 0; count -= n, buffer += n * size) {
        n = convert_rest_of_line(side, loops);
        n = n < count ? n : count;
        if (!side->packed)
            convert_copy_line(buffer, size, side->data + side->at, side->strides[0], n, size);
        for (int64_t i = 0; side->packed && i < n; i++)
            buffer[i] = (char)convert_get_bits(side->data, side->at + i * side->strides[0], side->number.bits);
        convert_advance(side, loops, n);
    }
}

static void convert_scatter(convert_side *side, const tenon__loops *loops, const char *buffer, int64_t count)
{
    const int size = side->number.bytes;
    for (int64_t n; count > 0; count -= n, buffer += n * size) {
        n = convert_rest_of_line(side, loops);
        n = n < count ? n : count;
        if (!side->packed)
            convert_copy_line(side->data + side->at, side->strides[0], buffer, size, n, size);
        for (int64_t i = 0; side->packed && i < n; i++)
            convert_set_bits(side->data, side->at + i * side->strides[0], side->number.bits, (unsigned char)buffer[i]);
        convert_advance(side, loops, n);
    }
}

/* How many of the next chunks a kernel can use where they are: contiguous, and not shorter. */
static int64_t convert_chunks_in_place(const convert_side *side, const tenon__loops *loops)
{
    bool fits = !side->packed && side->strides[0] == side->number.bytes;
    return fits ? convert_rest_of_line(side, loops) / TENON__CHUNK : 0;
}

/* ----------------------------------------------------------------------------------------------------------- loops */

/* Convert all numbers of the loops. The last chunk may be shorter: then the kernels convert what is left in the buffers too,
 * and nothing is done with it. */
static void convert_run(const tenon__loops *loops, convert_side *dst, convert_side *src)
{
    _Alignas(64) char buffers[2][8 * TENON__CHUNK] = {{0}};
    tenon__step steps[TENON__MAX_STEPS];
    const int nsteps = tenon__convert_plan(&dst->number, &src->number, tenon__convert_level(), steps);
    int64_t left = 1;
    for (int32_t d = 0; d < loops->ndim; d++)
        left *= loops->shape[d];
    for (int64_t count; left > 0; left -= count) {
        const int64_t from_chunks = nsteps ? convert_chunks_in_place(src, loops) : 0;
        const int64_t to_chunks = nsteps ? convert_chunks_in_place(dst, loops) : 0;
        int64_t chunks = 1; /* the buffers hold one */
        if (nsteps == 1 && from_chunks && to_chunks)
            chunks = from_chunks < to_chunks ? from_chunks : to_chunks;
        count = left < chunks * TENON__CHUNK ? left : chunks * TENON__CHUNK;
        const char *from = from_chunks ? src->data + src->at : buffers[0];
        if (from_chunks)
            convert_advance(src, loops, count);
        else
            convert_gather(src, loops, buffers[0], count);
        for (int i = 0; i < nsteps; i++) {
            char *to = i == nsteps - 1 && to_chunks ? dst->data + dst->at : buffers[from == buffers[0]];
            steps[i].kernel(to, from, chunks, steps[i].number);
            from = to;
        }
        if (to_chunks)
            convert_advance(dst, loops, count);
        else
            convert_scatter(dst, loops, from, count);
    }
}

/* If src is contiguous along another dimension than dst, make that dimension the second one. Returns whether it is so: then
 * lines are cut, so that the cache still has the neighbours in src when the next line reads them. */
static bool convert_is_transposed(tenon__loops *loops)
{
    int32_t nearest = 0;
    for (int32_t d = 1; d < loops->ndim; d++) {
        int64_t a = loops->from[d], b = loops->from[nearest];
        if (a != 0 && (a < 0 ? -a : a) < (b < 0 ? -b : b))
            nearest = d;
    }
    if (nearest == 0)
        return false;
    int64_t shape = loops->shape[nearest], to = loops->to[nearest], from = loops->from[nearest];
    for (int32_t d = nearest; d > 1; d--) {
        loops->shape[d] = loops->shape[d - 1];
        loops->to[d] = loops->to[d - 1];
        loops->from[d] = loops->from[d - 1];
    }
    loops->shape[1] = shape;
    loops->to[1] = to;
    loops->from[1] = from;
    return true;
}

static void convert_loops(tenon__loops *loops, convert_side *dst, convert_side *src)
{
    loops->item = 0;
    tenon__loops_merge(loops);
    if (loops->ndim == 0)
        tenon__loops_add(loops, 1, dst->number.bytes, src->number.bytes);
    const int64_t size = loops->shape[0];
    const int64_t tile = convert_is_transposed(loops) ? CONVERT_TILE : size;
    dst->strides = loops->to;
    src->strides = loops->from;
    const int64_t to = dst->at, from = src->at;
    for (int64_t i = 0; i < size; i += tile) {
        loops->shape[0] = tile < size - i ? tile : size - i;
        memset(dst->index, 0, sizeof dst->index);
        memset(src->index, 0, sizeof src->index);
        dst->at = to + i * loops->to[0];
        src->at = from + i * loops->from[0];
        convert_run(loops, dst, src);
    }
}

/* Numbers of an element: its lanes, or the two parts of each. */
static int64_t convert_parts(const tenon_view *view)
{
    return view->dtype.lanes * (convert_is_complex(view) ? 2 : 1);
}

static int64_t convert_side_init(convert_side *side, const tenon_view *view)
{
    tenon__number_init(&side->number, view->dtype);
    side->data = view->data;
    side->at = 0;
    side->packed = convert_is_packed(view);
    return side->packed ? side->number.bits : side->number.bytes;
}

/* The parts of an element become the innermost dimension. There is room for it: dst does not overlap itself, so that no more
 * than 63 of its dimensions are larger than 1. */
void tenon__convert(const tenon_view *dst, const tenon_view *src)
{
    convert_side to, from;
    const int64_t to_unit = convert_side_init(&to, dst), from_unit = convert_side_init(&from, src);
    const int64_t to_parts = convert_parts(dst), from_parts = convert_parts(src);
    const bool made_complex = to_parts != from_parts; /* the imaginary parts are 0 */
    tenon__loops loops = {.ndim = 0};
    if (from_parts > 1)
        tenon__loops_add(&loops, from_parts, made_complex ? 2 * to_unit : to_unit, from_unit);
    tenon__loops_add_views(&loops, dst, src, to_parts * to_unit, from_parts * from_unit);
    tenon__loops zeros = loops;
    convert_loops(&loops, &to, &from);
    if (!made_complex)
        return;
    char zero[8] = {0};
    memset(zeros.from, 0, sizeof zeros.from);
    to.at = to_unit;
    from.at = 0;
    from.data = zero;
    from.packed = false;
    tenon__number_init(&from.number, TENON_U8);
    convert_loops(&zeros, &to, &from);
}
