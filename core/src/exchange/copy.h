/* The loops of a copy, which copy.c passes to the kernels. */
#ifndef TENON_COPY_H
#define TENON_COPY_H

#include <tenon/types.h>

/* `item` and the strides are in bytes, or in bits for tenon__copy_bits. No dimension has size 0 or 1. The strides of dst
 * are positive, and the dimensions are ordered by them, the smallest first. Dimensions that can be merged are merged. */
typedef struct tenon__loops {
    char *dst;
    const char *src;
    int64_t item; /* contiguous on both sides: one element, or several */
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    int64_t to[TENON_MAX_NDIM];   /* strides of dst */
    int64_t from[TENON_MAX_NDIM]; /* strides of src */
} tenon__loops;

/* Run the loops over whole bytes. Changes the order of the dimensions. */
void tenon__copy_bytes(tenon__loops *loops);

/* Run the loops over items of any number of bits, starting with the lowest bit of a byte. The first items are at bit
 * `to` of dst and bit `from` of src. All other bits of dst are preserved. */
void tenon__copy_bits(const tenon__loops *loops, int64_t to, int64_t from);

#endif
