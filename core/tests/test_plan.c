/* Calls by plan against the steps of the driver that they replace: the same views and bindings, or "unknown". */
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

/* Signatures that have only a wide plan. */
static const char *const wide_texts[] = {
    "f()",
    "f(n: int)",
    "f(x: f32[n, 2], y: f32[3])",
    "f(x: f32[n]?, y: f32[n, k]?)",
    "f(x: T[n], y: T[n, _]) -> T[n] where T = f32 | i32 | f64",
    "f(x: f32|f64[n], y: T[n] aligned(16)) where T = any",
    "f(x: f32[n], n: int, k: int?) -> f32[n + 1]",
    "f(x: f32[n] rw, y: f32[n])",
    "f(x: f32[n] rw alias, y: f32[n], z: f32[n] rw)",
    "f(x: f32[n] rw, y: f32[n] rw inplace(x))",
    "f(x: f32[n], k: int, m: 1|2|4) where k <= n, n > 1",
    "f(x: f32[n], d: dtype(T)) -> T[n] where T = f32 | f64",
    "f(x: f32[n]) -> f32[?], str",
    "f(x: f32[n]) -> f32[n] cpu",
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

/* A random argument: a tensor, or an integer. */
typedef struct tensor {
    void *data;
    int64_t shape[4];
    uint64_t flags;
    tenon_dtype dtype;
    bool is_missing;
    int64_t integer;
} tensor;

static void random_tensor(tensor *out, int32_t ndim)
{
    static const int64_t sizes[] = {2, 2, 2, 2, 2, 3, 1, 0, INT32_MAX, INT64_MAX, -1};
    static const int offsets[] = {0, 0, 0, 64, 4, 16, 1};
    out->data = below(40) ? memory + offsets[below(7)] : NULL;
    out->flags = below(4) ? 0 : TENON_READ_ONLY;
    out->dtype = TENON_F32;
    out->is_missing = false;
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

/* Set an argument that is not a tensor, or that is missing. */
static bool set_value(tenon_frame *f, int32_t i, const tensor *given)
{
    const tenon_parameter *param = &f->signature->params[i];
    if (tenon_frame_set_missing(f, i, !given->is_missing, false))
        return true;
    f->args[i].kind = param->kind;
    f->args[i].flags = 0;
    if (param->kind == TENON_KIND_DTYPE)
        f->args[i].as.dtype = given->dtype;
    else
        f->args[i].as.integer = given->integer;
    return !param->spec;
}

static void random_argument(tensor *out, const tenon_signature *s, int32_t i)
{
    const tenon_dtype dtypes[] = {TENON_F32, TENON_F32, TENON_F32, TENON_F64, TENON_I32, TENON_C64};
    random_tensor(out, s->params[i].spec ? s->fast[i].ndim : 0);
    out->dtype = dtypes[below(6)];
    if (out->data && below(3))
        out->data = memory + 256 * (i + 1); /* so that not all of them overlap */
    out->is_missing = (s->params[i].flags & TENON_PARAMETER_DEFAULT) && below(3) == 0;
    out->integer = below(5) - 1;
}

static bool by_wide_plan(host_frame *f, const tenon_signature *s, const tensor *given)
{
    static const tenon_client client = {0};
    tenon_call constant;
    memset(f, 0xa5, sizeof *f);
    tenon_call_init(&constant, NULL, NULL, NULL, s);
    f->base.args = f->args;
    f->base.results = f->results;
    tenon_plan_begin_wide(&f->base, &client, &constant, s);
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_parameter *param = &s->params[i];
        if (!set_value(&f->base, i, &given[i])) {
            if (!tenon_plan_set_view_wide(&f->base, i, given[i].dtype, given[i].data, given[i].shape, given[i].flags,
                                          &f->views[i].view, f->views[i].dims))
                return false;
        } else if (param->checked && f->args[i].kind != TENON_KIND_NONE &&
                   !tenon_plan_bind_value(param, &f->args[i], &f->base.bindings)) {
            return false;
        }
    }
    return tenon_plan_match_rest(&f->base);
}

/* Whether they are valid and match. */
static bool by_steps(host_frame *f, const tenon_signature *s, const tensor *tensors)
{
    begin(f, s);
    for (int32_t i = 0; i < s->nparams; i++) {
        if (set_value(&f->base, i, &tensors[i]))
            continue;
        tenon_dl_tensor source = {.data = tensors[i].data, .dtype = tensors[i].dtype, .device = {TENON_CPU, 0}};
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
        assert_int_equal(s->plan, TENON_PLAN_PLAIN);
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

static void same_bindings(const tenon_signature *s, const tenon_bindings *a, const tenon_bindings *b)
{
    assert_int_equal(a->dims_bound, b->dims_bound);
    assert_int_equal(a->types_bound, b->types_bound);
    for (int32_t k = 0; k < s->names.ndims; k++) {
        assert_int_equal(a->dims[k], b->dims[k]);
        if (a->dims_bound >> k & 1)
            assert_string_equal(a->dims_from[k], b->dims_from[k]);
    }
    for (int32_t k = 0; k < s->names.ntypes; k++)
        assert_true(tenon_dtype_equal(a->types[k], b->types[k]));
}

static void same_results(const tenon_signature *s, const tenon_bindings *a, const tenon_bindings *b)
{
    tenon_dtype dtype[2];
    int32_t ndim[2];
    int64_t shape[2][TENON_MAX_NDIM];
    for (int32_t i = 0; i < s->nresults; i++) {
        if (!s->results[i].spec)
            continue;
        tenon_error first = {0}, second = {0};
        tenon_status status = tenon_signature_result(s, i, a, &dtype[0], &ndim[0], shape[0], &first);
        assert_int_equal(tenon_signature_result(s, i, b, &dtype[1], &ndim[1], shape[1], &second), status);
        assert_string_equal(first.message, second.message);
        if (status)
            continue;
        assert_true(tenon_dtype_equal(dtype[0], dtype[1]) && ndim[0] == ndim[1]);
        assert_memory_equal(shape[0], shape[1], (size_t)ndim[0] * sizeof(int64_t));
    }
}

static void test_a_wide_plan_is_the_steps(void **state)
{
    (void)state;
    static host_frame plan, steps;
    int taken[sizeof wide_texts / sizeof *wide_texts] = {0};
    enum { TEXTS = sizeof wide_texts / sizeof *wide_texts, PLAIN = sizeof texts / sizeof *texts };
    for (int i = 0; i < 2 * CASES; i++) {
        int number = below(TEXTS + PLAIN);
        tenon_signature *s = compiled(number < TEXTS ? wide_texts[number] : texts[number - TEXTS]);
        assert_int_equal(s->plan, number < TEXTS ? TENON_PLAN_WIDE : TENON_PLAN_PLAIN);
        tensor given[MOST];
        for (int32_t k = 0; k < s->nparams; k++)
            random_argument(&given[k], s, k);
        bool fits = by_wide_plan(&plan, s, given), fits_too = by_steps(&steps, s, given);
        assert_true(!fits || fits_too);
        for (int32_t k = 0; fits && k < s->nparams; k++) {
            assert_int_equal(plan.args[k].kind, steps.args[k].kind);
            assert_int_equal(plan.args[k].flags, steps.args[k].flags);
            if (plan.args[k].kind == TENON_KIND_TENSOR)
                same_views(plan.args[k].as.view, steps.args[k].as.view);
        }
        if (fits) {
            same_bindings(s, &plan.base.bindings, &steps.base.bindings);
            same_results(s, &plan.base.bindings, &steps.base.bindings);
            assert_ptr_equal(plan.base.call.results, plan.results);
            assert_ptr_equal(plan.base.call.types, plan.base.bindings.types);
            taken[number < TEXTS ? number : 0]++;
        }
        tenon_signature_release(s);
    }
    for (int i = 0; i < TEXTS; i++)
        assert_true(taken[i] > 10);
}

static void test_signatures_without_a_plan(void **state)
{
    (void)state;
    const char *const none[] = {"f(x: f32[*b])",
                                "f(x: f32[**b])",
                                "f(x: f32[n + 1], n: int)",
                                "f(x: [f32[n]])",
                                "f(x: f32[n]) -> [f32[?]]",
                                "f(x: f32[n], f: callable('(x: float)'))",
                                "f(x: f32[n], h: handle('Index'))",
                                "f(x: f32[n] cuda)",
                                "f(x: f32[a, b, c, d, e])"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        tenon_signature *s = compiled(none[i]);
        assert_int_equal(s->plan, TENON_PLAN_NONE);
        tenon_signature_release(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_is_the_steps),
        cmocka_unit_test(test_a_wide_plan_is_the_steps),
        cmocka_unit_test(test_signatures_without_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
