/* Batches: tensors that begin with "**b" are broadcast as NumPy does. The function gets views of one shape; the
 * stride of a dimension that was repeated is 0. */
#include "compiled_spec.h"

#include <inttypes.h>
#include <string.h>

/* The shape of the batch, from its last dimension to its first. */
typedef struct batch_shape {
    int32_t ndim;
    int64_t sizes[TENON_MAX_NDIM];
    int32_t from[TENON_MAX_NDIM]; /* the parameter that each size is from */
} batch_shape;

bool tenon__has_batch(const tenon_spec *spec)
{
    return spec->ndims && tenon__code_of(spec)->dims[0].kind == TENON_DIM_BATCH;
}

/* The number of dimensions of an argument that are its batch's, or -1 if it has none or was not given. */
static int32_t batch_ndim(const tenon_signature *s, int32_t index, const tenon_value *arg)
{
    const tenon_spec *spec = s->params[index].spec;
    if (!spec || arg->kind != TENON_KIND_TENSOR || !tenon__has_batch(spec))
        return -1;
    return arg->as.view->ndim - (spec->ndims - 1);
}

static tenon_status refuse_sizes(const tenon_signature *s, int32_t index, int32_t at, const tenon_value *args,
                                 const batch_shape *batch, tenon_bindings *b, tenon_error *err)
{
    int32_t other = batch->from[at], here = batch_ndim(s, index, &args[index]) - 1 - at;
    tenon__message m;
    b->argument = s->params[index].name;
    tenon__message_begin(&m, b);
    tenon__text_add(&m.text, ": dimension %d is %" PRId64 ", and dimension %d of argument '%s' is %" PRId64, here,
                    args[index].as.view->shape[here], batch_ndim(s, other, &args[other]) - 1 - at,
                    s->params[other].name, batch->sizes[at]);
    tenon__text_add(&m.text, ": they must be equal, or one of them 1, in **%s", s->names.stars[s->batch]);
    return tenon__message_end(&m, TENON_ESHAPE, err);
}

static tenon_status find_batch(const tenon_signature *s, const tenon_value *args, batch_shape *batch, tenon_bindings *b,
                               tenon_error *err)
{
    batch->ndim = 0;
    for (int32_t i = 0; i < s->nparams; i++) {
        int32_t ndim = batch_ndim(s, i, &args[i]);
        for (int32_t at = 0; at < ndim; at++) {
            int64_t size = args[i].as.view->shape[ndim - 1 - at];
            if (at < batch->ndim && (size == 1 || size == batch->sizes[at]))
                continue;
            if (at < batch->ndim && batch->sizes[at] != 1)
                return refuse_sizes(s, i, at, args, batch, b, err);
            batch->ndim = at < batch->ndim ? batch->ndim : at + 1;
            batch->sizes[at] = size;
            batch->from[at] = i;
        }
    }
    return TENON_OK;
}

/* The argument as a view with the shape of the batch. */
static tenon_status broadcast_view(const tenon_signature *s, int32_t index, const tenon_value *arg,
                                   const batch_shape *batch, tenon_frame *frame, tenon_error *err)
{
    const tenon_view *from = arg->as.view;
    int32_t own = batch_ndim(s, index, arg), ndim = from->ndim - own + batch->ndim;
    int64_t shape[TENON_MAX_NDIM], strides[TENON_MAX_NDIM];
    if (ndim > TENON_MAX_NDIM)
        return tenon_error_set_in(err, TENON_ESHAPE, s->name, "argument '%s' has more than 64 dimensions with **%s",
                                  s->params[index].name, s->names.stars[s->batch]);
    for (int32_t i = 0; i < ndim; i++) {
        int32_t at = i - (ndim - from->ndim); /* in the argument */
        bool repeated = i < batch->ndim && (at < 0 || from->shape[at] != batch->sizes[batch->ndim - 1 - i]);
        shape[i] = i < batch->ndim ? batch->sizes[batch->ndim - 1 - i] : from->shape[at];
        strides[i] = repeated ? 0 : from->strides[at];
    }
    tenon_dl_tensor source = {.data = from->data, .device = from->device, .ndim = ndim, .dtype = from->dtype};
    source.shape = shape;
    source.strides = strides;
    source.byte_offset = from->byte_offset;
    tenon_converted local, *made = &local; /* the host finds its own view in `given` */
    int64_t dims[2 * TENON_MAX_NDIM], *room = dims;
    if (frame) {
        made = tenon_block_alloc(&frame->blocks, sizeof *made + 2 * (size_t)ndim * sizeof *room, 0);
        if (!made)
            return tenon_error_set_in(err, TENON_ENOMEM, s->name, "no memory for a view");
        room = (int64_t *)(void *)(made + 1);
        made->given = tenon_frame_given_view(frame, index);
    }
    uint64_t kept = TENON_READ_ONLY | TENON_IS_COPIED | TENON_SUBBYTE_PADDED;
    tenon_status status = tenon_view_init(&made->view, &source, from->flags & kept, room, err);
    if (status)
        return tenon_error_set_in(err, status, s->name,
                                  "argument '%s' with the shape of **%s has more bytes than 64 bits can count",
                                  s->params[index].name, s->names.stars[s->batch]);
    if (frame) {
        frame->args[index].as.view = &made->view;
        frame->args[index].flags |= TENON__VALUE_CONVERTED;
    }
    return TENON_OK;
}

/* Whether the argument has the shape of the batch already. */
static bool is_whole(const tenon_view *view, int32_t own, const batch_shape *batch)
{
    for (int32_t at = 0; at < own; at++)
        if (view->shape[own - 1 - at] != batch->sizes[at])
            return false;
    return own == batch->ndim;
}

/* Bind the name of the batch to its shape, in a block of the call. */
static tenon_status bind_batch(const tenon_signature *s, const batch_shape *batch, tenon_frame *frame,
                               tenon_bindings *b, tenon_error *err)
{
    int64_t *shape = tenon_block_alloc(&frame->blocks, ((size_t)batch->ndim + 1) * sizeof *shape, 0);
    if (!shape)
        return tenon_error_set_in(err, TENON_ENOMEM, s->name, "no memory for the shape of **%s",
                                  s->names.stars[s->batch]);
    for (int32_t i = 0; i < batch->ndim; i++)
        shape[i] = batch->sizes[batch->ndim - 1 - i];
    b->stars_bound |= 1u << s->batch;
    b->stars[s->batch] = shape;
    b->star_ndims[s->batch] = batch->ndim;
    b->stars_from[s->batch] = NULL;
    return TENON_OK;
}

tenon_status tenon__broadcast_arguments(const tenon_signature *s, const tenon_value *args, tenon_frame *frame,
                                        tenon_bindings *b, tenon_error *err)
{
    batch_shape batch;
    bool given = false;
    for (int32_t i = 0; i < s->nparams; i++)
        given |= batch_ndim(s, i, &args[i]) >= 0;
    if (!given) /* a result says so */
        return TENON_OK;
    tenon_status status = find_batch(s, args, &batch, b, err);
    if (!status && frame)
        status = bind_batch(s, &batch, frame, b, err);
    for (int32_t i = 0; !status && i < s->nparams; i++) {
        int32_t own = batch_ndim(s, i, &args[i]);
        if (own >= 0 && !is_whole(args[i].as.view, own, &batch))
            status = broadcast_view(s, i, &args[i], &batch, frame, err);
    }
    return status;
}
