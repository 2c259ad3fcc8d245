/* A call by plan against the steps of the driver that it replaces: the same views and bindings, or "unknown". */
#include "random.h"
#include "signature_call.h"

enum { CASES = 10000, MOST = 3 };

static const char *const texts[] = {
    "f(x: f32[n])",
    "f(x: f32[n, n])",
    "f(x: f32[n, k], y: f32[k, n]) -> f32[n]",
    "f(x: f32[n, k, _], y: f32[k] c) -> float",
    "f(x: f32[n, k] f, y: f32[n])",
    "f(x: f32[n] rw)",
    "f(x: f32[n, k] rw dense)",
    "f(x: f32[n] aligned(64), y: f32[] unaligned)",
    "f(a: f32[p, q, r, s], b: f32[s, r, q, p], c: f32[q, q, p, _])",
};

static _Alignas(4096) char memory[4096];

typedef struct host_frame {
    tenon_frame base;
    tenon_value args[MOST];
    tenon_value results[2];
    roomy_view views[MOST];
} host_frame;

static void begin(host_frame *f, const tenon_signature *s)
{
    static const tenon_client client = {0};
    static const tenon_function function = {0};
    tenon_call constant;
    memset(f, 0xa5, sizeof *f); /* nothing may rely on what was there */
    tenon_call_init(&constant, NULL, &function, NULL, s);
    f->base.args = f->args;
    f->base.results = f->results;
    tenon_frame_begin(&f->base, &client, &constant, s);
}

typedef struct tensor {
    void *data;
    int64_t shape[4];
    uint64_t flags;
} tensor;

static void random_tensor(tensor *out, int32_t ndim)
{
    static const int64_t sizes[] = {2, 2, 2, 2, 2, 3, 1, 0, INT32_MAX, INT64_MAX, -1};
    static const int offsets[] = {0, 0, 0, 64, 4, 16, 1};
    out->data = below(40) ? memory + offsets[below(7)] : NULL;
    out->flags = below(4) ? 0 : TENON_READ_ONLY;
    for (int32_t i = 0; i < ndim; i++)
        out->shape[i] = sizes[below(below(5) ? 6 : 11)];
}

/* Whether the plan takes them all. */
static bool by_plan(host_frame *f, const tenon_signature *s, const tensor *tensors)
{
    memset(f, 0xa5, sizeof *f);
    f->base.args = f->args;
    f->base.results = f->results;
    for (int32_t i = 0; i < s->nparams; i++)
        if (!tenon_plan_set_view(&s->fast[i], f->base.bindings.dims, &f->args[i], tensors[i].data, tensors[i].shape,
                                 tensors[i].flags, &f->views[i].view, f->views[i].dims))
            return false;
    static const tenon_client client = {0};
    tenon_call constant;
    tenon_call_init(&constant, NULL, NULL, NULL, s);
    tenon_plan_begin(&f->base, &client, &constant, s);
    return true;
}

/* Whether they are valid and match. */
static bool by_steps(host_frame *f, const tenon_signature *s, const tensor *tensors)
{
    begin(f, s);
    for (int32_t i = 0; i < s->nparams; i++) {
        tenon_dl_tensor source = {.data = tensors[i].data, .dtype = TENON_F32, .device = {TENON_CPU, 0}};
        source.shape = (int64_t *)(uintptr_t)tensors[i].shape;
        source.ndim = s->fast[i].ndim;
        if (tenon_view_init(&f->views[i].view, &source, tensors[i].flags, f->views[i].dims, NULL))
            return false;
        tenon_frame_set_view(&f->base, i, &f->views[i].view);
    }
    return match(s, f->args, NULL, &f->base.bindings, NULL) == TENON_OK;
}

static void same_views(const tenon_view *a, const tenon_view *b)
{
    assert_ptr_equal(a->data, b->data);
    assert_true(tenon_device_equal(a->device, b->device));
    assert_true(tenon_dtype_equal(a->dtype, b->dtype));
    assert_int_equal(a->ndim, b->ndim);
    assert_int_equal(a->byte_offset, b->byte_offset);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->numel, b->numel);
    for (int32_t i = 0; i < a->ndim; i++) {
        assert_int_equal(a->shape[i], b->shape[i]);
        assert_int_equal(a->strides[i], b->strides[i]);
    }
}

static void test_a_plan_is_the_steps(void **state)
{
    (void)state;
    static host_frame plan, steps;
    int taken = 0, matched = 0;
    for (int i = 0; i < CASES; i++) {
        tenon_signature *s = compiled(texts[below(sizeof texts / sizeof *texts)]);
        assert_true(s->planned);
        tensor tensors[MOST];
        for (int32_t k = 0; k < s->nparams; k++)
            random_tensor(&tensors[k], s->fast[k].ndim);
        bool fits = by_plan(&plan, s, tensors), fits_too = by_steps(&steps, s, tensors);
        assert_true(!fits || fits_too);
        for (int32_t k = 0; fits && k < s->nparams; k++) {
            same_views(plan.args[k].as.view, steps.args[k].as.view);
            assert_int_equal(plan.args[k].kind, steps.args[k].kind);
            assert_int_equal(plan.args[k].flags, steps.args[k].flags);
        }
        if (fits) {
            assert_int_equal(plan.base.bindings.dims_bound, steps.base.bindings.dims_bound);
            for (int32_t k = 0; k < s->names.ndims; k++)
                assert_int_equal(plan.base.bindings.dims[k], steps.base.bindings.dims[k]);
            assert_ptr_equal(plan.base.call.results, plan.results);
        }
        taken += fits;
        matched += fits_too;
        tenon_signature_release(s);
    }
    assert_true(taken > CASES / 10);
    assert_true(matched > taken); /* of empty tensors the plan knows nothing */
}

static void test_signatures_without_a_plan(void **state)
{
    (void)state;
    const char *const none[] = {"f()",
                                "f(n: int)",
                                "f(x: T[n]) where T = any",
                                "f(x: f32[*b])",
                                "f(x: f32[n + 1], n: int)",
                                "f(x: f32[n]) -> f32[?]",
                                "f(x: f32[n]) -> f32[n - 1]",
                                "f(x: f32[n]) -> str",
                                "f(x: f32[n]) -> f32[n] cpu",
                                "f(x: f32[n], s: str)",
                                "f(x: f32[n] rw, y: f32[n])",
                                "f(x: f32|f64[n])",
                                "f(x: f32[n] cuda)",
                                "f(x: f32[a, b, c, d, e])"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        tenon_signature *s = compiled(none[i]);
        assert_false(s->planned);
        tenon_signature_release(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_is_the_steps),
        cmocka_unit_test(test_signatures_without_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
