/* Arguments that are "convert": the grammar, what is converted, and what the function sees. */
#include "driver.h"

/* As in test_class.c: a "^" in the text is where the caret of the message is. */
static void no(const char *marked, const char *what)
{
    char text[256], expected[1024];
    const char *caret = strchr(marked, '^');
    size_t at = (size_t)(caret - marked);
    snprintf(text, sizeof text, "%.*s%s", (int)at, marked, caret + 1);
    snprintf(expected, sizeof expected, "tenon_signature_alloc(): %s\n  %s\n  %*s^", what, text, (int)at, "");
    tenon_signature *signature = NULL;
    FAILS_SAYING(TENON_EPARSE, expected, tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &signature, &err));
}

static void test_the_attribute(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(x: f32[n] c convert, z: f32[n], convert: i64[n]? convert cpu|cuda) -> f32[n]");
    assert_int_equal(s->params[0].flags, TENON_PARAMETER_CONVERT);
    assert_true(s->params[2].flags & TENON_PARAMETER_CONVERT);
    assert_string_equal(s->params[0].type, "f32[n] c convert");
    assert_int_equal(s->nconverted, 2);
    tenon_signature_release(s);
    s = compiled("f(x: f32[n] c convert) -> f32[n]");
    assert_int_equal(s->plan, TENON_PLAN_PLAIN); /* arguments that fit go the fast way */
    tenon_signature_release(s);
    no("f(x: ^f32[n] convert rw)", "'convert' and 'rw' cannot be combined");
    no("f(x: ^f32[n] keep convert)",
       "'convert' and 'keep' cannot be combined: a converted argument is a copy that ends with the call");
    no("f(x: f32[n] convert ^convert)", "duplicate attribute 'convert'");
    no("f(x: ^f32|f64[n] convert)", "'convert' needs one dtype, which arguments are converted to");
    no("f(x: ^real[n] convert)", "'convert' needs one dtype, which arguments are converted to");
    no("f(x: ^T[n] convert) where T = f32", "'convert' needs one dtype, which arguments are converted to");
    no("f(x: ^f32[n] cuda convert)", "'convert' needs memory of the CPU: nothing is converted on a device");
    no("f(xs: ^[f32[n] convert])", "'keep', 'convert', 'own', 'of' and 'inplace' do not apply to a list of tensors");
    no("f(x: f32[n]) -> ^f32[n] convert", "'convert' applies only to arguments");
    no("f(x: f32[n]) -> ^f32[n] own convert", "'convert' applies only to arguments");
    no("f(x: f32[n] convert) -> f32[n] of(^x)", "of(x) needs the memory of the argument itself, and 'x' is 'convert'");
    tenon_names names = {0};
    tenon_spec spec;
    FAILS(TENON_EPARSE, tenon_spec_parse("f32[n] convert", &names, &spec, &err));
}

/* --------------------------------------------------------------------------------------------------------- calls */

static int conversions, conversion_status, convert_status;
static int64_t converted_bytes;
static int32_t converted_index;

static int count_conversion(tenon_frame *base, int32_t index, int64_t bytes)
{
    (void)base;
    conversions++;
    converted_index = index;
    converted_bytes = bytes;
    return conversion_status;
}

static int allow_conversion(tenon_frame *base, int32_t index, int64_t bytes)
{
    (void)bytes;
    assert_false(base->args[index].flags & TENON__VALUE_CONVERTED);
    return convert_status;
}

static tenon_client converting_client;

static void begin_converting(host_frame *f, const char *text)
{
    converting_client = client;
    converting_client.convert = allow_conversion;
    converting_client.converted = count_conversion;
    conversions = conversion_status = convert_status = 0;
    begin(f, text);
    f->base.client = &converting_client;
}

static roomy_view x_room, y_room;

static void give(host_frame *f, int32_t index, roomy_view *room, void *data, tenon_dtype dtype, int32_t ndim,
                 int64_t *shape, int64_t *strides)
{
    view_on(room, TENON_CPU, data, dtype, ndim, shape, strides, TENON_READ_ONLY);
    tenon_frame_set_view(&f->base, index, &room->view);
}

static void test_a_dtype_is_converted(void **state)
{
    (void)state;
    host_frame f;
    double x[3] = {1.5, 0.1, -1e300};
    begin_converting(&f, "f(x: f32[n] c convert) -> f32[n]");
    give(&f, 0, &x_room, x, TENON_F64, 1, DIMS(3), NULL);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    const tenon_view *view = f.args[0].as.view;
    assert_ptr_not_equal(view->data, x);
    assert_ptr_equal(tenon_frame_given_view(&f.base, 0), &x_room.view);
    assert_int_equal((uintptr_t)view->data % 64, 0);
    assert_true(tenon_dtype_equal(view->dtype, TENON_F32) && view->numel == 3 && (view->flags & TENON_VIEW_C));
    const float *got = view->data;
    assert_true(got[0] == 1.5f && got[1] == 0.1f && got[2] < 0 && got[2] * 2 == got[2]);
    assert_true(conversions == 1 && converted_index == 0 && converted_bytes == 12);
    assert_int_equal(f.base.bindings.dims[0], 3);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    assert_int_equal(tenon_frame_run(&f.base, &client), 0);
    end(&f);
}

static void test_order_and_alignment(void **state)
{
    (void)state;
    host_frame f;
    _Alignas(64) float x[9] = {1, 2, 3, 4, 5, 6};
    begin_converting(&f, "f(x: f32[m, n] f convert, y: f32[n] convert)");
    give(&f, 0, &x_room, x, TENON_F32, 2, DIMS(2, 3), NULL);
    give(&f, 1, &y_room, (char *)x + 2, TENON_F32, 1, DIMS(3), NULL);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    const float wanted[6] = {1, 4, 2, 5, 3, 6};
    assert_true(f.args[0].as.view->flags & TENON_VIEW_F);
    assert_memory_equal(f.args[0].as.view->data, wanted, sizeof wanted);
    assert_memory_equal(f.args[1].as.view->data, (char *)x + 2, 12);
    assert_int_equal(conversions, 2);
    end(&f);
    begin_converting(&f, "f(x: f32[n] aligned(4096) convert)");
    give(&f, 0, &x_room, x + 1, TENON_F32, 1, DIMS(3), NULL);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal((uintptr_t)f.args[0].as.view->data % 4096, 0);
    end(&f);
}

static void test_arguments_that_fit_are_not_copied(void **state)
{
    (void)state;
    host_frame f;
    _Alignas(64) float x[6] = {0};
    double y[2] = {1, 2};
    begin_converting(&f, "f(x: f32[n] convert, y: f32[m] convert)");
    give(&f, 0, &x_room, x, TENON_F32, 1, DIMS(3), DIMS(2)); /* any strides fit */
    give(&f, 1, &y_room, y, TENON_F64, 1, DIMS(2), NULL);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_ptr_equal(f.args[0].as.view, &x_room.view);
    assert_ptr_equal(tenon_frame_given_view(&f.base, 0), &x_room.view);
    assert_true(conversions == 1 && converted_index == 1);
    end(&f);
}

static bool converts(tenon_dtype to, tenon_dtype from)
{
    host_frame f;
    char name[32], text[80];
    _Alignas(64) static unsigned char data[64];
    tenon_dtype_format(to, name, sizeof name);
    snprintf(text, sizeof text, "f(x: %s[n] convert)", name);
    begin_converting(&f, text);
    give(&f, 0, &x_room, data, from, 1, DIMS(2), NULL);
    bool matched = tenon_frame_match(&f.base) == 0;
    assert_int_equal(f.refusals, matched ? 0 : 1);
    assert_int_equal(conversions, matched && !tenon_dtype_equal(to, from));
    if (!matched)
        assert_int_equal(f.refused.status, TENON_EDTYPE);
    end(&f);
    return matched;
}

/* What has every value of what; floats round. */
static void test_which_dtypes(void **state)
{
    (void)state;
    static const tenon_dtype ints[] = {{0, 8, 1}, {0, 16, 1}, {0, 32, 1}, {0, 64, 1},
                                       {1, 8, 1}, {1, 16, 1}, {1, 32, 1}, {1, 64, 1}};
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 8; k++) {
            bool wider = ints[i].bits > ints[k].bits && (ints[i].code == ints[k].code || ints[i].code == 0);
            assert_int_equal(converts(ints[i], ints[k]), i == k || wider);
        }
        assert_true(converts(ints[i], TENON_BOOL) && !converts(TENON_BOOL, ints[i]));
        assert_false(converts(ints[i], TENON_F16) || converts(ints[i], TENON_F64) || converts(TENON_C64, ints[i]));
        assert_true(converts(TENON_BF16, ints[i]) && converts(TENON_F32, ints[i]));
    }
    assert_true(converts(TENON_F16, TENON_F64) && converts(TENON_F64, TENON_BF16) && converts(TENON_F64, TENON_BOOL));
    assert_true(converts(TENON_C64, TENON_C128) && converts(TENON_C128, TENON_C64) && converts(TENON_C64, TENON_BOOL));
    assert_false(converts(TENON_C64, TENON_F32) || converts(TENON_F32, TENON_C64) || converts(TENON_BOOL, TENON_F32));
    assert_false(converts(TENON_F32, tenon_dtype_of(TENON_CODE_FLOAT, 32, 2)));
    assert_false(converts(TENON_F64, tenon_dtype_of(TENON_CODE_FLOAT, 128, 1)));
}

static void test_refusals(void **state)
{
    (void)state;
    host_frame f;
    double x[4] = {0};
    begin_converting(&f, "f(k: int, x: i32[n] convert)");
    f.args[0] = INT(1);
    give(&f, 1, &x_room, x, TENON_F64, 1, DIMS(4), NULL);
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_EDTYPE,
            "f(): argument 'x': expected i32[n], got f64[4] (torch.Tensor)\n"
            "  dtype is f64, not i32, and it is not converted, because values could be lost");
    assert_string_equal(f.base.bindings.argument, "x");
    end(&f);
    /* The message is about what conversion does not help with, in the words of what was passed. */
    begin_converting(&f, "f(x: f32[n] convert, y: f32[n])");
    give(&f, 0, &x_room, x, TENON_F64, 2, DIMS(2, 2), NULL);
    take(&f, 1, 3, cpu());
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_ESHAPE,
            "f(): argument 'x': expected f32[n], got f64[2, 2] (numpy.ndarray)\n  2 dimensions, not 1");
    end(&f);
    begin_converting(&f, "f(x: f32[n] convert, y: f32[n])");
    give(&f, 0, &x_room, x, TENON_F64, 1, DIMS(4), NULL);
    take(&f, 1, 3, cpu());
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_ESHAPE,
            "f(): argument 'y': dimension 0 is 3, but n = 4 from argument 'x'");
    assert_int_equal(conversions, 0);
    end(&f);
    /* Nothing is converted on a device. */
    begin_converting(&f, "f(x: f64[n] cpu|cuda convert)");
    take(&f, 0, 3, cuda(0));
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_EDTYPE,
            "f(): argument 'x': expected f64[n], got f32[3] (numpy.ndarray)\n  dtype is f32, not f64");
    end(&f);
    /* An argument that cannot be read comes after one that can be converted. */
    begin_converting(&f, "f(x: f32[n] convert, y: f32[n])");
    give(&f, 0, &x_room, x, TENON_F64, 1, DIMS(4), NULL);
    assert_false(tenon_frame_refuse_earlier(&f.base, 1));
    assert_int_equal(f.refusals, 0);
    end(&f);
    /* More than there is. */
    begin_converting(&f, "f(x: f64[n] convert)");
    give(&f, 0, &x_room, x, TENON_F32, 1, DIMS((INT64_C(1) << 60) - 1), DIMS(0));
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_ENOMEM,
            "f(): argument 'x': no memory for the 9223372036854775800 bytes that it is converted to");
    end(&f);
}

/* A host may want arguments as they are, always or for one call, and may make an error of a conversion. */
static void test_hosts_decide(void **state)
{
    (void)state;
    host_frame f;
    double x[4] = {0};
    const char *message = "f(): argument 'x': expected f32[n], got f64[4] (numpy.ndarray)\n  dtype is f64, not f32";
    for (int way = 0; way < 2; way++) {
        begin_converting(&f, "f(x: f32[n] convert)");
        if (way)
            f.base.call.flags |= TENON_FRAME_EXACT;
        else
            f.base.client = &client;
        give(&f, 0, &x_room, x, TENON_F64, 1, DIMS(4), NULL);
        assert_int_equal(tenon_frame_match(&f.base), -1);
        refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_EDTYPE, message);
        assert_ptr_equal(f.args[0].as.view, &x_room.view);
        end(&f);
    }
    begin_converting(&f, "f(x: f32[n] convert)");
    conversion_status = -1;
    give(&f, 0, &x_room, x, TENON_F64, 1, DIMS(4), NULL);
    assert_int_equal(tenon_frame_match(&f.base), -1);
    assert_int_equal(f.refusals, 0);
    end(&f);
    /* The memory must not be read now. */
    begin_converting(&f, "f(x: f32[n] convert)");
    convert_status = -1;
    give(&f, 0, &x_room, x, TENON_F64, 1, DIMS(4), NULL);
    assert_int_equal(tenon_frame_match(&f.base), -1);
    assert_true(f.refusals == 0 && conversions == 0 && f.args[0].as.view == &x_room.view);
    end(&f);
}

static void test_optional_empty_and_overlapping(void **state)
{
    (void)state;
    host_frame f;
    float x[6] = {1, 2, 3, 4};
    begin_converting(&f, "f(y: f64[n] convert, z: f32[2, 2] rw, x: f64[n]? convert)");
    f.args[2] = NONE;
    give(&f, 0, &x_room, x, TENON_F32, 1, DIMS(0), NULL);
    view_on(&y_room, TENON_CPU, x, TENON_F32, 2, DIMS(2, 2), NULL, 0);
    tenon_frame_set_view(&f.base, 1, &y_room.view);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_true(conversions == 1 && converted_bytes == 0 && f.args[0].as.view->data);
    assert_int_equal(f.base.bindings.dims[0], 0);
    end(&f);
    /* The copy does not share memory with what is written to. */
    begin_converting(&f, "f(x: f64[n] convert, z: f32[2, 2] rw)");
    give(&f, 0, &x_room, x, TENON_F32, 1, DIMS(4), NULL);
    tenon_frame_set_view(&f.base, 1, &y_room.view);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(conversions, 1);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_attribute),       cmocka_unit_test(test_a_dtype_is_converted),
        cmocka_unit_test(test_order_and_alignment), cmocka_unit_test(test_arguments_that_fit_are_not_copied),
        cmocka_unit_test(test_which_dtypes),        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hosts_decide),        cmocka_unit_test(test_optional_empty_and_overlapping),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
