/* Checks of a PE file, a library of Windows. The DOS header has the offset of the other headers: a signature, the COFF
 * header, the optional header, and the sections. */
#include "library_format.h"

#include <string.h>

enum { PE_SIGNATURE = 4, PE_COFF = 20, PE_SECTION = 40, PE_PAGE = 4096 };

#if defined(__x86_64__) || defined(_M_X64)
enum { PE_MACHINE = 0x8664 };
#elif defined(__aarch64__) || defined(_M_ARM64)
enum { PE_MACHINE = 0xaa64 };
#else
enum { PE_MACHINE = 0 }; /* unknown machine: the loader decides */
#endif

tenon_status tenon__pe_header(const unsigned char *bytes, size_t length, uint64_t size, tenon__library_table *table,
                              tenon_error *err)
{
    const uint64_t most = PE_SIGNATURE + PE_COFF + UINT16_MAX + UINT16_MAX * PE_SECTION;
    if (length < TENON__LIBRARY_HEADER)
        return tenon__not_a_library(err, TENON__LIBRARY_TRUNCATED);
    table->at = tenon__number_at(bytes, 60, 4);
    if (table->at > size || size - table->at < PE_SIGNATURE + PE_COFF)
        return tenon__not_a_library(err, TENON__LIBRARY_TRUNCATED);
    table->length = size - table->at < most ? size - table->at : most;
    return TENON_OK;
}

/* How many bytes of a section the loader reads from the file: none if the file has none, and not more than the memory. */
static uint64_t bytes_read(const unsigned char *section)
{
    uint64_t memory = tenon__number_at(section, 8, 4), file = tenon__number_at(section, 16, 4);
    uint64_t pages = (memory + PE_PAGE - 1) / PE_PAGE * PE_PAGE;
    if (tenon__number_at(section, 20, 4) == 0)
        return 0;
    return memory > 0 && pages < file ? pages : file;
}

tenon_status tenon__pe_table(const unsigned char *bytes, const tenon__library_table *table, uint64_t size,
                             tenon_error *err)
{
    enum { PE32_PLUS = 0x20b, DLL = 0x2000 };
    const unsigned char *coff = bytes + PE_SIGNATURE, *optional = coff + PE_COFF;
    if (memcmp(bytes, "PE\0\0", PE_SIGNATURE) != 0)
        return tenon__not_a_library(err, "it is a program for DOS, not a PE file");
    if (PE_MACHINE != 0 && tenon__number_at(coff, 0, 2) != PE_MACHINE)
        return tenon__not_a_library(err, TENON__LIBRARY_MACHINE);
    if (!(tenon__number_at(coff, 18, 2) & DLL))
        return tenon__not_a_library(err, "it is a program; link it with -shared");
    uint64_t nsections = tenon__number_at(coff, 2, 2), width = tenon__number_at(coff, 16, 2);
    if (nsections == 0 || width < 2)
        return tenon__not_a_library(err, TENON__LIBRARY_DAMAGED);
    if (PE_SIGNATURE + PE_COFF + width + nsections * PE_SECTION > table->length)
        return tenon__not_a_library(err, TENON__LIBRARY_TRUNCATED);
    if (tenon__number_at(optional, 0, 2) != PE32_PLUS)
        return tenon__not_a_library(err, "it is for another kind of machine (32 bits)");
    for (uint64_t i = 0; i < nsections; i++) {
        const unsigned char *section = optional + width + i * PE_SECTION;
        uint64_t at = tenon__number_at(section, 20, 4);
        if (at > size || bytes_read(section) > size - at)
            return tenon__not_a_library(err, TENON__LIBRARY_TRUNCATED);
    }
    return TENON_OK;
}
