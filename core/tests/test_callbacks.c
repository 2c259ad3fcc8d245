/* Callbacks: the grammar, what the function passes, and whose memory it is. */
#include "driver.h"

#ifdef TENON_TEST_OPENMP
#include <dlfcn.h>
#endif

static void no(const char *text, const char *message)
{
    tenon_signature *signature = NULL;
    FAILS(TENON_EPARSE, tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &signature, &err));
    assert_null(signature);
    if (!strstr(err.message, message)) {
        print_error("%s\nwanted: %s\n", err.message, message);
        fail();
    }
}

static void test_grammar(void **state)
{
    (void)state;
    tenon_signature *s =
        compiled("f(n: f32[n], callable: callable( '(x: f64[n, k] rw, s: str) -> a: float, b: int' )?)");
    const tenon_parameter *param = &s->params[1];
    assert_int_equal(param->kind, TENON_KIND_CALLABLE);
    assert_int_equal(param->flags, TENON_PARAMETER_OPTIONAL | TENON_PARAMETER_DEFAULT);
    assert_true(s->ncallables == 1 && s->plan == TENON_PLAN_NONE && s->names.ndims == 1);
    assert_string_equal(param->callback->name, "callable");
    assert_int_equal(param->callback->names.ndims, 2); /* its own */
    assert_int_equal(param->callback->nresults, 2);
    tenon_signature_release(s);
    s = compiled("f(g: callable('()'), h: callable(\" (x: T[n]) where T = f32|f64\"))");
    assert_int_equal(s->ncallables, 2);
    tenon_signature_release(s);
}

static void test_mistakes(void **state)
{
    (void)state;
    no("f(g: callable)", "after 'callable'");
    no("f(g: callable(x))", "expected a string in quotes");
    no("f(g: callable('()')", "or ',' after a parameter");
    no("f(g: callable('x: int'))", "the signature of the callable 'g' begins with '('");
    no("f(h: callable('()'), g: callable('(x: f6[n])'))", "unknown dtype 'f6'\n  g(x: f6[n])\n       ^");
    no("f(g: callable('(x: int?)'))", "is always passed, by position");
    no("f(g: callable('(x: f32[n] keep)'))", "is always passed, by position");
    no("f(g: callable('(x: ints)'))",
       "the arguments of a callback are tensors, int, float, bool and str\n  g(x: ints)");
    no("f(g: callable(\"(h: callable('()'))\"))", "the arguments of a callback are");
    no("f(g: callable('(x: f32[**b])'))",
       "an argument of a callback is not a batch: write '*b' instead of '**b'\n  g(x: f32[**b])");
    no("f(g: callable('() -> f32[3]'))", "a callback cannot return a tensor: pass it one with 'rw'");
    no("f(g: callable('() -> int?'))", "a result of a callback cannot be optional");
    no("f(g: callable('()') = 3)", "a callable can only have None as its default");
    no("f() -> callable('()')", "a callable cannot be a result");
}

/* ----------------------------------------------------------------------------------------------------------- calls */

static int calls;
static tenon_memory seen[4];
static tenon_value seen_args[4];

static int record(tenon_frame *base, const tenon_callback_call *made)
{
    assert_ptr_equal(base->args[made->index].as.handle.object, &calls);
    for (int32_t i = 0; i < made->signature->nparams; i++) {
        seen_args[i] = made->args[i];
        seen[i] = made->memory[i];
        if (made->args[i].kind == TENON_KIND_TENSOR)
            assert_int_equal(made->args[i].as.view->flags & TENON_READ_ONLY, i == 0 ? TENON_READ_ONLY : 0);
    }
    if (made->signature->nresults)
        made->results[0].as.number = 1.5;
    return calls++ == 3 ? -1 : 0; /* an error of the host's own */
}

static tenon_client calling_client;

static void start(host_frame *f, const char *text)
{
    begin(f, text);
    calling_client = client;
    calling_client.callback = record;
    f->base.client = &calling_client;
    calls = 0;
}

static void callback_runs(host_frame *f, tenon_status (*runs)(tenon_call *))
{
    tenon_frame_set_callable(&f->base, 0, &calls);
    assert_int_equal(tenon_frame_match(&f->base), 0);
    assert_int_equal(tenon_frame_make_results(&f->base, &client), 0);
    code = runs;
}

static tenon_tensor *kept;

static tenon_status pass_memory(tenon_call *running)
{
    int64_t n = 3;
    float *scratch = tenon_scratch(running, 64);
    assert_non_null(scratch);
    assert_int_equal((uintptr_t)scratch % 64, 0);
    assert_int_equal((uintptr_t)running->host->scratch(running, 10, 4096, running->device) % 4096, 0);
    tenon_view inside = tenon_view_of(scratch + 13, TENON_F32, 1, &n);
    tenon_value result, args[2] = {tenon_value_of_view(tenon_arg(running, 1)), tenon_value_of_view(&inside)};
    OK(tenon_callback(running, 0, args, &result));
    assert_true(result.kind == TENON_KIND_FLOAT && result.as.number == 1.5);
    assert_true(seen[0].where == TENON_MEMORY_ARGUMENT && seen[0].index == 1 && seen[0].item == -1);
    assert_int_equal(seen[1].where, TENON_MEMORY_SCRATCH);
    kept = tenon_tensor_retain(seen[1].scratch);
    scratch[13] = 7;
    args[1] = tenon_value_of_view(tenon_result(running, 0));
    OK(tenon_callback(running, 0, args, &result));
    assert_true(seen[1].where == TENON_MEMORY_RESULT && seen[1].index == 0);
    n = 0;
    inside = tenon_view_of(NULL, TENON_F32, 1, &n);
    args[0] = args[1] = tenon_value_of_view(&inside);
    OK(tenon_callback(running, 0, args, &result));
    assert_int_equal(seen[0].where, TENON_MEMORY_NONE);
    return TENON_OK;
}

static void test_memory(void **state)
{
    (void)state;
    host_frame f;
    start(&f, "f(g: callable('(x: f32[n], y: f32[n] rw) -> float'), x: f32[n]) -> f32[3]");
    static float own[3];
    take(&f, 1, 3, cpu());
    ((tenon_view *)(uintptr_t)f.args[1].as.view)->data = own; /* not that of the results */
    callback_runs(&f, pass_memory);
    assert_int_equal(tenon_frame_run(&f.base, &client), 0);
    assert_int_equal(calls, 3);
    end(&f);
    assert_true(((const float *)tenon_tensor_view(kept)->data)[13] == 7); /* it outlives the call */
    tenon_tensor_release(kept);
}

static tenon_value wrong[2];

static tenon_status pass_wrong(tenon_call *running)
{
    tenon_value result;
    return tenon_callback(running, 0, wrong, &result);
}

static void misuse(const char *message)
{
    host_frame f;
    start(&f, "f(g: callable('(x: f32[n], s: str) -> float'), x: f32[n] rw)");
    take(&f, 1, 3, cpu());
    callback_runs(&f, pass_wrong);
    assert_int_equal(tenon_frame_run(&f.base, &client), -1);
    refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EFAILED, message);
    assert_int_equal(calls, 0);
    end(&f);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    int64_t n = 3, many = 65, large = 64;
    float outside[3];
    tenon_view view = tenon_view_of(outside, TENON_F32, 1, &n);
    wrong[0] = tenon_value_of_view(&view);
    wrong[1] = tenon_value_of_str("a", 1);
    misuse("its code calls 'g', whose argument 'x' is not in the memory of an argument, of a result or of "
           "tenon_scratch()");
    view = tenon_view_of(memory, TENON_F32, 1, &large);
    misuse("its code calls 'g', whose argument 'x' is not in the memory of an argument, of a result or of "
           "tenon_scratch()");
    view = tenon_view_of(memory, TENON_F32, 65, &many);
    misuse("its code calls 'g', whose argument 'x' has more than 64 dimensions");
    view = tenon_view_of(memory, TENON_F32, 1, &n);
    wrong[1] = tenon_value_of_str("\xff", 1);
    misuse("its code calls 'g', whose argument 's' is not UTF-8");
    wrong[1] = tenon_value_of_bool(true);
    misuse("its code calls 'g', whose argument 's' is a bool, not a str");
    wrong[0] = tenon_value_of_view(NULL);
    wrong[1] = tenon_value_of_str("", 0);
    misuse("its code calls 'g', whose argument 'x' is NULL");
}

static tenon_status call_often(tenon_call *running)
{
    for (int i = 0; i < 6; i++)
        assert_int_equal(tenon_callback(running, 0, NULL, NULL), i < 3 ? TENON_OK : TENON_EFAILED);
    return TENON_OK;
}

static void test_failures(void **state)
{
    (void)state;
    host_frame f;
    start(&f, "f(g: callable('()'))");
    callback_runs(&f, call_often);
    assert_int_equal(tenon_frame_run(&f.base, &client), -1);
    assert_int_equal(calls, 4); /* none after the failure */
    refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EFAILED, "it failed with TENON_EFAILED and gave no reason");
    end(&f);
}

static tenon_status call_once(tenon_call *running)
{
    return tenon_callback(running, 0, NULL, NULL);
}

static void test_what_cannot_be_called(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(g: callable('()'))"); /* with a client that has none */
    callback_runs(&f, call_once);
    assert_int_equal(tenon_frame_run(&f.base, &client), -1);
    refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EFAILED, "this host (test) has no callbacks");
    end(&f);
    start(&f, "f(g: callable('()')?)");
    f.args[0] = NONE;
    assert_int_equal(tenon_frame_match(&f.base), 0);
    code = call_once;
    assert_int_equal(tenon_frame_run(&f.base, &client), -1);
    refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EFAILED,
            "its code calls tenon_callback() for index 0, which is not given");
    end(&f);
}

static tenon_status call_in_body(void *context, int64_t first, int64_t last)
{
    (void)first;
    (void)last;
    return tenon_callback(context, 0, NULL, NULL);
}

static tenon_status call_in_loop(tenon_call *running)
{
    int64_t count = *(int64_t *)running->state;
    assert_int_equal(tenon_parallel_for(running, count, 1, call_in_body, running), TENON_EFAILED);
    return TENON_OK;
}

static void test_loops(void **state)
{
    (void)state;
    for (int64_t count = 1; count < 100000; count *= 1000) { /* inline, and on several threads if there are any */
        host_frame f;
        start(&f, "f(g: callable('()'))");
        callback_runs(&f, call_in_loop);
        f.base.call.state = &count;
        assert_int_equal(tenon_frame_run(&f.base, &client), -1);
        assert_int_equal(calls, 0);
        assert_int_equal(f.refused.status, TENON_EFAILED);
        end(&f);
    }
}

/* Such a call runs unchecked: a callback may keep the memory of a result. */
static void test_checked(void **state)
{
    (void)state;
    host_frame f;
    start(&f, "f(g: callable('(x: f32[n], y: f32[n] rw) -> float'), x: f32[n]) -> f32[3]");
    static float own[3];
    take(&f, 1, 3, cpu());
    ((tenon_view *)(uintptr_t)f.args[1].as.view)->data = own;
    callback_runs(&f, pass_memory);
    assert_int_equal(tenon_frame_run_checked(&f.base, 0), 0);
    end(&f);
    tenon_tensor_release(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammar),  cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_memory),   cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_failures), cmocka_unit_test(test_what_cannot_be_called),
        cmocka_unit_test(test_loops),    cmocka_unit_test(test_checked),
    };
#ifdef TENON_TEST_OPENMP /* libraries/openmp.c: ThreadSanitizer does not see how the threads of libgomp wait for each other */
    if (!dlopen(TENON_TEST_OPENMP, RTLD_NOW | RTLD_LOCAL))
        return 1;
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
