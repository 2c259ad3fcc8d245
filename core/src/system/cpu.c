/* Which instruction sets this CPU has. */
#include "internal.h"

#ifndef TENON_NO_SYSTEM
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#define TENON__X86
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

#ifndef TENON_NO_SYSTEM

#ifdef TENON__X86

/* The state that the operating system saves: without it, the registers of AVX cannot be used. */
static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

typedef struct x86_features {
    unsigned basic_c, extended_b, amd_c; /* registers of leaf 1, leaf 7 and leaf 0x80000001 */
    uint64_t saved;
} x86_features;

static x86_features read_features(void)
{
    x86_features x = {0, 0, 0, 0};
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d))
        x.basic_c = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
        x.extended_b = b;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d))
        x.amd_c = c;
    if (x.basic_c & (unsigned)bit_OSXSAVE)
        x.saved = read_xcr0();
    return x;
}

static bool has_all(uint64_t bits, uint64_t wanted)
{
    return (bits & wanted) == wanted;
}

/* The highest level of the x86-64 psABI, from 1 on. */
static int x86_level(void)
{
    x86_features x = read_features();
    /* Some headers declare the bits as signed numbers. */
    const unsigned lahf = 1u << 0, lzcnt = 1u << 5;
    const unsigned two = (unsigned)(bit_SSE3 | bit_SSSE3 | bit_CMPXCHG16B | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT);
    const unsigned three = (unsigned)(bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_AVX | bit_F16C);
    const unsigned three_more = (unsigned)(bit_BMI | bit_AVX2 | bit_BMI2);
    const unsigned four = (unsigned)(bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL);
    if (!has_all(x.basic_c, two) || !has_all(x.amd_c, lahf))
        return 1;
    if (!has_all(x.basic_c, three) || !has_all(x.extended_b, three_more) || !has_all(x.amd_c, lzcnt) ||
        !has_all(x.saved, 0x6))
        return 2;
    return has_all(x.extended_b, four) && has_all(x.saved, 0xe6) ? 4 : 3;
}

bool tenon__cpu_has(const char *name)
{
    static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0)
            return x86_level() >= i + 2;
    return false;
}

#elif defined(__aarch64__)

bool tenon__cpu_has(const char *name)
{
#if defined(__APPLE__)
    return strcmp(name, "armv8.2-a") == 0; /* the first of these Macs has 8.5 */
#elif defined(__linux__)
    const unsigned long crc32 = 1ul << 7, atomics = 1ul << 8, rounding = 1ul << 12, dcpop = 1ul << 16, sve = 1ul << 22;
    const unsigned long base = crc32 | atomics | rounding | dcpop, all = getauxval(AT_HWCAP);
    if (strcmp(name, "armv8.2-a") == 0)
        return (all & base) == base;
    return strcmp(name, "sve") == 0 && (all & (base | sve)) == (base | sve);
#else
    (void)name;
    return false;
#endif
}

#else

bool tenon__cpu_has(const char *name)
{
    (void)name;
    return false;
}

#endif

#endif
