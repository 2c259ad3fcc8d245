/* The grammar of specs: what it takes, what it refuses and how it says so. Matching is in test_spec_match.c. */
#include "../src/signature/compiled_spec.h" /* the compiled dimensions */
#include "check.h"

static tenon_spec parsed_alone(const char *text)
{
    tenon_names names = {0};
    return parsed(text, &names);
}

/* The text does not parse: `what` is said, with a caret under text[at]; nothing has changed. */
static void no_spec(const char *text, int at, const char *what)
{
    tenon_names names = {0}, before;
    tenon_spec spec, spec_before;
    char message[1008];
    parsed("f32[already]", &names);
    before = names;
    memset(&spec, 0x5a, sizeof spec);
    spec_before = spec;
    snprintf(message, sizeof message, "tenon_spec_parse(): %s\n  %s\n  %*s^", what, text, at, "");
    FAILS_SAYING(TENON_EPARSE, message, tenon_spec_parse(text, &names, &spec, &err));
    assert_memory_equal(&names, &before, sizeof names);
    assert_memory_equal(&spec, &spec_before, sizeof spec);
    assert_int_equal(tenon_spec_parse(text, &names, &spec, NULL), TENON_EPARSE);
}

static void test_parse_shapes(void **state)
{
    (void)state;
    tenon_spec spec = parsed_alone("f32[]");
    assert_int_equal(spec.ndims, 0);
    assert_int_equal(tenon__code_of(&spec)->star, -1);
    assert_int_equal(spec.variable, -1);
    assert_int_equal(spec.flags, 0);
    assert_int_equal(parsed_alone("f32[3]").ndims, 1);
    assert_int_equal(parsed_alone("f32[n, k, 3, _]").ndims, 4);
    spec = parsed_alone("f32[*b]");
    assert_int_equal(tenon__code_of(&spec)->star, 0);
    spec = parsed_alone("f32[n, *b, k]");
    assert_int_equal(tenon__code_of(&spec)->star, 1);
    assert_int_equal(parsed_alone(" \n\tf32 [ n ,\tk ] \n").ndims, 2);
    assert_int_equal(parsed_alone("f32[(n + 1) * 2 // k - 3, n, k]").ndims, 3);
    assert_int_equal(parsed_alone("f32[((n))]").ndims, 1);
    assert_int_equal(parsed_alone("f32[9223372036854775807]").ndims, 1);
    assert_int_equal(parsed_alone("f32[n_1, kK2]").ndims, 2);
}

static void test_parse_names_in_order(void **state)
{
    (void)state;
    tenon_names names = {0};
    tenon_spec spec = parsed("T[*b, n, k + m] where T = any", &names);
    assert_int_equal(spec.variable, 0);
    assert_int_equal(names.allowed[0].kinds, 4);
    spec = parsed("U[*c, k, n] where U = f32|f64", &names);
    assert_int_equal(spec.variable, 1);
    assert_int_equal(names.ndims, 3);
    assert_string_equal(names.dims[0], "n");
    assert_string_equal(names.dims[1], "k");
    assert_string_equal(names.dims[2], "m");
    assert_int_equal(names.nstars, 2);
    assert_string_equal(names.stars[0], "b");
    assert_string_equal(names.stars[1], "c");
    assert_int_equal(names.ntypes, 2);
    assert_string_equal(names.types[0], "T");
    assert_string_equal(names.types[1], "U");
    assert_int_equal(names.allowed[1].count, 2);
    parsed("f32[n]", &names);
    assert_int_equal(names.ndims, 3);
}

static void test_parse_dtypes(void **state)
{
    (void)state;
    tenon_spec spec = parsed_alone("f32 | float64|i8x4 |real[]");
    assert_int_equal(spec.dtypes.count, 3);
    assert_true(tenon_dtype_equal(spec.dtypes.items[0], TENON_F32));
    assert_true(tenon_dtype_equal(spec.dtypes.items[1], TENON_F64));
    assert_true(tenon_dtype_equal(spec.dtypes.items[2], tenon_dtype_of(TENON_CODE_INT, 8, 4)));
    assert_int_equal(spec.dtypes.kinds, 1);
    assert_int_equal(parsed_alone("integer[]").dtypes.kinds, 2);
    assert_int_equal(parsed_alone("any[]").dtypes.kinds, 4);
    assert_int_equal(parsed_alone("real|integer|any[]").dtypes.kinds, 7);
}

static void test_parse_attributes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t flags;
    } cases[] = {
        {"f32[]?", TENON_SPEC_OPTIONAL},
        {"f32[] ?", TENON_SPEC_OPTIONAL},
        {"f32[] rw", TENON_SPEC_WRITE},
        {"f32[]rw", TENON_SPEC_WRITE},
        {"f32[] c", TENON_SPEC_C},
        {"f32[] f", TENON_SPEC_F},
        {"f32[] dense", TENON_SPEC_DENSE},
        {"f32[] anywhere", TENON_SPEC_ANYWHERE},
        {"f32[] alias", TENON_SPEC_ALIAS},
        {"f32[] inplace(x)", TENON_SPEC_INPLACE},
        {"f32[] unaligned", TENON_SPEC_UNALIGNED},
        {"f32[]? rw c dense alias",
         TENON_SPEC_OPTIONAL | TENON_SPEC_WRITE | TENON_SPEC_C | TENON_SPEC_DENSE | TENON_SPEC_ALIAS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(parsed_alone(cases[i].text).flags, cases[i].flags);
    assert_int_equal(parsed_alone("f32[] aligned(64)").alignment, 64);
    assert_int_equal(parsed_alone("f32[] aligned ( 1 )").alignment, 1);
    assert_int_equal(parsed_alone("f32[] aligned(4096)").alignment, 4096);
    assert_string_equal(parsed_alone("f32[] inplace( _out1 )").inplace, "_out1");
    assert_int_equal(parsed_alone("f32[] cuda").devices, 1u << TENON_CUDA);
    assert_int_equal(parsed_alone("f32[] cpu |cuda| rocm").devices,
                     1u << TENON_CPU | 1u << TENON_CUDA | 1u << TENON_ROCM);
    assert_int_equal(parsed_alone("f32[] trainium").devices, 1u << TENON_TRAINIUM);
}

static void test_mistakes_in_dtypes(void **state)
{
    (void)state;
    no_spec("", 0, "expected a dtype such as f32");
    no_spec("[n]", 0, "expected a dtype such as f32");
    no_spec("f32|[n]", 4, "expected a dtype such as f32");
    no_spec("g32[n]", 0, "unknown dtype 'g32'");
    no_spec("f32|floaty[n]", 4, "unknown dtype 'floaty'");
    no_spec("f32x0[n]", 0, "unknown dtype 'f32x0'");
    no_spec("f32", 3, "expected '[' after the dtype");
    no_spec("f32 n", 4, "expected '[' after the dtype");
    no_spec("f32|T[n]", 4, "a dtype variable cannot be combined with other dtypes; list its dtypes in a where clause");
    no_spec("real|T[n]", 5, "a dtype variable cannot be combined with other dtypes; list its dtypes in a where clause");
    no_spec("T|f32[n]", 1, "a dtype variable cannot be combined with other dtypes; list its dtypes in a where clause");
    no_spec("i8|i16|i32|i64|u8|u16|u32|u64|f16|f32|f64|c64|c128|bool|bf16|f128|c32[n]", 66,
            "at most 16 dtypes are allowed");
}

static void test_mistakes_in_dimensions(void **state)
{
    (void)state;
    const char *dim = "expected a dimension: a number, a name, an expression, '_' or '*name'";
    no_spec("f32[", 4, dim);
    no_spec("f32[n,]", 6, dim);
    no_spec("f32[,n]", 4, dim);
    no_spec("f32[n + ]", 8, dim);
    no_spec("f32[-1]", 4, dim);
    no_spec("f32[_n]", 4, dim);
    no_spec("f32[n + _]", 8, dim);
    no_spec("f32[?]", 4, dim);
    no_spec("f32[n", 5, "expected ']' or ',' after a dimension");
    no_spec("f32[n k]", 6, "expected ']' or ',' after a dimension");
    no_spec("f32[n; k]", 5, "expected ']' or ',' after a dimension");
    no_spec("f32[_ + 1]", 6, "expected ']' or ',' after a dimension");
    no_spec("f32[(n + 1]", 10, "expected ')' to close the parenthesis");
    no_spec("f32[n / 2]", 6, "expected '//', which is the division that rounds down");
    no_spec("f32[N]", 4, "the name of a dimension must start with a lowercase letter");
    no_spec("f32[n * K]", 8, "the name of a dimension must start with a lowercase letter");
    no_spec("f32[3n]", 5, "a number consists of digits only, and a name starts with a letter");
    no_spec("f32[9223372036854775808]", 4, "this number does not fit in 64 bits");
    no_spec("f32[*]", 5, "expected a name after '*'");
    no_spec("f32[*B]", 5, "expected a name after '*'");
    no_spec("f32[*3]", 5, "expected a name after '*'");
    no_spec("f32[*_x]", 5, "expected a name after '*'");
    no_spec("f32[*b, n, *c]", 11, "a shape has at most one '*'");
    no_spec("f32[*b + 1]", 7, "expected ']' or ',' after a dimension");
}

static void test_mistakes_in_attributes(void **state)
{
    (void)state;
    no_spec("f32[n] ro", 7, "unknown attribute 'ro'");
    no_spec("f32[n] C", 7, "unknown attribute 'C'");
    no_spec("f32[n] c c", 9, "duplicate attribute 'c'");
    no_spec("f32[n] rw c rw", 12, "duplicate attribute 'rw'");
    no_spec("f32[n] c f", 9, "'c' and 'f' cannot be combined");
    no_spec("f32[n] f c", 9, "'c' and 'f' cannot be combined");
    no_spec("f32[n] anywhere cuda", 16, "'anywhere' cannot be combined with a device");
    no_spec("f32[n] cuda anywhere", 12, "'anywhere' cannot be combined with a device");
    no_spec("f32[n] cuda cpu", 12, "separate several devices with '|'");
    no_spec("f32[n] cuda|", 12, "expected a device such as cuda");
    no_spec("f32[n] cuda|gpu", 12, "expected a device such as cuda");
    no_spec("f32[n] cuda:1", 11, "expected the end of the spec");
    no_spec("f32[n] aligned", 14, "expected '(' after 'aligned'");
    no_spec("f32[n] aligned()", 15, "expected a number");
    no_spec("f32[n] aligned(x)", 15, "a number consists of digits only, and a name starts with a letter");
    no_spec("f32[n] aligned(0)", 15, "expected a power of two from 1 to 4096");
    no_spec("f32[n] aligned(48)", 15, "expected a power of two from 1 to 4096");
    no_spec("f32[n] aligned(8192)", 15, "expected a power of two from 1 to 4096");
    no_spec("f32[n] aligned(64", 17, "expected ')' after the number of bytes");
    no_spec("f32[n] aligned(8) aligned(8)", 18, "duplicate attribute 'aligned'");
    no_spec("f32[n] aligned(8) unaligned", 18, "'aligned' and 'unaligned' cannot be combined");
    no_spec("f32[n] unaligned aligned(8)", 17, "'aligned' and 'unaligned' cannot be combined");
    no_spec("f32[n] unaligned unaligned", 17, "duplicate attribute 'unaligned'");
    no_spec("f32[n] unaligned(2)", 16, "expected the end of the spec");
    no_spec("f32[n] inplace", 14, "expected '(' after 'inplace'");
    no_spec("f32[n] inplace()", 15, "expected the name of an argument");
    no_spec("f32[n] inplace(1x)", 15, "expected the name of an argument");
    no_spec("f32[n] inplace(x", 16, "expected ')' after the name");
    no_spec("f32[n] inplace(x) inplace(y)", 18, "duplicate attribute 'inplace'");
    no_spec("f32[n] inplace(a2345678901234567890123456789012)", 15, "a name has at most 31 characters");
    no_spec("f32[n]??", 7, "expected the end of the spec");
    no_spec("f32[n], f32[n]", 6, "expected the end of the spec");
    no_spec("f32[n] c ]", 9, "expected the end of the spec");
}

static void test_mistakes_in_where(void **state)
{
    (void)state;
    const char *variable = "expected a dtype variable that appears earlier";
    no_spec("T[n] where", 10, variable);
    no_spec("T[n] where U = f32", 11, variable);
    no_spec("f32[n] where T = f32", 13, variable);
    no_spec("T[n] where n = f32", 11, variable);
    no_spec("T[n] where T = f32,", 19, variable);
    no_spec("T[n] where T f32", 13, "expected '=' after a dtype variable");
    no_spec("T[n] where T =", 14, "expected a dtype such as f32");
    no_spec("T[n] where T = f33", 15, "unknown dtype 'f33'");
    no_spec("T[n] where T = T", 15,
            "a dtype variable cannot be combined with other dtypes; list its dtypes in a where clause");
    no_spec("T[n] where T = f32, T = f64", 20, "'T' is defined twice");
    no_spec("T[n] where T = f32 c", 19, "expected the end of the spec");
    no_spec("F32[n]", 0,
            "'F32' is not a dtype; a dtype variable needs a where clause, such as \"where F32 = f32|f64\"");
    tenon_names names = {0};
    tenon_spec spec;
    parsed("T[n] where T = f32", &names);
    parsed("T[k]", &names);
    FAILS_SAYING(TENON_EPARSE, "tenon_spec_parse(): 'T' is defined twice\n  T[m] where T = f64\n             ^",
                 tenon_spec_parse("T[m] where T = f64", &names, &spec, &err));
}

static void test_carets_under_any_white_space(void **state)
{
    (void)state;
    tenon_names names = {0};
    tenon_spec spec;
    FAILS_SAYING(TENON_EPARSE, "tenon_spec_parse(): expected ']' or ',' after a dimension\n  f32[n, k m]\n           ^",
                 tenon_spec_parse("f32[n,\nk\tm]", &names, &spec, &err));
}

static void test_null_arguments(void **state)
{
    (void)state;
    tenon_names names = {0};
    tenon_spec spec;
    FAILS_SAYING(TENON_EINVAL, "tenon_spec_parse(): argument 'text' is NULL",
                 tenon_spec_parse(NULL, &names, &spec, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_spec_parse(): argument 'names' is NULL",
                 tenon_spec_parse("f32[]", NULL, &spec, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_spec_parse(): argument 'out' is NULL",
                 tenon_spec_parse("f32[]", &names, NULL, &err));
}

/* --------------------------------------------------------------------------------------------------------- limits */

/* "f32[" + `count` times `part`, joined + "]" */
static const char *repeated(int count, const char *part, const char *join)
{
    static char text[2000];
    size_t at = (size_t)snprintf(text, sizeof text, "f32[");
    for (int i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? join : "", part);
    snprintf(text + at, sizeof text - at, "]");
    return text;
}

static void test_limit_of_dimensions(void **state)
{
    (void)state;
    assert_int_equal(parsed_alone(repeated(32, "1", ",")).ndims, 32);
    no_spec(repeated(33, "1", ","), 4 + 32 * 2, "at most 32 dimensions are allowed");
}

static void test_limit_of_operations(void **state)
{
    (void)state;
    char text[200] = "f32[";
    for (int i = 0; i < 31; i++)
        strcat(text, "n+");
    parsed_alone(strcat(text, "n,1]")); /* 32 names, 31 sums and a number */
    no_spec(repeated(33, "n", "+"), 4 + 31 * 2 + 1, "the expressions of a spec have at most 64 operations");
}

static void test_limit_of_names(void **state)
{
    (void)state;
    tenon_names names = {0}, before;
    tenon_spec spec;
    char text[64];
    for (int i = 0; i < TENON_MAX_NAMES; i++) {
        snprintf(text, sizeof text, "f32[n%d]", i);
        parsed(text, &names);
    }
    before = names;
    FAILS_SAYING(TENON_EPARSE, "tenon_spec_parse(): at most 32 names are allowed\n  f32[n0, more]\n          ^",
                 tenon_spec_parse("f32[n0, more]", &names, &spec, &err));
    assert_memory_equal(&names, &before, sizeof names);
    parsed("f32[n31, n0]", &names);
    memset(&names, 0, sizeof names);
    for (int i = 0; i < TENON_MAX_VARIABLES; i++) {
        snprintf(text, sizeof text, "T%d[*b%d] where T%d = any", i, i, i);
        parsed(text, &names);
    }
    FAILS_SAYING(TENON_EPARSE, "tenon_spec_parse(): at most 8 names are allowed\n  U[]\n  ^",
                 tenon_spec_parse("U[]", &names, &spec, &err));
    FAILS_SAYING(TENON_EPARSE, "tenon_spec_parse(): at most 8 names are allowed\n  T0[*c]\n      ^",
                 tenon_spec_parse("T0[*c]", &names, &spec, &err));

    parsed_alone("f32[a234567890123456789012345678901]"); /* 31 */
    no_spec("f32[a2345678901234567890123456789012]", 4, "a name has at most 31 characters");
    no_spec("T2345678901234567890123456789012[]", 0, "a name has at most 31 characters");
    no_spec("f32[*b2345678901234567890123456789012]", 5, "a name has at most 31 characters");
}

static void test_limit_of_the_text(void **state)
{
    (void)state;
    char text[400];
    tenon_names names = {0};
    tenon_spec spec;
    snprintf(text, sizeof text, "f32[%*sn]", 255 - 6, "");
    assert_int_equal(strlen(text), 255);
    parsed(text, &names);
    snprintf(text, sizeof text, "f32[%*sn]", 256 - 6, "");
    FAILS(TENON_EPARSE, tenon_spec_parse(text, &names, &spec, &err));
    assert_memory_equal(err.message, "tenon_spec_parse(): a spec has at most 255 characters\n  f32[ ", 60);
    snprintf(text, sizeof text, "f32[%*sn] where", 200, ""); /* of a long text only the part around the mistake */
    FAILS(TENON_EPARSE, tenon_spec_parse(text, &names, &spec, &err));
    snprintf(text, sizeof text,
             "tenon_spec_parse(): expected a dtype variable that appears earlier\n  ...%*sn] where\n  %*s^", 52, "", 63,
             "");
    assert_string_equal(err.message, text);
}

/* However long the text is, the parser's stack is not. */
static void test_deep_parentheses_end(void **state)
{
    (void)state;
    enum { DEPTH = 1000000 };
    static char text[DEPTH + 5];
    tenon_names names = {0};
    tenon_spec spec;
    memset(text, '(', DEPTH + 4);
    memcpy(text, "f32[", 4);
    FAILS(TENON_EPARSE, tenon_spec_parse(text, &names, &spec, &err));
    parsed("f32[((((((((n + 1) * 2))))))), n]", &names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_shapes),
        cmocka_unit_test(test_parse_names_in_order),
        cmocka_unit_test(test_parse_dtypes),
        cmocka_unit_test(test_parse_attributes),
        cmocka_unit_test(test_mistakes_in_dtypes),
        cmocka_unit_test(test_mistakes_in_dimensions),
        cmocka_unit_test(test_mistakes_in_attributes),
        cmocka_unit_test(test_mistakes_in_where),
        cmocka_unit_test(test_carets_under_any_white_space),
        cmocka_unit_test(test_null_arguments),
        cmocka_unit_test(test_limit_of_dimensions),
        cmocka_unit_test(test_limit_of_operations),
        cmocka_unit_test(test_limit_of_names),
        cmocka_unit_test(test_limit_of_the_text),
        cmocka_unit_test(test_deep_parentheses_end),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
