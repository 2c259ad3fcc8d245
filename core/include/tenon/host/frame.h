/* One call, step by step.
 *
 *   tenon_frame_begin, tenon_frame_begin_result    fill in the call
 *   tenon_frame_set_missing, tenon_frame_set_view, tenon_frame_set_list
 *                                                  the host sets each argument; other kinds are stored into args[i]
 *   tenon_frame_join_device                        for an argument that the CPU cannot read
 *   tenon_frame_match                              match all arguments, and bind the names of the signature
 *   tenon_frame_make_results                       allocate the results whose shape is known
 *   tenon_frame_run                                run the function
 *   tenon_frame_has_result                         check a result that is not a tensor
 *   tenon_frame_end                                free the memory of the call
 *
 * A step that returns -1 has called the client's `refuse` once, with the whole message.
 *
 * Threads: a frame belongs to one thread. */
#ifndef TENON_HOST_FRAME_H
#define TENON_HOST_FRAME_H

#include <tenon/host/client.h>
#include <tenon/host/signature.h>
#include <tenon/tensor.h>
#include <tenon/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory that is valid as long as a call: a list of blocks. NULL is an empty list. */
typedef struct tenon_block tenon_block;

/* Allocate `size` bytes, aligned to `align` bytes and at least to 16. Returns NULL if there is no memory, or if `align` is
 * not a power of two up to 4096. */
TENON_API TENON_NODISCARD void *tenon_block_alloc(tenon_block **list, size_t size, size_t align);

/* Free all blocks. NULL is ignored. */
TENON_API void tenon_blocks_release(tenon_block *list);

/* One call: the first member of a host's own frame, on its stack. Nothing fills it with zeros. */
struct tenon_frame {
    tenon_call call;
    const tenon_client *client;
    const tenon_signature *signature; /* NULL while a module's `load` runs */
    tenon_value *args;
    tenon_value *results;
    tenon_block *blocks;            /* released by tenon_frame_end */
    tenon_error *error;             /* NULL until the function fails; one of the blocks */
    tenon_bindings bindings;        /* set by tenon_frame_match */
    struct tenon__checked *checked; /* one of the blocks; set only if call.flags has TENON__CALL_CHECKED */
    struct tenon__loop *loop;       /* set only if call.flags has TENON__CALL_LOOP */
    struct tenon__owners *owners;   /* one of the blocks; set only if call.flags has TENON__CALL_OWNERS */
};

/* Bits of tenon_call.flags for the driver: the call is checked; a parallel loop of it runs on several threads. */
#define TENON__CALL_CHECKED (1u << 31)
#define TENON__CALL_OWNERS  (1u << 28) /* a callback has searched the memory of the call */
#define TENON__CALL_BODY    (1u << 29) /* the body of a loop runs on the thread of the call */
#define TENON__CALL_LOOP    (1u << 30)

/* A bit of tenon_call.flags that a host may set before tenon_frame_match: arguments must match as they are, also those that
 * are "convert". */
#define TENON_FRAME_EXACT (1u << 30)

/* A bit of the flags of an argument: its view is that of a tenon_converted, in a block of the call. */
#define TENON__VALUE_CONVERTED (1u << 31)

typedef struct tenon_converted {
    tenon_view view;
    const tenon_view *given; /* the view that the host has set */
} tenon_converted;

/* ----------------------------------------------------------------------------------------------------------- begin */

/* Fill in the part of a call that is the same in all calls of a function. */
TENON_API void tenon_call_init(tenon_call *call, const tenon_host *host, const tenon_function *function, void *state,
                               const tenon_signature *signature);

/* Begin a call. `constant` is from tenon_call_init. The host has set `args` and `results`, which have room for all of the
 * signature's, and calls tenon_frame_begin_result for each result. */
TENON__INLINE void tenon_frame_begin(tenon_frame *f, const tenon_client *client, const tenon_call *constant,
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
}

/* No result is set yet. The loop is the host's, which has its own arrays of results. */
TENON__INLINE void tenon_frame_begin_result(tenon_frame *f, int32_t index)
{
    f->results[index].kind = f->signature->results[index].kind;
    f->results[index].flags = TENON_VALUE_UNSET;
    f->results[index].as.view = NULL;
}

/* Release what the driver holds. */
TENON__INLINE void tenon_frame_end(tenon_frame *f)
{
    if (f->blocks)
        tenon_blocks_release(f->blocks);
}

/* ------------------------------------------------------------------------------------------------------- arguments */

/* Argument `index` was left out (`passed` is false), or is the runtime's "nothing". False: it is neither, or nothing is not
 * allowed here, and the host reads it. */
TENON__INLINE bool tenon_frame_set_missing(tenon_frame *f, int32_t index, bool passed, bool is_none)
{
    const tenon_parameter *param = &f->signature->params[index];
    if (!passed) {
        f->args[index] = param->value; /* that of a required one is None, which the match refuses */
        return true;
    }
    if (!is_none || !(param->flags & TENON_PARAMETER_OPTIONAL))
        return false;
    f->args[index].kind = TENON_KIND_NONE;
    f->args[index].flags = 0;
    return true;
}

/* Argument `index` is this tensor. A host's frame has both the view and the arguments; gcc sees a pointer that dangles when
 * the frame is gone. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdangling-pointer"
#endif
TENON__INLINE void tenon_frame_set_view(tenon_frame *f, int32_t index, tenon_view *view)
{
    f->args[index].kind = TENON_KIND_TENSOR;
    f->args[index].flags = 0;
    f->args[index].as.view = view;
    if (f->signature->nwritten && (f->signature->params[index].spec->flags & TENON_SPEC_WRITE))
        view->flags |= TENON_VIEW_WRITTEN;
}
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#pragma GCC diagnostic pop
#endif

/* The view that the host has set for argument `index`, which is a tensor: another one than args[index] has if it was
 * converted. */
TENON__INLINE const tenon_view *tenon_frame_given_view(const tenon_frame *f, int32_t index)
{
    const tenon_view *view = f->args[index].as.view;
    return f->args[index].flags & TENON__VALUE_CONVERTED ? ((const tenon_converted *)(const void *)view)->given : view;
}

/* Argument `index` is a list of these tensors, which live as long as the call. */
TENON_API void tenon_frame_set_list(tenon_frame *f, int32_t index, tenon_view *views, int64_t count);

/* Argument `index` is this callable, an object of the host's, which is in args[index].as.handle.object. Only the thread that
 * calls this may call it. */
TENON_API void tenon_frame_set_callable(tenon_frame *f, int32_t index, void *object);

TENON_API int tenon_frame_refuse_device(tenon_frame *f, int32_t index, tenon_device device);

/* As tenon_frame_join_device, for an item of argument `index`, a list of tensors. */
TENON_API int tenon_frame_join_item_device(tenon_frame *f, int32_t index, int64_t item, tenon_device device);

/* The device rule, for an argument that the CPU cannot read: the call runs on the device of the first one, and the others
 * are there too, unless the signature says "anywhere". 1: it was the first one; 0: it is there too; -1: refused. */
TENON__INLINE int tenon_frame_join_device(tenon_frame *f, int32_t index, tenon_device device)
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
TENON_API bool tenon_frame_refuse_earlier(tenon_frame *f, int32_t index);

/* All arguments are set: match them against the signature, and fill in the values of its names. A dimension that only
 * omitted arguments have is -1. The kind of each argument is the kind of its parameter, or TENON_KIND_NONE; any other is
 * refused with TENON_EFAILED. If an argument does not match, those that are "convert" are converted, if the client has
 * `convert`: args[i] is then a copy, which lives as long as the call. The shapes of the views are valid until the call ends. After a mismatch, `bindings.argument` is the name of the argument. 0, or -1:
 * refused. */
TENON_API int tenon_frame_match(tenon_frame *f);

/* As tenon_frame_match, for an entry of an overloaded function: false if the arguments do not match. Nothing is refused then,
 * and the host tries the next entry in another frame. */
TENON_API bool tenon_frame_try_match(tenon_frame *f);

/* --------------------------------------------------------------------------------------------------- results and run */

TENON_API int tenon_frame_refuse_result(tenon_frame *f, int32_t index);
TENON_API int tenon_frame_check_device(tenon_frame *f, int32_t index);
TENON_API int tenon_frame_make_list(tenon_frame *f, int32_t index);

/* Result `index` is in this memory. */
TENON__INLINE void tenon_frame_set_result(tenon_frame *f, int32_t index, tenon_view *view, uint64_t flags)
{
    view->flags |= flags;
    f->results[index].as.view = view;
    f->results[index].flags = 0;
}

/* Make the tensor results whose shape is known, lists "for ..." among them. 0, or -1: refused. */
TENON__INLINE int tenon_frame_make_results(tenon_frame *f, const tenon_client *client)
{
    const tenon_signature *s = f->signature;
    for (int32_t i = 0; i < s->nresults; i++) {
        const tenon_parameter *result = &s->results[i];
        if (result->kind != TENON_KIND_TENSOR || (result->flags & TENON_PARAMETER_OPEN)) {
            if (result->kind == TENON_KIND_TENSORS && tenon_frame_make_list(f, i))
                return -1;
            continue;
        }
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

/* Refuse the call because the function failed, or returned `status`: the message is the function's, or says that it
 * gave no reason. Always -1. */
TENON_API int tenon_frame_refuse_failure(tenon_frame *f, tenon_status status);

/* Run the shape function, if there is one and a result needs it, and then the function. 0, or -1: refused. */
TENON__INLINE int tenon_frame_run(tenon_frame *f, const tenon_client *client)
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

/* As tenon_frame_run, in the checked mode. The function writes each tensor result into a block between guards, which is then
 * copied into the real one; memory that the function must not write to is compared after the call. A call on a device runs
 * as usual. `outs` has a bit for each result in the caller's memory (`out`), which is not checked. 0, or -1: refused, or a
 * warning became an error. */
TENON_API int tenon_frame_run_checked(tenon_frame *f, uint32_t outs);

/* Whether the environment variable TENON_CHECK turns the checked mode on: 1, true, yes or on, in any case of letters. */
TENON_API bool tenon_frame_check_wanted(void);

TENON_API int tenon_frame_check_result(tenon_frame *f, int32_t index);

/* Whether the function has set a result that is not a tensor, and set it to a value that its kind has. 1: it has; 0: it is
 * optional and was not set; -1: refused. */
TENON__INLINE int tenon_frame_has_result(tenon_frame *f, int32_t index)
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
 *            nothing is taken, and tenon_frame_end releases what the function gave.
 * Errors:    TENON_ENOMEM, TENON_EINVAL (it is another result, is not set, or was already taken). */
TENON_API TENON_NODISCARD tenon_status tenon_frame_take_memory(tenon_frame *f, int32_t index, void *owner,
                                                               tenon_release_fn release, tenon_tensor **out,
                                                               tenon_error *err);

/* ------------------------------------------------------------------------------------------------ objects, and load */

/* For hosts that lock the objects of a call (the arguments that are TENON_PARAMETER_SERIAL; signature->nserial counts
 * them): sort pointers by address and leave out duplicates, so that all calls lock in the same order, and each object once.
 * Returns how many are left. */
TENON_API int32_t tenon_frame_sort_objects(void **objects, int32_t count);

/* Call a module's `load`, in a frame of the host's that is used for nothing else. 0, or -1: refused. */
TENON_API int tenon_frame_load(tenon_frame *f, const tenon_client *client, const tenon_host *host,
                               const tenon_module *module, void **state);

#ifdef __cplusplus
}
#endif

#endif
