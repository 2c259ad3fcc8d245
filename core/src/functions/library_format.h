/* The formats of shared libraries, and the checks of a file before the loader maps it. A check has two steps, so that only
 * the headers of a file are read: the header says where a table is, and the table describes the rest of the file.
 *
 * Every format can be checked on every system. The loader of a system takes only one of them. */
#ifndef TENON_LIBRARY_FORMAT_H
#define TENON_LIBRARY_FORMAT_H

#include "../internal.h"

static inline uint64_t tenon__number_at(const unsigned char *bytes, size_t at, size_t width)
{
    uint64_t value = 0;
    for (size_t i = width; i > 0; i--)
        value = value << 8 | bytes[at + i - 1];
    return value;
}

tenon_status tenon__not_a_library(tenon_error *err, const char *why);

#define TENON__LIBRARY_TRUNCATED "the file is truncated; build it again"
#define TENON__LIBRARY_DAMAGED   "its headers are damaged; build it again"
#define TENON__LIBRARY_MACHINE   "it is for another kind of machine; build it for this one"

/* The two steps of each format. `length` bytes of the header are passed. The second step gets the whole table. */
tenon_status tenon__elf_header(const unsigned char *bytes, size_t length, uint64_t size, tenon__library_table *table,
                               tenon_error *err);
tenon_status tenon__elf_table(const unsigned char *bytes, const tenon__library_table *table, uint64_t size,
                              tenon_error *err);
tenon_status tenon__pe_header(const unsigned char *bytes, size_t length, uint64_t size, tenon__library_table *table,
                              tenon_error *err);
tenon_status tenon__pe_table(const unsigned char *bytes, const tenon__library_table *table, uint64_t size,
                             tenon_error *err);
tenon_status tenon__macho_header(const unsigned char *bytes, size_t length, uint64_t size, tenon__library_table *table,
                                 tenon_error *err);
tenon_status tenon__macho_table(const unsigned char *bytes, const tenon__library_table *table, uint64_t size,
                                tenon_error *err);

#endif
