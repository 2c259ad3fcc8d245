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

enum { ELF_SEGMENT = 56, LOAD = 1, DYNAMIC = 2, INTERP = 3, GNU_STACK = 0x6474e551 };

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

/* Whether one of the `count` headers maps the memory of `part`, which the loader will read. */
static bool is_mapped(const unsigned char *headers, uint64_t count, segment part)
{
    for (uint64_t i = 0; i < count; i++) {
        segment load = segment_at(headers, (size_t)i * ELF_SEGMENT);
        if (load.type == LOAD && part.address >= load.address && part.memory_size <= load.memory_size &&
            part.address - load.address <= load.memory_size - part.memory_size &&
            (part.type != DYNAMIC || part.address - load.address == part.offset - load.offset))
            return true;
    }
    return false;
}

/* Mapped segments must be inside the file and at addresses that the loader can use. Everything that the loader reads must
 * be mapped. One segment must be the dynamic section, which describes how to link the library. */
tenon_status tenon__elf_table(const unsigned char *bytes, uint64_t length, uint64_t size, tenon_error *err)
{
    const uint64_t most = (uint64_t)1 << 46; /* the size of the address space of a process */
    bool loads = false, dynamic = false;
    uint64_t end = 0, count = length / ELF_SEGMENT;
    for (uint64_t i = 0; i < count; i++) {
        segment s = segment_at(bytes, (size_t)i * ELF_SEGMENT);
        if (s.type != LOAD && s.type != DYNAMIC) {
            bool read = s.type != 0 && s.type != INTERP && s.type != GNU_STACK && s.memory_size;
            if (read && !is_mapped(bytes, count, s))
                return tenon__not_a_library(err, TENON__LIBRARY_DAMAGED);
            continue;
        }
        if (s.offset > size || s.file_size > size - s.offset)
            return tenon__not_a_library(err, TENON__LIBRARY_TRUNCATED);
        bool fits = s.address < most && s.memory_size < most && s.memory_size >= s.file_size;
        if (s.type == LOAD) {
            bool aligned = s.align >= 4096 && (s.align & (s.align - 1)) == 0 && s.align <= (uint64_t)1 << 30 &&
                           (s.address - s.offset) % s.align == 0;
            if (!fits || !aligned || s.address < end)
                return tenon__not_a_library(err, TENON__LIBRARY_DAMAGED);
            end = s.address + s.memory_size;
            loads = true;
        } else {
            if (!fits || s.file_size % 16 || s.file_size == 0 || !is_mapped(bytes, count, s))
                return tenon__not_a_library(err, TENON__LIBRARY_DAMAGED);
            dynamic = true;
        }
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
