/* Which variants of a library the features of a CPU allow. Nothing here asks the CPU, so that tests give it any. */
#ifndef TENON_CPU_FEATURES_H
#define TENON_CPU_FEATURES_H

#include <tenon/host.h>

#include <string.h>

TENON__INLINE bool tenon__has_all(uint64_t bits, uint64_t wanted)
{
    return (bits & wanted) == wanted;
}

/* ------------------------------------------------------------------------------------------------------------ x86-64 */

typedef struct tenon__x86_features {
    uint32_t basic_c, extended_b, amd_c; /* registers of leaf 1, leaf 7 and leaf 0x80000001 */
    uint64_t saved;                      /* XCR0: the registers that the operating system saves */
} tenon__x86_features;

enum { TENON__X86_OSXSAVE = 27 };

/* The highest level of the x86-64 psABI, from 1 on. */
TENON__INLINE int tenon__x86_level(const tenon__x86_features *x)
{
    const uint32_t sse3 = 1u << 0, ssse3 = 1u << 9, fma = 1u << 12, cx16 = 1u << 13, sse4_1 = 1u << 19,
                   sse4_2 = 1u << 20, movbe = 1u << 22, popcnt = 1u << 23, osxsave = 1u << TENON__X86_OSXSAVE,
                   avx = 1u << 28, f16c = 1u << 29;
    const uint32_t bmi1 = 1u << 3, avx2 = 1u << 5, bmi2 = 1u << 8, avx512f = 1u << 16, avx512dq = 1u << 17,
                   avx512cd = 1u << 28, avx512bw = 1u << 30, avx512vl = 1u << 31;
    const uint32_t lahf = 1u << 0, lzcnt = 1u << 5;
    const uint64_t ymm = 0x6, zmm = 0xe6;
    if (!tenon__has_all(x->basic_c, sse3 | ssse3 | cx16 | sse4_1 | sse4_2 | popcnt) || !tenon__has_all(x->amd_c, lahf))
        return 1;
    if (!tenon__has_all(x->basic_c, fma | movbe | osxsave | avx | f16c) ||
        !tenon__has_all(x->extended_b, bmi1 | avx2 | bmi2) || !tenon__has_all(x->amd_c, lzcnt) ||
        !tenon__has_all(x->saved, ymm))
        return 2;
    bool four = tenon__has_all(x->extended_b, avx512f | avx512dq | avx512cd | avx512bw | avx512vl) &&
                tenon__has_all(x->saved, zmm);
    return four ? 4 : 3;
}

TENON__INLINE bool tenon__x86_has(const char *name, const tenon__x86_features *x)
{
    static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0)
            return tenon__x86_level(x) >= i + 2;
    return false;
}

/* ------------------------------------------------------------------------------------------------------------- arm64 */

/* `hwcap` is AT_HWCAP of Linux. */
TENON__INLINE bool tenon__arm_has(const char *name, uint64_t hwcap)
{
    const uint64_t crc32 = 1u << 7, atomics = 1u << 8, rounding = 1u << 12, dcpop = 1u << 16, sve = 1u << 22;
    const uint64_t base = crc32 | atomics | rounding | dcpop;
    if (strcmp(name, "armv8.2-a") == 0)
        return tenon__has_all(hwcap, base);
    return strcmp(name, "sve") == 0 && tenon__has_all(hwcap, base | sve);
}

#endif
