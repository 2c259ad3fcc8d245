/* A function that fits every signature. It writes its arguments as JSON to the memory that its entry's `data` points
 * to, and sets every result. The module of this library is at the address in TENON_TEST_MODULE: tests make it by
 * hand. */
#include <tenon/function.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* As in echo.py. */
typedef struct echo_data {
    int32_t open_ndim; /* of the results that the signature leaves open */
    int32_t length;    /* the length of the JSON; 0 if the function was not called */
    int64_t open_shape[8];
    char text[16384];
} echo_data;

static void add(echo_data *out, const char *format, ...)
{
    size_t room = sizeof out->text - (size_t)out->length;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out->text + out->length, room, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)length < room)
        out->length += length;
}

static void add_numbers(echo_data *out, const char *name, const int64_t *numbers, int64_t count)
{
    add(out, "\"%s\": [", name);
    for (int64_t i = 0; i < count; i++)
        add(out, "%s%" PRId64, i ? ", " : "", numbers[i]);
    add(out, "]");
}

static void add_view(echo_data *out, const tenon_view *view)
{
    add(out, "{\"data\": %" PRIuPTR ", \"dtype\": [%d, %d, %d], \"flags\": %" PRIu64 ", ", (uintptr_t)view->data,
        view->dtype.code, view->dtype.bits, view->dtype.lanes, view->flags);
    add_numbers(out, "shape", view->shape, view->ndim);
    add(out, ", ");
    add_numbers(out, "strides", view->strides, view->ndim);
    add(out, "}");
}

static void add_value(echo_data *out, const tenon_value *value)
{
    const double *floats = value->as.list.data;
    const unsigned char *bytes = value->as.list.data;
    add(out, "{\"kind\": %" PRIu32 ", \"flags\": %" PRIu32 ", \"value\": ", value->kind, value->flags);
    switch (value->kind) {
    case TENON_KIND_TENSOR:
        add_view(out, value->as.view);
        break;
    case TENON_KIND_INT:
    case TENON_KIND_BOOL:
    case TENON_KIND_ENUM:
        add(out, "%" PRId64, value->as.integer);
        break;
    case TENON_KIND_FLOAT:
        add(out, "\"%a\"", value->as.number);
        break;
    case TENON_KIND_STR:
        add(out, "\"");
        for (int64_t i = 0; i <= value->as.list.length; i++) /* the 0 at its end too */
            add(out, "%02x", bytes[i]);
        add(out, "\"");
        break;
    case TENON_KIND_INTS:
        add(out, "{");
        add_numbers(out, "ints", value->as.list.data, value->as.list.length);
        add(out, "}");
        break;
    case TENON_KIND_FLOATS:
        add(out, "{\"floats\": [");
        for (int64_t i = 0; i < value->as.list.length; i++)
            add(out, "%s\"%a\"", i ? ", " : "", floats[i]);
        add(out, "]}");
        break;
    case TENON_KIND_HANDLE:
        add(out, "%" PRIuPTR, (uintptr_t)value->as.handle.object);
        break;
    default:
        add(out, "null");
    }
    add(out, "}");
}

static void give(tenon_call *call, echo_data *out, int index)
{
    tenon_value *result = &call->results[index];
    char *made = NULL;
    switch (result->kind) {
    case TENON_KIND_TENSOR:
        if (!result->as.view && !tenon_result_alloc(call, index, out->open_ndim, out->open_shape))
            return;
        memset(result->as.view->data, 0, (size_t)result->as.view->numel * result->as.view->dtype.bits / 8);
        break;
    case TENON_KIND_FLOAT:
        tenon_return_double(call, index, 2.5);
        break;
    case TENON_KIND_BOOL:
        tenon_return_bool(call, index, true);
        break;
    case TENON_KIND_STR:
        tenon_return_str(call, index, "echo", 4);
        break;
    case TENON_KIND_HANDLE:
        made = malloc(1);
        if (made && tenon_return_handle(call, index, made, free))
            free(made);
        break;
    default:
        tenon_return_int(call, index, result->kind == TENON_KIND_ENUM ? 0 : 7);
    }
}

TENON__EXPORT tenon_status tenon_test_echo(tenon_call *call);

tenon_status tenon_test_echo(tenon_call *call)
{
    echo_data *out = call->function->data;
    if (!out) /* an entry without room for `data` */
        return TENON_OK;
    out->length = 0;
    for (int i = 0; i < call->nresults; i++)
        give(call, out, i);
    if (call->flags & TENON_CALL_FAILED)
        return TENON_EFAILED;
    add(out, "{\"args\": [");
    for (int i = 0; i < call->nargs; i++) {
        add(out, "%s", i ? ", " : "");
        add_value(out, &call->args[i]);
    }
    add(out, "], \"results\": [");
    for (int i = 0; i < call->nresults; i++) {
        add(out, "%s", i ? ", " : "");
        if (call->results[i].kind == TENON_KIND_TENSOR)
            add_view(out, call->results[i].as.view);
        else
            add(out, "null");
    }
    add(out, "], \"types\": [");
    for (int i = 0; i < call->ntypes; i++)
        add(out, "%s[%d, %d]", i ? ", " : "", tenon_type(call, i).code, tenon_type(call, i).bits);
    add(out, "], ");
    add_numbers(out, "dims", call->dims, call->ndims);
    add(out, ", \"unlocked\": %s, \"device\": %d, \"stream\": %lld, \"sizes\": [%u, %u]}",
        call->flags & TENON_CALL_UNLOCKED ? "true" : "false", call->device.device_type,
        (long long)(intptr_t)call->stream, call->size, call->host->size);
    return TENON_OK;
}

TENON__EXPORT const tenon_module *tenon_module_v1(void);

const tenon_module *tenon_module_v1(void)
{
    const char *address = getenv("TENON_TEST_MODULE");
    return address ? (const tenon_module *)(uintptr_t)strtoull(address, NULL, 10) : NULL;
}
