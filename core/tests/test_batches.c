/* Batches: the grammar, broadcasting, and tenon_for_each. */
#include "driver.h"

static void no(const char *text, const char *message)
{
    tenon_signature *signature = NULL;
    FAILS(TENON_EPARSE, tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &signature, &err));
    if (!strstr(err.message, message)) {
        print_error("%s\nwanted: %s\n", err.message, message);
        fail();
    }
}

static void test_grammar(void **state)
{
    (void)state;
    tenon_signature *s =
        compiled("f(x: f32[**b, n], k: int, y: f64[ ** b ]?, z: f32[*c]? = None) -> f32[**b], i64[**b, n, 2]");
    assert_true(s->nbatched == 2 && s->checks_all && s->plan == TENON_PLAN_NONE && s->names.nstars == 2);
    assert_string_equal(s->names.stars[s->batch], "b");
    tenon_dimension dim;
    OK(tenon_signature_dim(s, 0, 0, &dim, &err));
    assert_true(dim.kind == TENON_DIM_BATCH && dim.slot == s->batch);
    OK(tenon_signature_dim(s, 5, 0, &dim, &err));
    assert_true(dim.kind == TENON_DIM_BATCH && dim.slot == s->batch);
    tenon_signature_release(s);
    s = compiled("f(x: f32[*b, n]) -> f32[*b]");
    assert_true(s->nbatched == 0 && !s->checks_all);
    tenon_signature_release(s);
}

static void test_mistakes(void **state)
{
    (void)state;
    no("f(x: f32[n, **b])", "a batch is at the beginning of a shape");
    no("f(x: f32[**_])", "a batch needs a name");
    no("f(x: f32[**])", "expected a name after '*'");
    no("f(x: f32[**b, *c])", "a shape has at most one '*'");
    no("f(x: f32[**b], y: f32[*b])", "'*b' and '**b' cannot be used together");
    no("f(x: f32[**b]) -> f32[*b]", "'*b' and '**b' cannot be used together");
    no("f(x: f32[*b]) -> f32[**b]", "'*b' and '**b' cannot be used together");
    no("f(xs: [f32[*b]], x: f32[**b])", "'*b' and '**b' cannot be used together");
    no("f(x: f32[*b], y: f32[**c]) -> f32[**b]", "a signature has one batch: '**c' or '**b'");
    no("f(x: f32[**b], y: f32[**c])", "a signature has one batch: '**b' or '**c'");
    no("f(x: f32[**b] c)", "'c', 'f', 'dense', 'rw' and 'keep' do not apply to it");
    no("f(x: f32[**b] f)", "do not apply to it");
    no("f(x: f32[**b] dense)", "do not apply to it");
    no("f(x: f32[**b] rw)", "do not apply to it");
    no("f(x: f32[**b] keep)", "do not apply to it");
    no("f(xs: [f32[**b]])", "a tensor in a list cannot have a batch '**b'");
    no("f(x: f32[**b], xs: [f32[n]]) -> [f32[**b]] for xs", "a tensor in a list cannot have a batch");
    no("f(x: f32[n]) -> f32[**b]", "no argument determines '**b'");
    no("f(x: f32[**b]) -> f32[**b] own", "'own' and 'of' do not apply to it");
    no("f(x: f32[**b]) -> f32[?] of(x)", "'x' is a batch, so that no result can be of(x)");
    tenon_spec spec;
    tenon_names names = {0};
    FAILS(TENON_EPARSE, tenon_spec_parse("f32[**b]", &names, &spec, &err));
}

/* ----------------------------------------------------------------------------------------------------- broadcasting */

static roomy_view rooms[4];

static void set(host_frame *f, int32_t index, int32_t ndim, int64_t *shape, int64_t *strides)
{
    tenon_dl_tensor source = source_of(memory, TENON_F32, ndim, shape, strides);
    OK(tenon_view_init(&rooms[index].view, &source, TENON_READ_ONLY, rooms[index].dims, &err));
    tenon_frame_set_view(&f->base, index, &rooms[index].view);
}

static void test_broadcast(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[**b, n], y: f32[**b], z: f32[**b, n]?) -> f32[**b]");
    set(&f, 0, 3, DIMS(2, 1, 4), NULL);
    set(&f, 1, 1, DIMS(3), NULL);
    f.args[2] = NONE;
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_dims(f.args[0].as.view, 3, DIMS(2, 3, 4), DIMS(4, 0, 1));
    assert_dims(f.args[1].as.view, 2, DIMS(2, 3), DIMS(0, 1));
    assert_ptr_equal(f.args[0].as.view->data, memory);
    assert_true(f.args[0].as.view->flags & TENON_READ_ONLY);
    assert_false(f.args[0].as.view->flags & (TENON_VIEW_C | TENON_VIEW_DENSE));
    assert_int_equal(f.args[0].as.view->numel, 24);
    assert_dims(&rooms[0].view, 3, DIMS(2, 1, 4), DIMS(4, 4, 1)); /* the host's own is not changed */
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    assert_dims(f.results[0].as.view, 2, DIMS(2, 3), DIMS(3, 1));
    end(&f);
    begin(&f, "f(x: f32[**b], y: f32[**b]) -> f32[**b]");
    set(&f, 0, 2, DIMS(2, 3), DIMS(1, 2));
    set(&f, 1, 2, DIMS(2, 3), NULL);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_ptr_equal(f.args[0].as.view, &rooms[0].view); /* nothing to do */
    end(&f);
    begin(&f, "f(x: f32[**b], y: f32[**b]) -> f32[**b]"); /* a size of 0, and scalars */
    set(&f, 0, 2, DIMS(0, 3), NULL);
    set(&f, 1, 0, NULL, NULL);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_dims(f.args[1].as.view, 2, DIMS(0, 3), DIMS(0, 0));
    end(&f);
}

static void test_out(void **state)
{
    (void)state;
    host_frame f;
    roomy_view out;
    begin(&f, "f(x: f32[**b], y: f32[**b]) -> f32[**b]");
    set(&f, 0, 2, DIMS(2, 1), NULL);
    set(&f, 1, 1, DIMS(3), NULL);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    static float other[8];
    tenon_dl_tensor source = source_of(other, TENON_F32, 2, DIMS(2, 3), NULL);
    OK(tenon_view_init(&out.view, &source, 0, out.dims, &err));
    OK(tenon_signature_match_out(f.base.signature, 0, &out.view, f.args, cpu(), &f.base.bindings, &err));
    source = source_of(other, TENON_F32, 1, DIMS(3), NULL);
    OK(tenon_view_init(&out.view, &source, 0, out.dims, &err));
    FAILS_SAYING(TENON_ESHAPE, "f(): argument 'out': **b is [3], but **b = [2, 3]",
                 tenon_signature_match_out(f.base.signature, 0, &out.view, f.args, cpu(), &f.base.bindings, &err));
    end(&f);
}

static void test_shapes_that_do_not_broadcast(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[**b, n], y: f32[**b]) -> f32[**b]");
    set(&f, 0, 4, DIMS(2, 1, 3, 4), NULL);
    set(&f, 1, 2, DIMS(5, 2), NULL);
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(
        &f, TENON_REFUSED_ARGUMENT, -1, TENON_ESHAPE,
        "f(): argument 'y': dimension 1 is 2, and dimension 2 of argument 'x' is 3: they must be equal, or one of them "
        "1, in **b");
    end(&f);
    begin(&f, "f(x: f32[**b, n], y: f32[**b, n])"); /* other mistakes are about the caller's shapes */
    set(&f, 0, 2, DIMS(2, 4), NULL);
    set(&f, 1, 1, DIMS(5), NULL);
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_ESHAPE,
            "f(): argument 'y': dimension 0 is 5, but n = 4 from argument 'x'");
    end(&f);
    begin(&f, "f(x: f32[**b], y: f32[**b])");
    int64_t large = INT64_C(1) << 40;
    set(&f, 0, 2, DIMS(large, 1), DIMS(0, 0));
    set(&f, 1, 2, DIMS(1, large), DIMS(0, 0));
    assert_int_equal(tenon_frame_match(&f.base), -1);
    refused(&f, TENON_REFUSED_ARGUMENT, -1, TENON_EOVERFLOW,
            "f(): argument 'x' with the shape of **b has more bytes than 64 bits can count");
    end(&f);
}

/* --------------------------------------------------------------------------------------------------------- the loop */

enum { MOST_RUNS = 64 };
static struct {
    float *data[3];
    int64_t steps[3], count;
} runs[MOST_RUNS];
static int nruns, fails_at;

static tenon_status note_run(void *context, void *const *data, const int64_t *steps, int64_t count)
{
    int tensors = *(int *)context;
    assert_true(nruns < MOST_RUNS);
    for (int k = 0; k < tensors; k++) {
        runs[nruns].data[k] = data[k];
        runs[nruns].steps[k] = steps[k];
    }
    runs[nruns].count = count;
    return nruns++ == fails_at ? TENON_EBOUNDS : TENON_OK;
}

static int tensors;

static tenon_status each(tenon_call *running)
{
    nruns = 0;
    return tenon_for_each(running, INT64_MAX, note_run, &tensors);
}

static void loop(host_frame *f)
{
    fails_at = -1;
    tensors = 3;
    assert_int_equal(tenon_frame_match(&f->base), 0);
    assert_int_equal(tenon_frame_make_results(&f->base, &client), 0);
    code = each;
    assert_int_equal(tenon_frame_run(&f->base, &client), 0);
}

static void test_runs(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[**b], y: f32[**b]) -> f32[**b]"); /* dense: one run */
    set(&f, 0, 3, DIMS(2, 3, 4), NULL);
    set(&f, 1, 3, DIMS(2, 3, 4), NULL);
    loop(&f);
    assert_true(nruns == 1 && runs[0].count == 24);
    assert_memory_equal(runs[0].steps, DIMS(1, 1, 1), sizeof runs[0].steps);
    assert_ptr_equal(runs[0].data[2], f.results[0].as.view->data);
    end(&f);
    begin(&f, "f(x: f32[**b], y: f32[**b]) -> f32[**b]"); /* a scalar, and one with gaps */
    set(&f, 0, 2, DIMS(2, 3), DIMS(8, 2));
    set(&f, 1, 0, NULL, NULL);
    loop(&f);
    assert_true(nruns == 2 && runs[0].count == 3);
    assert_memory_equal(runs[1].steps, DIMS(2, 0, 1), sizeof runs[1].steps);
    assert_true(runs[1].data[0] == memory + 8 && runs[1].data[1] == memory && runs[1].data[2] == memory + 3);
    end(&f);
    begin(&f, "f(x: f32[**b], y: f32[**b]) -> f32[**b]"); /* most are in the order of Fortran */
    set(&f, 0, 2, DIMS(2, 3), DIMS(1, 2));
    set(&f, 1, 2, DIMS(2, 3), DIMS(1, 2));
    loop(&f);
    assert_true(nruns == 3 && runs[0].count == 2);
    assert_memory_equal(runs[1].steps, DIMS(1, 1, 3), sizeof runs[1].steps);
    assert_true(runs[1].data[0] == memory + 2 && runs[1].data[2] == memory + 1);
    end(&f);
    begin(&f, "f(x: f32[**b], y: f32[**b]) -> f32[**b]"); /* as many are in the order of C */
    set(&f, 0, 2, DIMS(2, 3), DIMS(1, 2));
    set(&f, 1, 1, DIMS(3), NULL);
    loop(&f);
    assert_true(nruns == 2 && runs[0].count == 3);
    assert_memory_equal(runs[1].steps, DIMS(2, 1, 1), sizeof runs[1].steps);
    end(&f);
    begin(&f, "f(x: f32[**b], y: f32[**b]) -> f32[**b]"); /* the last dimension is short */
    set(&f, 0, 2, DIMS(9, 2), NULL);
    set(&f, 1, 1, DIMS(2), NULL);
    loop(&f);
    assert_true(nruns == 2 && runs[0].count == 9);
    assert_memory_equal(runs[1].steps, DIMS(2, 0, 2), sizeof runs[1].steps);
    assert_true(runs[1].data[0] == memory + 1 && runs[1].data[1] == memory + 1 && runs[1].data[2] == memory + 1);
    end(&f);
    begin(&f, "f(x: f32[**b, n], y: f32[**b]) -> f32[**b]"); /* rows: the step is that of an item */
    set(&f, 0, 3, DIMS(2, 3, 4), NULL);
    set(&f, 1, 2, DIMS(2, 1), NULL);
    loop(&f);
    assert_true(nruns == 2 && runs[1].count == 3);
    assert_memory_equal(runs[1].steps, DIMS(4, 0, 1), sizeof runs[1].steps);
    assert_true(runs[1].data[0] == memory + 12 && runs[1].data[1] == memory + 1);
    end(&f);
    begin(&f, "f(x: f32[**b], y: f32[**b]?) -> f32[**b]"); /* one item; an argument that was not passed */
    set(&f, 0, 0, NULL, NULL);
    f.args[1] = NONE;
    loop(&f);
    assert_true(nruns == 1 && runs[0].count == 1 && !runs[0].data[1]);
    end(&f);
    begin(&f, "f(x: f32[**b], y: f32[**b]) -> f32[**b]"); /* nothing */
    set(&f, 0, 2, DIMS(2, 0), NULL);
    set(&f, 1, 0, NULL, NULL);
    loop(&f);
    assert_int_equal(nruns, 0);
    end(&f);
}

/* Parts of a parallel loop begin anywhere. */
static int64_t sums[2];
static tenon_status sum_run(void *context, void *const *data, const int64_t *steps, int64_t count)
{
    (void)context;
    for (int64_t i = 0; i < count; i++) {
        const float *x = data[0], *y = data[1];
        float *z = data[2];
        z[i * steps[2]] = x[i * steps[0]] + y[i * steps[1]];
    }
    sums[0] += count;
    sums[1]++;
    return TENON_OK;
}

static tenon_status in_parts(tenon_call *running, int64_t count, int64_t grain,
                             tenon_status (*body)(void *context, int64_t begin, int64_t stop), void *context)
{
    (void)running;
    for (int64_t at = 0; at < count; at += grain)
        OK(body(context, at, at + grain < count ? at + grain : count));
    return TENON_OK;
}

static tenon_status add_in_parts(tenon_call *running)
{
    tenon_host own = *running->host;
    const tenon_host *before = running->host;
    own.parallel = in_parts;
    running->host = &own;
    tenon_status status = tenon_for_each(running, 5, sum_run, NULL);
    running->host = before;
    return status;
}

static void test_parts(void **state)
{
    (void)state;
    host_frame f;
    for (int i = 0; i < 64; i++)
        memory[i] = (float)i;
    static float y[6] = {0, 100, 200, 300, 400, 500};
    begin(&f, "f(x: f32[**b], y: f32[**b]) -> f32[**b]");
    static roomy_view room;
    tenon_dl_tensor source = source_of(y, TENON_F32, 2, DIMS(3, 1), DIMS(2, 1));
    set(&f, 0, 3, DIMS(2, 1, 4), NULL);
    OK(tenon_view_init(&room.view, &source, 0, room.dims, &err));
    tenon_frame_set_view(&f.base, 1, &room.view);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    float x[8], *z = f.results[0].as.view->data;
    memcpy(x, memory, sizeof x);
    ((tenon_view *)(uintptr_t)f.args[0].as.view)->data = x; /* the results are where x was */
    code = add_in_parts;
    sums[0] = sums[1] = 0;
    assert_int_equal(tenon_frame_run(&f.base, &client), 0);
    assert_int_equal(sums[0], 24);
    for (int i = 0; i < 24; i++)
        assert_true(z[i] == (float)(i / 12 * 4 + i % 4 + i / 4 % 3 * 200));
    end(&f);
}

static tenon_status misuse(tenon_call *running)
{
    return tenon_for_each(running, 1, note_run, &tensors);
}

static void test_failures(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[**b], y: f32[**b]) -> f32[**b]");
    set(&f, 0, 2, DIMS(3, 1), NULL);
    set(&f, 1, 1, DIMS(4), NULL);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    fails_at = 1;
    tensors = 3;
    code = each;
    assert_int_equal(tenon_frame_run(&f.base, &client), -1);
    assert_int_equal(nruns, 2);
    assert_int_equal(f.refused.status, TENON_EBOUNDS);
    end(&f);
    begin(&f, "f(x: f32[*b]) -> f32[*b]");
    set(&f, 0, 1, DIMS(3), NULL);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    code = misuse;
    assert_int_equal(tenon_frame_run(&f.base, &client), -1);
    refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EFAILED,
            "its code calls tenon_for_each(), but its signature has no batch '**b'");
    end(&f);
}

/* Bodies run on several threads, so that their loops must not use the blocks of the call. */
static tenon_status nest_run(void *context, void *const *data, const int64_t *steps, int64_t count)
{
    (void)data, (void)steps, (void)count;
    tenon_call *running = context;
    return tenon_for_each(running, INT64_MAX, note_run, &tensors);
}

static tenon_status nested(tenon_call *running)
{
    return tenon_for_each(running, INT64_MAX, nest_run, running);
}

static void test_nested_loops(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(x: f32[**b]) -> f32[**b]");
    set(&f, 0, 2, DIMS(2, 3), DIMS(8, 1));
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    const tenon_block *blocks = f.base.blocks;
    nruns = 0;
    fails_at = -1;
    tensors = 2;
    code = nested;
    assert_int_equal(tenon_frame_run(&f.base, &client), 0);
    assert_int_equal(nruns, 4);
    assert_ptr_equal(f.base.blocks, blocks);
    end(&f);
}

/* ------------------------------------------------------------------------------------------------------ elementwise */

TENON_ELEMENTWISE(lerp, z = x + t * (y - x), float, z, float, x, float, y, float, t)
TENON_ELEMENTWISE(copied, z = x, float, z, float, x)
TENON_ELEMENTWISE(wide, z = (double)x, double, z, float, x)
TENON_ELEMENTWISE(six, z = a + b + c + d + e + f, float, z, float, a, float, b, float, c, float, d, float, e, float, f)

static void run_elementwise(const char *text, tenon_status (*runs_it)(tenon_call *), const char *message)
{
    host_frame f;
    begin(&f, text);
    set(&f, 0, 1, DIMS(5), NULL);
    for (int32_t i = 1; i < f.base.signature->nparams; i++)
        set(&f, i, 1, DIMS(5), NULL);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    code = runs_it;
    assert_int_equal(tenon_frame_run(&f.base, &client), message ? -1 : 0);
    if (message)
        refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EFAILED, message);
    end(&f);
}

static void test_elementwise(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        memory[i] = (float)i;
    run_elementwise("f(x: f32[**b], y: f32[**b], t: f32[**b]) -> f32[**b]", lerp, NULL); /* in place */
    assert_true(memory[4] == 4 && memory[3] == 3);
    run_elementwise("f(x: f32[**b]) -> f32[**b]", wide,
                    "its code has a type of 8 bytes for tensor 1 of the batch, whose elements have 4");
    run_elementwise("f(x: f32[**b], y: f32[**b]) -> f32[**b]", lerp,
                    "its code is for 4 tensors of a batch, but its signature has 3");
    run_elementwise("f(x: f32[**b, n]) -> f32[**b, n]", copied,
                    "its code is elementwise, but tensor 0 of the batch has dimensions after '**'");
    (void)six;
}

static void test_elementwise_strides(void **state)
{
    (void)state;
    enum { ROWS = 7, COLUMNS = 300 };
    static float x[ROWS * COLUMNS], y[COLUMNS * 2], z[ROWS * COLUMNS * 2];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)i;
    for (int i = 0; i < COLUMNS * 2; i++)
        y[i] = (float)(10 * i);
    host_frame f;
    begin(&f, "f(x: f32[**b], y: f32[**b], t: f32[**b]) -> f32[**b]");
    float half = 0.5f;
    roomy_view views[4];
    tenon_dl_tensor sources[4] = {source_of(x, TENON_F32, 2, DIMS(ROWS, COLUMNS), DIMS(1, ROWS)),
                                  source_of(y, TENON_F32, 1, DIMS(COLUMNS), DIMS(2)),
                                  source_of(&half, TENON_F32, 0, NULL, NULL),
                                  source_of(z, TENON_F32, 2, DIMS(ROWS, COLUMNS), DIMS(2 * COLUMNS, 2))};
    for (int i = 0; i < 4; i++)
        OK(tenon_view_init(&views[i].view, &sources[i], 0, views[i].dims, &err));
    for (int32_t i = 0; i < 3; i++)
        tenon_frame_set_view(&f.base, i, &views[i].view);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    tenon_frame_set_result(&f.base, 0, &views[3].view, TENON_VIEW_WRITTEN);
    code = lerp;
    assert_int_equal(tenon_frame_run(&f.base, &client), 0);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        float from = x[i % COLUMNS * ROWS + i / COLUMNS], to = y[i % COLUMNS * 2];
        assert_true(z[2 * i] == from + 0.5f * (to - from) && z[2 * i + 1] == 0);
    }
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammar),      cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_broadcast),    cmocka_unit_test(test_out),
        cmocka_unit_test(test_failures),     cmocka_unit_test(test_shapes_that_do_not_broadcast),
        cmocka_unit_test(test_runs),         cmocka_unit_test(test_parts),
        cmocka_unit_test(test_elementwise),  cmocka_unit_test(test_elementwise_strides),
        cmocka_unit_test(test_nested_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
