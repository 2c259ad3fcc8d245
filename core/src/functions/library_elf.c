/* Checks of an ELF file before the loader maps it. The loader trusts the headers, and crashes the process if the file is
 * shorter than they say. */
#include "library_format.h"

#if defined(__x86_64__)
enum { THIS_MACHINE = 62 };
#elif defined(__aarch64__)
enum { THIS_MACHINE = 183 };
#elif defined(__riscv)
enum { THIS_MACHINE = 243 };
#else
enum { THIS_MACHINE = 0 }; /* unknown machine: the loader decides */
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
    return (segment){tenon__number_at(bytes, at, 4),      tenon__number_at(bytes, at + 8, 8),
                     tenon__number_at(bytes, at + 16, 8), tenon__number_at(bytes, at + 32, 8),
                     tenon__number_at(bytes, at + 40, 8), tenon__number_at(bytes, at + 48, 8)};
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
tenon_status tenon__elf_table(const unsigned char *bytes, const tenon__library_table *table, uint64_t size,
                              tenon_error *err)
{
    const uint64_t most = (uint64_t)1 << 46; /* the size of the address space of a process */
    bool loads = false, dynamic = false;
    uint64_t end = 0, count = table->length / ELF_SEGMENT;
    for (uint64_t i = 0; i < count; i++) {
        segment s = segment_at(bytes, (size_t)i * ELF_SEGMENT);
        bool in_file = s.offset <= size && s.file_size <= size - s.offset;
        if ((s.type == LOAD || s.type == DYNAMIC) && !in_file)
            return tenon__not_a_library(err, TENON__LIBRARY_TRUNCATED);
        bool fits = s.address < most && s.memory_size < most && s.memory_size >= s.file_size;
        if ((s.type == LOAD || s.type == DYNAMIC || s.type == TLS) && !fits)
            return tenon__not_a_library(err, TENON__LIBRARY_DAMAGED);
        if (s.type == LOAD) {
            if ((s.address - s.offset) % ELF_PAGE != 0 || s.address < end)
                return tenon__not_a_library(err, TENON__LIBRARY_DAMAGED);
            end = s.address + s.memory_size;
            loads = true;
        }
        dynamic = dynamic || (s.type == DYNAMIC && s.file_size > 0);
    }
    for (uint64_t i = 0; i < count; i++) {
        segment s = segment_at(bytes, (size_t)i * ELF_SEGMENT);
        if (is_read(s) && !is_mapped(bytes, count, table->at, s))
            return tenon__not_a_library(err, TENON__LIBRARY_DAMAGED);
    }
    return loads && dynamic ? TENON_OK : tenon__not_a_library(err, "it has nothing to load; link it with -shared");
}

tenon_status tenon__elf_header(const unsigned char *bytes, size_t length, uint64_t size, tenon__library_table *table,
                               tenon_error *err)
{
    enum { SHARED = 3, CLASS_64 = 2, LITTLE = 1 };
    if (length < TENON__LIBRARY_HEADER)
        return tenon__not_a_library(err, TENON__LIBRARY_TRUNCATED);
    if (bytes[4] != CLASS_64 || bytes[5] != LITTLE)
        return tenon__not_a_library(err, "it is for another kind of machine (32 bits, or big-endian)");
    if (THIS_MACHINE != 0 && tenon__number_at(bytes, 18, 2) != THIS_MACHINE)
        return tenon__not_a_library(err, TENON__LIBRARY_MACHINE);
    if (tenon__number_at(bytes, 16, 2) != SHARED)
        return tenon__not_a_library(err, "it is an object file or a program; link it with -shared -fPIC");
    uint64_t width = tenon__number_at(bytes, 54, 2);
    table->at = tenon__number_at(bytes, 32, 8);
    table->length = tenon__number_at(bytes, 56, 2) * ELF_SEGMENT;
    if (width != ELF_SEGMENT || table->length == 0 || table->at > size || table->length > size - table->at)
        return tenon__not_a_library(err, TENON__LIBRARY_TRUNCATED);
    return TENON_OK;
}
