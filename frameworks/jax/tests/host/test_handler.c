/* The handler, with frames that are made by hand: bad ones get an error each, and nothing is read that is not there. */
#include "handmade.h"

/* ------------------------------------------------------------------------------------------------------- functions */

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    const float *x = tenon_data(call, 1, float), *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        z[i] = a * x[i] + y[i];
    return TENON_OK;
}

static int last_rank;

static tenon_status look(tenon_call *call)
{
    last_rank = tenon_arg(call, 0)->ndim;
    return TENON_OK;
}

static tenon_status doubled(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        x[i] *= 2;
    return TENON_OK;
}

static tenon_status numbers(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_arg_int(call, 0));
    tenon_return_double(call, 1, tenon_arg_double(call, 1));
    tenon_return_bool(call, 2, tenon_arg_bool(call, 2));
    return TENON_OK;
}

static tenon_device last_device;
static const void *last_stream;

static tenon_status on_gpu(tenon_call *call)
{
    last_device = call->device;
    last_stream = call->stream;
    return tenon_scratch(call, 100) && tenon_scratch(call, 0) ? TENON_OK : TENON_EFAILED;
}

static int set_up(void **state)
{
    (void)state;
    add("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, 0);
    add("look(x: T[*b]) -> u8[1] where T = any", look, 0);
    add("doubled(x: f32[n] rw c)", doubled, 0);
    add("numbers(i: int, f: float, b: bool) -> int, float, bool", numbers, 0);
    add("text(s: str, e: 'a'|'b', i: ints[2], f: floats) -> u8[1]", look, 0);
    add("on_gpu(x: f32[n] cuda) -> f32[n]", on_gpu, 0);
    add("capturable(x: f32[n] cuda) -> f32[n]", on_gpu, TENON_CAPTURABLE);
    return 0;
}

/* --------------------------------------------------------------------------------------------------- calls */

static int64_t three[] = {3}, six[] = {6};
static float x[3], y[3], z[3];
static double two = 2;

static xla_call *begin_saxpy(xla_call *c)
{
    for (int i = 0; i < 3; i++) {
        x[i] = (float)i;
        y[i] = 10;
        z[i] = -1;
    }
    begin(c, "vtt", "test.saxpy");
    add_scalar(c, "v00", xla_f64, &two);
    add_operand(c, xla_f32, x, 1, three);
    add_operand(c, xla_f32, y, 1, three);
    add_result(c, xla_f32, z, 1, three);
    return c;
}

static void check_success(xla_call *c)
{
    if (tenon__jax_handle_cpu(&c->frame))
        print_error("%s\n", xla.message);
    assert_int_equal(xla.created, 0);
}

static void check_error_of(tenon__jax_handler handler, xla_call *c, int32_t code, const char *message)
{
    xla.created = 0;
    assert_ptr_equal(handler(&c->frame), &xla);
    assert_int_equal(xla.created, 1);
    if (!strstr(xla.message, message))
        print_error("%s\n", xla.message);
    assert_non_null(strstr(xla.message, message));
    assert_int_equal(xla.code, code);
    xla.created = 0;
}

static void check_error(xla_call *c, int32_t code, const char *message)
{
    check_error_of(tenon__jax_handle_cpu, c, code, message);
}

/* ------------------------------------------------------------------------------------------------------------ tests */

static void test_a_call(void **state)
{
    (void)state;
    xla_call c;
    check_success(begin_saxpy(&c));
    assert_true(z[0] == 10 && z[1] == 12 && z[2] == 14);
}

static void test_the_version(void **state)
{
    (void)state;
    xla_metadata metadata = {.size = XLA_END(xla_metadata, traits), .traits = 99};
    xla_metadata_extension extension = {.base = {.size = sizeof extension, .type = xla_extension_metadata},
                                        .metadata = &metadata};
    xla_extension other = {.size = sizeof other, .type = 77, .next = &extension.base};
    xla_frame frame = {.size = sizeof frame, .extensions = &other, .api = &full_api};
    assert_null(tenon__jax_handle_cpu(&frame));
    assert_int_equal(metadata.version.major, 0);
    assert_int_equal(metadata.version.minor, 4);
    assert_int_equal(metadata.traits, 0);
    frame.api = NULL;
    assert_null(tenon__jax_handle_capturable(&frame));
    assert_int_equal(metadata.version.minor, 1);
    assert_int_equal(metadata.traits, xla_trait_capturable);
    metadata = (xla_metadata){.size = XLA_END(xla_metadata, version), .traits = 99}; /* somebody else's stack */
    assert_null(tenon__jax_handle_cpu(&frame));
    assert_int_equal(metadata.traits, 99);
    metadata = (xla_metadata){.size = sizeof(size_t), .traits = 99, .version = {.minor = 98}};
    assert_null(tenon__jax_handle_cpu(&frame));
    assert_int_equal(metadata.version.minor, 98);
    extension.base.size = sizeof extension.base;
    assert_null(tenon__jax_handle_cpu(&frame));
}

static void test_other_stages_do_nothing(void **state)
{
    (void)state;
    xla_call c;
    begin_saxpy(&c);
    for (c.frame.stage = 0; c.frame.stage < xla_stage_execute; c.frame.stage++)
        check_success(&c);
    c.frame.stage = xla_stage_execute + 1;
    check_error(&c, xla_unimplemented, "version of XLA");
    assert_true(z[0] == -1);
}

static void test_bad_sizes(void **state)
{
    (void)state;
    xla_call c;
    size_t *sizes[] = {&c.frame.size, &c.frame.arguments.size, &c.frame.results.size, &c.frame.attributes.size};
    for (int i = 0; i < 4; i++) {
        begin_saxpy(&c);
        (*sizes[i])--;
        check_error(&c, xla_unimplemented, "version of XLA");
    }
    begin_saxpy(&c);
    c.frame.size = sizeof(size_t); /* nobody to report to */
    check_success(&c);
    begin_saxpy(&c);
    xla_api old = full_api;
    old.size = offsetof(xla_api, create_error);
    c.frame.api = &old;
    c.frame.attributes.count = 0;
    check_success(&c);
    for (int i = 0; i < 3; i++) {
        begin_saxpy(&c);
        (i < 2 ? &c.operands[i] : &c.results[0])->size = 8;
        check_error(&c, xla_invalid_argument, "missing");
    }
    assert_true(z[0] == -1);
}

static void test_bad_attributes(void **state)
{
    (void)state;
    xla_call c;
    for (int64_t count = 0; count < 3; count++) {
        begin_saxpy(&c);
        c.frame.attributes.count = count;
        check_error(&c, xla_invalid_argument, "has the attributes");
    }
    for (int i = 0; i < 3; i++) {
        begin_saxpy(&c);
        c.attribute_types[i] = xla_attr_scalar;
        check_error(&c, xla_invalid_argument, "has the attributes");
        begin_saxpy(&c);
        c.names[i].text = "what";
        check_error(&c, xla_invalid_argument, "has the attributes");
    }
    begin_saxpy(&c);
    c.frame.attributes.count = 3;
    check_error(&c, xla_invalid_argument, "the attribute of a value is missing");
    begin_saxpy(&c);
    c.names[3].text = "v01";
    check_error(&c, xla_invalid_argument, "the attribute of a value is missing");
    begin_saxpy(&c);
    c.attribute_types[3] = xla_attr_dictionary;
    check_error(&c, xla_invalid_argument, "dictionary");
    begin_saxpy(&c);
    c.scalars[3].dtype = xla_c64;
    check_error(&c, xla_invalid_argument, "argument 'a': expected float, got c64");
    begin_saxpy(&c);
    c.scalars[3].dtype = 4000;
    check_error(&c, xla_invalid_argument, "argument 'a': expected float");
}

static void test_bad_letters(void **state)
{
    (void)state;
    xla_call c;
    static const char *const wrong[] = {"", "v", "vt", "vttt", "vt?", "ttt", "vvv", "vts", "stt", "ptt", "pvs"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        begin_saxpy(&c);
        c.strings[0] = (xla_span){wrong[i], strlen(wrong[i])};
        check_error(&c, xla_invalid_argument, "saxpy(): ");
    }
    begin_saxpy(&c);
    c.strings[0].text = "vtd";
    check_error(&c, xla_invalid_argument, "saxpy(): ");
    begin_saxpy(&c);
    c.strings[0].text = "vtn";
    check_error(&c, xla_invalid_argument, "argument 'y': expected f32[n] c, got None");
    assert_true(z[0] == -1);
}

static void test_unknown_functions(void **state)
{
    (void)state;
    xla_call c;
    begin_saxpy(&c);
    c.strings[1].text = "test.saxpi";
    check_error(&c, xla_not_found, "the program calls test.saxpi of the library with hash 0123");
    begin_saxpy(&c);
    c.strings[1].length = 0;
    check_error(&c, xla_not_found, "tenon.jax_ops()");
    begin_saxpy(&c);
    c.strings[2].text = "00000000000000000000000000000000";
    check_error(&c, xla_not_found, "hash 00000000000000000000000000000000, but the library with hash 0123");
    begin_saxpy(&c);
    c.strings[2].length = 5;
    check_error(&c, xla_not_found, "hash 01234, but");
    begin_saxpy(&c);
    c.strings[1] = (xla_span){"pkg.kern.saxpy", 14};
    check_error(&c, xla_not_found, "as test.saxpy; call tenon.jax_ops(..., name='pkg.kern')");
}

static void test_wrong_numbers_of_buffers(void **state)
{
    (void)state;
    xla_call c;
    begin_saxpy(&c);
    c.frame.arguments.count = 1;
    check_error(&c, xla_invalid_argument, "an operand is missing");
    begin_saxpy(&c);
    add_operand(&c, xla_f32, y, 1, three);
    check_error(&c, xla_invalid_argument, "the number of operands is wrong");
    begin_saxpy(&c);
    c.frame.results.count = 0;
    check_error(&c, xla_invalid_argument, "the number of results is wrong");
    begin_saxpy(&c);
    add_result(&c, xla_f32, y, 1, three);
    check_error(&c, xla_invalid_argument, "the number of results is wrong");
    begin_saxpy(&c);
    c.operand_types[0] = 2;
    check_error(&c, xla_invalid_argument, "an operand is missing");
    begin_saxpy(&c);
    c.result_types[0] = 2;
    check_error(&c, xla_invalid_argument, "a result is missing");
    assert_true(z[0] == -1);
}

static void test_shapes_that_do_not_fit(void **state)
{
    (void)state;
    xla_call c;
    begin_saxpy(&c);
    c.operands[1].dims = six;
    check_error(&c, xla_invalid_argument, "saxpy(): argument 'y': dimension 0 is 6, but n = 3 from argument 'x'");
    begin_saxpy(&c);
    c.results[0].dims = six;
    check_error(&c, xla_invalid_argument, "result 0: the program was compiled for another shape or dtype");
    begin_saxpy(&c);
    c.results[0].dtype = xla_s32;
    check_error(&c, xla_invalid_argument, "result 0: the program was compiled for another shape or dtype");
    begin_saxpy(&c);
    c.operands[0].dtype = xla_f64;
    check_error(&c, xla_invalid_argument, "saxpy(): argument 'x': expected f32[n], got f64[3] (jax.Array)");
    begin_saxpy(&c);
    c.operands[0].data = NULL;
    check_error(&c, xla_invalid_argument, "saxpy(): argument 'x': ");
    int64_t negative[] = {-3};
    begin_saxpy(&c);
    c.operands[0].dims = negative;
    check_error(&c, xla_invalid_argument, "saxpy(): argument 'x': ");
    begin_saxpy(&c);
    c.operands[1].data = (char *)y + 1;
    check_error(&c, xla_invalid_argument, "saxpy(): argument 'y': ");
    assert_true(z[0] == -1);
}

static xla_call *begin_look(xla_call *c, int32_t dtype, void *data, int64_t rank, int64_t *dims)
{
    static unsigned char out[1];
    static int64_t one[] = {1};
    begin(c, "t", "test.look");
    add_operand(c, dtype, data, rank, dims);
    add_result(c, xla_u8, out, 1, one);
    return c;
}

static void test_every_rank(void **state)
{
    (void)state;
    xla_call c;
    int64_t ones[70];
    double number[2] = {0};
    for (int i = 0; i < 70; i++)
        ones[i] = 1;
    for (int64_t rank = 0; rank <= TENON_MAX_NDIM; rank++) {
        check_success(begin_look(&c, xla_f64, number, rank, rank ? ones : NULL));
        assert_int_equal(last_rank, rank);
    }
    check_error(begin_look(&c, xla_f64, number, 65, ones), xla_invalid_argument, "65 dimensions");
    check_error(begin_look(&c, xla_f64, number, -1, ones), xla_invalid_argument, "-1 dimensions");
    check_error(begin_look(&c, xla_f64, number, INT64_MAX, ones), xla_invalid_argument, "dimensions");
}

static void test_every_dtype(void **state)
{
    (void)state;
    xla_call c;
    int64_t dims[] = {1};
    double number[2] = {0};
    int known = 0;
    for (int32_t dtype = -3; dtype < 100; dtype++) {
        begin_look(&c, dtype, number, 1, dims);
        xla_error *error = tenon__jax_handle_cpu(&c.frame);
        known += !error;
        assert_true(!error || strstr(xla.message, "Tenon does not take XLA's dtype"));
    }
    assert_int_equal(known, 23);
    xla.created = 0;
}

static void test_nothing_in_a_tensor(void **state)
{
    (void)state;
    xla_call c;
    int64_t none[] = {0}, also_none[] = {5, 0, 1000000};
    begin_saxpy(&c);
    c.operands[0].dims = c.operands[1].dims = c.results[0].dims = none;
    check_success(&c);
    c.operands[0].data = c.operands[1].data = c.results[0].data = NULL;
    check_success(&c);
    check_success(begin_look(&c, xla_bf16, NULL, 3, also_none));
    assert_true(z[0] == -1);
}

static void test_written_operands_are_results(void **state)
{
    (void)state;
    xla_call c;
    begin_saxpy(&c);
    begin(&c, "t", "test.doubled");
    add_operand(&c, xla_f32, x, 1, three);
    add_result(&c, xla_f32, x, 1, three);
    check_success(&c);
    assert_true(x[1] == 2 && x[2] == 4);
    c.results[0].data = y;
    check_error(&c, xla_invalid_argument, "written to");
    c.results[0].data = x;
    c.frame.results.count = 0;
    check_error(&c, xla_invalid_argument, "written to");
    assert_true(x[1] == 2 && x[2] == 4);
}

static void test_numbers_in_and_out(void **state)
{
    (void)state;
    xla_call c;
    struct {
        int64_t integer;
        double number;
        int64_t truth;
    } packed = {-5, 2.5, 1};
    union {
        int64_t wide;
        int32_t narrow;
    } integer = {0};
    union {
        double wide;
        float narrow;
    } number = {0};
    uint8_t truth = 77;
    begin(&c, "ppp", "test.numbers");
    add_operand(&c, xla_u32, &packed, 1, six);
    add_result(&c, xla_s64, &integer, 0, NULL);
    add_result(&c, xla_f64, &number, 0, NULL);
    add_result(&c, xla_pred, &truth, 0, NULL);
    check_success(&c);
    assert_true(integer.wide == -5 && number.wide == 2.5 && truth == 1);
    c.results[0].dtype = xla_s32;
    c.results[1].dtype = xla_f32;
    check_success(&c);
    assert_true(integer.narrow == -5 && number.narrow == 2.5f);
    packed.integer = (int64_t)1 << 40;
    check_error(&c, xla_out_of_range, "result 0 is 1099511627776, which does not fit in int32");
    c.results[0].dtype = xla_f32;
    check_error(&c, xla_invalid_argument, "dtype of a result");
    c.results[0].rank = 1;
    check_error(&c, xla_invalid_argument, "has dimensions");
    c.operands[0].dims = three;
    check_error(&c, xla_invalid_argument, "too short");
    c.operands[0].dtype = xla_s32;
    check_error(&c, xla_invalid_argument, "packed numbers is missing");
    check_error_of(tenon__jax_handle_cuda, &c, xla_invalid_argument, "result 0 is a number");
}

static void test_numbers_of_every_dtype(void **state)
{
    (void)state;
    xla_call c;
    int8_t s8 = -8;
    int16_t s16 = -16;
    int32_t s32 = -32;
    int64_t s64 = INT64_MIN, integer;
    uint8_t u8 = 200, pred = 1, truth;
    uint16_t u16 = 60000, half = 0xc500, bfloat = 0xc0a0, small = 1, least = 0x0400, infinite = 0x7c00,
             nan_half = 0x7e00;
    uint32_t u32 = 4000000000u;
    uint64_t u64 = INT64_MAX, large = UINT64_MAX;
    float f32 = -5;
    double f64 = -5, number;
    const struct {
        int32_t dtype;
        void *data;
        double value;
        bool is_integer;
    } cases[] = {{xla_s8, &s8, -8, true},
                 {xla_s16, &s16, -16, true},
                 {xla_s32, &s32, -32, true},
                 {xla_s64, &s64, (double)INT64_MIN, true},
                 {xla_u8, &u8, 200, true},
                 {xla_u16, &u16, 60000, true},
                 {xla_u32, &u32, 4000000000.0, true},
                 {xla_u64, &u64, (double)INT64_MAX, true},
                 {xla_pred, &pred, 1, true},
                 {xla_f16, &half, -5, false},
                 {xla_f16, &small, 1.0 / (1 << 24), false},
                 {xla_f16, &least, 1.0 / (1 << 14), false},
                 {xla_f16, &infinite, (double)INFINITY, false},
                 {xla_bf16, &bfloat, -5, false},
                 {xla_f32, &f32, -5, false},
                 {xla_f64, &f64, -5, false}};
    begin(&c, "sss", "test.numbers");
    for (int i = 0; i < 3; i++)
        add_operand(&c, xla_pred, &pred, 0, NULL);
    add_result(&c, xla_s64, &integer, 0, NULL);
    add_result(&c, xla_f64, &number, 0, NULL);
    add_result(&c, xla_pred, &truth, 0, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        c.operands[1].dtype = cases[i].dtype;
        c.operands[1].data = cases[i].data;
        check_success(&c);
        assert_true(number == cases[i].value);
        xla_buffer saved = c.operands[0];
        c.operands[0] = c.operands[1];
        if (cases[i].is_integer) {
            check_success(&c);
            assert_true((double)integer == cases[i].value);
        } else {
            check_error(&c, xla_invalid_argument, "argument 'i': expected int, got ");
        }
        c.operands[0] = saved;
    }
    c.operands[1] = (xla_buffer){.size = sizeof(xla_buffer), .dtype = xla_f16, .data = &nan_half};
    check_success(&c);
    assert_true(isnan(number));
    c.operands[2].dtype = xla_u8;
    check_error(&c, xla_invalid_argument, "argument 'b': expected bool, got u8");
    c.operands[0] = (xla_buffer){.size = sizeof(xla_buffer), .dtype = xla_u64, .data = &large};
    check_error(&c, xla_out_of_range, "argument 'i': expected an integer from -2**63 to 2**63 - 1, got a larger one");
    c.operands[0].rank = 1;
    check_error(&c, xla_invalid_argument, "has dimensions");
}

static void test_strings_and_lists(void **state)
{
    (void)state;
    xla_call c;
    static unsigned char out[1];
    int64_t one[] = {1}, list[] = {1, 2, 3};
    for (int wrong = -1; wrong < 5; wrong++) {
        begin(&c, "vvvv", "test.text");
        if (wrong == 0)
            add_scalar(&c, "v00", xla_f64, &two);
        else
            add_string(&c, "v00", "");
        add_string(&c, "v01", wrong == 1 ? "c" : "b");
        add_array(&c, "v02", wrong == 2 ? xla_s32 : xla_s64, wrong == 4 ? 3 : 2, list);
        add_array(&c, "v03", wrong == 3 ? xla_f32 : xla_f64, 0, NULL);
        add_result(&c, xla_u8, out, 1, one);
        if (wrong >= 0)
            check_error(&c, xla_invalid_argument,
                        wrong == 1   ? "argument 'e': expected 'a'|'b', got another string"
                        : wrong == 4 ? "argument 'i': expected ints[2], got 3 numbers"
                                     : "expected");
    }
}

static void test_a_gpu(void **state)
{
    (void)state;
    xla_call c;
    begin(&c, "t", "test.on_gpu");
    add_operand(&c, xla_f32, x, 1, three);
    add_result(&c, xla_f32, y, 1, three);
    check_error(&c, xla_invalid_argument, "on_gpu(): argument 'x': ");
    assert_null(tenon__jax_handle_cuda(&c.frame));
    assert_true(last_device.device_type == TENON_CUDA && last_device.device_id == 3 && last_stream == &xla.code);
    assert_int_equal(xla.allocated, 2);
    assert_int_equal(xla.freed, 2);
    xla_api old = full_api;
    old.size = offsetof(xla_api, get_ordinal);
    c.frame.api = &old;
    assert_null(tenon__jax_handle_capturable(&c.frame));
    assert_int_equal(last_device.device_id, 0);
    old.size = offsetof(xla_api, allocate);
    check_error_of(tenon__jax_handle_cuda, &c, xla_internal, "on_gpu(): there is scratch memory on the device");
    c.frame.api = &full_api;
    xla.fails = true;
    check_error_of(tenon__jax_handle_cuda, &c, xla_internal, "on_gpu(): XLA did not tell its stream");
    assert_int_equal(xla.destroyed, 1);
    xla.fails = false;
    check_error_of(tenon__jax_handle_cuda, begin_saxpy(&c), xla_invalid_argument, "saxpy(): argument 'x': ");
    static const char *const letters[] = {"stt", "ptt"};
    for (int i = 0; i < 2; i++) {
        begin(&c, letters[i], "test.saxpy");
        add_operand(&c, xla_f64, &two, 0, NULL);
        add_result(&c, xla_f32, z, 1, three);
        check_error_of(tenon__jax_handle_cuda, &c, xla_invalid_argument,
                       "saxpy(): argument 'a': a number cannot be read from the memory of a GPU");
    }
}

static void test_a_capturable_function_has_no_scratch_memory(void **state)
{
    (void)state;
    xla_call c;
    int before = xla.allocated;
    begin(&c, "t", "test.capturable");
    add_operand(&c, xla_f32, x, 1, three);
    add_result(&c, xla_f32, y, 1, three);
    check_error_of(tenon__jax_handle_capturable, &c, xla_internal, "capturable(): a function with TENON_CAPTURABLE");
    assert_int_equal(xla.allocated, before);
}

static void test_what_cannot_be_registered(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "f(x: f32[n]) -> f32[?]", "f(x: f32[n])", "f(x: handle('A')) -> int", "f() -> str",
        "f() -> 'a'|'b'",         "f() -> int?",  "f() -> handle('A')",       "f(x: f32[n]) -> f32[n]?"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tenon_function entry = {.signature = wrong[i], .call = look};
        tenon_error err;
        bool added = true;
        assert_int_equal(tenon__jax_register("test.f", digits, &entry, NULL, &library, &added, &err), TENON_EINVAL);
        assert_non_null(strstr(err.message, "f(): XLA cannot call it: "));
        assert_false(added);
    }
    tenon_function entry = {.signature = "f(x: f32[n]) -> f32[n]", .call = look};
    tenon_error err;
    bool added = true;
    assert_int_equal(tenon__jax_register("test.f", "too short", &entry, NULL, &library, &added, &err), TENON_EINVAL);
    assert_non_null(strstr(err.message, "a hash has 32 digits"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call),
        cmocka_unit_test(test_the_version),
        cmocka_unit_test(test_other_stages_do_nothing),
        cmocka_unit_test(test_bad_sizes),
        cmocka_unit_test(test_bad_attributes),
        cmocka_unit_test(test_bad_letters),
        cmocka_unit_test(test_unknown_functions),
        cmocka_unit_test(test_wrong_numbers_of_buffers),
        cmocka_unit_test(test_shapes_that_do_not_fit),
        cmocka_unit_test(test_every_rank),
        cmocka_unit_test(test_every_dtype),
        cmocka_unit_test(test_nothing_in_a_tensor),
        cmocka_unit_test(test_written_operands_are_results),
        cmocka_unit_test(test_numbers_in_and_out),
        cmocka_unit_test(test_numbers_of_every_dtype),
        cmocka_unit_test(test_strings_and_lists),
        cmocka_unit_test(test_a_gpu),
        cmocka_unit_test(test_a_capturable_function_has_no_scratch_memory),
        cmocka_unit_test(test_what_cannot_be_registered),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
