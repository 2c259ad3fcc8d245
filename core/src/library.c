/* A look at a file before the loader maps it: the loader trusts what the headers say, and dies where the file ends
 * earlier. Only offsets and numbers are read, each checked against the size. */
#include "internal.h"

#ifdef __ELF__

#include <string.h>

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
enum { THIS_MACHINE = 0 }; /* not known here: the loader decides */
#endif

static tenon_status not_a_library(tenon_error *err, const char *why)
{
    return tenon_error_set(err, TENON_EINVAL, "it is no shared library that can be loaded here: %s", why);
}

/* Each segment that is mapped must lie inside the file, and one must say how to link it. */
static tenon_status check_segments(const unsigned char *bytes, size_t size, uint64_t at, uint64_t width, uint64_t count,
                                   tenon_error *err)
{
    enum { LOAD = 1, DYNAMIC = 2 };
    bool loads = false, dynamic = false;
    for (uint64_t i = 0; i < count; i++) {
        size_t header = (size_t)(at + i * width);
        uint64_t type = number_at(bytes, header, 4), offset = number_at(bytes, header + 8, 8);
        uint64_t length = number_at(bytes, header + 32, 8);
        if (type != LOAD && type != DYNAMIC)
            continue;
        if (offset > size || length > size - offset)
            return not_a_library(err, "the file is cut off; build it again");
        loads |= type == LOAD;
        dynamic |= type == DYNAMIC;
    }
    return loads && dynamic ? TENON_OK : not_a_library(err, "it has nothing to load; link it with -shared");
}

tenon_status tenon_library_check(const void *memory, size_t size, tenon_error *err)
{
    enum { HEADER = 64, PROGRAM_HEADER = 56, SHARED = 3, CLASS_64 = 2, LITTLE = 1 };
    const unsigned char *bytes = memory;
    if (!memory || size == 0)
        return not_a_library(err, "the file is empty");
    if (size < 4 || memcmp(bytes, "\177ELF", 4) != 0)
        return not_a_library(err, "it is no ELF file");
    if (size < HEADER)
        return not_a_library(err, "the file is cut off; build it again");
    if (bytes[4] != CLASS_64 || bytes[5] != LITTLE)
        return not_a_library(err, "it is for another kind of machine (32 bits, or big-endian)");
    if (THIS_MACHINE != 0 && number_at(bytes, 18, 2) != THIS_MACHINE)
        return not_a_library(err, "it is for another kind of machine; build it for this one");
    if (number_at(bytes, 16, 2) != SHARED)
        return not_a_library(err, "it is an object file or a program; link it with -shared -fPIC");
    uint64_t at = number_at(bytes, 32, 8), width = number_at(bytes, 54, 2), count = number_at(bytes, 56, 2);
    if (width != PROGRAM_HEADER || count == 0 || at > size || count * width > size - at)
        return not_a_library(err, "the file is cut off; build it again");
    return check_segments(bytes, size, at, width, count, err);
}

#else

tenon_status tenon_library_check(const void *memory, size_t size, tenon_error *err)
{
    (void)memory;
    (void)size;
    (void)err;
    return TENON_OK;
}

#endif
