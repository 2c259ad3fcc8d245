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

/* The copy takes the place of the argument. */
static tenon_status convert_argument(tenon_frame *f, int32_t index, int64_t bytes, tenon_error *err)
{
    enum { COPY_ALIGNMENT = 64 };
    const tenon_parameter *param = &f->signature->params[index];
    const tenon_view *from = f->args[index].as.view;
    const size_t align = param->spec->alignment > COPY_ALIGNMENT ? (size_t)param->spec->alignment : COPY_ALIGNMENT;
    const size_t ndim = (size_t)from->ndim;
    void *memory = converted_memory(f, bytes, align);
    tenon_converted *made = tenon_block_alloc(&f->blocks, sizeof *made + 2 * ndim * sizeof(int64_t), 0);
    if (!memory || !made)
        return tenon_error_set_in(err, TENON_ENOMEM, f->signature->name,
                                  "argument '%s': no memory for the %" PRId64 " bytes that it is converted to",
                                  param->name, bytes);
    int64_t *dims = (int64_t *)(void *)(made + 1), *strides = dims + ndim;
    tenon_status status =
        tenon_shape_strides(from->ndim, from->shape, param->spec->flags & TENON_SPEC_F ? 'F' : 'C', strides, err);
    if (status)
        return status;
    tenon_dl_tensor source = {.data = memory,
                              .device = {TENON_CPU, 0},
                              .ndim = from->ndim,
                              .dtype = param->spec->dtypes.items[0],
                              .shape = (int64_t *)(uintptr_t)from->shape,
                              .strides = strides};
    status = tenon__view_init(&made->view, &source, TENON_IS_COPIED, dims, f->signature->name, err);
    if (status || (status = tenon_copy(&made->view, from, err)))
        return status;
    made->given = from;
    f->args[index].as.view = &made->view;
    f->args[index].flags |= TENON__VALUE_CONVERTED;
    return TENON_OK;
}

int tenon__frame_convert(tenon_frame *f, uint64_t which)
{
    const tenon_signature *s = f->signature;
    for (int32_t i = 0; i < s->nparams; i++) {
        if (!(which >> i & 1))
            continue;
        const tenon_view *from = f->args[i].as.view;
        int64_t numel, bytes;
        tenon_error err;
        tenon_status status = tenon__shape_bytes(s->params[i].spec->dtypes.items[0], 0, from->ndim, from->shape, &numel,
                                                 &bytes, s->name, &err);
        if (!status && f->client->convert(f, i, bytes))
            return -1;
        if (!status)
            status = convert_argument(f, i, bytes, &err);
        if (!status)
            continue;
        f->bindings.argument = s->params[i].name;
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
