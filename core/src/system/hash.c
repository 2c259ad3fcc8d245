/* MurmurHash3 (variant x64_128, seed 0): several gigabytes per second in portable C. */
#include "system.h"

#include <string.h>

#ifndef TENON_NO_SYSTEM

static const uint64_t FACTOR_A = 0x87c37b91114253d5u, FACTOR_B = 0x4cf5ad432745937fu;

static uint64_t rotated(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static uint64_t mixed(uint64_t value)
{
    value = (value ^ value >> 33) * 0xff51afd7ed558ccdu;
    value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53u;
    return value ^ value >> 33;
}

/* The same number on every machine. */
static uint64_t word_at(const unsigned char *bytes)
{
    uint64_t word = 0;
    memcpy(&word, bytes, sizeof word);
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

void tenon__hash_add(tenon__hash *hash, const void *memory, size_t size)
{
    const unsigned char *bytes = memory;
    uint64_t a = hash->a, b = hash->b;
    hash->length += size;
    for (; size >= 16; size -= 16, bytes += 16) {
        a ^= rotated(word_at(bytes) * FACTOR_A, 31) * FACTOR_B;
        a = (rotated(a, 27) + b) * 5 + 0x52dce729u;
        b ^= rotated(word_at(bytes + 8) * FACTOR_B, 33) * FACTOR_A;
        b = (rotated(b, 31) + a) * 5 + 0x38495ab5u;
    }
    if (size > 0) {
        unsigned char last[16] = {0};
        memcpy(last, bytes, size);
        b ^= rotated(word_at(last + 8) * FACTOR_B, 33) * FACTOR_A;
        a ^= rotated(word_at(last) * FACTOR_A, 31) * FACTOR_B;
    }
    hash->a = a;
    hash->b = b;
}

void tenon__hash_end(tenon__hash *hash)
{
    uint64_t a = hash->a ^ hash->length, b = hash->b ^ hash->length;
    a += b;
    b += a;
    a = mixed(a);
    b = mixed(b);
    a += b;
    b += a;
    hash->a = a;
    hash->b = b;
}

#endif
