/* The frozen library of version 1.0 of the ABI, opened and called as a host does. */
#define CHECK_KEEPS_BLOCKS /* the library stays open */
#include "driver.h"

static const tenon_module *module;

/* The last object that a function returned. */
static struct {
    void *object;
    void (*destroy)(void *object);
} made;

static int take_object(tenon_frame *base, int32_t index, void *object, void (*destroy)(void *))
{
    (void)base;
    (void)index;
    made.object = object;
    made.destroy = destroy;
    return 0;
}

static const tenon_client object_client = {.refuse = refuse,
                                           .describe = describe,
                                           .make_result = make_result,
                                           .open_result = make_result,
                                           .take_handle = take_object,
                                           .run = run,
                                           .keep_argument = keep_argument,
                                           .takes_memory = true};

static int open_module(void **state)
{
    (void)state;
    OK(tenon_library_open(TENON_TEST_ABI, &module, &err));
    assert_string_equal(module->version, "1.0");
    assert_int_equal(module->minor_needed, 0);
    return 0;
}

/* Call the function `name` with `args`, of which tensors and numbers are set. */
static int call_by_name(host_frame *f, const char *name, const tenon_value *args)
{
    static tenon_function entry;
    static tenon_call constant;
    tenon_signature *signature = NULL;
    for (int64_t i = 0; i < module->nfunctions; i++) {
        tenon_module_function(module, i, &entry);
        OK(tenon_signature_alloc(entry.signature, module, TENON_HOST_LAYOUT, &signature, &err));
        if (strcmp(signature->name, name) == 0 && signature->role != TENON_ROLE_CLASS)
            break;
        tenon_signature_release(signature);
        signature = NULL;
    }
    assert_non_null(signature);
    memset(f, 0xa5, sizeof *f);
    f->refusals = f->made = f->runs = 0;
    f->made_on = cpu();
    f->base.args = f->args;
    f->base.results = f->results;
    tenon_call_init(&constant, &host, &entry, NULL, signature);
    tenon_frame_begin(&f->base, &object_client, &constant, signature);
    for (int32_t i = 0; i < signature->nresults; i++)
        tenon_frame_begin_result(&f->base, i);
    for (int32_t i = 0; i < signature->nparams; i++) {
        if (args[i].kind == TENON_KIND_TENSOR)
            tenon_frame_set_view(&f->base, i, (tenon_view *)(uintptr_t)args[i].as.view);
        else
            f->args[i] = args[i];
    }
    if (tenon_frame_match(&f->base) || tenon_frame_make_results(&f->base, &object_client))
        return -1;
    return tenon_frame_run(&f->base, &object_client);
}

static tenon_value handle_value(void *object)
{
    return (tenon_value){.kind = TENON_KIND_HANDLE, .as.handle = {object, "Table"}};
}

static const tenon_value one = {.kind = TENON_KIND_FLOAT, .as.number = 1};

static void test_roles(void **state)
{
    (void)state;
    int counts[4] = {0};
    for (int64_t i = 0; i < module->nfunctions; i++) {
        tenon_function entry;
        tenon_signature *signature = NULL;
        tenon_module_function(module, i, &entry);
        OK(tenon_signature_alloc(entry.signature, module, TENON_HOST_LAYOUT, &signature, &err));
        counts[signature->role]++;
        assert_int_equal(entry.call == NULL, signature->role == TENON_ROLE_CLASS);
        tenon_signature_release(signature);
    }
    assert_int_equal(counts[TENON_ROLE_FUNCTION], 14);
    assert_int_equal(counts[TENON_ROLE_CLASS], 2);
    assert_int_equal(counts[TENON_ROLE_CONSTRUCTOR], 2);
    assert_int_equal(counts[TENON_ROLE_METHOD], 6);
}

static void test_an_object(void **state)
{
    (void)state;
    static float rows[] = {1, 2, 3, 4, 5, 6};
    float x[] = {10, 20};
    roomy_view room, of_x;
    host_frame f;
    nshares = 0;
    const tenon_view *view = view_of(&room, rows, TENON_F32, 2, DIMS(3, 2), NULL);
    assert_int_equal(call_by_name(&f, "Table", ARGS(tensor_value(view), one)), 0);
    end(&f);
    void *table = made.object;
    void (*destroy)(void *) = made.destroy;

    assert_int_equal(call_by_name(&f, "Table.row", ARGS(handle_value(table), INT(1))), 0);
    assert_ptr_equal(f.results[0].as.view->data, rows + 2); /* not a copy */
    assert_true(f.results[0].as.view->flags & TENON_READ_ONLY);
    assert_dims(f.results[0].as.view, 1, DIMS(2), DIMS(1));
    end(&f);

    assert_int_equal(call_by_name(&f, "Table.__getitem__", ARGS(handle_value(table), INT(3))), -1);
    assert_int_equal(f.refused.status, TENON_EBOUNDS);
    end(&f);

    assert_int_equal(call_by_name(&f, "Table.__len__", ARGS(handle_value(table))), 0);
    assert_int_equal(f.results[0].as.integer, 3);
    end(&f);

    const tenon_view *vector = view_of(&of_x, x, TENON_F32, 1, DIMS(2), NULL);
    assert_int_equal(
        call_by_name(&f, "Table.sums", ARGS(handle_value(table), tensor_value(vector), handle_value(table))), 0);
    assert_true(memory[0] == 28 && memory[1] == 44 && f.results[1].as.number == 72);
    assert_int_equal(f.base.signature->nserial, 2);
    end(&f);

    assert_int_equal(shares[0].releases, 0);
    destroy(table);
    assert_int_equal(shares[0].releases, 1);
}

static void test_memory(void **state)
{
    (void)state;
    float x[] = {1, 2, 3};
    roomy_view room;
    host_frame f;
    tenon_tensor *tensor = NULL;
    assert_int_equal(call_by_name(&f, "ramp", ARGS(INT(4))), 0);
    OK(tenon_frame_take_memory(&f.base, 0, NULL, NULL, &tensor, &err));
    end(&f);
    assert_true(((float *)tenon_tensor_view(tensor)->data)[3] == 3);
    tenon_tensor_release(tensor);

    const tenon_view *view = view_of(&room, x, TENON_F32, 1, DIMS(3), NULL);
    assert_int_equal(call_by_name(&f, "reversed", ARGS(tensor_value(view))), 0);
    assert_ptr_equal(f.results[0].as.view->data, x + 2);
    assert_dims(f.results[0].as.view, 1, DIMS(3), DIMS(-1));
    end(&f);

    assert_int_equal(call_by_name(&f, "bits_by_name", ARGS(tensor_value(view))), 0);
    assert_int_equal(f.results[0].as.integer, 32);
    end(&f);

    assert_int_equal(call_by_name(&f, "sum_to", ARGS(INT(5))), 0);
    assert_int_equal(f.results[0].as.integer, 10);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_roles, open_module), cmocka_unit_test_setup(test_an_object, open_module),
        cmocka_unit_test_setup(test_memory, open_module), cmocka_unit_test(test_nothing_is_alive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
