/* Checks of a Mach-O file, a library of macOS: a header and load commands, of which some are segments of the file. */
#include "library_format.h"

#include <string.h>

enum { MACHO_HEADER = 32, MACHO_COMMAND = 8, MACHO_SEGMENT_COMMAND = 72, MACHO_MOST_COMMANDS = 1 << 20 };

#if defined(__x86_64__)
enum { MACHO_MACHINE = 0x01000007 };
#elif defined(__aarch64__)
enum { MACHO_MACHINE = 0x0100000c };
#else
enum { MACHO_MACHINE = 0 }; /* unknown machine: the loader decides */
#endif

/* The table is the header and the commands. That of a universal file is empty: the loader chooses one of its libraries. */
tenon_status tenon__macho_header(const unsigned char *bytes, size_t length, uint64_t size, tenon__library_table *table,
                                 tenon_error *err)
{
    enum { DYLIB = 6, BUNDLE = 8 };
    if (bytes[0] == 0xca)
        return TENON_OK;
    if (length < MACHO_HEADER)
        return tenon__not_a_library(err, TENON__LIBRARY_TRUNCATED);
    if (bytes[0] == 0xfe)
        return tenon__not_a_library(err, TENON__LIBRARY_MACHINE);
    if (bytes[0] != 0xcf)
        return tenon__not_a_library(err, "it is for another kind of machine (32 bits)");
    if (MACHO_MACHINE != 0 && tenon__number_at(bytes, 4, 4) != MACHO_MACHINE)
        return tenon__not_a_library(err, TENON__LIBRARY_MACHINE);
    uint64_t type = tenon__number_at(bytes, 12, 4);
    if (type != DYLIB && type != BUNDLE)
        return tenon__not_a_library(err, "it is an object file or a program; link it with -shared");
    table->length = tenon__number_at(bytes, 20, 4);
    if (table->length < MACHO_COMMAND || table->length > MACHO_MOST_COMMANDS)
        return tenon__not_a_library(err, TENON__LIBRARY_DAMAGED);
    if (table->length > size - MACHO_HEADER)
        return tenon__not_a_library(err, TENON__LIBRARY_TRUNCATED);
    table->length += MACHO_HEADER;
    return TENON_OK;
}

/* Space for further commands may follow the last one. */
tenon_status tenon__macho_table(const unsigned char *bytes, const tenon__library_table *table, uint64_t size,
                                tenon_error *err)
{
    enum { SEGMENT_64 = 0x19 };
    bool loads = false;
    uint64_t at = MACHO_HEADER, width;
    for (uint64_t count = tenon__number_at(bytes, 16, 4); count > 0; count--, at += width) {
        const unsigned char *command = bytes + at;
        width = table->length - at < MACHO_COMMAND ? 0 : tenon__number_at(command, 4, 4);
        if (width < MACHO_COMMAND || width > table->length - at)
            return tenon__not_a_library(err, TENON__LIBRARY_DAMAGED);
        if (tenon__number_at(command, 0, 4) != SEGMENT_64)
            continue;
        if (width < MACHO_SEGMENT_COMMAND)
            return tenon__not_a_library(err, TENON__LIBRARY_DAMAGED);
        uint64_t offset = tenon__number_at(command, 40, 8), bytes_in_file = tenon__number_at(command, 48, 8);
        if (offset > size || bytes_in_file > size - offset)
            return tenon__not_a_library(err, TENON__LIBRARY_TRUNCATED);
        loads = true;
    }
    return loads ? TENON_OK : tenon__not_a_library(err, "it has nothing to load; link it with -shared");
}
