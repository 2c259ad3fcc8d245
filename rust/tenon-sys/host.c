/* A host for Rust programs: it opens a library, and calls its functions with slices. Memory of results is a tenon_tensor's. */
#include "tenon.h"

#include <stdlib.h>
#include <string.h>

/* An argument as Rust gives it: a value, and for a tensor its memory. */
typedef struct tenon_rs_argument {
    tenon_value value;
    void *data;
    tenon_dtype dtype;
    int32_t ndim;
    const int64_t *shape;
    const int64_t *strides; /* in elements */
    bool writable;
} tenon_rs_argument;

/* A result: a number in `value`, or a tensor that the caller owns. A string is `text`, which the caller frees. */
typedef struct tenon_rs_result {
    tenon_value value;
    tenon_tensor *tensor;
    char *text;
    bool given;
} tenon_rs_result;

typedef struct tenon_rs_library {
    tenon_library_lock *lock;
    int64_t count;
    struct rs_function {
        tenon_function function;
        tenon_signature *signature;
        tenon_call constant;
    } functions[];
} tenon_rs_library;

typedef struct rs_frame {
    tenon_frame base; /* first */
    tenon_value args[TENON_MAX_PARAMETERS];
    tenon_value results[TENON_MAX_RESULTS];
    tenon_view views[TENON_MAX_PARAMETERS];
    tenon_view made_views[TENON_MAX_RESULTS];
    tenon_tensor *made[TENON_MAX_RESULTS];
    tenon_error *err;
    tenon_library_lock *lock;
    int64_t dims[TENON_MAX_PARAMETERS][16];
} rs_frame;

static void rs_refuse(tenon_frame *base, tenon_refusal why, int32_t index, const tenon_error *err)
{
    rs_frame *f = (rs_frame *)(void *)base;
    (void)index;
    if (why == TENON_REFUSED_BY_CODE)
        tenon_error_set(f->err, err->status, "%s(): %s", base->signature->name, err->message);
    else
        *f->err = *err;
}

static const char *rs_describe(tenon_frame *base, int32_t index)
{
    return base->args[index].kind == TENON_KIND_NONE ? NULL : "a value of Rust";
}

static int rs_open_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    rs_frame *f = (rs_frame *)(void *)base;
    tenon_error err;
    if (tenon_tensor_alloc(dtype, ndim, shape, 0, &f->made[index], &err) != TENON_OK)
        return tenon_fail(&base->call, err.status, "result %d: %s", (int)index, err.message) ? -1 : -1;
    f->made_views[index] = *tenon_tensor_view(f->made[index]);
    tenon_frame_set_result(base, index, &f->made_views[index], TENON_VIEW_WRITTEN | TENON_VIEW_FRESH);
    return 0;
}

static int rs_make_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    return rs_open_result(base, index, dtype, ndim, shape) < 0 ? tenon_frame_refuse_failure(base, TENON_ENOMEM) : 0;
}

static int rs_take_handle(tenon_frame *base, int32_t index, void *object, void (*destroy)(void *))
{
    (void)object;
    (void)destroy;
    return tenon_fail(&base->call, TENON_EFAILED, "result %d: Rust programs do not take objects", (int)index);
}

static tenon_status rs_run(tenon_frame *base)
{
    rs_frame *f = (rs_frame *)(void *)base;
    bool alone = !(base->call.function->flags & TENON_RELEASE_LOCK);
    if (alone)
        tenon_library_lock_enter(f->lock);
    tenon_status status = base->call.function->call(&base->call);
    if (alone)
        tenon_library_lock_leave(f->lock);
    return status;
}

static const tenon_client rs_client = {.refuse = rs_refuse,
                                       .describe = rs_describe,
                                       .make_result = rs_make_result,
                                       .open_result = rs_open_result,
                                       .take_handle = rs_take_handle,
                                       .run = rs_run,
                                       .takes_memory = true};
static const tenon_host rs_host = {TENON_HOST_SERVICES, .name = "rust"};

void tenon_rs_close(tenon_rs_library *library)
{
    for (int64_t i = 0; library && i < library->count; i++)
        tenon_signature_release(library->functions[i].signature);
    if (library)
        tenon_library_lock_release(library->lock);
    free(library);
}

tenon_status tenon_rs_open(const char *path, tenon_rs_library **out, tenon_error *err)
{
    const tenon_module *module = NULL;
    tenon_status status = tenon_library_open(path, &module, err);
    if (status != TENON_OK)
        return status;
    if (module->load)
        return tenon_error_set(err, TENON_EFAILED, "the library has state, which Rust programs do not load");
    size_t count = (size_t)module->nfunctions;
    tenon_rs_library *library = calloc(1, sizeof *library + count * sizeof library->functions[0]);
    if (!library)
        return tenon_error_set(err, TENON_ENOMEM, "out of memory");
    library->lock = tenon_library_lock_retain(module);
    library->count = module->nfunctions;
    for (int64_t i = 0; status == TENON_OK && i < library->count; i++) {
        struct rs_function *f = &library->functions[i];
        tenon_module_function(module, i, &f->function);
        status = tenon_signature_alloc(f->function.signature, module, TENON_HOST_LAYOUT, &f->signature, err);
        if (status == TENON_OK)
            tenon_call_init(&f->constant, &rs_host, &f->function, NULL, f->signature);
    }
    if (status != TENON_OK)
        tenon_rs_close(library);
    else
        *out = library;
    return status;
}

/* The index of a function by its name, or -1. `nparams` and `nresults` receive how many there are. */
int64_t tenon_rs_find(const tenon_rs_library *library, const char *name, int32_t *nparams, int32_t *nresults)
{
    for (int64_t i = 0; i < library->count; i++) {
        const tenon_signature *s = library->functions[i].signature;
        if (s->role == TENON_ROLE_FUNCTION && strcmp(s->name, name) == 0) {
            *nparams = s->nparams;
            *nresults = s->nresults;
            return i;
        }
    }
    return -1;
}

/* The text of a signature, which lives as long as the library. */
const char *tenon_rs_signature(const tenon_rs_library *library, int64_t index)
{
    return index >= 0 && index < library->count ? library->functions[index].signature->text : NULL;
}

static int rs_set_argument(rs_frame *f, int32_t index, const tenon_rs_argument *argument)
{
    const tenon_parameter *param = &f->base.signature->params[index];
    if (argument->value.kind != TENON_KIND_TENSOR) {
        f->args[index] = argument->value;
        bool is_choice = param->kind == TENON_KIND_ENUM && argument->value.kind == TENON_KIND_STR;
        for (int32_t i = 0; is_choice && i < param->count; i++) {
            size_t length = strlen(param->choices[i]);
            if ((int64_t)length == argument->value.as.list.length &&
                memcmp(param->choices[i], argument->value.as.list.data, length) == 0) {
                f->args[index].kind = TENON_KIND_ENUM;
                f->args[index].as.integer = i;
            }
        }
        if (f->args[index].kind == param->kind)
            return 0;
        if (!tenon_frame_refuse_earlier(&f->base, index))
            tenon_error_set(f->err, TENON_EDTYPE, "%s(): argument '%s': expected %s, got another kind of value",
                            f->base.signature->name, param->name, param->type);
        return -1;
    }
    tenon_dl_tensor source = {.data = argument->data,
                              .device = {TENON_CPU, 0},
                              .ndim = argument->ndim,
                              .dtype = argument->dtype,
                              .shape = (int64_t *)(uintptr_t)argument->shape,
                              .strides = (int64_t *)(uintptr_t)argument->strides};
    if (param->kind != TENON_KIND_TENSOR || argument->ndim > 8) {
        if (!tenon_frame_refuse_earlier(&f->base, index))
            tenon_error_set(f->err, TENON_EDTYPE, "%s(): argument '%s': expected %s, got an array",
                            f->base.signature->name, param->name, param->type);
        return -1;
    }
    if (tenon_view_init(&f->views[index], &source, argument->writable ? 0 : TENON_READ_ONLY, f->dims[index], f->err))
        return -1;
    tenon_frame_set_view(&f->base, index, &f->views[index]);
    return 0;
}

static int rs_give(rs_frame *f, int32_t index, tenon_rs_result *out)
{
    const tenon_parameter *result = &f->base.signature->results[index];
    if (f->results[index].kind == TENON_KIND_TENSOR) {
        if (f->made[index]) {
            out->tensor = f->made[index];
            f->made[index] = NULL;
            out->given = true;
            return 0;
        }
        if (result->flags & TENON_PARAMETER_OWN && !(f->results[index].flags & TENON_VALUE_UNSET)) {
            out->given = true;
            return tenon_frame_take_memory(&f->base, index, NULL, NULL, &out->tensor, f->err) == TENON_OK ? 0 : -1;
        }
    }
    int there = tenon_frame_has_result(&f->base, index);
    if (there <= 0)
        return there;
    out->value = f->results[index];
    out->given = true;
    if (out->value.kind != TENON_KIND_STR)
        return 0;
    size_t length = (size_t)out->value.as.list.length;
    out->text = malloc(length + 1);
    if (!out->text)
        return tenon_error_set(f->err, TENON_ENOMEM, "out of memory") ? -1 : -1;
    memcpy(out->text, out->value.as.list.data, length);
    return 0;
}

/* Call a function. On failure nothing is given. */
tenon_status tenon_rs_call(const tenon_rs_library *library, int64_t index, const tenon_rs_argument *args, int32_t count,
                           tenon_rs_result *results, tenon_error *err)
{
    const struct rs_function *function = &library->functions[index];
    const tenon_signature *s = function->signature;
    rs_frame *f = malloc(sizeof *f);
    if (!f)
        return tenon_error_set(err, TENON_ENOMEM, "out of memory");
    memset(f->made, 0, sizeof f->made);
    err->status = TENON_OK;
    f->err = err;
    f->lock = library->lock;
    f->base.args = f->args;
    f->base.results = f->results;
    tenon_frame_begin(&f->base, &rs_client, &function->constant, s);
    f->base.call.results = f->results;
    for (int32_t i = 0; i < s->nresults; i++)
        tenon_frame_begin_result(&f->base, i);
    int failed = 0;
    if (count > s->nparams)
        failed = tenon_error_set(err, TENON_EINVAL, "%s(): expected %d arguments, got %d", s->name, (int)s->nparams,
                                 (int)count);
    for (int32_t i = 0; !failed && i < s->nparams; i++)
        if (!tenon_frame_set_missing(&f->base, i, i < count, i < count && args[i].value.kind == TENON_KIND_NONE))
            failed = rs_set_argument(f, i, &args[i]);
    failed = failed || tenon_frame_match(&f->base) || tenon_frame_make_results(&f->base, &rs_client) ||
             tenon_frame_run(&f->base, &rs_client);
    for (int32_t i = 0; !failed && i < s->nresults; i++)
        failed = rs_give(f, i, &results[i]);
    for (int32_t i = 0; i < s->nresults; i++) {
        tenon_tensor_release(f->made[i]);
        if (failed && results[i].given) {
            tenon_tensor_release(results[i].tensor);
            free(results[i].text);
            memset(&results[i], 0, sizeof results[i]);
        }
    }
    tenon_frame_end(&f->base);
    free(f);
    return !failed ? TENON_OK : err->status ? err->status : TENON_EFAILED;
}

void tenon_rs_free(void *text)
{
    free(text);
}
