/* The kinds uint, complex, bytes, strs, dtype and choices of integers: the grammar, the match, and results. */
#include "driver.h"

/* ---------------------------------------------------------------------------------------------------------- grammar */

/* `marked` is the text with a '^' in front of what is wrong. */
static void no(const char *marked, const char *what)
{
    char text[256], message[600];
    const char *caret = strchr(marked, '^');
    size_t at = (size_t)(caret - marked);
    snprintf(text, sizeof text, "%.*s%s", (int)at, marked, caret + 1);
    snprintf(message, sizeof message, "tenon_signature_alloc(): %s\n  %s\n  %*s^", what, text, (int)at, "");
    tenon_signature *signature = NULL;
    FAILS_SAYING(TENON_EPARSE, message, tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &signature, &err));
}

static void test_types(void **state)
{
    static const struct {
        const char *type;
        uint32_t kind;
    } all[] = {{"uint", TENON_KIND_UINT}, {"complex", TENON_KIND_COMPLEX}, {"bytes", TENON_KIND_BYTES},
               {"strs", TENON_KIND_STRS}, {"dtype", TENON_KIND_DTYPE},     {"1|2|4", TENON_KIND_INT},
               {"-1 | 1", TENON_KIND_INT}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[100], optional[40];
        snprintf(optional, sizeof optional, "%s?", all[i].type);
        snprintf(text, sizeof text, "f(x: f32[n], a: %s, b: %s)", all[i].type, optional);
        tenon_signature *s = compiled(text);
        assert_int_equal(s->params[1].kind, all[i].kind);
        assert_string_equal(s->params[1].type, all[i].type);
        assert_int_equal(s->params[2].kind, all[i].kind);
        assert_string_equal(s->params[2].type, optional);
        assert_int_equal(s->params[1].flags, 0);
        assert_int_equal(s->params[2].flags, TENON_PARAMETER_OPTIONAL | TENON_PARAMETER_DEFAULT);
        assert_int_not_equal(s->plan, TENON_PLAN_PLAIN);
        tenon_signature_release(s);
    }
    static const char *const names[] = {"uint", "complex", "bytes", "strs", "dtype", "ints", "floats"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) { /* they are legal names, too */
        char text[100];
        snprintf(text, sizeof text, "%s(%s: int) -> %s: int", names[i], names[i], names[i]);
        tenon_signature_release(compiled(text));
    }
}

static void test_integer_choices(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(a: 1|2|4, b: ints = (7, 8), c: -9223372036854775808|0|9223372036854775807 = 0)");
    const tenon_parameter *a = &s->params[0], *c = &s->params[2];
    assert_true(a->checked && c->checked && !s->params[1].checked);
    assert_true(a->count == 3 && a->integers[0] == 1 && a->integers[1] == 2 && a->integers[2] == 4);
    assert_true(c->integers[0] == INT64_MIN && c->integers[1] == 0 && c->integers[2] == INT64_MAX);
    assert_true(c->value.kind == TENON_KIND_INT && c->value.as.integer == 0);
    assert_true(((const int64_t *)s->params[1].value.as.list.data)[1] == 8);
    tenon_signature_release(s);
    no("f(a: 1^)", "expected '|' and another integer");
    no("f(a: 1|^)", "expected an integer");
    no("f(a: 1|^'x')", "expected an integer");
    no("f(a: ^1.5|2)", "expected an integer");
    no("f(a: 1|2|^1)", "duplicate choice 1");
    no("f(a: 0|^-0)", "duplicate choice 0");
    no("f(a: 1|2 = ^3)", "3 is not one of 1|2");
}

static void test_defaults(void **state)
{
    (void)state;
    tenon_signature *s =
        compiled("f(a: uint = 18446744073709551615, b: complex = 1.5, c: complex = -2j, d: complex = 1e3 - .5j,"
                 " e: dtype = 'float64', g: strs = ('a', \"it's\",), h: strs = [], i: bytes? = None)");
    assert_true((uint64_t)s->params[0].value.as.integer == UINT64_MAX);
    assert_string_equal(s->params[0].literal, "18446744073709551615");
    assert_true(s->params[1].value.as.parts[0] == 1.5 && s->params[1].value.as.parts[1] == 0);
    assert_true(s->params[2].value.as.parts[0] == 0 && s->params[2].value.as.parts[1] == -2);
    assert_true(s->params[3].value.as.parts[0] == 1000 && s->params[3].value.as.parts[1] == -0.5);
    assert_string_equal(s->params[3].literal, "1e3 - .5j");
    assert_true(tenon_dtype_equal(s->params[4].value.as.dtype, TENON_F64));
    const tenon_text *texts = s->params[5].value.as.list.data;
    assert_int_equal(s->params[5].value.as.list.length, 2);
    assert_true(texts[0].length == 1 && strcmp(texts[0].data, "a") == 0);
    assert_true(texts[1].length == 4 && strcmp(texts[1].data, "it's") == 0);
    assert_int_equal(s->params[6].value.as.list.length, 0);
    assert_int_equal(s->params[7].value.kind, TENON_KIND_NONE);
    for (int32_t i = 0; i < 7; i++)
        assert_int_equal(s->params[i].value.kind, s->params[i].kind);
    tenon_signature_release(s);
    no("f(a: uint = ^-1)", "a uint cannot be negative");
    no("f(a: uint = ^1.0)", "expected an integer");
    no("f(a: uint = ^18446744073709551616)", "this integer does not fit in 64 bits");
    no("f(a: complex = ^j)", "expected a complex number such as 1, 2j or 1+2j");
    no("f(a: complex = ^1+2)", "expected a complex number such as 1, 2j or 1+2j");
    no("f(a: complex = 1j^+2)", "expected ')' or ',' after a parameter");
    no("f(a: complex = ^1+-2j)", "expected a complex number such as 1, 2j or 1+2j");
    no("f(a: complex = ^1jj)", "expected a complex number such as 1, 2j or 1+2j");
    no("f(a: bytes = ^'x')", "bytes can only have None as its default");
    no("f(a: strs = ^'x')", "expected a list such as ('a', 'b')");
    no("f(a: strs = (^1, 2))", "expected a string in quotes");
    no("f(a: strs = ('a'^))", "a list of one string is written ('a',) or ['a']");
    no("f(a: dtype = ^'x32')", "unknown dtype 'x32'");
    no("f(a: dtype = ^f32)", "expected a string in quotes");
}

static void test_dtype_variables(void **state)
{
    (void)state;
    tenon_signature *s = compiled("zeros(n: int, t: dtype(T) = 'f64') -> T[n] where T = f32|f64");
    assert_true(s->params[1].variable == 0 && s->params[1].checked && s->params[0].variable == -1);
    tenon_signature_release(s);
    no("f(a: ^dtype(T))", "'T' needs a where clause, such as \"where T = f32|f64\"");
    no("f(a: dtype(^t)) where t = f32", "expected a dtype variable, which starts with a capital letter");
    no("f(a: dtype(T ^where T = f32", "expected ')' after the dtype variable");
    no("f(a: ^dtype(T) = 'i8') where T = f32|f64", "the default 'i8' is not one of the dtypes of 'T'");
}

/* ------------------------------------------------------------------------------------------------------------ match */

static tenon_value dtype_value(tenon_dtype dtype)
{
    return (tenon_value){.kind = TENON_KIND_DTYPE, .as.dtype = dtype};
}

static void test_match(void **state)
{
    (void)state;
    call c;
    float data[4] = {0};
    int64_t n = 4, dims[2];
    tenon_view x;
    tenon_dl_tensor source = {.data = data, .dtype = TENON_F32, .ndim = 1, .device = {TENON_CPU, 0}, .shape = &n};
    OK(tenon_view_init(&x, &source, 0, dims, &err));

    const char *choice = "f(k: 1|2|4, x: f32[n])";
    fits(&c, choice, ARGS(INT(4), tensor_value(&x)));
    done(&c);
    misfit(choice, ARGS(INT(3), tensor_value(&x)), TENON_EINVAL, "f(): argument 'k': expected 1|2|4, got 3");
    fits(&c, "f(x: f32[n], k: 1|2?)", ARGS(tensor_value(&x), NONE));
    done(&c);

    const char *size = "f(k: 2|4, x: f32[k]) -> f32[k, k]";
    fits(&c, size, ARGS(INT(4), tensor_value(&x)));
    assert_true(c.bindings.dims[0] == 4);
    done(&c);
    misfit(size, ARGS(INT(3), tensor_value(&x)), TENON_EINVAL, "f(): argument 'k': expected 2|4, got 3");
    misfit(size, ARGS(INT(2), tensor_value(&x)), TENON_ESHAPE,
           "f(): argument 'x': dimension 0 is 4, but k = 2 from argument 'k'");

    const char *zeros = "f(n: int, t: dtype(T)) -> T[n] where T = f32|f64";
    fits(&c, zeros, ARGS(INT(3), dtype_value(TENON_F64)));
    tenon_dtype made;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    OK(tenon_signature_result(c.signature, 0, &c.bindings, &made, &ndim, shape, &err));
    assert_true(tenon_dtype_equal(made, TENON_F64) && ndim == 1 && shape[0] == 3);
    assert_true(tenon_dtype_equal(c.bindings.types[0], TENON_F64));
    done(&c);
    misfit(zeros, ARGS(INT(3), dtype_value(TENON_I8)), TENON_EDTYPE,
           "f(): argument 't': expected dtype(T), got i8, but T is one of f32|f64");

    const char *same = "f(x: T[n], t: dtype(T)) where T = f32|f64",
               *before = "f(t: dtype(T), x: T[n]) where T = f32|f64";
    fits(&c, same, ARGS(tensor_value(&x), dtype_value(TENON_F32)));
    done(&c);
    misfit(same, ARGS(tensor_value(&x), dtype_value(TENON_F64)), TENON_EDTYPE,
           "f(): argument 't': expected dtype(T), got f64, but T = f32 from argument 'x'");
    misfit(before, ARGS(dtype_value(TENON_F64), tensor_value(&x)), TENON_EDTYPE,
           "f(): argument 'x': expected T[n], got f32[4] (torch.Tensor)\n"
           "  dtype is f32, but T = f64 from argument 't'");
}

static tenon_value bytes_value(const void *data, int64_t length)
{
    return (tenon_value){.kind = TENON_KIND_BYTES, .as.list = {data, length}};
}

/* Bytes are never written to, so a tensor that is may not be in their memory; one that is only read may. */
static void test_bytes_and_what_is_written(void **state)
{
    (void)state;
    call c;
    float data[8] = {0};
    int64_t n = 4, dims[4];
    tenon_view views[2];
    tenon_dl_tensor source = {.data = data, .dtype = TENON_F32, .ndim = 1, .device = {TENON_CPU, 0}, .shape = &n};
    OK(tenon_view_init(&views[0], &source, 0, dims, &err));
    source.data = data + 4;
    OK(tenon_view_init(&views[1], &source, 0, dims + 2, &err));
    tenon_value x = tensor_value(&views[0]), xs = {.kind = TENON_KIND_TENSORS, .as.list = {views, 2}};

    const char *one = "f(x: f32[n] rw, b: bytes)", *list = "f(b: bytes, xs: [f32[n] rw])";
    misfit(one, ARGS(x, bytes_value((char *)data + 15, 1)), TENON_EOVERLAP,
           "f(): argument 'x' shares memory with argument 'b' and is written to; pass a copy of one of them");
    fits(&c, one, ARGS(x, bytes_value(data + 4, 16))); /* right behind it */
    done(&c);
    fits(&c, one, ARGS(x, bytes_value(data, 0)));
    done(&c);
    fits(&c, "f(x: f32[n], b: bytes)", ARGS(x, bytes_value(data, 16)));
    done(&c);
    fits(&c, "f(b: bytes, x: f32[4]? rw)", ARGS(bytes_value(data, 16), NONE));
    done(&c);
    fits(&c, "f(x: f32[n] rw alias, b: bytes)", ARGS(x, bytes_value(data, 16)));
    done(&c);
    misfit(list, ARGS(bytes_value((char *)data + 31, 1), xs), TENON_EOVERLAP,
           "f(): argument 'xs[1]' shares memory with argument 'b' and is written to; pass a copy of one of them");
    fits(&c, list, ARGS(bytes_value(data + 8, 4), xs));
    done(&c);
}

/* ---------------------------------------------------------------------------------------------------------- results */

static int64_t integers[] = {1, -2, INT64_MIN};
static double floats[] = {0.5, -1};
static tenon_text texts[] = {{"a", 1}, {NULL, 0}, {"\xc3\xbc", 2}};

static tenon_status return_all(tenon_call *running)
{
    OK(tenon_return_uint(running, 0, UINT64_MAX));
    OK(tenon_return_complex(running, 1, 1, -2));
    OK(tenon_return_bytes(running, 2, "a\0b", 3));
    OK(tenon_return_ints(running, 3, integers, 3));
    OK(tenon_return_floats(running, 4, floats, 2));
    OK(tenon_return_strs(running, 5, texts, 3));
    OK(tenon_return_ints(running, 6, NULL, 0));
    OK(tenon_return_bytes(running, 7, NULL, 0));
    return TENON_OK;
}

/* Run `body` as a function of this signature, which has only results. */
static int run_function(host_frame *f, const char *text, tenon_status (*body)(tenon_call *))
{
    begin(f, text);
    f->base.call.results = f->results;
    code = body;
    return tenon_frame_run(&f->base, &client);
}

static void test_results(void **state)
{
    (void)state;
    host_frame f;
    assert_int_equal(
        run_function(&f, "f() -> uint, complex, bytes, ints, floats, strs, ints, bytes, bytes?", return_all), 0);
    for (int32_t i = 0; i < 8; i++)
        assert_int_equal(tenon_frame_has_result(&f.base, i), 1);
    assert_int_equal(tenon_frame_has_result(&f.base, 8), 0);
    assert_true((uint64_t)f.results[0].as.integer == UINT64_MAX);
    assert_true(f.results[1].as.parts[0] == 1 && f.results[1].as.parts[1] == -2);
    assert_int_equal(f.results[2].as.list.length, 3);
    assert_memory_equal(f.results[2].as.list.data, "a\0b", 3);
    assert_true(f.results[3].as.list.data != integers && f.results[3].as.list.length == 3);
    assert_memory_equal(f.results[3].as.list.data, integers, sizeof integers);
    assert_memory_equal(f.results[4].as.list.data, floats, sizeof floats);
    const tenon_text *copies = f.results[5].as.list.data;
    assert_true(copies[0].data != texts[0].data && copies[1].length == 0 && copies[2].length == 2);
    assert_string_equal(copies[0].data, "a");
    assert_string_equal(copies[1].data, "");
    assert_string_equal(copies[2].data, "\xc3\xbc");
    assert_true(f.results[6].as.list.length == 0 && f.results[7].as.list.length == 0);
    end(&f);
}

static tenon_status return_two(tenon_call *running)
{
    return tenon_return_ints(running, 0, integers, 2);
}

static tenon_status return_no_utf8(tenon_call *running)
{
    tenon_text bad[] = {{"a", 1}, {"\xff", 1}};
    return tenon_return_strs(running, 0, bad, 2);
}

static tenon_status return_null_text(tenon_call *running)
{
    tenon_text bad = {NULL, 3};
    return tenon_return_strs(running, 0, &bad, 1);
}

static tenon_status return_null_bytes(tenon_call *running)
{
    return tenon_return_bytes(running, 0, NULL, 3);
}

static tenon_status return_negative(tenon_call *running)
{
    return tenon_return_ints(running, 0, integers, -1);
}

static tenon_status return_huge(tenon_call *running)
{
    return tenon_return_ints(running, 0, integers, INT64_MAX);
}

static void test_mistakes_of_functions(void **state)
{
    (void)state;
    host_frame f;
    assert_int_equal(run_function(&f, "f() -> ints[3]", return_two), 0);
    assert_int_equal(tenon_frame_has_result(&f.base, 0), -1);
    refused(&f, TENON_REFUSED_BY_CODE, 0, TENON_EFAILED,
            "the function set result 0 to a list of 2 numbers, but it is ints[3]");
    end(&f);
    assert_int_equal(run_function(&f, "f() -> strs", return_no_utf8), 0);
    assert_int_equal(tenon_frame_has_result(&f.base, 0), -1);
    refused(&f, TENON_REFUSED_BY_CODE, 0, TENON_EFAILED, "the function set result 0 to a string that is not UTF-8");
    end(&f);
    static const struct {
        const char *text;
        tenon_status (*body)(tenon_call *);
        tenon_status status;
        const char *message;
    } all[] = {
        {"f() -> strs", return_null_text, TENON_EFAILED, "a string of result 0 is NULL or too long"},
        {"f() -> bytes", return_null_bytes, TENON_EFAILED, "result 0 is not bytes, or its data is NULL or too long"},
        {"f() -> ints", return_negative, TENON_EFAILED,
         "result 0 is not a list of numbers or strings, or its items are NULL"},
        {"f() -> ints", return_huge, TENON_ENOMEM, "no memory for a list of 9223372036854775807 items"},
        {"f() -> uint", return_two, TENON_EFAILED, "its code calls tenon_return_ints() for index 0, which is a uint"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(run_function(&f, all[i].text, all[i].body), -1);
        refused(&f, TENON_REFUSED_BY_CODE, -1, all[i].status, all[i].message);
        end(&f);
    }
}

/* ------------------------------------------------------------------------------------------- a host that makes bytes */

static char made_bytes[8];
static int nmade_bytes;

static int take_bytes(tenon_frame *base, int32_t index, const void *data, size_t length)
{
    (void)base;
    assert_int_equal(index, 0);
    memcpy(made_bytes, data, length);
    return nmade_bytes++ ? 0 : -1;
}

static tenon_status return_bytes(tenon_call *running)
{
    return tenon_return_bytes(running, 0, "abc", 3);
}

static void test_host_makes_bytes(void **state)
{
    (void)state;
    tenon_client maker = client;
    maker.take_bytes = take_bytes;
    host_frame f;
    for (int i = 0; i < 2; i++) { /* the first time it fails */
        begin(&f, "f() -> bytes");
        f.base.call.results = f.results;
        f.base.client = &maker;
        code = return_bytes;
        assert_int_equal(tenon_frame_run(&f.base, &maker), i ? 0 : -1);
        assert_int_equal(f.refusals, i ? 0 : 1);
        assert_true(!i || (!f.base.blocks && !(f.results[0].flags & TENON_VALUE_UNSET)));
        assert_memory_equal(made_bytes, "abc", 3);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_integer_choices),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_dtype_variables),
        cmocka_unit_test(test_match),
        cmocka_unit_test(test_bytes_and_what_is_written),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_mistakes_of_functions),
        cmocka_unit_test(test_host_makes_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
