/* Checks the input as a library file, and every prefix of it. */
#include "fuzz.h"

static tenon_status check(const uint8_t *data, size_t size)
{
    tenon_error err = {0};
    /* A copy of the exact length, so that a sanitizer detects a read past the end. */
    uint8_t *bytes = malloc(size ? size : 1);
    FUZZ_CHECK(bytes);
    if (size > 0)
        memcpy(bytes, data, size);
    tenon_status status = tenon_library_check(bytes, size, &err);
    fuzz_check_error(status, &err);
    FUZZ_CHECK(status == TENON_OK || status == TENON_EINVAL);
    free(bytes);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tenon_status whole = check(data, size);
    for (size_t length = 0; length < size; length += length < 256 ? 1 : 1 + length / 8)
        FUZZ_CHECK(check(data, length) == TENON_EINVAL || whole == TENON_OK); /* a valid prefix implies a valid file */
    return 0;
}
