/* DLPack structs in and out: who deletes them, how often, and what may be read of them. */
#define _DEFAULT_SOURCE
#include "support.h"

#include <sys/mman.h>
#include <unistd.h>

static void import_deletes_once(void **state)
{
    (void)state;
    producer p;
    producer_init(&p);
    p.managed.flags = TENON_READ_ONLY;
    tenon_tensor *t = NULL, *line = NULL;
    assert_ok(tenon_tensor_import(&p.managed, &t, err));
    const tenon_view *view = tenon_tensor_view(t);
    assert_ptr_equal(view->data, p.data);
    assert_ptr_not_equal(view->shape, p.shape);
    assert_true(view->flags & TENON_READ_ONLY);
    assert_ok(tenon_tensor_select(t, 0, 1, &line, err));
    tenon_tensor_release(t);
    assert_int_equal(p.deleted, 0);
    tenon_tensor_release(line);
    assert_int_equal(p.deleted, 1);

    producer_init(&p);
    assert_ok(tenon_tensor_import_legacy(&p.legacy, &t, err));
    assert_int_equal(tenon_tensor_view(t)->flags & 7, 0);
    tenon_tensor_release(t);
    assert_int_equal(p.deleted, 1);
}

static void deleter_may_be_null(void **state)
{
    (void)state;
    producer p;
    producer_init(&p);
    p.managed.deleter = NULL;
    p.legacy.deleter = NULL;
    tenon_tensor *t = NULL;
    assert_ok(tenon_tensor_import(&p.managed, &t, err));
    tenon_tensor_release(t);
    assert_ok(tenon_tensor_import_legacy(&p.legacy, &t, err));
    tenon_tensor_release(t);
}

static void empty_still_has_a_deleter(void **state)
{
    (void)state;
    producer p;
    producer_init(&p);
    p.shape[1] = 0;
    p.managed.dl_tensor.data = NULL;
    tenon_tensor *t = NULL;
    assert_ok(tenon_tensor_import(&p.managed, &t, err));
    tenon_tensor_release(t);
    assert_int_equal(p.deleted, 1);
}

static void offset_is_added(void **state)
{
    (void)state;
    producer p;
    producer_init(&p);
    p.shape[0] = 1;
    p.managed.dl_tensor.byte_offset = 3 * sizeof(float);
    p.managed.dl_tensor.strides = NULL;
    tenon_dl_managed before = p.managed;
    tenon_tensor *t = NULL;
    assert_ok(tenon_tensor_import(&p.managed, &t, err));
    assert_ptr_equal(tenon_tensor_view(t)->data, p.data + 3);
    assert_int_equal(tenon_tensor_view(t)->byte_offset, 0);
    assert_int_equal(tenon_tensor_view(t)->strides[0], 3);
    assert_memory_equal(&before, &p.managed, sizeof before); /* the producer's struct is only read */
    tenon_tensor_release(t);
}

/* Every field wrong in turn: an error, nothing taken. */
static void import_refuses(void **state)
{
    (void)state;
    producer p;
    producer_init(&p);
    tenon_dl_managed good = p.managed;
    tenon_dl_tensor *dl = &p.managed.dl_tensor;
    tenon_tensor *t = NULL;
    assert_fails(TENON_EINVAL, "'managed' is NULL", tenon_tensor_import(NULL, &t, err));
    assert_fails(TENON_EINVAL, "'out' is NULL", tenon_tensor_import(&p.managed, NULL, err));
    assert_fails(TENON_EINVAL, "'managed' is NULL", tenon_tensor_import_legacy(NULL, &t, err));
    assert_fails(TENON_EINVAL, "'out' is NULL", tenon_tensor_import_legacy(&p.legacy, NULL, err));
    dl->data = NULL;
    assert_fails(TENON_EINVAL, "data is NULL", tenon_tensor_import(&p.managed, &t, err));
    p.managed = good;
    dl->ndim = -1;
    assert_fails(TENON_ESHAPE, "ndim", tenon_tensor_import(&p.managed, &t, err));
    dl->ndim = 65;
    assert_fails(TENON_ESHAPE, "ndim", tenon_tensor_import(&p.managed, &t, err));
    p.managed = good;
    dl->shape = NULL;
    assert_fails(TENON_EINVAL, "shape is NULL", tenon_tensor_import(&p.managed, &t, err));
    p.managed = good;
    dl->dtype.bits = 33;
    assert_fails(TENON_EDTYPE, "33 bits", tenon_tensor_import(&p.managed, &t, err));
    p.managed = good;
    dl->device.device_type = -1;
    assert_fails(TENON_EDEVICE, "type -1", tenon_tensor_import(&p.managed, &t, err));
    p.managed = good;
    p.managed.flags = 8;
    assert_fails(TENON_EINVAL, "0x8", tenon_tensor_import(&p.managed, &t, err));
    p.managed = good;
    dl->byte_offset = UINT64_MAX;
    assert_fails(TENON_EBOUNDS, "outside", tenon_tensor_import(&p.managed, &t, err));
    p.managed = good;
    p.strides[0] = INT64_MAX / 2;
    assert_fails(TENON_EOVERFLOW, "strides", tenon_tensor_import(&p.managed, &t, err));
    p.strides[0] = INT64_MIN / 8;
    assert_fails(TENON_EBOUNDS, "outside", tenon_tensor_import(&p.managed, &t, err));
    p.strides[0] = 3;
    p.shape[0] = INT64_MAX;
    assert_fails(TENON_EOVERFLOW, "64 bits", tenon_tensor_import(&p.managed, &t, err));
    p.shape[0] = -5;
    assert_fails(TENON_ESHAPE, "negative", tenon_tensor_import(&p.managed, &t, err));
    assert_null(t);
    assert_int_equal(p.deleted, 0);
}

/* A struct of another major may end behind its deleter: here an unreadable page follows. */
static void unknown_major_reads_no_further(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
    tenon_dl_managed *managed = (tenon_dl_managed *)(void *)(memory + page - offsetof(tenon_dl_managed, flags));
    managed->version = (tenon_dl_version){2, 7};
    managed->deleter = NULL;
    tenon_tensor *t = NULL;
    assert_fails(TENON_EVERSION, "expected DLPack 1, got 2.7", tenon_tensor_import(managed, &t, err));
    managed->version.major = 0;
    assert_fails(TENON_EVERSION, "got 0.7", tenon_tensor_import(managed, &t, err));
    munmap(memory, 2 * page);
}

static void newer_minor_is_read(void **state)
{
    (void)state;
    producer p;
    producer_init(&p);
    p.managed.version.minor = 99;
    tenon_tensor *t = NULL;
    assert_ok(tenon_tensor_import(&p.managed, &t, err));
    tenon_tensor_release(t);
    assert_int_equal(p.deleted, 1);
}

static void export_holds_a_count(void **state)
{
    (void)state;
    owner o = {0};
    tenon_tensor *t = NULL;
    tenon_dl_managed *managed = NULL;
    assert_ok(owner_tensor(&o, TENON_READ_ONLY, &t, err));
    assert_ok(tenon_tensor_export(t, &managed, err));
    assert_int_equal(tenon_tensor_refcount(t), 2);
    assert_int_equal(tenon_stats_read().exports, 1);
    tenon_tensor_release(t);
    assert_int_equal(o.released, 0);
    assert_int_equal(managed->version.major, 1);
    assert_int_equal(managed->version.minor, 0);
    assert_int_equal(managed->flags, TENON_READ_ONLY);
    assert_ptr_equal(managed->dl_tensor.data, o.data);
    assert_int_equal(managed->dl_tensor.ndim, 3);
    assert_int_equal(managed->dl_tensor.shape[2], 4);
    assert_int_equal(managed->dl_tensor.strides[0], 12);
    assert_int_equal(managed->dl_tensor.byte_offset, 0);
    managed->deleter(managed);
    assert_int_equal(o.released, 1);
}

static void export_legacy(void **state)
{
    (void)state;
    owner o = {0};
    tenon_tensor *t = NULL;
    tenon_dl_managed_legacy *managed = NULL;
    assert_ok(owner_tensor(&o, 0, &t, err));
    assert_ok(tenon_tensor_export_legacy(t, &managed, err));
    tenon_tensor_release(t);
    assert_ptr_equal(managed->dl_tensor.data, o.data);
    assert_non_null(managed->dl_tensor.strides);
    managed->deleter(managed);
    assert_int_equal(o.released, 1);
}

static void export_refuses(void **state)
{
    (void)state;
    owner o = {0};
    tenon_tensor *t = NULL;
    tenon_dl_managed *managed = NULL;
    tenon_dl_managed_legacy *legacy = NULL;
    assert_ok(owner_tensor(&o, TENON_READ_ONLY, &t, err));
    assert_fails(TENON_EINVAL, "'tensor' is NULL", tenon_tensor_export(NULL, &managed, err));
    assert_fails(TENON_EINVAL, "'out' is NULL", tenon_tensor_export(t, NULL, err));
    assert_fails(TENON_EINVAL, "'tensor' is NULL", tenon_tensor_export_legacy(NULL, &legacy, err));
    assert_fails(TENON_EREADONLY, "use tenon_tensor_export", tenon_tensor_export_legacy(t, &legacy, err));
    tenon_tensor_release(t);
    assert_ok(owner_tensor(&o, 0, &t, err));
    assert_fails(TENON_EINVAL, "'out' is NULL", tenon_tensor_export_legacy(t, NULL, err));
    assert_int_equal(tenon_tensor_refcount(t), 1);
    tenon_tensor_release(t);
    int64_t shape[] = {4};
    tenon_blob blob = {.data = o.data,
                       .dtype = tenon_dtype_of(TENON_CODE_F4_E2M1FN, 4, 1),
                       .ndim = 1,
                       .shape = shape,
                       .flags = TENON_SUBBYTE_PADDED};
    assert_ok(tenon_tensor_from_blob(&blob, &t, err));
    assert_fails(TENON_EDTYPE, "padded", tenon_tensor_export_legacy(t, &legacy, err));
    tenon_tensor_release(t);
    assert_null(legacy);
}

/* The version promises no more than what is inside. */
static void export_names_the_oldest_minor(void **state)
{
    (void)state;
    char byte[8] = {0};
    const struct {
        tenon_dtype dtype;
        int device;
        uint64_t flags;
        uint32_t minor;
    } cases[] = {
        {TENON_F32, TENON_CPU, 0, 0},
        {TENON_BOOL, TENON_MAIA, TENON_READ_ONLY, 0},
        {tenon_dtype_of(TENON_CODE_F8_E4M3FN, 8, 1), TENON_CUDA, 0, 1},
        {tenon_dtype_of(TENON_CODE_INT, 4, 1), TENON_CPU, TENON_SUBBYTE_PADDED, 1},
        {TENON_F32, TENON_TRAINIUM, 0, 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tenon_blob blob = {.data = byte,
                           .dtype = cases[i].dtype,
                           .device = tenon_device_of(cases[i].device, 0),
                           .flags = cases[i].flags};
        tenon_tensor *t = NULL;
        tenon_dl_managed *managed = NULL;
        assert_ok(tenon_tensor_from_blob(&blob, &t, err));
        assert_ok(tenon_tensor_export(t, &managed, err));
        assert_int_equal(managed->version.minor, cases[i].minor);
        tenon_tensor_release(t);
        managed->deleter(managed);
    }
}

/* However often a tensor goes out and in, there is one wrapper at most between it and its producer. */
static void round_trips_do_not_stack(void **state)
{
    (void)state;
    producer p;
    producer_init(&p);
    tenon_tensor *t = NULL, *back = NULL;
    tenon_dl_managed *managed = NULL;
    tenon_dl_managed_legacy *legacy = NULL;
    assert_ok(tenon_tensor_import(&p.managed, &t, err));
    for (int i = 0; i < 100; i++) {
        assert_ok(tenon_tensor_export(t, &managed, err));
        tenon_tensor_release(t);
        assert_ok(tenon_tensor_import(managed, &back, err));
        assert_ptr_equal(back, t);
        assert_ok(tenon_tensor_export_legacy(t, &legacy, err));
        tenon_tensor_release(t);
        assert_ok(tenon_tensor_import_legacy(legacy, &back, err));
        assert_ptr_equal(back, t);
        assert_int_equal(tenon_tensor_refcount(t), 1);
        assert_int_equal(tenon_stats_read().tensors, 1);
        assert_int_equal(tenon_stats_read().exports, 0);
    }
    tenon_tensor_release(t);
    assert_int_equal(p.deleted, 1);
}

/* Consumers have been seen to write into what they were given: the tensor does not notice. */
static void a_consumer_may_scribble(void **state)
{
    (void)state;
    owner o = {0};
    tenon_tensor *t = NULL, *part = NULL, *back = NULL;
    tenon_dl_managed *managed = NULL;
    assert_ok(owner_tensor(&o, 0, &t, err));
    assert_ok(tenon_tensor_export(t, &managed, err));
    managed->dl_tensor.shape[0] = 1;
    managed->dl_tensor.strides[2] = 0;
    assert_int_equal(tenon_tensor_view(t)->shape[0], 2);
    assert_int_equal(tenon_tensor_view(t)->strides[2], 1);
    assert_ok(tenon_tensor_slice(t, 0, 0, 3000, 1, &part, err));
    assert_int_equal(tenon_tensor_view(part)->shape[0], 2);
    assert_ok(tenon_tensor_import(managed, &back, err)); /* and the struct means what it says now */
    assert_ptr_not_equal(back, t);
    assert_int_equal(tenon_tensor_view(back)->shape[0], 1);
    tenon_tensor_release(part);
    tenon_tensor_release(t);
    assert_int_equal(o.released, 0);
    tenon_tensor_release(back);
    assert_int_equal(o.released, 1);
}

/* A struct of ours that somebody has changed on its way means what it says now. */
static void a_changed_export_is_wrapped(void **state)
{
    (void)state;
    owner o = {0};
    tenon_tensor *t = NULL, *back = NULL;
    tenon_dl_managed *managed = NULL;
    assert_ok(owner_tensor(&o, 0, &t, err));
    assert_ok(tenon_tensor_export(t, &managed, err));
    managed->flags |= TENON_READ_ONLY;
    assert_ok(tenon_tensor_import(managed, &back, err));
    assert_ptr_not_equal(back, t);
    assert_true(tenon_tensor_view(back)->flags & TENON_READ_ONLY);
    tenon_tensor_release(t);
    assert_int_equal(o.released, 0);
    tenon_tensor_release(back);
    assert_int_equal(o.released, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(import_deletes_once, nothing_alive),
        cmocka_unit_test_teardown(deleter_may_be_null, nothing_alive),
        cmocka_unit_test_teardown(empty_still_has_a_deleter, nothing_alive),
        cmocka_unit_test_teardown(offset_is_added, nothing_alive),
        cmocka_unit_test_teardown(import_refuses, nothing_alive),
        cmocka_unit_test_teardown(unknown_major_reads_no_further, nothing_alive),
        cmocka_unit_test_teardown(newer_minor_is_read, nothing_alive),
        cmocka_unit_test_teardown(export_holds_a_count, nothing_alive),
        cmocka_unit_test_teardown(export_legacy, nothing_alive),
        cmocka_unit_test_teardown(export_refuses, nothing_alive),
        cmocka_unit_test_teardown(export_names_the_oldest_minor, nothing_alive),
        cmocka_unit_test_teardown(round_trips_do_not_stack, nothing_alive),
        cmocka_unit_test_teardown(a_consumer_may_scribble, nothing_alive),
        cmocka_unit_test_teardown(a_changed_export_is_wrapped, nothing_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
