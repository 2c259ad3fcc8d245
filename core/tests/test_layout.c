/* Shapes, strides, extents, contiguity and alignment. What is refused is in test_errors.c. */
#include "check.h"

static char memory[4096];

static const tenon_view *of(roomy_view *room, tenon_dtype dtype, int32_t ndim, int64_t *shape, int64_t *strides)
{
    return view_of(room, memory + 2048, dtype, ndim, shape, strides);
}

static void assert_extent(const tenon_view *view, int64_t low, int64_t high)
{
    tenon_extent extent = tenon_view_extent(view);
    assert_int_equal(extent.low, low);
    assert_int_equal(extent.high, high);
}

/* --------------------------------------------------------------------------------------------------------- shapes */

static void test_numel(void **state)
{
    (void)state;
    int64_t numel = -1;
    OK(tenon_shape_numel(0, NULL, &numel, &err));
    assert_int_equal(numel, 1);
    OK(tenon_shape_numel(3, DIMS(2, 3, 4), &numel, &err));
    assert_int_equal(numel, 24);
    OK(tenon_shape_numel(3, DIMS(2, 0, 4), &numel, &err));
    assert_int_equal(numel, 0);
    OK(tenon_shape_numel(2, DIMS(INT64_MAX, 1), &numel, &err));
    assert_int_equal(numel, INT64_MAX);

    int64_t shape[TENON_MAX_NDIM + 1];
    for (int i = 0; i <= TENON_MAX_NDIM; i++)
        shape[i] = i < 62 ? 2 : 1;
    OK(tenon_shape_numel(TENON_MAX_NDIM, shape, &numel, &err));
    assert_int_equal(numel, (int64_t)1 << 62);

    numel = 77;
    FAILS(TENON_ESHAPE, tenon_shape_numel(TENON_MAX_NDIM + 1, shape, &numel, &err));
    FAILS(TENON_ESHAPE, tenon_shape_numel(-1, shape, &numel, &err));
    FAILS(TENON_ESHAPE, tenon_shape_numel(2, DIMS(3, -3), &numel, &err));
    FAILS(TENON_EINVAL, tenon_shape_numel(1, NULL, &numel, &err));
    FAILS(TENON_EINVAL, tenon_shape_numel(1, shape, NULL, &err));
    FAILS_SAYING(TENON_EOVERFLOW, "tenon_shape_numel(): the shape has more elements than 64 bits can count",
                 tenon_shape_numel(2, DIMS(INT64_MAX, 2), &numel, &err));
    FAILS(TENON_EOVERFLOW, tenon_shape_numel(3, DIMS(INT64_MAX, 2, 0), &numel, &err));
    FAILS(TENON_EOVERFLOW, tenon_shape_numel(3, DIMS(0, INT64_MAX, 2), &numel, &err));
    assert_int_equal(numel, 77);
}

static void test_strides(void **state)
{
    (void)state;
    int64_t out[4] = {77, 77, 77, 77};
    OK(tenon_shape_strides(3, DIMS(2, 3, 4), 'C', out, &err));
    assert_memory_equal(out, DIMS(12, 4, 1, 77), sizeof out);
    OK(tenon_shape_strides(3, DIMS(2, 3, 4), 'F', out, &err));
    assert_memory_equal(out, DIMS(1, 2, 6, 77), sizeof out);
    OK(tenon_shape_strides(3, DIMS(2, 0, 4), 'C', out, &err)); /* 0 counts as 1 */
    assert_memory_equal(out, DIMS(4, 4, 1, 77), sizeof out);
    OK(tenon_shape_strides(3, DIMS(2, 0, 4), 'F', out, &err));
    assert_memory_equal(out, DIMS(1, 2, 2, 77), sizeof out);
    OK(tenon_shape_strides(0, NULL, 'C', NULL, &err));
    int64_t in_place[] = {5, 6};
    OK(tenon_shape_strides(2, in_place, 'C', in_place, &err));
    assert_memory_equal(in_place, DIMS(6, 1), sizeof in_place);

    out[0] = 77;
    FAILS_SAYING(TENON_EINVAL, "tenon_shape_strides(): argument 'order': expected 'C' or 'F'",
                 tenon_shape_strides(1, DIMS(1), 'K', out, &err));
    FAILS(TENON_EINVAL, tenon_shape_strides(1, DIMS(1), 'c', out, &err));
    FAILS(TENON_EINVAL, tenon_shape_strides(1, DIMS(1), 'C', NULL, &err));
    FAILS(TENON_EINVAL, tenon_shape_strides(1, NULL, 'C', out, &err));
    FAILS(TENON_ESHAPE, tenon_shape_strides(65, DIMS(1), 'C', out, &err));
    FAILS(TENON_ESHAPE, tenon_shape_strides(-1, DIMS(1), 'C', out, &err));
    FAILS(TENON_ESHAPE, tenon_shape_strides(1, DIMS(-1), 'C', out, &err));
    FAILS(TENON_EOVERFLOW, tenon_shape_strides(2, DIMS(INT64_MAX, 2), 'C', out, &err));
    FAILS(TENON_EOVERFLOW, tenon_shape_strides(2, DIMS(INT64_MAX, 2), 'F', out, &err));
    FAILS(TENON_EOVERFLOW, tenon_shape_strides(3, DIMS(INT64_MAX, 0, 2), 'C', out, &err));
    assert_int_equal(out[0], 77);
}

/* ------------------------------------------------------------------------------------------------ tenon_view_init */

static void test_every_ndim(void **state)
{
    (void)state;
    int64_t shape[TENON_MAX_NDIM], ones[TENON_MAX_NDIM];
    for (int i = 0; i < TENON_MAX_NDIM; i++)
        shape[i] = i % 16 == 3 ? 2 : 1;
    for (int32_t ndim = 0; ndim <= TENON_MAX_NDIM; ndim++) {
        roomy_view room;
        memset(room.dims, 0x5a, sizeof room.dims);
        of(&room, TENON_F32, ndim, shape, NULL);
        int64_t numel = 1, stride = 1;
        for (int32_t i = 0; i < ndim; i++)
            numel *= shape[i];
        for (int32_t i = ndim - 1; i >= 0; stride *= shape[i--])
            ones[i] = stride;
        assert_dims(&room.view, ndim, shape, ones);
        assert_int_equal(room.view.numel, numel);
        assert_int_equal(tenon_view_nbytes(&room.view), 4 * numel);
        assert_true(room.view.flags & TENON_VIEW_C);
        if (ndim < TENON_MAX_NDIM) /* no more room is used than 2 * ndim */
            assert_int_equal(room.dims[2 * ndim], 0x5a5a5a5a5a5a5a5a);
    }
}

static void test_scalars_need_no_arrays(void **state)
{
    (void)state;
    tenon_view view;
    tenon_dl_tensor source = source_of(memory, TENON_F64, 0, NULL, NULL);
    OK(tenon_view_init(&view, &source, 0, NULL, &err));
    assert_int_equal(view.ndim, 0);
    assert_int_equal(view.numel, 1);
    assert_ptr_equal(view.data, memory);
    assert_string_equal(orders_of(&view), "CFD");
    assert_extent(&view, 0, 8);
}

static void test_the_first_48_bytes_are_a_dltensor(void **state)
{
    (void)state;
    roomy_view room;
    of(&room, TENON_F32, 2, DIMS(2, 3), NULL);
    const tenon_dl_tensor *tensor = tenon_dltensor(&room.view);
    assert_ptr_equal(tensor, &room.view);
    assert_ptr_equal(tensor->data, memory + 2048);
    assert_int_equal(tensor->ndim, 2);
    assert_ptr_equal(tensor->shape, room.dims);
    assert_ptr_equal(tensor->strides, room.dims + 2);
    assert_int_equal(tensor->byte_offset, 0);
}

static void test_source_is_copied_and_may_be_the_room(void **state)
{
    (void)state;
    roomy_view room;
    int64_t shape[] = {2, 3}, strides[] = {7, 2};
    of(&room, TENON_F32, 2, shape, strides);
    shape[0] = strides[0] = 1000;
    assert_dims(&room.view, 2, DIMS(2, 3), DIMS(7, 2));

    room.dims[0] = 4;
    room.dims[1] = 5;
    room.dims[2] = 5;
    room.dims[3] = 1;
    of(&room, TENON_F32, 2, room.dims, room.dims + 2);
    assert_dims(&room.view, 2, DIMS(4, 5), DIMS(5, 1));
    assert_string_equal(orders_of(&room.view), "CD");
}

static void test_flags_pass_through(void **state)
{
    (void)state;
    roomy_view room;
    for (uint64_t flags = 0; flags < 8; flags++) {
        view_on(&room, TENON_CPU, memory, TENON_F32, 1, DIMS(3), DIMS(2), flags);
        assert_int_equal(room.view.flags, flags);
        view_on(&room, TENON_CPU, memory, TENON_F32, 1, DIMS(3), DIMS(1), flags);
        assert_int_equal(room.view.flags, flags | TENON_VIEW_C | TENON_VIEW_F | TENON_VIEW_DENSE);
    }
}

static void test_byte_offset_is_added_to_addresses_only(void **state)
{
    (void)state;
    static const int with_addresses[] = {TENON_CPU,    TENON_CUDA,      TENON_CUDA_HOST, TENON_VPI,
                                         TENON_ROCM,   TENON_ROCM_HOST, TENON_EXT_DEV,   TENON_CUDA_MANAGED,
                                         TENON_ONEAPI, TENON_HEXAGON,   TENON_MAIA,      TENON_TRAINIUM};
    static const int with_handles[] = {TENON_OPENCL, TENON_VULKAN, TENON_METAL, TENON_WEBGPU};
    roomy_view room;
    tenon_dl_tensor source = source_of(memory, TENON_F32, 1, DIMS(3), NULL);
    source.byte_offset = 20;
    for (size_t i = 0; i < sizeof with_addresses / sizeof *with_addresses; i++) {
        source.device = tenon_device_of(with_addresses[i], 1);
        OK(tenon_view_init(&room.view, &source, 0, room.dims, &err));
        assert_ptr_equal(room.view.data, memory + 20);
        assert_int_equal(room.view.byte_offset, 0);
        assert_int_equal(room.view.device.device_id, 1);
    }
    for (size_t i = 0; i < sizeof with_handles / sizeof *with_handles; i++) {
        source.device = tenon_device_of(with_handles[i], 1);
        OK(tenon_view_init(&room.view, &source, 0, room.dims, &err));
        assert_ptr_equal(room.view.data, memory);
        assert_int_equal(room.view.byte_offset, 20);
    }
    assert_int_equal(source.byte_offset, 20);
}

/* TRAPS 37: the stride of a dimension of size 1 says nothing, but is the producer's to keep. */
static void test_strides_of_size_one(void **state)
{
    (void)state;
    roomy_view room;
    const int64_t odd[] = {0, 1, -1, 12345, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        of(&room, TENON_F32, 3, DIMS(2, 1, 3), DIMS(3, odd[i], 1));
        assert_dims(&room.view, 3, DIMS(2, 1, 3), DIMS(3, odd[i], 1));
        assert_string_equal(orders_of(&room.view), "CD");
        assert_extent(&room.view, 0, 24);
        assert_false(tenon_view_self_overlaps(&room.view));
        of(&room, TENON_F32, 2, DIMS(1, 1), DIMS(odd[i], odd[i]));
        assert_string_equal(orders_of(&room.view), "CFD");
        assert_extent(&room.view, 0, 4);
    }
}

static void test_empty_views(void **state)
{
    (void)state;
    roomy_view room;
    view_of(&room, NULL, TENON_F32, 2, DIMS(0, 3), NULL);
    assert_null(room.view.data);
    assert_int_equal(room.view.numel, 0);
    assert_int_equal(tenon_view_nbytes(&room.view), 0);
    assert_dims(&room.view, 2, DIMS(0, 3), DIMS(3, 1));
    assert_string_equal(orders_of(&room.view), "CFD");
    assert_extent(&room.view, 0, 0);

    of(&room, TENON_F32, 2, DIMS(5, 0), DIMS(INT64_MAX, INT64_MIN)); /* nothing looks at them */
    assert_dims(&room.view, 2, DIMS(5, 0), DIMS(INT64_MAX, INT64_MIN));
    assert_string_equal(orders_of(&room.view), "CFD");
    assert_extent(&room.view, 0, 0);
    assert_false(tenon_view_self_overlaps(&room.view));
    assert_false(tenon_view_overlaps(&room.view, &room.view));
}

/* ----------------------------------------------------------------------------------------------------- contiguity */

static void assert_orders(int32_t ndim, int64_t *shape, int64_t *strides, const char *orders)
{
    roomy_view room;
    of(&room, TENON_I16, ndim, shape, strides);
    assert_string_equal(orders_of(&room.view), orders);
}

static void test_orders(void **state)
{
    (void)state;
    assert_orders(1, DIMS(5), DIMS(1), "CFD");
    assert_orders(1, DIMS(5), DIMS(2), "");
    assert_orders(1, DIMS(5), DIMS(-1), "");
    assert_orders(1, DIMS(5), DIMS(0), "");
    assert_orders(2, DIMS(2, 3), DIMS(3, 1), "CD");
    assert_orders(2, DIMS(2, 3), DIMS(1, 2), "FD");
    assert_orders(2, DIMS(2, 3), DIMS(4, 1), "");
    assert_orders(2, DIMS(2, 3), DIMS(1, 3), "");
    assert_orders(2, DIMS(2, 2), DIMS(1, 1), "");
    assert_orders(2, DIMS(2, 3), DIMS(0, 1), "");
    assert_orders(2, DIMS(1, 3), DIMS(9, 1), "CFD");
    assert_orders(2, DIMS(3, 1), DIMS(1, 9), "CFD");
    assert_orders(2, DIMS(3, 1), DIMS(2, 1), "");
    assert_orders(3, DIMS(2, 3, 4), DIMS(12, 4, 1), "CD");
    assert_orders(3, DIMS(2, 3, 4), DIMS(1, 2, 6), "FD");
    assert_orders(3, DIMS(2, 3, 4), DIMS(4, 8, 1), "D"); /* 3, 2, 4 transposed */
    assert_orders(3, DIMS(2, 3, 4), DIMS(3, 1, 6), "D");
    assert_orders(3, DIMS(2, 3, 4), DIMS(12, -4, 1), "");
    assert_orders(3, DIMS(2, 3, 4), DIMS(13, 4, 1), "");
    assert_orders(4, DIMS(2, 1, 3, 1), DIMS(3, 0, 1, 0), "CD");
    assert_orders(4, DIMS(2, 1, 3, 1), DIMS(1, 0, 2, 0), "FD");
}

/* ---------------------------------------------------------------------------------------------------------- bytes */

static void test_extents(void **state)
{
    (void)state;
    roomy_view room;
    assert_extent(of(&room, TENON_F32, 2, DIMS(2, 3), NULL), 0, 24);
    assert_extent(of(&room, TENON_F32, 2, DIMS(2, 3), DIMS(10, 2)), 0, 60);
    assert_extent(of(&room, TENON_F32, 1, DIMS(5), DIMS(-1)), -16, 4);
    assert_extent(of(&room, TENON_F32, 2, DIMS(3, 4), DIMS(-8, 1)), -64, 16);
    assert_extent(of(&room, TENON_F32, 2, DIMS(3, 4), DIMS(-8, -1)), -76, 4);
    assert_extent(of(&room, TENON_F32, 2, DIMS(3, 4), DIMS(0, 0)), 0, 4);
    assert_extent(of(&room, TENON_C128, 1, DIMS(2), DIMS(3)), 0, 64);
    assert_extent(of(&room, TENON_BOOL, 1, DIMS(7), NULL), 0, 7);
}

static void test_lanes_count_in_the_size(void **state)
{
    (void)state;
    roomy_view room;
    of(&room, tenon_dtype_of(TENON_CODE_FLOAT, 32, 4), 1, DIMS(3), DIMS(2));
    assert_int_equal(tenon_view_item_bits(&room.view), 128);
    assert_int_equal(tenon_view_nbytes(&room.view), 48);
    assert_extent(&room.view, 0, 80);
    of(&room, tenon_dtype_of(TENON_CODE_F4_E2M1FN, 4, 2), 1, DIMS(3), NULL); /* as torch packs float4 */
    assert_int_equal(tenon_view_item_bits(&room.view), 8);
    assert_int_equal(tenon_view_nbytes(&room.view), 3);
    of(&room, tenon_dtype_of(TENON_CODE_UINT, 128, 65535), 1, DIMS(0), NULL);
    assert_int_equal(tenon_view_item_bits(&room.view), 128 * 65535);
}

static void test_packed_sub_byte_values(void **state)
{
    (void)state;
    roomy_view room;
    const tenon_dtype u1 = tenon_dtype_of(TENON_CODE_UINT, 1, 1), u4 = tenon_dtype_of(TENON_CODE_UINT, 4, 1);
    const tenon_dtype f6 = tenon_dtype_of(TENON_CODE_F6_E2M3FN, 6, 1), i2x3 = tenon_dtype_of(TENON_CODE_INT, 2, 3);
    assert_int_equal(tenon_view_item_bits(of(&room, u4, 1, DIMS(5), NULL)), 4);
    assert_int_equal(tenon_view_nbytes(&room.view), 3);
    assert_extent(&room.view, 0, 3);
    assert_int_equal(tenon_view_nbytes(of(&room, u1, 1, DIMS(9), NULL)), 2);
    assert_extent(&room.view, 0, 2);
    assert_int_equal(tenon_view_nbytes(of(&room, f6, 1, DIMS(3), NULL)), 3); /* 18 bits */
    assert_int_equal(tenon_view_nbytes(of(&room, f6, 1, DIMS(4), NULL)), 3);
    assert_int_equal(tenon_view_nbytes(of(&room, f6, 1, DIMS(5), NULL)), 4);
    assert_extent(of(&room, f6, 1, DIMS(4), DIMS(2)), 0, 6); /* 42 bits */
    assert_int_equal(tenon_view_item_bits(of(&room, i2x3, 1, DIMS(5), NULL)), 6);
    assert_int_equal(tenon_view_nbytes(&room.view), 4);
    assert_extent(of(&room, u4, 1, DIMS(3), DIMS(-1)), -1, 1); /* bits -8 to 4 */
    assert_extent(of(&room, u4, 1, DIMS(2), DIMS(-1)), -1, 1); /* bits -4 to 4 */
    assert_extent(of(&room, u4, 1, DIMS(4), DIMS(-1)), -2, 1); /* bits -12 to 4 */
    assert_string_equal(orders_of(of(&room, u4, 2, DIMS(3, 5), NULL)), "CD");
}

static void test_padded_sub_byte_values(void **state)
{
    (void)state;
    roomy_view room;
    const tenon_dtype u4 = tenon_dtype_of(TENON_CODE_UINT, 4, 1), f6x2 = tenon_dtype_of(TENON_CODE_F6_E2M3FN, 6, 2);
    view_on(&room, TENON_CPU, memory, u4, 1, DIMS(5), NULL, TENON_SUBBYTE_PADDED);
    assert_int_equal(tenon_view_item_bits(&room.view), 8);
    assert_int_equal(tenon_view_nbytes(&room.view), 5);
    assert_extent(&room.view, 0, 5);
    view_on(&room, TENON_CPU, memory, f6x2, 1, DIMS(5), NULL, TENON_SUBBYTE_PADDED);
    assert_int_equal(tenon_view_item_bits(&room.view), 16);
    assert_int_equal(tenon_view_nbytes(&room.view), 10);
    view_on(&room, TENON_CPU, memory, TENON_F32, 1, DIMS(5), NULL, TENON_SUBBYTE_PADDED); /* says nothing of f32 */
    assert_int_equal(tenon_view_item_bits(&room.view), 32);
}

/* What fits 64 bits to the last one is taken: in a handle nothing is in the way but the numbers. */
static void test_the_largest_views(void **state)
{
    (void)state;
    roomy_view room;
    view_on(&room, TENON_METAL, memory, TENON_U8, 1, DIMS(INT64_MAX), NULL, 0);
    assert_int_equal(room.view.numel, INT64_MAX);
    assert_int_equal(tenon_view_nbytes(&room.view), INT64_MAX);
    assert_extent(&room.view, 0, INT64_MAX);
    view_on(&room, TENON_METAL, memory, TENON_F32, 1, DIMS(2), DIMS(INT64_MAX / 4 - 1), 0);
    assert_extent(&room.view, 0, INT64_MAX / 4 * 4);
    view_on(&room, TENON_METAL, memory, tenon_dtype_of(TENON_CODE_UINT, 1, 1), 1, DIMS(INT64_MAX - 7), NULL, 0);
    assert_int_equal(tenon_view_nbytes(&room.view), INT64_MAX / 8);

    tenon_dl_tensor source = source_of((void *)(uintptr_t)(UINTPTR_MAX - 16), TENON_F32, 1, DIMS(4), NULL);
    OK(tenon_view_init(&room.view, &source, 0, room.dims, &err));
    source.shape = DIMS(5);
    FAILS(TENON_EBOUNDS, tenon_view_init(&room.view, &source, 0, room.dims, &err));
    source = source_of((void *)(uintptr_t)12, TENON_F32, 1, DIMS(4), DIMS(-1));
    OK(tenon_view_init(&room.view, &source, 0, room.dims, &err));
    assert_extent(&room.view, -12, 4);
}

static void test_alignment(void **state)
{
    (void)state;
    roomy_view room;
    for (size_t shift = 0; shift <= 12; shift++) {
        uintptr_t address = ((uintptr_t)1 << 20) + ((uintptr_t)1 << shift);
        view_of(&room, (void *)address, TENON_U8, 1, DIMS(1), NULL);
        assert_int_equal(tenon_view_alignment(&room.view), (size_t)1 << shift);
    }
    view_of(&room, (void *)((uintptr_t)1 << 20), TENON_U8, 1, DIMS(1), NULL);
    assert_int_equal(tenon_view_alignment(&room.view), 4096);
    tenon_dl_tensor source = source_of((void *)(uintptr_t)3, TENON_F32, 1, DIMS(3), NULL); /* a handle: not looked at */
    source.device.device_type = TENON_VULKAN;
    source.byte_offset = 40;
    OK(tenon_view_init(&room.view, &source, 0, room.dims, &err));
    assert_int_equal(tenon_view_alignment(&room.view), 8);
    source.byte_offset = 0;
    OK(tenon_view_init(&room.view, &source, 0, room.dims, &err));
    assert_int_equal(tenon_view_alignment(&room.view), 4096);
}

/* --------------------------------------------------------------------------------------------------------- equality */

static bool equal(const roomy_view *a, const roomy_view *b)
{
    bool answer = tenon_view_equal(&a->view, &b->view);
    assert_int_equal(tenon_view_equal(&b->view, &a->view), answer);
    assert_true(tenon_view_equal(&a->view, &a->view) && tenon_view_equal(&b->view, &b->view));
    return answer;
}

static void test_equal_views(void **state)
{
    (void)state;
    roomy_view a, b;
    of(&a, TENON_F32, 2, DIMS(2, 3), NULL);
    assert_true(equal(&a, (of(&b, TENON_F32, 2, DIMS(2, 3), DIMS(3, 1)), &b)));
    view_on(&b, TENON_CPU, a.view.data, TENON_F32, 2, DIMS(2, 3), NULL, TENON_READ_ONLY);
    assert_true(equal(&a, &b)); /* the flags are not compared */
    view_on(&b, TENON_CPU, a.view.data, TENON_F32, 2, DIMS(2, 3), NULL, TENON_SUBBYTE_PADDED);
    assert_true(equal(&a, &b)); /* says nothing about f32 */
    assert_false(equal(&a, (of(&b, TENON_F32, 2, DIMS(2, 3), DIMS(1, 2)), &b)));
    assert_false(equal(&a, (of(&b, TENON_F32, 2, DIMS(3, 2), NULL), &b)));
    assert_false(equal(&a, (of(&b, TENON_F32, 1, DIMS(6), NULL), &b)));
    assert_false(equal(&a, (of(&b, TENON_F32, 3, DIMS(2, 3, 1), NULL), &b)));
    assert_false(equal(&a, (of(&b, TENON_I32, 2, DIMS(2, 3), NULL), &b)));
    view_of(&b, (char *)a.view.data + 4, TENON_F32, 2, DIMS(2, 3), NULL);
    assert_false(equal(&a, &b));

    of(&a, TENON_F32, 0, NULL, NULL);
    assert_true(equal(&a, (of(&b, TENON_F32, 0, NULL, NULL), &b)));
    const tenon_dtype u4 = tenon_dtype_of(TENON_CODE_UINT, 4, 1);
    of(&a, u4, 1, DIMS(5), NULL);
    assert_true(equal(&a, (of(&b, u4, 1, DIMS(5), NULL), &b)));
    view_on(&b, TENON_CPU, a.view.data, u4, 1, DIMS(5), NULL, TENON_SUBBYTE_PADDED);
    assert_false(equal(&a, &b));
}

static void test_equal_views_ignore_strides_that_address_nothing(void **state)
{
    (void)state;
    roomy_view a, b;
    of(&a, TENON_F32, 3, DIMS(2, 1, 3), DIMS(3, 7, 1));
    assert_true(equal(&a, (of(&b, TENON_F32, 3, DIMS(2, 1, 3), DIMS(3, -9, 1)), &b)));
    of(&a, TENON_F32, 2, DIMS(0, 3), DIMS(3, 1));
    assert_true(equal(&a, (of(&b, TENON_F32, 2, DIMS(0, 3), DIMS(8, 8)), &b)));
    assert_false(equal(&a, (of(&b, TENON_F32, 2, DIMS(0, 2), DIMS(3, 1)), &b)));
}

static void test_equal_views_are_in_the_same_memory(void **state)
{
    (void)state;
    roomy_view a, b;
    of(&a, TENON_F32, 1, DIMS(4), NULL);
    view_on(&b, TENON_CUDA_HOST, a.view.data, TENON_F32, 1, DIMS(4), NULL, 0);
    assert_true(equal(&a, &b)); /* the CPU reads both */
    view_on(&b, TENON_CUDA, a.view.data, TENON_F32, 1, DIMS(4), NULL, 0);
    assert_false(equal(&a, &b));
    tenon_dl_tensor source = source_of(memory, TENON_F32, 1, DIMS(4), NULL);
    source.device = tenon_device_of(TENON_CUDA, 1);
    OK(tenon_view_init(&a.view, &source, 0, a.dims, &err));
    view_on(&b, TENON_CUDA, memory, TENON_F32, 1, DIMS(4), NULL, 0);
    assert_false(equal(&a, &b));

    source.device = tenon_device_of(TENON_METAL, 0);
    source.byte_offset = 16;
    OK(tenon_view_init(&a.view, &source, 0, a.dims, &err));
    OK(tenon_view_init(&b.view, &source, 0, b.dims, &err));
    assert_true(equal(&a, &b));
    source.byte_offset = 32;
    OK(tenon_view_init(&b.view, &source, 0, b.dims, &err));
    assert_false(equal(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numel),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_every_ndim),
        cmocka_unit_test(test_scalars_need_no_arrays),
        cmocka_unit_test(test_the_first_48_bytes_are_a_dltensor),
        cmocka_unit_test(test_source_is_copied_and_may_be_the_room),
        cmocka_unit_test(test_flags_pass_through),
        cmocka_unit_test(test_byte_offset_is_added_to_addresses_only),
        cmocka_unit_test(test_strides_of_size_one),
        cmocka_unit_test(test_empty_views),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_extents),
        cmocka_unit_test(test_lanes_count_in_the_size),
        cmocka_unit_test(test_packed_sub_byte_values),
        cmocka_unit_test(test_padded_sub_byte_values),
        cmocka_unit_test(test_the_largest_views),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_equal_views),
        cmocka_unit_test(test_equal_views_ignore_strides_that_address_nothing),
        cmocka_unit_test(test_equal_views_are_in_the_same_memory),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
