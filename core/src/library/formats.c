/* The formats of shared libraries, and the checks of a file before the loader maps it. The loader trusts the headers, and
 * crashes the process if the file is shorter than they say. A check has two steps, so that only the headers of a file are
 * read: the header says where a table is, and the table describes the rest of the file.
 *
 * Every format can be checked on every system. The loader of a system takes only one of them. */
#include "internal.h"

#include <string.h>

static uint64_t number_at(const unsigned char *bytes, size_t at, size_t width)
{
    uint64_t value = 0;
    for (size_t i = width; i > 0; i--)
        value = value << 8 | bytes[at + i - 1];
    return value;
}

#define LIBRARY_TRUNCATED "the file is truncated; build it again"
#define LIBRARY_DAMAGED   "its headers are damaged; build it again"
#define LIBRARY_MACHINE   "it is for another kind of machine; build it for this one"

static tenon_status not_a_library(tenon_error *err, const char *why)
{
    return tenon_error_set(err, TENON_EINVAL, "it is not a shared library that can be loaded here: %s", why);
}

/* ---------------------------------------------------------------------------------------------------- ELF, of Linux */

#if defined(__x86_64__)
enum { ELF_MACHINE = 62 };
#elif defined(__aarch64__)
enum { ELF_MACHINE = 183 };
#elif defined(__riscv)
enum { ELF_MACHINE = 243 };
#else
enum { ELF_MACHINE = 0 }; /* unknown machine: the loader decides */
#endif

enum { ELF_SEGMENT = 56, ELF_PAGE = 4096 };
enum { LOAD = 1, DYNAMIC = 2, NOTE = 4, PHDR = 6, TLS = 7 };
enum { GNU_EH_FRAME = 0x6474e550, GNU_RELRO = 0x6474e552, GNU_PROPERTY = 0x6474e553 };

/* A program header. */
typedef struct segment {
    uint64_t type, offset, address, file_size, memory_size, align;
} segment;

static segment segment_at(const unsigned char *bytes, size_t at)
{
    return (segment){number_at(bytes, at, 4),      number_at(bytes, at + 8, 8),  number_at(bytes, at + 16, 8),
                     number_at(bytes, at + 32, 8), number_at(bytes, at + 40, 8), number_at(bytes, at + 48, 8)};
}

/* Whether the range of `size` from `start` contains that of `length` from `at`. */
static bool range_contains(uint64_t at, uint64_t length, uint64_t start, uint64_t size)
{
    return at >= start && length <= size && at - start <= size - length;
}

/* The end of the pages of a mapped segment. Its alignment is the largest page size that the linker had in mind. */
static uint64_t page_end(segment load)
{
    bool larger = load.align > ELF_PAGE && load.align <= (uint64_t)1 << 30 && (load.align & (load.align - 1)) == 0;
    uint64_t page = larger ? load.align : ELF_PAGE, end = load.address + load.memory_size;
    return end + (page - end % page) % page;
}

/* Whether one of the `count` headers maps what the loader reads of `part`. `at` is the offset of the headers. */
static bool is_mapped(const unsigned char *headers, uint64_t count, uint64_t at, segment part)
{
    for (uint64_t i = 0; i < count; i++) {
        segment load = segment_at(headers, (size_t)i * ELF_SEGMENT);
        bool found = false;
        if (load.type != LOAD || part.address < load.address)
            continue;
        uint64_t offset = part.address - load.address + load.offset; /* in the file */
        if (part.type == DYNAMIC)
            found = offset == part.offset && range_contains(offset, part.file_size, load.offset, load.file_size);
        else if (part.type == PHDR)
            found = offset == at && range_contains(at, count * ELF_SEGMENT, load.offset, load.file_size);
        else if (part.type == TLS) /* the rest of its memory is zeros, which are not mapped from the file */
            found = range_contains(part.address, part.file_size, load.address, load.memory_size);
        else if (part.type == GNU_RELRO) /* its end may be rounded up to the end of a page */
            found = range_contains(part.address, part.memory_size, load.address, page_end(load) - load.address);
        else
            found = range_contains(part.address, part.memory_size, load.address, load.memory_size);
        if (found)
            return true;
    }
    return false;
}

/* Whether the loader, or code that it calls, reads the memory of this segment. */
static bool is_read(segment s)
{
    switch (s.type) {
    case LOAD:
        return false; /* it is mapped */
    case DYNAMIC:
    case PHDR:
        return true;
    case TLS:
        return s.file_size > 0;
    case NOTE:
    case GNU_EH_FRAME:
    case GNU_RELRO:
    case GNU_PROPERTY:
        return s.memory_size > 0;
    default: /* with bytes for whole pages, it was to be mapped: its type is damaged, and its code would be missing */
        return s.file_size > 0 && s.memory_size > 0 && s.align >= ELF_PAGE;
    }
}

/* Mapped segments must be inside the file and at addresses that the loader can use, in ascending order. Everything that
 * the loader reads must be mapped. One segment must be the dynamic section, which describes how to link the library.
 * Fields that no loader reads, or that every loader checks, are not checked: a library that the loader takes must never be
 * refused. */
static tenon_status elf_table(const unsigned char *bytes, const tenon__library_table *table, uint64_t size,
                              tenon_error *err)
{
    const uint64_t most = (uint64_t)1 << 46; /* the size of the address space of a process */
    bool loads = false, dynamic = false;
    uint64_t end = 0, count = table->length / ELF_SEGMENT;
    for (uint64_t i = 0; i < count; i++) {
        segment s = segment_at(bytes, (size_t)i * ELF_SEGMENT);
        bool in_file = s.offset <= size && s.file_size <= size - s.offset;
        if ((s.type == LOAD || s.type == DYNAMIC) && !in_file)
            return not_a_library(err, LIBRARY_TRUNCATED);
        bool fits = s.address < most && s.memory_size < most && s.memory_size >= s.file_size;
        if ((s.type == LOAD || s.type == DYNAMIC || s.type == TLS) && !fits)
            return not_a_library(err, LIBRARY_DAMAGED);
        if (s.type == LOAD) {
            if ((s.address - s.offset) % ELF_PAGE != 0 || s.address < end)
                return not_a_library(err, LIBRARY_DAMAGED);
            end = s.address + s.memory_size;
            loads = true;
        }
        dynamic = dynamic || (s.type == DYNAMIC && s.file_size > 0);
    }
    for (uint64_t i = 0; i < count; i++) {
        segment s = segment_at(bytes, (size_t)i * ELF_SEGMENT);
        if (is_read(s) && !is_mapped(bytes, count, table->at, s))
            return not_a_library(err, LIBRARY_DAMAGED);
    }
    return loads && dynamic ? TENON_OK : not_a_library(err, "it has nothing to load; link it with -shared");
}

static tenon_status elf_header(const unsigned char *bytes, size_t length, uint64_t size, tenon__library_table *table,
                               tenon_error *err)
{
    enum { SHARED = 3, CLASS_64 = 2, LITTLE = 1 };
    if (length < TENON__LIBRARY_HEADER)
        return not_a_library(err, LIBRARY_TRUNCATED);
    if (bytes[4] != CLASS_64 || bytes[5] != LITTLE)
        return not_a_library(err, "it is for another kind of machine (32 bits, or big-endian)");
    if (ELF_MACHINE != 0 && number_at(bytes, 18, 2) != ELF_MACHINE)
        return not_a_library(err, LIBRARY_MACHINE);
    if (number_at(bytes, 16, 2) != SHARED)
        return not_a_library(err, "it is an object file or a program; link it with -shared -fPIC");
    uint64_t width = number_at(bytes, 54, 2);
    table->at = number_at(bytes, 32, 8);
    table->length = number_at(bytes, 56, 2) * ELF_SEGMENT;
    if (width != ELF_SEGMENT || table->length == 0 || table->at > size || table->length > size - table->at)
        return not_a_library(err, LIBRARY_TRUNCATED);
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------- PE, of Windows */

/* The DOS header has the offset of the other headers: a signature, the COFF header, the optional header, and the
 * sections. */

enum { PE_SIGNATURE = 4, PE_COFF = 20, PE_SECTION = 40, PE_PAGE = 4096 };

#if defined(__x86_64__) || defined(_M_X64)
enum { PE_MACHINE = 0x8664 };
#elif defined(__aarch64__) || defined(_M_ARM64)
enum { PE_MACHINE = 0xaa64 };
#else
enum { PE_MACHINE = 0 };    /* unknown machine: the loader decides */
#endif

static tenon_status pe_header(const unsigned char *bytes, size_t length, uint64_t size, tenon__library_table *table,
                              tenon_error *err)
{
    const uint64_t most = PE_SIGNATURE + PE_COFF + UINT16_MAX + UINT16_MAX * PE_SECTION;
    if (length < TENON__LIBRARY_HEADER)
        return not_a_library(err, LIBRARY_TRUNCATED);
    table->at = number_at(bytes, 60, 4);
    if (table->at > size || size - table->at < PE_SIGNATURE + PE_COFF)
        return not_a_library(err, LIBRARY_TRUNCATED);
    table->length = size - table->at < most ? size - table->at : most;
    return TENON_OK;
}

/* How many bytes of a section the loader reads from the file: none if the file has none, and not more than the memory. */
static uint64_t bytes_read(const unsigned char *section)
{
    uint64_t memory = number_at(section, 8, 4), file = number_at(section, 16, 4);
    uint64_t pages = (memory + PE_PAGE - 1) / PE_PAGE * PE_PAGE;
    if (number_at(section, 20, 4) == 0)
        return 0;
    return memory > 0 && pages < file ? pages : file;
}

static tenon_status pe_table(const unsigned char *bytes, const tenon__library_table *table, uint64_t size,
                             tenon_error *err)
{
    enum { PE32_PLUS = 0x20b, DLL = 0x2000 };
    const unsigned char *coff = bytes + PE_SIGNATURE, *optional = coff + PE_COFF;
    if (memcmp(bytes, "PE\0\0", PE_SIGNATURE) != 0)
        return not_a_library(err, "it is a program for DOS, not a PE file");
    if (PE_MACHINE != 0 && number_at(coff, 0, 2) != PE_MACHINE)
        return not_a_library(err, LIBRARY_MACHINE);
    if (!(number_at(coff, 18, 2) & DLL))
        return not_a_library(err, "it is a program; link it with -shared");
    uint64_t nsections = number_at(coff, 2, 2), width = number_at(coff, 16, 2);
    if (nsections == 0 || width < 2)
        return not_a_library(err, LIBRARY_DAMAGED);
    if (PE_SIGNATURE + PE_COFF + width + nsections * PE_SECTION > table->length)
        return not_a_library(err, LIBRARY_TRUNCATED);
    if (number_at(optional, 0, 2) != PE32_PLUS)
        return not_a_library(err, "it is for another kind of machine (32 bits)");
    for (uint64_t i = 0; i < nsections; i++) {
        const unsigned char *section = optional + width + i * PE_SECTION;
        uint64_t at = number_at(section, 20, 4);
        if (at > size || bytes_read(section) > size - at)
            return not_a_library(err, LIBRARY_TRUNCATED);
    }
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------------------- Mach-O, of macOS */

/* A header and load commands, of which some are segments of the file. */

enum { MACHO_HEADER = 32, MACHO_COMMAND = 8, MACHO_SEGMENT_COMMAND = 72, MACHO_MOST_COMMANDS = 1 << 20 };

#if defined(__x86_64__)
enum { MACHO_MACHINE = 0x01000007 };
#elif defined(__aarch64__)
enum { MACHO_MACHINE = 0x0100000c };
#else
enum { MACHO_MACHINE = 0 }; /* unknown machine: the loader decides */
#endif

/* The table is the header and the commands. That of a universal file is empty: the loader chooses one of its libraries. */
static tenon_status macho_header(const unsigned char *bytes, size_t length, uint64_t size, tenon__library_table *table,
                                 tenon_error *err)
{
    enum { DYLIB = 6, BUNDLE = 8 };
    if (bytes[0] == 0xca)
        return TENON_OK;
    if (length < MACHO_HEADER)
        return not_a_library(err, LIBRARY_TRUNCATED);
    if (bytes[0] == 0xfe)
        return not_a_library(err, LIBRARY_MACHINE);
    if (bytes[0] != 0xcf)
        return not_a_library(err, "it is for another kind of machine (32 bits)");
    if (MACHO_MACHINE != 0 && number_at(bytes, 4, 4) != MACHO_MACHINE)
        return not_a_library(err, LIBRARY_MACHINE);
    uint64_t type = number_at(bytes, 12, 4);
    if (type != DYLIB && type != BUNDLE)
        return not_a_library(err, "it is an object file or a program; link it with -shared");
    table->length = number_at(bytes, 20, 4);
    if (table->length < MACHO_COMMAND || table->length > MACHO_MOST_COMMANDS)
        return not_a_library(err, LIBRARY_DAMAGED);
    if (table->length > size - MACHO_HEADER)
        return not_a_library(err, LIBRARY_TRUNCATED);
    table->length += MACHO_HEADER;
    return TENON_OK;
}

/* Space for further commands may follow the last one. */
static tenon_status macho_table(const unsigned char *bytes, const tenon__library_table *table, uint64_t size,
                                tenon_error *err)
{
    enum { SEGMENT_64 = 0x19 };
    bool loads = false;
    uint64_t at = MACHO_HEADER, width;
    for (uint64_t count = number_at(bytes, 16, 4); count > 0; count--, at += width) {
        const unsigned char *command = bytes + at;
        width = table->length - at < MACHO_COMMAND ? 0 : number_at(command, 4, 4);
        if (width < MACHO_COMMAND || width > table->length - at)
            return not_a_library(err, LIBRARY_DAMAGED);
        if (number_at(command, 0, 4) != SEGMENT_64)
            continue;
        if (width < MACHO_SEGMENT_COMMAND)
            return not_a_library(err, LIBRARY_DAMAGED);
        uint64_t offset = number_at(command, 40, 8), bytes_in_file = number_at(command, 48, 8);
        if (offset > size || bytes_in_file > size - offset)
            return not_a_library(err, LIBRARY_TRUNCATED);
        loads = true;
    }
    return loads ? TENON_OK : not_a_library(err, "it has nothing to load; link it with -shared");
}

/* ------------------------------------------------------------------------------------------------------- any format */

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
        return not_a_library(err, "the file is empty");
    tenon__library_format found = format_of(bytes, length);
    if (found != format)
        return not_a_library(err, found == TENON__UNKNOWN_FORMAT ? unknown[format] : foreign[found]);
    switch (format) {
    case TENON__PE:
        return pe_header(bytes, length, size, table, err);
    case TENON__MACHO:
        return macho_header(bytes, length, size, table, err);
    default:
        return elf_header(bytes, length, size, table, err);
    }
}

tenon_status tenon__library_table_check(tenon__library_format format, const void *bytes,
                                        const tenon__library_table *table, uint64_t size, tenon_error *err)
{
    switch (format) {
    case TENON__PE:
        return pe_table(bytes, table, size, err);
    case TENON__MACHO:
        return macho_table(bytes, table, size, err);
    default:
        return elf_table(bytes, table, size, err);
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
