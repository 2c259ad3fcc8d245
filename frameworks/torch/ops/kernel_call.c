/* One call of a kernel in C: a client of the call driver whose arguments and results are on torch's stack.
 *
 * No thread needs the interpreter lock here, and nothing of Python is called. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

enum { INLINE_DIMS = 8 };

/* A tensor that the call holds. */
typedef struct kernel_tensor {
    tenon__torch_handle handle; /* NULL: none */
    tenon_view view;
    int64_t dims[2 * INLINE_DIMS];
} kernel_tensor;

/* Scratch memory on a device, which torch frees in the order of the stream. */
typedef struct kernel_scratch {
    struct kernel_scratch *next;
    tenon__torch_handle handle;
} kernel_scratch;

typedef struct kernel_frame {
    tenon_frame base; /* first */
    const tenon__torch_kernel *kernel;
    tenon_error *err;
    bool matched, ran;
    kernel_scratch *scratch;
    tenon__torch_stable stack_values[TENON_MAX_PARAMETERS]; /* the arguments; an optional one without its cell */
    bool present[TENON_MAX_PARAMETERS];                     /* and it is not None */
    tenon_value args[TENON_MAX_PARAMETERS];
    tenon_value results[TENON_MAX_RESULTS];
    kernel_tensor tensors[TENON_MAX_PARAMETERS + TENON_MAX_RESULTS]; /* of the arguments, then of the results */
} kernel_frame;

static kernel_frame *kernel_frame_of(tenon_frame *base)
{
    return (kernel_frame *)(void *)base; /* it is the first member */
}

static void *word_pointer(tenon__torch_stable word)
{
    return (void *)(uintptr_t)word;
}

/* ------------------------------------------------------------------------------------------------------------ errors */

static _Thread_local tenon__torch_failure last_failure;

tenon__torch_failure *tenon__torch_last_failure(void)
{
    return &last_failure;
}

static void note_failure(const kernel_frame *f)
{
    tenon_utf8_replace_invalid(f->err->message); /* exceptions of Python are UTF-8 */
    last_failure.status = f->err->status;
    last_failure.matched = f->matched;
    last_failure.ran = f->ran;
    memcpy(last_failure.message, f->err->message, sizeof last_failure.message);
}

/* As in Python, with advice for users of torch. */
static void kernel_refuse(tenon_frame *base, tenon_refusal why, int32_t index, const tenon_error *err)
{
    kernel_frame *f = kernel_frame_of(base);
    const tenon_signature *s = base->signature;
    char advice[160] = "";
    (void)index;
    if (why == TENON_REFUSED_BY_CODE) {
        tenon_error_set(f->err, err->status, "%s(): %s", s->name, err->message);
        return;
    }
    int32_t i = 0;
    while (i < s->nparams && s->params[i].name != base->bindings.argument)
        i++;
    if (why == TENON_REFUSED_ARGUMENT && i < s->nparams)
        tenon__py_advice(&s->params[i], err, &tenon__py_torch_producer, advice, sizeof advice);
    tenon_error_set_in(f->err, err->status, err->function, "%s%s", tenon_error_reason(err), advice);
}

static const char *kernel_describe(tenon_frame *base, int32_t index)
{
    static const char *const stack_values[] = {
        [TENON_KIND_NONE] = "NoneType", [TENON_KIND_TENSOR] = "torch.Tensor", [TENON_KIND_INT] = "int",
        [TENON_KIND_FLOAT] = "float",   [TENON_KIND_BOOL] = "bool",           [TENON_KIND_STR] = "str",
        [TENON_KIND_ENUM] = "str",      [TENON_KIND_INTS] = "list",           [TENON_KIND_FLOATS] = "list"};
    const kernel_frame *f = kernel_frame_of(base);
    return stack_values[f->present[index] ? base->signature->params[index].kind : TENON_KIND_NONE];
}

/* Argument `index` cannot be read. If an earlier one does not match, that is the error. */
static int refuse_word(kernel_frame *f, int32_t index, tenon_status status, const char *got, const char *more)
{
    const tenon_parameter *param = &f->base.signature->params[index];
    if (!tenon_frame_refuse_earlier(&f->base, index))
        tenon_error_set_in(f->err, status, f->base.signature->name, "argument '%s': expected %s, got %s%s", param->name,
                           param->type, got, more);
    return -1;
}

/* ----------------------------------------------------------------------------------------------------------- tensors */

/* Describe a tensor. The fast case is memory in C order. */
static tenon_status init_view(kernel_frame *f, kernel_tensor *tensor, const tenon_dl_tensor *source, tenon_error *err)
{
    int64_t *dims = tensor->dims;
    if (source->ndim > INLINE_DIMS &&
        !(dims = tenon_block_alloc(&f->base.blocks, 2 * (size_t)source->ndim * sizeof *dims, 0)))
        return tenon_error_set(err, TENON_ENOMEM, "out of memory");
    if (source->dtype.bits % 8 == 0 && tenon_view_init_fast(&tensor->view, source->data, &source->dtype, source->ndim,
                                                            source->shape, source->strides, 0, 0, dims)) {
        tensor->view.device = source->device;
        return TENON_OK;
    }
    return tenon_view_init(&tensor->view, source, 0, dims, err);
}

static int join_device(kernel_frame *f, int32_t index, tenon_device device)
{
    int met = tenon_frame_join_device(&f->base, index, device);
    if (met <= 0)
        return met;
    const tenon__torch_api *api = f->kernel->api;
    if (api->kernels.current_cuda_stream &&
        api->kernels.current_cuda_stream(device.device_id, &f->base.call.stream) == 0)
        return 0;
    tenon_error_set_in(f->err, TENON_EFAILED, f->base.signature->name, "torch did not tell its current stream");
    return -1;
}

static int refuse_tensor(kernel_frame *f, int32_t index, tenon_status status, const char *reason)
{
    if (!tenon_frame_refuse_earlier(&f->base, index))
        tenon_error_set_in(f->err, status, f->base.signature->name, "argument '%s': torch.Tensor: %s",
                           f->base.signature->params[index].name, reason);
    return -1;
}

/* torch's function that returns the address of argument `index`. */
static int32_t (*data_getter(const kernel_frame *f, int32_t index))(tenon__torch_handle, void **)
{
    bool written = f->base.signature->params[index].spec->flags & TENON_SPEC_WRITE;
    return written ? f->kernel->api->get_data : f->kernel->api->kernels.get_const_data;
}

static bool is_freed(const tenon__torch_api *api, const kernel_tensor *tensor)
{
    int64_t bytes = -1;
    return api->get_storage_size(tensor->handle, &bytes) == 0 && bytes == 0;
}

static int read_tensor(kernel_frame *f, int32_t index)
{
    const tenon__torch_api *api = f->kernel->api;
    kernel_tensor *tensor = &f->tensors[index];
    tenon_dl_tensor source;
    int32_t dtype, device_type;
    tenon_error why;
    tensor->handle = word_pointer(f->stack_values[index]);
    bool defined = false;
    if (api->is_defined && api->is_defined(tensor->handle, &defined) == 0 && !defined)
        return refuse_word(f, index, TENON_EDTYPE, "NoneType", "");
    if (!tenon__torch_describe(api, tensor->handle, data_getter(f, index), &source, &dtype, &device_type))
        return refuse_tensor(f, index, TENON_ELAYOUT, "it is undefined or has no plain memory");
    if (!source.dtype.bits)
        return refuse_tensor(f, index, TENON_EDTYPE, "Tenon does not know its dtype");
    if (device_type != api->cpu && device_type != api->cuda)
        return refuse_tensor(f, index, TENON_EDEVICE, "Tenon does not know its device");
    if (init_view(f, tensor, &source, &why))
        return refuse_tensor(f, index, why.status,
                             is_freed(api, tensor) ? TENON__PY_NO_MEMORY : tenon_error_reason(&why));
    /* torch computes an address from NULL and the offset. */
    if (tensor->view.numel > 0 && is_freed(api, tensor))
        return refuse_tensor(f, index, TENON_ELAYOUT, TENON__PY_NO_MEMORY);
    tenon_frame_set_view(&f->base, index, &tensor->view);
    if (tensor->view.device.device_type == TENON_CPU || join_device(f, index, tensor->view.device) == 0)
        return 0;
    return -1;
}

/* A new tensor for result `index`, or a number. The reason of a failure is in `err`, without a name. */
static tenon_status new_tensor(kernel_frame *f, tenon_device device, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape, kernel_tensor *out, tenon_error *err)
{
    const tenon__torch_api *api = f->kernel->api;
    int32_t number, device_type, device_index;
    int64_t strides[TENON_MAX_NDIM];
    tenon_dl_tensor made = {.ndim = ndim, .dtype = dtype, .device = device, .strides = strides};
    made.shape = (int64_t *)(uintptr_t)shape;
    if (!tenon__torch_dtype_number(api, dtype, &number) ||
        !tenon__torch_device_number(api, device, &device_type, &device_index))
        return tenon_error_set(err, TENON_EDTYPE, "torch %s has no such dtype or device", api->report.version);
    tenon_status status = tenon_shape_strides(ndim, shape, 'C', strides, err);
    if (status)
        return status;
    if (api->empty_strided(ndim, shape, strides, number, device_type, device_index, &out->handle) != 0) {
        out->handle = NULL;
        const char *what = api->what ? api->what() : NULL;
        return tenon_error_set(err, TENON_EFAILED, "%s",
                               what && *what ? what : "torch cannot allocate it, and wrote the reason to stderr");
    }
    if (api->get_data(out->handle, &made.data) != 0)
        return tenon_error_set(err, TENON_EFAILED, "torch did not tell its address");
    return init_view(f, out, &made, err);
}

static kernel_tensor *result_tensor(kernel_frame *f, int32_t index)
{
    return &f->tensors[f->base.signature->nparams + index];
}

static int kernel_open_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    kernel_frame *f = kernel_frame_of(base);
    kernel_tensor *made = result_tensor(f, index);
    tenon_error why;
    if (new_tensor(f, base->call.device, dtype, ndim, shape, made, &why)) {
        tenon_fail(&base->call, why.status, "result %d: %s", (int)index, tenon_error_reason(&why));
        return -1;
    }
    tenon_frame_set_result(base, index, &made->view, TENON_VIEW_WRITTEN | TENON_VIEW_FRESH);
    return 0;
}

static int kernel_make_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    int status = kernel_open_result(base, index, dtype, ndim, shape);
    return status < 0 ? tenon_frame_refuse_failure(base, TENON_EFAILED) : 0;
}

static int kernel_take_handle(tenon_frame *base, int32_t index, void *object, void (*destroy)(void *))
{
    (void)object;
    (void)destroy;
    tenon_fail(&base->call, TENON_EFAILED, "result %d: an operator does not return handles", (int)index);
    return -1;
}

static void *kernel_device_scratch(tenon_frame *base, size_t bytes, tenon_device device)
{
    kernel_frame *f = kernel_frame_of(base);
    kernel_scratch *scratch = tenon_block_alloc(&base->blocks, sizeof *scratch, 0);
    kernel_tensor tensor = {.handle = NULL};
    int64_t size = bytes ? (int64_t)bytes : 1;
    tenon_error why;
    if (!scratch || bytes > INT64_MAX || !tenon_device_equal(device, base->call.device)) {
        tenon_fail(&base->call, TENON_EFAILED, "there is scratch memory on the device of the call only");
        return NULL;
    }
    tenon_status status = new_tensor(f, device, TENON_U8, 1, &size, &tensor, &why);
    if (status)
        tenon_fail(&base->call, status, "scratch memory: %s", tenon_error_reason(&why));
    if (tensor.handle) {
        scratch->handle = tensor.handle;
        scratch->next = f->scratch;
        f->scratch = scratch;
    }
    return status ? NULL : tensor.view.data;
}

static tenon_status kernel_run(tenon_frame *base)
{
    kernel_frame_of(base)->ran = true;
    return base->call.function->call(&base->call);
}

static int kernel_thread_count(tenon_frame *base)
{
    (void)base;
    return tenon__py_torch_thread_count();
}

static const tenon_client kernel_client = {.refuse = kernel_refuse,
                                           .describe = kernel_describe,
                                           .make_result = kernel_make_result,
                                           .open_result = kernel_open_result,
                                           .take_handle = kernel_take_handle,
                                           .device_scratch = kernel_device_scratch,
                                           .run = kernel_run,
                                           .thread_count = kernel_thread_count};

static const tenon_host kernel_host = {TENON_HOST_SERVICES, .name = "torch", .extension = tenon__py_extension};

/* --------------------------------------------------------------------------------------------------- other arguments */

/* Write a string as Python shows it. */
static void quote_text(const char *text, size_t length, char *out, size_t size)
{
    bool single = memchr(text, '\'', length) && !memchr(text, '"', length);
    char quote = single ? '"' : '\'';
    size_t at = 0;
    out[at++] = quote;
    for (size_t i = 0; i < length && at + 8 < size; i++) {
        unsigned char c = (unsigned char)text[i];
        static const char *const special = "\n\r\t", *const letters = "nrt";
        const char *found = c ? strchr(special, c) : NULL;
        if (found || c == '\\' || c == (unsigned char)quote) {
            out[at++] = '\\';
            out[at++] = found ? letters[found - special] : (char)c;
        } else if (c < 32 || c == 127) {
            static const char digits[] = "0123456789abcdef";
            out[at++] = '\\';
            out[at++] = 'x';
            out[at++] = digits[c / 16];
            out[at++] = digits[c % 16];
        } else {
            out[at++] = (char)c;
        }
    }
    out[at++] = quote;
    out[at] = '\0';
}

static int read_text(kernel_frame *f, int32_t index)
{
    const tenon__torch_api *api = f->kernel->api;
    const tenon_parameter *param = &f->base.signature->params[index];
    tenon_value *value = &f->args[index];
    void *string = word_pointer(f->stack_values[index]);
    const char *text = NULL;
    size_t length = 0;
    char shown[256];
    if (api->kernels.string_length(string, &length) != 0 || api->kernels.string_data(string, &text) != 0)
        return refuse_word(f, index, TENON_EFAILED, "a string that torch cannot read", "");
    if (param->kind == TENON_KIND_STR) {
        value->as.list.data = text;
        value->as.list.length = (int64_t)length;
        return 0;
    }
    for (int32_t i = 0; i < param->count; i++) {
        if (length == strlen(param->choices[i]) && memcmp(text, param->choices[i], length) == 0) {
            value->as.integer = i;
            return 0;
        }
    }
    quote_text(text, length, shown, sizeof shown);
    return refuse_word(f, index, TENON_EINVAL, shown, "");
}

/* A number has the same bits in torch's list as in ours. */
static int read_list(kernel_frame *f, int32_t index)
{
    const tenon__torch_api *api = f->kernel->api;
    const tenon_parameter *param = &f->base.signature->params[index];
    tenon__torch_list list = word_pointer(f->stack_values[index]);
    size_t length = 0;
    bool good = api->kernels.list_size(list, &length) == 0;
    if (good && param->count >= 0 && length != (size_t)param->count) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)length);
        return refuse_word(f, index, TENON_EINVAL, number, length == 1 ? " number" : " numbers");
    }
    tenon__torch_stable *items = good ? tenon_block_alloc(&f->base.blocks, length * sizeof *items, 0) : NULL;
    for (size_t i = 0; items && good && i < length; i++)
        good = api->kernels.list_get(list, i, &items[i]) == 0;
    f->args[index].as.list.data = items;
    f->args[index].as.list.length = (int64_t)length;
    return items && good ? 0 : refuse_word(f, index, TENON_ENOMEM, "a list that torch cannot read", "");
}

static int read_word(kernel_frame *f, int32_t index)
{
    const tenon_parameter *param = &f->base.signature->params[index];
    tenon__torch_stable word = f->stack_values[index];
    tenon_value *value = &f->args[index];
    if (tenon_frame_set_missing(&f->base, index, true, !f->present[index]))
        return 0;
    value->kind = param->kind;
    value->flags = 0;
    switch (param->kind) {
    case TENON_KIND_TENSOR:
        return read_tensor(f, index);
    case TENON_KIND_INT:
        value->as.integer = (int64_t)word;
        return 0;
    case TENON_KIND_FLOAT:
        memcpy(&value->as.number, &word, sizeof word);
        return 0;
    case TENON_KIND_BOOL:
        value->as.integer = (word & 0xff) != 0;
        return 0;
    case TENON_KIND_INTS:
    case TENON_KIND_FLOATS:
        return read_list(f, index);
    default:
        return read_text(f, index);
    }
}

/* Free the cell of an optional argument. Before 2.13 torch has no function that does it. */
static void delete_cell(const tenon__torch_api *api, tenon__torch_stable *cell)
{
    if (api->delete_optional)
        api->delete_optional(cell);
    else
        api->kernels.operator_delete(cell);
}

/* Take the arguments from the stack. From now on the frame owns them. */
static void read_stack(kernel_frame *f, const tenon__torch_stable *stack)
{
    const tenon_signature *s = f->base.signature;
    for (int32_t i = 0; i < s->nparams; i++) {
        f->stack_values[i] = stack[i];
        f->present[i] = true;
        f->tensors[i].handle = NULL;
        if (!(s->params[i].flags & TENON_PARAMETER_OPTIONAL))
            continue;
        tenon__torch_stable *cell = word_pointer(stack[i]);
        f->present[i] = cell;
        if (cell) {
            f->stack_values[i] = *cell;
            delete_cell(f->kernel->api, cell);
        }
    }
}

static void release_stack(const kernel_frame *f)
{
    const tenon_signature *s = f->base.signature;
    const tenon__torch_api *api = f->kernel->api;
    for (int32_t i = 0; i < s->nparams; i++) {
        uint32_t kind = f->present[i] ? s->params[i].kind : TENON_KIND_NONE;
        void *pointer = word_pointer(f->stack_values[i]);
        if (kind == TENON_KIND_TENSOR)
            api->delete_handle(pointer);
        else if (kind == TENON_KIND_STR || kind == TENON_KIND_ENUM)
            api->kernels.delete_string(pointer);
        else if (kind == TENON_KIND_INTS || kind == TENON_KIND_FLOATS)
            api->kernels.delete_list(pointer);
    }
}

/* ----------------------------------------------------------------------------------------------------------- results */

/* A number becomes a tensor without dimensions on the CPU. */
static int make_number(kernel_frame *f, int32_t index)
{
    const tenon_value *value = &f->results[index];
    kernel_tensor *made = result_tensor(f, index);
    tenon_error why;
    int there = tenon_frame_has_result(&f->base, index);
    if (there <= 0)
        return -1;
    tenon_dtype dtype = value->kind == TENON_KIND_INT     ? TENON_I64
                        : value->kind == TENON_KIND_FLOAT ? TENON_F64
                                                          : TENON_BOOL;
    if (new_tensor(f, tenon_device_of(TENON_CPU, 0), dtype, 0, NULL, made, &why)) {
        tenon_error_set_in(f->err, why.status, f->base.signature->name, "result %d: %s", (int)index,
                           tenon_error_reason(&why));
        return -1;
    }
    if (value->kind == TENON_KIND_BOOL)
        *(bool *)made->view.data = value->as.integer != 0;
    else /* the integer and the number share their 8 bytes */
        memcpy(made->view.data, &value->as, sizeof(int64_t));
    return 0;
}

static int make_outputs(kernel_frame *f)
{
    const tenon_signature *s = f->base.signature;
    for (int32_t i = 0; i < s->nresults; i++) {
        if (f->results[i].kind != TENON_KIND_TENSOR) {
            if (make_number(f, i) < 0)
                return -1;
        } else if (!result_tensor(f, i)->handle && tenon_frame_has_result(&f->base, i) <= 0) {
            return -1;
        }
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- the call */

/* Other threads may have replaced the memory of a tensor while this one waited for its turn. A tensor that only got another
 * shape still has the memory. */
static int check_memory(kernel_frame *f)
{
    const tenon_signature *s = f->base.signature;
    for (int32_t i = 0; i < s->nparams; i++) {
        const kernel_tensor *tensor = &f->tensors[i];
        void *data = NULL;
        if (f->args[i].kind != TENON_KIND_TENSOR || tensor->view.numel == 0 ||
            (data_getter(f, i)(tensor->handle, &data) == 0 && data == tensor->view.data))
            continue;
        tenon_error_set_in(f->err, TENON_EFAILED, s->name,
                           "argument '%s': its memory changed while the call waited for another call of the library; "
                           "pass a copy",
                           s->params[i].name);
        return -1;
    }
    return 0;
}

static int run_with_lock(kernel_frame *f)
{
    if (!f->kernel->library_lock)
        return tenon_frame_run(&f->base, &kernel_client);
    tenon_library_lock_enter(f->kernel->library_lock);
    int status = check_memory(f) < 0 ? -1 : tenon_frame_run(&f->base, &kernel_client);
    tenon_library_lock_leave(f->kernel->library_lock);
    return status;
}

static int call_function(kernel_frame *f)
{
    const tenon_signature *s = f->base.signature;
    for (int32_t i = 0; i < s->nparams; i++)
        if (read_word(f, i) < 0)
            return -1;
    if (tenon_frame_match(&f->base) < 0)
        return -1;
    f->matched = true;
    if (tenon_frame_make_results(&f->base, &kernel_client) < 0 || run_with_lock(f) < 0)
        return -1;
    return make_outputs(f);
}

tenon_status tenon__torch_kernel_call(const tenon__torch_kernel *kernel, tenon__torch_stable *stack, uint64_t nargs,
                                      uint64_t nresults, tenon_error *err)
{
    const tenon_signature *s = kernel->function->signature;
    kernel_frame f;
    (void)nargs; /* the schema was made from the signature */
    (void)nresults;
    f.kernel = kernel;
    f.err = err;
    f.matched = f.ran = false;
    f.scratch = NULL;
    f.base.args = f.args;
    f.base.results = f.results;
    tenon_frame_begin(&f.base, &kernel_client, &kernel->call, s);
    for (int32_t i = 0; i < s->nresults; i++) {
        tenon_frame_begin_result(&f.base, i);
        result_tensor(&f, i)->handle = NULL;
    }
    read_stack(&f, stack);
    int done = call_function(&f);
    if (done < 0)
        note_failure(&f);
    release_stack(&f);
    for (kernel_scratch *scratch = f.scratch; scratch; scratch = scratch->next)
        kernel->api->delete_handle(scratch->handle);
    for (int32_t i = 0; i < s->nresults; i++) {
        tenon__torch_handle handle = result_tensor(&f, i)->handle;
        if (done == 0)
            stack[i] = (tenon__torch_stable)(uintptr_t)handle;
        else if (handle)
            kernel->api->delete_handle(handle);
    }
    tenon_frame_end(&f.base);
    return done < 0 ? err->status : TENON_OK;
}

/* -------------------------------------------------------------------------------------------------------- the kernel */

bool tenon__torch_kernel_fits(const tenon__py_function *function)
{
    const tenon_signature *s = function->signature;
    /* A function that keeps the lock may use Python. */
    bool fits = !(function->function.flags & TENON_KEEP_LOCK);
    for (int32_t i = 0; i < s->nparams; i++)
        fits &= s->params[i].kind >= TENON_KIND_TENSOR && s->params[i].kind <= TENON_KIND_FLOATS;
    for (int32_t i = 0; i < s->nresults; i++)
        fits &= s->results[i].kind < TENON_KIND_COMPLEX;
    return fits;
}

void tenon__torch_kernel_init(tenon__torch_kernel *kernel)
{
    const tenon__py_function *function = kernel->function;
    tenon_call_init(&kernel->call, &kernel_host, &function->function, function->library->state, function->signature);
    kernel->call.flags |= TENON_CALL_UNLOCKED;
}
