/* What the host does for a function while it runs, and what a failure becomes. */
#include "library.h"

#include <string.h>

static tenon_nif_frame *frame_of(tenon_call *call)
{
    return call->host_private;
}

static tenon_status host_fail(tenon_call *call, tenon_status status, const char *message, size_t length)
{
    tenon_nif_frame *f = frame_of(call);
    status = status == TENON_OK ? TENON_EFAILED : status;
    if (call->flags & TENON_CALL_FAILED)
        return status;
    call->flags |= TENON_CALL_FAILED;
    f->error.status = status;
    size_t room = sizeof f->error.message - 1;
    length = message ? length < room ? length : room : 0;
    if (length)
        memcpy(f->error.message, message, length);
    f->error.message[length] = '\0';
    return status;
}

bool tenon_nif_make_result(tenon_nif_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    tenon_error err;
    if (!tenon_device_on_host(f->call.device)) {
        tenon_fail(&f->call, TENON_EDEVICE, "this host makes results on the CPU only");
        return false;
    }
    if (tenon_tensor_alloc(dtype, ndim, shape, 0, &f->made[index], &err)) {
        f->made[index] = NULL;
        const char *what = strstr(err.message, "(): ");
        tenon_fail(&f->call, err.status, "%s", what ? what + strlen("(): ") : err.message);
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
    tenon_error err;
    tenon_dtype known;
    if (call->flags & TENON_CALL_FAILED)
        return NULL;
    if (index < 0 || index >= call->nresults || call->results[index].kind != TENON_KIND_TENSOR || f->made[index]) {
        tenon_fail(call, TENON_EFAILED, "its code makes result %d, which is no tensor or made already", index);
        return NULL;
    }
    if (tenon_signature_open_result(f->function->signature, index, &f->bindings, ndim, shape, &known, &err)) {
        const char *what = strstr(err.message, "(): ");
        tenon_fail(call, TENON_EFAILED, "%s", what ? what + strlen("(): ") : err.message);
        return NULL;
    }
    if (dtype.bits && !tenon_dtype_equal(dtype, known)) {
        tenon_fail(call, TENON_EFAILED, "its code makes result %d of another dtype than its signature says", index);
        return NULL;
    }
    return tenon_nif_make_result(f, index, known, ndim, shape) ? call->results[index].as.view : NULL;
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
    tenon_nif_frame *f = frame_of(call);
    if (index < 0 || index >= call->nresults || call->results[index].kind != TENON_KIND_STR || (!text && length) ||
        length > PTRDIFF_MAX)
        return tenon_fail(call, TENON_EFAILED, "its code gives result %d a text that cannot be taken", index);
    char *copy = tenon_nif_block_new(&f->blocks, length + 1, 0);
    if (!copy)
        return tenon_fail(call, TENON_ENOMEM, "no memory for a text of %zu bytes", length);
    if (length)
        memcpy(copy, text, length);
    call->results[index].as.list.data = copy;
    call->results[index].as.list.length = (int64_t)length;
    call->results[index].flags &= ~TENON_VALUE_UNSET;
    return TENON_OK;
}

static void *host_scratch(tenon_call *call, size_t bytes, size_t align, tenon_device device)
{
    tenon_nif_frame *f = frame_of(call);
    if (!tenon_device_on_host(device)) {
        tenon_fail(call, TENON_EFAILED, "this host has scratch memory on the CPU only");
        return NULL;
    }
    void *memory = tenon_nif_block_new(&f->blocks, bytes, align);
    if (!memory)
        tenon_fail(call, TENON_ENOMEM, "no memory for %zu bytes of scratch, aligned to %zu", bytes, align);
    return memory;
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
    if (f->call.flags & TENON_CALL_FAILED) {
        tenon_nif_mend_utf8(f->error.message, strlen(f->error.message));
        return;
    }
    if (status > TENON_OK && status <= TENON_EFAILED)
        tenon_error_set(&f->error, status, "it failed with %s and gave no reason", tenon_status_name(status));
    else
        tenon_error_set(&f->error, status, "it returned status %d, which means nothing", (int)status);
}

bool tenon_nif_call_load(tenon_nif_library *library, tenon_error *err)
{
    tenon_nif_frame f;
    tenon_nif_frame_begin(&f);
    f.function = NULL;
    tenon_status status = library->module->load(&f.call, &library->state);
    bool done = !status && !(f.call.flags & TENON_CALL_FAILED);
    if (!done) {
        tenon_nif_settle_failure(&f, status);
        tenon_error_set(err, f.error.status, "load(): %s", f.error.message);
    }
    tenon_nif_blocks_free(f.blocks);
    return done;
}
