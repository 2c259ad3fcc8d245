/* Which instruction sets this CPU has. */
#include "internal.h"

#ifndef TENON_NO_SYSTEM
#include "cpu_features.h"
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

static tenon__x86_features read_features(void)
{
    tenon__x86_features x = {0, 0, 0, 0};
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d))
        x.basic_c = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
        x.extended_b = b;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d))
        x.amd_c = c;
    if (x.basic_c >> TENON__X86_OSXSAVE & 1)
        x.saved = read_xcr0();
    return x;
}

bool tenon__cpu_has(const char *name)
{
    tenon__x86_features x = read_features();
    return tenon__x86_has(name, &x);
}

#elif defined(__aarch64__) && defined(__linux__)

bool tenon__cpu_has(const char *name)
{
    return tenon__arm_has(name, getauxval(AT_HWCAP));
}

#elif defined(__aarch64__) && defined(__APPLE__)

bool tenon__cpu_has(const char *name)
{
    return strcmp(name, "armv8.2-a") == 0; /* the first of these Macs has 8.5 */
}

#else

bool tenon__cpu_has(const char *name)
{
    (void)name;
    return false;
}

#endif

#endif
