/* Services of a host: names, arguments that outlive the call, and results in memory of the
 * library. */
#include "internal.h"

#include <string.h>

/* ----------------------------------------------------------------------------------------------------------- names */

static int32_t find_item(const tenon_parameter *items, int32_t count, const char *name, size_t length)
{
    for (int32_t i = 0; i < count; i++)
        if (items[i].name && strlen(items[i].name) == length && memcmp(items[i].name, name, length) == 0)
            return i;
    return -1;
}

static int32_t find_name(const char (*table)[TENON_NAME_SIZE], int32_t count, const char *name, size_t length)
{
    for (int32_t i = 0; i < count; i++)
        if (strlen(table[i]) == length && memcmp(table[i], name, length) == 0)
            return i;
    return -1;
}

int32_t tenon_frame_host_find(tenon_call *call, uint32_t what, const char *name, size_t length)
{
    const tenon_signature *s = tenon__frame_of(call)->signature;
    if (!s || !name)
        return -1;
    switch (what) {
    case TENON_NAME_ARG:
        return find_item(s->params, s->nparams, name, length);
    case TENON_NAME_RESULT:
        return find_item(s->results, s->nresults, name, length);
    case TENON_NAME_DIM:
        return find_name(s->names.dims, s->names.ndims, name, length);
    case TENON_NAME_TYPE:
        return find_name(s->names.types, s->names.ntypes, name, length);
    default:
        return -1;
    }
}

/* -------------------------------------------------------------------------------------------------- kept arguments */

tenon_kept *tenon_frame_host_arg_keep(tenon_call *call, int32_t index)
{
    tenon_frame *f = tenon__frame_of(call);
    const tenon_parameter *param =
        f->signature && index >= 0 && index < f->signature->nparams ? &f->signature->params[index] : NULL;
    if (call->flags & TENON_CALL_FAILED)
        return NULL;
    if (!param || !param->spec)
        tenon_fail(call, TENON_EFAILED, "argument %d is not a tensor", (int)index);
    else if (!(param->flags & TENON_PARAMETER_KEEP))
        tenon_fail(call, TENON_EFAILED, "its code keeps argument '%s', which is not 'keep' in its signature",
                   param->name);
    else if (!f->client->keep_argument)
        tenon_fail(call, TENON_EFAILED, "this host (%s) cannot keep arguments", call->host->name);
    else if (f->args[index].kind == TENON_KIND_TENSOR) {
        tenon_kept *kept = f->client->keep_argument(f, index);
        if (!kept)
            tenon__note_failure(call);
        return kept;
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------- results in the library's memory */

/* A result that is "own" or "of(...)" and was returned by the function; results[index].as.view is its first member. The
 * dims come after it. */
typedef struct library_memory {
    tenon_view view;
    void *owner;
    void (*release)(void *owner); /* "own" and not taken yet: tenon_frame_end calls it */
} library_memory;

/* Nobody has taken the memory: the call failed, or the host could not make its array. */
static void finish_library_result(void *memory)
{
    library_memory *library_result = memory;
    if (library_result->release)
        library_result->release(library_result->owner);
}

bool tenon__is_within(const tenon_view *inner, const tenon_view *outer)
{
    if (inner->numel == 0)
        return true;
    if (outer->numel == 0 || !tenon_device_has_addresses(outer->device))
        return false;
    tenon_extent in = tenon_view_extent(inner), out = tenon_view_extent(outer);
    uintptr_t low = (uintptr_t)inner->data + (uintptr_t)in.low, high = (uintptr_t)inner->data + (uintptr_t)in.high;
    return low >= (uintptr_t)outer->data + (uintptr_t)out.low && high <= (uintptr_t)outer->data + (uintptr_t)out.high;
}

/* What `out` needs to be valid, apart from its shape: device and flags. NULL if the owner was not passed. */
static const tenon_view *find_owner_view(const tenon_frame *f, const tenon_parameter *result, tenon_view *of_self)
{
    bool of_owner = result->flags & TENON_PARAMETER_OF;
    if (of_owner && f->signature->params[result->owner].spec) {
        const tenon_value *arg = &f->args[result->owner];
        return arg->kind == TENON_KIND_TENSOR ? arg->as.view : NULL;
    }
    *of_self = (tenon_view){.device = f->call.device};
    of_self->flags = of_owner && !(result->spec->flags & TENON_SPEC_WRITE) ? TENON_READ_ONLY : 0;
    return of_self;
}

/* The layout that the signature promises, and memory that consumers can read. */
static bool check_layout(tenon_call *call, int32_t index, const tenon_view *view)
{
    const tenon_frame *f = tenon__frame_of(call);
    const tenon_parameter *result = &f->signature->results[index];
    uint32_t flags = result->spec->flags;
    uint64_t wanted = (flags & TENON_SPEC_C ? TENON_VIEW_C : 0) | (flags & TENON_SPEC_F ? TENON_VIEW_F : 0) |
                      (flags & TENON_SPEC_DENSE ? TENON_VIEW_DENSE : 0);
    tenon_error err;
    if ((view->flags & wanted) != wanted)
        tenon_fail(call, TENON_EFAILED, "%s: expected %s, but the strides that the function gave are not in that order",
                   tenon__result_label(f, index).text, result->type);
    else if (view->numel && tenon_device_has_addresses(view->device) &&
             ((uintptr_t)view->data & tenon__address_mask(result->spec, view->dtype)))
        tenon_fail(call, TENON_EFAILED, "%s: expected %s, but the memory is aligned to %zu bytes only",
                   tenon__result_label(f, index).text, result->type, tenon_view_alignment(view));
    else if (!tenon__result_on_device(f, index, view->device, &err))
        tenon_fail(call, err.status, "%s", tenon_error_reason(&err));
    else
        return true;
    return false;
}

/* Results may share memory only if all of them show the memory of their owners. */
static bool check_overlap(tenon_call *call, int32_t index, const tenon_view *view)
{
    const tenon_frame *f = tenon__frame_of(call);
    bool of_owner = f->signature->results[index].flags & TENON_PARAMETER_OF;
    for (int32_t i = 0; i < f->signature->nresults; i++) {
        const tenon_parameter *other = &f->signature->results[i];
        if (i == index || !other->spec || (f->results[i].flags & TENON_VALUE_UNSET) ||
            (of_owner && (other->flags & TENON_PARAMETER_OF)) || !tenon_view_overlaps(view, f->results[i].as.view))
            continue;
        tenon_fail(call, TENON_EFAILED, "%s and %s share memory", tenon__result_label(f, i).text,
                   tenon__result_label(f, index).text);
        return false;
    }
    return true;
}

/* Whether the function may return this memory as this result. Fills in the view. A mistake is the function's, so its status
 * says nothing about the caller's arguments: TENON_EBOUNDS would end an iteration. */
static bool check_library_result(tenon_call *call, int32_t index, const tenon_dl_tensor *source,
                                 library_memory *library_result)
{
    const tenon_frame *f = tenon__frame_of(call);
    const tenon_parameter *result = &f->signature->results[index];
    tenon__label label = tenon__result_label(f, index);
    tenon_view of_self;
    tenon_error err;
    const tenon_view *owner = find_owner_view(f, result, &of_self);
    if (!owner) {
        tenon_fail(call, TENON_EFAILED, "%s is memory of argument '%s', which was not passed", label.text,
                   f->signature->params[result->owner].name);
        return false;
    }
    tenon_dl_tensor placed = *source;
    placed.device = owner->device;
    if (tenon_view_init(&library_result->view, &placed, owner->flags & (TENON_READ_ONLY | TENON_SUBBYTE_PADDED),
                        (int64_t *)(void *)(library_result + 1), &err)) {
        tenon_fail(call, err.status == TENON_EOVERFLOW ? TENON_EOVERFLOW : TENON_EFAILED, "%s: %s", label.text,
                   tenon_error_reason(&err));
        return false;
    }
    if (owner != &of_self && !tenon__is_within(&library_result->view, owner)) {
        tenon_fail(call, TENON_EFAILED, "%s is not inside the memory of argument '%s'", label.text,
                   f->signature->params[result->owner].name);
        return false;
    }
    return check_layout(call, index, &library_result->view) && check_overlap(call, index, &library_result->view);
}

tenon_status tenon_frame_host_result_memory(tenon_call *call, int32_t index, void *data, int32_t ndim,
                                            const int64_t *shape, const int64_t *strides, void *owner,
                                            void (*release)(void *owner))
{
    tenon_frame *f = tenon__frame_of(call);
    const tenon_parameter *result =
        f->signature && index >= 0 && index < f->signature->nresults ? &f->signature->results[index] : NULL;
    bool own = result && (result->flags & TENON_PARAMETER_OWN);
    bool of_owner = result && (result->flags & TENON_PARAMETER_OF);
    tenon_dtype dtype = {0};
    if (call->flags & TENON_CALL_FAILED)
        return TENON_EFAILED;
    if (!own && !of_owner)
        return tenon_fail(call, TENON_EFAILED, "result %d is neither 'own' nor 'of(...)' in its signature", (int)index);
    if (own && !release)
        return tenon_fail(call, TENON_EFAILED, "%s is 'own': tenon_result_own() needs a release function",
                          tenon__result_label(f, index).text);
    if (of_owner && release)
        return tenon_fail(call, TENON_EFAILED, "%s is 'of(...)': its code must call tenon_result_of()",
                          tenon__result_label(f, index).text);
    if (!f->client->takes_memory)
        return tenon_fail(call, TENON_EFAILED, "this host (%s) cannot take results that are 'own' or 'of(...)'",
                          call->host->name);
    if (!tenon__call_check_shape(call, f->signature, &f->bindings, index, ndim, shape, &dtype))
        return TENON_EFAILED;
    size_t size = sizeof(library_memory) + 2 * (size_t)ndim * sizeof(int64_t);
    library_memory *library_result = tenon__block_alloc_finished(&f->blocks, size, finish_library_result);
    if (!library_result)
        return tenon_fail(call, TENON_ENOMEM, "no memory for %zu bytes", size);
    library_result->release = NULL; /* until the memory is taken */
    tenon_dl_tensor source = {.data = data, .ndim = ndim, .dtype = dtype};
    source.shape = (int64_t *)(uintptr_t)shape;
    source.strides = (int64_t *)(uintptr_t)strides;
    if (!check_library_result(call, index, &source, library_result))
        return TENON_EFAILED;
    library_result->owner = owner;
    library_result->release = release;
    f->results[index].as.view = &library_result->view;
    f->results[index].flags &= ~TENON_VALUE_UNSET;
    return TENON_OK;
}

tenon_status tenon_frame_take_memory(tenon_frame *f, int32_t index, void *owner, tenon_release_fn release,
                                     tenon_tensor **out, tenon_error *err)
{
    const tenon_view *view = f->results[index].as.view;
    library_memory *library_result = (library_memory *)(uintptr_t)view;
    uint32_t flags = f->signature->results[index].flags;
    bool own = flags & TENON_PARAMETER_OWN;
    if (!(flags & (TENON_PARAMETER_OWN | TENON_PARAMETER_OF)) || (f->results[index].flags & TENON_VALUE_UNSET) ||
        (own && !library_result->release))
        return tenon_error_set_in(err, TENON_EINVAL, f->signature->name,
                                  "%s is not memory that the function has given, or was already taken",
                                  tenon__result_label(f, index).text);
    tenon_blob blob = {.data = view->data, .byte_offset = view->byte_offset, .dtype = view->dtype};
    blob.device = view->device;
    blob.ndim = view->ndim;
    blob.shape = view->shape;
    blob.strides = view->strides;
    blob.flags = view->flags & (TENON_READ_ONLY | TENON_SUBBYTE_PADDED);
    blob.owner = own ? library_result->owner : owner;
    blob.release = own ? library_result->release : release;
    blob.stream = f->call.stream;
    tenon_status status = tenon_tensor_from_blob(&blob, out, err);
    if (!status)
        library_result->release = NULL;
    return status;
}

/* --------------------------------------------------------------------------------------------------------- objects */

int32_t tenon_frame_sort_objects(void **objects, int32_t count)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        void *object = objects[i];
        int32_t at = kept;
        while (at > 0 && (uintptr_t)objects[at - 1] > (uintptr_t)object)
            at--;
        if (at > 0 && objects[at - 1] == object)
            continue;
        memmove(objects + at + 1, objects + at, (size_t)(kept - at) * sizeof *objects);
        objects[at] = object;
        kept++;
    }
    return kept;
}
