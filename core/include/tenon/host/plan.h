/* The fast path of a host: most calls in few instructions.
 *
 * The arguments of a planned signature are set all at once, or not at all. If one of the functions below returns false, or an
 * argument is unusual in any way, nothing has happened yet: the host begins the call by the steps of host/frame.h, which
 * report errors.
 *
 * TENON_PLAN_PLAIN: the signature has only tensors with simple specs, numbers, and the self of a method, no overlap to check,
 * and results of known shapes, and each name is bound by the first tensor that has it. A host tries tenon_plan_set_view for
 * every tensor, in order, on a frame that has not begun, and then calls tenon_plan_begin.
 *
 * TENON_PLAN_WIDE: tensors may also be optional, have sizes that are numbers and several dtypes, and be written to; there may
 * be conditions, values that bind names, and results of any shape. Plain signatures may be called this way, too. A host calls
 * tenon_plan_begin_wide, sets every argument, tensors by tenon_plan_set_view_wide, calls tenon_plan_bind_value for each value
 * whose parameter is `checked`, and then tenon_plan_match_rest. */
#ifndef TENON_HOST_PLAN_H
#define TENON_HOST_PLAN_H

#include <tenon/host/frame.h>

#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The constraints of a spec that most calls meet: few dimensions, each a name, a number or anything, and memory of the CPU. A
 * plain one has one dtype, and no numbers. */
enum { TENON_PLAN_DIMS = 4 };
struct tenon_plan_spec {
    tenon_device device;   /* these three are as in a view: a plan copies them at once */
    int32_t ndim;          /* -1: the spec is not so simple */
    tenon_dtype dtype;     /* of no bits: the spec has several, or a variable */
    uint32_t flags_wanted; /* bits of the view's flags that must be set, of those in flags_checked */
    uint32_t flags_checked;
    uint32_t address_mask;          /* bits of the address that must be 0 */
    int16_t slots[TENON_PLAN_DIMS]; /* of the names; -1: anything */
    uint32_t binds;                 /* bit i: in a plan, dimension i gives its name a value; the others compare */
    uint32_t flags_added;           /* bits of the view's flags that the call sets */
    int64_t sizes[TENON_PLAN_DIMS]; /* the numbers; -1: the size is not a number */
    const tenon_spec *spec;
};

/* Set a tensor argument. It is in C order in memory of the CPU. The host has compared its dtype and its number of dimensions
 * with those of `fast`, the parameter's member of signature->fast. `bound` is the frame's bindings.dims, `arg` the
 * parameter's member of args, `flags` TENON_READ_ONLY or 0, and `dims` has room for twice its dimensions. */
TENON__INLINE bool tenon_plan_set_view(const tenon_plan_spec *fast, int64_t *bound, tenon_value *arg, void *data,
                                       const int64_t *shape, uint64_t flags, tenon_view *view, int64_t *dims)
{
    int32_t ndim = fast->ndim;
    int64_t product = 1, longest = 1;
    ptrdiff_t i = (ptrdiff_t)ndim - 1;
    /* The limits are those of tenon_view_init_fast. */
    if ((uintptr_t)data - 1 >= INTPTR_MAX || sizeof data < 8 || ((uint32_t)(uintptr_t)data & fast->address_mask))
        return false;
    if (ndim == 1) { /* the most common one, without a loop */
        int64_t size = shape[0];
        if ((uint64_t)size - 1 >= INT32_MAX)
            return false;
        dims[0] = size;
        dims[1] = 1;
        product = longest = size;
        if (fast->binds)
            bound[fast->slots[0]] = size;
        else if (fast->slots[0] >= 0 && bound[fast->slots[0]] != size)
            return false;
        i = -1;
    }
    for (; i >= 0; i--) {
        int64_t size = shape[i];
        int slot = fast->slots[i];
        if ((uint64_t)size - 1 >= INT32_MAX)
            return false;
        dims[i] = size;
        dims[ndim + i] = product;
        if (fast->binds >> i & 1)
            bound[slot] = size;
        else if (slot >= 0 && bound[slot] != size)
            return false;
        longest = size > longest ? size : longest;
        product *= size;
        if (product > INT32_MAX)
            return false;
    }
    flags |= TENON_VIEW_C | TENON_VIEW_DENSE | (longest == product ? TENON_VIEW_F : 0);
    if (((uint32_t)flags & fast->flags_checked) ^ fast->flags_wanted)
        return false;
    view->data = data;
    memcpy(&view->device, &fast->device, offsetof(tenon_view, shape) - offsetof(tenon_view, device));
    view->shape = dims;
    view->strides = dims + ndim;
    view->byte_offset = 0;
    view->flags = flags | fast->flags_added;
    view->numel = product;
    arg->kind = TENON_KIND_TENSOR;
    arg->flags = 0;
    arg->as.view = view;
    return true;
}

/* All arguments are taken: begin the call, as it is after tenon_frame_match. The bindings have only what a result of a
 * planned signature needs: the values of the dimensions. */
TENON__INLINE void tenon_plan_begin(tenon_frame *f, const tenon_client *client, const tenon_call *constant,
                                    const tenon_signature *signature)
{
    f->call = *constant;
    f->call.host_private = f;
    f->call.args = f->args;
    f->call.results = f->results;
    f->call.dims = f->bindings.dims;
    f->call.types = f->bindings.types;
    f->client = client;
    f->signature = signature;
    f->blocks = NULL;
    f->error = NULL;
    f->bindings.names = &signature->names;
    f->bindings.function = signature->name;
    f->bindings.dims_bound = (uint32_t)((UINT64_C(1) << signature->names.ndims) - 1);
}

/* ------------------------------------------------------------------------------------------------------- wide plans */

/* Begin the call, with no argument set. */
TENON__INLINE void tenon_plan_begin_wide(tenon_frame *f, const tenon_client *client, const tenon_call *constant,
                                         const tenon_signature *signature)
{
    tenon_frame_begin(f, client, constant, signature);
    f->call.results = f->results;
    f->call.types = f->bindings.types;
    tenon_bindings_reset(&f->bindings, &signature->names);
    f->bindings.function = signature->name;
}

/* Give dimension name `slot` the value `size`, from argument `from`, if it has none. Whether it has this value. */
TENON__INLINE bool tenon_plan_bind_size(int32_t slot, int64_t size, const char *from, tenon_bindings *b)
{
    if (b->dims_bound >> slot & 1)
        return b->dims[slot] == size;
    b->dims_bound |= 1u << slot;
    b->dims[slot] = size;
    b->dims_from[slot] = from;
    return true;
}

/* Whether an argument of a spec with several dtypes has one of them, and is aligned for it. */
TENON_API bool tenon_plan_bind_dtype(const tenon_plan_spec *fast, tenon_dtype dtype, const void *data, const char *name,
                                     tenon_bindings *bindings);

/* As tenon_plan_set_view, for argument `index`. The host has compared only the number of dimensions. */
TENON__INLINE bool tenon_plan_set_view_wide(tenon_frame *f, int32_t index, tenon_dtype dtype, void *data,
                                            const int64_t *shape, uint64_t flags, tenon_view *view, int64_t *dims)
{
    const tenon_plan_spec *fast = &f->signature->fast[index];
    const char *name = f->signature->params[index].name;
    int32_t ndim = fast->ndim;
    int64_t product = 1, longest = 1;
    if ((uintptr_t)data - 1 >= INTPTR_MAX || sizeof data < 8 || ((uint32_t)(uintptr_t)data & fast->address_mask))
        return false;
    if (!tenon_dtype_equal(dtype, fast->dtype) &&
        (fast->dtype.bits || !tenon_plan_bind_dtype(fast, dtype, data, name, &f->bindings)))
        return false;
    for (ptrdiff_t i = (ptrdiff_t)ndim - 1; i >= 0; i--) {
        int64_t size = shape[i];
        if ((uint64_t)size - 1 >= INT32_MAX)
            return false;
        if (fast->slots[i] >= 0 ? !tenon_plan_bind_size(fast->slots[i], size, name, &f->bindings)
                                : fast->sizes[i] >= 0 && fast->sizes[i] != size)
            return false;
        dims[i] = size;
        dims[ndim + i] = product;
        longest = size > longest ? size : longest;
        product *= size;
        if (product > INT32_MAX)
            return false;
    }
    flags |= TENON_VIEW_C | TENON_VIEW_DENSE | (longest == product ? TENON_VIEW_F : 0);
    if (((uint32_t)flags & fast->flags_checked) ^ fast->flags_wanted)
        return false;
    view->data = data;
    view->device = fast->device;
    view->ndim = ndim;
    view->dtype = dtype;
    view->shape = dims;
    view->strides = dims + ndim;
    view->byte_offset = 0;
    view->flags = flags | fast->flags_added;
    view->numel = product;
    f->args[index].kind = TENON_KIND_TENSOR;
    f->args[index].flags = 0;
    f->args[index].as.view = view;
    return true;
}

/* Bind the dimension or the dtype variable that the value of a `checked` parameter is, and compare it with the integers that
 * the parameter allows. */
TENON_API bool tenon_plan_bind_value(const tenon_parameter *param, const tenon_value *value, tenon_bindings *bindings);

TENON_API bool tenon_plan_check_rest(tenon_frame *f);

/* All arguments are set: check what concerns all of them together, and clear the names without a value. After it the call is
 * as it is after tenon_frame_match. */
TENON__INLINE bool tenon_plan_match_rest(tenon_frame *f)
{
    const tenon_signature *s = f->signature;
    bool is_bound = f->bindings.dims_bound == (uint32_t)((UINT64_C(1) << s->names.ndims) - 1);
    return (is_bound && !s->names.ntypes && !s->checks_all) || tenon_plan_check_rest(f);
}

/* ----------------------------------------------------------------------------------------------------------- views */

/* The fast case of tenon_view_init and tenon_view_init_bytes, which try it first. It is inline for the fast paths of
 * hosts. It takes tensors in C order without gaps that have from 1 to INT32_MAX elements
 * and gives what the functions would give. False means "unknown", not "invalid": call one of them to find out; `view`
 * and `dims` may be half written then. 2^stride_shift units of the strides make an element.
 *
 * The memory is the CPU's; the caller may set another device that has addresses afterwards. The caller guarantees that the
 * dtype is known and has whole bytes, that ndim is 0 to 64, that the shape is given, that the flags are DLPack's, and that
 * `dims` is not where strides in bytes are. */
TENON__INLINE bool tenon_view_init_fast(tenon_view *view, void *data, const tenon_dtype *dtype, int32_t ndim,
                                        const int64_t *shape, const int64_t *strides, int stride_shift, uint64_t flags,
                                        int64_t *dims)
{
    /* Not NULL; and in the lower half of the addresses so many elements do not reach the end. */
    if ((uintptr_t)data - 1 >= INTPTR_MAX || sizeof data < 8)
        return false;
    view->data = data;
    view->device.device_type = TENON_CPU;
    view->device.device_id = 0;
    view->ndim = ndim;
    view->dtype = *dtype;
    view->shape = dims;
    view->strides = dims + ndim;
    view->byte_offset = 0;
    int64_t product = 1, longest = 1;
    for (ptrdiff_t i = (ptrdiff_t)ndim - 1; i >= 0; i--) {
        int64_t size = shape[i], stride = strides ? strides[i] : product;
        if (strides && stride != product << stride_shift && size != 1)
            return false;
        dims[i] = size;
        dims[ndim + i] = strides ? stride >> stride_shift : stride;
        /* Neither 0, negative nor large, so that nothing can overflow; large tensors do not notice the general case. */
        if ((uint64_t)size - 1 >= INT32_MAX || (product *= size) > INT32_MAX)
            return false;
        longest = size > longest ? size : longest;
    }
    /* Fortran order too if no more than one dimension is longer than 1. */
    view->flags = flags | TENON_VIEW_C | TENON_VIEW_DENSE | (longest == product ? TENON_VIEW_F : 0);
    view->numel = product;
    return true;
}

#ifdef __cplusplus
}
#endif

#endif
