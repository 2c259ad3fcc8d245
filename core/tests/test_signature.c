/* What a signature compiles to. What does not compile is in test_signature_mistakes.c, calls are in
 * test_signature_match.c. */
#include "support.h"

#include "check.h"

#include <locale.h>
#include <math.h>

static tenon_signature *compiled(const char *text)
{
    tenon_signature *signature = NULL;
    OK(tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &signature, &err));
    assert_non_null(signature);
    return signature;
}

/* The kind and flags of a parameter or result, and its type as it is written. */
static void is(const tenon_parameter *item, const char *name, uint32_t kind, uint32_t flags, const char *type)
{
    if (name)
        assert_string_equal(item->name, name);
    else
        assert_null(item->name);
    assert_int_equal(item->kind, kind);
    assert_int_equal(item->flags, flags);
    assert_string_equal(item->type, type);
    assert_int_equal(item->spec != NULL, kind == TENON_KIND_TENSOR);
    assert_int_equal(item->choices != NULL, kind == TENON_KIND_ENUM);
    assert_int_equal(item->handle != NULL, kind == TENON_KIND_HANDLE);
    assert_int_equal(item->value.reserved, 0);
}

static void test_the_smallest(void **state)
{
    (void)state;
    tenon_signature *s = compiled(" \n\tf ( ) \n");
    assert_string_equal(s->name, "f");
    assert_string_equal(s->text, "f ( )");
    assert_int_equal(s->nparams + s->npositional + s->nrequired + s->nresults + s->ntensors + s->nwritten, 0);
    assert_int_equal(s->names.ndims + s->names.nstars + s->names.ntypes, 0);
    assert_false(s->named_results || s->open_results);
    tenon_signature_release(s);
}

static void test_every_type(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(a: int, b: float, c: bool, d: str, e: 'x'|\"y z\"|'', g: ints, h: floats, "
                                  "i: ints[3], j: floats[1024], k: handle('Index'), l: f32[n, 2] rw c, m: bool[], "
                                  "o: bool|u8 [])");
    const tenon_parameter *p = s->params;
    is(p++, "a", TENON_KIND_INT, 0, "int");
    is(p++, "b", TENON_KIND_FLOAT, 0, "float");
    is(p++, "c", TENON_KIND_BOOL, 0, "bool");
    is(p++, "d", TENON_KIND_STR, 0, "str");
    is(p, "e", TENON_KIND_ENUM, 0, "'x'|\"y z\"|''");
    assert_int_equal(p->count, 3);
    assert_string_equal(p->choices[0], "x");
    assert_string_equal(p->choices[1], "y z");
    assert_string_equal(p++->choices[2], "");
    is(p, "g", TENON_KIND_INTS, 0, "ints");
    assert_int_equal(p++->count, -1);
    is(p, "h", TENON_KIND_FLOATS, 0, "floats");
    assert_int_equal(p++->count, -1);
    is(p, "i", TENON_KIND_INTS, 0, "ints[3]");
    assert_int_equal(p++->count, 3);
    is(p, "j", TENON_KIND_FLOATS, 0, "floats[1024]");
    assert_int_equal(p++->count, 1024);
    is(p, "k", TENON_KIND_HANDLE, 0, "handle('Index')");
    assert_string_equal(p++->handle, "Index");
    is(p, "l", TENON_KIND_TENSOR, 0, "f32[n, 2] rw c");
    assert_int_equal(p->spec->flags, TENON_SPEC_WRITE | TENON_SPEC_C);
    assert_int_equal(p->spec->ndims, 2);
    assert_string_equal(p++->spec->text, "f32[n, 2] rw c");
    is(p++, "m", TENON_KIND_TENSOR, 0, "bool[]");
    is(p, "o", TENON_KIND_TENSOR, 0, "bool|u8 []");
    assert_int_equal(p->spec->dtypes.count, 2);
    assert_int_equal(s->nparams, 13);
    assert_int_equal(s->npositional, 13);
    assert_int_equal(s->nrequired, 13);
    assert_int_equal(s->ntensors, 3);
    assert_int_equal(s->nwritten, 1);
    for (int32_t i = 0; i < s->nparams; i++) {
        assert_int_equal(s->params[i].dim, -1);
        assert_null(s->params[i].literal);
        assert_int_equal(s->params[i].value.kind, TENON_KIND_NONE);
    }
    tenon_signature_release(s);
}

static void test_optional_is_none_by_default(void **state)
{
    (void)state;
    tenon_signature *s =
        compiled("f(a: int?, b: float ?, c: bool?, d: str?, e: 'x'?, g: ints?, h: floats[2]?, k: handle(\"I\")?, "
                 "l: f32[n]? rw)");
    static const uint32_t kinds[] = {TENON_KIND_INT,    TENON_KIND_FLOAT,  TENON_KIND_BOOL,
                                     TENON_KIND_STR,    TENON_KIND_ENUM,   TENON_KIND_INTS,
                                     TENON_KIND_FLOATS, TENON_KIND_HANDLE, TENON_KIND_TENSOR};
    assert_int_equal(s->nparams, COUNT(kinds));
    for (size_t i = 0; i < COUNT(kinds); i++) {
        assert_int_equal(s->params[i].kind, kinds[i]);
        assert_int_equal(s->params[i].flags, TENON_PARAMETER_OPTIONAL | TENON_PARAMETER_DEFAULT);
        assert_int_equal(s->params[i].value.kind, TENON_KIND_NONE);
        assert_int_equal(s->params[i].value.flags, TENON_VALUE_DEFAULT);
        assert_null(s->params[i].literal);
    }
    assert_string_equal(s->params[1].type, "float ?");
    assert_string_equal(s->params[8].type, "f32[n]? rw");
    assert_int_equal(s->nrequired, 0);
    assert_int_equal(s->npositional, 9);
    tenon_signature_release(s);
}

/* The default of the only parameter. */
static const tenon_parameter *with_default(tenon_signature **room, const char *text)
{
    tenon_signature_release(*room);
    *room = compiled(text);
    const tenon_parameter *item = (*room)->params;
    assert_int_equal(item->value.flags, TENON_VALUE_DEFAULT);
    assert_true(item->flags & TENON_PARAMETER_DEFAULT);
    assert_int_equal((*room)->nrequired, 0);
    return item;
}

static int64_t default_int(tenon_signature **room, const char *literal)
{
    char text[128];
    snprintf(text, sizeof text, "f(a: int = %s)", literal);
    const tenon_parameter *item = with_default(room, text);
    assert_int_equal(item->value.kind, TENON_KIND_INT);
    assert_string_equal(item->literal, literal);
    return item->value.as.integer;
}

static double default_float(tenon_signature **room, const char *literal)
{
    char text[200];
    snprintf(text, sizeof text, "f(a: float=%s)", literal);
    const tenon_parameter *item = with_default(room, text);
    assert_int_equal(item->value.kind, TENON_KIND_FLOAT);
    assert_string_equal(item->literal, literal);
    return item->value.as.number;
}

static void test_defaults_that_are_numbers(void **state)
{
    (void)state;
    tenon_signature *room = NULL;
    assert_int_equal(default_int(&room, "0"), 0);
    assert_int_equal(default_int(&room, "-0"), 0);
    assert_int_equal(default_int(&room, "42"), 42);
    assert_int_equal(default_int(&room, "-7"), -7);
    assert_true(default_int(&room, "9223372036854775807") == INT64_MAX);
    assert_true(default_int(&room, "-9223372036854775808") == INT64_MIN);
    assert_true(default_float(&room, "1") == 1.0);
    assert_true(default_float(&room, "-2.5e3") == -2500.0);
    assert_true(default_float(&room, "1E+2") == 100.0);
    assert_true(default_float(&room, "1e-3") == 1e-3);
    assert_true(default_float(&room, ".5") == 0.5);
    assert_true(default_float(&room, "5.") == 5.0);
    assert_true(default_float(&room, "0.1") == 0.1);
    assert_true(default_float(&room, "1e999") == (double)INFINITY); /* as in Python */
    assert_true(signbit(default_float(&room, "-0.0")));
    tenon_signature_release(room);
}

static void test_defaults_of_the_other_kinds(void **state)
{
    (void)state;
    tenon_signature *room = NULL;
    const tenon_parameter *item = with_default(&room, "f(a: bool = True )");
    assert_int_equal(item->value.kind, TENON_KIND_BOOL);
    assert_int_equal(item->value.as.integer, 1);
    assert_string_equal(item->literal, "True");
    assert_int_equal(with_default(&room, "f(a: bool=False)")->value.as.integer, 0);
    item = with_default(&room, "f(a: str = 'it is \"so\"')");
    assert_int_equal(item->value.kind, TENON_KIND_STR);
    assert_string_equal(item->value.as.list.data, "it is \"so\"");
    assert_int_equal(item->value.as.list.length, 10);
    assert_string_equal(item->literal, "'it is \"so\"'");
    item = with_default(&room, "f(a: str = \"gr\xc3\xbc\xc3\x9f\")");
    assert_int_equal(item->value.as.list.length, 6); /* bytes */
    assert_string_equal(item->value.as.list.data, "gr\xc3\xbc\xc3\x9f");
    assert_int_equal(with_default(&room, "f(a: str = '')")->value.as.list.length, 0);
    item = with_default(&room, "f(a: 'mean'|'sum'|'max' = \"sum\")");
    assert_int_equal(item->value.kind, TENON_KIND_ENUM);
    assert_int_equal(item->value.as.integer, 1);
    assert_string_equal(item->literal, "\"sum\"");
    item = with_default(&room, "f(a: int? = 3)");
    assert_int_equal(item->value.kind, TENON_KIND_INT);
    assert_int_equal(item->flags, TENON_PARAMETER_OPTIONAL | TENON_PARAMETER_DEFAULT);
    item = with_default(&room, "f(a: f32[n]? c = None)");
    assert_int_equal(item->value.kind, TENON_KIND_NONE);
    assert_string_equal(item->type, "f32[n]? c");
    assert_string_equal(item->literal, "None");
    assert_int_equal(with_default(&room, "f(a: handle('I')? = None)")->value.kind, TENON_KIND_NONE);
    tenon_signature_release(room);
}

static void test_defaults_that_are_lists(void **state)
{
    (void)state;
    tenon_signature *room = NULL;
    const tenon_parameter *item = with_default(&room, "f(a: ints = (1, -2,3))");
    const int64_t *ints = item->value.as.list.data;
    assert_int_equal(item->value.kind, TENON_KIND_INTS);
    assert_int_equal(item->value.as.list.length, 3);
    assert_true(ints[0] == 1 && ints[1] == -2 && ints[2] == 3);
    assert_string_equal(item->literal, "(1, -2,3)");
    item = with_default(&room, "f(a: floats[2] = [.5, 2])");
    const double *floats = item->value.as.list.data;
    assert_int_equal(item->value.kind, TENON_KIND_FLOATS);
    assert_int_equal(item->value.as.list.length, 2);
    assert_true(floats[0] == 0.5 && floats[1] == 2.0);
    assert_int_equal(with_default(&room, "f(a: ints = (7,))")->value.as.list.length, 1);
    assert_int_equal(with_default(&room, "f(a: ints = [7])")->value.as.list.length, 1);
    assert_int_equal(with_default(&room, "f(a: ints = [7, 8, ])")->value.as.list.length, 2);
    assert_int_equal(with_default(&room, "f(a: ints = ())")->value.as.list.length, 0);
    assert_int_equal(with_default(&room, "f(a: floats? = [])")->value.as.list.length, 0);
    /* Lists of one signature do not share their room. */
    item = with_default(&room, "f(a: ints = (1, 2), b: floats = (0.5, 0.25), c: ints = [9])");
    assert_int_equal(((const int64_t *)item[0].value.as.list.data)[1], 2);
    assert_true(((const double *)item[1].value.as.list.data)[1] == 0.25);
    assert_int_equal(((const int64_t *)item[2].value.as.list.data)[0], 9);
    tenon_signature_release(room);
}

static void test_keyword_only(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(a: int, b: int = 1, *, c: float = 2, d: str, e: f32[n]? rw)");
    is(&s->params[1], "b", TENON_KIND_INT, TENON_PARAMETER_DEFAULT, "int");
    is(&s->params[2], "c", TENON_KIND_FLOAT, TENON_PARAMETER_KEYWORD_ONLY | TENON_PARAMETER_DEFAULT, "float");
    is(&s->params[3], "d", TENON_KIND_STR, TENON_PARAMETER_KEYWORD_ONLY, "str"); /* required, behind a default */
    is(&s->params[4], "e", TENON_KIND_TENSOR,
       TENON_PARAMETER_KEYWORD_ONLY | TENON_PARAMETER_OPTIONAL | TENON_PARAMETER_DEFAULT, "f32[n]? rw");
    assert_int_equal(s->nparams, 5);
    assert_int_equal(s->npositional, 2);
    assert_int_equal(s->nrequired, 1);
    assert_int_equal(s->ntensors, 1);
    assert_int_equal(s->nwritten, 1);
    tenon_signature_release(s);
    s = compiled("f(*, a: int)");
    assert_int_equal(s->npositional, 0);
    assert_int_equal(s->params[0].flags, TENON_PARAMETER_KEYWORD_ONLY);
    tenon_signature_release(s);
}

/* tenon_dim counts in this order. */
static void names_are(const char *text, const char *dims, const char *stars, const char *types)
{
    tenon_signature *s = compiled(text);
    char got[3][200] = {"", "", ""};
    for (int32_t i = 0; i < s->names.ndims; i++)
        strcat(strcat(got[0], s->names.dims[i]), " ");
    for (int32_t i = 0; i < s->names.nstars; i++)
        strcat(strcat(got[1], s->names.stars[i]), " ");
    for (int32_t i = 0; i < s->names.ntypes; i++)
        strcat(strcat(got[2], s->names.types[i]), " ");
    assert_string_equal(got[0], dims);
    assert_string_equal(got[1], stars);
    assert_string_equal(got[2], types);
    for (int32_t i = 0; i < s->nparams; i++) {
        if (s->params[i].dim >= 0)
            assert_string_equal(s->names.dims[s->params[i].dim], s->params[i].name);
    }
    tenon_signature_release(s);
}

static void test_names_in_the_order_of_their_appearance(void **state)
{
    (void)state;
    names_are("f(x: f32[n, k], y: f32[k, m]) -> f32[n, m]", "n k m ", "", "");
    names_are("f(x: f32[k + n], y: f32[n], z: f32[k])", "k n ", "", "");
    names_are("f(n: int, x: f32[m, n])", "n m ", "", "");
    names_are("f(x: f32[m, n], n: int)", "m n ", "", "");
    names_are("f(a: int, m: int, x: f32[k]) -> f32[m]", "m k ", "", ""); /* a is no dimension */
    names_are("f(n: int? = 3, *, m: int = 1) -> f32[n + m]", "n m ", "", "");
    names_are("f(x: f32[n], n: float)", "n ", "", ""); /* only an int binds */
    names_are("f(x: U[*b, n], y: T[*c, n] f) -> T[*b] where T = any, U = real|f32", "n ", "b c ", "U T ");
    names_are("f(n: int)", "", "", "");
}

static void test_ints_that_bind(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(k: int, x: f32[m], n: int, m: float = 2) -> f32[n, k]");
    assert_int_equal(s->params[0].dim, 0);
    assert_int_equal(s->params[1].dim, -1);
    assert_int_equal(s->params[2].dim, 2);
    assert_int_equal(s->params[3].dim, -1);
    assert_true(s->binds_ints);
    tenon_signature_release(s);
    s = compiled("f(k: int, x: f32[n])");
    assert_false(s->binds_ints);
    tenon_signature_release(s);
}

static void test_where(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(x: T[n], y: U[n]) -> T[n], U[] where U = f32|bf16 , T = integer");
    assert_int_equal(s->params[0].spec->variable, 0);
    assert_int_equal(s->params[1].spec->variable, 1);
    assert_int_equal(s->results[0].spec->variable, 0);
    assert_int_equal(s->results[1].spec->variable, 1);
    assert_int_equal(s->names.defined, 3);
    assert_int_equal(s->names.allowed[0].kinds, 2);
    assert_int_equal(s->names.allowed[1].count, 2);
    assert_true(tenon_dtype_equal(s->names.allowed[1].items[1], TENON_BF16));
    assert_string_equal(s->results[1].type, "U[]");
    tenon_signature_release(s);
    s = compiled("where(where: T[n]) -> int where T = any"); /* no reserved word */
    assert_string_equal(s->params[0].name, "where");
    tenon_signature_release(s);
}

/* Words that only other languages reserve: their hosts rename them. */
static void test_words_that_are_not_reserved(void **state)
{
    (void)state;
    static const char *const words[] = {"after",  "case", "catch", "do",   "end",  "false", "fn",   "match", "nil",
                                        "rescue", "true", "type",  "when", "self", "int",   "auto", "struct"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *word = words[i];
        char text[128];
        snprintf(text, sizeof text, "%s(%s: int, *, %s_: f32[%s]) -> %s: int, %s_: f32[%s]", word, word, word, word,
                 word, word, word);
        tenon_signature *s = compiled(text);
        assert_string_equal(s->name, word);
        assert_string_equal(s->params[0].name, word);
        assert_string_equal(s->results[0].name, word);
        tenon_signature_release(s);
    }
}

static void test_results(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(x: f32[n]) -> f32[n + 1] c, int, float?, bool, str, 'a'|'b', handle('I'), "
                                  "u8[?, n], f32[n]?, f32[] dense cuda|cpu alias");
    const tenon_parameter *r = s->results;
    is(&r[0], NULL, TENON_KIND_TENSOR, 0, "f32[n + 1] c");
    is(&r[1], NULL, TENON_KIND_INT, 0, "int");
    is(&r[2], NULL, TENON_KIND_FLOAT, TENON_PARAMETER_OPTIONAL, "float?");
    is(&r[3], NULL, TENON_KIND_BOOL, 0, "bool");
    is(&r[4], NULL, TENON_KIND_STR, 0, "str");
    is(&r[5], NULL, TENON_KIND_ENUM, 0, "'a'|'b'");
    assert_int_equal(r[5].count, 2);
    is(&r[6], NULL, TENON_KIND_HANDLE, 0, "handle('I')");
    assert_string_equal(r[6].handle, "I");
    is(&r[7], NULL, TENON_KIND_TENSOR, TENON_PARAMETER_OPEN, "u8[?, n]");
    is(&r[8], NULL, TENON_KIND_TENSOR, TENON_PARAMETER_OPEN | TENON_PARAMETER_OPTIONAL, "f32[n]?");
    is(&r[9], NULL, TENON_KIND_TENSOR, 0, "f32[] dense cuda|cpu alias");
    /* As a constraint on out=. */
    assert_int_equal(r[0].spec->flags, TENON_SPEC_WRITE | TENON_SPEC_C | TENON_SPEC_ANYWHERE);
    assert_int_equal(r[9].spec->flags, TENON_SPEC_WRITE | TENON_SPEC_C | TENON_SPEC_DENSE | TENON_SPEC_ALIAS);
    assert_int_equal(s->nresults, 10);
    assert_int_equal(s->ntensors, 1);
    assert_int_equal(s->nwritten, 0);
    assert_false(s->named_results);
    assert_true(s->open_results);
    tenon_signature_release(s);
}

static void test_named_results(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(x: f32[n]) -> values: f32[n], x : int, n: handle('I') ?");
    is(&s->results[0], "values", TENON_KIND_TENSOR, 0, "f32[n]");
    is(&s->results[1], "x", TENON_KIND_INT, 0, "int"); /* a parameter may have the same name */
    is(&s->results[2], "n", TENON_KIND_HANDLE, TENON_PARAMETER_OPTIONAL, "handle('I') ?");
    assert_true(s->named_results);
    assert_false(s->open_results);
    assert_int_equal(s->names.ndims, 1);
    tenon_signature_release(s);
    s = compiled("f(x: f32[n])->y:f32[n]inplace(x)");
    assert_string_equal(s->results[0].spec->inplace, "x");
    assert_int_equal(s->results[0].spec->flags,
                     TENON_SPEC_WRITE | TENON_SPEC_C | TENON_SPEC_ANYWHERE | TENON_SPEC_INPLACE);
    tenon_signature_release(s);
}

/* ---------------------------------------------------------------------------------------------------------- limits */

/* "f(a0: int, a1: int, …) -> int, int, …" */
static char *many(int nparams, int nresults, const char *type)
{
    static char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "f(");
    for (int i = 0; i < nparams; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%sa%d: %s", i ? ", " : "", i, type);
    used += (size_t)snprintf(text + used, sizeof text - used, ")");
    for (int i = 0; i < nresults; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : " -> ", type);
    return text;
}

static void test_as_many_as_there_may_be(void **state)
{
    (void)state;
    tenon_signature *s = compiled(many(TENON_MAX_PARAMETERS, TENON_MAX_RESULTS, "f32[n]"));
    assert_int_equal(s->nparams, 64);
    assert_int_equal(s->ntensors, 64);
    assert_int_equal(s->nresults, 16);
    assert_string_equal(s->params[63].name, "a63");
    assert_string_equal(s->results[15].spec->text, "f32[n]");
    tenon_signature_release(s);
}

static void test_names_of_31_characters(void **state)
{
    (void)state;
    const char *name = "a23456789012345678901234567890z";
    assert_int_equal(strlen(name), 31);
    char text[400];
    snprintf(text, sizeof text, "%s(%s: int, y: f32[%s] rw inplace(x), x: f32[*%s]) -> %s: int", name, name, name, name,
             name);
    tenon_signature *s = compiled(text);
    assert_string_equal(s->name, name);
    assert_string_equal(s->params[0].name, name);
    assert_int_equal(s->params[0].dim, 0);
    assert_string_equal(s->results[0].name, name);
    tenon_signature_release(s);
}

static void test_the_longest_text(void **state)
{
    (void)state;
    char text[8193];
    memset(text, ' ', sizeof text);
    memcpy(text, "f(", 2);
    text[8190] = ')';
    text[8191] = '\0';
    tenon_signature *s = compiled(text);
    assert_int_equal(strlen(s->text), 8191);
    tenon_signature_release(s);
    text[8191] = ' ';
    text[8192] = '\0';
    s = NULL;
    FAILS_SAYING(TENON_EPARSE, "tenon_signature_alloc(): a signature has at most 8191 characters; this one has 8192",
                 tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &s, &err));
    assert_null(s);
}

/* A long enum or list fills all of the room that was counted for it. */
static void test_long_pieces(void **state)
{
    (void)state;
    char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "f(a: '0'");
    for (int i = 1; i < 1000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "|'%d'", i);
    snprintf(text + used, sizeof text - used, " = '999', b: str = '%s')", "x");
    tenon_signature *s = compiled(text);
    assert_int_equal(s->params[0].count, 1000);
    assert_string_equal(s->params[0].choices[999], "999");
    assert_int_equal(s->params[0].value.as.integer, 999);
    tenon_signature_release(s);
    used = (size_t)snprintf(text, sizeof text, "f(a: ints[1024] = (");
    for (int i = 0; i < 1024; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%d,", i);
    snprintf(text + used, sizeof text - used, "))");
    s = compiled(text);
    assert_int_equal(s->params[0].value.as.list.length, 1024);
    assert_int_equal(((const int64_t *)s->params[0].value.as.list.data)[1023], 1023);
    tenon_signature_release(s);
}

/* ---------------------------------------------------------------------------------------------- memory and locales */

static void test_nothing_points_into_the_text(void **state)
{
    (void)state;
    const char *source = "f(c: handle('I'), x: f32[n], a: 'x'|'y' = 'y', b: str = 'z') -> r: f32[n]";
    char text[128];
    strcpy(text, source);
    tenon_signature *s = compiled(text);
    memset(text, '#', sizeof text);
    assert_string_equal(s->text, source);
    assert_string_equal(s->params[0].handle, "I");
    assert_string_equal(s->params[2].choices[0], "x");
    assert_string_equal(s->params[3].value.as.list.data, "z");
    assert_string_equal(s->results[0].spec->text, "f32[n]");
    tenon_signature_release(s);
}

static void test_allocation_fails(void **state)
{
    (void)state;
    counting c;
    tenon_signature *const untouched = (tenon_signature *)&c;
    for (int64_t fail_at = 1;; fail_at++) {
        tenon_signature *s = untouched;
        counting_use(&c);
        c.fail_at = fail_at;
        check_forget();
        tenon_status status =
            tenon_signature_alloc("f(x: f32[n], a: ints = (1, 2)) -> f32[n]", NULL, TENON_HOST_LAYOUT, &s, &err);
        if (status) {
            assert_int_equal(status, TENON_ENOMEM);
            assert_non_null(strstr(err.message, "tenon_signature_alloc(): no memory for "));
            assert_ptr_equal(s, untouched);
            counting_end(&c);
            continue;
        }
        assert_int_equal(c.made, fail_at - 1);
        assert_true(c.made > 0);
        assert_int_equal(((const int64_t *)s->params[1].value.as.list.data)[1], 2); /* in memory that was not zero */
        tenon_signature_release(s);
        counting_end(&c);
        break;
    }
    /* What does not compile leaves nothing behind. */
    counting_use(&c);
    tenon_signature *s = untouched;
    FAILS(TENON_EPARSE, tenon_signature_alloc("f(x: f32[n + 1])", NULL, TENON_HOST_LAYOUT, &s, &err));
    assert_ptr_equal(s, untouched);
    assert_true(c.made > 0);
    counting_end(&c);
}

static void test_null_arguments(void **state)
{
    (void)state;
    tenon_signature *s = NULL;
    tenon_signature_release(NULL);
    FAILS_SAYING(TENON_EINVAL, "tenon_signature_alloc(): argument 'text' is NULL",
                 tenon_signature_alloc(NULL, NULL, TENON_HOST_LAYOUT, &s, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_signature_alloc(): argument 'out' is NULL",
                 tenon_signature_alloc("f()", NULL, TENON_HOST_LAYOUT, NULL, &err));
    assert_null(s);
}

static void test_numbers_under_another_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        skip();
    assert_string_equal(localeconv()->decimal_point, ",");
    tenon_signature *room = NULL;
    assert_true(default_float(&room, "1.5") == 1.5);
    assert_true(default_float(&room, "-2.5e3") == -2500.0);
    tenon_signature_release(room);
    FAILS(TENON_EPARSE, tenon_signature_alloc("f(a: float = 1,5)", NULL, TENON_HOST_LAYOUT, &room, &err));
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_smallest),
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_optional_is_none_by_default),
        cmocka_unit_test(test_defaults_that_are_numbers),
        cmocka_unit_test(test_defaults_of_the_other_kinds),
        cmocka_unit_test(test_defaults_that_are_lists),
        cmocka_unit_test(test_keyword_only),
        cmocka_unit_test(test_names_in_the_order_of_their_appearance),
        cmocka_unit_test(test_ints_that_bind),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_words_that_are_not_reserved),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_named_results),
        cmocka_unit_test(test_as_many_as_there_may_be),
        cmocka_unit_test(test_names_of_31_characters),
        cmocka_unit_test(test_the_longest_text),
        cmocka_unit_test(test_long_pieces),
        cmocka_unit_test(test_nothing_points_into_the_text),
        cmocka_unit_test(test_allocation_fails),
        cmocka_unit_test(test_null_arguments),
        cmocka_unit_test(test_numbers_under_another_locale),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
