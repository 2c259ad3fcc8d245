/* The loops of tenon_copy over packed sub-byte values, several of which share a byte. */
#include "../internal.h"

#include "copy.h"

#include <string.h>

/* The byte that holds a bit. Both may be negative. */
static int64_t copy_byte_of(int64_t bit)
{
    return (bit - (bit & 7)) / 8;
}

/* Copy 1 to 8 bits. Only bytes that contain some of them are accessed. */
static void copy_few_bits(unsigned char *dst, int64_t to, const unsigned char *src, int64_t from, int count)
{
    const int in = (int)(from & 7), out = (int)(to & 7);
    src += copy_byte_of(from);
    dst += copy_byte_of(to);
    unsigned value = (unsigned)src[0] >> in;
    if (in + count > 8)
        value |= (unsigned)src[1] << (8 - in);
    const unsigned mask = (0xffu >> (8 - count)) << out;
    value <<= out;
    dst[0] = (unsigned char)((dst[0] & ~mask) | (value & mask));
    if (out + count > 8)
        dst[1] = (unsigned char)((dst[1] & ~(mask >> 8)) | ((value & mask) >> 8));
}

static void copy_run_of_bits(char *dst, int64_t to, const char *src, int64_t from, int64_t count)
{
    if ((to & 7) == 0 && (from & 7) == 0) {
        memcpy(dst + copy_byte_of(to), src + copy_byte_of(from), (size_t)(count / 8));
        to += count - count % 8, from += count - count % 8, count %= 8;
    }
    for (; count > 0; to += 8, from += 8, count -= 8)
        copy_few_bits((unsigned char *)dst, to, (const unsigned char *)src, from, count < 8 ? (int)count : 8);
}

void tenon__copy_bits(const tenon__loops *loops, int64_t to, int64_t from)
{
    int64_t index[TENON_MAX_NDIM] = {0};
    for (int32_t d = -1; d < loops->ndim;) {
        copy_run_of_bits(loops->dst, to, loops->src, from, loops->item);
        for (d = 0; d < loops->ndim; d++) {
            if (++index[d] < loops->shape[d]) {
                to += loops->to[d];
                from += loops->from[d];
                break;
            }
            index[d] = 0;
            to -= (loops->shape[d] - 1) * loops->to[d];
            from -= (loops->shape[d] - 1) * loops->from[d];
        }
    }
}
