/* A host for Rust programs: it opens a library, and calls its functions with slices, tensors, objects and closures. */
#include "tenon.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* An object of a library. */
typedef struct tenon_rs_object {
    atomic_size_t count;
    void *object;
    void (*destroy)(void *object);
    const char *type; /* the name of its class, which lives as long as the library */
    const void *library;
    tenon_library_lock *lock;
    bool is_in_use; /* guarded by the lock, which is recursive */
} tenon_rs_object;

/* Calls a closure: 0, or -1 with `err`. A result's kind is set. */
typedef int (*tenon_rs_invoke)(void *closure, const tenon_value *args, int32_t nargs, tenon_value *results, int32_t nresults,
                               tenon_error *err);

/* An argument as Rust gives it: a value; for a tensor its memory, and the tensor if it can outlive the call; the items of a list;
 * an object; a closure. */
typedef struct tenon_rs_argument {
    tenon_value value;
    void *data;
    tenon_dtype dtype;
    int32_t ndim;
    const int64_t *shape;
    const int64_t *strides; /* in elements */
    bool writable;
    tenon_tensor *tensor;
    const struct tenon_rs_argument *items;
    int64_t count;
    tenon_rs_object *object;
    void *closure;
    tenon_rs_invoke invoke;
} tenon_rs_argument;

/* A result: a number in `value`; tensors that the caller owns; an object that it owns; or bytes that it frees, which are those of a
 * string, of bytes, of a list of numbers, or of strings with their lengths. */
typedef struct tenon_rs_result {
    tenon_value value;
    tenon_tensor **tensors;
    tenon_rs_object *object;
    char *bytes;
    int64_t count;
    bool given;
    bool is_shared; /* the memory is an object's, or an argument's */
} tenon_rs_result;

typedef struct tenon_rs_library {
    tenon_library_lock *lock;
    const tenon_module *module;
    void *state;
    int64_t count;
    struct rs_function {
        tenon_function function;
        tenon_signature *signature;
        tenon_call constant;
    } functions[];
} tenon_rs_library;

typedef struct rs_made { /* the tensors of one result */
    tenon_tensor **tensors;
    int64_t count, room;
} rs_made;

typedef struct rs_frame {
    tenon_frame base; /* first */
    tenon_value args[TENON_MAX_PARAMETERS];
    tenon_value results[TENON_MAX_RESULTS];
    tenon_view views[TENON_MAX_PARAMETERS];
    tenon_view made_views[TENON_MAX_RESULTS];
    rs_made made[TENON_MAX_RESULTS];
    tenon_rs_object *objects[TENON_MAX_RESULTS];
    const tenon_rs_argument *given[TENON_MAX_PARAMETERS]; /* NULL: it was left out */
    const tenon_rs_library *library;
    tenon_error *err;
    bool is_quiet; /* an entry of an overloaded function: the next one is tried */
} rs_frame;

static void rs_refuse(tenon_frame *base, tenon_refusal why, int32_t index, const tenon_error *err)
{
    rs_frame *f = (rs_frame *)(void *)base;
    (void)index;
    if (why == TENON_REFUSED_BY_CODE && base->signature)
        tenon_error_set(f->err, err->status, "%s(): %s", base->signature->name, err->message);
    else
        *f->err = *err;
}

static const char *rs_describe(tenon_frame *base, int32_t index)
{
    return base->args[index].kind == TENON_KIND_NONE ? NULL : "a value of Rust";
}

/* ------------------------------------------------------------------------------------------------------------ objects */

void tenon_rs_object_retain(tenon_rs_object *object)
{
    atomic_fetch_add_explicit(&object->count, 1, memory_order_relaxed);
}

void tenon_rs_object_release(void *pointer)
{
    tenon_rs_object *object = pointer;
    if (!object || atomic_fetch_sub_explicit(&object->count, 1, memory_order_acq_rel) != 1)
        return;
    object->destroy(object->object);
    tenon_library_lock_release(object->lock);
    free(object);
}

const char *tenon_rs_object_class(const tenon_rs_object *object)
{
    return object->type;
}

static int rs_take_handle(tenon_frame *base, int32_t index, void *object, void (*destroy)(void *))
{
    rs_frame *f = (rs_frame *)(void *)base;
    tenon_rs_object *made = calloc(1, sizeof *made);
    tenon_library_lock *lock = made ? tenon_library_lock_retain(made) : NULL;
    if (!lock) {
        free(made);
        return tenon_fail(&base->call, TENON_ENOMEM, "result %d: out of memory", (int)index);
    }
    tenon_rs_object_release(f->objects[index]);
    *made = (tenon_rs_object){.object = object,
                              .destroy = destroy,
                              .type = base->signature->results[index].handle,
                              .library = f->library,
                              .lock = lock};
    atomic_init(&made->count, 1);
    f->objects[index] = made;
    f->results[index].flags &= ~TENON_VALUE_UNSET;
    return 0;
}

/* Lock the objects that are used by one call at a time: how many, or -1 if the caller's own call has one of them. */
static int32_t rs_lock_objects(rs_frame *f, void **objects)
{
    const tenon_signature *s = f->base.signature;
    int32_t count = 0;
    for (int32_t i = 0; s->nserial && i < s->nparams; i++)
        if ((s->params[i].flags & TENON_PARAMETER_SERIAL) && f->args[i].kind == TENON_KIND_HANDLE)
            objects[count++] = f->given[i]->object;
    count = tenon_frame_sort_objects(objects, count);
    for (int32_t i = 0; i < count; i++) {
        tenon_rs_object *object = objects[i];
        tenon_library_lock_enter(object->lock);
        if (object->is_in_use) {
            tenon_library_lock_leave(object->lock);
            tenon_error_set(f->err, TENON_EFAILED,
                            "%s(): this %s is in use by the call that this code was called from; use it after that call",
                            s->name, object->type);
            while (i-- > 0) {
                ((tenon_rs_object *)objects[i])->is_in_use = false;
                tenon_library_lock_leave(((tenon_rs_object *)objects[i])->lock);
            }
            return -1;
        }
        object->is_in_use = true;
    }
    return count;
}

static void rs_unlock_objects(void **objects, int32_t count)
{
    while (count-- > 0) {
        tenon_rs_object *object = objects[count];
        object->is_in_use = false;
        tenon_library_lock_leave(object->lock);
    }
}

/* ------------------------------------------------------------------------------------------------------------ tensors */

/* Make a tensor of a result. */
static int rs_make(rs_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape, tenon_view *view)
{
    rs_made *made = &f->made[index];
    tenon_error err;
    if (made->count == made->room) {
        int64_t room = made->room ? 2 * made->room : 1;
        void *more = realloc(made->tensors, (size_t)room * sizeof *made->tensors);
        if (!more)
            return tenon_fail(&f->base.call, TENON_ENOMEM, "result %d: out of memory", (int)index);
        made->tensors = more;
        made->room = room;
    }
    if (tenon_tensor_alloc(dtype, ndim, shape, 0, &made->tensors[made->count], &err) != TENON_OK)
        return tenon_fail(&f->base.call, err.status, "result %d: %s", (int)index, err.message);
    *view = *tenon_tensor_view(made->tensors[made->count++]);
    return 0;
}

static int rs_open_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    rs_frame *f = (rs_frame *)(void *)base;
    if (rs_make(f, index, dtype, ndim, shape, &f->made_views[index]))
        return -1;
    tenon_frame_set_result(base, index, &f->made_views[index], TENON_VIEW_WRITTEN | TENON_VIEW_FRESH);
    return 0;
}

static int rs_make_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    return rs_open_result(base, index, dtype, ndim, shape) ? tenon_frame_refuse_failure(base, TENON_ENOMEM) : 0;
}

static int rs_open_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                        tenon_view *view)
{
    (void)item;
    return rs_make((rs_frame *)(void *)base, index, dtype, ndim, shape, view) ? -1 : 0;
}

static int rs_make_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                        tenon_view *view)
{
    return rs_open_item(base, index, item, dtype, ndim, shape, view) ? tenon_frame_refuse_failure(base, TENON_ENOMEM) : 0;
}

typedef struct rs_kept {
    tenon_kept kept; /* first */
    tenon_tensor *tensor;
} rs_kept;

static void rs_release_kept(tenon_kept *kept)
{
    tenon_tensor_release(((rs_kept *)(void *)kept)->tensor);
    free(kept);
}

static tenon_kept *rs_keep_argument(tenon_frame *base, int32_t index)
{
    rs_frame *f = (rs_frame *)(void *)base;
    tenon_tensor *tensor = f->given[index] ? f->given[index]->tensor : NULL;
    const char *name = base->signature->params[index].name;
    if (!tensor) {
        tenon_fail(&base->call, TENON_EINVAL, "argument '%s' is kept after the call, so it cannot be a slice; pass an Array", name);
        return NULL;
    }
    rs_kept *kept = malloc(sizeof *kept);
    if (!kept) {
        tenon_fail(&base->call, TENON_ENOMEM, "argument '%s': out of memory", name);
        return NULL;
    }
    *kept = (rs_kept){.kept = {.size = sizeof kept->kept, .view = tenon_tensor_view(tensor), .release = rs_release_kept},
                      .tensor = tenon_tensor_retain(tensor)};
    return &kept->kept;
}

static void rs_release_tensor(void *tensor)
{
    tenon_tensor_release(tensor);
}

/* Take a result that is "own" or "of(...)". */
static int rs_take_memory(rs_frame *f, int32_t index, tenon_tensor **out)
{
    const tenon_parameter *result = &f->base.signature->results[index];
    if (result->flags & TENON_PARAMETER_OWN)
        return tenon_frame_take_memory(&f->base, index, NULL, NULL, out, f->err) == TENON_OK ? 0 : -1;
    const tenon_rs_argument *owner = f->given[result->owner];
    if (!owner || (!owner->object && !owner->tensor)) {
        tenon_error_set(f->err, TENON_EINVAL,
                        "%s(): result %d is memory of argument '%s', which cannot be a slice; pass an Array",
                        f->base.signature->name, (int)index, f->base.signature->params[result->owner].name);
        return -1;
    }
    void *share = owner->object;
    if (owner->object)
        tenon_rs_object_retain(owner->object);
    else
        share = tenon_tensor_retain(owner->tensor);
    tenon_release_fn release = owner->object ? tenon_rs_object_release : rs_release_tensor;
    if (tenon_frame_take_memory(&f->base, index, share, release, out, f->err) == TENON_OK)
        return 0;
    release(share);
    return -1;
}

/* ---------------------------------------------------------------------------------------------------------- the client */

static int rs_callback(tenon_frame *base, const tenon_callback_call *call)
{
    const rs_frame *f = (const rs_frame *)(const void *)base;
    const tenon_rs_argument *given = f->given[call->index];
    tenon_error err = {.status = TENON_EFAILED};
    if (given->invoke(given->closure, call->args, call->signature->nparams, call->results, call->signature->nresults, &err) == 0)
        return 0;
    return tenon_fail(&base->call, err.status, "%s", err.message);
}

static tenon_status rs_run(tenon_frame *base)
{
    rs_frame *f = (rs_frame *)(void *)base;
    bool alone = !(base->call.function->flags & TENON_RELEASE_LOCK);
    if (alone)
        tenon_library_lock_enter(f->library->lock);
    tenon_status status = base->call.function->call(&base->call);
    if (alone)
        tenon_library_lock_leave(f->library->lock);
    return status;
}

static const tenon_client rs_client = {.refuse = rs_refuse,
                                       .describe = rs_describe,
                                       .make_result = rs_make_result,
                                       .open_result = rs_open_result,
                                       .take_handle = rs_take_handle,
                                       .run = rs_run,
                                       .keep_argument = rs_keep_argument,
                                       .make_item = rs_make_item,
                                       .open_item = rs_open_item,
                                       .callback = rs_callback,
                                       .takes_memory = true};
static const tenon_host rs_host = {TENON_HOST_SERVICES, .name = "rust"};

/* ---------------------------------------------------------------------------------------------------------- libraries */

void tenon_rs_close(tenon_rs_library *library)
{
    if (!library)
        return;
    if (library->state && library->module->unload)
        library->module->unload(library->state);
    for (int64_t i = 0; i < library->count; i++)
        tenon_signature_release(library->functions[i].signature);
    tenon_library_lock_release(library->lock);
    free(library);
}

static tenon_status rs_load_state(tenon_rs_library *library, tenon_error *err)
{
    rs_frame *f = library->module->load ? calloc(1, sizeof *f) : NULL;
    if (!f)
        return library->module->load ? tenon_error_set(err, TENON_ENOMEM, "out of memory") : TENON_OK;
    f->err = err;
    f->library = library;
    err->status = TENON_EFAILED;
    int failed = tenon_frame_load(&f->base, &rs_client, &rs_host, library->module, &library->state);
    tenon_frame_end(&f->base);
    free(f);
    return failed ? err->status : TENON_OK;
}

tenon_status tenon_rs_open(const char *path, tenon_rs_library **out, tenon_error *err)
{
    const tenon_module *module = NULL;
    tenon_status status = tenon_library_open(path, &module, err);
    if (status != TENON_OK)
        return status;
    size_t count = (size_t)module->nfunctions;
    tenon_rs_library *library = calloc(1, sizeof *library + count * sizeof library->functions[0]);
    if (!library)
        return tenon_error_set(err, TENON_ENOMEM, "out of memory");
    library->lock = tenon_library_lock_retain(module);
    library->module = module;
    library->count = module->nfunctions;
    for (int64_t i = 0; status == TENON_OK && i < library->count; i++) {
        struct rs_function *f = &library->functions[i];
        tenon_module_function(module, i, &f->function);
        status = tenon_signature_alloc(f->function.signature, module, TENON_HOST_LAYOUT, &f->signature, err);
    }
    if (status == TENON_OK)
        status = rs_load_state(library, err);
    for (int64_t i = 0; status == TENON_OK && i < library->count; i++) {
        struct rs_function *f = &library->functions[i];
        tenon_call_init(&f->constant, &rs_host, &f->function, library->state, f->signature);
    }
    if (status != TENON_OK)
        tenon_rs_close(library);
    else
        *out = library;
    return status;
}

static bool rs_is_callable(const tenon_signature *s)
{
    return s->role != TENON_ROLE_CLASS && s->role != TENON_ROLE_CONSTANT;
}

/* The index of the first entry from `from` on that has this name ("f", "Table", "Table.sums"), or -1. */
int64_t tenon_rs_find(const tenon_rs_library *library, const char *name, int64_t from)
{
    for (int64_t i = from; i < library->count; i++) {
        const tenon_signature *s = library->functions[i].signature;
        if (rs_is_callable(s) && strcmp(s->name, name) == 0)
            return i;
    }
    return -1;
}

/* The text of a signature, which lives as long as the library. */
const char *tenon_rs_signature(const tenon_rs_library *library, int64_t index)
{
    return index >= 0 && index < library->count ? library->functions[index].signature->text : NULL;
}

/* ---------------------------------------------------------------------------------------------------------- arguments */

static int rs_refuse_kind(rs_frame *f, int32_t index, const char *what)
{
    const tenon_parameter *param = &f->base.signature->params[index];
    if (f->is_quiet || !tenon_frame_refuse_earlier(&f->base, index))
        tenon_error_set(f->err, TENON_EDTYPE, "%s(): argument '%s': expected %s, got %s", f->base.signature->name, param->name,
                        param->type, what);
    return -1;
}

/* A view of an argument's memory, whose shape and strides are in a block. */
static int rs_view(rs_frame *f, const tenon_rs_argument *argument, tenon_view *view)
{
    int64_t *dims = tenon_block_alloc(&f->base.blocks, (size_t)(2 * argument->ndim + 1) * sizeof *dims, 16);
    tenon_dl_tensor source = {.data = argument->data,
                              .device = {TENON_CPU, 0},
                              .ndim = argument->ndim,
                              .dtype = argument->dtype,
                              .shape = (int64_t *)(uintptr_t)argument->shape,
                              .strides = (int64_t *)(uintptr_t)argument->strides};
    if (!dims)
        return tenon_error_set(f->err, TENON_ENOMEM, "out of memory") ? -1 : -1;
    return tenon_view_init(view, &source, argument->writable ? 0 : TENON_READ_ONLY, dims, f->err) ? -1 : 0;
}

static int rs_set_list(rs_frame *f, int32_t index, const tenon_rs_argument *argument)
{
    tenon_view *views = tenon_block_alloc(&f->base.blocks, (size_t)(argument->count + 1) * sizeof *views, 16);
    if (!views)
        return tenon_error_set(f->err, TENON_ENOMEM, "out of memory") ? -1 : -1;
    for (int64_t i = 0; i < argument->count; i++) {
        if (argument->items[i].value.kind != TENON_KIND_TENSOR)
            return rs_refuse_kind(f, index, "a list with an item that is not an array");
        if (rs_view(f, &argument->items[i], &views[i]))
            return -1;
    }
    tenon_frame_set_list(&f->base, index, views, argument->count);
    return 0;
}

/* A number, a string or a list of them: its kind is the parameter's, or is converted without a loss. */
static int rs_set_value(rs_frame *f, int32_t index, const tenon_rs_argument *argument)
{
    const tenon_parameter *param = &f->base.signature->params[index];
    tenon_value *value = &f->args[index];
    *value = argument->value;
    bool is_choice = param->kind == TENON_KIND_ENUM && value->kind == TENON_KIND_STR;
    for (int32_t i = 0; is_choice && i < param->count; i++) {
        size_t length = strlen(param->choices[i]);
        if ((int64_t)length == argument->value.as.list.length &&
            memcmp(param->choices[i], argument->value.as.list.data, length) == 0) {
            value->kind = TENON_KIND_ENUM;
            value->as.integer = i;
        }
    }
    if (param->kind == TENON_KIND_FLOAT && value->kind == TENON_KIND_INT) {
        value->kind = TENON_KIND_FLOAT;
        value->as.number = (double)argument->value.as.integer;
    }
    if (param->kind == TENON_KIND_UINT && value->kind == TENON_KIND_INT && argument->value.as.integer >= 0)
        value->kind = TENON_KIND_UINT;
    return value->kind == param->kind ? 0 : rs_refuse_kind(f, index, "another kind of value");
}

static int rs_set_argument(rs_frame *f, int32_t index, const tenon_rs_argument *argument)
{
    const tenon_parameter *param = &f->base.signature->params[index];
    if (argument->value.kind == TENON_KIND_TENSOR) {
        if (param->kind != TENON_KIND_TENSOR)
            return rs_refuse_kind(f, index, "an array");
        if (rs_view(f, argument, &f->views[index]))
            return -1;
        tenon_frame_set_view(&f->base, index, &f->views[index]);
        return 0;
    }
    if (argument->value.kind != param->kind)
        return rs_set_value(f, index, argument);
    if (param->kind == TENON_KIND_TENSORS)
        return rs_set_list(f, index, argument);
    if (param->kind == TENON_KIND_CALLABLE) {
        tenon_frame_set_callable(&f->base, index, argument->closure);
        return 0;
    }
    if (param->kind != TENON_KIND_HANDLE)
        return rs_set_value(f, index, argument);
    tenon_rs_object *object = argument->object;
    if (!(param->flags & TENON_PARAMETER_CLASS) || object->library != f->library || strcmp(object->type, param->handle) != 0)
        return rs_refuse_kind(f, index, "an object of another class");
    f->args[index] = (tenon_value){.kind = TENON_KIND_HANDLE, .as.handle = {object->object, param->handle}};
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------ results */

/* Copy the bytes of a string or a list. The strings of a list are written one after the other, each after its length. */
static int rs_give_bytes(rs_frame *f, const tenon_value *value, tenon_rs_result *out)
{
    const tenon_text *texts = value->as.list.data;
    size_t item = value->kind == TENON_KIND_INTS || value->kind == TENON_KIND_FLOATS ? 8 : 1;
    size_t size = (size_t)value->as.list.length * item;
    if (value->kind == TENON_KIND_STRS) {
        size = 0;
        for (int64_t i = 0; i < value->as.list.length; i++)
            size += sizeof(uint64_t) + texts[i].length;
    }
    out->bytes = malloc(size + 1);
    if (!out->bytes)
        return tenon_error_set(f->err, TENON_ENOMEM, "out of memory") ? -1 : -1;
    out->count = (int64_t)size;
    if (value->kind != TENON_KIND_STRS) {
        if (size)
            memcpy(out->bytes, value->as.list.data, size);
        return 0;
    }
    char *at = out->bytes;
    for (int64_t i = 0; i < value->as.list.length; i++) {
        uint64_t length = texts[i].length;
        memcpy(at, &length, sizeof length);
        if (length)
            memcpy(at + sizeof length, texts[i].data, texts[i].length);
        at += sizeof length + texts[i].length;
    }
    return 0;
}

static int rs_give_tensor(rs_frame *f, int32_t index, tenon_rs_result *out)
{
    rs_made *made = &f->made[index];
    const tenon_parameter *result = &f->base.signature->results[index];
    bool is_given = !(f->results[index].flags & TENON_VALUE_UNSET);
    if (made->count == 0 && is_given && result->kind == TENON_KIND_TENSOR) {
        made->tensors = malloc(sizeof *made->tensors);
        if (!made->tensors)
            return tenon_error_set(f->err, TENON_ENOMEM, "out of memory") ? -1 : -1;
        if (rs_take_memory(f, index, &made->tensors[0]))
            return -1;
        made->count = 1;
        out->is_shared = !(result->flags & TENON_PARAMETER_OWN);
    } else if (made->count == 0 && result->kind == TENON_KIND_TENSOR) {
        return tenon_frame_check_result(&f->base, index) < 0 ? -1 : 0;
    }
    out->tensors = made->tensors;
    out->count = made->count;
    out->value.kind = result->kind;
    out->given = true;
    *made = (rs_made){NULL, 0, 0};
    return 0;
}

static int rs_give(rs_frame *f, int32_t index, tenon_rs_result *out)
{
    uint32_t kind = f->results[index].kind;
    if (kind == TENON_KIND_TENSOR || kind == TENON_KIND_TENSORS)
        return rs_give_tensor(f, index, out);
    if (kind == TENON_KIND_HANDLE && f->objects[index]) {
        out->value.kind = kind;
        out->object = f->objects[index];
        out->given = true;
        f->objects[index] = NULL;
        return 0;
    }
    int there = tenon_frame_has_result(&f->base, index);
    if (there <= 0)
        return there;
    out->value = f->results[index];
    out->given = true;
    bool is_list = kind == TENON_KIND_STR || kind == TENON_KIND_BYTES || kind == TENON_KIND_INTS || kind == TENON_KIND_FLOATS ||
                   kind == TENON_KIND_STRS;
    return is_list ? rs_give_bytes(f, &f->results[index], out) : 0;
}

/* --------------------------------------------------------------------------------------------------------------- call */

static void rs_release_tensors(tenon_tensor **tensors, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        tenon_tensor_release(tensors[i]);
    free(tensors);
}

static void rs_end(rs_frame *f, tenon_rs_result *results, bool failed)
{
    for (int32_t i = 0; i < f->base.signature->nresults; i++) {
        rs_release_tensors(f->made[i].tensors, f->made[i].count);
        tenon_rs_object_release(f->objects[i]);
        if (failed && results[i].given) {
            if (results[i].tensors)
                rs_release_tensors(results[i].tensors, results[i].count);
            tenon_rs_object_release(results[i].object);
            free(results[i].bytes);
            memset(&results[i], 0, sizeof results[i]);
        }
    }
    tenon_frame_end(&f->base);
    free(f);
}

/* The arguments are set and match: 1; they do not match an overloaded entry: 0; refused: -1. */
static int rs_match(rs_frame *f, const tenon_rs_argument *args, int32_t count)
{
    const tenon_signature *s = f->base.signature;
    if (count > s->nparams) {
        tenon_error_set(f->err, TENON_EINVAL, "%s(): expected %d arguments, got %d", s->name, (int)s->nparams, (int)count);
        return f->is_quiet ? 0 : -1;
    }
    for (int32_t i = 0; i < s->nparams; i++) {
        bool passed = i < count;
        f->given[i] = passed ? &args[i] : NULL;
        if (!tenon_frame_set_missing(&f->base, i, passed, passed && args[i].value.kind == TENON_KIND_NONE) &&
            rs_set_argument(f, i, &args[i]))
            return f->is_quiet ? 0 : -1;
    }
    if (f->is_quiet)
        return tenon_frame_try_match(&f->base) ? 1 : 0;
    return tenon_frame_match(&f->base) ? -1 : 1;
}

/* Call an entry. 0: it is overloaded, and does not match. */
static int rs_call_entry(const tenon_rs_library *library, int64_t index, bool is_quiet, const tenon_rs_argument *args,
                         int32_t count, tenon_rs_result *results, tenon_error *err)
{
    const struct rs_function *function = &library->functions[index];
    const tenon_signature *s = function->signature;
    rs_frame *f = calloc(1, sizeof *f);
    if (!f)
        return tenon_error_set(err, TENON_ENOMEM, "out of memory") ? -1 : -1;
    f->err = err;
    f->is_quiet = is_quiet;
    f->library = library;
    f->base.args = f->args;
    f->base.results = f->results;
    tenon_frame_begin(&f->base, &rs_client, &function->constant, s);
    f->base.call.results = f->results;
    for (int32_t i = 0; i < s->nresults; i++)
        tenon_frame_begin_result(&f->base, i);
    int matched = rs_match(f, args, count);
    bool failed = matched <= 0 || tenon_frame_make_results(&f->base, &rs_client);
    void *objects[TENON_MAX_PARAMETERS];
    int32_t nobjects = failed ? 0 : rs_lock_objects(f, objects);
    failed = failed || nobjects < 0 || tenon_frame_run(&f->base, &rs_client);
    for (int32_t i = 0; !failed && i < s->nresults; i++)
        failed = rs_give(f, i, &results[i]) != 0;
    if (nobjects > 0)
        rs_unlock_objects(objects, nobjects);
    rs_end(f, results, failed);
    return failed ? (matched == 0 ? 0 : -1) : 1;
}

/* Call a function: the first entry of its name that the arguments match. `results` has room for TENON_MAX_RESULTS, all zeros, and
 * *nresults receives how many that entry has. On failure nothing is given. */
tenon_status tenon_rs_call(const tenon_rs_library *library, int64_t index, const tenon_rs_argument *args, int32_t count,
                           tenon_rs_result *results, int32_t *nresults, tenon_error *err)
{
    int done = 0;
    while (index >= 0 && done == 0) {
        int64_t next = tenon_rs_find(library, library->functions[index].signature->name, index + 1);
        err->status = TENON_OK;
        *nresults = library->functions[index].signature->nresults;
        done = rs_call_entry(library, index, next >= 0, args, count, results, err);
        index = next;
    }
    return done == 1 ? TENON_OK : err->status ? err->status : TENON_EFAILED;
}

void tenon_rs_free(void *memory)
{
    free(memory);
}
