/* For the hosts that are built with the core: the fast case of the validation, the inside of a signature, and the driver of a
 * call.
 *
 * A host is a client of the driver: it reads its runtime's arguments into a frame, and the driver does what every host
 * does alike. docs/hosts.md is the contract. The layouts here may change in every release. So a host compiles its
 * signatures with tenon_signature_alloc_private, which refuses a host that was compiled with another layout.
 *
 * The steps of every call are inline, and take the client as a constant, so that its functions are called directly. The
 * steps that only a failing call takes are functions of the core. */
#ifndef TENON_HOST_PRIVATE_H
#define TENON_HOST_PRIVATE_H

#include <tenon/tenon.h>

#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A host may leave steps out. In the bundle, this text is part of a source, where a compiler warns of that. */
#ifdef __GNUC__
#define TENON__INLINE static inline __attribute__((__unused__))
#else
#define TENON__INLINE static inline
#endif

/* Increase it when a struct or an inline function here changes. */
#define TENON__HOST_LAYOUT 3u

/* ------------------------------------------------------------------------------------------------------ views */

/* The fast case of tenon_view_init and tenon_view_init_bytes, which try it first. It is inline for the fast paths of
 * hosts. It takes tensors in C order without gaps that have from 1 to INT32_MAX elements
 * and gives what the functions would give. False means "unknown", not "invalid": call one of them to find out; `view`
 * and `dims` may be half written then. 2^stride_shift units of the strides make an element.
 *
 * The memory is the CPU's; the caller may set another device that has addresses afterwards. The caller guarantees that the
 * dtype is known and has whole bytes, that ndim is 0 to 64, that the shape is given, that the flags are DLPack's, and that
 * `dims` is not where strides in bytes are. */
TENON__INLINE bool tenon__view_init_fast(tenon_view *view, void *data, const tenon_dtype *dtype, int32_t ndim,
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

/* ------------------------------------------------------------------------------------------------------ specs */

/* The compiled part of a spec may be anywhere in the caller's storage. */
#ifdef __GNUC__
#define TENON__MAY_ALIAS __attribute__((__may_alias__))
#else
#define TENON__MAY_ALIAS
#endif

/* One operation of an expression, in postfix order. */
typedef struct TENON__MAY_ALIAS tenon__spec_op {
    int64_t value; /* a number, or the slot of a name */
    int32_t kind;  /* TENON_OP_… */
    int32_t at;    /* its position in the text */
} tenon__spec_op;

typedef struct TENON__MAY_ALIAS tenon__spec_dim {
    int32_t kind; /* TENON_DIM_… */
    int32_t at;   /* its position in the text, and its length */
    int32_t length;
    int32_t first; /* its first operation, and the number of them */
    int32_t count;
    int32_t slot; /* of a name or "*" name */
    int64_t number;
} tenon__spec_dim;

/* What `private_` of a tenon_spec holds. */
typedef struct TENON__MAY_ALIAS tenon__spec_code {
    int32_t star; /* index of the "*" dimension, or -1 */
    int32_t nops;
    int32_t type_length; /* of the text, up to "]" or "?" */
    int32_t text_length; /* of the text, up to the where clause */
    tenon__spec_dim dims[TENON_SPEC_DIMS];
    tenon__spec_op ops[TENON_SPEC_CODE];
} tenon__spec_code;

TENON__INLINE const tenon__spec_code *tenon__code_of(const tenon_spec *spec)
{
    return (const tenon__spec_code *)(const void *)spec->private_;
}

/* ------------------------------------------------------------------------------------------------------ signatures */

/* The constraints of a spec that most calls meet: one dtype, few dimensions, each a name or anything, memory of the CPU. */
enum { TENON__FAST_DIMS = 4 };
typedef struct tenon__fast_spec {
    tenon_device device; /* these three are as in a view: a plan copies them at once */
    int32_t ndim;        /* -1: the spec is not so simple */
    tenon_dtype dtype;
    uint32_t wanted; /* bits of the view's flags that must be set, of those in `looked_at` */
    uint32_t looked_at;
    uint32_t address_mask;           /* bits of the address that must be 0 */
    int16_t slots[TENON__FAST_DIMS]; /* of the names; -1: anything */
    uint32_t binds;                  /* bit i: in a plan, dimension i gives its name a value; the others compare */
    uint32_t adds;                   /* bits of the view's flags that the call sets */
} tenon__fast_spec;

/* Never changed after it is made, so any number of threads may use it. */
struct tenon_signature {
    const char *text;
    const char *name;       /* "query", or "KDTree.query" */
    const char *class_name; /* NULL for a plain function */
    const char *method;     /* NULL if it is not a method */
    const tenon_parameter *params;
    const tenon_parameter *results;
    int32_t nparams;
    int32_t npositional; /* those before the "*" */
    int32_t nrequired;   /* positional ones without a default */
    int32_t nresults;
    int32_t ntensors;             /* tensor parameters */
    int32_t nwritten;             /* of these, written */
    int32_t nserial;              /* parameters that are TENON_PARAMETER_SERIAL */
    int32_t role;                 /* TENON_ROLE_… */
    bool named_results;           /* all have a name, or none */
    bool plain;                   /* no dtype variable, nothing written: a match only binds dimensions */
    bool binds_ints;              /* an int parameter binds a dimension */
    bool open_results;            /* some are TENON_PARAMETER_OPEN */
    bool planned;                 /* calls may be taken by plan: tenon__plan_take */
    size_t size;                  /* of the one block of memory that holds it all */
    const tenon__fast_spec *fast; /* of the parameters, then of the results */
    tenon_names names;
};

/* Compile a signature, as tenon_signature_alloc_in, for a host that was compiled with this `layout` (TENON__HOST_LAYOUT).
 *
 * Release:   tenon_signature_release(*out).
 * Errors:    TENON_EVERSION (another layout), and those of tenon_signature_alloc_in. */
TENON_API TENON_NODISCARD tenon_status tenon_signature_alloc_private(const char *text, const tenon_module *module,
                                                                     uint32_t layout, tenon_signature **out,
                                                                     tenon_error *err);

/* Incremental match: begin, ask for each tensor as soon as it is there whether it fits, end. `false` means "unknown", not
 * "mismatch": tenon_signature_match decides then, and also if an int parameter binds a dimension. */
TENON__INLINE void tenon__match_begin(const tenon_signature *signature, tenon_bindings *bindings)
{
    tenon_bindings_reset(bindings, &signature->names);
    bindings->function = signature->name;
}

TENON__INLINE bool tenon__match_fits(const tenon_signature *signature, int32_t index, const tenon_view *view,
                                     tenon_bindings *bindings)
{
    const tenon__fast_spec *fast = &signature->fast[index];
    if (view->ndim != fast->ndim || !tenon_dtype_equal(view->dtype, fast->dtype) ||
        (((uint32_t)view->flags & fast->looked_at) ^ fast->wanted) |
            ((uint32_t)(uintptr_t)view->data & fast->address_mask) ||
        view->device.device_type != TENON_CPU)
        return false;
    for (int32_t i = 0; i < fast->ndim; i++) {
        int slot = fast->slots[i];
        if (slot < 0)
            continue;
        if (!(bindings->dims_bound >> slot & 1)) {
            bindings->dims_bound |= 1u << slot;
            bindings->dims[slot] = view->shape[i];
            bindings->dims_from[slot] = signature->params[index].name;
        } else if (bindings->dims[slot] != view->shape[i]) {
            return false;
        }
    }
    return true;
}

TENON_API TENON_NODISCARD tenon_status tenon_signature_match_end(const tenon_signature *signature,
                                                                 const tenon_value *args, tenon_bindings *bindings,
                                                                 tenon_error *err);

/* ------------------------------------------------------------------------------------------------------ the driver */

typedef struct tenon__frame tenon__frame;

/* Why a call is refused. */
typedef enum tenon__refusal {
    TENON__REFUSED_ARGUMENT, /* it does not match; bindings.argument is its name, or NULL */
    TENON__REFUSED_DEVICE,   /* argument `index` is on another device than the call */
    TENON__REFUSED_RESULT,   /* the shape of result `index` has no value, or its memory is on another device */
    TENON__REFUSED_BY_CODE /* the function failed, or did not keep to its signature; the message is without its name */
} tenon__refusal;

/* What a host brings. All but device_scratch, keep_argument, takes_memory and warn are required. Those that return an int return 0 on success, and otherwise
 * have reported the error in the host's own way. */
typedef struct tenon__client {
    /* Report an error. */
    void (*refuse)(tenon__frame *frame, tenon__refusal why, int32_t index, const tenon_error *err);
    /* A phrase for argument `index` in messages, such as "numpy.ndarray", which lives as long as the call; NULL if the
     * argument was left out. */
    const char *(*describe)(tenon__frame *frame, int32_t index);
    /* Allocate tensor result `index` before the function runs, and call tenon__frame_place. */
    int (*make_result)(tenon__frame *frame, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape);
    /* The same while the function runs. On failure it calls tenon_fail, or keeps the host's own error for `refuse`. */
    int (*open_result)(tenon__frame *frame, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape);
    /* Take a handle as result `index`; takes `object` on success. Fails as open_result does. */
    int (*take_handle)(tenon__frame *frame, int32_t index, void *object, void (*destroy)(void *object));
    /* Scratch memory on a device, or NULL; fails as open_result does. */
    void *(*device_scratch)(tenon__frame *frame, size_t bytes, tenon_device device);
    /* Call frame->call.function->call, with or without the runtime's lock, and return what it returned. */
    tenon_status (*run)(tenon__frame *frame);
    /* Keep tensor argument `index`, which was given and is "keep", beyond the call: a share that the function owns, with
     * its size set, and a release that may be called on any thread at any time. NULL: it failed as open_result does, or
     * the host has no such service. */
    tenon_kept *(*keep_argument)(tenon__frame *frame, int32_t index);
    /* Whether results may be "own" and "of(...)": the host takes them with tenon_frame_take_memory. */
    bool takes_memory;
    /* Warn about result `index` of a checked call; the message is without the name of the function. Not 0: the host made an
     * error of it, and has reported it. May be NULL. */
    int (*warn)(tenon__frame *frame, int32_t index, const char *message);
} tenon__client;

/* A result that is "own" or "of(...)" and was given; results[index].as.view is its first member. The dims come after it. */
typedef struct tenon__given {
    tenon_view view;
    void *owner;
    void (*release)(void *owner); /* "own" and not taken yet: tenon__frame_end calls it */
} tenon__given;

/* One call: the first member of a host's own frame, on its stack. Nothing fills it with zeros. */
struct tenon__frame {
    tenon_call call;
    const tenon__client *client;
    const tenon_signature *signature; /* NULL while a module's `load` runs */
    tenon_value *args;
    tenon_value *results;
    tenon_block *blocks; /* released by tenon__frame_end */
    tenon_error *error;  /* NULL until the function fails; one of the blocks */
    bool fits;           /* all tensors so far fit */
    tenon_bindings bindings;
    struct tenon__checked *checked; /* one of the blocks; set only if call.flags has TENON__CALL_CHECKED */
};

/* A bit of tenon_call.flags for the driver: the call is checked. */
#define TENON__CALL_CHECKED (1u << 31)

/* Fill in the part of a call that is the same in all calls of a function. */
TENON_API void tenon_call_init(tenon_call *call, const tenon_host *host, const tenon_function *function, void *state,
                               const tenon_signature *signature);

/* Begin a call. `constant` is from tenon_call_init. The host has set `args` and `results`, which have room for all of the
 * signature's, and calls tenon__frame_begin_result for each result. */
TENON__INLINE void tenon__frame_begin(tenon__frame *f, const tenon__client *client, const tenon_call *constant,
                                      const tenon_signature *signature)
{
    f->call = *constant;
    f->call.host_private = f;
    f->call.args = f->args;
    f->call.dims = f->bindings.dims;
    f->client = client;
    f->signature = signature;
    f->blocks = NULL;
    f->error = NULL;
    f->fits = !signature->binds_ints;
    tenon__match_begin(signature, &f->bindings);
}

/* No result is set yet. A loop of the host's, which has its own arrays of results. */
TENON__INLINE void tenon__frame_begin_result(tenon__frame *f, int32_t index)
{
    f->results[index].kind = f->signature->results[index].kind;
    f->results[index].flags = TENON_VALUE_UNSET;
    f->results[index].as.view = NULL;
}

/* Release what the driver holds. */
TENON__INLINE void tenon__frame_end(tenon__frame *f)
{
    if (f->blocks)
        tenon_blocks_release(f->blocks);
}

/* Argument `index` was left out (`given` is false), or is the runtime's "nothing". False: it is neither, or nothing is not
 * allowed here, and the host reads it. */
TENON__INLINE bool tenon__frame_take_nothing(tenon__frame *f, int32_t index, bool given, bool is_none)
{
    const tenon_parameter *param = &f->signature->params[index];
    if (!given) {
        f->args[index] = param->value;
        f->fits = f->fits && (param->flags & TENON_PARAMETER_DEFAULT); /* a required one: the match refuses it */
        return true;
    }
    if (!is_none || !(param->flags & TENON_PARAMETER_OPTIONAL))
        return false;
    f->args[index].kind = TENON_KIND_NONE;
    f->args[index].flags = 0;
    return true;
}

/* Argument `index` is this tensor. */
TENON__INLINE void tenon__frame_take_view(tenon__frame *f, int32_t index, tenon_view *view)
{
    const tenon_signature *s = f->signature;
    f->args[index].kind = TENON_KIND_TENSOR;
    f->args[index].flags = 0;
    f->args[index].as.view = view;
    if (s->nwritten && (s->params[index].spec->flags & TENON_SPEC_WRITE))
        view->flags |= TENON_VIEW_WRITTEN;
    f->fits = f->fits && tenon__match_fits(s, index, view, &f->bindings);
}

TENON_API int tenon_frame_refuse_device(tenon__frame *f, int32_t index, tenon_device device);
TENON_API int tenon_frame_refuse_arguments(tenon__frame *f, int32_t count);
TENON_API int tenon_frame_refuse_result(tenon__frame *f, int32_t index);
TENON_API int tenon_frame_refuse_failure(tenon__frame *f, tenon_status status);
TENON_API int tenon_frame_check_result(tenon__frame *f, int32_t index);
TENON_API int tenon_frame_check_device(tenon__frame *f, int32_t index);

/* The device rule, for an argument that the CPU cannot read: the call runs on the device of the first one, and the others
 * are there too, unless the signature says "anywhere". 1: it was the first one; 0: it is there too; -1: refused. */
TENON__INLINE int tenon__frame_meet_device(tenon__frame *f, int32_t index, tenon_device device)
{
    if (tenon_device_on_host(f->call.device)) {
        f->call.device = device;
        return 1;
    }
    if (tenon_device_equal(f->call.device, device) || (f->signature->params[index].spec->flags & TENON_SPEC_ANYWHERE))
        return 0;
    return tenon_frame_refuse_device(f, index, device);
}

/* The host cannot read argument `index`. If an earlier argument does not match, refuse that one instead, and return true:
 * the first mistake is reported. */
TENON_API bool tenon_frame_refuse_earlier(tenon__frame *f, int32_t index);

/* All arguments are taken: match them, and fill in what the function reads. 0, or -1: refused. */
TENON__INLINE int tenon__frame_match(tenon__frame *f)
{
    const tenon_signature *s = f->signature;
    tenon_status status = TENON_OK;
    if (!f->fits)
        status = tenon_signature_match(s, f->args, NULL, &f->bindings, NULL);
    else if (!s->plain || f->bindings.dims_bound != (uint32_t)((UINT64_C(1) << s->names.ndims) - 1))
        status = tenon_signature_match_end(s, f->args, &f->bindings, NULL);
    if (status)
        return tenon_frame_refuse_arguments(f, s->nparams);
    f->call.results = f->results;
    f->call.types = f->bindings.types;
    return 0;
}

/* The plan of a call: the arguments of a signature that is `planned` are taken with few instructions, all of them or none.
 * Such a signature has only tensors with a fast spec, numbers, and the self of a method, no overlap to check, and results of known shapes, and each
 * name is bound by the first tensor that has it. A host may try tenon__plan_take for every tensor, in order, on a frame that
 * has not begun, and then call tenon__plan_begin. If one of them returns false, or an argument is unusual in any way,
 * nothing has happened yet: the host begins the call by the steps above, which report errors.
 *
 * The tensor is in C order in memory of the CPU. The host has compared its dtype and its number of dimensions with those of
 * `fast`, the parameter's member of signature->fast. `bound` is the frame's bindings.dims, `arg` the parameter's member of
 * args, `flags` TENON_READ_ONLY or 0, and `dims` has room for twice its dimensions. */
TENON__INLINE bool tenon__plan_take(const tenon__fast_spec *fast, int64_t *bound, tenon_value *arg, void *data,
                                    const int64_t *shape, uint64_t flags, tenon_view *view, int64_t *dims)
{
    int32_t ndim = fast->ndim;
    int64_t product = 1, longest = 1;
    ptrdiff_t i = (ptrdiff_t)ndim - 1;
    /* The limits are those of tenon__view_init_fast. */
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
    if (((uint32_t)flags & fast->looked_at) ^ fast->wanted)
        return false;
    view->data = data;
    memcpy(&view->device, &fast->device, offsetof(tenon_view, shape) - offsetof(tenon_view, device));
    view->shape = dims;
    view->strides = dims + ndim;
    view->byte_offset = 0;
    view->flags = flags | fast->adds;
    view->numel = product;
    arg->kind = TENON_KIND_TENSOR;
    arg->flags = 0;
    arg->as.view = view;
    return true;
}

/* All arguments are taken: begin the call, as it is after tenon__frame_match. The bindings have only what a result of a
 * planned signature needs: the values of the dimensions. */
TENON__INLINE void tenon__plan_begin(tenon__frame *f, const tenon__client *client, const tenon_call *constant,
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

/* Result `index` is in this memory. */
TENON__INLINE void tenon__frame_place(tenon__frame *f, int32_t index, tenon_view *view, uint64_t flags)
{
    view->flags |= flags;
    f->results[index].as.view = view;
    f->results[index].flags = 0;
}

/* Make the tensor results whose shape is known. 0, or -1: refused. */
TENON__INLINE int tenon__frame_make_results(tenon__frame *f, const tenon__client *client)
{
    const tenon_signature *s = f->signature;
    for (int32_t i = 0; i < s->nresults; i++) {
        const tenon_parameter *result = &s->results[i];
        if (result->kind != TENON_KIND_TENSOR || (result->flags & TENON_PARAMETER_OPEN))
            continue;
        tenon_dtype dtype;
        int32_t ndim;
        int64_t shape[TENON_MAX_NDIM];
        if (tenon_signature_result(s, i, &f->bindings, &dtype, &ndim, shape, NULL))
            return tenon_frame_refuse_result(f, i);
        if (client->make_result(f, i, dtype, ndim, shape))
            return -1;
        if (result->spec->devices && tenon_frame_check_device(f, i))
            return -1;
    }
    return 0;
}

/* Run the shape function, if there is one and a result needs it, and then the function. 0, or -1: refused. */
TENON__INLINE int tenon__frame_run(tenon__frame *f, const tenon__client *client)
{
    const tenon_function *function = f->call.function;
    tenon_status status = TENON_OK;
    if (function->shape && f->signature->open_results) {
        f->call.flags |= TENON_CALL_SHAPE_ONLY;
        status = function->shape(&f->call);
        f->call.flags &= ~TENON_CALL_SHAPE_ONLY;
    }
    if (!status && !(f->call.flags & TENON_CALL_FAILED))
        status = client->run(f);
    if (!status && !(f->call.flags & TENON_CALL_FAILED))
        return 0;
    return tenon_frame_refuse_failure(f, status);
}

/* As tenon__frame_run, in the checked mode. The function writes each tensor result into a block between guards, which is then
 * copied into the real one; memory that the function must not write to is compared after the call. A call on a device runs
 * as usual. `of_caller` has a bit for each result in memory of the caller (`out`), which is not checked. 0, or -1: refused,
 * or a warning became an error. */
TENON_API int tenon_frame_run_checked(tenon__frame *f, uint32_t of_caller);

/* Whether the environment variable TENON_CHECK turns the checked mode on: 1, true, yes or on, in any case of letters. */
TENON_API bool tenon_frame_check_wanted(void);

/* Whether the function has set a result that is not a tensor, and set it to a value that its kind has. 1: it has; 0: it is
 * optional and was not set; -1: refused. */
TENON__INLINE int tenon__frame_has_result(tenon__frame *f, int32_t index)
{
    uint32_t kind = f->results[index].kind;
    bool simple = kind == TENON_KIND_INT || kind == TENON_KIND_FLOAT || kind == TENON_KIND_BOOL;
    return simple && !(f->results[index].flags & TENON_VALUE_UNSET) ? 1 : tenon_frame_check_result(f, index);
}

/* Make a tensor of result `index`, which is "own" or "of(...)" and which the function has set (its flags do not have
 * TENON_VALUE_UNSET). It is read-only if the owner's memory is.
 *
 * Ownership: on TENON_OK the tensor owns the memory. "own": with the function's release, and `owner` and `release` are not
 *            used. "of(...)": with `owner`, the host's share of parameter signature->results[index].owner. On failure
 *            nothing is taken, and tenon__frame_end releases what the function gave.
 * Errors:    TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_frame_take_memory(tenon__frame *f, int32_t index, void *owner,
                                                               tenon_release_fn release, tenon_tensor **out,
                                                               tenon_error *err);

/* For hosts that lock the objects of a call (the arguments that are TENON_PARAMETER_SERIAL; signature->nserial counts
 * them): sort pointers by address and leave out duplicates, so that all calls lock in the same order, and each object once.
 * Returns how many are left. */
TENON_API int32_t tenon_frame_sort_objects(void **objects, int32_t count);

/* Call a module's `load`, in a frame of the host's that is used for nothing else. 0, or -1: refused. */
TENON_API int tenon_frame_load(tenon__frame *f, const tenon__client *client, const tenon_host *host,
                               const tenon_module *module, void **state);

/* What a host's tenon_host does through its client. */
TENON_API tenon_status tenon_frame_host_fail(tenon_call *call, tenon_status status, const char *message, size_t length);
TENON_API const tenon_view *tenon_frame_host_result_alloc(tenon_call *call, int32_t index, tenon_dtype dtype,
                                                          int32_t ndim, const int64_t *shape);
TENON_API tenon_status tenon_frame_host_result_handle(tenon_call *call, int32_t index, void *object,
                                                      void (*destroy)(void *object));
TENON_API tenon_status tenon_frame_host_result_str(tenon_call *call, int32_t index, const char *text, size_t length);
TENON_API void *tenon_frame_host_scratch(tenon_call *call, size_t bytes, size_t align, tenon_device device);
TENON_API int32_t tenon_frame_host_find(tenon_call *call, uint32_t what, const char *name, size_t length);
TENON_API tenon_kept *tenon_frame_host_arg_keep(tenon_call *call, int32_t index);
TENON_API tenon_status tenon_frame_host_result_give(tenon_call *call, int32_t index, void *data, int32_t ndim,
                                                    const int64_t *shape, const int64_t *strides, void *owner,
                                                    void (*release)(void *owner));

/* The members of a tenon_host that are the same for every client. */
/* clang-format off */
#define TENON__HOST_SERVICES                                                                                           \
    .size = sizeof(tenon_host), .minor = TENON_ABI_MINOR, .fail = tenon_frame_host_fail,                               \
    .result_alloc = tenon_frame_host_result_alloc, .result_handle = tenon_frame_host_result_handle,                    \
    .result_str = tenon_frame_host_result_str, .scratch = tenon_frame_host_scratch,                                    \
    .find = tenon_frame_host_find, .arg_keep = tenon_frame_host_arg_keep, .result_give = tenon_frame_host_result_give
/* clang-format on */

/* ------------------------------------------------------------------------------------------------------------ text */

/* The length of the UTF-8 character at `text`, of which `left` bytes are there, or 0 if it is not one: no overlong forms,
 * no surrogates, nothing cut off. */
TENON_API size_t tenon_utf8_length(const char *text, size_t left);
TENON_API bool tenon_utf8_is_valid(const char *text, size_t length);
/* The length of the text, or less: cut to at most `most` bytes, but not inside a character. */
TENON_API size_t tenon_utf8_cut(const char *text, size_t length, size_t most);
/* Replace the bytes of a string that are not UTF-8 with "?". */
TENON_API void tenon_utf8_replace_invalid(char *text);

#ifdef __cplusplus
}
#endif

#endif
