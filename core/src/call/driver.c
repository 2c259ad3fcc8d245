/* The driver of calls: the steps that only a failing call takes, and the services of a host. The rest is inline,
 * in host/frame.h. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(const tenon_frame *f)
{
    return f->signature ? f->signature->name : "load";
}

void tenon_call_init(tenon_call *call, const tenon_host *host, const tenon_function *function, void *state,
                     const tenon_signature *signature)
{
    memset(call, 0, sizeof *call);
    call->size = sizeof *call;
    call->minor = TENON_ABI_MINOR;
    call->host = host;
    call->function = function;
    call->state = state;
    call->device = tenon_device_of(TENON_CPU, 0);
    if (signature) {
        call->nargs = signature->nparams;
        call->nresults = signature->nresults;
        call->ndims = signature->names.ndims;
        call->ntypes = signature->names.ntypes;
    }
}

/* --------------------------------------------------------------------------------------------------------- refusals */

int tenon_frame_refuse_device(tenon_frame *f, int32_t index, tenon_device device)
{
    tenon_error err;
    tenon_error_set_in(
        &err, TENON_EDEVICE, name_of(f), "argument '%s' is on %s, but an earlier argument is on %s; move one of them",
        f->signature->params[index].name, tenon__device_phrase(device).text, tenon__device_phrase(f->call.device).text);
    f->client->refuse(f, TENON_REFUSED_DEVICE, index, &err);
    return -1;
}

int tenon_frame_refuse_result(tenon_frame *f, int32_t index)
{
    tenon_error err;
    tenon_dtype dtype;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    if (!tenon_signature_result(f->signature, index, &f->bindings, &dtype, &ndim, shape, &err))
        tenon_error_set_in(&err, TENON_EFAILED, name_of(f), "result %d cannot be allocated", (int)index);
    f->client->refuse(f, TENON_REFUSED_RESULT, index, &err); /* exactly once, whatever the match says now */
    return -1;
}

tenon__label tenon__result_label(const tenon_frame *f, int32_t index)
{
    tenon__label out;
    const char *name = f->signature->results[index].name;
    if (name)
        snprintf(out.text, sizeof out.text, "result '%.*s'", TENON_NAME_SIZE, name);
    else
        snprintf(out.text, sizeof out.text, "result %d", (int)index);
    return out;
}

bool tenon__result_on_device(const tenon_frame *f, int32_t index, tenon_device device, tenon_error *err)
{
    const tenon_parameter *result = &f->signature->results[index];
    const tenon_spec *spec = result->items ? result->items : result->spec;
    if (!spec->devices || tenon__device_fits(spec, device))
        return true;
    tenon_error_set_in(err, TENON_EDEVICE, name_of(f), "%s: expected %s, but the memory is on %s",
                       tenon__result_label(f, index).text, result->type, tenon__device_phrase(device).text);
    return false;
}

int tenon_frame_check_device(tenon_frame *f, int32_t index)
{
    tenon_error err;
    if (!f->results[index].as.view)
        tenon_error_set_in(&err, TENON_EFAILED, name_of(f), "the host has not allocated %s",
                           tenon__result_label(f, index).text);
    else if (tenon__result_on_device(f, index, f->results[index].as.view->device, &err))
        return 0;
    f->client->refuse(f, TENON_REFUSED_RESULT, index, &err);
    return -1;
}

int tenon_frame_refuse_failure(tenon_frame *f, tenon_status status)
{
    tenon_error unsaid; /* for a function that returned a status without a message */
    tenon_error *err = f->error ? f->error : &unsaid;
    if (!f->error && (f->call.flags & TENON_CALL_FAILED))
        tenon_error_set(err, TENON_ENOMEM, "no memory for the message of an error");
    else
        tenon__call_failure(&f->call, status, err);
    if (f->call.flags & TENON__CALL_CHECKED)
        tenon__check_failure(f, err);
    f->client->refuse(f, TENON_REFUSED_BY_CODE, -1, err);
    return -1;
}

/* Whether a string, or each string of a list, is UTF-8. */
static bool is_utf8(const tenon_value *value)
{
    if (value->kind == TENON_KIND_STR)
        return tenon_utf8_is_valid(value->as.list.data, (size_t)value->as.list.length);
    const tenon_text *texts = value->as.list.data;
    for (int64_t i = 0; i < value->as.list.length; i++)
        if (!tenon_utf8_is_valid(texts[i].data, texts[i].length))
            return false;
    return true;
}

int tenon_frame_check_result(tenon_frame *f, int32_t index)
{
    const tenon_parameter *param = &f->signature->results[index];
    const tenon_value *value = &f->results[index];
    tenon_error err;
    bool unset = value->flags & TENON_VALUE_UNSET;
    if (unset && (param->flags & TENON_PARAMETER_OPTIONAL))
        return 0;
    if (unset)
        tenon_error_set(&err, TENON_EFAILED, "the function returned without setting %s",
                        tenon__result_label(f, index).text);
    else if (param->kind == TENON_KIND_ENUM && (value->as.integer < 0 || value->as.integer >= param->count))
        tenon_error_set(&err, TENON_EFAILED, "the function set %s to choice %lld, but there are only %d",
                        tenon__result_label(f, index).text, (long long)value->as.integer, (int)param->count);
    else if ((param->kind == TENON_KIND_STR || param->kind == TENON_KIND_STRS) && !is_utf8(value))
        tenon_error_set(&err, TENON_EFAILED, "the function set %s to a string that is not UTF-8",
                        tenon__result_label(f, index).text);
    else if ((param->kind == TENON_KIND_INTS || param->kind == TENON_KIND_FLOATS) && param->count >= 0 &&
             value->as.list.length != param->count)
        tenon_error_set(&err, TENON_EFAILED, "the function set %s to a list of %lld numbers, but it is %s",
                        tenon__result_label(f, index).text, (long long)value->as.list.length, param->type);
    else
        return 1;
    f->client->refuse(f, TENON_REFUSED_BY_CODE, index, &err);
    return -1;
}

/* ------------------------------------------------------------------------------------------------------------- load */

int tenon_frame_load(tenon_frame *f, const tenon_client *client, const tenon_host *host, const tenon_module *module,
                     void **state)
{
    tenon_call_init(&f->call, host, NULL, NULL, NULL);
    f->call.host_private = f;
    f->client = client;
    f->signature = NULL;
    f->args = f->results = NULL;
    f->blocks = NULL;
    f->error = NULL;
    tenon_status status = module->load ? module->load(&f->call, state) : TENON_OK;
    int done = status || (f->call.flags & TENON_CALL_FAILED) ? tenon_frame_refuse_failure(f, status) : 0;
    tenon_frame_end(f);
    f->blocks = NULL; /* so that a host may end the frame too */
    return done;
}

/* --------------------------------------------------------------------------------------------------------- services */

/* The first failure is kept. If there is no memory for its message, the call fails without one. */
tenon_status tenon_frame_host_fail(tenon_call *call, tenon_status status, const char *message, size_t length)
{
    tenon_frame *f = tenon__frame_of(call);
    status = status == TENON_OK ? TENON_EFAILED : status;
    if (!tenon__call_set_failed(call))
        return status;
    f->error = tenon_block_alloc(&f->blocks, sizeof *f->error, 0);
    if (!f->error)
        return TENON_ENOMEM;
    tenon__call_fail(f->error, status, message, length);
    return status;
}

void tenon__note_failure(tenon_call *call)
{
    if (!tenon__call_has_failed(call))
        tenon_frame_host_fail(call, TENON_EFAILED, NULL, 0);
}

const tenon_view *tenon_frame_host_result_alloc(tenon_call *call, int32_t index, tenon_dtype dtype, int32_t ndim,
                                                const int64_t *shape)
{
    tenon_frame *f = tenon__frame_of(call);
    tenon_error err;
    if (!f->signature) {
        tenon_fail(call, TENON_EFAILED, "load has no results");
        return NULL;
    }
    if (!tenon__call_open_result(call, f->signature, &f->bindings, index, ndim, shape, &dtype))
        return NULL;
    if (f->client->open_result(f, index, dtype, ndim, shape)) {
        tenon__note_failure(call);
        return NULL;
    }
    if (!f->results[index].as.view)
        tenon_fail(call, TENON_EFAILED, "the host has not allocated %s", tenon__result_label(f, index).text);
    else if (!tenon__result_on_device(f, index, f->results[index].as.view->device, &err))
        tenon_fail(call, err.status, "%s", tenon_error_reason(&err));
    else if ((call->flags & TENON__CALL_CHECKED) && !tenon__check_result(f, index))
        tenon_fail(call, TENON_ENOMEM, "no memory to check result %d", (int)index);
    else
        return f->results[index].as.view;
    return NULL;
}

tenon_status tenon_frame_host_result_handle(tenon_call *call, int32_t index, void *object,
                                            void (*destroy)(void *object))
{
    tenon_frame *f = tenon__frame_of(call);
    tenon_value *result = index >= 0 && index < call->nresults ? &f->results[index] : NULL;
    if (!result || result->kind != TENON_KIND_HANDLE || !object)
        return tenon_fail(call, TENON_EFAILED, "result %d is not a handle, or the handle is NULL", index);
    if (!(result->flags & TENON_VALUE_UNSET))
        return tenon_fail(call, TENON_EFAILED, "the function sets result %d twice", index);
    if (f->client->take_handle(f, index, object, destroy)) {
        tenon__note_failure(call);
        return TENON_ENOMEM;
    }
    result->flags &= ~TENON_VALUE_UNSET;
    return TENON_OK;
}

tenon_status tenon_frame_host_result_str(tenon_call *call, int32_t index, const char *text, size_t length)
{
    return tenon__call_result_str(call, &tenon__frame_of(call)->blocks, index, text, length);
}

void *tenon_frame_host_scratch(tenon_call *call, size_t bytes, size_t align, tenon_device device)
{
    tenon_frame *f = tenon__frame_of(call);
    if (tenon_device_on_host(device) && f->signature && f->signature->ncallables)
        return tenon__call_shared_scratch(f, bytes, align);
    if (tenon_device_on_host(device))
        return tenon__call_scratch(call, &f->blocks, bytes, align);
    if (!f->client->device_scratch) {
        tenon_fail(call, TENON_EFAILED, "this host has scratch memory on the CPU only");
        return NULL;
    }
    void *memory = f->client->device_scratch(f, bytes, device);
    if (!memory)
        tenon__note_failure(call);
    return memory;
}
