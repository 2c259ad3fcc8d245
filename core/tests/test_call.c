/* The driver of a call, with a host that only records what the driver does. */
#include "driver.h"

/* ------------------------------------------------------------------------------------------------------------ tests */

static void test_a_whole_call(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[n], k: int = 3, y: f32[n]? = None) -> f32[n], float?");
    take(&f, 0, 5, cpu());
    assert_true(tenon_frame_set_missing(&f.base, 1, false, false));
    assert_true(tenon_frame_set_missing(&f.base, 2, true, true));
    assert_false(tenon_frame_set_missing(&f.base, 2, true, false));
    assert_false(tenon_frame_set_missing(&f.base, 1, true, true)); /* an int without "?" */
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    assert_int_equal(tenon_frame_run(&f.base, &client), 0);
    assert_int_equal(f.args[1].as.integer, 3);
    assert_int_equal(f.args[2].kind, TENON_KIND_NONE);
    assert_int_equal(f.base.call.dims[0], 5);
    assert_ptr_equal(f.base.call.state, memory);
    assert_int_equal(f.base.call.nargs, 3);
    assert_int_equal(f.base.call.nresults, 2);
    assert_int_equal(f.results[0].as.view->shape[0], 5);
    assert_int_equal(tenon_frame_has_result(&f.base, 1), 0);
    assert_int_equal(f.runs, 1);
    assert_int_equal(f.shapes, 0); /* no result is open */
    assert_int_equal(f.refusals, 0);
    end(&f);
}

static void test_what_is_written_is_marked(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[n], y: f32[n] rw)");
    take(&f, 0, 5, cpu());
    take(&f, 1, 5, cpu());
    assert_false(f.args[0].as.view->flags & TENON_VIEW_WRITTEN);
    assert_true(f.args[1].as.view->flags & TENON_VIEW_WRITTEN);
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_EOVERLAP,
            "f(): argument 'y' shares memory with argument 'x' and is written to; pass a copy of one of them");
    end(&f);
}

static void test_a_mismatch_names_the_object(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[n], y: f32[n, n])");
    take(&f, 0, 5, cpu());
    take(&f, 1, 5, cpu());
    assert_int_equal(tenon_frame_match(&f.base), -1);
    assert_int_equal(f.refusals, 1);
    assert_int_equal(f.refused.status, TENON_ESHAPE);
    assert_non_null(strstr(f.refused.message, "torch.Tensor"));
    assert_string_equal(f.base.bindings.argument, "y");
    end(&f);
}

static int32_t last_described;

static const char *note_described(tenon_frame *base, int32_t index)
{
    last_described = index > last_described ? index : last_described;
    return describe(base, index);
}

/* Arguments that the host has not set yet are not described. */
static void test_only_set_arguments_are_described(void **state)
{
    (void)state;
    tenon_client noting = client;
    noting.describe = note_described;
    host_frame f;
    begin(&f, "f(x: f64[n], y: f32[n], z: f32[n])");
    f.base.client = &noting;
    take(&f, 0, 5, cpu());
    last_described = -1;
    assert_true(tenon_frame_refuse_earlier(&f.base, 1));
    assert_int_equal(last_described, 0);
    end(&f);
}

/* The first mistake in the order of the parameters is the one that is reported. */
static void test_an_earlier_mistake_comes_first(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[n], y: f32[n], k: int)");
    take(&f, 0, 5, cpu());
    take(&f, 1, 5, cpu());
    assert_false(tenon_frame_refuse_earlier(&f.base, 2));
    assert_int_equal(f.refusals, 0);
    take(&f, 1, 4, cpu());
    assert_true(tenon_frame_refuse_earlier(&f.base, 2));
    assert_int_equal(f.refusals, 1);
    assert_string_equal(f.base.bindings.argument, "y");
    end(&f);
}

static void test_the_device_rule(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(a: f32[n] cuda, b: f32[n] cuda, c: f32[n] anywhere, d: f32[n] cuda)");
    assert_int_equal(tenon_frame_join_device(&f.base, 0, cuda(1)), 1);
    assert_int_equal(tenon_frame_join_device(&f.base, 1, cuda(1)), 0);
    assert_int_equal(tenon_frame_join_device(&f.base, 2, cuda(0)), 0);
    assert_true(tenon_device_equal(f.base.call.device, cuda(1)));
    assert_int_equal(tenon_frame_join_device(&f.base, 3, cuda(0)), -1);
    refused(&f, TENON_REFUSED_DEVICE, 3, TENON_EDEVICE,
            "f(): argument 'd' is on cuda:0, but an earlier argument is on cuda:1; move one of them");
    end(&f);
}

static void test_results_that_cannot_be_made(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[n]) -> f32[n - 8]");
    take(&f, 0, 5, cpu());
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), -1);
    assert_int_equal(f.why, TENON_REFUSED_RESULT);
    assert_int_equal(f.index, 0);
    assert_int_equal(f.refused.status, TENON_ESHAPE);
    assert_int_equal(f.made, 0);
    end(&f);
}

/* A host that can only make memory of the CPU must not give it to a function that wants a device's. */
static void test_a_result_is_on_its_device(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(n: int) -> f32[n] cuda");
    f.args[0] = INT(2);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), -1);
    refused(&f, TENON_REFUSED_RESULT, 0, TENON_EDEVICE,
            "f(): result 0: expected f32[n] cuda, but the memory is on cpu");
    end(&f);
    begin(&f, "f(n: int) -> f32[n] cuda");
    f.made_on = cuda(0);
    f.args[0] = INT(2);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    end(&f);
}

static tenon_status fail_with_words(tenon_call *running)
{
    tenon_fail(running, TENON_EINVAL, "the matrix is singular");
    tenon_fail(running, TENON_EDTYPE, "a second message");
    return TENON_OK;
}

static tenon_status fail_silently(tenon_call *running)
{
    (void)running;
    return TENON_ELAYOUT;
}

/* A required argument that the host did not find is refused, whatever its kind. */
static void test_nothing_required_is_left_out(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(*, x: f32[n]) -> float");
    assert_true(tenon_frame_set_missing(&f.base, 0, false, false));
    assert_int_equal(tenon_frame_match(&f.base), -1);
    assert_int_equal(f.refused.status, TENON_EINVAL);
    assert_non_null(strstr(f.refused.message, "it cannot be left out"));
    end(&f);
    begin(&f, "f(x: f32[n], k: int)");
    take(&f, 0, 5, cpu());
    assert_true(tenon_frame_set_missing(&f.base, 1, false, false));
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_EINVAL, "f(): argument 'k': expected int; it cannot be left out");
    end(&f);
}

/* A host that stores another kind than the parameter's gets an error: the function would read the wrong member. */
static void test_values_of_another_kind(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[n]) -> f32[n]");
    f.args[0] = INT(3);
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_EFAILED,
            "f(): argument 'x': expected f32[n], but the host has set a value that is an int");
    end(&f);
    begin(&f, "f(x: f32[n], k: int)");
    take(&f, 0, 5, cpu());
    f.args[1] = f.args[0];
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_EFAILED,
            "f(): argument 'k': expected int, but the host has set a value that is a tensor");
    end(&f);
    begin(&f, "f(n: int, x: float)");
    f.args[0] = f.args[1] = INT(3);
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_EFAILED,
            "f(): argument 'x': expected float, but the host has set a value that is an int");
    end(&f);
}

static tenon_status allocate_and_go_on(tenon_call *running)
{
    (void)tenon_result_alloc(running, 0, 1, DIMS(3));
    return TENON_OK;
}

/* The device of a result is checked even if the function makes it. */
static void test_an_open_result_is_on_its_device(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f() -> z: f32[?] cuda");
    code = allocate_and_go_on;
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_run(&f.base, &client), -1);
    refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EDEVICE, "result 'z': expected f32[?] cuda, but the memory is on cpu");
    end(&f);
}

static int make_nothing(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    (void)base;
    (void)index;
    (void)dtype;
    (void)ndim;
    (void)shape;
    return 0;
}

/* A host that reports success without a result. */
static void test_a_result_that_the_host_has_not_made(void **state)
{
    (void)state;
    tenon_client empty = client;
    empty.make_result = empty.open_result = make_nothing;
    host_frame f;
    begin(&f, "f() -> z: f32[?]");
    f.base.client = &empty;
    code = allocate_and_go_on;
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_run(&f.base, &empty), -1);
    refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EFAILED, "the host has not allocated result 'z'");
    end(&f);
    begin(&f, "f(n: int) -> f32[n] cpu");
    f.base.client = &empty;
    f.args[0] = INT(3);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &empty), -1);
    refused(&f, TENON_REFUSED_RESULT, 0, TENON_EFAILED, "f(): the host has not allocated result 0");
    end(&f);
}

static int fail_quietly(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    (void)base;
    (void)index;
    (void)dtype;
    (void)ndim;
    (void)shape;
    return -1;
}

static int refuse_handle(tenon_frame *base, int32_t index, void *object, void (*destroy_it)(void *))
{
    (void)base;
    (void)index;
    (void)object;
    (void)destroy_it;
    return -1;
}

static void *no_scratch(tenon_frame *base, size_t bytes, tenon_device device)
{
    (void)base;
    (void)bytes;
    (void)device;
    return NULL;
}

static tenon_status ask_for_handle(tenon_call *running)
{
    (void)running->host->result_handle(running, 0, memory, NULL);
    return TENON_OK;
}

static tenon_status ask_for_scratch(tenon_call *running)
{
    (void)running->host->scratch(running, 8, 8, cuda(0));
    return TENON_OK;
}

/* A client that keeps its own error has failed the call, even if the function goes on. */
static void test_a_client_may_keep_its_error(void **state)
{
    (void)state;
    const struct {
        const char *text;
        tenon_status (*code)(tenon_call *running);
    } cases[] = {
        {"f() -> f32[?]", allocate_and_go_on}, {"f() -> handle('I')", ask_for_handle}, {"f()", ask_for_scratch}};
    tenon_client quiet = client;
    quiet.open_result = fail_quietly;
    quiet.take_handle = refuse_handle;
    quiet.device_scratch = no_scratch;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host_frame f;
        begin(&f, cases[i].text);
        f.base.client = &quiet;
        code = cases[i].code;
        assert_int_equal(tenon_frame_match(&f.base), 0);
        assert_int_equal(tenon_frame_run(&f.base, &quiet), -1);
        assert_int_equal(f.refusals, 1);
        assert_int_equal(f.why, TENON_REFUSED_BY_CODE);
        end(&f);
    }
}

static void test_failures_of_the_code(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f()");
    code = fail_with_words;
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_run(&f.base, &client), -1);
    refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EINVAL, "the matrix is singular");
    end(&f);
    begin(&f, "f()");
    code = fail_silently;
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_run(&f.base, &client), -1);
    assert_int_equal(f.refused.status, TENON_ELAYOUT);
    assert_non_null(strstr(f.refused.message, "TENON_ELAYOUT"));
    end(&f);
}

static tenon_status allocate(tenon_call *running)
{
    return tenon_result_alloc(running, 0, 1, DIMS(3)) ? TENON_OK : TENON_EFAILED;
}

static void test_open_results(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f() -> f32[?]");
    code = allocate;
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    assert_int_equal(f.made, 0);
    assert_int_equal(tenon_frame_run(&f.base, &client), 0);
    assert_int_equal(f.shapes, 1);
    assert_int_equal(f.made, 1);
    assert_int_equal(f.results[0].as.view->shape[0], 3);
    end(&f);
}

static void has(host_frame *f, tenon_value value, int wanted, const char *message)
{
    value.kind = f->results[0].kind;
    f->results[0] = value;
    f->refusals = 0;
    assert_int_equal(tenon_frame_has_result(&f->base, 0), wanted);
    assert_int_equal(f->refusals, wanted < 0);
    if (wanted < 0)
        refused(f, TENON_REFUSED_BY_CODE, 0, TENON_EFAILED, message);
}

static void test_values_of_results(void **state)
{
    (void)state;
    host_frame f;
    tenon_value unset = {.flags = TENON_VALUE_UNSET};
    const char *kinds[] = {"f() -> int", "f() -> float",   "f() -> bool",
                           "f() -> str", "f() -> 'a'|'b'", "f() -> f32[?]"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        begin(&f, kinds[i]);
        has(&f, unset, -1, "the function returned without setting result 0");
        end(&f);
    }
    begin(&f, "f() -> handle('I')");
    has(&f, (tenon_value){.flags = 0}, 1, NULL); /* take_handle has it */
    end(&f);
    begin(&f, "f() -> z: int");
    has(&f, unset, -1, "the function returned without setting result 'z'");
    end(&f);
    begin(&f, "f() -> int?");
    has(&f, unset, 0, NULL);
    has(&f, INT(-1), 1, NULL);
    end(&f);
    begin(&f, "f() -> 'a'|'b'");
    has(&f, INT(1), 1, NULL);
    has(&f, INT(2), -1, "the function set result 0 to choice 2, but there are only 2");
    has(&f, INT(-1), -1, "the function set result 0 to choice -1, but there are only 2");
    end(&f);
    begin(&f, "f() -> str");
    has(&f, (tenon_value){.as.list = {"gr\xc3\xbc\xc3\x9f", 6}}, 1, NULL);
    has(&f, (tenon_value){.as.list = {"\xff", 1}}, -1, "the function set result 0 to a string that is not UTF-8");
    end(&f);
}

static int destroyed;

static void destroy(void *object)
{
    (void)object;
    destroyed++;
}

static void test_services(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f() -> handle('Index'), str, int");
    assert_int_equal(tenon_frame_match(&f.base), 0);
    tenon_call *running = &f.base.call;
    destroyed = 0;
    assert_int_equal(host.result_handle(running, 0, memory, destroy), TENON_OK);
    assert_int_equal(destroyed, 1);
    assert_int_equal(host.result_str(running, 1, "text", 4), TENON_OK);
    assert_non_null(host.scratch(running, 100, 64, cpu()));
    assert_false(running->flags & TENON_CALL_FAILED);
    assert_int_equal(host.result_handle(running, 0, memory, destroy), TENON_EFAILED);
    assert_string_equal(f.base.error->message, "the function sets result 0 twice");
    end(&f);
    const struct {
        int32_t index;
        void *object;
    } wrong[] = {{2, memory}, {-1, memory}, {3, memory}, {0, NULL}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char message[100];
        begin(&f, "f() -> handle('Index'), str, int");
        assert_int_equal(tenon_frame_match(&f.base), 0);
        snprintf(message, sizeof message, "result %d is not a handle, or the handle is NULL", (int)wrong[i].index);
        assert_int_equal(host.result_handle(running, wrong[i].index, wrong[i].object, destroy), TENON_EFAILED);
        assert_string_equal(f.base.error->message, message);
        end(&f);
    }
    assert_int_equal(destroyed, 1);
    begin(&f, "f()");
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_null(host.scratch(running, 100, 64, cuda(0)));
    assert_string_equal(f.base.error->message, "this host has scratch memory on the CPU only");
    end(&f);
}

/* ------------------------------------------------------------------------------------------------------------- load */

static tenon_status load(tenon_call *running, void **made)
{
    assert_non_null(tenon_scratch(running, 10));
    *made = memory;
    return TENON_OK;
}

static tenon_status load_with_results(tenon_call *running, void **made)
{
    (void)made;
    assert_null(running->host->result_alloc(running, 0, TENON_F32, 0, NULL));
    return TENON_OK;
}

static void test_load(void **state)
{
    (void)state;
    host_frame f = {0};
    void *made = NULL;
    tenon_module module = {.load = load};
    assert_int_equal(tenon_frame_load(&f.base, &client, &host, &module, &made), 0);
    assert_ptr_equal(made, memory);
    module.load = load_with_results;
    assert_int_equal(tenon_frame_load(&f.base, &client, &host, &module, &made), -1);
    refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EFAILED, "load has no results");
    tenon_frame_end(&f.base); /* a host may */
    module.load = NULL;
    made = NULL;
    assert_int_equal(tenon_frame_load(&f.base, &client, &host, &module, &made), 0);
    assert_null(made);
}

/* A host and a core of two releases must not read each other's structs. */
static void test_a_mixed_build_is_refused(void **state)
{
    (void)state;
    tenon_signature *signature = NULL;
    FAILS(TENON_EVERSION, tenon_signature_alloc("f()", NULL, TENON_HOST_LAYOUT + 1, &signature, &err));
    assert_null(signature);
    assert_non_null(strstr(err.message, "compile both from the same release"));
    FAILS_SAYING(TENON_EINVAL, "tenon_signature_alloc(): argument 'text' is NULL",
                 tenon_signature_alloc(NULL, NULL, TENON_HOST_LAYOUT, &signature, &err));
    OK(tenon_signature_alloc("f()", NULL, TENON_HOST_LAYOUT, &signature, &err));
    tenon_signature_release(signature);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_call),
        cmocka_unit_test(test_what_is_written_is_marked),
        cmocka_unit_test(test_a_mismatch_names_the_object),
        cmocka_unit_test(test_only_set_arguments_are_described),
        cmocka_unit_test(test_an_earlier_mistake_comes_first),
        cmocka_unit_test(test_the_device_rule),
        cmocka_unit_test(test_results_that_cannot_be_made),
        cmocka_unit_test(test_a_result_is_on_its_device),
        cmocka_unit_test(test_nothing_required_is_left_out),
        cmocka_unit_test(test_values_of_another_kind),
        cmocka_unit_test(test_an_open_result_is_on_its_device),
        cmocka_unit_test(test_a_result_that_the_host_has_not_made),
        cmocka_unit_test(test_a_client_may_keep_its_error),
        cmocka_unit_test(test_failures_of_the_code),
        cmocka_unit_test(test_open_results),
        cmocka_unit_test(test_values_of_results),
        cmocka_unit_test(test_services),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_a_mixed_build_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
