/* tenon_copy: what it refuses, and layouts copied next to a plain loop over bits. */
#include "check.h"

enum { ROOM = 1 << 17 };

static unsigned char source[ROOM], target[ROOM], expected[ROOM];

/* Different bytes everywhere, so that a write outside its place shows. */
static void fill(void)
{
    uint32_t random = 1;
    for (int i = 0; i < ROOM; i++) {
        random = random * 1664525u + 1013904223u;
        source[i] = (unsigned char)(random >> 24);
        target[i] = expected[i] = (unsigned char)(random >> 16);
    }
}

static int get_bit(const unsigned char *bytes, int64_t bit)
{
    return bytes[bit / 8] >> (bit % 8) & 1;
}

static void set_bit(unsigned char *bytes, int64_t bit, int value)
{
    bytes[bit / 8] = (unsigned char)((bytes[bit / 8] & ~(1u << (bit % 8))) | (unsigned)value << (bit % 8));
}

/* Bit by bit into `expected`, of views whose first elements are in the middle of their rooms. */
static void copy_slowly(const tenon_view *dst, const tenon_view *src)
{
    int64_t item = tenon_view_item_bits(dst), index[TENON_MAX_NDIM] = {0};
    for (int64_t k = 0; k < dst->numel; k++) {
        int64_t to = 0, from = 0;
        for (int32_t i = 0; i < dst->ndim; i++) {
            to += index[i] * (dst->shape[i] > 1 ? dst->strides[i] : 0);
            from += index[i] * (src->shape[i] > 1 ? src->strides[i] : 0);
        }
        for (int64_t bit = 0; bit < item; bit++)
            set_bit(expected, 4 * ROOM + to * item + bit, get_bit(source, 4 * ROOM + from * item + bit));
        for (int32_t i = dst->ndim - 1; i >= 0 && ++index[i] == dst->shape[i]; i--)
            index[i] = 0;
    }
}

static void copies_with(uint64_t flags, tenon_dtype dtype, int32_t ndim, int64_t *shape, int64_t *to, int64_t *from)
{
    roomy_view dst, src;
    fill();
    view_on(&dst, TENON_CPU, target + ROOM / 2, dtype, ndim, shape, to, flags);
    view_on(&src, TENON_CPU, source + ROOM / 2, dtype, ndim, shape, from, flags | TENON_READ_ONLY);
    copy_slowly(&dst.view, &src.view);
    OK(tenon_copy(&dst.view, &src.view, &err));
    for (int i = 0; i < ROOM; i++)
        if (target[i] != expected[i])
            fail_msg("byte %d is 0x%02x, wanted 0x%02x", i - ROOM / 2, target[i], expected[i]);
}

static void copies(tenon_dtype dtype, int32_t ndim, int64_t *shape, int64_t *to, int64_t *from)
{
    copies_with(0, dtype, ndim, shape, to, from);
}

/* -------------------------------------------------------------------------------------------------------- layouts */

/* Elements of 1, 2, 4, 8 and 16 bytes, and of sizes in between. */
static const tenon_dtype whole_bytes[] = {
    {TENON_CODE_UINT, 8, 1},      {TENON_CODE_BFLOAT, 16, 1}, {TENON_CODE_FLOAT, 32, 1}, {TENON_CODE_FLOAT, 64, 1},
    {TENON_CODE_COMPLEX, 128, 1}, {TENON_CODE_UINT, 8, 3},    {TENON_CODE_FLOAT, 32, 3}, {TENON_CODE_UINT, 4, 2},
};

enum { NSIZES = sizeof whole_bytes / sizeof *whole_bytes };

static void test_plain_layouts(void **state)
{
    (void)state;
    for (int i = 0; i < NSIZES; i++) {
        tenon_dtype t = whole_bytes[i];
        copies(t, 0, NULL, NULL, NULL);
        copies(t, 1, DIMS(1), DIMS(7), DIMS(-9));
        copies(t, 1, DIMS(37), NULL, NULL);
        copies(t, 2, DIMS(5, 37), NULL, NULL);
        copies(t, 2, DIMS(5, 7), DIMS(1, 5), DIMS(1, 5)); /* both in Fortran order */
        copies(t, 2, DIMS(5, 7), DIMS(9, 1), NULL);       /* rows with gaps */
        copies(t, 2, DIMS(5, 7), NULL, DIMS(9, 1));
        copies(t, 1, DIMS(37), NULL, DIMS(2)); /* every second element */
        copies(t, 1, DIMS(37), DIMS(2), NULL);
        copies(t, 1, DIMS(37), DIMS(3), DIMS(2));
        copies(t, 1, DIMS(37), NULL, DIMS(-1)); /* reversed */
        copies(t, 1, DIMS(37), DIMS(-1), NULL);
        copies(t, 1, DIMS(37), DIMS(-1), DIMS(-1));
        copies(t, 1, DIMS(37), DIMS(-2), DIMS(-3));
        copies(t, 1, DIMS(37), NULL, DIMS(0)); /* broadcast */
        copies(t, 2, DIMS(5, 37), NULL, DIMS(0, 1));
        copies(t, 2, DIMS(5, 37), NULL, DIMS(1, 0));
        copies(t, 2, DIMS(5, 37), NULL, DIMS(0, 0));
    }
}

static void test_orders_of_dimensions(void **state)
{
    (void)state;
    for (int i = 0; i < NSIZES; i++) {
        tenon_dtype t = whole_bytes[i];
        copies(t, 2, DIMS(61, 45), NULL, DIMS(1, 61)); /* transposed */
        copies(t, 2, DIMS(61, 45), DIMS(1, 61), NULL);
        copies(t, 2, DIMS(61, 45), DIMS(1, 64), DIMS(48, 1));      /* with gaps */
        copies(t, 2, DIMS(61, 45), DIMS(-45, 1), DIMS(1, -61));    /* and backwards */
        copies(t, 4, DIMS(2, 7, 5, 3), NULL, DIMS(105, 1, 21, 7)); /* NCHW to NHWC and back */
        copies(t, 4, DIMS(2, 3, 7, 5), NULL, DIMS(105, 35, 5, 1));
        copies(t, 3, DIMS(4, 5, 6), DIMS(1, 4, 20), DIMS(5, 1, 20));
        copies(t, 3, DIMS(4, 5, 6), DIMS(30, 6, 1), DIMS(1, 24, 4));
        copies(t, 4, DIMS(3, 1, 4, 1), DIMS(4, 99, 1, -99), DIMS(1, -77, 3, 77)); /* ones say nothing */
    }
}

static void test_64_dimensions(void **state)
{
    (void)state;
    int64_t shape[TENON_MAX_NDIM], to[TENON_MAX_NDIM], from[TENON_MAX_NDIM];
    int64_t stride = 1;
    for (int i = 0; i < TENON_MAX_NDIM; i++) {
        shape[i] = i % 8 == 0 ? 2 : 1;
        to[i] = stride;
        from[TENON_MAX_NDIM - 8 - i / 8 * 8 + i % 8] = stride;
        stride *= shape[i];
    }
    copies(TENON_F32, TENON_MAX_NDIM, shape, to, from);
}

static void test_packed_values(void **state)
{
    (void)state;
    static const tenon_dtype packed[] = {{TENON_CODE_UINT, 1, 1}, {TENON_CODE_INT, 2, 1},
                                         {TENON_CODE_UINT, 4, 1}, {TENON_CODE_F6_E2M3FN, 6, 1},
                                         {TENON_CODE_UINT, 1, 3}, {TENON_CODE_UINT, 4, 3}};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        tenon_dtype t = packed[i];
        copies(t, 0, NULL, NULL, NULL);
        for (int64_t n = 1; n < 20; n++)
            copies(t, 1, DIMS(n), NULL, NULL); /* the last byte is shared */
        copies(t, 1, DIMS(16), NULL, DIMS(3));
        copies(t, 1, DIMS(15), DIMS(3), NULL);
        copies(t, 1, DIMS(15), DIMS(-1), NULL);
        copies(t, 1, DIMS(15), NULL, DIMS(-2));
        copies(t, 1, DIMS(15), NULL, DIMS(0));
        copies(t, 2, DIMS(5, 7), NULL, DIMS(1, 5));
        copies(t, 2, DIMS(5, 7), DIMS(11, 1), DIMS(-9, 1));
        copies(t, 2, DIMS(4, 8), DIMS(16, 1), DIMS(24, 1)); /* whole bytes after all */
        copies_with(TENON_SUBBYTE_PADDED, t, 1, DIMS(15), DIMS(-2), NULL);
        copies_with(TENON_SUBBYTE_PADDED, t, 2, DIMS(5, 7), NULL, DIMS(1, 5));
    }
}

/* -------------------------------------------------------------------------------------------------- nothing to do */

static void test_empty_views(void **state)
{
    (void)state;
    roomy_view dst, src;
    view_of(&dst, NULL, TENON_F32, 2, DIMS(0, 3), NULL);
    view_of(&src, NULL, TENON_F32, 2, DIMS(0, 3), DIMS(INT64_MAX, 0));
    OK(tenon_copy(&dst.view, &src.view, &err));
    OK(tenon_copy(&dst.view, &dst.view, &err));
}

static void test_onto_itself(void **state)
{
    (void)state;
    roomy_view dst, src;
    fill();
    view_of(&dst, target + 64, TENON_F32, 3, DIMS(2, 1, 3), DIMS(-3, 5, 1));
    view_of(&src, target + 64, TENON_F32, 3, DIMS(2, 1, 3), DIMS(-3, 9, 1));
    OK(tenon_copy(&dst.view, &dst.view, &err));
    OK(tenon_copy(&dst.view, &src.view, &err));
    assert_memory_equal(target, expected, ROOM);
}

/* Interleaved in the same bytes of memory, or even of one byte, but apart. */
static void test_neighbours_in_one_memory(void **state)
{
    (void)state;
    roomy_view dst, src;
    int32_t x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    view_of(&dst, x, TENON_I32, 1, DIMS(4), DIMS(2));
    view_of(&src, x + 1, TENON_I32, 1, DIMS(4), DIMS(2));
    OK(tenon_copy(&dst.view, &src.view, &err));
    const int32_t wanted[8] = {1, 1, 3, 3, 5, 5, 7, 7};
    assert_memory_equal(x, wanted, sizeof x);

    const tenon_dtype u1 = tenon_dtype_of(TENON_CODE_UINT, 1, 1);
    unsigned char bits[2] = {0x80 | 0x0a, 0x01}; /* to bits 0, 2 and 4 from 8, 7 and 6 */
    view_of(&dst, bits, u1, 1, DIMS(3), DIMS(2));
    view_of(&src, bits + 1, u1, 1, DIMS(3), DIMS(-1));
    OK(tenon_copy(&dst.view, &src.view, &err));
    assert_int_equal(bits[0], 0x80 | 0x0a | 0x01 | 0x04); /* 1, 1, 0; the bits between stay */
    assert_int_equal(bits[1], 0x01);
}

static void test_memory_that_the_cpu_reaches(void **state)
{
    (void)state;
    static const int host[] = {TENON_CPU, TENON_CUDA_HOST, TENON_ROCM_HOST, TENON_CUDA_MANAGED};
    for (size_t i = 0; i < 4; i++) {
        roomy_view dst, src;
        fill();
        view_on(&dst, host[i], target, TENON_F32, 1, DIMS(9), NULL, 0);
        view_on(&src, host[3 - i], source, TENON_F32, 1, DIMS(9), NULL, TENON_READ_ONLY);
        OK(tenon_copy(&dst.view, &src.view, &err));
        assert_memory_equal(target, source, 36);
        assert_memory_equal(target + 36, expected + 36, ROOM - 36);
    }
}

/* ------------------------------------------------------------------------------------------------------- refusals */

/* The message begins so, and nothing is written. */
static void refuses(const tenon_view *dst, const tenon_view *src, tenon_status status, const char *beginning)
{
    FAILS(status, tenon_copy(dst, src, &err));
    if (strncmp(err.message, beginning, strlen(beginning)) != 0)
        fail_msg("wanted \"%s...\", got \"%s\"", beginning, err.message);
    assert_int_equal(tenon_copy(dst, src, NULL), status);
    assert_memory_equal(target, expected, ROOM);
}

static void test_null_arguments(void **state)
{
    (void)state;
    roomy_view room;
    fill();
    view_of(&room, target, TENON_F32, 1, DIMS(3), NULL);
    FAILS_SAYING(TENON_EINVAL, "tenon_copy(): argument 'dst' is NULL", tenon_copy(NULL, &room.view, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_copy(): argument 'src' is NULL", tenon_copy(&room.view, NULL, &err));
    FAILS(TENON_EINVAL, tenon_copy(NULL, NULL, &err));
}

static void test_different_types(void **state)
{
    (void)state;
    roomy_view dst, src;
    fill();
    view_of(&dst, target, TENON_F32, 2, DIMS(2, 3), NULL);
    view_of(&src, source, TENON_C64, 2, DIMS(2, 3), NULL);
    refuses(&dst.view, &src.view, TENON_EDTYPE, "tenon_copy(): argument 'src': expected f32[2, 3], got c64[2, 3]");
    view_of(&src, source, tenon_dtype_of(TENON_CODE_FLOAT, 32, 2), 2, DIMS(2, 3), NULL);
    refuses(&dst.view, &src.view, TENON_EDTYPE, "tenon_copy(): argument 'src': expected f32[2, 3], got f32x2[2, 3]");
    view_of(&src, source, TENON_F32, 2, DIMS(3, 2), NULL);
    refuses(&dst.view, &src.view, TENON_ESHAPE, "tenon_copy(): argument 'src': expected f32[2, 3], got f32[3, 2]");
    view_of(&src, source, TENON_F32, 1, DIMS(3), NULL);
    refuses(&dst.view, &src.view, TENON_ESHAPE, "tenon_copy(): argument 'src': expected f32[2, 3], got f32[3]");
    view_of(&src, source, TENON_F32, 3, DIMS(1, 2, 3), NULL);
    refuses(&dst.view, &src.view, TENON_ESHAPE, "tenon_copy(): argument 'src': expected f32[2, 3], got f32[1, 2, 3]");
}

static void test_devices_out_of_reach(void **state)
{
    (void)state;
    static const int devices[] = {TENON_CUDA, TENON_ROCM, TENON_METAL, TENON_VULKAN, TENON_ONEAPI};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        roomy_view dst, src;
        fill();
        view_on(&dst, devices[i], target, TENON_F32, 1, DIMS(3), NULL, 0);
        view_of(&src, source, TENON_F32, 1, DIMS(3), NULL);
        refuses(&dst.view, &src.view, TENON_EDEVICE, "tenon_copy(): argument 'dst'");
        view_of(&dst, target, TENON_F32, 1, DIMS(3), NULL);
        view_on(&src, devices[i], source, TENON_F32, 1, DIMS(3), NULL, 0);
        refuses(&dst.view, &src.view, TENON_EDEVICE, "tenon_copy(): argument 'src'");
    }
}

static void test_read_only(void **state)
{
    (void)state;
    roomy_view dst, src;
    fill();
    view_on(&dst, TENON_CPU, target, TENON_F32, 1, DIMS(3), NULL, TENON_READ_ONLY);
    view_of(&src, source, TENON_F32, 1, DIMS(3), NULL);
    refuses(&dst.view, &src.view, TENON_EREADONLY, "tenon_copy(): argument 'dst'");
}

static void test_overlaps(void **state)
{
    (void)state;
    roomy_view dst, src;
    fill();
    view_of(&src, source, TENON_F32, 2, DIMS(3, 4), NULL);
    view_of(&dst, target, TENON_F32, 2, DIMS(3, 4), DIMS(0, 1));
    refuses(&dst.view, &src.view, TENON_EOVERLAP, "tenon_copy(): argument 'dst'");
    view_of(&dst, target, TENON_F32, 2, DIMS(3, 4), DIMS(3, 1));
    refuses(&dst.view, &src.view, TENON_EOVERLAP, "tenon_copy(): argument 'dst'");
    view_of(&dst, target, TENON_F32, 1, DIMS(10), NULL);
    view_of(&src, target + 4, TENON_F32, 1, DIMS(10), NULL);
    refuses(&dst.view, &src.view, TENON_EOVERLAP, "tenon_copy(): argument 'src'");
    view_of(&src, target + 36, TENON_F32, 1, DIMS(10), DIMS(-1)); /* reversed in place */
    refuses(&dst.view, &src.view, TENON_EOVERLAP, "tenon_copy(): argument 'src'");
    view_of(&src, target + 2, TENON_F32, 1, DIMS(10), DIMS(0));
    refuses(&dst.view, &src.view, TENON_EOVERLAP, "tenon_copy(): argument 'src'");
}

/* Transposed copies of every small size, some of which are made in squares of 16 bytes: nothing else is written. */
static void test_transposed(void **state)
{
    (void)state;
    enum { MOST = 40, GUARD = 64 };
    const tenon_dtype dtypes[] = {TENON_U8, TENON_U16, TENON_U32, TENON_U64};
    const int64_t columns[] = {1, 2, 7, 16, 17, MOST};
    static unsigned char from[MOST * MOST * 8], to[GUARD + sizeof from + GUARD];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7 + i / 251);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        const size_t item = (size_t)1 << d;
        for (int64_t rows = 1; rows <= MOST; rows++) {
            for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
                const int64_t n = columns[c];
                roomy_view dst, src;
                memset(to, 0xaa, sizeof to);
                view_of(&src, from, dtypes[d], 2, DIMS(n, rows), DIMS(1, MOST));
                view_of(&dst, to + GUARD, dtypes[d], 2, DIMS(n, rows), NULL);
                OK(tenon_copy(&dst.view, &src.view, &err));
                for (int64_t k = 0; k < n; k++)
                    for (int64_t i = 0; i < rows; i++)
                        assert_memory_equal(to + GUARD + (size_t)(k * rows + i) * item,
                                            from + (size_t)(i * MOST + k) * item, item);
                for (size_t i = 0; i < GUARD; i++)
                    assert_true(to[i] == 0xaa && to[GUARD + (size_t)(n * rows) * item + i] == 0xaa);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_layouts),
        cmocka_unit_test(test_orders_of_dimensions),
        cmocka_unit_test(test_64_dimensions),
        cmocka_unit_test(test_transposed),
        cmocka_unit_test(test_packed_values),
        cmocka_unit_test(test_empty_views),
        cmocka_unit_test(test_onto_itself),
        cmocka_unit_test(test_neighbours_in_one_memory),
        cmocka_unit_test(test_memory_that_the_cpu_reaches),
        cmocka_unit_test(test_null_arguments),
        cmocka_unit_test(test_different_types),
        cmocka_unit_test(test_devices_out_of_reach),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
