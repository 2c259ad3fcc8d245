/* One call: a client of the call driver whose arguments and results are XLA's buffers and attributes. */
#include "frame.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- errors */

_Atomic(const char *) tenon__jax_array_name = "jax.Array";

static void jax_refuse(tenon_frame *base, tenon_refusal why, int32_t index, const tenon_error *err)
{
    tenon_error *out = jax_frame_of(base)->err;
    (void)index;
    if (why == TENON_REFUSED_BY_CODE)
        tenon_error_set(out, err->status, "%s(): %s", base->signature->name, err->message);
    else
        *out = *err;
}

static const char *jax_describe(tenon_frame *base, int32_t index)
{
    static const char *const kind_names[] = {
        [TENON_KIND_INT] = "int",         [TENON_KIND_FLOAT] = "float",  [TENON_KIND_BOOL] = "bool",
        [TENON_KIND_STR] = "str",         [TENON_KIND_ENUM] = "str",     [TENON_KIND_INTS] = "tuple",
        [TENON_KIND_FLOATS] = "tuple",    [TENON_KIND_TENSORS] = "list", [TENON_KIND_UINT] = "int",
        [TENON_KIND_COMPLEX] = "complex", [TENON_KIND_DTYPE] = "str"};
    uint32_t kind = base->signature->params[index].kind;
    switch (jax_frame_of(base)->letters[index]) {
    case 'd':
        return NULL;
    case 'n':
        return "NoneType";
    default:
        return kind == TENON_KIND_TENSOR ? atomic_load(&tenon__jax_array_name) : kind_names[kind];
    }
}

static const char *jax_describe_item(tenon_frame *base, int32_t index, int64_t item)
{
    (void)base;
    (void)index;
    (void)item;
    return atomic_load(&tenon__jax_array_name);
}

/* The program does not keep to the rules in internal.h. Returns -1. */
int tenon__jax_malformed(jax_frame *f, const char *what)
{
    tenon_error_set_in(f->err, TENON_EINVAL, f->base.signature->name, "the program was not made by tenon.jax_ops(): %s",
                       what);
    return -1;
}

/* Argument `index` cannot be read. If an earlier one does not match, that is the error. Returns -1. */
int tenon__jax_refuse(jax_frame *f, int32_t index, tenon_status status, const char *reason)
{
    if (!tenon_frame_refuse_earlier(&f->base, index))
        tenon_error_set_in(f->err, status, f->base.signature->name, "argument '%s': %s",
                           f->base.signature->params[index].name, reason);
    return -1;
}

int tenon__jax_refuse_kind(jax_frame *f, int32_t index, const char *got)
{
    char reason[256];
    snprintf(reason, sizeof reason, "expected %.150s, got %.64s", f->base.signature->params[index].type, got);
    return tenon__jax_refuse(f, index, TENON_EDTYPE, reason);
}

/* ---------------------------------------------------------------------------------------------------------- tensors */

/* Describe a buffer, which is in C order, or in Fortran order. On failure the error names no function. */
static tenon_status jax_init_view(jax_frame *f, jax_tensor *tensor, const xla_buffer *buffer, uint64_t flags,
                                  bool fortran, tenon_error *err)
{
    const tenon_dtype *dtype = jax_dtype(buffer->dtype);
    int64_t strides[TENON_MAX_NDIM], *dims = tensor->dims;
    if (!dtype)
        return tenon_error_set(err, TENON_EDTYPE, "Tenon does not take XLA's dtype %d", (int)buffer->dtype);
    if (buffer->rank < 0 || buffer->rank > TENON_MAX_NDIM)
        return tenon_error_set(err, TENON_ESHAPE, "it has %lld dimensions, and the limit is %d",
                               (long long)buffer->rank, TENON_MAX_NDIM);
    if (buffer->rank > JAX_INLINE_DIMS &&
        !(dims = tenon_block_alloc(&f->base.blocks, 2 * (size_t)buffer->rank * sizeof *dims, 0)))
        return tenon_error_set(err, TENON_ENOMEM, "out of memory");
    int32_t ndim = (int32_t)buffer->rank;
    if (!fortran &&
        tenon_view_init_fast(&tensor->view, buffer->data, dtype, ndim, buffer->dims, NULL, 0, flags, dims)) {
        tensor->view.device = f->base.call.device;
        return TENON_OK;
    }
    tenon_dl_tensor source = {.data = buffer->data,
                              .device = f->base.call.device,
                              .ndim = ndim,
                              .dtype = *dtype,
                              .shape = buffer->dims,
                              .strides = fortran ? strides : NULL};
    tenon_status status = fortran ? tenon_shape_strides(ndim, buffer->dims, 'F', strides, err) : TENON_OK;
    return status ? status : tenon_view_init(&tensor->view, &source, flags, dims, err);
}

int64_t tenon__jax_result_place(const jax_frame *f, int32_t index)
{
    int64_t place = 0;
    for (int32_t i = 0; i < index; i++) {
        const tenon_parameter *result = &f->base.signature->results[i];
        const tenon_value *list = result->items ? &f->args[result->owner] : NULL;
        place += !list ? 1 : list->kind == TENON_KIND_TENSORS ? list->as.list.length : 0;
    }
    return place;
}

/* A tensor that is written to is also one of the last results, in the same memory. */
static int jax_check_written(const jax_frame *f, const tenon_view *view, int64_t *place)
{
    const xla_buffer *result = jax_buffer(&f->xla->results, (*place)++);
    return result && (result->data == view->data || view->numel == 0) ? 0 : -1;
}

static int jax_check_all_written(jax_frame *f)
{
    const tenon_signature *s = f->base.signature;
    int64_t place = tenon__jax_result_place(f, s->nresults);
    int status = 0;
    for (int32_t i = 0; s->nwritten && i < s->nparams; i++) {
        const tenon_spec *spec = s->params[i].items ? s->params[i].items : s->params[i].spec;
        if (!spec || !(spec->flags & TENON_SPEC_WRITE))
            continue;
        if (f->args[i].kind == TENON_KIND_TENSOR)
            status |= jax_check_written(f, f->args[i].as.view, &place);
        const tenon_view *views = f->args[i].as.list.data;
        for (int64_t k = 0; f->args[i].kind == TENON_KIND_TENSORS && k < f->args[i].as.list.length; k++)
            status |= jax_check_written(f, &views[k], &place);
    }
    if (status < 0)
        return tenon__jax_malformed(f, "an operand that is written to is not a result in the same memory");
    return place == f->xla->results.count ? 0 : tenon__jax_malformed(f, "the number of results is wrong");
}

/* Describe the next operand, which is argument `index`, or `item` of that list if it is not -1. */
static int jax_take_operand(jax_frame *f, int32_t index, int64_t item, const tenon_spec *spec, jax_tensor *tensor)
{
    const xla_buffer *buffer = jax_buffer(&f->xla->arguments, f->operands++);
    tenon_error why;
    if (!buffer || !spec)
        return tenon__jax_malformed(f, "an operand is missing");
    bool fortran = (spec->flags & (TENON_SPEC_F | TENON_SPEC_C)) == TENON_SPEC_F && buffer->rank > 1;
    if (!jax_init_view(f, tensor, buffer, spec->flags & TENON_SPEC_WRITE ? 0 : TENON_READ_ONLY, fortran, &why))
        return 0;
    if (item < 0)
        return tenon__jax_refuse(f, index, why.status, tenon_error_reason(&why));
    if (!tenon_frame_refuse_earlier(&f->base, index))
        tenon_error_set_in(f->err, why.status, f->base.signature->name, "argument '%s[%lld]': %s",
                           f->base.signature->params[index].name, (long long)item, tenon_error_reason(&why));
    return -1;
}

static int jax_take_tensor(jax_frame *f, int32_t index)
{
    jax_tensor *tensor = &f->tensors[index];
    if (jax_take_operand(f, index, -1, f->base.signature->params[index].spec, tensor) < 0)
        return -1;
    tenon_frame_set_view(&f->base, index, &tensor->view);
    return 0;
}

/* A list of tensors: as many operands as its attribute says. */
static int jax_take_tensors(jax_frame *f, int32_t index)
{
    const tenon_spec *spec = f->base.signature->params[index].items;
    int64_t count = 0;
    if (!spec || tenon__jax_take_count(f, index, &count) < 0 || count > f->xla->arguments.count - f->operands)
        return tenon__jax_malformed(f, "a list has more items than there are operands");
    size_t room = (size_t)count;
    jax_tensor *tensors = tenon_block_alloc(&f->base.blocks, room * (sizeof *tensors + sizeof(tenon_view)), 0);
    if (!tensors)
        return tenon__jax_refuse(f, index, TENON_ENOMEM, "out of memory");
    tenon_view *views = (tenon_view *)(void *)(tensors + room);
    for (int64_t i = 0; i < count; i++) {
        if (jax_take_operand(f, index, i, spec, &tensors[i]) < 0)
            return -1;
        views[i] = tensors[i].view;
    }
    tenon_frame_set_list(&f->base, index, views, count);
    return 0;
}

/* -------------------------------------------------------------------------------------------------------- arguments */

static int jax_take_argument(jax_frame *f, int32_t index)
{
    switch (f->letters[index]) {
    case 't':
        return jax_take_tensor(f, index);
    case 'l':
        return jax_take_tensors(f, index);
    case 's':
        return tenon__jax_take_scalar(f, index);
    case 'p':
        return tenon__jax_take_packed(f, index);
    case 'v':
        return tenon__jax_take_attribute(f, index);
    case 'd':
        tenon_frame_set_missing(&f->base, index, false, false);
        return 0;
    case 'n':
        return tenon_frame_set_missing(&f->base, index, true, true) ? 0 : tenon__jax_refuse_kind(f, index, "None");
    default:
        return tenon__jax_malformed(f, "a letter of the attribute 'args' is unknown");
    }
}

static int jax_take_arguments(jax_frame *f)
{
    const tenon_signature *s = f->base.signature;
    const xla_span *letters = f->xla->attributes.items[0];
    f->letters = letters->text;
    if (letters->length != (size_t)s->nparams)
        return tenon__jax_malformed(f, "the attribute 'args' has not one letter for each parameter");
    for (int32_t i = 0; i < s->nparams; i++)
        if (jax_take_argument(f, i) < 0)
            return -1;
    if (f->operands + (f->packed ? 1 : 0) != f->xla->arguments.count)
        return tenon__jax_malformed(f, "the number of operands is wrong");
    return jax_check_all_written(f);
}

/* ---------------------------------------------------------------------------------------------------------- results */

static bool jax_same_shape(const tenon_view *view, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    return tenon_dtype_equal(view->dtype, dtype) && view->ndim == ndim &&
           (ndim == 0 || memcmp(view->shape, shape, (size_t)ndim * sizeof *shape) == 0);
}

/* Describe the buffer at `place`, which is result `index` or an item of it. The program has allocated it, with the shape that
 * it was compiled for. */
static int jax_describe_result(jax_frame *f, int64_t place, int32_t index, jax_tensor *tensor, tenon_dtype dtype,
                               int32_t ndim, const int64_t *shape)
{
    const tenon_frame *base = &f->base;
    const xla_buffer *buffer = jax_buffer(&f->xla->results, place);
    tenon_error why;
    if (!buffer)
        return tenon__jax_malformed(f, "a result is missing");
    if (jax_init_view(f, tensor, buffer, 0, false, &why)) {
        tenon_error_set_in(f->err, why.status, base->signature->name, "result %d: %s", (int)index,
                           tenon_error_reason(&why));
        return -1;
    }
    if (!jax_same_shape(&tensor->view, dtype, ndim, shape)) {
        tenon_error_set_in(f->err, TENON_ESHAPE, base->signature->name,
                           "result %d: the program was compiled for another shape or dtype than %s gives for these "
                           "arguments",
                           (int)index, base->signature->results[index].type);
        return -1;
    }
    return 0;
}

static int jax_make_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    jax_frame *f = jax_frame_of(base);
    jax_tensor *tensor = &f->tensors[base->signature->nparams + index];
    if (jax_describe_result(f, tenon__jax_result_place(f, index), index, tensor, dtype, ndim, shape) < 0)
        return -1;
    tenon_frame_set_result(base, index, &tensor->view, TENON_VIEW_WRITTEN | TENON_VIEW_FRESH);
    return 0;
}

static int jax_make_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                         const int64_t *shape, tenon_view *view)
{
    jax_frame *f = jax_frame_of(base);
    jax_tensor *tensor = tenon_block_alloc(&base->blocks, sizeof *tensor, 0);
    if (!tensor) {
        tenon_error_set_in(f->err, TENON_ENOMEM, base->signature->name, "result %d: out of memory", (int)index);
        return -1;
    }
    if (jax_describe_result(f, tenon__jax_result_place(f, index) + item, index, tensor, dtype, ndim, shape) < 0)
        return -1;
    *view = tensor->view;
    return 0;
}

/* tenon__jax_register takes no function with such results. */
static int jax_open_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    (void)dtype;
    (void)ndim;
    (void)shape;
    tenon_fail(&base->call, TENON_EFAILED, "result %d: XLA allocates results before the call", (int)index);
    return -1;
}

static int jax_take_handle(tenon_frame *base, int32_t index, void *object, void (*destroy)(void *))
{
    (void)object;
    (void)destroy;
    tenon_fail(&base->call, TENON_EFAILED, "result %d: XLA has no handles", (int)index);
    return -1;
}

/* ------------------------------------------------------------------------------------------------- the checked mode */

_Atomic bool tenon__jax_checked;

/* XLA's threads have no interpreter, so there is only stderr. */
static int jax_warn(tenon_frame *base, int32_t index, const char *message)
{
    (void)index;
    fprintf(stderr, "tenon: RuntimeWarning: %s(): %s\n", base->signature->name, message);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------- the client */

static tenon_status jax_run(tenon_frame *base)
{
    return base->call.function->call(&base->call);
}

static const tenon_client jax_client = {.refuse = jax_refuse,
                                        .describe = jax_describe,
                                        .make_result = jax_make_result,
                                        .open_result = jax_open_result,
                                        .take_handle = jax_take_handle,
                                        .device_scratch = tenon__jax_device_scratch,
                                        .run = jax_run,
                                        .warn = jax_warn,
                                        .describe_item = jax_describe_item,
                                        .make_item = jax_make_item,
                                        .thread_count = tenon__jax_thread_count,
                                        .schedule = tenon__jax_schedule};

static const tenon_host jax_host = {TENON_HOST_SERVICES, .name = "jax"};

void tenon__jax_call_init(tenon__jax_function *function, void *state)
{
    tenon_call_init(&function->call, &jax_host, &function->function, state, function->signature);
    function->call.flags |= TENON_CALL_UNLOCKED;
    /* A plan does not compare a written operand with its result. */
    function->planned = function->signature->plan == TENON_PLAN_PLAIN && function->signature->nwritten == 0;
    for (int32_t i = 0; i < function->signature->nresults; i++)
        function->returns_numbers |= !function->signature->results[i].spec && !function->signature->results[i].items;
}

static int jax_run_with_lock(jax_frame *f, tenon_library_lock *lock, bool checked)
{
    tenon_library_lock_enter(lock);
    int status = checked ? tenon_frame_run_checked(&f->base, 0) : tenon_frame_run(&f->base, &jax_client);
    tenon_library_lock_leave(lock);
    return status;
}

/* --------------------------------------------------------------------------------------------------------- the plan */

/* The number in attribute `at` for parameter `index`, if its type is the one that jax_ops writes. */
static bool jax_plan_number(const xla_attributes *all, int64_t at, int32_t index, uint32_t kind, tenon_value *value)
{
    static const int32_t dtypes[] = {
        [TENON_KIND_INT] = xla_s64, [TENON_KIND_FLOAT] = xla_f64, [TENON_KIND_BOOL] = xla_pred};
    if (at >= all->count || all->types[at] != xla_attr_scalar || all->names[at]->length != 3)
        return false;
    const char *name = all->names[at]->text;
    const xla_scalar *scalar = all->items[at];
    if (name[0] != 'v' || 10 * (name[1] - '0') + name[2] - '0' != index || scalar->dtype != dtypes[kind] ||
        !scalar->value)
        return false;
    value->kind = kind;
    value->flags = 0;
    if (kind == TENON_KIND_BOOL)
        value->as.integer = *(const uint8_t *)scalar->value != 0;
    else
        memcpy(&value->as, scalar->value, sizeof(int64_t)); /* an integer or a double */
    return true;
}

JAX_INLINE bool jax_plan_tensor(const tenon_plan_spec *fast, const xla_buffer *buffer, uint64_t flags, int64_t *bound,
                                tenon_value *value, jax_tensor *tensor)
{
    return buffer && buffer->rank == fast->ndim && (uint32_t)buffer->dtype < xla_dtype_end &&
           tenon_dtype_equal(tenon__jax_dtypes[buffer->dtype], fast->dtype) &&
           tenon_plan_set_view(fast, bound, value, buffer->data, buffer->dims, flags, &tensor->view, tensor->dims);
}

/* Take the arguments and the results by the plan of the signature, and begin the call. False: nothing has happened, and
 * something is unusual or wrong. */
static bool jax_match_planned(jax_frame *f, const tenon__jax_function *function)
{
    const tenon_signature *s = function->signature;
    const xla_frame *xla = f->xla;
    const xla_span *letters = xla->attributes.items[0];
    const tenon_plan_spec *fast = s->fast;
    int64_t *bound = f->base.bindings.dims, operands = 0, attributes = 3;
    f->letters = letters->text;
    if (letters->length != (size_t)s->nparams || xla->results.count != s->nresults)
        return false;
    for (int32_t i = 0; i < s->nparams; i++, fast++) {
        bool taken = false;
        if (letters->text[i] == 't' && fast->ndim >= 0)
            taken = jax_plan_tensor(fast, jax_buffer(&xla->arguments, operands++), TENON_READ_ONLY, bound, &f->args[i],
                                    &f->tensors[i]);
        else if (letters->text[i] == 'v' && fast->ndim < 0)
            taken = jax_plan_number(&xla->attributes, attributes++, i, s->params[i].kind, &f->args[i]);
        if (!taken)
            return false;
    }
    if (operands != xla->arguments.count)
        return false;
    for (int32_t i = 0; i < s->nresults; i++, fast++)
        if (fast->ndim >= 0 &&
            !jax_plan_tensor(fast, jax_buffer(&xla->results, i), TENON_VIEW_WRITTEN | TENON_VIEW_FRESH, bound,
                             &f->results[i], &f->tensors[s->nparams + i]))
            return false;
    tenon_plan_begin(&f->base, &jax_client, &function->call, s);
    for (int32_t i = 0; function->returns_numbers && i < s->nresults; i++)
        if (s->results[i].kind != TENON_KIND_TENSOR)
            tenon_frame_begin_result(&f->base, i);
    return true;
}

/* ---------------------------------------------------------------------------------------------------------- the call */

static int jax_take_in_general(jax_frame *f, const tenon__jax_function *function)
{
    const tenon_signature *s = function->signature;
    tenon_frame_begin(&f->base, &jax_client, &function->call, s);
    for (int32_t i = 0; i < s->nresults; i++)
        tenon_frame_begin_result(&f->base, i);
    if ((f->on_gpu && tenon__jax_join_gpu(f) < 0) || jax_take_arguments(f) < 0 || tenon_frame_match(&f->base) < 0)
        return -1;
    return tenon_frame_make_results(&f->base, &jax_client);
}

tenon_status tenon__jax_call(const tenon__jax_function *function, const xla_frame *xla, bool on_gpu, tenon_error *err)
{
    jax_frame f;
    f.xla = xla;
    f.err = err;
    f.packed = NULL;
    f.operands = f.numbers = 0;
    f.attributes = 3;
    f.on_gpu = on_gpu;
    f.scratch = NULL;
    f.base.args = f.args;
    f.base.results = f.results;
    bool checked = atomic_load_explicit(&tenon__jax_checked, memory_order_relaxed);
    bool planned = function->planned && !on_gpu && !checked && jax_match_planned(&f, function);
    int done = planned ? 0 : jax_take_in_general(&f, function);
    if (done == 0)
        done = jax_run_with_lock(&f, function->library_lock, checked);
    if (done == 0 && function->returns_numbers)
        done = tenon__jax_give_numbers(&f);
    if (f.scratch)
        tenon__jax_free_scratch(&f);
    tenon_frame_end(&f.base);
    return done < 0 ? err->status : TENON_OK;
}

/* A call on a GPU: its device, its stream, and scratch memory. */

/* The device and the stream of the call. XLA of JAX 0.6 and newer tells the device; in older ones it is
 * device 0. */
int tenon__jax_join_gpu(jax_frame *f)
{
    const tenon_signature *s = f->base.signature;
    const xla_api *api = f->xla->api;
    xla_stream_get stream = {.size = XLA_END(xla_stream_get, stream), .context = f->xla->context};
    xla_ordinal_get ordinal = {.size = XLA_END(xla_ordinal_get, ordinal), .context = f->xla->context};
    for (int32_t i = 0; i < s->nresults; i++) {
        if (s->results[i].kind != TENON_KIND_TENSOR) {
            tenon_error_set_in(f->err, TENON_EDEVICE, s->name,
                               "result %d is a number, which cannot be stored in the memory of a GPU", (int)i);
            return -1;
        }
    }
    xla_error *failed = api && XLA_HAS(api, xla_api, get_stream) ? api->get_stream(&stream) : NULL;
    if (!api || failed || !XLA_HAS(api, xla_api, get_stream)) {
        jax_drop_error(api, failed);
        tenon_error_set_in(f->err, TENON_EFAILED, s->name, "XLA did not tell its stream");
        return -1;
    }
    if (XLA_HAS(api, xla_api, get_ordinal))
        jax_drop_error(api, api->get_ordinal(&ordinal));
    f->base.call.device = tenon_device_of(TENON_CUDA, ordinal.ordinal);
    f->base.call.stream = stream.stream;
    return 0;
}

void *tenon__jax_device_scratch(tenon_frame *base, size_t bytes, tenon_device device)
{
    jax_frame *f = jax_frame_of(base);
    const xla_api *api = f->xla->api;
    jax_scratch *scratch = tenon_block_alloc(&base->blocks, sizeof *scratch, 0);
    xla_memory_allocate wanted = {.size = XLA_END(xla_memory_allocate, data),
                                  .context = f->xla->context,
                                  .bytes = bytes ? bytes : 1,
                                  .alignment = 16};
    if (!scratch || !f->on_gpu || !XLA_HAS(api, xla_api, free) || !tenon_device_equal(device, base->call.device)) {
        tenon_fail(&base->call, TENON_EFAILED, "there is scratch memory on the device of the call only");
        return NULL;
    }
    if (base->call.function->flags & TENON_CAPTURABLE) { /* XLA would have freed the memory when the graph runs */
        tenon_fail(&base->call, TENON_EFAILED,
                   "a function with TENON_CAPTURABLE cannot use scratch memory on a GPU; pass "
                   "the memory as an argument, or remove the flag");
        return NULL;
    }
    xla_error *failed = api->allocate(&wanted);
    if (failed || !wanted.data) {
        jax_drop_error(api, failed);
        tenon_fail(&base->call, TENON_ENOMEM, "XLA cannot allocate %zu bytes of scratch memory", bytes);
        return NULL;
    }
    *scratch = (jax_scratch){.next = f->scratch, .data = wanted.data, .bytes = wanted.bytes};
    f->scratch = scratch;
    return wanted.data;
}

void tenon__jax_free_scratch(const jax_frame *f)
{
    const xla_api *api = f->xla->api;
    for (const jax_scratch *scratch = f->scratch; scratch; scratch = scratch->next) {
        xla_memory_free unwanted = {.size = XLA_END(xla_memory_free, data),
                                    .context = f->xla->context,
                                    .bytes = scratch->bytes,
                                    .data = scratch->data};
        jax_drop_error(api, api->free(&unwanted));
    }
}
