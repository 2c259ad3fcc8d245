/* tenon_copy between dtypes. core/tests/python/test_convert.py has every value of the small floats; here are the rules, one by
 * one, on machines without Python too. */
#include "check.h"

#include "../src/tensor/internal.h"

#include <math.h>
#include <stdlib.h>

/* Convert one number of any dtype, both in the lowest bytes. */
static uint64_t convert_one(tenon_dtype to, tenon_dtype from, uint64_t bits)
{
    uint64_t out = 0;
    roomy_view dst, src;
    view_on(&dst, TENON_CPU, &out, to, 0, NULL, NULL, TENON_SUBBYTE_PADDED * (to.bits < 8));
    view_on(&src, TENON_CPU, &bits, from, 0, NULL, NULL, TENON_READ_ONLY | TENON_SUBBYTE_PADDED * (from.bits < 8));
    OK(tenon_copy(&dst.view, &src.view, &err));
    return out;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t from_f64(tenon_dtype to, double x)
{
    return convert_one(to, TENON_F64, bits_of(x));
}

static const tenon_dtype e4m3fn = {TENON_CODE_F8_E4M3FN, 8, 1}, e5m2fnuz = {TENON_CODE_F8_E5M2FNUZ, 8, 1},
                         e8m0 = {TENON_CODE_F8_E8M0FNU, 8, 1}, f4 = {TENON_CODE_F4_E2M1FN, 4, 1},
                         i4 = {TENON_CODE_INT, 4, 1};

static void test_rounds_once(void **state)
{
    (void)state;
    /* Rounded to f32 first, these would be halfway, and go to the even number. */
    assert_int_equal(from_f64(TENON_BF16, 1 + 0x1p-8 + 0x1p-40), 0x3f81);
    assert_int_equal(from_f64(TENON_BF16, 1 + 0x1p-8), 0x3f80);
    assert_int_equal(from_f64(TENON_F16, 1 + 0x1p-11 + 0x1p-40), 0x3c01);
    assert_int_equal(from_f64(TENON_BF16, 0x1p-134 * (1 + 0x1p-50)), 0x0001); /* subnormal */
    assert_int_equal(from_f64(TENON_BF16, 0x1p-134), 0x0000);
    const int64_t odd = (INT64_C(1) << 56) + (INT64_C(1) << 48) + 1;
    assert_int_equal(convert_one(TENON_BF16, TENON_I64, (uint64_t)odd), 0x5b81);
    assert_int_equal(convert_one(TENON_BF16, TENON_I64, (uint64_t)-odd), 0xdb81);
    if (!getenv("TENON_VALGRIND")) /* its cvtsi2ss rounds twice, to f64 and then to f32 */
        assert_int_equal(convert_one(TENON_F32, TENON_I64, (UINT64_C(1) << 53) + (1 << 29) + 1), 0x5a000001);
    assert_int_equal(convert_one(TENON_F32, TENON_U64, UINT64_MAX), 0x5f800000);
    assert_int_equal(convert_one(TENON_F32, TENON_I64, (UINT64_C(1) << 53) + 1), 0x5a000000);
}

static void test_ends_of_floats(void **state)
{
    (void)state;
    assert_int_equal(from_f64(TENON_F16, 65519.999), 0x7bff);
    assert_int_equal(from_f64(TENON_F16, -65520), 0xfc00);
    assert_int_equal(convert_one(TENON_F16, TENON_F32, 0x477ff000), 0x7c00);
    assert_int_equal(convert_one(TENON_F16, TENON_F32, 0x477fefff), 0x7bff);
    assert_int_equal(convert_one(TENON_F32, TENON_F16, 0x8001), 0xb3800000); /* subnormal */
    assert_int_equal(convert_one(TENON_F32, TENON_F16, 0x03ff), 0x387fc000);
    assert_int_equal(convert_one(TENON_BF16, TENON_F32, 0x7f7fffff), 0x7f80);
    assert_int_equal(convert_one(TENON_BF16, TENON_F32, 0x7f800001) & 0x7fff, 0x7fc0); /* still NaN */
    assert_int_equal(from_f64(e4m3fn, 464), 0x7e);
    assert_int_equal(from_f64(e4m3fn, 464.001), 0x7f);
    assert_int_equal(from_f64(e4m3fn, -INFINITY), 0xff);
    assert_int_equal(from_f64(e5m2fnuz, 1e9), 0x80);
    assert_int_equal(from_f64(e5m2fnuz, -0.0), 0);
    assert_int_equal(from_f64(f4, -1e9), 0xf);
    assert_int_equal(from_f64(f4, NAN) & 7, 0);
    assert_int_equal(from_f64(e8m0, 0), 0xff);
    assert_int_equal(from_f64(e8m0, 3), 0x81);
}

static void test_to_integers(void **state)
{
    (void)state;
    assert_int_equal(from_f64(TENON_I8, 127.9), 127);
    assert_int_equal(from_f64(TENON_I8, -1000), 0x80);
    assert_int_equal(from_f64(TENON_U8, -0.9), 0);
    assert_int_equal(from_f64(TENON_U8, 254.9), 254);
    assert_int_equal(from_f64(TENON_U8, 300), 255);
    assert_int_equal(from_f64(TENON_U16, 70000), 65535);
    assert_int_equal(from_f64(TENON_U32, 4e9), 4000000000);
    assert_int_equal(from_f64(TENON_U64, 1e30), UINT64_MAX);
    assert_int_equal(from_f64(TENON_I64, 0x1p63), INT64_MAX);
    assert_int_equal(from_f64(TENON_I64, NAN), 0);
    assert_int_equal(from_f64(TENON_U32, NAN), 0);
    assert_int_equal(from_f64(i4, 9), 7);
    assert_int_equal(convert_one(TENON_I8, TENON_I32, 0x1ff), 0xff);
    assert_int_equal(convert_one(TENON_I64, TENON_I8, 0xff), UINT64_MAX);
    assert_int_equal(convert_one(TENON_I64, TENON_U8, 0xff), 0xff);
    assert_int_equal(convert_one(TENON_I32, i4, 0xf8), 0xfffffff8); /* the upper bits of the byte are not read */
    assert_int_equal(from_f64(TENON_BOOL, 0.5), 1);
    assert_int_equal(from_f64(TENON_BOOL, NAN), 1);
    assert_int_equal(convert_one(TENON_I32, TENON_BOOL, 7), 1);
}

static void test_to_bools(void **state)
{
    (void)state;
    const tenon_dtype from[] = {TENON_I8, TENON_U8, TENON_I16, TENON_U16, TENON_I32, TENON_U32, TENON_I64, TENON_U64};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        assert_int_equal(convert_one(TENON_BOOL, from[i], 0), 0);
        assert_int_equal(convert_one(TENON_BOOL, from[i], 1), 1);
        assert_int_equal(convert_one(TENON_BOOL, from[i], UINT64_C(1) << (from[i].bits - 1)), 1);
    }
    assert_int_equal(convert_one(TENON_BOOL, TENON_F32, 0x80000000), 0); /* -0.0 */
    assert_int_equal(convert_one(TENON_BOOL, TENON_F32, 1), 1);
    assert_int_equal(convert_one(TENON_BOOL, TENON_F16, 0x8000), 0);
    assert_int_equal(convert_one(TENON_BOOL, TENON_F16, 1), 1);
}

/* Long lines, whose chunks are converted in place, with gaps in front of and after them. */
static void test_lines(void **state)
{
    (void)state;
    enum { N = 300 };
    double source[2 * N];
    float target[2 * N + 2];
    roomy_view dst, src;
    for (int i = 0; i < 2 * N; i++)
        source[i] = i;
    for (int reversed = 0; reversed < 2; reversed++) {
        for (int i = 0; i < 2 * N + 2; i++)
            target[i] = -1;
        view_of(&src, reversed ? source + N - 1 : source, TENON_F64, 1, DIMS(N), DIMS(reversed ? -1 : 1));
        view_of(&dst, target + 1, TENON_F32, 1, DIMS(N), NULL);
        OK(tenon_copy(&dst.view, &src.view, &err));
        for (int i = 0; i < 2 * N + 2; i++)
            assert_true(target[i] == (i < 1 || i > N ? -1.0f : (float)(reversed ? N - i : i - 1)));
    }
    view_of(&src, source, TENON_F64, 2, DIMS(N, 2), DIMS(1, N)); /* two rows, transposed */
    view_of(&dst, target + 1, TENON_F32, 2, DIMS(N, 2), NULL);
    OK(tenon_copy(&dst.view, &src.view, &err));
    for (int i = 0; i < N; i++)
        assert_true(target[1 + 2 * i] == (float)i && target[2 + 2 * i] == (float)(N + i));
}

static void test_complex(void **state)
{
    (void)state;
    float source[3] = {1, 2, 3}, pairs[6];
    double wide[6];
    roomy_view dst, src;
    view_of(&src, source, TENON_F32, 1, DIMS(3), NULL);
    view_of(&dst, pairs, TENON_C64, 1, DIMS(3), NULL);
    OK(tenon_copy(&dst.view, &src.view, &err));
    pairs[1] = -5;
    view_of(&src, pairs, TENON_C64, 1, DIMS(3), NULL);
    view_of(&dst, wide, TENON_C128, 1, DIMS(3), NULL);
    OK(tenon_copy(&dst.view, &src.view, &err));
    const double wanted[6] = {1, -5, 2, 0, 3, 0};
    assert_memory_equal(wide, wanted, sizeof wide);
    view_of(&dst, wide, TENON_F64, 1, DIMS(3), NULL);
    FAILS_SAYING(
        TENON_EDTYPE,
        "tenon_copy(): argument 'src': expected f64[3], got c64[3]; the imaginary parts would be lost; copy the "
        "real parts (tenon_tensor_real)",
        tenon_copy(&dst.view, &src.view, &err));
    assert_memory_equal(wide, wanted, sizeof wide);
}

/* The kernels for newer CPUs give the same bits: of every dtype to every other one, from bits that have every exponent. */
static void test_levels(void **state)
{
    (void)state;
    static const tenon_dtype known[] = {
        {TENON_CODE_INT, 4, 1},    {TENON_CODE_UINT, 2, 1},   {TENON_CODE_INT, 8, 1},    {TENON_CODE_INT, 16, 1},
        {TENON_CODE_INT, 32, 1},   {TENON_CODE_INT, 64, 1},   {TENON_CODE_UINT, 8, 1},   {TENON_CODE_UINT, 16, 1},
        {TENON_CODE_UINT, 32, 1},  {TENON_CODE_UINT, 64, 1},  {TENON_CODE_BOOL, 8, 1},   {TENON_CODE_FLOAT, 16, 1},
        {TENON_CODE_FLOAT, 32, 1}, {TENON_CODE_FLOAT, 64, 1}, {TENON_CODE_BFLOAT, 16, 1}};
    enum { KNOWN = sizeof known / sizeof *known, CHUNKS = 8 };
    static _Alignas(64) char from[8 * CHUNKS * TENON__CHUNK], to[2][2][8 * CHUNKS * TENON__CHUNK];
    uint64_t random = 1;
    for (size_t i = 0; i < sizeof from; i += 8) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint64_t bits =
            i / 8 % 3 ? random ^ random >> 29 : random % 4096 << 52 | random >> 60; /* or near a power of two */
        memcpy(from + i, &bits, sizeof bits);
    }
    for (size_t pair = 0; tenon__convert_level() > 0 && pair < (KNOWN + 11) * (KNOWN + 11); pair++) {
        tenon__number numbers[2];
        for (int side = 0; side < 2; side++) {
            const size_t i = side ? pair / (KNOWN + 11) : pair % (KNOWN + 11);
            const uint8_t code = (uint8_t)(TENON_CODE_F8_E3M4 + i - KNOWN); /* the floats of 8 bits and less */
            const uint8_t bits = code == TENON_CODE_F4_E2M1FN ? 4 : code >= TENON_CODE_F6_E2M3FN ? 6 : 8;
            assert_true(tenon__number_init(&numbers[side], i < KNOWN ? known[i] : tenon_dtype_of(code, bits, 1)));
        }
        char *out[2] = {from, from};
        for (int level = 0; level < 2; level++) {
            tenon__step steps[TENON__MAX_STEPS];
            const int count = tenon__convert_plan(&numbers[1], &numbers[0], level, steps);
            for (int i = 0; i < count; i++) {
                steps[i].kernel(to[level][i % 2], out[level], CHUNKS, steps[i].number);
                out[level] = to[level][i % 2];
            }
        }
        assert_memory_equal(out[0], out[1], (size_t)numbers[1].bytes * CHUNKS * TENON__CHUNK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds_once), cmocka_unit_test(test_ends_of_floats),
        cmocka_unit_test(test_to_integers), cmocka_unit_test(test_to_bools),
        cmocka_unit_test(test_lines),       cmocka_unit_test(test_complex),
        cmocka_unit_test(test_levels),      cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
