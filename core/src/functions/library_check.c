/* Recognise the format of a library, and check it if it is the one that the loader of this system takes. */
#include "library_format.h"

#include <string.h>

tenon_status tenon__not_a_library(tenon_error *err, const char *why)
{
    return tenon_error_set(err, TENON_EINVAL, "it is not a shared library that can be loaded here: %s", why);
}

static bool begins_with(const unsigned char *bytes, size_t length, const char *magic, size_t size)
{
    return length >= size && memcmp(bytes, magic, size) == 0;
}

/* A file of several machines for macOS. The class files of Java begin with the same bytes, followed by a version of 45 or
 * more; here the number of machines follows. */
static bool is_universal(const unsigned char *bytes, size_t length)
{
    bool has_magic = begins_with(bytes, length, "\xca\xfe\xba\xbe\0\0\0", 7) ||
                     begins_with(bytes, length, "\xca\xfe\xba\xbf\0\0\0", 7); /* with offsets of 64 bits */
    return has_magic && length >= 8 && bytes[7] < 40;
}

/* Of 64 or 32 bits. The bytes are in the opposite order on machines that macOS no longer runs on. */
static bool is_macho(const unsigned char *bytes, size_t length)
{
    return begins_with(bytes, length, "\xcf\xfa\xed\xfe", 4) || begins_with(bytes, length, "\xce\xfa\xed\xfe", 4) ||
           begins_with(bytes, length, "\xfe\xed\xfa\xcf", 4) || begins_with(bytes, length, "\xfe\xed\xfa\xce", 4);
}

static tenon__library_format format_of(const unsigned char *bytes, size_t length)
{
    if (begins_with(bytes, length, "\177ELF", 4))
        return TENON__ELF;
    if (begins_with(bytes, length, "MZ", 2))
        return TENON__PE;
    if (is_macho(bytes, length) || is_universal(bytes, length))
        return TENON__MACHO;
    return TENON__UNKNOWN_FORMAT;
}

tenon_status tenon__library_header(tenon__library_format format, const void *header, size_t length, uint64_t size,
                                   tenon__library_table *table, tenon_error *err)
{
    static const char *const foreign[] = {[TENON__ELF] = "it is a Linux library (ELF); build it for this system",
                                          [TENON__PE] = "it is a Windows library (PE); build it for this system",
                                          [TENON__MACHO] = "it is a macOS library (Mach-O); build it for this system"};
    static const char *const unknown[] = {[TENON__ELF] = "it is not an ELF file",
                                          [TENON__PE] = "it is not a PE file",
                                          [TENON__MACHO] = "it is not a Mach-O file"};
    const unsigned char *bytes = header;
    table->at = table->length = 0;
    if (length == 0)
        return tenon__not_a_library(err, "the file is empty");
    tenon__library_format found = format_of(bytes, length);
    if (found != format)
        return tenon__not_a_library(err, found == TENON__UNKNOWN_FORMAT ? unknown[format] : foreign[found]);
    switch (format) {
    case TENON__PE:
        return tenon__pe_header(bytes, length, size, table, err);
    case TENON__MACHO:
        return tenon__macho_header(bytes, length, size, table, err);
    default:
        return tenon__elf_header(bytes, length, size, table, err);
    }
}

tenon_status tenon__library_table_check(tenon__library_format format, const void *bytes,
                                        const tenon__library_table *table, uint64_t size, tenon_error *err)
{
    switch (format) {
    case TENON__PE:
        return tenon__pe_table(bytes, table, size, err);
    case TENON__MACHO:
        return tenon__macho_table(bytes, table, size, err);
    default:
        return tenon__elf_table(bytes, table, size, err);
    }
}

tenon_status tenon__library_check(tenon__library_format format, const void *memory, size_t size, tenon_error *err)
{
    tenon__library_table table;
    size_t length = !memory ? 0 : size < TENON__LIBRARY_HEADER ? size : TENON__LIBRARY_HEADER;
    tenon_status status = tenon__library_header(format, memory, length, size, &table, err);
    if (!status && table.length > 0)
        status = tenon__library_table_check(format, (const char *)memory + table.at, &table, size, err);
    return status;
}

tenon_status tenon_library_check(const void *memory, size_t size, tenon_error *err)
{
    return tenon__error_rename(err, tenon__library_check(TENON__OWN_FORMAT, memory, size, err), "tenon_library_check");
}
