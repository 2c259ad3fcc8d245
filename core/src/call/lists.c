/* Lists of tensors in a call: as arguments, as results "for" each item of one, and as results that the function makes. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- arguments */

void tenon_frame_set_list(tenon_frame *f, int32_t index, tenon_view *views, int64_t count)
{
    f->args[index].kind = TENON_KIND_TENSORS;
    f->args[index].flags = 0;
    f->args[index].as.list.data = views;
    f->args[index].as.list.length = count;
    if (f->signature->params[index].items->flags & TENON_SPEC_WRITE)
        for (int64_t i = 0; i < count; i++)
            views[i].flags |= TENON_VIEW_WRITTEN;
}

int tenon_frame_join_item_device(tenon_frame *f, int32_t index, int64_t item, tenon_device device)
{
    const tenon_parameter *param = &f->signature->params[index];
    tenon_error err;
    if (tenon_device_on_host(f->call.device)) {
        f->call.device = device;
        return 1;
    }
    if (tenon_device_equal(f->call.device, device) || (param->items->flags & TENON_SPEC_ANYWHERE))
        return 0;
    tenon_error_set_in(&err, TENON_EDEVICE, f->signature->name,
                       "argument '%s[%lld]' is on %s, but an earlier argument is on %s; move one of them", param->name,
                       (long long)item, tenon__device_phrase(device).text, tenon__device_phrase(f->call.device).text);
    f->client->refuse(f, TENON_REFUSED_DEVICE, index, &err);
    return -1;
}

/* --------------------------------------------------------------------------------------------------------- results */

/* Refuse a list that the host does not make. */
static int refuse_list(tenon_frame *f, int32_t index)
{
    tenon_error err;
    tenon_error_set_in(&err, TENON_EFAILED, f->signature->name,
                       "%s: this host (%s) has no results that are lists of tensors",
                       tenon__result_label(f, index).text, f->call.host->name);
    f->client->refuse(f, TENON_REFUSED_RESULT, index, &err);
    return -1;
}

static int make_list_item(tenon_frame *f, int32_t index, int64_t item, const tenon_view *source, tenon_view *view)
{
    tenon_error err;
    tenon_dtype dtype;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    if (!tenon__signature_item(f->signature, index, &f->bindings, source, &dtype, &ndim, shape, &err)) {
        if (f->client->make_item(f, index, item, dtype, ndim, shape, view))
            return -1;
        view->flags |= TENON_VIEW_WRITTEN | TENON_VIEW_FRESH;
        if (tenon__result_on_device(f, index, view->device, &err))
            return 0;
    }
    f->client->refuse(f, TENON_REFUSED_RESULT, index, &err);
    return -1;
}

int tenon_frame_make_list(tenon_frame *f, int32_t index)
{
    const tenon_parameter *result = &f->signature->results[index];
    tenon_value *list = &f->results[index];
    list->flags = 0;
    list->as.list.data = NULL;
    list->as.list.length = 0;
    if (!(result->flags & TENON_PARAMETER_EACH)) /* the function pushes its items */
        return f->client->open_item ? 0 : refuse_list(f, index);
    if (!f->client->make_item)
        return refuse_list(f, index);
    const tenon_value *source = &f->args[result->owner];
    if (source->kind != TENON_KIND_TENSORS || source->as.list.length == 0)
        return 0;
    const tenon_view *items = source->as.list.data;
    size_t count = (size_t)source->as.list.length;
    tenon_view *views =
        count <= PTRDIFF_MAX / sizeof *views ? tenon_block_alloc(&f->blocks, count * sizeof *views, 0) : NULL;
    if (!views) {
        tenon_error err;
        tenon_error_set_in(&err, TENON_ENOMEM, f->signature->name, "no memory for a list of %zu tensors", count);
        f->client->refuse(f, TENON_REFUSED_RESULT, index, &err);
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        if (make_list_item(f, index, (int64_t)i, &items[i], &views[i]))
            return -1;
    list->as.list.data = views;
    list->as.list.length = (int64_t)count;
    return 0;
}

void tenon__finish_pushed(void *memory)
{
    (void)memory;
}

/* The views are in blocks of their own: those that the function has must stay where they are. */
const tenon_view *tenon_frame_host_result_push(tenon_call *call, int32_t index, tenon_dtype dtype, int32_t ndim,
                                               const int64_t *shape)
{
    tenon_frame *f = tenon__frame_of(call);
    tenon_error err;
    const tenon_parameter *result =
        f->signature && index >= 0 && index < f->signature->nresults ? &f->signature->results[index] : NULL;
    if (!result || !result->items || (result->flags & TENON_PARAMETER_EACH)) {
        tenon_fail(call, TENON_EFAILED, "result %d is not a list that the function makes", (int)index);
        return NULL;
    }
    if (!tenon__call_check_shape(call, f->signature, &f->bindings, index, ndim, shape, &dtype))
        return NULL;
    tenon_value *list = &f->results[index];
    tenon__pushed *pushed = tenon__block_alloc_finished(&f->blocks, sizeof *pushed, tenon__finish_pushed);
    if (!pushed) {
        tenon_fail(call, TENON_ENOMEM, "no memory for another tensor of result %d", (int)index);
        return NULL;
    }
    *pushed = (tenon__pushed){.index = index, .item = list->as.list.length};
    tenon_view *view = &pushed->view;
    if (f->client->open_item(f, index, list->as.list.length, dtype, ndim, shape, view)) {
        tenon__note_failure(call);
        return NULL;
    }
    list->as.list.length++;
    view->flags |= TENON_VIEW_WRITTEN | TENON_VIEW_FRESH;
    if (!tenon__result_on_device(f, index, view->device, &err)) {
        tenon_fail(call, err.status, "%s", tenon_error_reason(&err));
        return NULL;
    }
    if (!(call->flags & TENON__CALL_CHECKED))
        return view;
    const tenon_view *guarded = tenon__check_item(f, index, list->as.list.length - 1, view);
    if (!guarded)
        tenon_fail(call, TENON_ENOMEM, "no memory to check result %d", (int)index);
    return guarded;
}
