/* Whether views share memory: the cases people meet, the hard ones, and small ones counted out bit by bit. */
#include "check.h"

static char memory[8192];

static bool overlap(const tenon_view *a, const tenon_view *b)
{
    bool answer = tenon_view_overlaps(a, b);
    assert_int_equal(tenon_view_overlaps(b, a), answer);
    return answer;
}

static void test_every_second_element(void **state)
{
    (void)state;
    roomy_view even, odd, third;
    view_of(&even, memory, TENON_F32, 1, DIMS(10), DIMS(2));
    view_of(&odd, memory + 4, TENON_F32, 1, DIMS(10), DIMS(2));
    view_of(&third, memory, TENON_F32, 1, DIMS(7), DIMS(3));
    assert_false(overlap(&even.view, &odd.view));
    assert_true(overlap(&even.view, &third.view));
    assert_true(overlap(&odd.view, &third.view));
    assert_true(overlap(&even.view, &even.view));
    view_of(&odd, memory + 2, TENON_F32, 1, DIMS(10), DIMS(2)); /* half an element */
    assert_true(overlap(&even.view, &odd.view));
    view_of(&odd, memory + 4 * 19, TENON_F32, 1, DIMS(10), DIMS(-2)); /* backwards */
    assert_false(overlap(&even.view, &odd.view));
    view_of(&odd, memory + 4 * 18, TENON_F32, 1, DIMS(10), DIMS(-2));
    assert_true(overlap(&even.view, &odd.view));
}

static void test_blocks_of_a_matrix(void **state)
{
    (void)state;
    roomy_view left, right, all, rows, other_rows;
    view_of(&left, memory, TENON_F64, 2, DIMS(8, 5), DIMS(10, 1));
    view_of(&right, memory + 5 * 8, TENON_F64, 2, DIMS(8, 5), DIMS(10, 1));
    view_of(&all, memory, TENON_F64, 2, DIMS(8, 10), NULL);
    view_of(&rows, memory, TENON_F64, 2, DIMS(4, 10), DIMS(20, 1));
    view_of(&other_rows, memory + 10 * 8, TENON_F64, 2, DIMS(4, 10), DIMS(20, 1));
    assert_false(overlap(&left.view, &right.view));
    assert_true(overlap(&left.view, &all.view));
    assert_true(overlap(&right.view, &all.view));
    assert_false(overlap(&rows.view, &other_rows.view));
    assert_true(overlap(&rows.view, &left.view));
    view_of(&right, memory + 4 * 8, TENON_F64, 2, DIMS(8, 5), DIMS(10, 1)); /* one column in common */
    assert_true(overlap(&left.view, &right.view));
    view_of(&right, memory + 5 * 8, TENON_F64, 2, DIMS(5, 8), DIMS(1, 10)); /* transposed */
    assert_false(overlap(&left.view, &right.view));
}

static void test_neighbours(void **state)
{
    (void)state;
    roomy_view a, b;
    view_of(&a, memory, TENON_F32, 1, DIMS(4), NULL);
    view_of(&b, memory + 16, TENON_F32, 1, DIMS(4), NULL);
    assert_false(overlap(&a.view, &b.view));
    view_of(&b, memory + 15, TENON_U8, 1, DIMS(4), NULL);
    assert_true(overlap(&a.view, &b.view));
    view_of(&b, memory + 28, TENON_F32, 1, DIMS(4), DIMS(-1)); /* from byte 16 on */
    assert_false(overlap(&a.view, &b.view));
    view_of(&b, memory + 24, TENON_F32, 1, DIMS(4), DIMS(-1));
    assert_true(overlap(&a.view, &b.view));
}

static void test_different_dtypes(void **state)
{
    (void)state;
    roomy_view words, bytes;
    view_of(&words, memory, TENON_U16, 1, DIMS(8), DIMS(2)); /* bytes 0 1 . . 4 5 . . */
    view_of(&bytes, memory + 2, TENON_U8, 1, DIMS(8), DIMS(4));
    assert_false(overlap(&words.view, &bytes.view));
    view_of(&bytes, memory + 5, TENON_U8, 1, DIMS(7), DIMS(4));
    assert_true(overlap(&words.view, &bytes.view));
    view_of(&bytes, memory + 3, TENON_U8, 1, DIMS(8), DIMS(3)); /* 3 6 9 ...: 9 is there */
    assert_true(overlap(&words.view, &bytes.view));
    view_of(&bytes, memory + 3, TENON_U8, 1, DIMS(2), DIMS(3)); /* 3 6 */
    assert_false(overlap(&words.view, &bytes.view));
    view_of(&bytes, memory + 2, tenon_dtype_of(TENON_CODE_UINT, 8, 2), 1, DIMS(8), DIMS(2)); /* lanes: 2 3 6 7 */
    assert_false(overlap(&words.view, &bytes.view));
    view_of(&bytes, memory + 2, tenon_dtype_of(TENON_CODE_UINT, 8, 3), 1, DIMS(1), NULL);
    assert_true(overlap(&words.view, &bytes.view));
}

static void test_packed_values_share_bytes_but_no_bits(void **state)
{
    (void)state;
    roomy_view low, other;
    const tenon_dtype u4 = tenon_dtype_of(TENON_CODE_UINT, 4, 1), u1 = tenon_dtype_of(TENON_CODE_UINT, 1, 1);
    view_of(&low, memory, u4, 1, DIMS(4), DIMS(2)); /* the low half of each byte */
    view_of(&other, memory + 1, u4, 1, DIMS(4), DIMS(1));
    assert_true(overlap(&low.view, &other.view));
    view_of(&other, memory + 3, u4, 1, DIMS(3), DIMS(-3)); /* bits 24, 12 and 0: the first is there */
    assert_true(overlap(&low.view, &other.view));
    view_of(&low, memory, u1, 1, DIMS(3), DIMS(3));        /* bits 0 3 6 */
    view_of(&other, memory + 1, u1, 1, DIMS(2), DIMS(-1)); /* bits 8 7 */
    assert_false(overlap(&low.view, &other.view));
    view_of(&other, memory + 1, u1, 1, DIMS(2), DIMS(-2)); /* bits 8 6 */
    assert_true(overlap(&low.view, &other.view));
    view_of(&other, memory, TENON_U8, 1, DIMS(1), NULL);
    assert_true(overlap(&low.view, &other.view));
}

static void test_devices(void **state)
{
    (void)state;
    static const int host[] = {TENON_CPU, TENON_CUDA_HOST, TENON_ROCM_HOST, TENON_CUDA_MANAGED};
    roomy_view a, b;
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 4; j++) {
            view_on(&a, host[i], memory, TENON_F32, 1, DIMS(4), NULL, 0);
            view_on(&b, host[j], memory, TENON_F32, 1, DIMS(4), NULL, 0);
            assert_true(overlap(&a.view, &b.view)); /* one address space */
        }
    }
    view_on(&a, TENON_CUDA, memory, TENON_F32, 1, DIMS(4), NULL, 0);
    view_on(&b, TENON_CUDA_MANAGED, memory, TENON_F32, 1, DIMS(4), NULL, 0);
    assert_true(overlap(&a.view, &b.view)); /* a managed pointer may be called either */
    view_on(&b, TENON_CUDA, memory, TENON_F32, 1, DIMS(4), NULL, 0);
    assert_true(overlap(&a.view, &b.view));
    view_on(&b, TENON_ROCM, memory, TENON_F32, 1, DIMS(4), NULL, 0);
    assert_false(overlap(&a.view, &b.view));
    tenon_dl_tensor source = source_of(memory, TENON_F32, 1, DIMS(4), NULL);
    source.device = tenon_device_of(TENON_CUDA, 1);
    OK(tenon_view_init(&b.view, &source, 0, b.dims, &err));
    assert_false(overlap(&a.view, &b.view));
}

static const tenon_view *in_handle(roomy_view *room, int device, void *handle, uint64_t offset, int64_t *strides)
{
    tenon_dl_tensor source = source_of(handle, TENON_F32, 1, DIMS(4), strides);
    source.device.device_type = device;
    source.byte_offset = offset;
    OK(tenon_view_init(&room->view, &source, 0, room->dims, &err));
    return &room->view;
}

static void test_handles(void **state)
{
    (void)state;
    static const int devices[] = {TENON_OPENCL, TENON_VULKAN, TENON_METAL, TENON_WEBGPU};
    roomy_view a, b;
    for (size_t i = 0; i < 4; i++) {
        in_handle(&a, devices[i], memory, 0, NULL);
        assert_true(overlap(&a.view, in_handle(&b, devices[i], memory, 12, NULL)));
        assert_false(overlap(&a.view, in_handle(&b, devices[i], memory, 16, NULL)));
        /* Other handles are other buffers, however close their numbers are. */
        assert_false(overlap(&a.view, in_handle(&b, devices[i], memory + 4, 0, NULL)));
        assert_false(overlap(&a.view, in_handle(&b, devices[(i + 1) % 4], memory, 0, NULL)));
        assert_false(overlap(&a.view, view_of(&b, memory, TENON_F32, 1, DIMS(4), NULL)));
        in_handle(&a, devices[i], memory, 0, DIMS(2));
        assert_false(overlap(&a.view, in_handle(&b, devices[i], memory, 4, DIMS(2))));
        assert_true(overlap(&a.view, in_handle(&b, devices[i], memory, 8, DIMS(2))));
    }
}

static void test_self_overlap(void **state)
{
    (void)state;
    static const struct {
        int ndim;
        int64_t shape[3], strides[3];
        bool overlaps;
    } cases[] = {
        {0, {0}, {0}, false},
        {1, {5}, {1}, false},
        {1, {5}, {-3}, false},
        {1, {5}, {0}, true},
        {1, {1}, {0}, false},
        {2, {3, 4}, {0, 1}, true},
        {2, {3, 4}, {4, 1}, false},
        {2, {3, 4}, {1, 3}, false},
        {2, {3, 4}, {3, 1}, true}, /* rows overlap by one: a sliding window */
        {2, {3, 4}, {1, 1}, true},
        {2, {3, 4}, {-4, 1}, false},
        {2, {3, 4}, {-3, 1}, true},
        {2, {2, 2}, {3, 2}, false}, /* 0 2 3 5 */
        {2, {3, 3}, {3, 2}, false}, /* 0 2 4 3 5 7 6 8 10 */
        {2, {3, 4}, {3, 2}, true},  /* 2 * 3 = 3 * 2 */
        {3, {2, 2, 2}, {1, 2, 3}, true},
        {3, {2, 2, 2}, {1, 2, 4}, false},
        {3, {2, 3, 2}, {7, 2, 100}, false},
        {3, {0, 3, 3}, {0, 0, 0}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t shape[3], strides[3];
        roomy_view room;
        memcpy(shape, cases[i].shape, sizeof shape);
        memcpy(strides, cases[i].strides, sizeof strides);
        view_of(&room, memory + 4096, TENON_F32, cases[i].ndim, shape, strides);
        if (tenon_view_self_overlaps(&room.view) != cases[i].overlaps)
            fail_msg("case %zu", i);
    }
}

/* Strides like these make the exact answer a subset-sum problem. It must come quickly, and not be a wrong no. */
static void test_hard_instances_end(void **state)
{
    (void)state;
    int64_t shape[TENON_MAX_NDIM], strides[TENON_MAX_NDIM];
    roomy_view a, b;
    int64_t seed = 12345;
    for (int i = 0; i < TENON_MAX_NDIM; i++) {
        shape[i] = i < 60 ? 2 : 1;
        seed = (seed * 1103515245 + 12345) % ((int64_t)1 << 31);
        strides[i] = 2 * (seed + ((int64_t)1 << 31)); /* even, of about the same size */
    }
    view_of(&a, memory, TENON_U8, 60, shape, strides);
    assert_true(tenon_view_self_overlaps(&a.view)); /* 2^60 sums below 2^39: some must meet */
    strides[59] += 1;
    view_of(&b, memory + 6, TENON_U8, 60, shape, strides);
    overlap(&a.view, &b.view);
    /* Odd against even, which no search needs to find out. */
    strides[59] -= 1;
    view_of(&b, memory + 7, TENON_U8, 60, shape, strides);
    assert_false(overlap(&a.view, &b.view));
}

/* Far apart in both directions: the sum of the reaches does not fit 64 bits, though each does. */
static void test_strides_as_large_as_can_be(void **state)
{
    (void)state;
    roomy_view a, b;
    const int64_t far = ((int64_t)1 << 62) + 5;
    void *middle = (void *)((uintptr_t)1 << 63);
    view_of(&a, middle, TENON_U8, 2, DIMS(2, 2), DIMS(far, -far - 1));
    assert_false(tenon_view_self_overlaps(&a.view));
    view_of(&b, (char *)middle + 1, TENON_U8, 2, DIMS(2, 2), DIMS(far, -far));
    assert_true(tenon_view_self_overlaps(&b.view));
    assert_true(overlap(&a.view, &b.view));
    view_of(&b, (char *)middle + 7, TENON_U8, 1, DIMS(1), NULL);
    overlap(&a.view, &b.view);
}

/* Packed values are compared by bits, which 64 bits cannot count over such distances: then the answer is yes. */
static void test_packed_values_that_are_too_far_apart(void **state)
{
    (void)state;
    roomy_view a, b;
    const tenon_dtype half = tenon_dtype_of(TENON_CODE_INT, 4, 1);
    char *low = (char *)(uintptr_t)4096;
    view_of(&a, low + ((int64_t)1 << 61), half, 1, DIMS(3), NULL);
    view_of(&b, low, TENON_U8, 1, DIMS(3), DIMS(((int64_t)1 << 61) + 9));
    assert_true(overlap(&a.view, &b.view)); /* the distance between them */
    view_of(&a, low + 1, half, 1, DIMS(3), NULL);
    view_of(&b, low, TENON_U8, 1, DIMS(17), DIMS((int64_t)1 << 58));
    assert_true(overlap(&a.view, &b.view)); /* the distance of the last element */
    view_of(&b, low, TENON_U8, 1, DIMS(4), DIMS((int64_t)1 << 58));
    assert_false(overlap(&a.view, &b.view)); /* this can still be counted */
}

/* ---------------------------------------------------------------------------------------------------- counted out */

enum { BITS = 16384 };

static uint32_t random_state = 1;

static int64_t random_in(int64_t low, int64_t high)
{
    random_state = random_state * 1664525u + 1013904223u;
    return low + (int64_t)((random_state >> 8) % (uint32_t)(high - low + 1));
}

/* Add one for each element that has the bit; bit 0 is in the middle of what is counted. Returns the most of any. */
static int count_bits(const tenon_view *view, unsigned char *counts)
{
    int64_t first = 8 * (int64_t)((char *)view->data - (memory + 4096)) + BITS / 2;
    int64_t item = tenon_view_item_bits(view), index[3] = {0};
    int most = 0;
    for (int64_t k = 0; k < view->numel; k++) {
        int64_t at = first;
        for (int32_t i = 0; i < view->ndim; i++)
            at += index[i] * view->strides[i] * item;
        for (int64_t bit = at; bit < at + item; bit++) {
            assert_true(bit >= 0 && bit < BITS);
            most = ++counts[bit] > most ? counts[bit] : most;
        }
        for (int32_t i = view->ndim - 1; i >= 0 && ++index[i] == view->shape[i]; i--)
            index[i] = 0;
    }
    return most;
}

/* Strides up to `far` elements; the farther, the more a search has to try. */
static void random_view(roomy_view *room, int64_t far)
{
    static const int sizes[] = {1, 2, 4, 6, 8, 16, 32};
    int64_t shape[3], strides[3];
    int bits = far > 6 ? 8 : sizes[random_in(0, 6)];
    int code = bits == 6 ? TENON_CODE_F6_E2M3FN : TENON_CODE_UINT;
    int32_t ndim = (int32_t)random_in(0, 3);
    for (int32_t i = 0; i < ndim; i++) {
        shape[i] = random_in(random_in(0, 9) == 0 ? 0 : 1, far > 6 ? 6 : 4);
        strides[i] = random_in(-far, far);
    }
    view_of(room, memory + 4096 + random_in(-6, 6), tenon_dtype_of(code, bits, 1), ndim, shape, strides);
}

static void test_random_views_counted_out(void **state)
{
    (void)state;
    int yes = 0, self = 0, close_no = 0;
    for (int round = 0; round < 20000; round++) {
        roomy_view a, b;
        unsigned char in_a[BITS] = {0}, in_b[BITS] = {0};
        int64_t far = round % 2 ? 6 : 60;
        random_view(&a, far);
        random_view(&b, far);
        bool folds = count_bits(&a.view, in_a) > 1;
        count_bits(&b.view, in_b);
        bool meet = false;
        for (int i = 0; i < BITS; i++)
            meet |= in_a[i] && in_b[i];
        if (tenon_view_self_overlaps(&a.view) != folds || overlap(&a.view, &b.view) != meet) {
            char text[2][200];
            tenon_view_format(&a.view, text[0], sizeof text[0]);
            tenon_view_format(&b.view, text[1], sizeof text[1]);
            fail_msg("round %d: %s (self %d) and %s (meet %d)", round, text[0], folds, text[1], meet);
        }
        yes += meet;
        self += folds;
        close_no += !meet && a.view.numel > 1 && b.view.numel > 1;
    }
    assert_true(yes > 1000 && self > 1000 && close_no > 1000); /* the generator makes all kinds */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_second_element),
        cmocka_unit_test(test_blocks_of_a_matrix),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_different_dtypes),
        cmocka_unit_test(test_packed_values_share_bytes_but_no_bits),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_handles),
        cmocka_unit_test(test_self_overlap),
        cmocka_unit_test(test_hard_instances_end),
        cmocka_unit_test(test_strides_as_large_as_can_be),
        cmocka_unit_test(test_packed_values_that_are_too_far_apart),
        cmocka_unit_test(test_random_views_counted_out),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
