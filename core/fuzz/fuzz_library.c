/* Checks the input as a library file of each format, and every prefix of it. */
#include "../src/library/internal.h"

#include "fuzz.h"

static tenon_status check(tenon__library_format format, const uint8_t *data, size_t size)
{
    tenon_error err = {0};
    /* A copy of the exact length, so that a sanitizer detects a read past the end. */
    uint8_t *bytes = malloc(size ? size : 1);
    FUZZ_CHECK(bytes);
    if (size > 0)
        memcpy(bytes, data, size);
    tenon_status status = tenon__library_check(format, bytes, size, &err);
    fuzz_check_error(status, &err);
    FUZZ_CHECK(status == TENON_OK || status == TENON_EINVAL);
    free(bytes);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const tenon__library_format formats[] = {TENON__ELF, TENON__PE, TENON__MACHO};
    int valid = 0;
    for (int k = 0; k < 3; k++) {
        tenon_status whole = check(formats[k], data, size);
        valid += whole == TENON_OK;
        for (size_t length = 0; length < size; length += length < 256 ? 1 : 1 + length / 8) {
            tenon_status prefix = check(formats[k], data, length);
            FUZZ_CHECK(prefix == TENON_EINVAL || whole == TENON_OK); /* a valid prefix implies a valid file */
        }
    }
    FUZZ_CHECK(valid <= 1);
    return 0;
}
