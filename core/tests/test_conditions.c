/* Conditions of a where clause: the grammar, what is checked, and the messages. */
#include "signature_call.h"

#include <math.h>

static char memory[4096] __attribute__((aligned(4096)));
static roomy_view rooms[4];

static tenon_value tensor(int i, tenon_dtype dtype, int64_t n)
{
    return tensor_value(view_of(&rooms[i], memory + 1024 * i, dtype, 1, &n, NULL));
}

#define F32(i, n) tensor(i, TENON_F32, n)
#define FLOAT(x)  ((tenon_value){.kind = TENON_KIND_FLOAT, .as.number = (x)})

/* ---------------------------------------------------------------------------------------------------------- grammar */

static void test_grammar(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(x: T[n], k: int, e: float) -> T[n] where k<=n , T = f32|f64, n *2 > k - 1,0 < e");
    assert_int_equal(s->nconditions, 3);
    assert_string_equal(s->conditions[0], "k<=n");
    assert_string_equal(s->conditions[1], "n *2 > k - 1");
    assert_string_equal(s->conditions[2], "0 < e");
    assert_string_equal(s->text, "f(x: T[n], k: int, e: float) -> T[n] where k<=n , T = f32|f64, n *2 > k - 1,0 < e");
    assert_int_equal(s->names.ndims, 1); /* k is still not a dimension */
    assert_int_equal(s->params[1].dim, -1);
    assert_true(s->names.defined);
    tenon_signature_release(s);

    static const char *const texts[] = {
        "f(x: f32[n]) where n > 0",
        "f(x: f32[n]) where 0 < n",
        "f(x: f32[n]) where n > -1",
        "f(k: int) where -1 < k, k < 10",
        "f(K: int, x: f32[n]) where K <= (n - 1) // 2",
        "f(p: float) where p >= -1.5e-3, p < 1.",
        "f(p: float?, k: int? = None) where 0.5 > p, k > 0",
        "f(x: f32[n, m]) -> f32[n - m] where n >= m",
        "f(x: f32[n]) where n < 9223372036854775807",
        "f(mode: 'a<b'|'c' = 'a<b', k: int = 1) -> int where k > 0",
        "f(n: int) -> f32[n] where n > 0, n > 0",
        "f(x: f32[n], n: float) where n < 3",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        s = compiled(texts[i]);
        assert_true(s->nconditions > 0);
        assert_int_not_equal(s->plan, TENON_PLAN_PLAIN);
        assert_true(s->checks_all);
        tenon_signature_release(s);
    }
    s = compiled("f(x: f32[n]) -> f32[n]");
    assert_int_equal(s->nconditions, 0);
    assert_int_equal(s->plan, TENON_PLAN_PLAIN);
    assert_false(s->checks_all);
    tenon_signature_release(s);
}

/* The caret is where `text` has a "^". */
static void no(const char *text, const char *message)
{
    char without[256];
    size_t at = strcspn(text, "^");
    snprintf(without, sizeof without, "%.*s%s", (int)at, text, text + at + 1);
    tenon_signature *signature = NULL;
    FAILS(TENON_EPARSE, tenon_signature_alloc(without, NULL, TENON_HOST_LAYOUT, &signature, &err));
    const char *caret = strrchr(err.message, '\n');
    if (!strstr(err.message, message) || strlen(caret + 1) != at + 3) {
        print_error("%s\nwanted: %s\n", err.message, message);
        fail();
    }
}

static void test_mistakes(void **state)
{
    (void)state;
    no("f(x: f32[n], k: int) where k <= ^m", "'m' is neither a dimension nor a parameter");
    no("f(x: f32[n], k: int) where k <=^", "expected a number, the name of a dimension, or an int parameter");
    no("f(x: f32[n], k: int) where ^<= k", "expected a number, the name of a dimension, or an int parameter");
    no("f(x: f32[n], k: int) where k < n ^< 3", "a condition has one comparison; write \"a < b, b < c\"");
    no("f(x: f32[n], k: int) where 0 < k ^<= n", "a condition has one comparison");
    no("f(x: f32[n], k: int) where k ^== n", "expected <, <=, > or >=; sizes that must be equal have the same name");
    no("f(x: f32[n], k: int) where k ^!= n", "expected <, <=, > or >=");
    no("f(x: f32[n], k: int) where k <= ^= n", "expected a number");
    no("f(x: f32[n]) where ^1 < 2", "a condition needs the name of a dimension or of a parameter");
    no("f(x: f32[n], p: float) where ^p < n", "a float parameter is compared with a number only");
    no("f(p: float, q: float) where ^p < q", "a float parameter is compared with a number only");
    no("f(p: float, k: int) where k + ^p < 3", "a float parameter is compared with a number only, as in \"p > 0\"");
    no("f(p: float) where p ^+ 1 < 3", "expected <, <=, > or >=");
    no("f(x: f32[n], s: str) where ^s < 2", "a condition compares numbers and dimensions, but 's' is str");
    no("f(x: f32[n]) where ^x < 2", "a condition compares numbers and dimensions, but 'x' is f32[n]");
    no("f(k: int) where k < ^2.5", "expected an integer, because the other side has integers only");
    no("f(k: int) where ^1e3 < k", "expected an integer");
    no("f(k: int) where k < ^9223372036854775808", "expected an integer");
    no("f(k: int) where k // ^0 < 3", "division by 0");
    no("f(k: int) where k ^/ 2 < 3", "expected '//'");
    no("f(x: f32[n, *b]) where ^b > 0", "'b' is neither a dimension nor a parameter");
    no("f(x: T[n]) where ^T < 3, T = f32", "'T' is neither a dimension nor a parameter");
    no("f(x: f32[n]) where n > 0 ^n < 3", "expected the end of the signature");
    no("f(x: f32[n]) where n > 0,^", "expected a dtype variable that appears earlier");
    no("f(x: f32[n]) where ^n = 3", "expected a dtype variable that appears earlier");
    no("class A ^where 1 < 2", "expected the end of the signature");
    /* Only signatures have conditions. */
    tenon_names names = {0};
    tenon_spec spec;
    FAILS(TENON_EPARSE, tenon_spec_parse("f32[n] where n > 0", &names, &spec, &err));
}

/* Room for all operations and all copies of the text. */
static void test_limits(void **state)
{
    (void)state;
    char text[8192] = "f(k: int) where k < 1";
    for (int i = 0; i < 63; i++)
        strcat(text, " + 1");
    tenon_signature *s = NULL;
    FAILS(TENON_EPARSE, tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &s, &err));
    assert_non_null(strstr(err.message, "the expressions of a condition have at most 64 operations"));
    strcpy(text, "f(k: int) where k < 1");
    for (int i = 0; i < 31; i++)
        strcat(text, "+1");
    strcat(text, ",k<2");
    s = compiled(text);
    assert_int_equal(s->nconditions, 2);
    tenon_signature_release(s);
    strcpy(text, "f(k: int) where k<1");
    for (int i = 0; i < 2000; i++)
        strcat(text, ",k<2");
    s = compiled(text);
    assert_int_equal(s->nconditions, 2001);
    assert_string_equal(s->conditions[2000], "k<2");
    tenon_signature_release(s);
    strcpy(text, "f(k: int) where k < ");
    memset(text + strlen(text), '(', 300);
    FAILS(TENON_EPARSE, tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &s, &err));
    assert_non_null(strstr(err.message, "a condition has at most 255 characters"));
}

/* ------------------------------------------------------------------------------------------------------------ checks */

static void fits_once(const char *text, const tenon_value *args)
{
    call c;
    fits(&c, text, args);
    assert_null(c.bindings.argument);
    done(&c);
}

static void test_comparisons(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool less, equal, greater; /* whether k = 3, 4 and 5 fit n = 4 */
    } all[] = {
        {"f(x: f32[n], k: int) where k < n", true, false, false},
        {"f(x: f32[n], k: int) where k <= n", true, true, false},
        {"f(x: f32[n], k: int) where k > n", false, false, true},
        {"f(x: f32[n], k: int) where k >= n", false, true, true},
        {"f(x: f32[n], k: int) where n < k", false, false, true},
        {"f(x: f32[n], k: int) where n >= k", true, true, false},
        {"f(x: f32[n], k: int) where 2 * (k - 1) + 2 <= n + n", true, true, false},
        {"f(x: f32[n], k: int) where (k - 6) // 2 > 0 - 2", false, true, true}, /* rounds down: -2, -1, -1 */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const bool expected[] = {all[i].less, all[i].equal, all[i].greater};
        tenon_signature *s = compiled(all[i].text);
        for (int k = 0; k < 3; k++) {
            tenon_bindings b;
            assert_int_equal(match(s, ARGS(F32(0, 4), INT(3 + k)), NULL, &b, NULL), expected[k] ? 0 : TENON_EINVAL);
        }
        tenon_signature_release(s);
    }
}

static void test_messages(void **state)
{
    (void)state;
    misfit("f(x: f32[n], k: int) where k <= n", ARGS(F32(0, 4), INT(5)), TENON_EINVAL,
           "f(): argument 'k': expected k <= n, got k = 5 (n = 4 from argument 'x')");
    misfit("f(x: f32[n], k: int) where n >= k", ARGS(F32(0, 4), INT(5)), TENON_EINVAL,
           "f(): argument 'k': expected n >= k, got k = 5 (n = 4 from argument 'x')");
    misfit("f(x: f32[n], k: int) -> f32[k] where n >= k", ARGS(F32(0, 4), INT(5)), TENON_EINVAL,
           "f(): argument 'k': expected n >= k, got k = 5 (n = 4 from argument 'x')");
    misfit("f(x: f32[n]) where n > 0", ARGS(F32(0, 0)), TENON_EINVAL, "f(): argument 'x': expected n > 0, got n = 0");
    misfit("f(x: f32[n], y: f32[m]) where n>=m", ARGS(F32(0, 1), F32(1, 2)), TENON_EINVAL,
           "f(): argument 'x': expected n>=m, got n = 1 (m = 2 from argument 'y')");
    misfit("f(a: int, b: int, x: f32[n]) where n * a + n < a + b", ARGS(INT(-1), INT(-2), F32(0, 3)), TENON_EINVAL,
           "f(): argument 'a': expected n * a + n < a + b, got a = -1 (n = 3 from argument 'x', b = -2)");
    misfit("f(k: int = 3) where k > 1, k < 2", ARGS(INT(3)), TENON_EINVAL,
           "f(): argument 'k': expected k < 2, got k = 3");
    misfit("f(x: f32[n], k: int) where n < k", ARGS(tensor(0, TENON_F64, 4), INT(2)), TENON_EDTYPE,
           "f(): argument 'x': expected f32[n], got f64[4] (numpy.ndarray)\n  dtype is f64, not f32");
}

static void test_floats(void **state)
{
    (void)state;
    fits_once("f(e: float) where e > 0", ARGS(FLOAT(5e-324)));
    fits_once("f(e: float) where e >= -0.5, 1 > e", ARGS(FLOAT(-0.5)));
    fits_once("f(e: float) where e > 0", ARGS(FLOAT((double)INFINITY)));
    misfit("f(e: float) where e > 0", ARGS(FLOAT(-0.0)), TENON_EINVAL, "f(): argument 'e': expected e > 0, got e = -0");
    misfit("f(e: float) where e > 0", ARGS(FLOAT(-0.1)), TENON_EINVAL,
           "f(): argument 'e': expected e > 0, got e = -0.1");
    misfit("f(e: float) where 1 >= e", ARGS(FLOAT(1.0000000000000002)), TENON_EINVAL,
           "f(): argument 'e': expected 1 >= e, got e = 1.0000000000000002");
    static const char *const texts[] = {"f(e: float) where e > 0", "f(e: float) where e <= 0",
                                        "f(e: float) where 0 < e", "f(e: float) where 0 >= e"};
    for (size_t i = 0; i < 4; i++) {
        char message[100];
        snprintf(message, sizeof message, "f(): argument 'e': expected %s, got e = nan", strstr(texts[i], "where") + 6);
        misfit(texts[i], ARGS(FLOAT((double)NAN)), TENON_EINVAL, message);
    }
}

/* As no host sets it yet, a parameter is changed into one. */
static void test_uints(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t a, b;
        tenon_status status;
    } all[] = {
        {"f(a: uint, b: uint) where a < b", 0, -1, TENON_OK},
        {"f(a: uint, b: uint) where a < b", -1, 0, TENON_EINVAL},
        {"f(a: uint, b: uint) where a < b", -2, -1, TENON_OK},
        {"f(a: uint, b: uint) where a < b", -1, -1, TENON_EINVAL},
        {"f(a: uint, b: uint) where a > 9223372036854775807, b > 0", INT64_MIN, 1, TENON_OK},
        {"f(a: uint, b: uint) where a > 9223372036854775807, b > 0", INT64_MAX, 1, TENON_EINVAL},
        {"f(a: uint, b: uint) where a + 1 > b", -1, 0, TENON_EOVERFLOW},
        {"f(a: uint, b: uint) where a + 1 > b", INT64_MAX, 0, TENON_EOVERFLOW},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s", all[i].text);
        for (char *at; (at = strstr(text, "uint"));)
            memmove(at, at + 1, strlen(at));
        tenon_signature *s = compiled(text);
        tenon_parameter params[2] = {s->params[0], s->params[1]};
        params[0].kind = params[1].kind = TENON_KIND_UINT;
        s->params = params;
        tenon_value args[2] = {{.kind = TENON_KIND_UINT, .as.integer = all[i].a},
                               {.kind = TENON_KIND_UINT, .as.integer = all[i].b}};
        tenon_bindings b;
        assert_int_equal(match(s, args, NULL, &b, &err), all[i].status);
        if (i == 3)
            assert_non_null(strstr(err.message, "got a = 18446744073709551615 (b = 18446744073709551615)"));
        tenon_signature_release(s);
    }
}

static void test_overflow(void **state)
{
    (void)state;
    misfit("f(x: f32[n], k: int) where k * n < 100", ARGS(F32(0, 4), INT(INT64_MAX)), TENON_EOVERFLOW,
           "f(): argument 'k': expected k * n < 100, which overflows 64 bits or divides by 0 for k = "
           "9223372036854775807 (n = 4 from argument 'x')");
    misfit("f(k: int) where 1 < k - 1", ARGS(INT(INT64_MIN)), TENON_EOVERFLOW,
           "f(): argument 'k': expected 1 < k - 1, which overflows 64 bits or divides by 0 for k = "
           "-9223372036854775808");
    misfit("f(k: int) where 6 // k > 1", ARGS(INT(0)), TENON_EOVERFLOW,
           "f(): argument 'k': expected 6 // k > 1, which overflows 64 bits or divides by 0 for k = 0");
}

/* A condition is skipped if one of its sides was not given. */
static void test_not_given(void **state)
{
    (void)state;
    const char *text = "f(x: f32[n]?, k: int?, e: float?) where k <= n, e > 0, k * k < 100, n > 2";
    fits_once(text, ARGS(NONE, NONE, NONE));
    fits_once(text, ARGS(NONE, INT(5), NONE));
    fits_once(text, ARGS(F32(0, 4), NONE, FLOAT(1)));
    fits_once("f(k: int, x: f32[n]?) where k * k * n < 100", ARGS(INT(INT64_MAX), NONE));
    misfit(text, ARGS(F32(0, 4), INT(5), NONE), TENON_EINVAL,
           "f(): argument 'k': expected k <= n, got k = 5 (n = 4 from argument 'x')");
    misfit(text, ARGS(NONE, INT(10), NONE), TENON_EINVAL, "f(): argument 'k': expected k * k < 100, got k = 10");
    misfit(text, ARGS(NONE, NONE, FLOAT(0)), TENON_EINVAL, "f(): argument 'e': expected e > 0, got e = 0");
    misfit(text, ARGS(F32(0, 2), NONE, NONE), TENON_EINVAL, "f(): argument 'x': expected n > 2, got n = 2");
}

/* An argument that cannot be read is reported before a condition, and conditions before overlap. */
static void test_order(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(k: int, x: f32[n] rw, y: f32[n]) where k > 0");
    tenon_bindings b;
    tenon_value same = F32(0, 4);
    OK(match_before(s, 2, ARGS(INT(0), same), NULL, &b, &err));
    FAILS_SAYING(TENON_EINVAL, "f(): argument 'k': expected k > 0, got k = 0",
                 match(s, ARGS(INT(0), same, same), NULL, &b, &err));
    FAILS(TENON_EOVERLAP, match(s, ARGS(INT(1), same, same), NULL, &b, &err));
    tenon_signature_release(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammar),     cmocka_unit_test(test_mistakes), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_comparisons), cmocka_unit_test(test_messages), cmocka_unit_test(test_floats),
        cmocka_unit_test(test_uints),       cmocka_unit_test(test_overflow), cmocka_unit_test(test_not_given),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
