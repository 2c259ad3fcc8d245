/* Each way to write a signature wrong: the message, and the caret under the mistake. */
#include "check.h"

/* `marked` is the text with a '^' in front of what is wrong. */
static void no(const char *marked, const char *what)
{
    char text[512], message[1008];
    const char *caret = strchr(marked, '^');
    assert_non_null(caret);
    size_t at = (size_t)(caret - marked);
    snprintf(text, sizeof text, "%.*s%s", (int)at, marked, caret + 1);
    snprintf(message, sizeof message, "tenon_signature_alloc(): %s\n  %s\n  %*s^", what, text, (int)at, "");
    tenon_signature *const untouched = (tenon_signature *)(void *)text;
    tenon_signature *signature = untouched;
    FAILS_SAYING(TENON_EPARSE, message, tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &signature, &err));
    assert_ptr_equal(signature, untouched);
    assert_int_equal(tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &signature, NULL), TENON_EPARSE);
}

static void test_functions(void **state)
{
    (void)state;
    no("^", "expected the name of a function");
    no("^()", "expected the name of a function");
    no("^1f()", "expected the name of a function");
    no("^-", "expected the name of a function");
    no("^a2345678901234567890123456789012()", "a name has at most 31 characters");
    no("^lambda()", "'lambda' is a reserved word");
    no("f^", "expected '(' after the name of a function");
    no("f ^x: int", "expected '(' after the name of a function");
    no("f(^", "expected the name of a parameter");
    no("f() ^x", "expected the end of the signature or '->'");
    no("f() ^- > int", "expected the end of the signature or '->'");
    no("f() -> int ^)", "expected the end of the signature");
    no("f() -> int ^= 1", "expected the end of the signature");
    no("f()^;", "expected the end of the signature or '->'");
}

static void test_names(void **state)
{
    (void)state;
    no("f(^: int)", "expected the name of a parameter");
    no("f(^1: int)", "expected the name of a parameter");
    no("f(a: int, ^)", "expected the name of a parameter");
    no("f(a: int,^", "expected the name of a parameter");
    no("f(a^)", "expected ':' after the name of a parameter");
    no("f(a ^int)", "expected ':' after the name of a parameter");
    no("f(^\xc3\xbc: int)", "expected the name of a parameter");
    no("f(^a2345678901234567890123456789012: int)", "a name has at most 31 characters");
    no("f(a: int, ^a: int)", "duplicate name 'a'");
    no("f(a: int, *, ^a: int)", "duplicate name 'a'");
    no("f(a: int ^b: int)", "expected ')' or ',' after a parameter");
    no("f(a: int^", "expected ')' or ',' after a parameter");
    no("f(a: int = 1, ^b: int)", "'b' needs a default, because a parameter before it has one");
    no("f(a: f32[n]?, ^b: f32[n])", "'b' needs a default, because a parameter before it has one");
}

static void test_reserved_words(void **state)
{
    (void)state;
    static const char *const words[] = {
        "out",   "like",   "False",    "None",   "True",  "and",  "as",     "assert",   "async",   "await",
        "break", "class",  "continue", "def",    "del",   "elif", "else",   "except",   "finally", "for",
        "from",  "global", "if",       "import", "in",    "is",   "lambda", "nonlocal", "not",     "or",
        "pass",  "raise",  "return",   "try",    "while", "with", "yield"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char text[64], what[64];
        snprintf(what, sizeof what, "'%s' is a reserved word", words[i]);
        snprintf(text, sizeof text, "f(^%s: int)", words[i]);
        no(text, what);
        snprintf(text, sizeof text, "^%s()", words[i]);
        no(text, what);
        snprintf(text, sizeof text, "f() -> ^%s: int", words[i]);
        no(text, what);
    }
}

static void test_keyword_only(void **state)
{
    (void)state;
    no("f(*^)", "expected ',' and a parameter after '*'");
    no("f(*, ^)", "expected the name of a parameter");
    no("f(a: int, *^)", "expected ',' and a parameter after '*'");
    no("f(*^b: int)", "expected ',' and a parameter after '*'");
    no("f(*, a: int, ^*, b: int)", "only one '*' is allowed");
    no("f(*, ^*, b: int)", "expected the name of a parameter");
}

static void test_types(void **state)
{
    (void)state;
    no("f(a:^)", "expected a type such as f32[n] or int");
    no("f(a: ^?)", "expected a type such as f32[n] or int");
    no("f(a: ^integ)", "unknown dtype 'integ'");
    no("f(a: ^int[n])", "unknown dtype 'int'");
    no("f(a: ^float|f32[n])", "unknown dtype 'float'");
    no("f(a: ^complexes)", "unknown dtype 'complexes'");
    no("f(a: f32^)", "expected '[' after the dtype");
    no("f(a: f32^?)", "expected '[' after the dtype");
    no("f(a: int?^?)", "expected ')' or ',' after a parameter");
    no("f(a: int ^rw)", "expected ')' or ',' after a parameter");
    no("f(a: ints[^])", "expected a number");
    no("f(a: ints[^n])", "a number consists of digits only, and a name starts with a letter");
    no("f(a: ints[^0])", "expected a number from 1 to 1024");
    no("f(a: floats[102^5])", "expected a number from 1 to 1024");
    no("f(a: ints[3^)", "expected ']' after the number");
    no("f(a: ints[^-1])", "expected a number");
    no("f(a: bool|^bool2[n])", "unknown dtype 'bool2'");
}

static void test_enums_and_handles(void **state)
{
    (void)state;
    no("f(a: ^'x)", "unterminated string");
    no("f(a: ^'x\")", "unterminated string");
    no("f(a: 'x'|^)", "expected a string in quotes");
    no("f(a: 'x'|^y)", "expected a string in quotes");
    no("f(a: 'x^\\n')", "a string cannot contain escapes");
    no("f(a: 'x'|'y'|'x^')", "duplicate choice 'x'");
    no("f(a: handle^)", "expected '(' after 'handle'");
    no("f(a: handle(^Index))", "expected a string in quotes");
    no("f(a: handle('^'))", "a handle needs a name");
    no("f(a: handle('I'^", "expected ')' after the name of a handle");
    no("f(a: handle^?)", "expected '(' after 'handle'");
}

static void test_a_string_ends_in_its_line(void **state)
{
    (void)state;
    tenon_signature *signature = NULL;
    FAILS_SAYING(TENON_EPARSE, "tenon_signature_alloc(): unterminated string\n  f(a: 'x ')\n       ^",
                 tenon_signature_alloc("f(a: 'x\n')", NULL, TENON_HOST_LAYOUT, &signature, &err));
    FAILS_SAYING(TENON_EPARSE, "tenon_signature_alloc(): unterminated string\n  f(a: str = 'x ')\n             ^",
                 tenon_signature_alloc("f(a: str = 'x\x01')", NULL, TENON_HOST_LAYOUT, &signature, &err));
}

static void test_defaults(void **state)
{
    (void)state;
    no("f(a: int =^)", "expected an integer");
    no("f(a: int = ^1.0)", "expected an integer");
    no("f(a: int = ^1e3)", "expected an integer");
    no("f(a: int = ^01)", "expected an integer");
    no("f(a: int = ^0x10)", "expected an integer");
    no("f(a: int = ^1_000)", "expected an integer");
    no("f(a: int = ^+1)", "expected an integer");
    no("f(a: int = ^- 1)", "expected an integer");
    no("f(a: int = ^True)", "expected an integer");
    no("f(a: int = ^'1')", "expected an integer");
    no("f(a: int = ^9223372036854775808)", "this integer does not fit in 64 bits");
    no("f(a: int = ^-9223372036854775809)", "this integer does not fit in 64 bits");
    no("f(a: int = ^99999999999999999999)", "this integer does not fit in 64 bits");
    no("f(a: float = ^)", "expected a number");
    no("f(a: float = ^.)", "expected a number");
    no("f(a: float = ^-)", "expected a number");
    no("f(a: float = ^1e)", "expected a number");
    no("f(a: float = ^1e+)", "expected a number");
    no("f(a: float = ^inf)", "expected a number");
    no("f(a: float = ^nan)", "expected a number");
    no("f(a: float = ^1.5j)", "expected a number");
    no("f(a: float = 1.5^.5)", "expected ')' or ',' after a parameter");
    no("f(a: float = 1^'0')", "expected ')' or ',' after a parameter");
    no("f(a: bool = ^1)", "expected True or False");
    no("f(a: bool = ^true)", "expected True or False");
    no("f(a: bool = ^)", "expected True or False");
    no("f(a: str = ^x)", "expected a string in quotes");
    no("f(a: str = ^'x)", "unterminated string");
    no("f(a: str = ^1)", "expected a string in quotes");
    no("f(a: 'x'|'y' = ^'z')", "'z' is not one of 'x'|'y'");
    no("f(a: 'x' = ^x)", "expected a string in quotes");
    no("f(a: 'x' = ^0)", "expected a string in quotes");
    no("f(a: int = ^None)", "None is allowed only if the type has a '?'");
    no("f(a: str = ^None)", "None is allowed only if the type has a '?'");
    no("f(a: f32[n] = ^None)", "None is allowed only if the type has a '?'");
    no("f(a: f32[n]? = ^1)", "a tensor can only have None as its default");
    no("f(a: handle('I')? = ^'I')", "a handle can only have None as its default");
    no("f(a: handle('I') = ^None)", "None is allowed only if the type has a '?'");
}

static void test_lists(void **state)
{
    (void)state;
    no("f(a: ints = ^1)", "expected a list such as (1, 2)");
    no("f(a: ints = ^{1})", "expected a list such as (1, 2)");
    no("f(a: ints = (1^))", "a list of one number is written (1,) or [1]");
    no("f(a: ints = (1, 2^])", "expected ')' to close the list");
    no("f(a: ints = [1, 2^))", "expected ']' to close the list");
    no("f(a: ints = (1, ^0.5))", "expected an integer");
    no("f(a: ints = (^,))", "expected an integer");
    no("f(a: floats = (1.5, ^x))", "expected a number");
    no("f(a: floats = (1.5, 2^", "expected ')' to close the list");
    no("f(a: floats = (^", "expected a number");
    no("f(a: ints[2] = ^(1, 2, 3))", "expected 2 numbers");
    no("f(a: ints[2] = ^())", "expected 2 numbers");
    no("f(a: ints[1]? = ^[])", "expected 1 number");
}

/* A choice may be long, and of any characters. */
static void test_a_long_choice_is_cut_between_characters(void **state)
{
    (void)state;
    for (size_t before = 0; before < 3; before++) {
        char text[1200], *end = text + sprintf(text, "f(x: 'a'|'b' = '%.*s", (int)before, "xxx");
        for (int i = 0; i < 300; i++)
            end += sprintf(end, "\xe2\x82\xac");
        sprintf(end, "')");
        tenon_signature *s = NULL;
        tenon_error told;
        assert_int_equal(tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &s, &told), TENON_EPARSE);
        char *cut = strstr(told.message, "...");
        assert_non_null(cut);
        assert_memory_equal(cut - 3, "\xe2\x82\xac", 3);
    }
}

static void test_results(void **state)
{
    (void)state;
    no("f() ->^", "expected a type such as f32[n] or int");
    no("f() -> int,^", "expected a type such as f32[n] or int");
    no("f() -> ^dtype", "a result cannot be a dtype");
    no("f() -> a: ^1|2", "a result cannot be a choice of integers; write int");
    no("f(x: f32[n]) -> ^f32|f64[n]", "a result needs one dtype, or a dtype variable that an argument binds");
    no("f(x: f32[n]) -> ^f32|real[n]", "a result needs one dtype, or a dtype variable that an argument binds");
    no("f(x: f32[n]) -> ^real[n]", "a result needs one dtype, or a dtype variable that an argument binds");
    static const char *const attributes[] = {"rw", "f", "aligned(64)", "anywhere"};
    for (size_t i = 0; i < 4; i++) {
        char text[64];
        snprintf(text, sizeof text, "f(x: f32[n]) -> ^f32[n] %s", attributes[i]);
        no(text, "a result is always writable, in C order, and on the device of the call: 'rw', 'f', 'aligned' and "
                 "'anywhere' do not apply to it");
    }
    no("f(x: f32[n]) -> f32[n, ^_]", "write '?' for a size that only the function knows");
    no("f(x: f32[^?])", "expected a dimension: a number, a name, an expression, '_' or '*name'");
    no("f(x: f32[n]) -> f32[? ^+ 1]", "expected ']' or ',' after a dimension");
    no("f() -> a: int, ^int", "either name all results, or none of them");
    no("f() -> int, ^a: int", "either name all results, or none of them");
    no("f() -> a: int, ^a: int", "duplicate name 'a'");
    no("f() -> ^_a: int", "the name of a result must start with a letter");
    no("f() -> ^1: int", "expected the name of a result");
    no("f() -> ^a2345678901234567890123456789012: int", "a name has at most 31 characters");
}

/* What only the whole signature tells. */
static void test_names_without_a_value(void **state)
{
    (void)state;
    no("f(x: f32[^n + 1])",
       "no argument determines 'n': it must be a whole dimension of an argument, or an int parameter");
    no("f(x: f32[k, k + ^n])",
       "no argument determines 'n': it must be a whole dimension of an argument, or an int parameter");
    no("f(x: f32[k]) -> f32[^n]",
       "no argument determines 'n': it must be a whole dimension of an argument, or an int parameter");
    no("f(n: float) -> f32[^n]",
       "no argument determines 'n': it must be a whole dimension of an argument, or an int parameter");
    no("f(x: f32[*b]) -> f32[^b, *c]",
       "no argument determines 'b': it must be a whole dimension of an argument, or an int parameter");
    no("f(x: f32[n]) -> f32[n, ^*b]", "no argument determines '*b'");
    no("f(x: ^T[n])", "'T' is not a dtype; a dtype variable needs a where clause, such as \"where T = f32|f64\"");
    no("f(x: f32[n]) -> ^T[n] where T = any", "no argument determines 'T'");
    no("f(x: f32[n]) -> ^T[n]",
       "'T' is not a dtype; a dtype variable needs a where clause, such as \"where T = f32|f64\"");
    no("f(x: f32[n], y: f32[n] rw ^inplace(z))", "inplace(z) does not name another tensor argument");
    no("f(x: f32[n] ^alias, y: f32[n] rw)", "'alias' and 'inplace' apply only to results and to arguments with 'rw'");
    no("f(x: f32[n], y: f32[n] ^inplace(x))", "'alias' and 'inplace' apply only to results and to arguments with 'rw'");
    no("f() -> ^None", "a function without results is written without '->'");
    no("^__init__()", "function names that start with '__' are reserved for the runtime");
    no("f(x: f32[n] rw ^inplace(x))", "inplace(x) does not name another tensor argument");
    no("f(n: int, x: f32[n]) -> f32[n] ^inplace(n)", "inplace(n) does not name another tensor argument");
    no("f(x: f32[n]) -> y: f32[n] ^inplace(y)", "inplace(y) does not name another tensor argument");
    /* Of two mistakes the first. */
    no("f(x: f32[^a + 1], y: f32[b + 1])",
       "no argument determines 'a': it must be a whole dimension of an argument, or an int parameter");
}

static void test_where(void **state)
{
    (void)state;
    no("f(x: T[n]) where^", "expected a dtype variable that appears earlier");
    no("f(x: T[n]) where ^U = f32", "expected a dtype variable that appears earlier");
    no("f(x: T[n]) where T^", "expected '=' after a dtype variable");
    no("f(x: T[n]) where T = ^", "expected a dtype such as f32");
    no("f(x: T[n]) where T = ^g32", "unknown dtype 'g32'");
    no("f(x: T[n]) where T = f32, ^T = f64", "'T' is defined twice");
    no("f(x: T[n]) where T = f32 ^-> int", "expected the end of the signature or '->'");
    no("f(x: T[n], y: U[n]) where T = f32, U = ^T",
       "a dtype variable cannot be combined with other dtypes; list its dtypes in a where clause");
    no("f(x: f32|^T[n]) where T = f32",
       "a dtype variable cannot be combined with other dtypes; list its dtypes in a where clause");
    no("f() where ^T = f32", "expected a dtype variable that appears earlier");
}

/* ---------------------------------------------------------------------------------------------------------- limits */

static void says(const char *text, const char *what)
{
    tenon_signature *signature = NULL;
    FAILS(TENON_EPARSE, tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &signature, &err));
    if (!strstr(err.message, what))
        fail_msg("\"%s\" is not in \"%s\"", what, err.message);
}

static void test_too_many(void **state)
{
    (void)state;
    char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "f(");
    for (int i = 0; i < 65; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%sa%d: int", i ? ", " : "", i);
    strcpy(text + used, ")");
    says(text, "at most 64 parameters are allowed\n");
    used = (size_t)snprintf(text, sizeof text, "f() -> int");
    for (int i = 0; i < 16; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ", int");
    says(text, "at most 16 results are allowed\n");
    used = (size_t)snprintf(text, sizeof text, "f(");
    for (int i = 0; i < 33; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%sa%d: int", i ? ", " : "", i);
    used += (size_t)snprintf(text + used, sizeof text - used, ") -> f32[a0");
    for (int i = 1; i < 33; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " + a%d", i);
    strcpy(text + used, "]");
    says(text, "at most 32 names are allowed\n");
    used = (size_t)snprintf(text, sizeof text, "f(x: f32[n");
    for (int i = 0; i < 80; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " +0");
    strcpy(text + used, "])");
    says(text, "the expressions of a spec have at most 64 operations\n");
    used = (size_t)snprintf(text, sizeof text, "f(x: f32[n%*s])", 250, "");
    says(text, "a spec has at most 255 characters\n");
    char parentheses[4096];
    memset(parentheses, '(', sizeof parentheses);
    memcpy(parentheses, "f(x: f32[", 9);
    parentheses[sizeof parentheses - 1] = '\0';
    says(parentheses, "a spec has at most 255 characters\n");
}

static void test_only_the_part_around_the_mistake_is_shown(void **state)
{
    (void)state;
    char text[512];
    snprintf(text, sizeof text, "f(a: str = '%0150d', b: wrong, c: str = '%0150d')", 1, 2);
    tenon_signature *signature = NULL;
    FAILS(TENON_EPARSE, tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &signature, &err));
    char wanted[512], zeros[61];
    memset(zeros, '0', 60);
    zeros[60] = '\0';
    snprintf(wanted, sizeof wanted,
             "tenon_signature_alloc(): unknown dtype 'wrong'\n  ...%.*s1', b: wrong, c: str = '%.*s...\n  "
             "%*s^",
             60 - 7, zeros, 120 - 60 - 17, zeros, 63, "");
    assert_string_equal(err.message, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_reserved_words),
        cmocka_unit_test(test_keyword_only),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_enums_and_handles),
        cmocka_unit_test(test_a_string_ends_in_its_line),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_a_long_choice_is_cut_between_characters),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_names_without_a_value),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_only_the_part_around_the_mistake_is_shown),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
