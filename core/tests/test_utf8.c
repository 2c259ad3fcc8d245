/* UTF-8, as far as hosts need it. */
#include "check.h"

static void test_utf8(void **state)
{
    (void)state;
    const struct {
        const char *text;
        size_t length; /* of its first character; 0: it is not valid */
    } cases[] = {{"a", 1},
                 {"\xc3\xbc", 2},
                 {"\xe2\x82\xac", 3},
                 {"\xf0\x9f\x98\x80", 4},
                 {"\x80", 0},
                 {"\xc0\xaf", 0},
                 {"\xe0\x9f\xbf", 0},
                 {"\xed\xa0\x80", 0},
                 {"\xf0\x8f\xbf\xbf", 0},
                 {"\xf4\x90\x80\x80", 0},
                 {"\xf5\x80\x80\x80", 0},
                 {"\xe2\x82", 0},
                 {"\xc3(", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tenon_utf8_length(cases[i].text, strlen(cases[i].text)), cases[i].length);
        assert_int_equal(tenon_utf8_is_valid(cases[i].text, strlen(cases[i].text)), cases[i].length > 0);
    }
    assert_int_equal(tenon_utf8_cut("a\xe2\x82\xac", 4, 9), 4);
    assert_int_equal(tenon_utf8_cut("a\xe2\x82\xac", 4, 4), 4);
    for (size_t most = 1; most < 4; most++)
        assert_int_equal(tenon_utf8_cut("a\xe2\x82\xac", 4, most), 1);
}

static void test_invalid_bytes_are_replaced(void **state)
{
    (void)state;
    char text[] = "a\xff\xc3\xbc\xe2\x82";
    tenon_utf8_replace_invalid(text);
    assert_string_equal(text, "a?\xc3\xbc??");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_utf8), cmocka_unit_test(test_invalid_bytes_are_replaced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
