/* The accessors of function.h, with a host that is made for the test. */
#include "check.h"

/* What the functions of the host were last asked for. */
static struct {
    int fails;
    tenon_status status;
    char message[900];
    size_t length;
    int32_t index;
    int32_t ndim;
    tenon_dtype dtype;
    const void *pointer;
    size_t bytes, align;
    tenon_device device;
} asked;

static tenon_status host_fail(tenon_call *call, tenon_status status, const char *message, size_t length)
{
    call->flags |= TENON_CALL_FAILED;
    asked.fails++;
    asked.status = status;
    asked.length = length;
    memcpy(asked.message, message, length);
    asked.message[length] = '\0';
    return status ? status : TENON_EFAILED;
}

static const tenon_view *host_result_alloc(tenon_call *call, int32_t index, tenon_dtype dtype, int32_t ndim,
                                           const int64_t *shape)
{
    asked.index = index;
    asked.dtype = dtype;
    asked.ndim = ndim;
    asked.pointer = shape;
    return call->args[0].as.view;
}

static tenon_status host_result_handle(tenon_call *call, int32_t index, void *object, void (*destroy)(void *object))
{
    (void)call;
    asked.index = index;
    asked.pointer = object;
    destroy(object);
    return TENON_EREADONLY; /* whatever the host says is handed on */
}

static tenon_status host_result_str(tenon_call *call, int32_t index, const char *text, size_t length)
{
    (void)call;
    asked.index = index;
    asked.pointer = text;
    asked.length = length;
    return TENON_OK;
}

static void *host_scratch(tenon_call *call, size_t bytes, size_t align, tenon_device device)
{
    asked.bytes = bytes;
    asked.align = align;
    asked.device = device;
    return call;
}

static int32_t host_cancelled(tenon_call *call)
{
    return call->nargs == 1;
}

static const tenon_host bare = {.size = sizeof(tenon_host), .name = "bare", .fail = host_fail};
static const tenon_host full = {.size = sizeof(tenon_host),
                                .name = "full",
                                .fail = host_fail,
                                .result_alloc = host_result_alloc,
                                .result_handle = host_result_handle,
                                .result_str = host_result_str,
                                .scratch = host_scratch,
                                .cancelled = host_cancelled};

/* ------------------------------------------------------------------------------------------------- one of each kind */

static float elements[24];
static roomy_view read_room, written_room;
static const int64_t ints[] = {5, 6, 7};
static const double floats[] = {0.5};
static int object;
static const int64_t dims[] = {4, 9};
static tenon_dtype types[1];

enum { NONE, TENSOR, INTEGER, FLOAT, BOOL, STR, ENUM, INTS, FLOATS, TENSORS, HANDLE, COMPLEX, WRITTEN, UNKNOWN, NARGS };

static tenon_value args[NARGS + 1]; /* one more, which no accessor may reach */
static tenon_value results[NARGS];

static tenon_call call_of(const tenon_host *host)
{
    const tenon_view *read = view_of(&read_room, elements, TENON_F32, 2, DIMS(2, 3), NULL);
    view_of(&written_room, elements, TENON_F32, 2, DIMS(2, 3), NULL);
    written_room.view.flags |= TENON_VIEW_WRITTEN;
    types[0] = TENON_BF16;
    memset(args, 0, sizeof args);
    for (uint32_t kind = 0; kind <= COMPLEX; kind++)
        args[kind].kind = kind;
    args[TENSOR].as.view = read;
    args[INTEGER].as.integer = -3;
    args[FLOAT].as.number = 2.5;
    args[BOOL].as.integer = 1;
    args[STR].as.list.data = "text";
    args[STR].as.list.length = 4;
    args[ENUM].as.integer = 2;
    args[INTS].as.list.data = ints;
    args[INTS].as.list.length = 3;
    args[FLOATS].as.list.data = floats;
    args[FLOATS].as.list.length = 1;
    args[HANDLE].as.handle.object = &object;
    args[WRITTEN].kind = TENON_KIND_TENSOR;
    args[WRITTEN].as.view = &written_room.view;
    args[UNKNOWN].kind = 77;
    args[NARGS].kind = TENON_KIND_INT;
    memcpy(results, args, sizeof results);
    for (int i = 0; i < NARGS; i++)
        results[i].flags = TENON_VALUE_UNSET;
    memset(&asked, 0, sizeof asked);
    tenon_call call = {.size = sizeof call,
                       .host = host,
                       .args = args,
                       .results = results,
                       .nargs = NARGS,
                       .nresults = NARGS,
                       .dims = dims,
                       .types = types,
                       .ndims = 2,
                       .ntypes = 1,
                       .device = {TENON_CUDA, 3},
                       .stream = &object};
    return call;
}

/* The last accessor has failed the call, once, and said this. */
static void told(tenon_call *call, const char *message)
{
    assert_int_equal(asked.fails, 1);
    assert_int_equal(asked.status, TENON_EFAILED);
    assert_string_equal(asked.message, message);
    assert_true(call->flags & TENON_CALL_FAILED);
    asked.fails = 0;
    call->flags = 0;
}

static void test_arguments(void **state)
{
    (void)state;
    tenon_call call = call_of(&full);
    size_t bytes = 0;
    int64_t length = 0;
    assert_ptr_equal(tenon_arg(&call, TENSOR), &read_room.view);
    assert_ptr_equal(tenon_data(&call, TENSOR, float), elements);
    assert_ptr_equal(tenon_data(&call, WRITTEN, float), elements);
    assert_ptr_equal(tenon_rw_data(&call, WRITTEN, float), elements);
    assert_int_equal(tenon_arg_int(&call, INTEGER), -3);
    assert_true(tenon_arg_double(&call, FLOAT) == 2.5);
    assert_true(tenon_arg_bool(&call, BOOL));
    args[BOOL].as.integer = 0;
    assert_false(tenon_arg_bool(&call, BOOL));
    assert_int_equal(tenon_arg_enum(&call, ENUM), 2);
    assert_string_equal(tenon_arg_str(&call, STR, &bytes), "text");
    assert_int_equal(bytes, 4);
    assert_ptr_equal(tenon_arg_ints(&call, INTS, &length), ints);
    assert_int_equal(length, 3);
    assert_ptr_equal(tenon_arg_floats(&call, FLOATS, &length), floats);
    assert_int_equal(length, 1);
    assert_string_equal(tenon_arg_str(&call, STR, NULL), "text");
    assert_ptr_equal(tenon_arg_handle(&call, HANDLE), &object);
    assert_int_equal(tenon_dim(&call, 1), 9);
    assert_true(tenon_dtype_equal(tenon_type(&call, 0), TENON_BF16));
    assert_ptr_equal(tenon_stream(&call), &object);
    assert_int_equal(asked.fails, 0);
}

static void test_not_given(void **state)
{
    (void)state;
    tenon_call call = call_of(&full);
    size_t bytes = 9;
    assert_false(tenon_has_arg(&call, NONE));
    for (int i = 1; i < NARGS; i++)
        assert_true(tenon_has_arg(&call, i));
    assert_false(tenon_has_arg(&call, -1));
    assert_false(tenon_has_arg(&call, NARGS));
    assert_null(tenon_arg(&call, NONE));
    assert_null(tenon_data(&call, NONE, float));
    assert_null(tenon_rw_data(&call, NONE, float));
    assert_null(tenon_arg_str(&call, NONE, &bytes));
    assert_int_equal(bytes, 0);
    assert_null(tenon_arg_ints(&call, NONE, NULL));
    assert_null(tenon_arg_floats(&call, NONE, NULL));
    assert_null(tenon_arg_handle(&call, NONE));
    assert_int_equal(asked.fails, 0);
    /* A number has no value that says so. */
    assert_int_equal(tenon_arg_int(&call, NONE), 0);
    told(&call, "its code calls tenon_arg_int() for index 0, which is not given");
}

static void test_another_kind(void **state)
{
    (void)state;
    static const char *const kinds[] = {
        "not given", "a tensor",         "an int",         "a float",           "a bool",
        "a str",     "an enum",          "a list of ints", "a list of floats",  "a list of tensors",
        "a handle",  "a complex number", "a tensor",       "of an unknown kind"};
    for (int i = 0; i < NARGS; i++) {
        tenon_call call = call_of(&full);
        char message[128];
        size_t bytes = 9;
        int64_t length = 9;
#define REFUSED(own, name, got)                                                                                        \
    do {                                                                                                               \
        if (i != (own)) {                                                                                              \
            assert_true(!(got));                                                                                       \
            snprintf(message, sizeof message, "its code calls %s for index %d, which is %s", name, i, kinds[i]);       \
            told(&call, message);                                                                                      \
        }                                                                                                              \
    } while (0)
        REFUSED(INTEGER, "tenon_arg_int()", tenon_arg_int(&call, i));
        REFUSED(FLOAT, "tenon_arg_double()", tenon_arg_double(&call, i) != 0);
        REFUSED(BOOL, "tenon_arg_bool()", tenon_arg_bool(&call, i));
        REFUSED(ENUM, "tenon_arg_enum()", tenon_arg_enum(&call, i));
        if (i == NONE)
            continue; /* those below take it */
        REFUSED(STR, "tenon_arg_str()", tenon_arg_str(&call, i, &bytes) || bytes);
        REFUSED(INTS, "tenon_arg_ints()", tenon_arg_ints(&call, i, &length) || length);
        REFUSED(FLOATS, "tenon_arg_floats()", tenon_arg_floats(&call, i, &length) || length);
        REFUSED(HANDLE, "tenon_arg_handle()", tenon_arg_handle(&call, i));
        if (i == TENSOR || i == WRITTEN)
            continue;
        REFUSED(-1, "tenon_arg() or tenon_data()", tenon_arg(&call, i));
        REFUSED(-1, "tenon_arg() or tenon_data()", tenon_data(&call, i, float));
        REFUSED(-1, "tenon_arg() or tenon_data()", tenon_rw_data(&call, i, float));
#undef REFUSED
    }
}

static void test_no_such_index(void **state)
{
    (void)state;
    tenon_call call = call_of(&full);
    static const int wrong[] = {-1, NARGS, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < 4; i++) {
        char message[128];
        int index = wrong[i];
        snprintf(message, sizeof message,
                 "its code calls tenon_arg_int() for index %d, but there are only 14 arguments", index);
        assert_int_equal(tenon_arg_int(&call, index), 0);
        told(&call, message);
        assert_null(tenon_arg(&call, index));
        assert_null(tenon_data(&call, index, float));
        assert_null(tenon_rw_data(&call, index, float));
        assert_null(tenon_arg_str(&call, index, NULL));
        assert_null(tenon_arg_handle(&call, index));
        assert_true(tenon_arg_double(&call, index) == 0);
        assert_null(tenon_result(&call, index));
        assert_null(tenon_result_data(&call, index, float));
        assert_null(tenon_result_alloc(&call, index, 0, NULL));
        assert_int_equal(tenon_return_int(&call, index, 1), TENON_EFAILED);
        assert_int_equal(tenon_return_double(&call, index, 1), TENON_EFAILED);
        assert_int_equal(tenon_return_bool(&call, index, true), TENON_EFAILED);
        assert_int_equal(tenon_return_str(&call, index, "", 0), TENON_EFAILED);
        assert_int_equal(tenon_return_handle(&call, index, &object, NULL), TENON_EFAILED);
        assert_int_equal(asked.fails, 14);
        asked.fails = 0;
        call.flags = 0;
        snprintf(message, sizeof message, "its code calls tenon_dim() for index %d, but its signature has only 2 names",
                 index);
        assert_int_equal(tenon_dim(&call, index), 0);
        told(&call, message);
        snprintf(message, sizeof message,
                 "its code calls tenon_type() for index %d, but its signature has only 1 variable", index);
        assert_int_equal(tenon_type(&call, index).bits, 0);
        told(&call, message);
    }
}

static void test_elements_of_another_size(void **state)
{
    (void)state;
    tenon_call call = call_of(&full);
    assert_null(tenon_data(&call, TENSOR, double));
    told(&call, "its code calls tenon_data() for index 1 with a type of 8 bytes, and the elements have 32 bits");
    assert_null(tenon_rw_data(&call, WRITTEN, char));
    told(&call, "its code calls tenon_rw_data() for index 12 with a type of 1 bytes, and the elements have 32 bits");
    assert_null(tenon_result_data(&call, TENSOR, int16_t));
    told(&call, "its code calls tenon_result_data() for index 1 with a type of 2 bytes, and the elements have 32 bits");
    static const struct {
        uint8_t code, bits;
        uint16_t lanes;
        size_t size;
    } cases[] = {{TENON_CODE_UINT, 4, 1, 1},   {TENON_CODE_FLOAT, 32, 4, 16},   {TENON_CODE_COMPLEX, 128, 1, 16},
                 {TENON_CODE_UINT, 4, 2, 1},   {TENON_CODE_F6_E2M3FN, 6, 1, 1}, {TENON_CODE_BOOL, 8, 1, 1},
                 {TENON_CODE_BFLOAT, 16, 1, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        read_room.view.dtype = tenon_dtype_of(cases[i].code, cases[i].bits, cases[i].lanes);
        for (size_t size = 1; size <= 32; size *= 2) {
            bool fits = tenon__arg_data(&call, TENSOR, size) != NULL;
            assert_int_equal(fits, size == cases[i].size);
        }
    }
}

static void test_written_only_where_it_says_so(void **state)
{
    (void)state;
    tenon_call call = call_of(&full);
    assert_null(tenon_rw_data(&call, TENSOR, float));
    told(&call, "its code calls tenon_rw_data() for index 1, which is not 'rw' in its signature");
}

static void test_after_a_failure(void **state)
{
    (void)state;
    tenon_call call = call_of(&full);
    assert_int_equal(tenon_dim(&call, 0), 4);
    assert_int_equal(tenon_fail(&call, TENON_EINVAL, "n is %d, not %s", 3, "four"), TENON_EINVAL);
    assert_string_equal(asked.message, "n is 3, not four");
    assert_int_equal(asked.length, 16);
    assert_int_equal(tenon_dim(&call, 0), 0);
    assert_int_equal(tenon_dim(&call, 5), 0);
    assert_int_equal(asked.fails, 1); /* what fails after it is not told again */
    assert_int_equal(tenon_fail(&call, TENON_OK, "no"), TENON_EFAILED);
}

static void test_long_messages_are_cut(void **state)
{
    (void)state;
    tenon_call call = call_of(&full);
    (void)tenon_fail(&call, TENON_EINVAL, "%0799d", 1);
    assert_int_equal(asked.length, 799);
    (void)tenon_fail(&call, TENON_EINVAL, "%0900d", 1);
    assert_int_equal(asked.length, 799);
    assert_int_equal(strlen(asked.message), 799);
    (void)tenon_fail(&call, TENON_EINVAL, "%s", "");
    assert_int_equal(asked.length, 0);
}

/* --------------------------------------------------------------------------------------------------------- results */

static int destroyed;

static void destroy(void *pointer)
{
    assert_ptr_equal(pointer, &object);
    destroyed++;
}

static void test_results(void **state)
{
    (void)state;
    tenon_call call = call_of(&full);
    assert_ptr_equal(tenon_result(&call, TENSOR), &read_room.view);
    assert_ptr_equal(tenon_result_data(&call, TENSOR, float), elements); /* a result needs no flag */
    assert_int_equal(tenon_return_int(&call, INTEGER, INT64_MIN), TENON_OK);
    assert_int_equal(tenon_return_int(&call, ENUM, 1), TENON_OK);
    assert_int_equal(tenon_return_double(&call, FLOAT, -0.25), TENON_OK);
    assert_int_equal(tenon_return_bool(&call, BOOL, false), TENON_OK);
    assert_true(results[INTEGER].as.integer == INT64_MIN);
    assert_int_equal(results[ENUM].as.integer, 1);
    assert_true(results[FLOAT].as.number == -0.25);
    assert_int_equal(results[BOOL].as.integer, 0);
    static const int given[] = {INTEGER, ENUM, FLOAT, BOOL};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(results[given[i]].flags & TENON_VALUE_UNSET, 0);
    assert_int_equal(results[STR].flags, TENON_VALUE_UNSET);
    const char *text = "abc";
    tenon_return_str(&call, STR, text, 2);
    assert_int_equal(asked.index, STR);
    assert_ptr_equal(asked.pointer, text);
    assert_int_equal(asked.length, 2);
    assert_int_equal(tenon_return_handle(&call, HANDLE, &object, destroy), TENON_EREADONLY);
    assert_int_equal(asked.index, HANDLE);
    assert_int_equal(destroyed, 1);
    int64_t shape[] = {2, 2};
    assert_ptr_equal(tenon_result_alloc(&call, TENSOR, 2, shape), args[0].as.view);
    assert_int_equal(asked.index, TENSOR);
    assert_int_equal(asked.ndim, 2);
    assert_int_equal(asked.dtype.bits, 0);
    assert_ptr_equal(asked.pointer, shape);
    assert_int_equal(asked.fails, 0);
}

static void test_results_of_another_kind(void **state)
{
    (void)state;
    tenon_call call = call_of(&full);
    assert_int_equal(tenon_return_int(&call, FLOAT, 1), TENON_EFAILED);
    told(&call, "its code calls tenon_return_int() for index 3, which is a float");
    assert_int_equal(tenon_return_double(&call, INTEGER, 1), TENON_EFAILED);
    told(&call, "its code calls tenon_return_double() for index 2, which is an int");
    assert_int_equal(tenon_return_bool(&call, INTEGER, true), TENON_EFAILED);
    told(&call, "its code calls tenon_return_bool() for index 2, which is an int");
    assert_int_equal(tenon_return_str(&call, ENUM, "x", 1), TENON_EFAILED);
    told(&call, "its code calls tenon_return_str() for index 6, which is an enum");
    assert_int_equal(tenon_return_handle(&call, STR, &object, destroy), TENON_EFAILED);
    told(&call, "its code calls tenon_return_handle() for index 5, which is a str");
    assert_null(tenon_result(&call, INTEGER));
    told(&call, "its code calls tenon_result() or tenon_result_data() for index 2, which is an int");
    assert_null(tenon_result_alloc(&call, INTEGER, 0, NULL));
    told(&call, "its code calls tenon_result_alloc() for index 2, which is an int");
    assert_int_equal(results[INTEGER].as.integer, -3);
    assert_int_equal(results[INTEGER].flags, TENON_VALUE_UNSET);
    results[TENSOR].as.view = NULL;
    assert_null(tenon_result_data(&call, TENSOR, float));
    told(&call, "its code asks for result 1 before tenon_result_alloc()");
}

/* -------------------------------------------------------------------------------------------------------- services */

static void test_services(void **state)
{
    (void)state;
    tenon_call call = call_of(&full);
    assert_ptr_equal(tenon_scratch(&call, 100), &call);
    assert_int_equal(asked.bytes, 100);
    assert_int_equal(asked.align, 64);
    assert_int_equal(asked.device.device_id, 3);
    assert_false(tenon_cancelled(&call));
    call.nargs = 1;
    assert_true(tenon_cancelled(&call));
}

static void test_services_that_are_missing(void **state)
{
    (void)state;
    tenon_call call = call_of(&bare);
    assert_null(tenon_scratch(&call, 100));
    told(&call, "this host (bare) has no scratch memory");
    assert_false(tenon_cancelled(&call));
    assert_int_equal(asked.fails, 0);
}

/* -------------------------------------------------------------------------------------------------- strided access */

static void test_at(void **state)
{
    (void)state;
    roomy_view room;
    for (int i = 0; i < 24; i++)
        elements[i] = (float)i;
    const tenon_view *v = view_of(&room, elements, TENON_F32, 4, DIMS(2, 3, 2, 2), DIMS(1, 2, 12, 6));
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 2; k++)
                for (int64_t l = 0; l < 2; l++)
                    assert_true(tenon_at(v, const float, i, j, k, l) == (float)(i + 2 * j + 12 * k + 6 * l));
    v = view_of(&room, elements, TENON_F32, 3, DIMS(2, 3, 4), NULL);
    assert_true(tenon_at(v, const float, 1, 2, 3) == 23);
    v = view_of(&room, elements, TENON_F32, 2, DIMS(4, 6), NULL);
    assert_true(tenon_at(v, const float, 3, 1) == 19);
    v = view_of(&room, &elements[23], TENON_F32, 1, DIMS(24), DIMS(-1));
    tenon_at(v, float, 20) = 99;
    assert_true(elements[3] == 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_not_given),
        cmocka_unit_test(test_another_kind),
        cmocka_unit_test(test_no_such_index),
        cmocka_unit_test(test_elements_of_another_size),
        cmocka_unit_test(test_written_only_where_it_says_so),
        cmocka_unit_test(test_after_a_failure),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_results_of_another_kind),
        cmocka_unit_test(test_services),
        cmocka_unit_test(test_services_that_are_missing),
        cmocka_unit_test(test_at),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
