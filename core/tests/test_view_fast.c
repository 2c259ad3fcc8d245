/* The fast case of the validation against the general one: same status, same message, same bytes of the view. */
#include "check.h"
#include "random.h"

enum { CASES = 10000 };

static bool once_in(int count)
{
    return below(count) == 0;
}

/* A source with the room for its dims. */
typedef struct random_source {
    tenon_dl_tensor tensor;
    uint64_t flags;
    int64_t shape[TENON_MAX_NDIM], strides[TENON_MAX_NDIM];
} random_source;

static tenon_dtype random_dtype(void)
{
    static const uint8_t common[][2] = {{2, 32}, {2, 64}, {0, 8}, {0, 64}, {1, 16}, {4, 16}, {5, 128}, {6, 8}};
    static const uint8_t rare[][2] = {{0, 4}, {17, 4}, {15, 6}, {1, 1}, {2, 33}, {99, 8}, {0, 0}};
    const uint8_t *chosen = once_in(8) ? rare[below(7)] : common[below(8)];
    return tenon_dtype_of(chosen[0], chosen[1], once_in(10) ? below(5) : 1);
}

static int64_t random_size(void)
{
    static const int64_t extremes[] = {-1, INT64_MIN, INT64_MAX, INT32_MAX, (int64_t)1 << 31, (int64_t)1 << 40, 65536};
    return once_in(30) ? extremes[below(7)] : once_in(12) ? 0 : once_in(3) ? 1 : 2 + below(4);
}

/* Strides of size-1 dimensions are anything; most others are in C order. */
static void random_strides(random_source *s)
{
    static const int64_t extremes[] = {INT64_MIN, INT64_MAX, (int64_t)1 << 62, -((int64_t)1 << 40)};
    int kind = below(8);
    uint64_t stride = 1;
    s->tensor.strides = kind == 0 ? NULL : s->strides;
    for (int32_t i = s->tensor.ndim - 1; i >= 0; i--) {
        bool is_usual = kind != 1 && !(s->shape[i] == 1 && once_in(2)) && !once_in(60);
        s->strides[i] = is_usual ? (int64_t)stride : once_in(20) ? extremes[below(4)] : below(40) - 15;
        stride *= s->shape[i] ? (uint64_t)s->shape[i] : 1;
    }
    if (kind == 2 && s->tensor.ndim > 1) { /* another order */
        int64_t first = s->strides[0];
        s->strides[0] = s->strides[1];
        s->strides[1] = first;
    }
}

static void random_case(random_source *s)
{
    static const int32_t devices[] = {TENON_CUDA, TENON_CUDA_HOST, TENON_METAL, TENON_OPENCL, 0, 77};
    static char memory[64];
    memset(s, 0, sizeof *s);
    s->flags = once_in(3) ? TENON_READ_ONLY : 0;
    s->flags |= once_in(20) ? TENON_SUBBYTE_PADDED : 0;
    s->tensor.dtype = random_dtype();
    s->tensor.device = tenon_device_of(once_in(10) ? devices[below(6)] : TENON_CPU, once_in(20) ? below(4) - 1 : 0);
    s->tensor.ndim = once_in(40) ? below(70) - 2 : below(6);
    s->tensor.shape = once_in(60) ? NULL : s->shape;
    for (int32_t i = 0; i < s->tensor.ndim && i < TENON_MAX_NDIM; i++)
        s->shape[i] = s->tensor.ndim > 8 ? 1 + once_in(8) : random_size();
    if (s->tensor.ndim <= TENON_MAX_NDIM)
        random_strides(s);
    s->tensor.data = once_in(30) ? NULL : memory + below(64);
    if (once_in(30))
        s->tensor.data =
            (void *)(uintptr_t)(once_in(2) ? UINTPTR_MAX - (unsigned)below(64) : (uintptr_t)INTPTR_MAX + 1);
    if (once_in(20))
        s->tensor.byte_offset = once_in(3) ? UINT64_MAX : (uint64_t)below(100);
}

typedef tenon_status (*initialiser)(tenon_view *view, const tenon_dl_tensor *source, uint64_t flags, int64_t *dims,
                                    tenon_error *err);

typedef struct outcome {
    tenon_status status;
    tenon_error err;
    roomy_view room;
} outcome;

static void run(initialiser init, const random_source *s, uint64_t more_flags, outcome *out)
{
    memset(out, 0, sizeof *out);
    out->status = init(&out->room.view, &s->tensor, s->flags | more_flags, out->room.dims, &out->err);
    out->room.view.flags &= ~more_flags;
}

/* All bytes of the view; its pointers are into its own room. */
static void check_same_view(const roomy_view *got, const roomy_view *wanted)
{
    tenon_view view = got->view;
    assert_ptr_equal(view.shape, got->dims);
    assert_ptr_equal(view.strides, got->dims + view.ndim);
    view.shape = wanted->view.shape;
    view.strides = wanted->view.strides;
    assert_memory_equal(&view, &wanted->view, sizeof view);
    assert_memory_equal(got->dims, wanted->dims, 2 * (size_t)view.ndim * sizeof *got->dims);
}

/* The messages may begin with different functions. */
static void check_same(const outcome *got, const outcome *wanted)
{
    assert_int_equal(got->status, wanted->status);
    if (wanted->status)
        assert_string_equal(strstr(got->err.message, "(): "), strstr(wanted->err.message, "(): "));
    else
        check_same_view(&got->room, &wanted->room);
}

/* The fast case by itself, if the source is what it asks for: how its callers use it. */
static bool check_fast_case(const random_source *s, int shift, const outcome *general)
{
    const tenon_dl_tensor *t = &s->tensor;
    roomy_view room;
    memset(&room, 0, sizeof room);
    bool may_ask = t->ndim >= 0 && t->ndim <= TENON_MAX_NDIM && (t->shape || t->ndim == 0) &&
                   tenon_dtype_known(t->dtype) && t->dtype.bits % 8 == 0 && t->byte_offset == 0 &&
                   tenon_device_known(t->device) && tenon_device_has_addresses(t->device);
    if (!may_ask || !tenon_view_init_fast(&room.view, t->data, &t->dtype, t->ndim, t->shape, t->strides, shift,
                                          s->flags, room.dims))
        return false;
    room.view.device = t->device;
    assert_int_equal(general->status, TENON_OK);
    check_same_view(&room, &general->room);
    return true;
}

static void check_kinds(const int *counts, int fast, bool in_bytes)
{
    static const tenon_status seen[] = {TENON_OK,      TENON_EINVAL,    TENON_ESHAPE,  TENON_EDTYPE,
                                        TENON_EDEVICE, TENON_EOVERFLOW, TENON_EBOUNDS, TENON_ELAYOUT};
    assert_true(fast > CASES / 4);
    for (size_t i = 0; i < sizeof seen / sizeof *seen - !in_bytes; i++)
        if (counts[seen[i]] < 20)
            fail_msg("%s came %d times", tenon_status_name(seen[i]), counts[seen[i]]);
}

/* A flag that the fast case does not take turns it off. */
static void test_fast_as_general(void **state)
{
    (void)state;
    int counts[TENON_EFAILED + 1] = {0}, fast = 0;
    seed = 88172645463325252u;
    for (int i = 0; i < CASES; i++) {
        random_source s;
        outcome given, general;
        random_case(&s);
        run(tenon_view_init, &s, 0, &given);
        run(tenon_view_init, &s, TENON_IS_COPIED, &general);
        check_same(&given, &general);
        fast += check_fast_case(&s, 0, &general);
        counts[general.status]++;
    }
    check_kinds(counts, fast, false);
}

/* The bytes of an element; 0: it has none of its own. */
static uint64_t item_size(const random_source *s)
{
    unsigned bits = s->tensor.dtype.bits, lanes = s->tensor.dtype.lanes;
    if (bits < 8 && (s->flags & TENON_SUBBYTE_PADDED))
        return lanes;
    return bits * lanes % 8 ? 0 : bits * lanes / 8;
}

/* The same strides in bytes; some of them are not whole elements. */
static void test_bytes_as_elements(void **state)
{
    (void)state;
    int counts[TENON_EFAILED + 1] = {0}, fast = 0;
    seed = 1181783497276652981u;
    for (int i = 0; i < CASES; i++) {
        random_source s, in_bytes;
        outcome given, general, in_elements;
        random_case(&s);
        in_bytes = s;
        in_bytes.tensor.shape = s.tensor.shape ? in_bytes.shape : NULL;
        in_bytes.tensor.strides = s.tensor.strides ? in_bytes.strides : NULL;
        uint64_t item = item_size(&s);
        bool exact = item;
        for (int32_t k = 0; k < s.tensor.ndim && k < TENON_MAX_NDIM; k++) {
            uint64_t odd = once_in(20) ? 1 + (uint64_t)below(3) : 0;
            in_bytes.strides[k] = (int64_t)((uint64_t)s.strides[k] * item + odd);
            exact = exact && odd == 0 && in_bytes.strides[k] / (int64_t)item == s.strides[k];
        }
        run(tenon_view_init_bytes, &in_bytes, 0, &given);
        run(tenon_view_init_bytes, &in_bytes, TENON_IS_COPIED, &general);
        check_same(&given, &general);
        run(tenon_view_init, &s, 0, &in_elements);
        if (exact)
            check_same(&given, &in_elements);
        bool is_power = item && !(item & (item - 1));
        fast += is_power && check_fast_case(&in_bytes, __builtin_ctzll(item), &general);
        counts[general.status]++;
    }
    check_kinds(counts, fast, true);
}

static void test_strides_that_are_no_elements(void **state)
{
    (void)state;
    static float memory[16];
    roomy_view room;
    tenon_dl_tensor source = source_of(memory, TENON_F32, 2, DIMS(2, 3), DIMS(12, 6));
    FAILS_SAYING(
        TENON_ELAYOUT,
        "tenon_view_init_bytes(): strides of [12, 6] bytes are not multiples of the item size, 4 (a field of a "
        "structured array?); pass a copy",
        tenon_view_init_bytes(&room.view, &source, 0, room.dims, &err));
    /* They address nothing. */
    source.shape = DIMS(2, 1);
    OK(tenon_view_init_bytes(&room.view, &source, 0, room.dims, &err));
    assert_dims(&room.view, 2, DIMS(2, 1), DIMS(3, 1));
    source.shape = DIMS(0, 3);
    source.strides = DIMS(12, -6);
    OK(tenon_view_init_bytes(&room.view, &source, 0, room.dims, &err));
    assert_dims(&room.view, 2, DIMS(0, 3), DIMS(3, -2));
    /* Two elements share a byte. */
    source = source_of(memory, tenon_dtype_of(TENON_CODE_INT, 4, 1), 1, DIMS(4), DIMS(1));
    FAILS_SAYING(TENON_ELAYOUT, "tenon_view_init_bytes(): strides in bytes: elements of i4 have no bytes of their own",
                 tenon_view_init_bytes(&room.view, &source, 0, room.dims, &err));
    OK(tenon_view_init_bytes(&room.view, &source, TENON_SUBBYTE_PADDED, room.dims, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_view_init_bytes(): argument 'view' is NULL",
                 tenon_view_init_bytes(NULL, &source, 0, room.dims, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_view_init_bytes(): argument 'source' is NULL",
                 tenon_view_init_bytes(&room.view, NULL, 0, room.dims, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fast_as_general),
        cmocka_unit_test(test_bytes_as_elements),
        cmocka_unit_test(test_strides_that_are_no_elements),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
