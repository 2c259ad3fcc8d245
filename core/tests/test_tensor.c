/* Who owns what: making tensors, counting, releasing. */
#include "support.h"

#include <tenon/host/room.h>

static void blob_releases_once(void **state)
{
    (void)state;
    owner o = {0};
    tenon_tensor *t = NULL;
    assert_ok(owner_tensor(&o, 0, &t, err));
    assert_ptr_equal(tenon_tensor_view(t)->data, o.data);
    assert_int_equal(tenon_tensor_refcount(t), 1);
    assert_ptr_equal(tenon_tensor_retain(t), t);
    assert_int_equal(tenon_tensor_refcount(t), 2);
    tenon_tensor_release(t);
    assert_int_equal(o.released, 0);
    assert_int_equal(tenon_stats_read().tensors, 1);
    tenon_tensor_release(t);
    assert_int_equal(o.released, 1);
    assert_int_equal(tenon_stats_read().tensors, 0);
}

static void blob_copies_shape(void **state)
{
    (void)state;
    float data[6] = {0};
    int64_t shape[] = {2, 3}, strides[] = {1, 2};
    tenon_blob blob = {.data = data, .dtype = TENON_F32, .ndim = 2, .shape = shape, .strides = strides};
    tenon_tensor *t = NULL;
    assert_ok(tenon_tensor_from_blob(&blob, &t, err));
    memset(shape, 0, sizeof shape);
    memset(strides, 0, sizeof strides);
    const tenon_view *view = tenon_tensor_view(t);
    assert_int_equal(view->shape[0], 2);
    assert_int_equal(view->shape[1], 3);
    assert_int_equal(view->strides[0], 1);
    assert_int_equal(view->strides[1], 2);
    assert_int_equal(view->device.device_type, TENON_CPU);
    tenon_tensor_release(t); /* no release function: nothing to call */
}

static void blob_without_elements(void **state)
{
    (void)state;
    owner o = {0};
    int64_t shape[] = {3, 0};
    tenon_blob blob = {
        .data = NULL, .dtype = TENON_F32, .ndim = 2, .shape = shape, .owner = &o, .release = owner_release};
    tenon_tensor *t = NULL;
    assert_ok(tenon_tensor_from_blob(&blob, &t, err));
    assert_null(tenon_tensor_view(t)->data);
    assert_int_equal(tenon_tensor_view(t)->numel, 0);
    tenon_tensor_release(t);
    assert_int_equal(o.released, 1); /* a NULL pointer still has an owner */

    /* An offset counts for an empty one too: what as_strided finds is where the first element would be. */
    tenon_tensor *one = NULL;
    int64_t size[] = {1}, stride[] = {1};
    blob.data = o.data;
    blob.byte_offset = 4;
    blob.data_size = 16;
    assert_ok(tenon_tensor_from_blob(&blob, &t, err));
    assert_ok(tenon_tensor_as_strided(t, 1, size, stride, 0, &one, err));
    assert_ptr_equal(tenon_tensor_view(one)->data, o.data + 1);
    tenon_tensor_release(one);
    tenon_tensor_release(t);
    blob.byte_offset = 17;
    assert_fails(TENON_EBOUNDS, "at byte 17 of data_size 16", tenon_tensor_from_blob(&blob, &t, err));
}

static void blob_within_its_block(void **state)
{
    (void)state;
    owner o = {0};
    int64_t shape[] = {4}, forwards[] = {2}, backwards[] = {-2};
    tenon_blob blob = {.data = o.data,
                       .data_size = 7 * sizeof(float),
                       .dtype = TENON_F32,
                       .ndim = 1,
                       .shape = shape,
                       .strides = forwards,
                       .owner = &o,
                       .release = owner_release};
    tenon_tensor *t = NULL;
    assert_ok(tenon_tensor_from_blob(&blob, &t, err));
    tenon_tensor_release(t);
    blob.data_size--;
    assert_fails(TENON_EBOUNDS, "data_size 27", tenon_tensor_from_blob(&blob, &t, err));
    blob.data_size++;
    blob.byte_offset = 1;
    assert_fails(TENON_EBOUNDS, "data_size 28", tenon_tensor_from_blob(&blob, &t, err));
    blob.strides = backwards;
    blob.byte_offset = 6 * sizeof(float);
    assert_ok(tenon_tensor_from_blob(&blob, &t, err));
    assert_ptr_equal(tenon_tensor_view(t)->data, o.data + 6);
    tenon_tensor_release(t);
    blob.byte_offset--;
    assert_fails(TENON_EBOUNDS, "bytes -24 to 4", tenon_tensor_from_blob(&blob, &t, err));
    blob.data_size = UINT64_MAX;
    assert_fails(TENON_EBOUNDS, "data_size 18446744073709551615 from 0x", tenon_tensor_from_blob(&blob, &t, err));
    assert_int_equal(o.released, 2); /* a failure took nothing */
}

static void blob_on_a_handle(void **state)
{
    (void)state;
    int handle;
    int64_t shape[] = {4};
    tenon_blob blob = {.data = &handle,
                       .byte_offset = 256,
                       .data_size = 256 + 16,
                       .dtype = TENON_F32,
                       .device = tenon_device_of(TENON_METAL, 1),
                       .ndim = 1,
                       .shape = shape};
    tenon_tensor *t = NULL;
    assert_ok(tenon_tensor_from_blob(&blob, &t, err));
    assert_ptr_equal(tenon_tensor_view(t)->data, &handle);
    assert_int_equal(tenon_tensor_view(t)->byte_offset, 256);
    tenon_tensor_release(t);
    blob.data_size--;
    assert_fails(TENON_EBOUNDS, "at byte 256 of data_size 271", tenon_tensor_from_blob(&blob, &t, err));
}

static void blob_refuses(void **state)
{
    (void)state;
    owner o = {0};
    int64_t shape[] = {2}, negative[] = {-2};
    tenon_blob good = {
        .data = o.data, .dtype = TENON_F32, .ndim = 1, .shape = shape, .owner = &o, .release = owner_release};
    tenon_tensor *const untouched = (tenon_tensor *)&o;
    tenon_tensor *t = untouched;
    tenon_blob blob = good;
    assert_fails(TENON_EINVAL, "'blob' is NULL", tenon_tensor_from_blob(NULL, &t, err));
    assert_fails(TENON_EINVAL, "'out' is NULL", tenon_tensor_from_blob(&blob, NULL, err));
    blob.data = NULL;
    assert_fails(TENON_EINVAL, "data is NULL, but f32[2] has elements", tenon_tensor_from_blob(&blob, &t, err));
    blob = good;
    blob.ndim = -1;
    assert_fails(TENON_ESHAPE, "got -1", tenon_tensor_from_blob(&blob, &t, err));
    blob.ndim = 65;
    assert_fails(TENON_ESHAPE, "got 65", tenon_tensor_from_blob(&blob, &t, err));
    blob = good;
    blob.shape = NULL;
    assert_fails(TENON_EINVAL, "shape is NULL", tenon_tensor_from_blob(&blob, &t, err));
    blob.shape = negative;
    assert_fails(TENON_ESHAPE, "dimension 0 is -2", tenon_tensor_from_blob(&blob, &t, err));
    blob = good;
    blob.dtype.code = 18;
    assert_fails(TENON_EDTYPE, "code 18", tenon_tensor_from_blob(&blob, &t, err));
    blob.dtype = tenon_dtype_of(TENON_CODE_FLOAT, 0, 1);
    assert_fails(TENON_EDTYPE, "0 bits", tenon_tensor_from_blob(&blob, &t, err));
    blob.dtype = tenon_dtype_of(TENON_CODE_FLOAT, 32, 0);
    assert_fails(TENON_EDTYPE, "0 lanes", tenon_tensor_from_blob(&blob, &t, err));
    blob = good;
    blob.device = tenon_device_of(5, 0);
    assert_fails(TENON_EDEVICE, "type 5", tenon_tensor_from_blob(&blob, &t, err));
    blob.device = tenon_device_of(0, 5);
    assert_fails(TENON_EDEVICE, "type 0 with id 5", tenon_tensor_from_blob(&blob, &t, err));
    blob.device = tenon_device_of(TENON_CUDA, -1);
    assert_fails(TENON_EDEVICE, "id -1", tenon_tensor_from_blob(&blob, &t, err));
    blob = good;
    blob.flags = 1 << 3;
    assert_fails(TENON_EINVAL, "flags", tenon_tensor_from_blob(&blob, &t, err));
    assert_ptr_equal(t, untouched);
    assert_int_equal(o.released, 0);
}

static void from_a_view(void **state)
{
    (void)state;
    owner o = {0};
    int64_t shape[] = {2, 3}, strides[] = {-3, 1}, dims[4], inside[] = {6}, one[] = {1};
    tenon_view view;
    tenon_dl_tensor source = {.data = o.data + 3,
                              .device = tenon_device_of(TENON_CPU, 0),
                              .ndim = 2,
                              .dtype = TENON_F32,
                              .shape = shape,
                              .strides = strides};
    tenon_tensor *t = NULL, *part = NULL;
    assert_ok(tenon_view_init(&view, &source, TENON_READ_ONLY, dims, err));
    view.flags |= TENON_VIEW_WRITTEN;
    assert_ok(tenon_tensor_from_view(&view, &o, owner_release, &t, err));
    memset(dims, 0, sizeof dims);
    const tenon_view *own = tenon_tensor_view(t);
    assert_ptr_equal(own->data, o.data + 3);
    assert_int_equal(own->shape[1], 3);
    assert_int_equal(own->strides[0], -3);
    assert_int_equal(own->flags, TENON_READ_ONLY);
    assert_int_equal(own->numel, 6);
    assert_ok(tenon_tensor_as_strided(t, 1, inside, one, -3, &part, err));
    tenon_tensor_release(part);
    assert_fails(TENON_EBOUNDS, "24 bytes", tenon_tensor_as_strided(t, 1, inside, one, -2, &part, err));
    tenon_tensor_release(t);
    assert_int_equal(o.released, 1);
    assert_fails(TENON_EINVAL, "'view' is NULL", tenon_tensor_from_view(NULL, &o, owner_release, &t, err));
    assert_fails(TENON_EINVAL, "'out' is NULL", tenon_tensor_from_view(&view, &o, owner_release, NULL, err));
    assert_int_equal(o.released, 1);
}

static void alloc_is_aligned(void **state)
{
    (void)state;
    for (int32_t ndim = 0; ndim <= TENON_MAX_NDIM; ndim++) {
        int64_t shape[TENON_MAX_NDIM];
        for (int32_t i = 0; i < ndim; i++)
            shape[i] = i < 3 ? 3 : 1;
        tenon_tensor *t = NULL;
        assert_ok(tenon_tensor_alloc(TENON_F64, ndim, shape, TENON_ZEROED, &t, err));
        const tenon_view *view = tenon_tensor_view(t);
        assert_int_equal((uintptr_t)view->data % 64, 0);
        assert_true(view->flags & TENON_VIEW_C);
        assert_int_equal(tenon_stats_read().bytes, tenon_view_nbytes(view));
        const double *data = view->data;
        for (int64_t i = 0; i < view->numel; i++)
            assert_true(data[i] == 0);
        memset(view->data, 0xff, (size_t)tenon_view_nbytes(view));
        tenon_tensor_release(t);
    }
}

static void alloc_refuses(void **state)
{
    (void)state;
    int64_t shape[] = {INT64_MAX / 4, 8};
    tenon_tensor *t = NULL;
    assert_fails(TENON_EINVAL, "'out' is NULL", tenon_tensor_alloc(TENON_F32, 0, NULL, 0, NULL, err));
    assert_fails(TENON_EINVAL, "TENON_ZEROED, got 0x2", tenon_tensor_alloc(TENON_F32, 0, NULL, 2, &t, err));
    assert_fails(TENON_EOVERFLOW, "64 bits", tenon_tensor_alloc(TENON_F32, 2, shape, 0, &t, err));
    assert_fails(TENON_ESHAPE, "got -1", tenon_tensor_alloc(TENON_F32, -1, shape, 0, &t, err));
    assert_fails(TENON_EDTYPE, "code 99", tenon_tensor_alloc(tenon_dtype_of(99, 32, 1), 2, shape, 0, &t, err));
    assert_null(t);
}

static void null_is_allowed(void **state)
{
    (void)state;
    tenon_tensor_release(NULL);
    assert_null(tenon_tensor_retain(NULL));
    assert_null(tenon_tensor_view(NULL));
    assert_int_equal(tenon_tensor_refcount(NULL), 0);
}

static void views_share_the_owner(void **state)
{
    (void)state;
    owner o = {0};
    tenon_tensor *t = NULL, *part = NULL, *line = NULL;
    assert_ok(owner_tensor(&o, TENON_READ_ONLY, &t, err));
    assert_ok(tenon_tensor_select(t, 0, 1, &part, err));
    assert_ok(tenon_tensor_slice(part, -1, 1, 3, 1, &line, err));
    assert_int_equal(tenon_tensor_refcount(t), 3); /* a view of a view counts on the owner, not on the view */
    assert_int_equal(tenon_tensor_refcount(part), 1);
    assert_true(tenon_tensor_view(line)->flags & TENON_READ_ONLY);
    tenon_tensor_release(t);
    tenon_tensor_release(part);
    assert_int_equal(o.released, 0);
    assert_ptr_equal(tenon_tensor_view(line)->data, o.data + 13);
    tenon_tensor_release(line);
    assert_int_equal(o.released, 1);
}

static void contiguous(void **state)
{
    (void)state;
    owner o = {0};
    for (int i = 0; i < 24; i++)
        o.data[i] = (float)i;
    tenon_tensor *t = NULL, *same = NULL, *turned = NULL, *copy = NULL;
    assert_ok(owner_tensor(&o, TENON_READ_ONLY, &t, err));
    assert_ok(tenon_tensor_contiguous(t, &same, err));
    assert_ptr_equal(same, t);
    assert_int_equal(tenon_tensor_refcount(t), 2);
    tenon_tensor_release(same);
    assert_ok(tenon_tensor_transpose(t, 0, 2, &turned, err));
    assert_ok(tenon_tensor_contiguous(turned, &copy, err));
    const tenon_view *view = tenon_tensor_view(copy);
    assert_ptr_not_equal(view->data, o.data);
    assert_int_equal(view->flags & 7, TENON_IS_COPIED);
    assert_true(view->flags & TENON_VIEW_C);
    const float *data = view->data;
    for (int i = 0; i < 24; i++)
        assert_true(data[i] == o.data[i % 2 * 12 + i / 2 % 3 * 4 + i / 6]);
    tenon_tensor_release(copy);
    tenon_tensor_release(turned);
    tenon_tensor_release(t);
    assert_int_equal(o.released, 1);
    assert_fails(TENON_EINVAL, "'tensor' is NULL", tenon_tensor_contiguous(NULL, &copy, err));
}

static void copied(void **state)
{
    (void)state;
    owner o = {0};
    o.data[5] = 7;
    tenon_tensor *t = NULL, *copy = NULL;
    assert_ok(owner_tensor(&o, TENON_READ_ONLY, &t, err));
    assert_ok(tenon_tensor_copy(t, &copy, err)); /* although it is contiguous */
    const tenon_view *view = tenon_tensor_view(copy);
    assert_ptr_not_equal(view->data, o.data);
    assert_memory_equal(view->data, o.data, sizeof o.data);
    assert_int_equal(view->flags & 7, TENON_IS_COPIED);
    tenon_tensor_release(copy);
    tenon_tensor_release(t);
    assert_int_equal(o.released, 1);
    assert_fails(TENON_EINVAL, "'tensor' is NULL", tenon_tensor_copy(NULL, &copy, err));
}

static void owner_is_told_to_its_own(void **state)
{
    (void)state;
    owner o = {0};
    tenon_tensor *t = NULL, *part = NULL;
    assert_ok(owner_tensor(&o, 0, &t, err));
    assert_ok(tenon_tensor_select(t, 0, 0, &part, err));
    assert_ptr_equal(tenon_tensor_owner(t, owner_release), &o);
    assert_null(tenon_tensor_owner(t, free));
    assert_null(tenon_tensor_owner(t, NULL));
    assert_null(tenon_tensor_owner(part, owner_release)); /* a view is not what the owner gave */
    assert_null(tenon_tensor_owner(NULL, owner_release));
    tenon_tensor_release(part);
    tenon_tensor_release(t);
}

static void views_know_their_root_and_its_stream(void **state)
{
    (void)state;
    int64_t shape[] = {2, 3};
    char stream;
    tenon_blob blob = {.data = (void *)4096,
                       .dtype = TENON_F32,
                       .device = tenon_device_of(TENON_CUDA, 0),
                       .ndim = 2,
                       .shape = shape,
                       .stream = &stream};
    tenon_tensor *t = NULL, *row = NULL, *part = NULL, *plain = NULL;
    assert_ok(tenon_tensor_from_blob(&blob, &t, err));
    assert_ok(tenon_tensor_select(t, 0, 1, &row, err));
    assert_ok(tenon_tensor_slice(row, 0, 1, TENON_OMIT, 1, &part, err));
    assert_ptr_equal(tenon_tensor_root(t), t);
    assert_ptr_equal(tenon_tensor_root(part), t);
    assert_ptr_equal(tenon_tensor_stream(t), &stream);
    assert_ptr_equal(tenon_tensor_stream(part), &stream);
    tenon_tensor_release(t);
    tenon_tensor_release(row);
    assert_ptr_equal(tenon_tensor_stream(part), &stream); /* the view alone holds the root */
    tenon_tensor_release(part);
    assert_ok(tenon_tensor_alloc(TENON_F32, 2, shape, 0, &plain, err));
    assert_null(tenon_tensor_stream(plain));
    tenon_tensor_release(plain);
    assert_null(tenon_tensor_root(NULL));
    assert_null(tenon_tensor_stream(NULL));
}

static void contiguous_elsewhere(void **state)
{
    (void)state;
    int64_t shape[] = {2, 3}, strides[] = {1, 2};
    tenon_blob blob = {.data = (void *)4096,
                       .dtype = TENON_F32,
                       .device = tenon_device_of(TENON_CUDA, 3),
                       .ndim = 2,
                       .shape = shape,
                       .strides = strides};
    tenon_tensor *t = NULL, *copy = NULL;
    assert_ok(tenon_tensor_from_blob(&blob, &t, err));
    assert_fails(TENON_EDEVICE, "on cuda:3", tenon_tensor_contiguous(t, &copy, err));
    assert_fails(TENON_EDEVICE, "on cuda:3", tenon_tensor_copy(t, &copy, err));
    assert_fails(TENON_EINVAL, "'out' is NULL", tenon_tensor_contiguous(t, NULL, err));
    assert_fails(TENON_EINVAL, "'out' is NULL", tenon_tensor_copy(t, NULL, err));
    assert_null(copy);
    tenon_tensor_release(t);
}

static void allocator_is_set_early(void **state)
{
    (void)state;
    tenon_allocator half = {counting_alloc, NULL, NULL};
    assert_fails(TENON_EINVAL, "'free' is NULL", tenon_set_allocator(&half, err));
    half = (tenon_allocator){NULL, counting_free, NULL};
    assert_fails(TENON_EINVAL, "'alloc' is NULL", tenon_set_allocator(&half, err));
    counting c;
    counting_use(&c);
    tenon_tensor *t = NULL;
    tenon_dl_managed *managed = NULL;
    assert_ok(tenon_tensor_alloc(TENON_U8, 0, NULL, 0, &t, err));
    assert_fails(TENON_EINVAL, "1 tensors and 0 exports are alive", tenon_set_allocator(NULL, err));
    assert_ok(tenon_tensor_export(t, &managed, err));
    tenon_tensor_release(t);
    assert_fails(TENON_EINVAL, "1 exports", tenon_set_allocator(NULL, err));
    managed->deleter(managed);
    counting_end(&c);
}

/* An owner whose memory has the tensor in it, and its view. */
typedef struct roomy {
    tenon_tensor_room room;
    tenon_view view;
    int64_t dims[10];
    float data[24];
    int *released;
} roomy;

static void roomy_release(void *pointer)
{
    roomy *o = pointer;
    (*o->released)++;
    memset(o, 0x5a, sizeof *o); /* nothing may be read after this */
    free(o);
}

static bool in_debug_mode(void)
{
    const char *value = getenv("TENON_DEBUG");
#ifdef TENON_DEBUG_BUILD
    return !value || strcmp(value, "0") != 0;
#else
    return value && *value && strcmp(value, "0") != 0;
#endif
}

static void placed_in_its_owner(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3, 4, 1, 1};
    for (int32_t ndim = 3; ndim <= 5; ndim++) {
        int released = 0;
        roomy *o = malloc(sizeof *o);
        assert_non_null(o);
        o->released = &released;
        tenon_dl_tensor source = {.data = o->data,
                                  .device = {TENON_CPU, 0},
                                  .ndim = ndim,
                                  .dtype = TENON_F32,
                                  .shape = (int64_t *)(uintptr_t)shape};
        tenon_tensor *t = NULL, *part = NULL;
        assert_ok(tenon_view_init(&o->view, &source, TENON_READ_ONLY, o->dims, err));
        assert_fails(TENON_EINVAL, "'view' is NULL", tenon_tensor_place(&o->room, NULL, o, roomy_release, &t, err));
        assert_fails(TENON_EINVAL, "'out' is NULL",
                     tenon_tensor_place(&o->room, &o->view, o, roomy_release, NULL, err));
        assert_ok(tenon_tensor_place(&o->room, &o->view, o, roomy_release, &t, err));
        assert_int_equal((void *)t == (void *)&o->room, !in_debug_mode());
        assert_int_equal(tenon_tensor_view(t)->ndim, ndim);
        assert_memory_equal(tenon_tensor_view(t)->shape, shape, (size_t)ndim * sizeof *shape);
        assert_int_equal(tenon_tensor_view(t)->strides[0], 12);
        assert_int_equal(tenon_tensor_view(t)->flags & TENON_READ_ONLY, TENON_READ_ONLY);
        assert_ptr_equal(tenon_tensor_owner(t, roomy_release), o);
        assert_ok(tenon_tensor_select(t, 0, 1, &part, err));
        tenon_dl_managed *managed = NULL;
        assert_ok(tenon_tensor_export(t, &managed, err));
        tenon_tensor_release(t);
        assert_int_equal(released, 0);
        assert_int_equal(tenon_tensor_view(part)->shape[0], 3);
        assert_memory_equal(managed->dl_tensor.shape, shape, (size_t)ndim * sizeof *shape);
        assert_int_equal(managed->dl_tensor.strides[0], 12);
        assert_int_equal(tenon_stats_read().tensors, 2);
        assert_ok(tenon_tensor_import(managed, &t, err));
        assert_int_equal((void *)t == (void *)&o->room, !in_debug_mode()); /* it is the same tensor again */
        tenon_tensor_release(t);
        tenon_tensor_release(part);
        assert_int_equal(released, 1);
        assert_int_equal(tenon_stats_read().tensors, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(blob_releases_once, nothing_alive),
        cmocka_unit_test_teardown(placed_in_its_owner, nothing_alive),
        cmocka_unit_test_teardown(blob_copies_shape, nothing_alive),
        cmocka_unit_test_teardown(blob_without_elements, nothing_alive),
        cmocka_unit_test_teardown(blob_within_its_block, nothing_alive),
        cmocka_unit_test_teardown(blob_on_a_handle, nothing_alive),
        cmocka_unit_test_teardown(blob_refuses, nothing_alive),
        cmocka_unit_test_teardown(from_a_view, nothing_alive),
        cmocka_unit_test_teardown(alloc_is_aligned, nothing_alive),
        cmocka_unit_test_teardown(alloc_refuses, nothing_alive),
        cmocka_unit_test_teardown(null_is_allowed, nothing_alive),
        cmocka_unit_test_teardown(views_share_the_owner, nothing_alive),
        cmocka_unit_test_teardown(contiguous, nothing_alive),
        cmocka_unit_test_teardown(copied, nothing_alive),
        cmocka_unit_test_teardown(owner_is_told_to_its_own, nothing_alive),
        cmocka_unit_test_teardown(views_know_their_root_and_its_stream, nothing_alive),
        cmocka_unit_test_teardown(contiguous_elsewhere, nothing_alive),
        cmocka_unit_test_teardown(allocator_is_set_early, nothing_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
