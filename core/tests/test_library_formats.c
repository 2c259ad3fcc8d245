/* Libraries of other systems: hand-made files that have everything that is checked, and nothing else. */
#include "../src/library/internal.h"

#include "check.h"

#include <stdlib.h>

#if defined(__x86_64__)
enum { PE_MACHINE = 0x8664, MACHO_MACHINE = 0x01000007 };
#else
enum { PE_MACHINE = 0xaa64, MACHO_MACHINE = 0x0100000c };
#endif

#define SAYS(format, what, bytes, size)                                                                                \
    FAILS_SAYING(TENON_EINVAL, "it is not a shared library that can be loaded here: " what,                            \
                 tenon__library_check(format, bytes, size, &err))
#define CUT     "the file is truncated; build it again"
#define DAMAGED "its headers are damaged; build it again"
#define MACHINE "it is for another kind of machine; build it for this one"

static void put(unsigned char *bytes, size_t at, size_t width, uint64_t value)
{
    for (size_t i = 0; i < width; i++)
        bytes[at + i] = (unsigned char)(value >> 8 * i);
}

/* ---------------------------------------------------------------------------------------------------------- Windows */

enum { PE = 64, COFF = PE + 4, OPTIONAL = COFF + 20, SECTIONS = OPTIONAL + 240, PE_DATA = SECTIONS + 2 * 40 };
enum { PE_SIZE = PE_DATA + 16 };

static unsigned char pe[PE_SIZE];

static const unsigned char *fresh_pe(void)
{
    memset(pe, 0, sizeof pe);
    memcpy(pe, "MZ", 2);
    put(pe, 60, 4, PE);
    memcpy(pe + PE, "PE\0\0", 4);
    put(pe, COFF, 2, PE_MACHINE);
    put(pe, COFF + 2, 2, 2);
    put(pe, COFF + 16, 2, 240);
    put(pe, COFF + 18, 2, 0x2022);
    put(pe, OPTIONAL, 2, 0x20b);
    put(pe, SECTIONS + 16, 4, 16); /* the other section has nothing in the file */
    put(pe, SECTIONS + 20, 4, PE_DATA);
    return pe;
}

static const unsigned char *pe_with(size_t at, size_t width, uint64_t value)
{
    fresh_pe();
    put(pe, at, width, value);
    return pe;
}

static void test_a_windows_library(void **state)
{
    (void)state;
    OK(tenon__library_check(TENON__PE, fresh_pe(), sizeof pe, &err));
    SAYS(TENON__PE, MACHINE, pe_with(COFF, 2, 0x14c), sizeof pe);
    SAYS(TENON__PE, "it is a program; link it with -shared", pe_with(COFF + 18, 2, 0x22), sizeof pe);
    SAYS(TENON__PE, "it is a program for DOS, not a PE file", pe_with(PE, 4, 0x454e), sizeof pe);
    SAYS(TENON__PE, "it is for another kind of machine (32 bits)", pe_with(OPTIONAL, 2, 0x10b), sizeof pe);
    SAYS(TENON__PE, DAMAGED, pe_with(COFF + 2, 2, 0), sizeof pe);
    SAYS(TENON__PE, CUT, pe_with(COFF + 2, 2, 97), sizeof pe);
    SAYS(TENON__PE, DAMAGED, pe_with(COFF + 16, 2, 1), sizeof pe);
    SAYS(TENON__PE, CUT, pe_with(COFF + 16, 2, 0xffff), sizeof pe);
    SAYS(TENON__PE, CUT, pe_with(COFF + 2, 2, 4), sizeof pe);
    SAYS(TENON__PE, CUT, pe_with(60, 4, UINT32_MAX), sizeof pe);
    SAYS(TENON__PE, CUT, pe_with(60, 4, sizeof pe - 23), sizeof pe);
    SAYS(TENON__PE, CUT, pe_with(SECTIONS + 16, 4, UINT32_MAX), sizeof pe);
    SAYS(TENON__PE, CUT, pe_with(SECTIONS + 20, 4, UINT32_MAX), sizeof pe);
    SAYS(TENON__PE, "it is not a PE file", "text", 4);
    /* A section of zeros may have a size, but no bytes in the file. */
    OK(tenon__library_check(TENON__PE, pe_with(SECTIONS + 40 + 16, 4, 1 << 20), sizeof pe, &err));
    /* Not more is read than is mapped: whole pages, here one. */
    static unsigned char longer[PE_DATA + 4096];
    fresh_pe();
    put(pe, SECTIONS + 8, 4, 100);
    put(pe, SECTIONS + 16, 4, 1 << 20);
    memcpy(longer, pe, sizeof pe);
    OK(tenon__library_check(TENON__PE, longer, sizeof longer, &err));
    SAYS(TENON__PE, CUT, longer, sizeof longer - 1);
}

/* ------------------------------------------------------------------------------------------------------------ macOS */

enum { COMMANDS = 32, SEGMENT = COMMANDS + 16, MACHO_DATA = SEGMENT + 72, MACHO_SIZE = MACHO_DATA + 16 };

static unsigned char macho[MACHO_SIZE];

static const unsigned char *fresh_macho(void)
{
    memset(macho, 0, sizeof macho);
    put(macho, 0, 4, 0xfeedfacf);
    put(macho, 4, 4, MACHO_MACHINE);
    put(macho, 12, 4, 6);
    put(macho, 16, 4, 2);
    put(macho, 20, 4, 16 + 72);
    put(macho, COMMANDS, 4, 0x1b); /* a command that is not a segment */
    put(macho, COMMANDS + 4, 4, 16);
    put(macho, SEGMENT, 4, 0x19);
    put(macho, SEGMENT + 4, 4, 72);
    put(macho, SEGMENT + 40, 8, MACHO_DATA);
    put(macho, SEGMENT + 48, 8, 16);
    return macho;
}

static const unsigned char *macho_with(size_t at, size_t width, uint64_t value)
{
    fresh_macho();
    put(macho, at, width, value);
    return macho;
}

static void test_a_macos_library(void **state)
{
    (void)state;
    OK(tenon__library_check(TENON__MACHO, fresh_macho(), sizeof macho, &err));
    OK(tenon__library_check(TENON__MACHO, macho_with(12, 4, 8), sizeof macho, &err)); /* a bundle */
    OK(tenon__library_check(TENON__MACHO, "\xca\xfe\xba\xbe\0\0\0\2", 8, &err));      /* the loader decides */
    OK(tenon__library_check(TENON__MACHO, "\xca\xfe\xba\xbf\0\0\0\2", 8, &err));
    SAYS(TENON__MACHO, MACHINE, macho_with(4, 4, 7), sizeof macho);
    SAYS(TENON__MACHO, MACHINE, macho_with(0, 4, 0xcffaedfe), sizeof macho); /* the other order of bytes */
    SAYS(TENON__MACHO, MACHINE, macho_with(0, 4, 0xcefaedfe), sizeof macho);
    SAYS(TENON__MACHO, "it is for another kind of machine (32 bits)", macho_with(0, 4, 0xfeedface), sizeof macho);
    SAYS(TENON__MACHO, "it is an object file or a program; link it with -shared", macho_with(12, 4, 1), sizeof macho);
    SAYS(TENON__MACHO, "it has nothing to load; link it with -shared", macho_with(SEGMENT, 4, 1), sizeof macho);
    SAYS(TENON__MACHO, DAMAGED, macho_with(20, 4, 0), sizeof macho);
    SAYS(TENON__MACHO, DAMAGED, macho_with(20, 4, 16 + 7), sizeof macho);
    SAYS(TENON__MACHO, DAMAGED, macho_with(20, 4, UINT32_MAX), sizeof macho);
    SAYS(TENON__MACHO, CUT, macho_with(20, 4, sizeof macho), sizeof macho);
    OK(tenon__library_check(TENON__MACHO, macho_with(20, 4, 16 + 72 + 16), sizeof macho, &err)); /* space is left */
    SAYS(TENON__MACHO, DAMAGED, macho_with(16, 4, 3), sizeof macho);
    SAYS(TENON__MACHO, DAMAGED, macho_with(16, 4, UINT32_MAX), sizeof macho);
    SAYS(TENON__MACHO, "it has nothing to load; link it with -shared", macho_with(16, 4, 0), sizeof macho);
    SAYS(TENON__MACHO, DAMAGED, macho_with(COMMANDS + 4, 4, 0), sizeof macho);
    SAYS(TENON__MACHO, DAMAGED, macho_with(COMMANDS + 4, 4, 16 + 73), sizeof macho);
    SAYS(TENON__MACHO, DAMAGED, macho_with(SEGMENT + 4, 4, 71), sizeof macho);
    SAYS(TENON__MACHO, CUT, macho_with(SEGMENT + 40, 8, UINT64_MAX), sizeof macho);
    SAYS(TENON__MACHO, CUT, macho_with(SEGMENT + 48, 8, UINT64_MAX), sizeof macho);
    SAYS(TENON__MACHO, "it is not a Mach-O file", "\xca\xfe\xba\xbe\0\0\0\x34", 8); /* a class file of Java */
}

/* --------------------------------------------------------------------------------------------------------- any file */

/* No prefix passes, and no read is behind its end. */
static void test_cut_off_anywhere(void **state)
{
    (void)state;
    const struct {
        tenon__library_format format;
        const unsigned char *bytes;
        size_t size, magic;
    } files[] = {{TENON__PE, fresh_pe(), sizeof pe, 2}, {TENON__MACHO, fresh_macho(), sizeof macho, 4}};
    for (size_t k = 0; k < 2; k++) {
        for (size_t size = 1; size < files[k].size; size++) {
            unsigned char *bytes = malloc(size);
            assert_non_null(bytes);
            memcpy(bytes, files[k].bytes, size);
            if (size < files[k].magic)
                FAILS(TENON_EINVAL, tenon__library_check(files[k].format, bytes, size, &err));
            else
                SAYS(files[k].format, CUT, bytes, size);
            free(bytes);
        }
    }
}

/* Whatever is wrong with a library of another system, it is first of all that. */
static void test_another_system(void **state)
{
    (void)state;
#define FOREIGN(what, bytes, size)                                                                                     \
    FAILS_SAYING(TENON_EINVAL,                                                                                         \
                 "tenon_library_check(): it is not a shared library that can be loaded here: it is " what              \
                 "; build it for this system",                                                                         \
                 tenon_library_check(bytes, size, &err))
    if (TENON__OWN_FORMAT != TENON__PE)
        for (size_t size = 2; size <= sizeof pe; size++)
            FOREIGN("a Windows library (PE)", fresh_pe(), size);
    if (TENON__OWN_FORMAT != TENON__MACHO) {
        for (size_t size = 4; size <= sizeof macho; size++)
            FOREIGN("a macOS library (Mach-O)", fresh_macho(), size);
        FOREIGN("a macOS library (Mach-O)", macho_with(0, 4, 0xfeedface), sizeof macho);
        FOREIGN("a macOS library (Mach-O)", "\xca\xfe\xba\xbe\0\0\0\2", 8);
        FOREIGN("a macOS library (Mach-O)", "\xca\xfe\xba\xbf\0\0\0\2", 8);
        FOREIGN("a macOS library (Mach-O)", "\xfe\xed\xfa\xcf", 4);
    }
    SAYS(TENON__PE, "it is a Linux library (ELF); build it for this system", "\177ELF", 4);
    SAYS(TENON__MACHO, "it is a Linux library (ELF); build it for this system", "\177ELF", 4);
}

/* Never more than a message, whatever the headers say. */
static void test_any_byte(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        size_t size = k ? sizeof macho : sizeof pe;
        for (size_t at = 0; at < size; at++) {
            for (unsigned value = 0; value < 256; value++) {
                const unsigned char *bytes = k ? macho_with(at, 1, value) : pe_with(at, 1, value);
                tenon_status status = tenon__library_check(k ? TENON__MACHO : TENON__PE, bytes, size, NULL);
                assert_true(status == TENON_OK || status == TENON_EINVAL);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_windows_library), cmocka_unit_test(test_a_macos_library),
        cmocka_unit_test(test_cut_off_anywhere),  cmocka_unit_test(test_another_system),
        cmocka_unit_test(test_any_byte),          cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
