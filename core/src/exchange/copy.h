/* A copy reduced to its loops: what copy.c hands to the kernels. */
#ifndef TENON_COPY_H
#define TENON_COPY_H

#include <tenon/types.h>

/* `item` and the strides count bytes, or bits for tenon__copy_bits. No dimension has size 1 or 0; they are ordered by
 * the strides of dst, the smallest first, all of them positive; neighbours that could be one dimension are. */
typedef struct tenon__loops {
    char *dst;
    const char *src;
    int64_t item; /* what lies together on both sides: an element, or a run of them */
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    int64_t to[TENON_MAX_NDIM];   /* strides of dst */
    int64_t from[TENON_MAX_NDIM]; /* strides of src */
} tenon__loops;

/* Run the loops over whole bytes. Changes the order of the dimensions. */
void tenon__copy_bytes(tenon__loops *loops);

/* Run the loops over items of any number of bits, the lowest bit of a byte first; the first items are at bit `to` of
 * dst and bit `from` of src. Other bits of dst stay as they are. */
void tenon__copy_bits(const tenon__loops *loops, int64_t to, int64_t from);

#endif
