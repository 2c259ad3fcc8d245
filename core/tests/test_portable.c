/* What compilers other than gcc and clang get instead of their built-in functions gives the same results. */
#include "check.h"

#include <stdarg.h>
#include <stdatomic.h>

#undef __GNUC__
#include "../src/tensor/internal.h"

#ifdef tenon__lowest_bit
#error "this tests the functions in C"
#endif

static const int64_t numbers[] = {
    INT64_MIN, INT64_MIN + 1, INT64_MIN / 2, INT64_MIN / 3, -3037000500,   -10,           -2,        -1, 0, 1, 2, 3,
    10,        3037000499,    3037000500,    INT64_MAX / 3, INT64_MAX / 2, INT64_MAX - 1, INT64_MAX,
};
enum { COUNT = sizeof numbers / sizeof *numbers };

static void test_overflow(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < COUNT; j++) {
            int64_t a = numbers[i], b = numbers[j], ours, theirs;
            assert_int_equal(tenon__add_overflows(a, b, &ours), __builtin_add_overflow(a, b, &theirs));
            assert_true(ours == theirs);
            assert_int_equal(tenon__sub_overflows(a, b, &ours), __builtin_sub_overflow(a, b, &theirs));
            assert_true(ours == theirs);
            assert_int_equal(tenon__mul_overflows(a, b, &ours), __builtin_mul_overflow(a, b, &theirs));
            assert_true(ours == theirs);
            uint64_t c = (uint64_t)a, d = (uint64_t)b, our_sum, their_sum;
            assert_int_equal(tenon__add_overflows(c, d, &our_sum), __builtin_add_overflow(c, d, &their_sum));
            assert_true(our_sum == their_sum);
            size_t size;
            assert_int_equal(tenon__add_overflows((size_t)c, (size_t)d, &size), c + d < c);
        }
    }
}

static void test_lowest_bit(void **state)
{
    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        assert_int_equal(tenon__lowest_bit((uint64_t)1 << bit), bit);
        assert_int_equal(tenon__lowest_bit(UINT64_MAX << bit), bit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_overflow), cmocka_unit_test(test_lowest_bit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
