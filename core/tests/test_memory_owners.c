/* Whose memory a callback gets, among many tensors, scratch and pushed results. Linked with --wrap, so that the work of a search
 * is counted. */
#include "driver.h"
#include "random.h"

#include <stdlib.h>

enum { ITEMS = 100000, OVERLAPPING = 300 };

/* ------------------------------------------------------------------------------------------------------------- work */

tenon_extent __real_tenon_view_extent(const tenon_view *view);
void __real_qsort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *));
tenon_extent __wrap_tenon_view_extent(const tenon_view *view);
void __wrap_qsort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *));

static int64_t extents, sorted; /* how many extents were computed, and how many items were sorted */

tenon_extent __wrap_tenon_view_extent(const tenon_view *view)
{
    extents++;
    return __real_tenon_view_extent(view);
}

void __wrap_qsort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *))
{
    sorted += (int64_t)count;
    __real_qsort(items, count, size, compare);
}

/* ------------------------------------------------------------------------------------------------------------- calls */

static float data[ITEMS + 1];
static tenon_view views[ITEMS], pushed_view;
static int64_t shapes[ITEMS], strides[ITEMS];
static int64_t nviews;
static tenon_memory seen;

static int record(tenon_frame *base, const tenon_callback_call *made)
{
    (void)base;
    seen = made->memory[0];
    return 0;
}

static int make_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                     const int64_t *shape, tenon_view *out)
{
    (void)base;
    (void)index;
    (void)item;
    (void)dtype;
    (void)ndim;
    (void)shape;
    *out = pushed_view;
    return 0;
}

/* Call a function that has the views as its list. */
static void run_code(tenon_status (*runs)(tenon_call *))
{
    static tenon_client calling_client;
    host_frame f;
    begin(&f, "f(g: callable('(x: f32[n])'), xs: [f32[_]]) -> [f32[?]]");
    calling_client = client;
    calling_client.callback = record;
    calling_client.open_item = make_item;
    f.base.client = &calling_client;
    tenon_frame_set_callable(&f.base, 0, &f);
    tenon_frame_set_list(&f.base, 1, views, nviews);
    if (tenon_frame_match(&f.base) || tenon_frame_make_results(&f.base, &calling_client))
        fail_msg("%s", f.refused.message);
    code = runs;
    extents = sorted = 0;
    if (tenon_frame_run(&f.base, &calling_client))
        fail_msg("%s", f.refused.message);
    end(&f);
}

static void set_view(int64_t i, float *start, int64_t size)
{
    shapes[i] = size;
    strides[i] = 1;
    tenon_dl_tensor source = {.data = start, .dtype = TENON_F32, .ndim = 1, .device = cpu(), .shape = &shapes[i]};
    source.strides = &strides[i];
    static int64_t room[ITEMS][2];
    OK(tenon_view_init(&views[i], &source, TENON_READ_ONLY, room[i], &err));
}

static tenon_status pass(tenon_call *running, float *start, int64_t size)
{
    tenon_view view = tenon_view_of(start, TENON_F32, 1, &size);
    tenon_value arg = tenon_value_of_view(&view);
    return tenon_callback(running, 0, &arg, NULL);
}

/* ------------------------------------------------------------------------------------------------------------- tests */

static tenon_status pass_each(tenon_call *running)
{
    for (int64_t i = 0; i < ITEMS; i++) {
        OK(pass(running, data + (ITEMS - 1 - i), 1));
        assert_true(seen.where == TENON_MEMORY_ARGUMENT && seen.index == 1 && seen.item == ITEMS - 1 - i);
    }
    return TENON_OK;
}

static void test_one_callback_for_each_item(void **state)
{
    (void)state;
    nviews = ITEMS;
    for (int64_t i = 0; i < ITEMS; i++)
        set_view(i, data + i, 1);
    run_code(pass_each);
    assert_int_equal(sorted, ITEMS);   /* once */
    assert_true(extents <= 4 * ITEMS); /* a few for each item and for each callback */
}

static tenon_status allocate_and_pass(tenon_call *running)
{
    float *first = tenon_scratch(running, 16);
    for (int64_t i = 0; i < ITEMS / 10; i++) {
        float *scratch = i % 2 ? first : tenon_scratch(running, 16);
        OK(pass(running, scratch, 4));
        assert_int_equal(seen.where, TENON_MEMORY_SCRATCH);
        if (i % 3 == 0) {
            pushed_view = views[0];
            pushed_view.data = data + 1 + i;
            assert_non_null(tenon_result_push(running, 0, 1, DIMS(1)));
        }
        OK(pass(running, data + 1 + i / 3 * 3, 1));
        assert_true(seen.where == TENON_MEMORY_RESULT && seen.index == 0 && seen.item == i / 3);
    }
    return TENON_OK;
}

static void test_memory_that_is_allocated_between_callbacks(void **state)
{
    (void)state;
    nviews = 1;
    set_view(0, data, 1);
    run_code(allocate_and_pass);
    assert_true(sorted <= 15 * (ITEMS / 10)); /* n log n */
    assert_true(extents <= 8 * (ITEMS / 10));
}

/* Whether an item has all of these elements, by looking at each. */
static bool has_owner(const float *start, int64_t size)
{
    for (int64_t i = 0; i < nviews; i++) {
        const float *from = views[i].data;
        if (start >= from && start + size <= from + shapes[i])
            return true;
    }
    return false;
}

static tenon_status pass_random(tenon_call *running)
{
    tenon_frame *f = running->host_private;
    for (int i = 0; i < 20000; i++) {
        float *start = data + below(1000);
        int64_t size = 1 + below(60);
        if (!has_owner(start, size)) {
            assert_int_equal(pass(running, start, size), TENON_EFAILED);
            running->flags &= ~TENON_CALL_FAILED; /* so that it goes on */
            f->error = NULL;
            continue;
        }
        OK(pass(running, start, size));
        assert_true(seen.where == TENON_MEMORY_ARGUMENT && seen.index == 1 && seen.item < nviews);
        const float *from = views[seen.item].data;
        assert_true(start >= from && start + size <= from + shapes[seen.item]);
    }
    return TENON_OK;
}

static void test_overlapping_items(void **state)
{
    (void)state;
    for (nviews = 1; nviews <= OVERLAPPING; nviews = nviews * 2 + 1) {
        for (int64_t i = 0; i < nviews; i++)
            set_view(i, data + below(1000), below(100));
        run_code(pass_random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_callback_for_each_item),
        cmocka_unit_test(test_memory_that_is_allocated_between_callbacks),
        cmocka_unit_test(test_overlapping_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
