/* Callbacks: arguments that the function calls. The driver checks what the function passes. */
#include "internal.h"

#include <string.h>

/* Its address is another one on each thread. */
static _Thread_local char this_thread;

void tenon_frame_set_callable(tenon_frame *f, int32_t index, void *object)
{
    f->args[index].kind = TENON_KIND_CALLABLE;
    f->args[index].flags = 0;
    f->args[index].as.handle.object = object;
    f->args[index].as.handle.type = &this_thread;
}

/* Whether the function itself may write to the memory. */
static bool may_write(const tenon_frame *f, const tenon_memory *memory)
{
    if (memory->where != TENON_MEMORY_ARGUMENT)
        return true;
    const tenon_value *arg = &f->args[memory->index];
    const tenon_view *view = memory->item < 0 ? arg->as.view : (const tenon_view *)arg->as.list.data + memory->item;
    return view->flags & TENON_VIEW_WRITTEN;
}

/* ------------------------------------------------------------------------------------------------------ the arguments */

/* What a callback is called with, in one block. */
typedef struct callback_arguments {
    tenon_block *block;
    tenon_value *values;
    tenon_memory *memory;
    tenon_view *views;
    int64_t *dims; /* not used yet */
} callback_arguments;

/* The arguments of the function's own code are its mistakes, whatever their status. */
static tenon_status refuse_argument(tenon_call *call, const tenon_signature *s, int32_t index, const char *why)
{
    return tenon_fail(call, TENON_EFAILED, "its code calls '%s', whose argument '%s' %s", s->name,
                      s->params[index].name, why);
}

static tenon_status take_view(tenon_frame *f, const tenon_signature *s, int32_t index, const tenon_view *source,
                              callback_arguments *out)
{
    tenon_call *call = &f->call;
    tenon_view *view = &out->views[index];
    tenon_memory *memory = &out->memory[index];
    tenon_error err;
    bool written = s->params[index].spec->flags & TENON_SPEC_WRITE;
    if (tenon_view_init(view, (const tenon_dl_tensor *)(const void *)source, source->flags & TENON_SUBBYTE_PADDED,
                        out->dims, &err))
        return tenon_fail(call, TENON_EFAILED, "its code calls '%s', whose argument '%s' is not a tensor: %s", s->name,
                          s->params[index].name, tenon_error_reason(&err));
    out->dims += 2 * view->ndim;
    tenon_status status = tenon__find_memory(f, view, memory);
    if (status == TENON_ENOMEM)
        return tenon_fail(call, status, "no memory to look for the argument '%s' of '%s'", s->params[index].name,
                          s->name);
    if (status)
        return refuse_argument(call, s, index,
                               "is not in the memory of an argument, of a result or of tenon_scratch()");
    if (written && !may_write(f, memory))
        return refuse_argument(call, s, index, "is 'rw', but is in the memory of an argument that is not");
    if (!written)
        view->flags |= TENON_READ_ONLY;
    out->values[index] = (tenon_value){.kind = TENON_KIND_TENSOR, .as.view = view};
    return TENON_OK;
}

static tenon_status take_arguments(tenon_frame *f, const tenon_signature *s, const tenon_value *args,
                                   callback_arguments *out)
{
    tenon_call *call = &f->call;
    size_t ndims = 0, count = (size_t)s->nparams;
    for (int32_t i = 0; i < s->nparams; i++) {
        if (!args || args[i].kind != s->params[i].kind)
            return tenon_fail(call, TENON_EFAILED, "its code calls '%s', whose argument '%s' is %s, not %s", s->name,
                              s->params[i].name, args ? tenon__kind_name(args[i].kind) : "NULL",
                              tenon__kind_name(s->params[i].kind));
        if (args[i].kind != TENON_KIND_TENSOR)
            continue;
        const tenon_view *view = args[i].as.view;
        if (!view || view->ndim < 0 || view->ndim > TENON_MAX_NDIM)
            return refuse_argument(call, s, i, view ? "has more than 64 dimensions" : "is NULL");
        ndims += (size_t)view->ndim;
    }
    size_t each = sizeof *out->values + sizeof *out->memory + sizeof *out->views;
    char *room = tenon_block_alloc(&out->block, count * each + 2 * ndims * sizeof *out->dims, 0);
    if (!room)
        return tenon_fail(call, TENON_ENOMEM, "no memory for the arguments of '%s'", s->name);
    out->values = (tenon_value *)(void *)room;
    out->memory = (tenon_memory *)(void *)(out->values + count);
    out->views = (tenon_view *)(void *)(out->memory + count);
    out->dims = (int64_t *)(void *)(out->views + count);
    for (int32_t i = 0; i < s->nparams; i++) {
        out->values[i] = args[i];
        if (args[i].kind == TENON_KIND_STR &&
            (args[i].as.list.length < 0 || (!args[i].as.list.data && args[i].as.list.length) ||
             !tenon_utf8_is_valid(args[i].as.list.data, (size_t)args[i].as.list.length)))
            return refuse_argument(call, s, i, "is not UTF-8");
        tenon_status status = args[i].kind == TENON_KIND_TENSOR ? take_view(f, s, i, args[i].as.view, out) : TENON_OK;
        if (status)
            return status;
    }
    tenon_bindings bindings;
    tenon_error err;
    if (tenon__signature_match(s, out->values, &bindings, &err))
        return tenon_fail(call, TENON_EFAILED, "its code calls '%s' with wrong arguments: %s", s->name,
                          tenon_error_reason(&err));
    return TENON_OK;
}

/* -------------------------------------------------------------------------------------------------------- the service */

/* Whether the function may call this argument, now and on this thread. */
static bool may_call(tenon_call *call, const tenon_frame *f, int32_t index)
{
    const tenon_parameter *param =
        f->signature && index >= 0 && index < f->signature->nparams ? &f->signature->params[index] : NULL;
    if (!param || !param->callback || f->args[index].kind != TENON_KIND_CALLABLE)
        tenon_fail(call, TENON_EFAILED, "argument %d is not a callable, or was not passed", (int)index);
    else if (call->flags & TENON_CALL_SHAPE_ONLY)
        tenon_fail(call, TENON_EFAILED, "its shape function calls '%s'; only the function itself may", param->name);
    else if (tenon__call_flags(call) & (TENON__CALL_LOOP | TENON__CALL_BODY))
        tenon_fail(call, TENON_EFAILED,
                   "its code calls '%s' inside the body of a loop; call it before or after the loop", param->name);
    else if (!f->client->callback)
        tenon_fail(call, TENON_EFAILED, "this host (%s) has no callbacks", call->host->name);
    else
        return true;
    return false;
}

tenon_status tenon_frame_host_callback(tenon_call *call, int32_t index, const tenon_value *args, tenon_value *results)
{
    tenon_frame *f = tenon__frame_of(call);
    if (index >= 0 && index < call->nargs && f->args[index].kind == TENON_KIND_CALLABLE &&
        f->args[index].as.handle.type != &this_thread)
        return tenon_fail(call, TENON_EFAILED, "only the thread that runs the function may call '%s'",
                          f->signature->params[index].name);
    if (call->flags & TENON_CALL_FAILED)
        return TENON_EFAILED;
    if (!may_call(call, f, index))
        return TENON_EFAILED;
    const tenon_signature *s = f->signature->params[index].callback;
    const int32_t nresults = s->nresults;
    if (!results && nresults > 0)
        return tenon_fail(call, TENON_EFAILED, "its code calls '%s' without room for its results", s->name);
    callback_arguments taken = {0};
    tenon_status status = take_arguments(f, s, args, &taken);
    if (!status) {
        for (int32_t i = 0; i < nresults; i++)
            results[i] = (tenon_value){.kind = s->results[i].kind};
        tenon_callback_call callback = {index, s, taken.values, taken.memory, results};
        if (f->client->callback(f, &callback)) {
            tenon__note_failure(call);
            status = TENON_EFAILED;
        }
    }
    tenon_blocks_release(taken.block);
    return status;
}
