/* Arguments that are "convert": copies of another dtype, order or alignment, in blocks of the call. signature_match.c says
 * which arguments need one. */
#include "internal.h"

#include <inttypes.h>

/* Memory of the call. If the function has callables, what a callback keeps can share it. */
static void *converted_memory(tenon_frame *f, int64_t bytes, size_t align)
{
    size_t size = bytes ? (size_t)bytes : 1; /* a view of no elements needs an address, too */
    return f->signature->ncallables ? tenon__call_shared_scratch(f, size, align)
                                    : tenon_block_alloc(&f->blocks, size, align);
}

static tenon_status convert_argument(tenon_frame *f, int32_t index, tenon_error *err)
{
    enum { LEAST_ALIGNMENT = 64 };
    const tenon_parameter *param = &f->signature->params[index];
    const tenon_view *from = f->args[index].as.view;
    const tenon_dtype dtype = param->spec->dtypes.items[0];
    const char *function = f->signature->name;
    const size_t align = param->spec->alignment > LEAST_ALIGNMENT ? (size_t)param->spec->alignment : LEAST_ALIGNMENT;
    const size_t ndim = (size_t)from->ndim;
    int64_t numel, bytes;
    tenon_status status = tenon__shape_bytes(dtype, 0, from->ndim, from->shape, &numel, &bytes, function, err);
    if (status)
        return status;
    void *memory = converted_memory(f, bytes, align);
    tenon_view *view = tenon_block_alloc(&f->blocks, sizeof *view + 2 * ndim * sizeof(int64_t), 0);
    if (!memory || !view)
        return tenon_error_set_in(err, TENON_ENOMEM, function,
                                  "argument '%s': no memory for the %" PRId64 " bytes that it is converted to",
                                  param->name, bytes);
    int64_t *dims = (int64_t *)(void *)(view + 1), *strides = dims + ndim;
    status = tenon_shape_strides(from->ndim, from->shape, param->spec->flags & TENON_SPEC_F ? 'F' : 'C', strides, err);
    if (status)
        return status;
    tenon_dl_tensor source = {.data = memory,
                              .device = {TENON_CPU, 0},
                              .ndim = from->ndim,
                              .dtype = dtype,
                              .shape = (int64_t *)(uintptr_t)from->shape,
                              .strides = strides};
    status = tenon__view_init(view, &source, TENON_IS_COPIED, dims, function, err);
    if (status || (status = tenon_copy(view, from, err)))
        return status;
    f->args[index].as.view = view;
    f->args[index].flags |= TENON__VALUE_CONVERTED;
    return TENON_OK;
}

int tenon__frame_convert(tenon_frame *f, uint64_t which)
{
    tenon_error err;
    for (int32_t i = 0; i < f->signature->nparams; i++) {
        if (!(which >> i & 1) || !convert_argument(f, i, &err))
            continue;
        f->bindings.argument = f->signature->params[i].name;
        f->client->refuse(f, TENON_REFUSED_ARGUMENT, -1, &err);
        return -1;
    }
    return 0;
}

int tenon__frame_count_conversions(tenon_frame *f, uint64_t which)
{
    for (int32_t i = 0; i < f->signature->nparams; i++) {
        if ((which >> i & 1) && f->client->converted(f, i, tenon_view_nbytes(f->args[i].as.view)))
            return -1;
    }
    return 0;
}
