/* tenon_for_each: the items of a batch in runs that are as long as possible. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_TENSORS = TENON_MAX_PARAMETERS + TENON_MAX_RESULTS,
    SHORT_RUN = 5 /* calling the body for fewer items takes longer than memory that is not read in its order */
};

/* One tensor of the batch: its first item, and its strides in bytes. */
typedef struct batch_tensor {
    char *data; /* NULL: an optional argument that was not passed */
    int64_t size;
    int32_t item_ndim; /* of one item of the batch */
    int64_t strides[TENON_MAX_NDIM];
} batch_tensor;

typedef struct batch_loop {
    tenon_status (*body)(void *context, void *const *data, const int64_t *steps, int64_t count);
    void *context;
    int32_t count; /* of the tensors */
    int32_t ndim;  /* of the batch, at least 1: dimensions that are one in all tensors are merged */
    int64_t shape[TENON_MAX_NDIM];
    int64_t steps[MOST_TENSORS];
    batch_tensor tensors[];
} batch_loop;

/* ---------------------------------------------------------------------------------------------------------- the loop */

/* Move by that many bytes. A tensor that was not passed stays NULL, because its strides are 0. */
static inline void *moved(void *data, int64_t bytes)
{
    return (void *)((uintptr_t)data + (uintptr_t)bytes);
}

static void move_all(const batch_loop *loop, void **data, int32_t dim, int64_t by)
{
    for (int32_t k = 0; k < loop->count; k++)
        data[k] = moved(data[k], by * loop->tensors[k].strides[dim]);
}

/* All rows of dimension `dim` are done: go to its first row, and to the next one of the dimension before it. */
static void carry(const batch_loop *loop, int64_t *index, void **data, int32_t dim)
{
    for (; dim > 0; dim--) {
        if (index[dim] != loop->shape[dim])
            return;
        move_all(loop, data, dim, -index[dim]);
        index[dim] = 0;
        index[dim - 1]++;
        move_all(loop, data, dim - 1, 1);
    }
}

/* The items from `begin` to `end`: the body of a parallel loop. Rows may be as short as five items, so that little is done for
 * each. */
static tenon_status run_items(void *context, int64_t begin, int64_t end)
{
    const batch_loop *loop = context;
    int32_t last = loop->ndim - 1, outer = last - 1, tensors = loop->count;
    int64_t index[TENON_MAX_NDIM], row_steps[MOST_TENSORS], inner = loop->shape[last], rest = begin;
    void *data[MOST_TENSORS];
    for (int32_t k = 0; k < tensors; k++) {
        data[k] = loop->tensors[k].data;
        row_steps[k] = outer >= 0 ? loop->tensors[k].strides[outer] : 0;
    }
    for (int32_t i = last; i >= 0; rest /= loop->shape[i--]) {
        index[i] = rest % loop->shape[i];
        move_all(loop, data, i, index[i]);
    }
    int64_t at = index[last];
    while (true) {
        int64_t count = inner - at < end - begin ? inner - at : end - begin;
        tenon_status status = loop->body(loop->context, data, loop->steps, count);
        begin += count;
        if (status || begin == end)
            return status;
        if (at)
            move_all(loop, data, last, -at);
        at = 0;
        for (int32_t k = 0; k < tensors; k++)
            data[k] = moved(data[k], row_steps[k]);
        if (++index[outer] == loop->shape[outer])
            carry(loop, index, data, outer);
    }
}

/* Whether dimension `i` of all tensors goes on where dimension `inner`, which is after it, ends. */
static bool is_one(const batch_loop *loop, int32_t i, int32_t inner)
{
    for (int32_t k = 0; k < loop->count; k++)
        if (loop->tensors[k].strides[i] != loop->tensors[k].strides[inner] * loop->shape[inner])
            return false;
    return true;
}

/* Whether the loop over dimension `a` is better inside of the loop over `b`: of the tensors that both of them move through, more
 * have smaller strides in `a`. */
static bool is_better_inside(const batch_loop *loop, int32_t a, int32_t b)
{
    int32_t votes = 0;
    for (int32_t k = 0; k < loop->count; k++) {
        int64_t step = llabs(loop->tensors[k].strides[a]), other = llabs(loop->tensors[k].strides[b]);
        if (step && other)
            votes += (step < other) - (step > other);
    }
    return votes > 0;
}

static void swap_dims(batch_loop *loop, int32_t a, int32_t b)
{
    int64_t size = loop->shape[a];
    loop->shape[a] = loop->shape[b];
    loop->shape[b] = size;
    for (int32_t k = 0; k < loop->count; k++) {
        int64_t *strides = loop->tensors[k].strides, stride = strides[a];
        strides[a] = strides[b];
        strides[b] = stride;
    }
}

/* Move dimensions with small strides to the end, so that memory is read and written in its order. Dimensions of which no order
 * is better stay in the order of the shape. */
static void sort_dims(batch_loop *loop)
{
    for (int32_t i = loop->ndim - 2; i >= 0; i--)
        for (int32_t k = i; k + 1 < loop->ndim && is_better_inside(loop, k, k + 1); k++)
            swap_dims(loop, k, k + 1);
}

static void move_dim(batch_loop *loop, int32_t from, int32_t to)
{
    loop->shape[to] = loop->shape[from];
    for (int32_t k = 0; k < loop->count; k++)
        loop->tensors[k].strides[to] = loop->tensors[k].strides[from];
}

/* Merge dimensions, from the last one to the first, at the end of the arrays; then move them to their beginning. */
static void merge_dims(batch_loop *loop)
{
    int32_t ndim = loop->ndim, to = ndim;
    for (int32_t i = ndim - 1; i >= 0; i--) {
        if (loop->shape[i] == 1)
            continue;
        if (to < ndim && is_one(loop, i, to))
            loop->shape[to] *= loop->shape[i];
        else
            move_dim(loop, i, --to);
    }
    loop->ndim = ndim - to;
    for (int32_t i = 0; i < loop->ndim; i++)
        move_dim(loop, to + i, i);
    if (loop->ndim == 0) { /* one item */
        loop->ndim = 1;
        loop->shape[0] = 1;
        for (int32_t k = 0; k < loop->count; k++)
            loop->tensors[k].strides[0] = loop->tensors[k].size;
    }
}

/* Move the last dimension that is not short to the end. */
static void lengthen_runs(batch_loop *loop)
{
    int32_t at = loop->ndim - 1;
    while (at >= 0 && loop->shape[at] < SHORT_RUN)
        at--;
    for (; at >= 0 && at + 1 < loop->ndim; at++)
        swap_dims(loop, at, at + 1);
}

/* ------------------------------------------------------------------------------------------------------ its tensors */

/* The next tensor of the loop, if it has the batch. */
static tenon_status add_tensor(tenon_call *call, batch_loop *loop, const tenon_parameter *param,
                               const tenon_value *value)
{
    if (!param->spec || !tenon__has_batch(param->spec))
        return TENON_OK;
    batch_tensor *tensor = &loop->tensors[loop->count++];
    const tenon_view *view =
        value->kind == TENON_KIND_TENSOR && !(value->flags & TENON_VALUE_UNSET) ? value->as.view : NULL;
    memset(tensor, 0, sizeof *tensor);
    tensor->item_ndim = param->spec->ndims - 1;
    if (!view)
        return TENON_OK;
    size_t bits = tenon__element_bits(view);
    if (bits % 8 || !tenon_device_on_host(view->device))
        return tenon_fail(call, TENON_EFAILED, "its code calls tenon_for_each(), which is for %s",
                          bits % 8 ? "elements of whole bytes" : "memory of the CPU");
    tensor->data = view->data;
    tensor->size = (int64_t)(bits / 8);
    for (int32_t i = 0; i < loop->ndim; i++)
        tensor->strides[i] = view->strides[i] * tensor->size;
    return TENON_OK;
}

static tenon_status add_tensors(tenon_call *call, const tenon_frame *f, batch_loop *loop)
{
    const tenon_signature *s = f->signature;
    tenon_status status = TENON_OK;
    for (int32_t i = 0; !status && i < s->nparams; i++)
        status = add_tensor(call, loop, &s->params[i], &call->args[i]);
    for (int32_t i = 0; !status && i < s->nresults; i++)
        status = add_tensor(call, loop, &s->results[i], &call->results[i]);
    return status;
}

/* Compare the tensors with those that the code expects. */
static tenon_status check_sizes(tenon_call *call, const batch_loop *loop, int32_t count, const size_t *sizes)
{
    if (count != loop->count)
        return tenon_fail(call, TENON_EFAILED, "its code is for %d tensors of a batch, but its signature has %d",
                          (int)count, (int)loop->count);
    for (int32_t k = 0; k < count; k++) {
        if (!loop->tensors[k].data && !loop->tensors[k].size)
            return tenon_fail(call, TENON_EFAILED,
                              "its code needs every tensor of the batch, but number %d was not passed", (int)k);
        if (loop->tensors[k].item_ndim)
            return tenon_fail(call, TENON_EFAILED,
                              "its code is elementwise, but tensor %d of the batch has dimensions after '**'", (int)k);
        if ((size_t)loop->tensors[k].size != sizes[k])
            return tenon_fail(call, TENON_EFAILED,
                              "its code has a type of %d bytes for tensor %d of the batch, whose elements have %d",
                              (int)sizes[k], (int)k, (int)loop->tensors[k].size);
    }
    return TENON_OK;
}

/* Set the loop from the call, and run it. */
static tenon_status run_loop(tenon_call *call, batch_loop *loop, int32_t count, const size_t *sizes, int64_t grain)
{
    const tenon_frame *f = tenon__frame_of(call);
    int32_t batch = f->signature->batch;
    int64_t total = 1;
    loop->ndim = f->bindings.star_ndims[batch];
    for (int32_t i = 0; i < loop->ndim; i++)
        total *= loop->shape[i] = f->bindings.stars[batch][i];
    tenon_status status = add_tensors(call, f, loop);
    if (!status && sizes)
        status = check_sizes(call, loop, count, sizes);
    if (status || total == 0)
        return status;
    sort_dims(loop);
    merge_dims(loop);
    lengthen_runs(loop);
    for (int32_t k = 0; k < loop->count; k++)
        loop->steps[k] = loop->tensors[k].size ? loop->tensors[k].strides[loop->ndim - 1] / loop->tensors[k].size : 0;
    return tenon_parallel_for(call, total, grain, run_items, loop);
}

tenon_status tenon_frame_host_for_each(tenon_call *call, int32_t count, const size_t *sizes, int64_t grain,
                                       tenon_status (*body)(void *context, void *const *data, const int64_t *steps,
                                                            int64_t count),
                                       void *context)
{
    const tenon_frame *f = tenon__frame_of(call);
    const tenon_signature *s = f->signature;
    if (tenon__call_has_failed(call))
        return TENON_EFAILED;
    if (!s || !s->nbatched || !(f->bindings.stars_bound >> s->batch & 1))
        return tenon_fail(call, TENON_EFAILED, "its code calls tenon_for_each(), but %s",
                          s && s->nbatched ? "no argument of the batch was passed"
                                           : "its signature has no batch '**b'");
    /* Not a block of the call: the bodies of a parallel loop may have loops too. */
    size_t size = sizeof(batch_loop) + ((size_t)s->nbatched + (size_t)s->nresults) * sizeof(batch_tensor);
    batch_loop *loop = tenon__alloc(size, false);
    if (!loop)
        return tenon_fail(call, TENON_ENOMEM, "no memory for a loop over a batch");
    loop->body = body;
    loop->context = context;
    loop->count = 0;
    tenon_status status = run_loop(call, loop, count, sizes, grain);
    tenon__free(loop, size);
    return status;
}
