/* Statuses; and bad input, which every way in must refuse alike: nothing taken, nothing leaked. */
#include "check.h"

#include <stdlib.h>

/* ---------------------------------------------------------------------------------------------------------- status */

static void test_status_names(void **state)
{
    (void)state;
    static const char *const names[] = {"TENON_OK",       "TENON_EINVAL",    "TENON_ENOMEM",   "TENON_EOVERFLOW",
                                        "TENON_EDTYPE",   "TENON_ESHAPE",    "TENON_ELAYOUT",  "TENON_EBOUNDS",
                                        "TENON_EDEVICE",  "TENON_EREADONLY", "TENON_EVERSION", "TENON_EPARSE",
                                        "TENON_EOVERLAP", "TENON_EFAILED",   "TENON_ESYSTEM"};
    for (int i = 0; i < 15; i++)
        assert_string_equal(tenon_status_name(i), names[i]);
    assert_string_equal(tenon_status_name(TENON_EFAILED), "TENON_EFAILED");
    assert_string_equal(tenon_status_name(-1), "unknown status");
    assert_string_equal(tenon_status_name(15), "unknown status");
    assert_string_equal(tenon_status_name(INT32_MIN), "unknown status");
    assert_string_equal(tenon_status_name(INT32_MAX), "unknown status");
}

static void test_version(void **state)
{
    (void)state;
    assert_string_equal(tenon_version(), TENON_VERSION);
}

static void test_success_leaves_the_error_alone(void **state)
{
    (void)state;
    tenon_dtype dtype;
    check_forget();
    assert_int_equal(tenon_dtype_parse("f32", &dtype, &err), TENON_OK);
    assert_int_equal(err.status, -1);
    assert_string_equal(err.message, "nothing was written");
}

/* ------------------------------------------------------------------------------------------------------ bad input */

static char memory[256];
static int releases;

static void count_release(void *owner)
{
    (void)owner;
    releases++;
}

static void count_deleter(tenon_dl_managed *self)
{
    (void)self;
    releases++;
}

static void count_legacy_deleter(tenon_dl_managed_legacy *self)
{
    (void)self;
    releases++;
}

/* Two good dimensions, from which each case differs by one thing. */
static tenon_dl_tensor good_source(void)
{
    static int64_t shape[] = {2, 3}, strides[] = {3, 1};
    return source_of(memory, TENON_F32, 2, shape, strides);
}

/* Give the source to every way in; each must answer `wanted` and name itself. */
static void refused(tenon_status wanted, tenon_dl_tensor source, uint64_t flags, const char *say)
{
    static tenon_tensor *const untouched = (tenon_tensor *)(void *)memory;
    int64_t dims[2 * TENON_MAX_NDIM];
    const tenon_dl_tensor before = source;
    tenon_view view;
    char message[1100];
    releases = 0;

    FAILS(wanted, tenon_view_init(&view, &source, flags, dims, &err));
    snprintf(message, sizeof message, "tenon_view_init(): %s", say);
    assert_string_equal(err.message, message);
    assert_int_equal(tenon_view_init(&view, &source, flags, dims, NULL), wanted);

    tenon_tensor *out = untouched;
    tenon_blob blob = {
        .data = source.data,
        .byte_offset = source.byte_offset,
        .dtype = source.dtype,
        .device = source.device,
        .ndim = source.ndim,
        .shape = source.shape,
        .strides = source.strides,
        .flags = flags,
        .owner = memory,
        .release = count_release,
    };
    FAILS(wanted, tenon_tensor_from_blob(&blob, &out, &err));
    snprintf(message, sizeof message, "tenon_tensor_from_blob(): %s", say);
    assert_string_equal(err.message, message);
    assert_int_equal(tenon_tensor_from_blob(&blob, &out, NULL), wanted);

    tenon_dl_managed managed = {.version = {1, 3}, .deleter = count_deleter, .flags = flags, .dl_tensor = source};
    FAILS(wanted, tenon_tensor_import(&managed, &out, &err));
    snprintf(message, sizeof message, "tenon_tensor_import(): %s", say);
    assert_string_equal(err.message, message);
    assert_int_equal(tenon_tensor_import(&managed, &out, NULL), wanted);
    assert_memory_equal(&managed.dl_tensor, &before, sizeof before);

    if (flags == 0) {
        tenon_dl_managed_legacy legacy = {.dl_tensor = source, .deleter = count_legacy_deleter};
        FAILS(wanted, tenon_tensor_import_legacy(&legacy, &out, &err));
        snprintf(message, sizeof message, "tenon_tensor_import_legacy(): %s", say);
        assert_string_equal(err.message, message);
        assert_int_equal(tenon_tensor_import_legacy(&legacy, &out, NULL), wanted);
        assert_memory_equal(&legacy.dl_tensor, &before, sizeof before);
    }
    assert_memory_equal(&source, &before, sizeof before);
    assert_int_equal(releases, 0);
    assert_ptr_equal(out, untouched);
    assert_int_equal(tenon_stats_read().tensors, 0);
}

static void test_ndim_out_of_range(void **state)
{
    (void)state;
    tenon_dl_tensor source = good_source();
    source.ndim = -1;
    refused(TENON_ESHAPE, source, 0, "ndim: expected 0 to 64, got -1");
    source.ndim = INT32_MIN;
    refused(TENON_ESHAPE, source, 0, "ndim: expected 0 to 64, got -2147483648");
    source.ndim = 65; /* the shape is not read: it has room for two */
    refused(TENON_ESHAPE, source, 0, "ndim: expected 0 to 64, got 65");
    source.ndim = INT32_MAX;
    refused(TENON_ESHAPE, source, 0, "ndim: expected 0 to 64, got 2147483647");
    assert_int_equal(tenon_shape_numel(65, source.shape, &(int64_t){0}, NULL), TENON_ESHAPE);
}

static void test_null_shape(void **state)
{
    (void)state;
    tenon_dl_tensor source = good_source();
    source.shape = NULL;
    refused(TENON_EINVAL, source, 0, "shape is NULL, but ndim is 2");
}

static void test_negative_dimensions(void **state)
{
    (void)state;
    tenon_dl_tensor source = good_source();
    source.shape = DIMS(2, -1);
    refused(TENON_ESHAPE, source, 0, "shape: dimension 1 is -1, which is negative");
    source.shape = DIMS(INT64_MIN, 0);
    refused(TENON_ESHAPE, source, 0, "shape: dimension 0 is -9223372036854775808, which is negative");
}

static void test_products_that_overflow(void **state)
{
    (void)state;
    tenon_dl_tensor source = good_source();
    const int64_t big = (int64_t)1 << 32;
    source.shape = DIMS(big, big);
    refused(TENON_EOVERFLOW, source, 0, "f32[4294967296, 4294967296] has more bytes than 64 bits can count");
    source.strides = NULL;
    refused(TENON_EOVERFLOW, source, 0, "f32[4294967296, 4294967296] has more bytes than 64 bits can count");
    source.strides = DIMS(0, 0); /* even where each byte is the same one */
    source.shape = DIMS(INT64_MAX / 4, 2);
    refused(TENON_EOVERFLOW, source, 0, "f32[2305843009213693951, 2] has more bytes than 64 bits can count");
}

static void test_products_that_only_zero_keeps_small(void **state)
{
    (void)state;
    const int64_t big = (int64_t)1 << 32;
    tenon_dl_tensor source = source_of(NULL, TENON_U8, 3, DIMS(big, big, 0), NULL);
    refused(TENON_EOVERFLOW, source, 0, "u8[4294967296, 4294967296, 0] has more bytes than 64 bits can count");
    source.shape = DIMS(0, big, big);
    source.strides = DIMS(1, 1, 1);
    refused(TENON_EOVERFLOW, source, 0, "u8[0, 4294967296, 4294967296] has more bytes than 64 bits can count");
}

static void test_strides_that_overflow(void **state)
{
    (void)state;
    tenon_dl_tensor source = good_source();
    source.strides = DIMS(INT64_MAX, 1); /* elements fit, bytes do not */
    refused(TENON_EOVERFLOW, source, 0,
            "strides [9223372036854775807, 1] of shape [2, 3] reach farther than 64 bits can address");
    source.strides = DIMS(INT64_MAX / 4 + 1, 1);
    refused(TENON_EOVERFLOW, source, 0,
            "strides [2305843009213693952, 1] of shape [2, 3] reach farther than 64 bits can address");
    source.strides = DIMS(3, INT64_MIN); /* (3 - 1) * stride */
    refused(TENON_EOVERFLOW, source, 0,
            "strides [3, -9223372036854775808] of shape [2, 3] reach farther than 64 bits can address");
    source.dtype = TENON_U8;
    source.strides = DIMS(INT64_MIN, 1);
    refused(TENON_EOVERFLOW, source, 0,
            "strides [-9223372036854775808, 1] of shape [2, 3] reach farther than 64 bits can address");
    source.strides = DIMS(INT64_MAX, INT64_MAX / 2); /* each fits, the sum does not */
    refused(
        TENON_EOVERFLOW, source, 0,
        "strides [9223372036854775807, 4611686018427387903] of shape [2, 3] reach farther than 64 bits can address");
    source.strides = DIMS(INT64_MAX, 1); /* one byte past the last */
    source.shape = DIMS(2, 1);
    refused(TENON_EOVERFLOW, source, 0,
            "strides [9223372036854775807, 1] of shape [2, 1] reach farther than 64 bits can address");
    source.dtype = tenon_dtype_of(TENON_CODE_UINT, 4, 1); /* whose place is counted in bits */
    source.strides = DIMS(INT64_MAX / 2, 1);
    refused(TENON_EOVERFLOW, source, 0,
            "strides [4611686018427387903, 1] of shape [2, 1] reach farther than 64 bits can address");
}

static void test_memory_below_zero_and_past_the_last(void **state)
{
    (void)state;
    tenon_dl_tensor source = source_of((void *)(uintptr_t)8, TENON_F32, 1, DIMS(4), DIMS(-1));
    refused(TENON_EBOUNDS, source, 0, "bytes -12 to 4 from 0x8 + 0 are outside the address space");
    source.byte_offset = UINT64_MAX - 7;
    refused(TENON_EBOUNDS, source, 0, "bytes -12 to 4 from 0x8 + 18446744073709551608 are outside the address space");
    source.byte_offset = UINT64_MAX - 9;
    source.strides = DIMS(1);
    refused(TENON_EBOUNDS, source, 0, "bytes 0 to 16 from 0x8 + 18446744073709551606 are outside the address space");
    source.device = tenon_device_of(TENON_METAL, 0);
    source.byte_offset = (uint64_t)INT64_MAX - 8;
    refused(TENON_EBOUNDS, source, 0, "bytes 0 to 16 from 0x8 + 9223372036854775799 are outside the address space");
    source.byte_offset = 8;
    source.strides = DIMS(-1);
    refused(TENON_EBOUNDS, source, 0, "bytes -12 to 4 from 0x8 + 8 are outside the address space");
}

static void test_null_data_with_elements(void **state)
{
    (void)state;
    tenon_dl_tensor source = good_source();
    source.data = NULL;
    refused(TENON_EINVAL, source, 0, "data is NULL, but f32[2, 3] has elements");
    source.byte_offset = 4096;
    refused(TENON_EINVAL, source, 0, "data is NULL, but f32[2, 3] has elements");
    source.ndim = 0;
    refused(TENON_EINVAL, source, 0, "data is NULL, but f32[] has elements");
}

static void test_unknown_dtypes(void **state)
{
    (void)state;
    tenon_dl_tensor source = good_source();
    source.dtype = tenon_dtype_of(18, 8, 1);
    refused(TENON_EDTYPE, source, 0, "dtype: expected a dtype of DLPack 1.3, got code 18 with 8 bits and 1 lanes");
    source.dtype = tenon_dtype_of(TENON_CODE_FLOAT, 0, 1);
    refused(TENON_EDTYPE, source, 0, "dtype: expected a dtype of DLPack 1.3, got code 2 with 0 bits and 1 lanes");
    source.dtype = tenon_dtype_of(TENON_CODE_FLOAT, 32, 0);
    refused(TENON_EDTYPE, source, 0, "dtype: expected a dtype of DLPack 1.3, got code 2 with 32 bits and 0 lanes");
    source.dtype = tenon_dtype_of(TENON_CODE_BOOL, 1, 1);
    refused(TENON_EDTYPE, source, 0, "dtype: expected a dtype of DLPack 1.3, got code 6 with 1 bits and 1 lanes");
}

static void test_unknown_devices(void **state)
{
    (void)state;
    tenon_dl_tensor source = good_source();
    source.device = tenon_device_of(19, 0);
    refused(TENON_EDEVICE, source, 0, "device: expected a device of DLPack 1.3, got type 19 with id 0");
    source.device = tenon_device_of(TENON_CPU, -1);
    refused(TENON_EDEVICE, source, 0, "device: expected a device of DLPack 1.3, got type 1 with id -1");
}

static void test_unknown_flags(void **state)
{
    (void)state;
    tenon_view view;
    int64_t dims[4];
    tenon_dl_tensor source = good_source();
    for (int bit = 3; bit < 64; bit++)
        FAILS(TENON_EINVAL, tenon_view_init(&view, &source, (uint64_t)1 << bit, dims, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_view_init(): flags: expected DLPack's bits 0 to 2, got 0x108",
                 tenon_view_init(&view, &source, 0x108, dims, &err));
    tenon_tensor *out = NULL;
    tenon_blob blob = {.data = memory, .dtype = TENON_F32, .flags = TENON_VIEW_C};
    FAILS(TENON_EINVAL, tenon_tensor_from_blob(&blob, &out, &err));
    assert_null(out);
}

static void test_reaching_outside_data_size(void **state)
{
    (void)state;
    tenon_tensor *out = NULL;
    releases = 0;
    tenon_blob blob = {
        .data = memory, .data_size = 24, .dtype = TENON_F32, .ndim = 2, .shape = DIMS(2, 3), .release = count_release};
    OK(tenon_tensor_from_blob(&blob, &out, &err));
    tenon_tensor_release(out);
    assert_int_equal(releases, 1);
    out = NULL;
    blob.data_size = 23;
    FAILS_SAYING(
        TENON_EBOUNDS,
        "tenon_tensor_from_blob(): f32[2, 3] touches bytes 0 to 24 from its first element, which is at byte 0 of "
        "data_size 23",
        tenon_tensor_from_blob(&blob, &out, &err));
    blob.data_size = 27;
    blob.byte_offset = 4;
    FAILS(TENON_EBOUNDS, tenon_tensor_from_blob(&blob, &out, &err));
    blob.byte_offset = 8;
    blob.data_size = 256;
    blob.strides = DIMS(-3, 1); /* twelve bytes below, of which eight are there */
    FAILS(TENON_EBOUNDS, tenon_tensor_from_blob(&blob, &out, &err));
    blob.byte_offset = 12;
    blob.data_size = UINT64_MAX; /* no block of memory is as large */
    FAILS(TENON_EBOUNDS, tenon_tensor_from_blob(&blob, &out, &err));
    blob.shape = DIMS(0, 3);
    FAILS(TENON_EBOUNDS, tenon_tensor_from_blob(&blob, &out, &err));
    assert_null(out);
    assert_int_equal(releases, 1);
}

static void test_bad_allocations(void **state)
{
    (void)state;
    tenon_tensor *out = NULL;
    FAILS_SAYING(TENON_ESHAPE, "tenon_tensor_alloc(): ndim: expected 0 to 64, got 65",
                 tenon_tensor_alloc(TENON_F32, 65, DIMS(1), 0, &out, &err));
    FAILS(TENON_ESHAPE, tenon_tensor_alloc(TENON_F32, -1, DIMS(1), 0, &out, &err));
    FAILS(TENON_ESHAPE, tenon_tensor_alloc(TENON_F32, 1, DIMS(-1), 0, &out, &err));
    FAILS(TENON_EDTYPE, tenon_tensor_alloc(tenon_dtype_of(99, 8, 1), 1, DIMS(1), 0, &out, &err));
    FAILS(TENON_EDTYPE, tenon_tensor_alloc(tenon_dtype_of(2, 32, 0), 1, DIMS(1), 0, &out, &err));
    FAILS(TENON_EOVERFLOW, tenon_tensor_alloc(TENON_F32, 1, DIMS(INT64_MAX / 2), 0, &out, &err));
    FAILS(TENON_EOVERFLOW, tenon_tensor_alloc(TENON_U8, 3, DIMS(INT64_MAX, 2, 0), 0, &out, &err));
    FAILS(TENON_EINVAL, tenon_tensor_alloc(TENON_F32, 1, DIMS(1), 2, &out, &err));
    assert_null(out);
}

/* Only what DLPack promises of every version is in this block: a read past it is caught by the sanitizer. */
static void test_another_major_is_not_read(void **state)
{
    (void)state;
    static const uint32_t majors[] = {0, 2, UINT32_MAX};
    volatile size_t promised = offsetof(tenon_dl_managed, flags); /* a compiler that sees the size warns of the cast */
    for (size_t i = 0; i < sizeof majors / sizeof *majors; i++) {
        tenon_tensor *out = NULL;
        tenon_dl_managed *managed = malloc(promised);
        assert_non_null(managed);
        releases = 0;
        managed->version.major = majors[i];
        managed->version.minor = 0;
        managed->manager_ctx = NULL;
        managed->deleter = count_deleter;
        FAILS(TENON_EVERSION, tenon_tensor_import(managed, &out, &err));
        assert_null(out);
        assert_int_equal(releases, 0);
        free(managed);
    }
}

/* ------------------------------------------------------------------------------------------------- NULL arguments */

static void test_null_arguments_of_shapes_and_views(void **state)
{
    (void)state;
    tenon_view view;
    tenon_dl_tensor source = good_source();
    int64_t dims[4];
    FAILS_SAYING(TENON_EINVAL, "tenon_view_init(): argument 'view' is NULL",
                 tenon_view_init(NULL, &source, 0, dims, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_view_init(): argument 'source' is NULL",
                 tenon_view_init(&view, NULL, 0, dims, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_view_init(): argument 'dims' is NULL, but ndim is 2",
                 tenon_view_init(&view, &source, 0, NULL, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_shape_numel(): argument 'out' is NULL",
                 tenon_shape_numel(1, DIMS(1), NULL, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_shape_strides(): argument 'out' is NULL",
                 tenon_shape_strides(1, DIMS(1), 'C', NULL, &err));
}

static void test_null_arguments_of_tensors(void **state)
{
    (void)state;
    tenon_tensor *t, *o = NULL;
    tenon_dl_managed *managed = NULL;
    tenon_dl_managed_legacy *legacy = NULL;
    tenon_blob blob = {.data = memory, .dtype = TENON_F32};
    tenon_dl_managed good = {.version = {1, 0}, .dl_tensor = good_source()};
    tenon_dl_managed_legacy good_legacy = {.dl_tensor = good_source()};
    OK(tenon_tensor_alloc(TENON_F32, 2, DIMS(1, 2), 0, &t, &err));

    FAILS(TENON_EINVAL, tenon_tensor_from_blob(NULL, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_from_blob(&blob, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_alloc(TENON_F32, 1, DIMS(1), 0, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_alloc(TENON_F32, 1, NULL, 0, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_import(NULL, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_import(&good, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_import_legacy(NULL, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_import_legacy(&good_legacy, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_export(NULL, &managed, &err));
    FAILS(TENON_EINVAL, tenon_tensor_export(t, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_export_legacy(NULL, &legacy, &err));
    FAILS(TENON_EINVAL, tenon_tensor_export_legacy(t, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_copy(NULL, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_copy(t, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_contiguous(NULL, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_contiguous(t, NULL, &err));

    FAILS_SAYING(TENON_EINVAL, "tenon_tensor_slice(): argument 'tensor' is NULL",
                 tenon_tensor_slice(NULL, 0, 0, 1, 1, &o, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_tensor_slice(): argument 'out' is NULL",
                 tenon_tensor_slice(t, 0, 0, 1, 1, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_select(NULL, 0, 0, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_select(t, 0, 0, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_permute(NULL, AXES(1, 0), &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_permute(t, AXES(1, 0), NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_permute(t, NULL, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_transpose(NULL, 0, 1, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_transpose(t, 0, 1, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_reshape(NULL, 1, DIMS(2), &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_reshape(t, 1, DIMS(2), NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_reshape(t, 1, NULL, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_flatten(NULL, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_flatten(t, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_squeeze(NULL, 0, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_squeeze(t, 0, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_expand_dims(NULL, 0, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_expand_dims(t, 0, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_broadcast_to(NULL, 2, DIMS(3, 2), &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_broadcast_to(t, 2, DIMS(3, 2), NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_broadcast_to(t, 2, NULL, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_as_strided(NULL, 1, DIMS(1), DIMS(1), 0, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_as_strided(t, 1, DIMS(1), DIMS(1), 0, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_as_strided(t, 1, NULL, DIMS(1), 0, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_as_strided(t, 1, DIMS(1), NULL, 0, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_view_as(NULL, TENON_I32, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_view_as(t, TENON_I32, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_real(NULL, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_real(t, NULL, &err));
    FAILS(TENON_EINVAL, tenon_tensor_imag(NULL, &o, &err));
    FAILS(TENON_EINVAL, tenon_tensor_imag(t, NULL, &err));

    assert_null(o);
    assert_null(managed);
    assert_null(legacy);
    assert_int_equal(tenon_tensor_refcount(t), 1);
    tenon_tensor_release(t);
}

static void test_null_is_no_tensor_and_no_view(void **state)
{
    (void)state;
    assert_null(tenon_tensor_retain(NULL));
    tenon_tensor_release(NULL);
    assert_null(tenon_tensor_view(NULL));
    assert_int_equal(tenon_tensor_refcount(NULL), 0);
    assert_int_equal(tenon_view_nbytes(NULL), 0);
    assert_int_equal(tenon_view_extent(NULL).low, 0);
    assert_int_equal(tenon_view_extent(NULL).high, 0);
    roomy_view room;
    view_of(&room, memory, TENON_F32, 0, NULL, NULL);
    assert_false(tenon_view_overlaps(NULL, &room.view));
    assert_false(tenon_view_overlaps(&room.view, NULL));
    assert_false(tenon_view_overlaps(NULL, NULL));
    assert_false(tenon_view_self_overlaps(NULL));
    assert_false(tenon_view_equal(NULL, &room.view));
    assert_false(tenon_view_equal(&room.view, NULL));
    assert_false(tenon_view_equal(NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_success_leaves_the_error_alone),
        cmocka_unit_test(test_ndim_out_of_range),
        cmocka_unit_test(test_null_shape),
        cmocka_unit_test(test_negative_dimensions),
        cmocka_unit_test(test_products_that_overflow),
        cmocka_unit_test(test_products_that_only_zero_keeps_small),
        cmocka_unit_test(test_strides_that_overflow),
        cmocka_unit_test(test_memory_below_zero_and_past_the_last),
        cmocka_unit_test(test_null_data_with_elements),
        cmocka_unit_test(test_unknown_dtypes),
        cmocka_unit_test(test_unknown_devices),
        cmocka_unit_test(test_unknown_flags),
        cmocka_unit_test(test_reaching_outside_data_size),
        cmocka_unit_test(test_bad_allocations),
        cmocka_unit_test(test_another_major_is_not_read),
        cmocka_unit_test(test_null_arguments_of_shapes_and_views),
        cmocka_unit_test(test_null_arguments_of_tensors),
        cmocka_unit_test(test_null_is_no_tensor_and_no_view),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
