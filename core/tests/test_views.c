/* Views that share memory: each against shapes, strides and offsets worked out by hand. */
#include "check.h"

static char memory[1024];
static int releases;

static void count_release(void *owner)
{
    assert_ptr_equal(owner, memory);
    releases++;
}

/* A tensor whose first element is `first` bytes into memory; data_size 0: only what it touches. */
static tenon_tensor *tensor_on(int device, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                               const int64_t *strides, uint64_t first, uint64_t data_size, uint64_t flags)
{
    tenon_blob blob = {
        .data = memory,
        .byte_offset = first,
        .data_size = data_size,
        .dtype = dtype,
        .device = {device, 0},
        .ndim = ndim,
        .shape = shape,
        .strides = strides,
        .flags = flags,
        .owner = memory,
        .release = count_release,
    };
    tenon_tensor *tensor = NULL;
    OK(tenon_tensor_from_blob(&blob, &tensor, &err));
    return tensor;
}

static tenon_tensor *tensor_of(tenon_dtype dtype, int32_t ndim, const int64_t *shape, const int64_t *strides)
{
    return tensor_on(TENON_CPU, dtype, ndim, shape, strides, 256, 0, 0);
}

/* Check the view that was made, `offset` bytes from `parent`, and drop it. */
static void check_view(tenon_tensor *view, const tenon_tensor *parent, int32_t ndim, const int64_t *shape,
                       const int64_t *strides, int64_t offset, const char *file, int line)
{
    const tenon_view *got = tenon_tensor_view(view), *from = tenon_tensor_view(parent);
    int64_t numel = 1;
    check_dims(got, ndim, shape, strides, file, line);
    for (int32_t i = 0; i < ndim; i++)
        numel *= shape[i];
    _assert_int_equal((LargestIntegralType)got->numel, (LargestIntegralType)numel, file, line);
    if (tenon_device_has_addresses(from->device)) {
        _assert_int_equal((LargestIntegralType)((char *)got->data - (char *)from->data), (LargestIntegralType)offset,
                          file, line);
        _assert_int_equal(got->byte_offset, 0, file, line);
    } else {
        _assert_true(got->data == from->data, "the handle", file, line);
        _assert_int_equal(got->byte_offset, from->byte_offset + (uint64_t)offset, file, line);
    }
    const uint64_t kept = TENON_READ_ONLY | TENON_IS_COPIED | TENON_SUBBYTE_PADDED;
    _assert_int_equal(got->flags & kept, from->flags & kept, file, line);
    _assert_true(tenon_device_equal(got->device, from->device), "the device", file, line);
    tenon_tensor_release(view);
}

#define GIVES(parent, call, ndim, shape, strides, offset)                                                              \
    do {                                                                                                               \
        tenon_tensor *v = NULL;                                                                                        \
        OK(call);                                                                                                      \
        check_view(v, parent, ndim, shape, strides, offset, __FILE__, __LINE__);                                       \
    } while (0)

/* A refusal gives nothing and takes nothing. */
#define REFUSES(parent, call, status, message)                                                                         \
    do {                                                                                                               \
        tenon_tensor *v = NULL;                                                                                        \
        FAILS_SAYING(status, message, call);                                                                           \
        assert_null(v);                                                                                                \
        assert_int_equal(tenon_tensor_refcount(parent), 1);                                                            \
    } while (0)

/* -------------------------------------------------------------------------------------------------- slice, select */

static void test_slice(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 2, DIMS(4, 10), NULL);
    const int64_t none = TENON_OMIT;
    GIVES(t, tenon_tensor_slice(t, 1, 2, 7, 1, &v, &err), 2, DIMS(4, 5), DIMS(10, 1), 8);
    GIVES(t, tenon_tensor_slice(t, -1, 2, 7, 2, &v, &err), 2, DIMS(4, 3), DIMS(10, 2), 8);
    GIVES(t, tenon_tensor_slice(t, 0, 1, 3, 1, &v, &err), 2, DIMS(2, 10), DIMS(10, 1), 40);
    GIVES(t, tenon_tensor_slice(t, -2, 1, 3, 1, &v, &err), 2, DIMS(2, 10), DIMS(10, 1), 40);
    GIVES(t, tenon_tensor_slice(t, 1, none, none, 1, &v, &err), 2, DIMS(4, 10), DIMS(10, 1), 0);
    GIVES(t, tenon_tensor_slice(t, 1, none, none, -1, &v, &err), 2, DIMS(4, 10), DIMS(10, -1), 36);
    GIVES(t, tenon_tensor_slice(t, 1, none, none, 3, &v, &err), 2, DIMS(4, 4), DIMS(10, 3), 0);
    GIVES(t, tenon_tensor_slice(t, 1, none, none, -3, &v, &err), 2, DIMS(4, 4), DIMS(10, -3), 36);
    GIVES(t, tenon_tensor_slice(t, 1, none, 3, 1, &v, &err), 2, DIMS(4, 3), DIMS(10, 1), 0);
    GIVES(t, tenon_tensor_slice(t, 1, 3, none, 1, &v, &err), 2, DIMS(4, 7), DIMS(10, 1), 12);
    GIVES(t, tenon_tensor_slice(t, 1, none, 3, -1, &v, &err), 2, DIMS(4, 6), DIMS(10, -1), 36);
    GIVES(t, tenon_tensor_slice(t, 1, 3, none, -1, &v, &err), 2, DIMS(4, 4), DIMS(10, -1), 12);
    GIVES(t, tenon_tensor_slice(t, 1, -3, -1, 1, &v, &err), 2, DIMS(4, 2), DIMS(10, 1), 28);
    GIVES(t, tenon_tensor_slice(t, 1, -1, -3, -1, &v, &err), 2, DIMS(4, 2), DIMS(10, -1), 36);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 2, DIMS(2, 1), NULL);
    GIVES(t, tenon_tensor_slice(t, 0, 1, 2, 1, &v, &err), 2, DIMS(1, 1), DIMS(1, 1), 4);
    GIVES(t, tenon_tensor_slice(t, 1, none, none, -1, &v, &err), 2, DIMS(2, 1), DIMS(1, -1), 0);
    tenon_tensor_release(t);
}

static void test_slices_beyond_the_end_are_cut(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 1, DIMS(10), NULL);
    GIVES(t, tenon_tensor_slice(t, 0, -100, 100, 1, &v, &err), 1, DIMS(10), DIMS(1), 0);
    GIVES(t, tenon_tensor_slice(t, 0, 100, -100, -1, &v, &err), 1, DIMS(10), DIMS(-1), 36);
    GIVES(t, tenon_tensor_slice(t, 0, INT64_MIN + 1, INT64_MAX, 4, &v, &err), 1, DIMS(3), DIMS(4), 0);
    GIVES(t, tenon_tensor_slice(t, 0, INT64_MAX, INT64_MIN + 1, -4, &v, &err), 1, DIMS(3), DIMS(-4), 36);
    GIVES(t, tenon_tensor_slice(t, 0, 3, INT64_MAX, INT64_MAX, &v, &err), 1, DIMS(1), DIMS(INT64_MAX), 12);
    GIVES(t, tenon_tensor_slice(t, 0, 3, INT64_MIN + 1, INT64_MIN + 1, &v, &err), 1, DIMS(1), DIMS(INT64_MIN + 1), 12);
    tenon_tensor_release(t);
}

/* A view without elements stays at its parent's first byte, wherever the slice began. */
static void test_empty_slices(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 1, DIMS(10), NULL);
    GIVES(t, tenon_tensor_slice(t, 0, 5, 5, 1, &v, &err), 1, DIMS(0), DIMS(1), 0);
    GIVES(t, tenon_tensor_slice(t, 0, 7, 3, 1, &v, &err), 1, DIMS(0), DIMS(1), 0);
    GIVES(t, tenon_tensor_slice(t, 0, 3, 7, -1, &v, &err), 1, DIMS(0), DIMS(-1), 0);
    GIVES(t, tenon_tensor_slice(t, 0, 10, TENON_OMIT, 1, &v, &err), 1, DIMS(0), DIMS(1), 0);
    GIVES(t, tenon_tensor_slice(t, 0, -11, TENON_OMIT, -1, &v, &err), 1, DIMS(0), DIMS(-1), 0);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 2, DIMS(0, 3), NULL);
    GIVES(t, tenon_tensor_slice(t, 0, TENON_OMIT, TENON_OMIT, -1, &v, &err), 2, DIMS(0, 3), DIMS(-3, 1), 0);
    GIVES(t, tenon_tensor_slice(t, 1, 1, 3, 1, &v, &err), 2, DIMS(0, 2), DIMS(3, 1), 0);
    GIVES(t, tenon_tensor_select(t, 1, 2, &v, &err), 1, DIMS(0), DIMS(3), 0);
    REFUSES(t, tenon_tensor_select(t, 0, 0, &v, &err), TENON_EBOUNDS, NULL);
    tenon_tensor_release(t);
}

static void test_bad_slices(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 2, DIMS(4, 10), NULL);
    const char *step = "tenon_tensor_slice(): argument 'step': expected a number other than 0, such as 1";
    REFUSES(t, tenon_tensor_slice(t, 0, 0, 1, 0, &v, &err), TENON_EINVAL, step);
    REFUSES(t, tenon_tensor_slice(t, 0, 0, 1, TENON_OMIT, &v, &err), TENON_EINVAL, step);
    REFUSES(t, tenon_tensor_slice(t, 2, 0, 1, 1, &v, &err), TENON_EBOUNDS,
            "tenon_tensor_slice(): argument 'dim': expected one of 2 dimensions, counted from 0 or backwards from -1, "
            "got 2");
    REFUSES(t, tenon_tensor_slice(t, -3, 0, 1, 1, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_slice(t, INT64_MAX, 0, 1, 1, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_slice(t, INT64_MIN, 0, 1, 1, &v, &err), TENON_EBOUNDS, NULL);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 0, NULL, NULL);
    REFUSES(t, tenon_tensor_slice(t, 0, 0, 1, 1, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_select(t, 0, 0, &v, &err), TENON_EBOUNDS, NULL);
    tenon_tensor_release(t);
}

static void test_select(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F64, 3, DIMS(2, 3, 4), NULL);
    GIVES(t, tenon_tensor_select(t, 0, 1, &v, &err), 2, DIMS(3, 4), DIMS(4, 1), 96);
    GIVES(t, tenon_tensor_select(t, 1, 2, &v, &err), 2, DIMS(2, 4), DIMS(12, 1), 64);
    GIVES(t, tenon_tensor_select(t, -1, -1, &v, &err), 2, DIMS(2, 3), DIMS(12, 4), 24);
    GIVES(t, tenon_tensor_select(t, 2, -4, &v, &err), 2, DIMS(2, 3), DIMS(12, 4), 0);
    REFUSES(t, tenon_tensor_select(t, 1, 3, &v, &err), TENON_EBOUNDS,
            "tenon_tensor_select(): argument 'index': expected -3 to 2 along dimension 1, got 3");
    REFUSES(t, tenon_tensor_select(t, 1, -4, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_select(t, 1, TENON_OMIT, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_select(t, 3, 0, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_select(t, -4, 0, &v, &err), TENON_EBOUNDS, NULL);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 1, DIMS(5), DIMS(-2)); /* backwards already */
    GIVES(t, tenon_tensor_select(t, 0, 3, &v, &err), 0, NULL, NULL, -24);
    GIVES(t, tenon_tensor_slice(t, 0, 4, 0, -2, &v, &err), 1, DIMS(2), DIMS(4), -32);
    tenon_tensor_release(t);
}

/* ---------------------------------------------------------------------------------------------- order and number of
 * dims */

static void test_permute_and_transpose(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 3, DIMS(2, 3, 4), NULL);
    GIVES(t, tenon_tensor_permute(t, AXES(2, 0, 1), &v, &err), 3, DIMS(4, 2, 3), DIMS(1, 12, 4), 0);
    GIVES(t, tenon_tensor_permute(t, AXES(-1, 0, -2), &v, &err), 3, DIMS(4, 2, 3), DIMS(1, 12, 4), 0);
    GIVES(t, tenon_tensor_transpose(t, 0, 2, &v, &err), 3, DIMS(4, 3, 2), DIMS(1, 4, 12), 0);
    GIVES(t, tenon_tensor_transpose(t, -1, -2, &v, &err), 3, DIMS(2, 4, 3), DIMS(12, 1, 4), 0);
    GIVES(t, tenon_tensor_transpose(t, 1, 1, &v, &err), 3, DIMS(2, 3, 4), DIMS(12, 4, 1), 0);
    REFUSES(t, tenon_tensor_permute(t, AXES(0, 1, 1), &v, &err), TENON_EINVAL,
            "tenon_tensor_permute(): argument 'axes': dimension 1 appears twice");
    REFUSES(t, tenon_tensor_permute(t, AXES(0, 2, -1), &v, &err), TENON_EINVAL, NULL);
    REFUSES(t, tenon_tensor_permute(t, AXES(0, 1, 3), &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_permute(t, AXES(-4, 1, 2), &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_transpose(t, 0, 3, &v, &err), TENON_EBOUNDS,
            "tenon_tensor_transpose(): argument 'dim1': expected one of 3 dimensions, counted from 0 or backwards from "
            "-1, got 3");
    REFUSES(t, tenon_tensor_transpose(t, -4, 0, &v, &err), TENON_EBOUNDS, NULL);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 0, NULL, NULL);
    GIVES(t, tenon_tensor_permute(t, NULL, &v, &err), 0, NULL, NULL, 0);
    tenon_tensor_release(t);
}

static void test_squeeze_and_expand(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 4, DIMS(1, 2, 1, 3), DIMS(99, 3, 77, 1));
    GIVES(t, tenon_tensor_squeeze(t, 0, &v, &err), 3, DIMS(2, 1, 3), DIMS(3, 77, 1), 0);
    GIVES(t, tenon_tensor_squeeze(t, -2, &v, &err), 3, DIMS(1, 2, 3), DIMS(99, 3, 1), 0);
    GIVES(t, tenon_tensor_squeeze(t, TENON_OMIT, &v, &err), 2, DIMS(2, 3), DIMS(3, 1), 0);
    REFUSES(t, tenon_tensor_squeeze(t, 1, &v, &err), TENON_ESHAPE,
            "tenon_tensor_squeeze(): argument 'dim': expected a dimension of size 1, but dimension 1 has size 2");
    REFUSES(t, tenon_tensor_squeeze(t, 4, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_squeeze(t, -5, &v, &err), TENON_EBOUNDS, NULL);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 2, DIMS(2, 3), NULL);
    GIVES(t, tenon_tensor_expand_dims(t, 0, &v, &err), 3, DIMS(1, 2, 3), DIMS(6, 3, 1), 0);
    GIVES(t, tenon_tensor_expand_dims(t, 1, &v, &err), 3, DIMS(2, 1, 3), DIMS(3, 3, 1), 0);
    GIVES(t, tenon_tensor_expand_dims(t, 2, &v, &err), 3, DIMS(2, 3, 1), DIMS(3, 1, 1), 0);
    GIVES(t, tenon_tensor_expand_dims(t, -1, &v, &err), 3, DIMS(2, 3, 1), DIMS(3, 1, 1), 0);
    GIVES(t, tenon_tensor_expand_dims(t, -3, &v, &err), 3, DIMS(1, 2, 3), DIMS(6, 3, 1), 0);
    REFUSES(t, tenon_tensor_expand_dims(t, 3, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_expand_dims(t, -4, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_expand_dims(t, TENON_OMIT, &v, &err), TENON_EBOUNDS, NULL);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 0, NULL, NULL);
    GIVES(t, tenon_tensor_expand_dims(t, 0, &v, &err), 1, DIMS(1), DIMS(1), 0);
    GIVES(t, tenon_tensor_squeeze(t, TENON_OMIT, &v, &err), 0, NULL, NULL, 0);
    REFUSES(t, tenon_tensor_squeeze(t, 0, &v, &err), TENON_EBOUNDS, NULL);
    tenon_tensor_release(t);
}

static void test_reshape(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 2, DIMS(4, 6), NULL);
    GIVES(t, tenon_tensor_reshape(t, 1, DIMS(24), &v, &err), 1, DIMS(24), DIMS(1), 0);
    GIVES(t, tenon_tensor_reshape(t, 3, DIMS(2, 3, 4), &v, &err), 3, DIMS(2, 3, 4), DIMS(12, 4, 1), 0);
    GIVES(t, tenon_tensor_reshape(t, 3, DIMS(2, -1, 2), &v, &err), 3, DIMS(2, 6, 2), DIMS(12, 2, 1), 0);
    GIVES(t, tenon_tensor_reshape(t, 4, DIMS(1, 24, -1, 1), &v, &err), 4, DIMS(1, 24, 1, 1), DIMS(24, 1, 1, 1), 0);
    GIVES(t, tenon_tensor_flatten(t, &v, &err), 1, DIMS(24), DIMS(1), 0);
    REFUSES(t, tenon_tensor_reshape(t, 2, DIMS(5, 5), &v, &err), TENON_ESHAPE,
            "tenon_tensor_reshape(): argument 'shape': [5, 5] cannot hold the 24 elements of f32[4, 6]");
    REFUSES(t, tenon_tensor_reshape(t, 2, DIMS(5, -1), &v, &err), TENON_ESHAPE,
            "tenon_tensor_reshape(): argument 'shape': [5, -1] cannot hold the 24 elements of f32[4, 6]");
    REFUSES(t, tenon_tensor_reshape(t, 2, DIMS(0, -1), &v, &err), TENON_ESHAPE, NULL);
    REFUSES(t, tenon_tensor_reshape(t, 2, DIMS(-1, -1), &v, &err), TENON_ESHAPE,
            "tenon_tensor_reshape(): argument 'shape': only one dimension may be -1");
    REFUSES(t, tenon_tensor_reshape(t, 2, DIMS(-2, 12), &v, &err), TENON_ESHAPE, NULL);
    REFUSES(t, tenon_tensor_reshape(t, 0, NULL, &v, &err), TENON_ESHAPE, NULL);
    REFUSES(t, tenon_tensor_reshape(t, -1, DIMS(1), &v, &err), TENON_ESHAPE, NULL);
    REFUSES(t, tenon_tensor_reshape(t, 2, DIMS(INT64_MAX, 3), &v, &err), TENON_EOVERFLOW, NULL);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 0, NULL, NULL);
    GIVES(t, tenon_tensor_reshape(t, 2, DIMS(1, 1), &v, &err), 2, DIMS(1, 1), DIMS(1, 1), 0);
    GIVES(t, tenon_tensor_reshape(t, 1, DIMS(-1), &v, &err), 1, DIMS(1), DIMS(1), 0);
    GIVES(t, tenon_tensor_reshape(t, 0, NULL, &v, &err), 0, NULL, NULL, 0);
    GIVES(t, tenon_tensor_flatten(t, &v, &err), 1, DIMS(1), DIMS(1), 0);
    tenon_tensor_release(t);
}

static void test_reshape_of_other_layouts(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 2, DIMS(4, 6), DIMS(10, 1)); /* rows with gaps */
    GIVES(t, tenon_tensor_reshape(t, 3, DIMS(4, 2, 3), &v, &err), 3, DIMS(4, 2, 3), DIMS(10, 3, 1), 0);
    GIVES(t, tenon_tensor_reshape(t, 3, DIMS(2, 2, 6), &v, &err), 3, DIMS(2, 2, 6), DIMS(20, 10, 1), 0);
    GIVES(t, tenon_tensor_reshape(t, 4, DIMS(4, 1, 6, 1), &v, &err), 4, DIMS(4, 1, 6, 1), DIMS(10, 6, 1, 1), 0);
    REFUSES(t, tenon_tensor_flatten(t, &v, &err), TENON_ELAYOUT,
            "tenon_tensor_flatten(): f32[4, 6] with strides [10, 1] cannot become [24] without a copy; use "
            "tenon_tensor_contiguous first");
    REFUSES(t, tenon_tensor_reshape(t, 2, DIMS(8, 3), &v, &err), TENON_ELAYOUT, NULL);
    REFUSES(t, tenon_tensor_reshape(t, 2, DIMS(3, 8), &v, &err), TENON_ELAYOUT, NULL);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 1, DIMS(6), DIMS(-2));
    GIVES(t, tenon_tensor_reshape(t, 2, DIMS(2, 3), &v, &err), 2, DIMS(2, 3), DIMS(-6, -2), 0);
    GIVES(t, tenon_tensor_flatten(t, &v, &err), 1, DIMS(6), DIMS(-2), 0);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 2, DIMS(3, 4), DIMS(0, 0)); /* one element everywhere */
    GIVES(t, tenon_tensor_flatten(t, &v, &err), 1, DIMS(12), DIMS(0), 0);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 2, DIMS(3, 4), DIMS(1, 3)); /* Fortran order */
    REFUSES(t, tenon_tensor_flatten(t, &v, &err), TENON_ELAYOUT, NULL);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 3, DIMS(2, 1, 3), DIMS(5, 999, 1)); /* the 1 between has nothing to say */
    GIVES(t, tenon_tensor_reshape(t, 2, DIMS(2, 3), &v, &err), 2, DIMS(2, 3), DIMS(5, 1), 0);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 2, DIMS(0, 3), NULL);
    GIVES(t, tenon_tensor_reshape(t, 2, DIMS(5, 0), &v, &err), 2, DIMS(5, 0), DIMS(1, 1), 0);
    GIVES(t, tenon_tensor_reshape(t, 2, DIMS(5, -1), &v, &err), 2, DIMS(5, 0), DIMS(1, 1), 0);
    GIVES(t, tenon_tensor_flatten(t, &v, &err), 1, DIMS(0), DIMS(1), 0);
    REFUSES(t, tenon_tensor_reshape(t, 2, DIMS(0, -1), &v, &err), TENON_ESHAPE, NULL);
    REFUSES(t, tenon_tensor_reshape(t, 3, DIMS(0, INT64_MAX, 2), &v, &err), TENON_EOVERFLOW, NULL);
    tenon_tensor_release(t);
}

static void test_broadcast(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 2, DIMS(1, 3), NULL);
    GIVES(t, tenon_tensor_broadcast_to(t, 2, DIMS(4, 3), &v, &err), 2, DIMS(4, 3), DIMS(0, 1), 0);
    GIVES(t, tenon_tensor_broadcast_to(t, 3, DIMS(2, 4, 3), &v, &err), 3, DIMS(2, 4, 3), DIMS(0, 0, 1), 0);
    GIVES(t, tenon_tensor_broadcast_to(t, 2, DIMS(1, 3), &v, &err), 2, DIMS(1, 3), DIMS(3, 1), 0);
    GIVES(t, tenon_tensor_broadcast_to(t, 2, DIMS(0, 3), &v, &err), 2, DIMS(0, 3), DIMS(0, 1), 0);
    REFUSES(t, tenon_tensor_broadcast_to(t, 2, DIMS(4, 4), &v, &err), TENON_ESHAPE,
            "tenon_tensor_broadcast_to(): argument 'shape': f32[1, 3] cannot be broadcast to [4, 4]");
    REFUSES(t, tenon_tensor_broadcast_to(t, 2, DIMS(4, 1), &v, &err), TENON_ESHAPE, NULL);
    REFUSES(t, tenon_tensor_broadcast_to(t, 1, DIMS(3), &v, &err), TENON_ESHAPE, NULL);
    REFUSES(t, tenon_tensor_broadcast_to(t, 2, DIMS(-1, 3), &v, &err), TENON_ESHAPE, NULL);
    REFUSES(t, tenon_tensor_broadcast_to(t, 65, NULL, &v, &err), TENON_ESHAPE, NULL);
    REFUSES(t, tenon_tensor_broadcast_to(t, 3, DIMS(INT64_MAX, 2, 3), &v, &err), TENON_EOVERFLOW, NULL);
    tenon_tensor_release(t);
}

static void test_64_dimensions(void **state)
{
    (void)state;
    int64_t ones[TENON_MAX_NDIM];
    for (int i = 0; i < TENON_MAX_NDIM; i++)
        ones[i] = 1;
    tenon_tensor *t = tensor_of(TENON_F32, TENON_MAX_NDIM, ones, NULL);
    REFUSES(t, tenon_tensor_expand_dims(t, 0, &v, &err), TENON_ESHAPE,
            "tenon_tensor_expand_dims(): argument 'tensor' already has 64 dimensions");
    REFUSES(t, tenon_tensor_reshape(t, 65, ones, &v, &err), TENON_ESHAPE, NULL);
    GIVES(t, tenon_tensor_select(t, 63, 0, &v, &err), 63, ones, ones, 0);
    GIVES(t, tenon_tensor_slice(t, -64, TENON_OMIT, TENON_OMIT, 1, &v, &err), 64, ones, ones, 0);
    GIVES(t, tenon_tensor_transpose(t, 0, 63, &v, &err), 64, ones, ones, 0);
    GIVES(t, tenon_tensor_squeeze(t, TENON_OMIT, &v, &err), 0, NULL, NULL, 0);
    GIVES(t, tenon_tensor_reshape(t, 64, ones, &v, &err), 64, ones, ones, 0);
    tenon_tensor_release(t);
    t = tensor_of(TENON_F32, 0, NULL, NULL);
    int64_t zeros[TENON_MAX_NDIM] = {0};
    GIVES(t, tenon_tensor_broadcast_to(t, 64, ones, &v, &err), 64, ones, zeros, 0);
    tenon_tensor_release(t);
}

/* ----------------------------------------------------------------------------------------------------- as_strided */

static void test_as_strided_inside_data_size(void **state)
{
    (void)state;
    /* 40 bytes of memory, of which the tensor has the middle: bytes 16 to 24 */
    tenon_tensor *t = tensor_on(TENON_CPU, TENON_F32, 1, DIMS(2), NULL, 16, 40, 0);
    GIVES(t, tenon_tensor_as_strided(t, 1, DIMS(10), DIMS(1), -4, &v, &err), 1, DIMS(10), DIMS(1), -16);
    GIVES(t, tenon_tensor_as_strided(t, 1, DIMS(10), DIMS(-1), 5, &v, &err), 1, DIMS(10), DIMS(-1), 20);
    GIVES(t, tenon_tensor_as_strided(t, 2, DIMS(3, 3), DIMS(0, 1), 2, &v, &err), 2, DIMS(3, 3), DIMS(0, 1), 8);
    GIVES(t, tenon_tensor_as_strided(t, 0, NULL, NULL, 5, &v, &err), 0, NULL, NULL, 20);
    GIVES(t, tenon_tensor_as_strided(t, 1, DIMS(0), DIMS(1), 1000, &v, &err), 1, DIMS(0), DIMS(1), 0);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(11), DIMS(1), -4, &v, &err), TENON_EBOUNDS,
            "tenon_tensor_as_strided(): shape [11] with strides [1] at offset -4 reaches outside the owner's 40 bytes");
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(1), DIMS(1), -5, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(1), DIMS(1), 6, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(3), DIMS(-4), 3, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(2), DIMS(6), 0, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(2), DIMS(INT64_MAX), 0, &v, &err), TENON_EOVERFLOW, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(1), DIMS(1), INT64_MAX, &v, &err), TENON_EOVERFLOW, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(1), DIMS(1), INT64_MIN, &v, &err), TENON_EOVERFLOW, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(1), DIMS(1), INT64_MAX / 4, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(1), DIMS(1), INT64_MIN / 4, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(-1), DIMS(1), 0, &v, &err), TENON_ESHAPE, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 65, DIMS(1), DIMS(1), 0, &v, &err), TENON_ESHAPE, NULL);
    tenon_tensor_release(t);
}

static void test_as_strided_inside_the_bytes_touched(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 2, DIMS(2, 3), DIMS(-10, 2)); /* bytes -40 to 20 */
    GIVES(t, tenon_tensor_as_strided(t, 1, DIMS(15), DIMS(1), -10, &v, &err), 1, DIMS(15), DIMS(1), -40);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(15), DIMS(1), -11, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(16), DIMS(1), -10, &v, &err), TENON_EBOUNDS, NULL);
    tenon_tensor_release(t);
}

/* The owner's extent is what counts, however small the view: back to all of it, and never beyond. */
static void test_as_strided_of_a_view_never_grows(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 1, DIMS(10), NULL), *part = NULL, *all = NULL;
    OK(tenon_tensor_slice(t, 0, 4, 6, 1, &part, &err));
    tenon_tensor_release(t);
    GIVES(part, tenon_tensor_as_strided(part, 1, DIMS(10), DIMS(1), -4, &v, &err), 1, DIMS(10), DIMS(1), -16);
    REFUSES(part, tenon_tensor_as_strided(part, 1, DIMS(11), DIMS(1), -4, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(part, tenon_tensor_as_strided(part, 1, DIMS(7), DIMS(1), 0, &v, &err), TENON_EBOUNDS, NULL);
    OK(tenon_tensor_as_strided(part, 1, DIMS(10), DIMS(1), -4, &all, &err));
    REFUSES(all, tenon_tensor_as_strided(all, 1, DIMS(11), DIMS(1), 0, &v, &err), TENON_EBOUNDS, NULL);
    tenon_tensor_release(all);
    tenon_tensor_release(part);
    OK(tenon_tensor_alloc(TENON_F32, 1, DIMS(3), 0, &t, &err)); /* nor into what aligns the memory */
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(4), DIMS(1), 0, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(1), DIMS(1), -1, &v, &err), TENON_EBOUNDS, NULL);
    tenon_tensor_release(t);
}

/* --------------------------------------------------------------------------------------------------------- dtypes */

static void test_view_as(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 2, DIMS(2, 3), DIMS(-5, 1)), *other = NULL;
    GIVES(t, tenon_tensor_view_as(t, TENON_I32, &v, &err), 2, DIMS(2, 3), DIMS(-5, 1), 0);
    GIVES(t, tenon_tensor_view_as(t, tenon_dtype_of(TENON_CODE_UINT, 8, 4), &v, &err), 2, DIMS(2, 3), DIMS(-5, 1), 0);
    OK(tenon_tensor_view_as(t, TENON_U32, &other, &err));
    assert_true(tenon_dtype_equal(tenon_tensor_view(other)->dtype, TENON_U32));
    tenon_tensor_release(other);
    REFUSES(t, tenon_tensor_view_as(t, TENON_F64, &v, &err), TENON_EDTYPE,
            "tenon_tensor_view_as(): argument 'dtype': expected a dtype of the same size as f32, got f64");
    REFUSES(t, tenon_tensor_view_as(t, TENON_U8, &v, &err), TENON_EDTYPE, NULL);
    REFUSES(t, tenon_tensor_view_as(t, tenon_dtype_of(99, 32, 1), &v, &err), TENON_EDTYPE, NULL);
    REFUSES(t, tenon_tensor_view_as(t, tenon_dtype_of(2, 32, 0), &v, &err), TENON_EDTYPE, NULL);
    tenon_tensor_release(t);
    const tenon_dtype u4x2 = tenon_dtype_of(TENON_CODE_UINT, 4, 2);
    t = tensor_of(u4x2, 1, DIMS(3), NULL);
    GIVES(t, tenon_tensor_view_as(t, TENON_U8, &v, &err), 1, DIMS(3), DIMS(1), 0);
    tenon_tensor_release(t);
    t = tensor_on(TENON_CPU, u4x2, 1, DIMS(3), NULL, 0, 0, TENON_SUBBYTE_PADDED); /* two bytes each */
    REFUSES(t, tenon_tensor_view_as(t, TENON_U8, &v, &err), TENON_EDTYPE, NULL);
    GIVES(t, tenon_tensor_view_as(t, tenon_dtype_of(TENON_CODE_INT, 4, 2), &v, &err), 1, DIMS(3), DIMS(1), 0);
    tenon_tensor_release(t);
}

static void test_real_and_imag(void **state)
{
    (void)state;
    static const int bits[] = {32, 64, 128};
    for (size_t i = 0; i < 3; i++) {
        tenon_tensor *t = tensor_of(tenon_dtype_of(TENON_CODE_COMPLEX, bits[i], 1), 2, DIMS(2, 3), DIMS(-4, 1));
        tenon_tensor *part = NULL;
        GIVES(t, tenon_tensor_real(t, &v, &err), 2, DIMS(2, 3), DIMS(-8, 2), 0);
        GIVES(t, tenon_tensor_imag(t, &v, &err), 2, DIMS(2, 3), DIMS(-8, 2), bits[i] / 16);
        OK(tenon_tensor_imag(t, &part, &err));
        assert_true(
            tenon_dtype_equal(tenon_tensor_view(part)->dtype, tenon_dtype_of(TENON_CODE_FLOAT, bits[i] / 2, 1)));
        tenon_tensor_release(part);
        tenon_tensor_release(t);
    }
    tenon_tensor *t = tensor_of(TENON_F32, 1, DIMS(3), NULL);
    REFUSES(t, tenon_tensor_real(t, &v, &err), TENON_EDTYPE,
            "tenon_tensor_real(): argument 'tensor': expected a complex dtype of one lane, got f32");
    REFUSES(t, tenon_tensor_imag(t, &v, &err), TENON_EDTYPE, NULL);
    tenon_tensor_release(t);
    t = tensor_of(tenon_dtype_of(TENON_CODE_COMPLEX, 64, 2), 1, DIMS(3), NULL);
    REFUSES(t, tenon_tensor_real(t, &v, &err), TENON_EDTYPE, NULL);
    REFUSES(t, tenon_tensor_imag(t, &v, &err), TENON_EDTYPE, NULL);
    tenon_tensor_release(t);
}

static void test_packed_values_are_cut_at_whole_bytes(void **state)
{
    (void)state;
    const tenon_dtype u4 = tenon_dtype_of(TENON_CODE_UINT, 4, 1), f6 = tenon_dtype_of(TENON_CODE_F6_E2M3FN, 6, 1);
    tenon_tensor *t = tensor_of(u4, 1, DIMS(9), NULL);
    GIVES(t, tenon_tensor_slice(t, 0, 2, 7, 1, &v, &err), 1, DIMS(5), DIMS(1), 1);
    GIVES(t, tenon_tensor_slice(t, 0, 0, 7, 3, &v, &err), 1, DIMS(3), DIMS(3), 0);
    GIVES(t, tenon_tensor_slice(t, 0, TENON_OMIT, TENON_OMIT, -1, &v, &err), 1, DIMS(9), DIMS(-1), 4);
    GIVES(t, tenon_tensor_slice(t, 0, 3, 3, 1, &v, &err), 1, DIMS(0), DIMS(1), 0); /* empty: cut nowhere */
    GIVES(t, tenon_tensor_select(t, 0, 8, &v, &err), 0, NULL, NULL, 4);
    GIVES(t, tenon_tensor_as_strided(t, 1, DIMS(3), DIMS(1), 6, &v, &err), 1, DIMS(3), DIMS(1), 3);
    const char *start =
        "tenon_tensor_slice(): the view would start inside a byte of packed u4 values; start at a whole "
        "byte, or make a copy";
    REFUSES(t, tenon_tensor_slice(t, 0, 1, 7, 1, &v, &err), TENON_ELAYOUT, start);
    REFUSES(t, tenon_tensor_slice(t, 0, 7, TENON_OMIT, -1, &v, &err), TENON_ELAYOUT, start);
    REFUSES(t, tenon_tensor_select(t, 0, 3, &v, &err), TENON_ELAYOUT, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(3), DIMS(1), 5, &v, &err), TENON_ELAYOUT, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(3), DIMS(1), -1, &v, &err), TENON_ELAYOUT, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(11), DIMS(1), 0, &v, &err), TENON_EBOUNDS, NULL);
    REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(1), DIMS(1), INT64_MAX, &v, &err), TENON_EOVERFLOW, NULL);
    tenon_tensor_release(t);
    t = tensor_of(f6, 1, DIMS(9), NULL);
    GIVES(t, tenon_tensor_slice(t, 0, 4, 9, 1, &v, &err), 1, DIMS(5), DIMS(1), 3);
    REFUSES(t, tenon_tensor_slice(t, 0, 2, 9, 1, &v, &err), TENON_ELAYOUT, NULL);
    tenon_tensor_release(t);
    t = tensor_on(TENON_CPU, u4, 1, DIMS(9), NULL, 0, 0, TENON_SUBBYTE_PADDED);
    GIVES(t, tenon_tensor_slice(t, 0, 1, 7, 1, &v, &err), 1, DIMS(6), DIMS(1), 1);
    tenon_tensor_release(t);
}

/* ---------------------------------------------------------------------------------------------- devices and flags */

static void test_offsets_in_handles(void **state)
{
    (void)state;
    static const int devices[] = {TENON_OPENCL, TENON_VULKAN, TENON_METAL, TENON_WEBGPU, TENON_CUDA};
    for (size_t i = 0; i < 5; i++) {
        tenon_tensor *t = tensor_on(devices[i], TENON_F32, 2, DIMS(4, 10), NULL, 64, 0, 0);
        GIVES(t, tenon_tensor_slice(t, 1, 2, 7, 1, &v, &err), 2, DIMS(4, 5), DIMS(10, 1), 8);
        GIVES(t, tenon_tensor_slice(t, 0, TENON_OMIT, TENON_OMIT, -1, &v, &err), 2, DIMS(4, 10), DIMS(-10, 1), 120);
        GIVES(t, tenon_tensor_select(t, 0, 3, &v, &err), 1, DIMS(10), DIMS(1), 120);
        GIVES(t, tenon_tensor_as_strided(t, 1, DIMS(2), DIMS(1), 38, &v, &err), 1, DIMS(2), DIMS(1), 152);
        REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(2), DIMS(1), 39, &v, &err), TENON_EBOUNDS, NULL);
        REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(2), DIMS(1), -1, &v, &err), TENON_EBOUNDS, NULL);
        tenon_tensor_release(t);
        t = tensor_on(devices[i], TENON_F32, 1, DIMS(2), NULL, 64, 128, 0); /* the whole buffer */
        GIVES(t, tenon_tensor_as_strided(t, 1, DIMS(32), DIMS(1), -16, &v, &err), 1, DIMS(32), DIMS(1), -64);
        REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(1), DIMS(1), -17, &v, &err), TENON_EBOUNDS, NULL);
        REFUSES(t, tenon_tensor_as_strided(t, 1, DIMS(1), DIMS(1), 16, &v, &err), TENON_EBOUNDS, NULL);
        tenon_tensor_release(t);
        t = tensor_on(devices[i], TENON_C64, 1, DIMS(2), NULL, 64, 0, 0);
        GIVES(t, tenon_tensor_imag(t, &v, &err), 1, DIMS(2), DIMS(2), 4);
        tenon_tensor_release(t);
    }
}

/* check_view compares the flags of each with its parent's. */
static void test_read_only_stays(void **state)
{
    (void)state;
    const uint64_t flags = TENON_READ_ONLY | TENON_IS_COPIED;
    tenon_tensor *t = tensor_on(TENON_CPU, TENON_C64, 2, DIMS(1, 4), NULL, 0, 0, flags), *part = NULL, *again = NULL;
    GIVES(t, tenon_tensor_slice(t, 1, 1, 3, 1, &v, &err), 2, DIMS(1, 2), DIMS(4, 1), 8);
    GIVES(t, tenon_tensor_select(t, 1, 1, &v, &err), 1, DIMS(1), DIMS(4), 8);
    GIVES(t, tenon_tensor_permute(t, AXES(1, 0), &v, &err), 2, DIMS(4, 1), DIMS(1, 4), 0);
    GIVES(t, tenon_tensor_transpose(t, 0, 1, &v, &err), 2, DIMS(4, 1), DIMS(1, 4), 0);
    GIVES(t, tenon_tensor_reshape(t, 2, DIMS(2, 2), &v, &err), 2, DIMS(2, 2), DIMS(2, 1), 0);
    GIVES(t, tenon_tensor_flatten(t, &v, &err), 1, DIMS(4), DIMS(1), 0);
    GIVES(t, tenon_tensor_squeeze(t, 0, &v, &err), 1, DIMS(4), DIMS(1), 0);
    GIVES(t, tenon_tensor_expand_dims(t, 2, &v, &err), 3, DIMS(1, 4, 1), DIMS(4, 1, 1), 0);
    GIVES(t, tenon_tensor_broadcast_to(t, 2, DIMS(3, 4), &v, &err), 2, DIMS(3, 4), DIMS(0, 1), 0);
    GIVES(t, tenon_tensor_as_strided(t, 1, DIMS(2), DIMS(2), 1, &v, &err), 1, DIMS(2), DIMS(2), 8);
    GIVES(t, tenon_tensor_view_as(t, TENON_F64, &v, &err), 2, DIMS(1, 4), DIMS(4, 1), 0);
    GIVES(t, tenon_tensor_real(t, &v, &err), 2, DIMS(1, 4), DIMS(8, 2), 0);
    GIVES(t, tenon_tensor_imag(t, &v, &err), 2, DIMS(1, 4), DIMS(8, 2), 4);
    OK(tenon_tensor_slice(t, 1, 1, 3, 1, &part, &err)); /* and the view of a view */
    OK(tenon_tensor_select(part, 1, 0, &again, &err));
    assert_int_equal(tenon_tensor_view(again)->flags & flags, flags);
    tenon_tensor_release(t);
    tenon_tensor_release(part);
    tenon_tensor_release(again);
}

/* -------------------------------------------------------------------------------------------------------- sharing */

static void test_the_last_view_releases_the_memory(void **state)
{
    (void)state;
    tenon_tensor *t = tensor_of(TENON_F32, 2, DIMS(4, 4), NULL), *row = NULL, *part = NULL;
    releases = 0;
    OK(tenon_tensor_select(t, 0, 2, &row, &err));
    assert_int_equal(tenon_tensor_refcount(t), 2);
    OK(tenon_tensor_slice(row, 0, 1, 3, 1, &part, &err));
    assert_int_equal(tenon_tensor_refcount(t), 3); /* of the owner, not of the view in between */
    assert_int_equal(tenon_tensor_refcount(row), 1);
    assert_int_equal(tenon_stats_read().tensors, 3);
    tenon_tensor_release(t);
    assert_int_equal(releases, 0);
    tenon_tensor_release(row);
    assert_int_equal(releases, 0);
    assert_ptr_equal(tenon_tensor_view(part)->data, memory + 256 + 4 * 9);
    assert_dims(tenon_tensor_view(part), 1, DIMS(2), DIMS(1));
    tenon_tensor_release(part);
    assert_int_equal(releases, 1);
    assert_int_equal(tenon_stats_read().tensors, 0);
}

static void test_views_keep_allocated_memory(void **state)
{
    (void)state;
    tenon_tensor *t = NULL, *part = NULL;
    OK(tenon_tensor_alloc(TENON_I32, 1, DIMS(100), TENON_ZEROED, &t, &err));
    ((int32_t *)tenon_tensor_view(t)->data)[70] = 42;
    OK(tenon_tensor_slice(t, 0, 70, 71, 1, &part, &err));
    tenon_tensor_release(t);
    assert_int_equal(tenon_stats_read().bytes, 400);
    assert_int_equal(*(int32_t *)tenon_tensor_view(part)->data, 42);
    tenon_tensor_release(part);
    assert_int_equal(tenon_stats_read().bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_slices_beyond_the_end_are_cut),
        cmocka_unit_test(test_empty_slices),
        cmocka_unit_test(test_bad_slices),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_permute_and_transpose),
        cmocka_unit_test(test_squeeze_and_expand),
        cmocka_unit_test(test_reshape),
        cmocka_unit_test(test_reshape_of_other_layouts),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_64_dimensions),
        cmocka_unit_test(test_as_strided_inside_data_size),
        cmocka_unit_test(test_as_strided_inside_the_bytes_touched),
        cmocka_unit_test(test_as_strided_of_a_view_never_grows),
        cmocka_unit_test(test_view_as),
        cmocka_unit_test(test_real_and_imag),
        cmocka_unit_test(test_packed_values_are_cut_at_whole_bytes),
        cmocka_unit_test(test_offsets_in_handles),
        cmocka_unit_test(test_read_only_stays),
        cmocka_unit_test(test_the_last_view_releases_the_memory),
        cmocka_unit_test(test_views_keep_allocated_memory),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
