/* Names of dtypes and devices, and views written as one line. */
#include "check.h"

/* --------------------------------------------------------------------------------------------------------- dtypes */

static const struct {
    const char *name;
    const char *long_name;
    int code;
    int bits;
} dtypes[] = {
    {"bool", "bool", 6, 8},
    {"i1", "int1", 0, 1},
    {"i2", "int2", 0, 2},
    {"i4", "int4", 0, 4},
    {"i8", "int8", 0, 8},
    {"i16", "int16", 0, 16},
    {"i32", "int32", 0, 32},
    {"i64", "int64", 0, 64},
    {"i128", "int128", 0, 128},
    {"u1", "uint1", 1, 1},
    {"u2", "uint2", 1, 2},
    {"u4", "uint4", 1, 4},
    {"u8", "uint8", 1, 8},
    {"u16", "uint16", 1, 16},
    {"u32", "uint32", 1, 32},
    {"u64", "uint64", 1, 64},
    {"u128", "uint128", 1, 128},
    {"f16", "float16", 2, 16},
    {"f32", "float32", 2, 32},
    {"f64", "float64", 2, 64},
    {"f128", "float128", 2, 128},
    {"opaque8", "opaque8", 3, 8},
    {"opaque16", "opaque16", 3, 16},
    {"opaque32", "opaque32", 3, 32},
    {"opaque64", "opaque64", 3, 64},
    {"opaque128", "opaque128", 3, 128},
    {"bf16", "bfloat16", 4, 16},
    {"c32", "complex32", 5, 32},
    {"c64", "complex64", 5, 64},
    {"c128", "complex128", 5, 128},
    {"f8_e3m4", "float8_e3m4", 7, 8},
    {"f8_e4m3", "float8_e4m3", 8, 8},
    {"f8_e4m3b11fnuz", "float8_e4m3b11fnuz", 9, 8},
    {"f8_e4m3fn", "float8_e4m3fn", 10, 8},
    {"f8_e4m3fnuz", "float8_e4m3fnuz", 11, 8},
    {"f8_e5m2", "float8_e5m2", 12, 8},
    {"f8_e5m2fnuz", "float8_e5m2fnuz", 13, 8},
    {"f8_e8m0fnu", "float8_e8m0fnu", 14, 8},
    {"f6_e2m3fn", "float6_e2m3fn", 15, 6},
    {"f6_e3m2fn", "float6_e3m2fn", 16, 6},
    {"f4_e2m1fn", "float4_e2m1fn", 17, 4},
};

enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

static void parse_to(const char *text, int code, int bits, int lanes)
{
    tenon_dtype dtype;
    OK(tenon_dtype_parse(text, &dtype, &err));
    assert_int_equal(dtype.code, code);
    assert_int_equal(dtype.bits, bits);
    assert_int_equal(dtype.lanes, lanes);
}

static void format_to(tenon_dtype dtype, const char *text)
{
    char buffer[64];
    assert_int_equal(tenon_dtype_format(dtype, buffer, sizeof buffer), strlen(text));
    assert_string_equal(buffer, text);
}

static void test_every_dtype_has_its_names(void **state)
{
    (void)state;
    for (int i = 0; i < NDTYPES; i++) {
        char name[64];
        tenon_dtype dtype = tenon_dtype_of(dtypes[i].code, dtypes[i].bits, 1);
        parse_to(dtypes[i].name, dtypes[i].code, dtypes[i].bits, 1);
        parse_to(dtypes[i].long_name, dtypes[i].code, dtypes[i].bits, 1);
        format_to(dtype, dtypes[i].name);
        dtype.lanes = 4;
        snprintf(name, sizeof name, "%sx4", dtypes[i].name);
        parse_to(name, dtypes[i].code, dtypes[i].bits, 4);
        format_to(dtype, name);
    }
}

static void test_dtype_constants(void **state)
{
    (void)state;
    const tenon_dtype constants[] = {TENON_BOOL, TENON_I8,  TENON_I16, TENON_I32,  TENON_I64,
                                     TENON_U8,   TENON_U16, TENON_U32, TENON_U64,  TENON_F16,
                                     TENON_F32,  TENON_F64, TENON_C64, TENON_C128, TENON_BF16};
    const char *const names[] = {"bool", "i8",  "i16", "i32", "i64", "u8",   "u16", "u32",
                                 "u64",  "f16", "f32", "f64", "c64", "c128", "bf16"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        format_to(constants[i], names[i]);
    assert_true(tenon_dtype_equal(TENON_F32, tenon_dtype_of(2, 32, 1)));
    assert_false(tenon_dtype_equal(TENON_F32, TENON_I32));
    assert_false(tenon_dtype_equal(TENON_F32, TENON_F64));
    assert_false(tenon_dtype_equal(TENON_F32, tenon_dtype_of(2, 32, 2)));
}

static void test_only_listed_dtypes_are_known(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++) {
        for (int bits = 0; bits < 256; bits++) {
            bool listed = false;
            for (int i = 0; i < NDTYPES; i++)
                listed |= dtypes[i].code == code && dtypes[i].bits == bits;
            if (tenon_dtype_known(tenon_dtype_of(code, bits, 1)) != listed ||
                tenon_dtype_known(tenon_dtype_of(code, bits, 65535)) != listed ||
                tenon_dtype_known(tenon_dtype_of(code, bits, 0)))
                fail_msg("code %d with %d bits", code, bits);
        }
    }
}

static void test_lanes(void **state)
{
    (void)state;
    parse_to("f32x1", 2, 32, 1);
    parse_to("f32x65535", 2, 32, 65535);
    parse_to("bfloat16x2", 4, 16, 2);
    parse_to("u1x8", 1, 1, 8);
    parse_to("float4_e2m1fn_x2", 17, 4, 2);
    format_to(tenon_dtype_of(17, 4, 2), "f4_e2m1fnx2");
    format_to(tenon_dtype_of(2, 32, 65535), "f32x65535");
}

static void test_unknown_dtypes_are_written_as_numbers(void **state)
{
    (void)state;
    format_to(tenon_dtype_of(2, 32, 0), "dtype(2, 32, 0)");
    format_to(tenon_dtype_of(2, 8, 1), "dtype(2, 8, 1)");
    format_to(tenon_dtype_of(18, 8, 1), "dtype(18, 8, 1)");
    format_to(tenon_dtype_of(255, 255, 65535), "dtype(255, 255, 65535)");
}

static void test_bad_dtypes(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",       " ",       "f",        "F32",       "f33",       "f8",       "i3",      "u0",       "f32 ",
        " f32",   "f32x",    "f32x0",    "f32x04",    "f32x65536", "f32x-1",   "f32x4x4", "x4",       "_x2",
        "float",  "int",     "double",   "float0",    "uint",      "bfloat32", "complex", "c16",      "bool8",
        "opaque", "opaque4", "boolean8", "float128_", "f32_",      "f32__x2",  "iint8",   "ufloat32",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tenon_dtype dtype = TENON_I8;
        char message[300];
        snprintf(message, sizeof message,
                 "tenon_dtype_parse(): argument 'text': expected a dtype such as f32, i64, bf16, f8_e4m3fn or f32x4, "
                 "got \"%s\"",
                 texts[i]);
        FAILS_SAYING(TENON_EPARSE, message, tenon_dtype_parse(texts[i], &dtype, &err));
        assert_true(tenon_dtype_equal(dtype, TENON_I8));
    }
    tenon_dtype dtype;
    char text[3000];
    memset(text, 'f', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    FAILS(TENON_EPARSE, tenon_dtype_parse(text, &dtype, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_dtype_parse(): argument 'text' is NULL", tenon_dtype_parse(NULL, &dtype, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_dtype_parse(): argument 'out' is NULL", tenon_dtype_parse("f32", NULL, &err));
}

/* -------------------------------------------------------------------------------------------------------- devices */

enum { HANDLE = 1, HOST = 2 };

static const struct {
    const char *name;
    int type;
    int traits;
} devices[] = {
    {"cpu", 1, HOST},
    {"cuda", 2, 0},
    {"cuda_host", 3, HOST},
    {"opencl", 4, HANDLE},
    {"vulkan", 7, HANDLE},
    {"metal", 8, HANDLE},
    {"vpi", 9, 0},
    {"rocm", 10, 0},
    {"rocm_host", 11, HOST},
    {"ext_dev", 12, 0},
    {"cuda_managed", 13, HOST},
    {"oneapi", 14, 0},
    {"webgpu", 15, HANDLE},
    {"hexagon", 16, 0},
    {"maia", 17, 0},
    {"trainium", 18, 0},
};

enum { NDEVICES = sizeof devices / sizeof *devices };

static void parse_device_to(const char *text, int type, int id)
{
    tenon_device device;
    OK(tenon_device_parse(text, &device, &err));
    assert_int_equal(device.device_type, type);
    assert_int_equal(device.device_id, id);
}

static void format_device_to(tenon_device device, const char *text)
{
    char buffer[64];
    assert_int_equal(tenon_device_format(device, buffer, sizeof buffer), strlen(text));
    assert_string_equal(buffer, text);
}

static void test_every_device_has_its_name(void **state)
{
    (void)state;
    for (int i = 0; i < NDEVICES; i++) {
        char name[64];
        parse_device_to(devices[i].name, devices[i].type, 0);
        for (int id = 0; id < 3; id++) {
            snprintf(name, sizeof name, "%s:%d", devices[i].name, id);
            parse_device_to(name, devices[i].type, id);
            format_device_to(tenon_device_of(devices[i].type, id), i == 0 && id == 0 ? "cpu" : name);
        }
    }
    parse_device_to("cuda:2147483647", TENON_CUDA, INT32_MAX);
    format_device_to(tenon_device_of(TENON_CUDA, INT32_MAX), "cuda:2147483647");
}

static void test_unknown_devices_are_written_as_numbers(void **state)
{
    (void)state;
    format_device_to(tenon_device_of(0, 0), "device(0, 0)");
    format_device_to(tenon_device_of(5, 1), "device(5, 1)");
    format_device_to(tenon_device_of(19, 0), "device(19, 0)");
    format_device_to(tenon_device_of(INT32_MIN, INT32_MIN), "device(-2147483648, -2147483648)");
    format_device_to(tenon_device_of(TENON_CUDA, -1), "device(2, -1)");
}

static void test_traits_of_devices(void **state)
{
    (void)state;
    for (int type = -3; type < 100; type++) {
        tenon_device device = tenon_device_of(type, 0);
        int at = 0;
        while (at < NDEVICES && devices[at].type != type)
            at++;
        bool listed = at < NDEVICES;
        assert_int_equal(tenon_device_known(device), listed);
        assert_int_equal(tenon_device_on_host(device), listed && devices[at].traits == HOST);
        assert_int_equal(tenon_device_has_addresses(device), listed && devices[at].traits != HANDLE);
        device.device_id = 7;
        assert_int_equal(tenon_device_known(device), listed);
        device.device_id = -1;
        assert_false(tenon_device_known(device));
    }
    assert_true(tenon_device_equal(tenon_device_of(2, 1), tenon_device_of(2, 1)));
    assert_false(tenon_device_equal(tenon_device_of(2, 1), tenon_device_of(2, 0)));
    assert_false(tenon_device_equal(tenon_device_of(2, 1), tenon_device_of(10, 1)));
}

static void test_bad_devices(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "CPU",
        "cpu ",
        " cpu",
        "gpu",
        "cuda:",
        "cuda:-1",
        "cuda:x",
        "cuda: 1",
        "cuda:1 ",
        "cuda:1:2",
        ":1",
        "cud",
        "cudahost",
        "cuda:2147483648",
        "cuda:99999999999999999999",
        "cuda:0x1",
        "mps",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tenon_device device = {77, 88};
        char message[300];
        snprintf(message, sizeof message,
                 "tenon_device_parse(): argument 'text': expected a device such as cpu, cuda or cuda:1, got \"%s\"",
                 texts[i]);
        FAILS_SAYING(TENON_EPARSE, message, tenon_device_parse(texts[i], &device, &err));
        assert_true(tenon_device_equal(device, tenon_device_of(77, 88)));
    }
    tenon_device device;
    FAILS_SAYING(TENON_EINVAL, "tenon_device_parse(): argument 'text' is NULL",
                 tenon_device_parse(NULL, &device, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_device_parse(): argument 'out' is NULL", tenon_device_parse("cpu", NULL, &err));
}

/* ---------------------------------------------------------------------------------------------------------- views */

static void test_views_are_written_in_one_line(void **state)
{
    (void)state;
    char buffer[256];
    roomy_view room;
    void *data = (void *)(uintptr_t)0x1000;

    view_on(&room, TENON_CPU, data, TENON_F32, 2, DIMS(2, 3), NULL, TENON_READ_ONLY);
    const char *text = "f32[2, 3] strides [3, 1] on cpu, read-only, at 0x1000";
    assert_int_equal(tenon_view_format(&room.view, buffer, sizeof buffer), strlen(text));
    assert_string_equal(buffer, text);

    view_on(&room, TENON_CPU, data, TENON_F64, 0, NULL, NULL, 0);
    tenon_view_format(&room.view, buffer, sizeof buffer);
    assert_string_equal(buffer, "f64[] strides [] on cpu, at 0x1000");

    tenon_dl_tensor source = source_of(data, tenon_dtype_of(TENON_CODE_UINT, 4, 2), 1, DIMS(2), DIMS(-1));
    source.device = tenon_device_of(TENON_METAL, 1);
    source.byte_offset = 64;
    OK(tenon_view_init(&room.view, &source, TENON_IS_COPIED | TENON_SUBBYTE_PADDED, room.dims, &err));
    tenon_view_format(&room.view, buffer, sizeof buffer);
    assert_string_equal(buffer, "u4x2[2] strides [-1] on metal:1, a copy, padded, at 0x1000 + 64");
}

static void test_short_buffers(void **state)
{
    (void)state;
    char buffer[8];
    roomy_view room;
    view_of(&room, (void *)(uintptr_t)0x1000, TENON_F32, 2, DIMS(2, 3), NULL);
    for (size_t size = 0; size <= sizeof buffer; size++) {
        memset(buffer, '#', sizeof buffer);
        assert_int_equal(tenon_dtype_format(tenon_dtype_of(4, 16, 1), buffer, size), 4);
        assert_memory_equal(buffer, "bf16", size > 5 ? 4 : size ? size - 1 : 0);
        if (size > 0)
            assert_int_equal(buffer[size > 5 ? 4 : size - 1], '\0');
        for (size_t i = size; i < sizeof buffer; i++)
            assert_int_equal(buffer[i], '#');

        memset(buffer, '#', sizeof buffer);
        assert_int_equal(tenon_device_format(tenon_device_of(TENON_CUDA, 12), buffer, size), 7);
        if (size > 0)
            assert_memory_equal(buffer, "cuda:12", size - 1);
        for (size_t i = size; i < sizeof buffer; i++)
            assert_int_equal(buffer[i], '#');

        memset(buffer, '#', sizeof buffer);
        assert_int_equal(tenon_view_format(&room.view, buffer, size),
                         strlen("f32[2, 3] strides [3, 1] on cpu, at 0x1000"));
        if (size > 0) {
            assert_memory_equal(buffer, "f32[2, 3]", size - 1);
            assert_int_equal(buffer[size - 1], '\0');
        }
        for (size_t i = size; i < sizeof buffer; i++)
            assert_int_equal(buffer[i], '#');
    }
    assert_int_equal(tenon_dtype_format(TENON_F32, NULL, 0), 3);
    assert_int_equal(tenon_dtype_format(TENON_F32, NULL, 10), 3);
    assert_int_equal(tenon_device_format(tenon_device_of(TENON_CPU, 0), NULL, 0), 3);
    assert_int_equal(tenon_view_format(&room.view, NULL, 0), strlen("f32[2, 3] strides [3, 1] on cpu, at 0x1000"));
}

static void test_the_longest_view_fits_its_count(void **state)
{
    (void)state;
    static char buffer[4096];
    int64_t shape[TENON_MAX_NDIM];
    roomy_view room;
    for (int i = 0; i < TENON_MAX_NDIM; i++)
        shape[i] = 1;
    view_of(&room, buffer, TENON_F32, TENON_MAX_NDIM, shape, NULL);
    size_t length = tenon_view_format(&room.view, buffer, sizeof buffer);
    assert_int_equal(length, strlen(buffer));
    assert_true(length > 2 * 3 * TENON_MAX_NDIM);
    assert_true(tenon_view_format(NULL, buffer, sizeof buffer) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dtype_has_its_names),
        cmocka_unit_test(test_dtype_constants),
        cmocka_unit_test(test_only_listed_dtypes_are_known),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_unknown_dtypes_are_written_as_numbers),
        cmocka_unit_test(test_bad_dtypes),
        cmocka_unit_test(test_every_device_has_its_name),
        cmocka_unit_test(test_unknown_devices_are_written_as_numbers),
        cmocka_unit_test(test_traits_of_devices),
        cmocka_unit_test(test_bad_devices),
        cmocka_unit_test(test_views_are_written_in_one_line),
        cmocka_unit_test(test_short_buffers),
        cmocka_unit_test(test_the_longest_view_fits_its_count),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
