/* Parses the names of dtypes and devices: a name that is accepted must survive a round trip. */
#include "fuzz.h"

static void check_dtype(tenon_dtype dtype)
{
    char text[64];
    tenon_dtype back;
    size_t length = tenon_dtype_format(dtype, text, sizeof text);
    FUZZ_CHECK(length < sizeof text && strlen(text) == length);
    bool parsed = tenon_dtype_parse(text, &back, NULL) == TENON_OK;
    FUZZ_CHECK(parsed == tenon_dtype_known(dtype));
    FUZZ_CHECK(!parsed || tenon_dtype_equal(dtype, back));
}

static void check_device(tenon_device device)
{
    char text[64];
    tenon_device back;
    size_t length = tenon_device_format(device, text, sizeof text);
    FUZZ_CHECK(length < sizeof text && strlen(text) == length);
    bool parsed = tenon_device_parse(text, &back, NULL) == TENON_OK;
    FUZZ_CHECK(parsed == tenon_device_known(device));
    FUZZ_CHECK(!parsed || tenon_device_equal(device, back));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = 0;
    tenon_error err = {0};
    tenon_dtype dtype = {0};
    tenon_device device = {0};

    tenon_status status = tenon_dtype_parse(text, &dtype, &err);
    fuzz_check_error(status, &err);
    if (status == TENON_OK) {
        FUZZ_CHECK(tenon_dtype_known(dtype));
        check_dtype(dtype);
    }
    status = tenon_device_parse(text, &device, &err);
    fuzz_check_error(status, &err);
    if (status == TENON_OK) {
        FUZZ_CHECK(tenon_device_known(device));
        check_device(device);
    }

    /* Use the same bytes as values of dtypes and devices. */
    fuzz_input in = {data, size};
    check_dtype(tenon_dtype_of(fuzz_byte(&in), fuzz_byte(&in), (int)fuzz_bytes(&in, 2)));
    check_device(tenon_device_of((int32_t)fuzz_bytes(&in, 4), (int32_t)fuzz_bytes(&in, 4)));
    free(text);
    return 0;
}
