/* Callbacks: arguments that the function calls. The driver checks what the function passes, and finds whose memory it is. */
#include "internal.h"

#include <stdlib.h>
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

/* --------------------------------------------------------------------------------------------------------- scratch */

typedef struct shared_scratch {
    tenon_tensor *tensor;
} shared_scratch;

static void release_scratch(void *memory)
{
    shared_scratch *scratch = memory;
    if (scratch->tensor)
        tenon_tensor_release(scratch->tensor);
}

void *tenon__call_shared_scratch(tenon_frame *f, size_t bytes, size_t align)
{
    tenon_call *call = &f->call;
    enum { TENSOR_ALIGNMENT = 64, MOST = 4096 };
    if ((align & (align - 1)) || align > MOST) {
        tenon_fail(call, TENON_EINVAL, "the alignment of scratch memory must be a power of two up to %d, got %zu", MOST,
                   align);
        return NULL;
    }
    size_t more = align > TENSOR_ALIGNMENT ? align : 0;
    int64_t size = bytes <= PTRDIFF_MAX - MOST ? (int64_t)(bytes + more) : INT64_MAX;
    shared_scratch *scratch = tenon__block_alloc_finished(&f->blocks, sizeof *scratch, release_scratch);
    if (scratch)
        scratch->tensor = NULL;
    if (!scratch || tenon_tensor_alloc(TENON_U8, 1, &size, 0, &scratch->tensor, NULL)) {
        tenon_fail(call, TENON_ENOMEM, "no memory for %zu bytes of scratch memory", bytes);
        return NULL;
    }
    uintptr_t start = (uintptr_t)tenon_tensor_view(scratch->tensor)->data;
    return (void *)(more ? (start + align - 1) & ~(uintptr_t)(align - 1) : start);
}

/* ----------------------------------------------------------------------------------------------------- whose memory */

/* The number of the tensor in an array that has the memory, or -1. */
static int64_t find_tensor(const tenon_view *views, int64_t count, const tenon_view *view)
{
    for (int64_t i = 0; i < count; i++)
        if (tenon_device_equal(views[i].device, view->device) && tenon__is_within(view, &views[i]))
            return i;
    return -1;
}

/* Look for the memory among the arguments or results. Those in memory of the library are not the host's, and converted
 * arguments are in scratch memory. */
static bool find_among(const tenon_value *values, const tenon_parameter *params, int32_t count, const tenon_view *view,
                       tenon_memory *out)
{
    for (int32_t i = 0; i < count; i++) {
        bool unset = (values[i].flags & (TENON_VALUE_UNSET | TENON__VALUE_CONVERTED)) ||
                     (params[i].flags & (TENON_PARAMETER_OWN | TENON_PARAMETER_OF));
        int64_t at = -1;
        if (values[i].kind == TENON_KIND_TENSOR && !unset)
            at = find_tensor(values[i].as.view, 1, view);
        else if (values[i].kind == TENON_KIND_TENSORS && values[i].as.list.data)
            at = find_tensor(values[i].as.list.data, values[i].as.list.length, view);
        if (at < 0)
            continue;
        out->index = i;
        out->item = values[i].kind == TENON_KIND_TENSORS ? at : -1;
        return true;
    }
    return false;
}

static bool find_pushed(const tenon_frame *f, const tenon_view *view, tenon_memory *out)
{
    tenon_block *at = f->blocks;
    for (tenon__pushed *pushed; (pushed = tenon__block_find(&at, tenon__finish_pushed));) {
        if (find_tensor(&pushed->view, 1, view) < 0)
            continue;
        out->index = pushed->index;
        out->item = pushed->item;
        return true;
    }
    return false;
}

static bool find_memory(const tenon_frame *f, const tenon_view *view, tenon_memory *out)
{
    const tenon_signature *s = f->signature;
    *out = (tenon_memory){.where = TENON_MEMORY_NONE, .index = -1, .item = -1};
    if (view->numel == 0)
        return true;
    out->where = TENON_MEMORY_ARGUMENT;
    if (find_among(f->args, s->params, s->nparams, view, out))
        return true;
    out->where = TENON_MEMORY_RESULT;
    if (find_among(f->results, s->results, s->nresults, view, out) || find_pushed(f, view, out))
        return true;
    out->where = TENON_MEMORY_SCRATCH;
    tenon_block *at = f->blocks;
    for (shared_scratch *scratch; (scratch = tenon__block_find(&at, release_scratch));) {
        if (!scratch->tensor || find_tensor(tenon_tensor_view(scratch->tensor), 1, view) < 0)
            continue;
        out->scratch = scratch->tensor;
        return true;
    }
    return false;
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
    if (!find_memory(f, view, memory))
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
