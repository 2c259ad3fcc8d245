/* Functions that break their own signatures. The host must fail the call without reading a wild pointer. */
#include <tenon/function.h>

#include <stdlib.h>
#include <string.h>

/* The number of times that a function here got a value that it must not get. */
static int64_t surprises;

/* Wrong calls of the accessors, by number. Each fails the call and returns nothing. */
static tenon_status ask(tenon_call *call)
{
    size_t bytes = 7;
    int64_t length = 7;
    const void *got = NULL;
    int64_t number = 0;
    switch (tenon_arg_int(call, 0)) {
    case 0:
        got = tenon_data(call, 99, float);
        break;
    case 1:
        got = tenon_data(call, -1, float);
        break;
    case 2: /* an int */
        got = tenon_data(call, 0, float);
        break;
    case 3: /* of f32 */
        got = tenon_data(call, 1, double);
        break;
    case 4: /* only read */
        got = tenon_rw_data(call, 1, float);
        break;
    case 5:
        got = tenon_result_data(call, 5, float);
        break;
    case 6:
        got = tenon_result_data(call, 0, double);
        break;
    case 7: /* a tensor */
        number = tenon_arg_int(call, 1);
        break;
    case 8:
        number = (int64_t)tenon_arg_double(call, 0);
        break;
    case 9:
        number = tenon_arg_bool(call, 0);
        break;
    case 10:
        number = tenon_arg_enum(call, 0);
        break;
    case 11:
        got = tenon_arg_str(call, 0, &bytes);
        number = (int64_t)bytes;
        break;
    case 12:
        got = tenon_arg_ints(call, 1, &length);
        number = length;
        break;
    case 13:
        got = tenon_arg_floats(call, -5, &length);
        number = length;
        break;
    case 14:
        got = tenon_arg_handle(call, 0);
        break;
    case 15:
        number = tenon_dim(call, 3);
        break;
    case 16:
        number = tenon_type(call, 0).bits;
        break;
    case 17:
        tenon_return_int(call, 0, 3);
        break;
    case 18:
        tenon_return_str(call, 9, "x", 1);
        break;
    case 19:
        number = tenon_return_handle(call, 0, &number, NULL) == TENON_OK;
        break;
    case 20:
        got = tenon_result_alloc(call, 0, 1, &length);
        break;
    case 21:
        got = tenon_result_alloc(call, -3, 1, &length);
        break;
    default:
        return TENON_OK;
    }
    /* After an error, loops must end at once. */
    if (got || number || (call->flags & TENON_CALL_FAILED && tenon_dim(call, 0) != 0))
        surprises++;
    return TENON_OK;
}

/* The host's slots, without the accessors' checks. */
static tenon_status slots(tenon_call *call)
{
    int64_t shape[2] = {3, 3}, negative = -1;
    tenon_dtype none = tenon_dtype_of(0, 0, 0);
    const void *got = NULL;
    switch (tenon_arg_int(call, 0)) {
    case 0:
        got = call->host->result_alloc(call, 9, none, 1, shape);
        break;
    case 1: /* the int */
        got = call->host->result_alloc(call, 1, none, 1, shape);
        break;
    case 2:
        got = call->host->result_alloc(call, 0, none, 2, shape);
        break;
    case 3:
        got = call->host->result_alloc(call, 0, none, 1, &negative);
        break;
    case 4:
        got = call->host->result_alloc(call, 0, none, 1, NULL);
        break;
    case 5:
        got = call->host->result_alloc(call, 0, none, -1, shape);
        break;
    case 6:
        got = call->host->result_alloc(call, 0, none, INT32_MAX, shape);
        break;
    case 7:
        got = call->host->result_alloc(call, 0, TENON_F64, 1, shape);
        break;
    case 8:
        (void)call->host->result_alloc(call, 0, none, 1, shape);
        got = call->host->result_alloc(call, 0, none, 1, shape);
        break;
    case 9:
        got = call->host->scratch(call, SIZE_MAX, 64, call->device);
        break;
    case 10:
        got = call->host->scratch(call, 64, 3, call->device);
        break;
    case 11:
        got = call->host->scratch(call, 64, (size_t)1 << 40, call->device);
        break;
    case 12:
        got = call->host->scratch(call, 64, 64, tenon_device_of(TENON_CUDA, 0));
        break;
    case 13:
        (void)call->host->result_str(call, 0, "x", 1);
        break;
    case 14:
        (void)call->host->result_str(call, 2, NULL, 5);
        break;
    case 15:
        (void)call->host->result_str(call, 2, "x", SIZE_MAX);
        break;
    case 16:
        (void)call->host->result_handle(call, 1, shape, NULL);
        break;
    case 17:
        (void)call->host->result_handle(call, 77, shape, NULL);
        break;
    case 18: { /* 2**62 elements */
        int64_t huge = (int64_t)1 << 62;
        got = call->host->result_alloc(call, 0, none, 1, &huge);
        break;
    }
    default:
        got = call->host->result_alloc(call, 0, none, 1, shape);
        memset(((const tenon_view *)got)->data, 0, 3 * sizeof(float));
        tenon_return_int(call, 1, 1);
        tenon_return_str(call, 2, "", 0);
        return TENON_OK;
    }
    if (got)
        surprises++;
    return TENON_OK;
}

static tenon_status status(tenon_call *call)
{
    return (tenon_status)tenon_arg_int(call, 0);
}

static tenon_status ok_after_fail(tenon_call *call)
{
    (void)tenon_fail(call, TENON_EINVAL, "the first message stays");
    (void)tenon_fail(call, TENON_ENOMEM, "and not the second");
    return TENON_OK;
}

static tenon_status fail_with_ok(tenon_call *call)
{
    if (tenon_fail(call, TENON_OK, "it says that it failed") != TENON_EFAILED)
        surprises++;
    return TENON_OK;
}

static tenon_status fail_without_text(tenon_call *call)
{
    return call->host->fail(call, TENON_EINVAL, NULL, 5);
}

static tenon_status fail_at_length(tenon_call *call)
{
    char text[5000];
    memset(text, 'x', sizeof text);
    return call->host->fail(call, TENON_EINVAL, text, sizeof text);
}

static tenon_status fail_in_no_utf8(tenon_call *call)
{
    return tenon_fail(call, TENON_EINVAL, "before \xff\xfe after");
}

static tenon_status silent(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

static tenon_status choice(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_arg_int(call, 0));
    return TENON_OK;
}

static tenon_status no_utf8(tenon_call *call)
{
    tenon_return_str(call, 0, "\xff\xfe", 2);
    return TENON_OK;
}

static int64_t destroyed;

static void destroy(void *object)
{
    destroyed++;
    free(object);
}

/* Two handles for one result: the second stays with the function. */
static tenon_status two_handles(tenon_call *call)
{
    void *first = malloc(1), *second = malloc(1);
    tenon_status one = tenon_return_handle(call, 0, first, destroy);
    tenon_status two = tenon_return_handle(call, 0, second, destroy);
    free(second);
    if (one != TENON_OK || two == TENON_OK)
        surprises++;
    return TENON_OK;
}

static tenon_status null_handle(tenon_call *call)
{
    if (tenon_return_handle(call, 0, NULL, destroy) == TENON_OK)
        surprises++;
    return TENON_OK;
}

static tenon_status handle_then_fail(tenon_call *call)
{
    (void)tenon_return_handle(call, 0, malloc(1), destroy);
    return TENON_EINVAL;
}

/* A handle that does not need to be destroyed. */
static tenon_status static_handle(tenon_call *call)
{
    static int object;
    return tenon_return_handle(call, 0, &object, NULL);
}

static tenon_status number_destroyed(tenon_call *call)
{
    tenon_return_int(call, 0, destroyed);
    return TENON_OK;
}

static tenon_status made_then_fail(tenon_call *call)
{
    int64_t n = 1000;
    (void)tenon_result_alloc(call, 1, 1, &n);
    return tenon_fail(call, TENON_EBOUNDS, "after its results were made");
}

static tenon_status shape_fails(tenon_call *call)
{
    return tenon_fail(call, TENON_EINVAL, "no shape");
}

static tenon_status never(tenon_call *call)
{
    (void)call;
    surprises++;
    return TENON_OK;
}

static tenon_status number_of_surprises(tenon_call *call)
{
    tenon_return_int(call, 0, surprises);
    return TENON_OK;
}

TENON_MODULE(lies, "Nothing here is as it says.",
             TENON_FUNCTION("ask(what: int, x: f32[n], o: f32[n]? = None) -> f32[n]", ask, NULL),
             TENON_FUNCTION("slots(what: int) -> f32[?], int, str", slots, NULL),
             TENON_FUNCTION("status(number: int)", status, NULL),
             TENON_FUNCTION("ok_after_fail()", ok_after_fail, NULL),
             TENON_FUNCTION("fail_with_ok()", fail_with_ok, NULL),
             TENON_FUNCTION("fail_without_text()", fail_without_text, NULL),
             TENON_FUNCTION("fail_at_length()", fail_at_length, NULL),
             TENON_FUNCTION("fail_in_no_utf8()", fail_in_no_utf8, NULL),
             TENON_FUNCTION("no_int() -> int", silent, NULL), TENON_FUNCTION("no_float() -> float", silent, NULL),
             TENON_FUNCTION("no_bool() -> bool", silent, NULL), TENON_FUNCTION("no_str() -> str", silent, NULL),
             TENON_FUNCTION("no_enum() -> 'a'|'b'", silent, NULL),
             TENON_FUNCTION("no_handle() -> handle('H')", silent, NULL),
             TENON_FUNCTION("no_open(n: int) -> f32[?, n]", silent, NULL),
             TENON_FUNCTION("no_second() -> int?, int", silent, NULL),
             TENON_FUNCTION("choice(index: int) -> 'a'|'b'", choice, NULL),
             TENON_FUNCTION("no_utf8() -> str", no_utf8, NULL),
             TENON_FUNCTION("two_handles() -> handle('H')", two_handles, NULL),
             TENON_FUNCTION("null_handle() -> handle('H')", null_handle, NULL),
             TENON_FUNCTION("handle_then_fail() -> handle('H')", handle_then_fail, NULL),
             TENON_FUNCTION("static_handle() -> handle('H')", static_handle, NULL),
             TENON_FUNCTION("number_destroyed() -> int", number_destroyed, NULL),
             TENON_FUNCTION("made_then_fail(x: f32[n]) -> f32[n], i64[?]", made_then_fail, NULL),
             TENON_FUNCTION("number_of_surprises() -> int", number_of_surprises, NULL),
             TENON_FUNCTION_SHAPED("shape_fails(x: f32[n]) -> f32[?]", never, shape_fails, NULL, 0),
             TENON_FUNCTION_SHAPED("shape_silent(x: f32[n]) -> f32[?]", silent, silent, NULL, 0))
