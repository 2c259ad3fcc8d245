/* The hash that identifies the code of a module. */
#include "internal.h"

#ifndef TENON_NO_SYSTEM
#include <errno.h>
#include <stdio.h>
#include <string.h>
#endif

#ifndef TENON_NO_SYSTEM

/* ----------------------------------------------------------------------------------------------------- the function
 *
 * MurmurHash3 (variant x64_128, seed 0): several gigabytes per second in portable C. */

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

/* ---------------------------------------------------------------------------------------------- files and modules */

bool tenon__file_hash(tenon__file file, tenon__hash *out)
{
    enum { HASH_PIECE = 1 << 16 };
    unsigned char *piece = tenon__alloc(HASH_PIECE, false);
    *out = (tenon__hash){0, 0, 0};
    int64_t got = piece ? HASH_PIECE : -1;
    for (int64_t at = 0; got == HASH_PIECE; at += HASH_PIECE) {
        got = tenon__file_read(file, piece, HASH_PIECE, at);
        if (got > 0)
            tenon__hash_add(out, piece, (size_t)got);
    }
    tenon__hash_end(out);
    if (piece)
        tenon__free(piece, HASH_PIECE);
    else
        errno = ENOMEM;
    return got >= 0;
}

/* Hash the file that the loader has mapped where the module is: an extension that Python imported. False if there is no
 * such file any more. */
static bool hash_module_file(const tenon_module *module, tenon__hash *out)
{
    tenon__file file = tenon__file_of_code(module);
    bool done = file != TENON__NO_FILE && tenon__file_hash(file, out);
    tenon__file_close(file);
    return done;
}

/* Hash what the module shows of itself. Signatures are short; each is padded to whole blocks. */
static void hash_signatures(const tenon_module *module, tenon__hash *out)
{
    *out = (tenon__hash){0, 0, 0};
    for (int64_t i = 0; i < module->nfunctions; i++) {
        tenon_function function;
        tenon_module_function(module, i, &function);
        const char *text = function.signature;
        for (size_t left = strlen(text) + 1; left > 0;) {
            char block[16] = {0};
            size_t size = left < sizeof block ? left : sizeof block;
            memcpy(block, text, size);
            tenon__hash_add(out, block, sizeof block);
            text += size;
            left -= size;
        }
    }
    tenon__hash_end(out);
}

tenon_status tenon_module_hash(const tenon_module *module, char text[TENON_HASH_SIZE], tenon_error *err)
{
    tenon__hash hash;
    if (!module || !text)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_module_hash", "argument '%s' is NULL",
                                  module ? "text" : "module");
    module = tenon__library_baseline(module);
    int known = tenon__library_hash(module, &hash);
    if (known < 0)
        return tenon_error_set(err, TENON_EFAILED, "its file was changed after it was loaded; load it again");
    if (known == 0 && !hash_module_file(module, &hash))
        hash_signatures(module, &hash);
    snprintf(text, TENON_HASH_SIZE, "%016llx%016llx", (unsigned long long)hash.a, (unsigned long long)hash.b);
    return TENON_OK;
}

#endif
