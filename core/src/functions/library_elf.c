/* Checks of an ELF file before the loader maps it. The loader trusts the headers, and crashes the process if the file is
 * shorter than they say. */
#include "../internal.h"

#include <string.h>

#ifdef __ELF__

static uint64_t number_at(const unsigned char *bytes, size_t at, size_t width)
{
    uint64_t value = 0;
    for (size_t i = width; i > 0; i--)
        value = value << 8 | bytes[at + i - 1];
    return value;
}

#if defined(__x86_64__)
enum { THIS_MACHINE = 62 };
#elif defined(__aarch64__)
enum { THIS_MACHINE = 183 };
#elif defined(__riscv)
enum { THIS_MACHINE = 243 };
#else
enum { THIS_MACHINE = 0 }; /* unknown machine: the loader decides */
#endif

static tenon_status not_a_library(tenon_error *err, const char *why)
{
    return tenon_error_set(err, TENON_EINVAL, "it is not a shared library that can be loaded here: %s", why);
}

enum { LOAD = 1, DYNAMIC = 2, INTERP = 3, GNU_STACK = 0x6474e551 };

/* A program header. */
typedef struct segment {
    uint64_t type, offset, address, file_size, memory_size, align;
} segment;

static segment segment_at(const unsigned char *bytes, size_t at)
{
    return (segment){number_at(bytes, at, 4),      number_at(bytes, at + 8, 8),  number_at(bytes, at + 16, 8),
                     number_at(bytes, at + 32, 8), number_at(bytes, at + 40, 8), number_at(bytes, at + 48, 8)};
}

/* Whether one of the `count` headers maps the memory of `part`, which the loader will read. */
static bool is_mapped(const unsigned char *headers, uint64_t count, segment part)
{
    for (uint64_t i = 0; i < count; i++) {
        segment load = segment_at(headers, (size_t)i * TENON__LIBRARY_SEGMENT);
        if (load.type == LOAD && part.address >= load.address && part.memory_size <= load.memory_size &&
            part.address - load.address <= load.memory_size - part.memory_size &&
            (part.type != DYNAMIC || part.address - load.address == part.offset - load.offset))
            return true;
    }
    return false;
}

/* Mapped segments must be inside the file and at addresses that the loader can use. Everything that the loader reads must
 * be mapped. One segment must be the dynamic section, which describes how to link the library. */
tenon_status tenon__library_segments(const void *segments, uint64_t count, uint64_t size, tenon_error *err)
{
    const uint64_t most = (uint64_t)1 << 46; /* the size of the address space of a process */
    const unsigned char *bytes = segments;
    bool loads = false, dynamic = false;
    uint64_t end = 0;
    for (uint64_t i = 0; i < count; i++) {
        segment s = segment_at(bytes, (size_t)i * TENON__LIBRARY_SEGMENT);
        if (s.type != LOAD && s.type != DYNAMIC) {
            bool read = s.type != 0 && s.type != INTERP && s.type != GNU_STACK && s.memory_size;
            if (read && !is_mapped(bytes, count, s))
                return not_a_library(err, "its headers are damaged; build it again");
            continue;
        }
        if (s.offset > size || s.file_size > size - s.offset)
            return not_a_library(err, "the file is truncated; build it again");
        bool fits = s.address < most && s.memory_size < most && s.memory_size >= s.file_size;
        if (s.type == LOAD) {
            bool aligned = s.align >= 4096 && (s.align & (s.align - 1)) == 0 && s.align <= (uint64_t)1 << 30 &&
                           (s.address - s.offset) % s.align == 0;
            if (!fits || !aligned || s.address < end)
                return not_a_library(err, "its headers are damaged; build it again");
            end = s.address + s.memory_size;
            loads = true;
        } else {
            if (!fits || s.file_size % 16 || s.file_size == 0 || !is_mapped(bytes, count, s))
                return not_a_library(err, "its headers are damaged; build it again");
            dynamic = true;
        }
    }
    return loads && dynamic ? TENON_OK : not_a_library(err, "it has nothing to load; link it with -shared");
}

tenon_status tenon__library_header(const void *header, size_t length, uint64_t size, uint64_t *at, uint64_t *count,
                                   tenon_error *err)
{
    enum { SHARED = 3, CLASS_64 = 2, LITTLE = 1 };
    const unsigned char *bytes = header;
    if (length == 0)
        return not_a_library(err, "the file is empty");
    if (length < 4 || memcmp(bytes, "\177ELF", 4) != 0)
        return not_a_library(err, "it is not an ELF file");
    if (length < TENON__LIBRARY_HEADER)
        return not_a_library(err, "the file is truncated; build it again");
    if (bytes[4] != CLASS_64 || bytes[5] != LITTLE)
        return not_a_library(err, "it is for another kind of machine (32 bits, or big-endian)");
    if (THIS_MACHINE != 0 && number_at(bytes, 18, 2) != THIS_MACHINE)
        return not_a_library(err, "it is for another kind of machine; build it for this one");
    if (number_at(bytes, 16, 2) != SHARED)
        return not_a_library(err, "it is an object file or a program; link it with -shared -fPIC");
    uint64_t width = number_at(bytes, 54, 2);
    *at = number_at(bytes, 32, 8);
    *count = number_at(bytes, 56, 2);
    if (width != TENON__LIBRARY_SEGMENT || *count == 0 || *at > size || *count * width > size - *at)
        return not_a_library(err, "the file is truncated; build it again");
    return TENON_OK;
}

#else

tenon_status tenon__library_segments(const void *segments, uint64_t count, uint64_t size, tenon_error *err)
{
    (void)segments;
    (void)count;
    (void)size;
    (void)err;
    return TENON_OK;
}

tenon_status tenon__library_header(const void *header, size_t length, uint64_t size, uint64_t *at, uint64_t *count,
                                   tenon_error *err)
{
    (void)header;
    (void)length;
    (void)size;
    (void)err;
    *at = *count = 0;
    return TENON_OK;
}

#endif

tenon_status tenon_library_check(const void *memory, size_t size, tenon_error *err)
{
    uint64_t at = 0, count = 0;
    size_t length = !memory ? 0 : size < TENON__LIBRARY_HEADER ? size : TENON__LIBRARY_HEADER;
    tenon_status status = tenon__library_header(memory, length, size, &at, &count, err);
    if (!status)
        status = tenon__library_segments((const char *)memory + at, count, size, err);
    return tenon__error_rename(err, status, "tenon_library_check");
}
