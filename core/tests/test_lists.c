/* Lists of tensors: the grammar, the match, overlap, and results. */
#include "driver.h"

enum { MANY = 2000 };

/* Tensors of f32 with one dimension, in an array as a list has them. */
typedef struct tensors {
    tenon_view views[MANY];
    int64_t dims[MANY][4];
    int64_t count;
} tensors;

static tensors xs, ys;

static void clear(tensors *list)
{
    list->count = 0;
}

static void add_strided(tensors *list, void *data, tenon_dtype dtype, int32_t ndim, int64_t *shape, int64_t *strides)
{
    tenon_dl_tensor source = source_of(data, dtype, ndim, shape, strides);
    int64_t at = list->count++;
    OK(tenon_view_init(&list->views[at], &source, 0, list->dims[at], &err));
}

static void add(tensors *list, void *data, int64_t n)
{
    add_strided(list, data, TENON_F32, 1, &n, NULL);
}

static tenon_value list_value(const tensors *list)
{
    return (tenon_value){.kind = TENON_KIND_TENSORS, .as.list = {list->views, list->count}};
}

/* ---------------------------------------------------------------------------------------------------------- grammar */

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
        compiled("f(a: int, y: f32[n], xs: [ f32[n, d] rw c ]? = None) -> [f32[_, d]] for xs, [i64[?, n]]");
    const tenon_parameter *list = &s->params[2];
    assert_int_equal(list->kind, TENON_KIND_TENSORS);
    assert_null(list->spec);
    assert_string_equal(list->items->text, "f32[n, d] rw c");
    assert_string_equal(list->type, "[ f32[n, d] rw c ]?");
    assert_string_equal(list->first, "xs[0]");
    assert_int_equal(list->flags, TENON_PARAMETER_OPTIONAL | TENON_PARAMETER_DEFAULT);
    assert_true(s->ntensors == 1 && s->nlists == 1 && s->nwritten == 1 && s->plan == TENON_PLAN_NONE &&
                s->open_results);
    assert_int_equal(s->results[0].flags, TENON_PARAMETER_EACH);
    assert_int_equal(s->results[0].owner, 2);
    assert_string_equal(s->results[0].type, "[f32[_, d]] for xs");
    assert_int_equal(s->results[1].flags, TENON_PARAMETER_OPEN);
    tenon_dimension dim;
    OK(tenon_signature_dim(s, 2, 1, &dim, &err));
    assert_true(dim.kind == TENON_DIM_NAME && dim.slot == 1);
    OK(tenon_signature_dim(s, 3, 0, &dim, &err));
    assert_int_equal(dim.kind, TENON_DIM_ANY);
    tenon_signature_release(s);
    s = compiled("f(xs: [f32[*_]], x: f32[*_, n]) -> [f32[*_, n]] for xs");
    OK(tenon_signature_dim(s, 0, 0, &dim, &err));
    assert_true(dim.kind == TENON_DIM_STAR && dim.slot == -1);
    tenon_signature_release(s);
}

static void test_mistakes(void **state)
{
    (void)state;
    no("f(xs: [f32[n]?])", "a tensor in a list cannot be None; write the '?' after the last ']'");
    no("f(xs: [[f32[n]]])", "a list of lists is not possible");
    no("f(xs: [int])", "unknown dtype 'int'");
    no("f(xs: [f32[n])", "after the tensor of a list");
    no("f(xs: [f32[n] keep])", "'keep', 'convert', 'own', 'of' and 'inplace' do not apply to a list of tensors");
    no("f(x: f32[n], xs: [f32[n] rw inplace(x)])", "do not apply to a list of tensors");
    no("f(xs: [f32[n]], y: f32[n] rw inplace(xs))", "inplace(xs) does not name another tensor argument");
    no("f(xs: [f32[n]]) -> f32[n] of(xs)", "of(xs) does not name a tensor argument");
    no("f(xs: [f32[n]] = 3)", "a list of tensors can only have None as its default");
    no("f(xs: [f32[n]] c)", "or ',' after a parameter");
    no("f(x: f32[n]) -> [f32[_]] for x", "'for x' does not name a list of tensors among the arguments");
    no("f(xs: [f32[n]]) -> [f32[_, _]] for xs", "the tensors of 'xs' have no dimension in this place\n  "
                                                "f(xs: [f32[n]]) -> [f32[_, _]] for xs\n  "
                                                "                           ^");
    no("f(xs: [f32[n]]) -> [f32[*_]] for xs", "the tensors of 'xs' have no dimension in this place");
    no("f(xs: [f32[*_, n]]) -> [f32[_]] for xs", "the tensors of 'xs' have no dimension in this place");
    no("f(xs: [f32[n]]) -> [f32[?]] for xs", "write '_' for the size of the item");
    no("f(xs: [f32[n]]) -> [f32[_]]", "write '?' for a size that only the function knows");
    no("f(xs: [f32[n]]) -> [f32[n]]?", "expected the end of the signature");
    no("f(xs: [f32[n]]) -> [f32[n] alias] for xs", "'alias' does not apply to a list of results");
    no("f(xs: [f32[n]]) -> [f32[n] rw] for xs", "a result is always writable");
    no("f(xs: [f32[n]]) -> [f32[m]] for xs", "no argument determines 'm'");
    no("f(xs: [T[n]])", "'T' is not a dtype");
    no("f(x: f32[*_]) -> f32[*_]", "write '?' for a size that only the function knows");
}

/* ------------------------------------------------------------------------------------------------------------ match */

static void misfits(const char *text, const tenon_value *args, tenon_status status, const char *message)
{
    call c = {.signature = compiled(text)};
    FAILS_SAYING(status, message, match(c.signature, args, NULL, &c.bindings, &err));
    assert_int_equal(match(c.signature, args, NULL, &c.bindings, NULL), status);
    done(&c);
}

static void test_match(void **state)
{
    (void)state;
    float data[64] = {0};
    call c;
    clear(&xs);
    fits(&c, "f(xs: [f32[n, d]], k: int)", ARGS(list_value(&xs), INT(1)));
    assert_int_equal(c.bindings.dims[0], -1); /* an empty list binds nothing */
    done(&c);
    fits(&c, "f(xs: [f32[n]]?, k: int = 1)", ARGS(NONE, INT(1)));
    done(&c);

    add(&xs, data, 3);
    add(&xs, data + 8, 3);
    fits(&c, "f(xs: [f32[n]])", ARGS(list_value(&xs)));
    assert_int_equal(c.bindings.dims[0], 3);
    done(&c);
    add(&xs, data + 16, 5);
    fits(&c, "f(xs: [f32[_]])", ARGS(list_value(&xs)));
    done(&c);
    misfits("f(xs: [f32[n]])", ARGS(list_value(&xs)), TENON_ESHAPE,
            "f(): argument 'xs[2]': dimension 0 is 5, but n = 3 from argument 'xs[0]'");
    misfits("f(n: int, xs: [f32[n]])", ARGS(INT(4), list_value(&xs)), TENON_ESHAPE,
            "f(): argument 'xs[0]': dimension 0 is 3, but n = 4 from argument 'n'");
    misfits("f(xs: [f64[_]])", ARGS(list_value(&xs)), TENON_EDTYPE,
            "f(): argument 'xs[0]': expected f64[_], got f32[3]\n  dtype is f32, not f64");
    add_strided(&xs, data, TENON_F32, 2, DIMS(2, 2), NULL);
    fits(&c, "f(xs: [f32[*_]])", ARGS(list_value(&xs)));
    done(&c);
    misfits("f(xs: [f32[_]])", ARGS(list_value(&xs)), TENON_ESHAPE,
            "f(): argument 'xs[3]': expected f32[_], got f32[2, 2]\n  2 dimensions, not 1");
    misfits("f(xs: [f32[*b]])", ARGS(list_value(&xs)), TENON_ESHAPE,
            "f(): argument 'xs[2]': *b is [5], but *b = [3] from argument 'xs[0]'");
    misfits("f(xs: [T[*_]], y: T[*_]) where T = f32|f64", ARGS(list_value(&xs), NONE), TENON_EINVAL,
            "f(): argument 'y': expected T[*_], got nothing\n  it cannot be left out");
    misfits("f(xs: [f32[_]])", ARGS(tensor_value(xs.views)), TENON_EFAILED,
            "f(): argument 'xs': expected [f32[_]], but the host has set a value that is a tensor");
    misfits("f(x: f32[_])", ARGS(list_value(&xs)), TENON_EFAILED,
            "f(): argument 'x': expected f32[_], but the host has set a value that is a list of tensors");
}

/* ---------------------------------------------------------------------------------------------------------- overlap */

static const char *const two_lists = "f(xs: [f32[*_] rw], ys: [f32[*_]])";

static void test_overlap(void **state)
{
    (void)state;
    float data[64] = {0};
    call c;
    clear(&xs);
    clear(&ys);
    add(&xs, data, 4);
    add(&xs, data + 4, 4);
    add(&xs, data + 2, 0);
    add(&ys, data + 8, 4);
    add(&ys, data + 8, 4); /* these are only read */
    fits(&c, two_lists, ARGS(list_value(&xs), list_value(&ys)));
    done(&c);
    add(&ys, data + 7, 4);
    misfits(two_lists, ARGS(list_value(&xs), list_value(&ys)), TENON_EOVERLAP,
            "f(): argument 'xs[1]' shares memory with argument 'ys[2]' and is written to; pass a copy of one of them");
    misfits("f(y: f32[_], xs: [f32[*_] rw])", ARGS(tensor_value(&ys.views[2]), list_value(&xs)), TENON_EOVERLAP,
            "f(): argument 'xs[1]' shares memory with argument 'y' and is written to; pass a copy of one of them");
    fits(&c, "f(xs: [f32[*_] rw alias], ys: [f32[*_]])", ARGS(list_value(&xs), list_value(&ys)));
    done(&c);
    add(&xs, data, 1);
    misfits("f(xs: [f32[_] rw])", ARGS(list_value(&xs)), TENON_EOVERLAP,
            "f(): argument 'xs[0]' shares memory with argument 'xs[3]' and is written to; pass a copy of one of them");
}

/* The columns and the tiles of one matrix meet each other, but do not overlap. */
static void test_parts_of_a_matrix(void **state)
{
    (void)state;
    static float data[8][MANY];
    call c;
    clear(&xs);
    clear(&ys);
    for (int64_t i = 0; i < MANY; i++)
        add_strided(&xs, &data[0][i], TENON_F32, 1, DIMS(8), DIMS(MANY));
    fits(&c, two_lists, ARGS(list_value(&xs), list_value(&ys)));
    done(&c);
    add_strided(&ys, &data[3][MANY - 4], TENON_F32, 2, DIMS(2, 4), DIMS(MANY, 1));
    xs.count--;
    misfits(two_lists, ARGS(list_value(&xs), list_value(&ys)), TENON_EOVERLAP,
            "f(): argument 'xs[1996]' shares memory with argument 'ys[0]' and is written to; pass a copy of one of "
            "them");
    clear(&xs);
    for (int64_t i = 0; i + 4 < MANY; i += 4)
        for (int row = 0; row < 8; row += 4)
            add_strided(&xs, &data[row][i], TENON_F32, 2, DIMS(4, 4), DIMS(MANY, 1));
    clear(&ys);
    fits(&c, two_lists, ARGS(list_value(&xs), list_value(&ys)));
    done(&c);
    add_strided(&ys, &data[5][8], TENON_F32, 1, DIMS(5), DIMS(1)); /* of another distance between rows */
    misfits(two_lists, ARGS(list_value(&xs), list_value(&ys)), TENON_EOVERLAP,
            "f(): argument 'xs[5]' shares memory with argument 'ys[0]' and is written to; pass a copy of one of them");
}

/* What the sorted comparison finds is what comparing each with each finds. */
static void test_random_overlaps(void **state)
{
    (void)state;
    static float data[256];
    uint32_t random = 7;
    tenon_signature *s = compiled(two_lists);
    int found = 0;
    for (int round = 0; round < 4000; round++) {
        tensors *lists[] = {&xs, &ys};
        for (int l = 0; l < 2; l++) {
            clear(lists[l]);
            for (int i = 0; i < 4; i++) {
                random = random * 1664525 + 1013904223;
                int64_t rows = 1 + (random >> 8) % 3, columns = 1 + (random >> 12) % 3,
                        row = (random >> 14) % 2 ? 12 : 16;
                add_strided(lists[l], &data[(random >> 17) % 180], TENON_F32, 2, DIMS(rows, columns), DIMS(row, 1));
            }
        }
        bool overlaps = false;
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 4; k++)
                overlaps |= tenon_view_overlaps(&xs.views[i], &ys.views[k]) ||
                            (k != i && tenon_view_overlaps(&xs.views[i], &xs.views[k]));
        tenon_bindings bindings;
        tenon_value args[] = {list_value(&xs), list_value(&ys)};
        assert_int_equal(match(s, args, NULL, &bindings, &err), overlaps ? TENON_EOVERLAP : TENON_OK);
        found += overlaps;
    }
    assert_true(found > 400 && found < 3600);
    tenon_signature_release(s);
}

static void test_out(void **state)
{
    (void)state;
    float data[16] = {0};
    roomy_view room;
    call c;
    clear(&xs);
    add(&xs, data, 4);
    add(&xs, data + 4, 4);
    tenon_value args[] = {list_value(&xs)};
    fits(&c, "f(xs: [f32[n]]) -> f32[n]", args);
    OK(tenon_signature_match_out(c.signature, 0, view_of(&room, data + 8, TENON_F32, 1, DIMS(4), NULL), args, cpu(),
                                 &c.bindings, &err));
    FAILS_SAYING(
        TENON_EOVERLAP,
        "f(): argument 'out' shares memory with argument 'xs[1]' and is written to; pass a copy of one of them",
        tenon_signature_match_out(c.signature, 0, view_of(&room, data + 5, TENON_F32, 1, DIMS(4), NULL), args, cpu(),
                                  &c.bindings, &err));
    done(&c);
}

/* ---------------------------------------------------------------------------------------------------------- results */

static float made[64];
static int64_t made_dims[8][8];
static int made_count;

static int make_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                     const int64_t *shape, tenon_view *view)
{
    (void)base;
    (void)index;
    tenon_dl_tensor source = source_of(made + 8 * made_count, dtype, ndim, (int64_t *)(uintptr_t)shape, NULL);
    assert_int_equal(item, made_count);
    return tenon_view_init(view, &source, 0, made_dims[made_count++], &err) ? -1 : 0;
}

/* Run `body` with the list xs, with or without checks. */
static int run_list(host_frame *f, const char *text, bool checked, tenon_status (*body)(tenon_call *))
{
    static tenon_client listing;
    listing = client;
    listing.make_item = listing.open_item = make_item;
    begin(f, text);
    f->base.client = &listing;
    made_count = 0;
    memset(made, 0, sizeof made);
    tenon_frame_set_list(&f->base, 0, xs.views, xs.count);
    code = body;
    if (tenon_frame_match(&f->base) || tenon_frame_make_results(&f->base, &listing))
        return -1;
    return checked ? tenon_frame_run_checked(&f->base, 0) : tenon_frame_run(&f->base, &listing);
}

static tenon_status double_each(tenon_call *running)
{
    int64_t count, results;
    const tenon_view *from = tenon_arg_tensors(running, 0, &count), *to = tenon_result_tensors(running, 0, &results);
    assert_int_equal(count, results);
    for (int64_t i = 0; i < count; i++) {
        assert_true(to[i].flags & TENON_VIEW_WRITTEN);
        for (int64_t k = 0; k < from[i].numel; k++)
            ((float *)to[i].data)[k] = 2 * ((const float *)from[i].data)[k];
    }
    return TENON_OK;
}

static void test_results_for_each(void **state)
{
    (void)state;
    float data[] = {1, 2, 3, 4, 5};
    host_frame f;
    for (int checked = 0; checked < 2; checked++) {
        clear(&xs);
        add(&xs, data, 2);
        add(&xs, data + 2, 3);
        assert_int_equal(run_list(&f, "f(xs: [f32[_]]) -> [f32[_]] for xs", checked, double_each), 0);
        assert_int_equal(f.results[0].as.list.length, 2);
        const tenon_view *views = f.results[0].as.list.data;
        assert_dims(&views[1], 1, DIMS(3), DIMS(1));
        assert_ptr_equal(views[1].data, made + 8);
        assert_true(made[0] == 2 && made[1] == 4 && made[8] == 6 && made[10] == 10);
        end(&f);
        clear(&xs);
        assert_int_equal(run_list(&f, "f(xs: [f32[_]]) -> [f32[_]] for xs", checked, double_each), 0);
        assert_int_equal(f.results[0].as.list.length, 0);
        end(&f);
    }
    /* Shapes: the place is counted from the end after the "*". */
    clear(&xs);
    add_strided(&xs, data, TENON_F32, 2, DIMS(2, 2), NULL);
    assert_int_equal(run_list(&f, "f(xs: [f32[*_, n]]) -> [f32[2, *_, _]] for xs", false, succeed), 0);
    assert_dims((const tenon_view *)f.results[0].as.list.data, 3, DIMS(2, 2, 2), DIMS(4, 2, 1));
    end(&f);
    clear(&xs);
    assert_int_equal(run_list(&f, "f(xs: [f32[n]]) -> f32[n]", false, succeed), -1);
    refused(&f, TENON_REFUSED_RESULT, 0, TENON_EINVAL,
            "f(): result 0: dimension 0, n, has no value: no argument of this call determines n");
    end(&f);
}

static tenon_status push_two(tenon_call *running)
{
    const tenon_view *first = tenon_result_push(running, 0, 1, DIMS(2));
    const tenon_view *next = tenon_result_push(running, 0, 1, DIMS(1));
    ((float *)first->data)[0] = 1; /* still valid */
    ((float *)first->data)[1] = 2;
    ((float *)next->data)[0] = 3;
    return TENON_OK;
}

static tenon_status push_matrix(tenon_call *running)
{
    assert_null(tenon_result_push(running, 0, 2, DIMS(2, 2)));
    return TENON_OK;
}

static tenon_status alloc_list(tenon_call *running)
{
    assert_null(running->host->result_alloc(running, 0, TENON_F32, 1, DIMS(2)));
    return TENON_OK;
}

static tenon_status push_to_each(tenon_call *running)
{
    assert_null(tenon_result_push(running, 0, 1, DIMS(2)));
    return TENON_OK;
}

static tenon_status write_past_the_end(tenon_call *running)
{
    float *data = tenon_result_push(running, 0, 1, DIMS(2))->data;
    data[0] = data[1] = data[2] = 1;
    return TENON_OK;
}

static tenon_status write_argument(tenon_call *running)
{
    *(float *)tenon_arg_tensors(running, 0, NULL)[1].data = 7;
    return TENON_OK;
}

static void fails_with(const char *text, bool checked, tenon_status (*body)(tenon_call *), int32_t index,
                       const char *message)
{
    host_frame f;
    assert_int_equal(run_list(&f, text, checked, body), -1);
    refused(&f, TENON_REFUSED_BY_CODE, index, TENON_EFAILED, message);
    end(&f);
}

static void test_pushed_results(void **state)
{
    (void)state;
    static const char *const text = "f(xs: [f32[_]]) -> [f32[?]]";
    float data[] = {1, 2, 3, 4, 5};
    host_frame f;
    clear(&xs);
    add(&xs, data, 2);
    add(&xs, data + 2, 3);
    for (int checked = 0; checked < 2; checked++) {
        assert_int_equal(run_list(&f, text, checked, push_two), 0);
        assert_int_equal(f.results[0].as.list.length, 2);
        assert_true(made[0] == 1 && made[1] == 2 && made[8] == 3);
        end(&f);
    }
    fails_with(text, false, push_matrix, -1, "result 0: expected f32[?], but the function asked for shape [2, 2]");
    fails_with(text, false, alloc_list, -1,
               "result 0 is a list of tensors: its code must call tenon_result_push() instead of tenon_result_alloc()");
    fails_with("f(xs: [f32[_]]) -> [f32[_]] for xs", false, push_to_each, -1,
               "result 0 is not a list that the function makes");
    fails_with(text, true, write_past_the_end, 0,
               "result 0[0]: the function wrote past the end of its memory: byte 8, but it has 8 bytes");
    fails_with(text, true, write_argument, -1,
               "argument 'xs[1]': byte 2 of 12 changed during the call, but the argument is not 'rw'; the function "
               "wrote to it, or another thread did");
}

static void test_unwritten_items(void **state)
{
    (void)state;
    float data[] = {1, 2};
    host_frame f;
    clear(&xs);
    add(&xs, data, 2);
    assert_int_equal(run_list(&f, "f(xs: [f32[_]]) -> z: [f32[_]] for xs", true, succeed), 0);
    assert_non_null(strstr(warned, "0: result 'z'[0]: no byte of it changed"));
    end(&f);
}

/* A host that does not know of lists says so. */
static void test_a_client_without_lists(void **state)
{
    (void)state;
    host_frame f;
    clear(&xs);
    begin(&f, "f(xs: [f32[_]]) -> [f32[_]] for xs");
    tenon_frame_set_list(&f.base, 0, xs.views, xs.count);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), -1);
    refused(&f, TENON_REFUSED_RESULT, 0, TENON_EFAILED,
            "f(): result 0: this host (test) has no results that are lists of tensors");
    end(&f);
}

static void test_devices(void **state)
{
    (void)state;
    host_frame f;
    begin(&f, "f(xs: [f32[_] cuda], ys: [f32[_] anywhere])");
    assert_int_equal(tenon_frame_join_item_device(&f.base, 0, 0, cuda(1)), 1);
    assert_int_equal(tenon_frame_join_item_device(&f.base, 0, 1, cuda(1)), 0);
    assert_int_equal(tenon_frame_join_item_device(&f.base, 1, 1, cuda(0)), 0);
    assert_int_equal(tenon_frame_join_item_device(&f.base, 0, 2, cuda(0)), -1);
    refused(&f, TENON_REFUSED_DEVICE, 0, TENON_EDEVICE,
            "f(): argument 'xs[2]' is on cuda:0, but an earlier argument is on cuda:1; move one of them");
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grammar),
                                       cmocka_unit_test(test_mistakes),
                                       cmocka_unit_test(test_match),
                                       cmocka_unit_test(test_overlap),
                                       cmocka_unit_test(test_parts_of_a_matrix),
                                       cmocka_unit_test(test_random_overlaps),
                                       cmocka_unit_test(test_out),
                                       cmocka_unit_test(test_results_for_each),
                                       cmocka_unit_test(test_pushed_results),
                                       cmocka_unit_test(test_unwritten_items),
                                       cmocka_unit_test(test_a_client_without_lists),
                                       cmocka_unit_test(test_devices),
                                       cmocka_unit_test(test_nothing_is_alive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
