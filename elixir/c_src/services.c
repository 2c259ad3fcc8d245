/* What the host does for a function while it runs, and what a failure becomes. */
#include "library.h"

#include <string.h>

static tenon_nif_frame *frame_of(tenon_call *call)
{
    return call->host_private;
}

static tenon_status host_fail(tenon_call *call, tenon_status status, const char *message, size_t length)
{
    return tenon_call_fail(call, &frame_of(call)->error, status, message, length);
}

bool tenon_nif_make_result(tenon_nif_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    tenon_error err;
    if (!tenon_device_on_host(f->call.device)) {
        tenon_fail(&f->call, TENON_EDEVICE, "this host makes results on the CPU only");
        return false;
    }
    if (tenon_nif_alloc(dtype, ndim, shape, 0, &f->made[index], &err)) {
        f->made[index] = NULL;
        tenon_fail(&f->call, err.status, "%s", tenon_error_reason(&err));
        return false;
    }
    f->views[index] = *tenon_tensor_view(f->made[index]);
    f->views[index].flags |= TENON_VIEW_WRITTEN | TENON_VIEW_FRESH;
    f->results[index].as.view = &f->views[index];
    f->results[index].flags = 0;
    return true;
}

static const tenon_view *host_result_alloc(tenon_call *call, int32_t index, tenon_dtype dtype, int32_t ndim,
                                           const int64_t *shape)
{
    tenon_nif_frame *f = frame_of(call);
    if (!f->function) {
        tenon_fail(call, TENON_EFAILED, "load has no results");
        return NULL;
    }
    if (!tenon_call_open_result(call, f->function->signature, &f->bindings, index, ndim, shape, &dtype))
        return NULL;
    return tenon_nif_make_result(f, index, dtype, ndim, shape) ? call->results[index].as.view : NULL;
}

static tenon_status host_result_handle(tenon_call *call, int32_t index, void *object, void (*destroy)(void *))
{
    tenon_nif_frame *f = frame_of(call);
    if (index < 0 || index >= call->nresults || call->results[index].kind != TENON_KIND_HANDLE || f->handles[index] ||
        !object)
        return tenon_fail(call, TENON_EFAILED, "its code gives result %d a handle that cannot be taken", index);
    const char *type = f->function->signature->results[index].handle;
    f->handles[index] = tenon_nif_handle_new(f->function->library, type, object, destroy);
    if (!f->handles[index])
        return tenon_fail(call, TENON_ENOMEM, "no memory for a handle");
    call->results[index].flags &= ~TENON_VALUE_UNSET;
    return TENON_OK;
}

static tenon_status host_result_str(tenon_call *call, int32_t index, const char *text, size_t length)
{
    return tenon_call_result_str(call, &frame_of(call)->blocks, index, text, length);
}

static void *host_scratch(tenon_call *call, size_t bytes, size_t align, tenon_device device)
{
    if (tenon_device_on_host(device))
        return tenon_call_scratch(call, &frame_of(call)->blocks, bytes, align);
    tenon_fail(call, TENON_EFAILED, "this host has scratch memory on the CPU only");
    return NULL;
}

static const tenon_host host = {
    .size = sizeof(tenon_host),
    .minor = TENON_ABI_MINOR,
    .name = "elixir",
    .fail = host_fail,
    .result_alloc = host_result_alloc,
    .result_handle = host_result_handle,
    .result_str = host_result_str,
    .scratch = host_scratch,
};

void tenon_nif_frame_begin(tenon_nif_frame *f)
{
    memset(&f->call, 0, sizeof f->call);
    f->call.size = sizeof f->call;
    f->call.minor = TENON_ABI_MINOR;
    f->call.host = &host;
    f->call.device = tenon_device_of(TENON_CPU, 0);
    f->call.host_private = f;
    f->blocks = NULL;
}

void tenon_nif_settle_failure(tenon_nif_frame *f, tenon_status status)
{
    tenon_call_failure(&f->call, status, &f->error);
    tenon_nif_mend_utf8(f->error.message, strlen(f->error.message));
}

bool tenon_nif_call_load(tenon_nif_opened *code, tenon_error *err)
{
    tenon_nif_frame f;
    tenon_nif_frame_begin(&f);
    f.function = NULL;
    tenon_status status = code->module->load(&f.call, &code->state);
    bool done = !status && !(f.call.flags & TENON_CALL_FAILED);
    if (!done) {
        tenon_nif_settle_failure(&f, status);
        tenon_error_set_in(err, f.error.status, "load", "%s", f.error.message);
    }
    tenon_blocks_release(f.blocks);
    return done;
}
