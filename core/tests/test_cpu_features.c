/* Which variants a CPU has, for given features of x86-64 and arm64, on any machine. */
#include "check.h"

#include "../src/system/cpu_features.h"

/* The registers of a Haswell, of a Skylake server, and of the first CPUs of 64 bits. */
static const tenon__x86_features haswell = {0x7ffafbff, 0x000027ab, 0x21, 0x7};
static const tenon__x86_features skylake = {0x7ffefbff, 0xd39ffffb, 0x121, 0xe7};
static const tenon__x86_features opteron = {0x00000000, 0x00000000, 0x00, 0x0};

static void has_level(tenon__x86_features x, int level)
{
    assert_int_equal(tenon__x86_level(&x), level);
    assert_int_equal(tenon__x86_has("x86-64-v2", &x), level >= 2);
    assert_int_equal(tenon__x86_has("x86-64-v3", &x), level >= 3);
    assert_int_equal(tenon__x86_has("x86-64-v4", &x), level >= 4);
    assert_false(tenon__x86_has("x86-64-v5", &x) || tenon__x86_has("sve", &x) || tenon__x86_has("", &x));
}

static void test_x86(void **state)
{
    (void)state;
    has_level(haswell, 3);
    has_level(skylake, 4);
    has_level(opteron, 1);
}

/* Without any one of its features, or if the operating system does not save its registers, a CPU has a lower level. */
static void test_x86_without_one_feature(void **state)
{
    (void)state;
    tenon__x86_features x = skylake;
    x.saved = 0x7; /* no registers of AVX-512 */
    has_level(x, 3);
    x.saved = 0x3; /* no registers of AVX */
    has_level(x, 2);
    static const int two[] = {0, 9, 13, 19, 20, 23}, three[] = {12, 22, 27, 28, 29}, three_b[] = {3, 5, 8},
                     four[] = {16, 17, 28, 30, 31};
    for (size_t i = 0; i < sizeof two / sizeof *two; i++) {
        x = skylake;
        x.basic_c &= ~(1u << two[i]);
        has_level(x, 1);
    }
    for (size_t i = 0; i < sizeof three / sizeof *three; i++) {
        x = skylake;
        x.basic_c &= ~(1u << three[i]);
        has_level(x, 2);
    }
    for (size_t i = 0; i < sizeof three_b / sizeof *three_b; i++) {
        x = skylake;
        x.extended_b &= ~(1u << three_b[i]);
        has_level(x, 2);
    }
    for (size_t i = 0; i < sizeof four / sizeof *four; i++) {
        x = skylake;
        x.extended_b &= ~(1u << four[i]);
        has_level(x, 3);
    }
    x = skylake;
    x.amd_c = 0x120;
    has_level(x, 1);
    x.amd_c = 0x101;
    has_level(x, 2);
}

static void test_arm(void **state)
{
    (void)state;
    const uint64_t cortex_a72 = 0x8ff, neoverse_n1 = 0x119fff, graviton_3 = 0xd7fffff;
    assert_false(tenon__arm_has("armv8.2-a", cortex_a72) || tenon__arm_has("sve", cortex_a72));
    assert_true(tenon__arm_has("armv8.2-a", neoverse_n1));
    assert_false(tenon__arm_has("sve", neoverse_n1));
    assert_true(tenon__arm_has("armv8.2-a", graviton_3) && tenon__arm_has("sve", graviton_3));
    static const int base[] = {7, 8, 12, 16};
    for (size_t i = 0; i < sizeof base / sizeof *base; i++) {
        assert_false(tenon__arm_has("armv8.2-a", graviton_3 & ~(1ull << base[i])));
        assert_false(tenon__arm_has("sve", graviton_3 & ~(1ull << base[i])));
    }
    assert_false(tenon__arm_has("sve", graviton_3 & ~(1ull << 22)));
    assert_false(tenon__arm_has("x86-64-v2", UINT64_MAX) || tenon__arm_has("armv9-a", UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_x86),
        cmocka_unit_test(test_x86_without_one_feature),
        cmocka_unit_test(test_arm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
