/* What the files of the folder share. It gives nothing to the others: their functions are in tenon/host/frame.h. */
#ifndef TENON_CALL_INTERNAL_H
#define TENON_CALL_INTERNAL_H

#include "../signature/internal.h"

static inline tenon_frame *tenon__frame_of(const tenon_call *call)
{
    return call->host_private;
}

/* Whether result `index` exists and is of this kind. */
static inline bool tenon__is_result(const tenon_call *call, int32_t index, uint32_t kind)
{
    return index >= 0 && index < call->nresults && call->results[index].kind == kind;
}

/* "result 0", or "result 'z'". */
typedef struct tenon__label {
    char text[TENON_NAME_SIZE + 40];
} tenon__label;

tenon__label tenon__result_label(const tenon_frame *f, int32_t index);

/* Whether memory on the device can be result `index`; if not, with the message. */
bool tenon__result_on_device(const tenon_frame *f, int32_t index, tenon_device device, tenon_error *err);

/* A client's function failed. If it kept an error of its own, the call has failed all the same. */
void tenon__note_failure(tenon_call *call);

/* The parts of the services that concern only the call. */

/* Bodies of a parallel loop may fail on several threads at the same time; nothing else changes the flags meanwhile. */
static inline uint32_t tenon__call_flags(tenon_call *call)
{
    return atomic_load_explicit((_Atomic uint32_t *)&call->flags, memory_order_relaxed);
}

static inline bool tenon__call_has_failed(tenon_call *call)
{
    return tenon__call_flags(call) & TENON_CALL_FAILED;
}

/* Fail the call. False: it has failed before. */
static inline bool tenon__call_set_failed(tenon_call *call)
{
    _Atomic uint32_t *flags = (_Atomic uint32_t *)&call->flags;
    return !(atomic_fetch_or_explicit(flags, TENON_CALL_FAILED, memory_order_relaxed) & TENON_CALL_FAILED);
}

/* Write the message of a failure to `error`. */
void tenon__call_fail(tenon_error *error, tenon_status status, const char *message, size_t length);
/* Complete `error` after a function that failed, or that returned `status`: it has a message even if the function gave
 * none. */
void tenon__call_failure(const tenon_call *call, tenon_status status, tenon_error *error);
/* Whether the function may allocate this result with this shape and dtype. A dtype of all zeros is replaced by the one in
 * the signature. False if the call has failed. */
bool tenon__call_open_result(tenon_call *call, const tenon_signature *signature, const tenon_bindings *bindings,
                             int32_t index, int32_t ndim, const int64_t *shape, tenon_dtype *dtype);
/* Copy the string into a block. */
tenon_status tenon__call_result_str(tenon_call *call, tenon_block **list, int32_t index, const char *text,
                                    size_t length);
/* Scratch memory on the CPU. NULL if the call has failed. */
void *tenon__call_scratch(tenon_call *call, tenon_block **list, size_t bytes, size_t align);
/* The checks of tenon__call_open_result, for a result of any kind that is not set yet. */
bool tenon__call_check_shape(tenon_call *call, const tenon_signature *signature, const tenon_bindings *bindings,
                             int32_t index, int32_t ndim, const int64_t *shape, tenon_dtype *dtype);

/* Of a checked call: let the function write result `index`, which is placed, into a block with guards. False if there is no
 * memory for it. */
bool tenon__check_result(tenon_frame *f, int32_t index);
/* Of a checked call: the memory between guards that the function writes instead of tensor `item` of a list; `real` if that is
 * not checked, NULL if there is no memory. */
const tenon_view *tenon__check_item(tenon_frame *f, int32_t index, int64_t item, const tenon_view *real);
/* Of a checked call whose function failed: add to its message what it wrote outside its results, or to an argument. */
void tenon__check_failure(tenon_frame *f, tenon_error *failure);

/* As tenon_block_alloc, aligned to 16 bytes; tenon_blocks_release calls finish(memory) before it frees the block. */
void *tenon__block_alloc_finished(tenon_block **list, size_t size, void (*finish)(void *memory));

/* The memory of the next block that has this `finish`, or NULL. *at is the list at first, and then where to go on; `end` is a
 * block of the list, or NULL. */
void *tenon__block_find(tenon_block **at, const tenon_block *end, void (*finish)(void *memory));

/* A tensor that the function has pushed to a list. It is in a block that has this `finish`, which does nothing, so that
 * callbacks find it. */
typedef struct tenon__pushed {
    tenon_view view;
    int64_t item;
    int32_t index; /* of the result */
} tenon__pushed;
void tenon__finish_pushed(void *memory);

/* Whether the elements of `inner` are in the memory between the first and the last element of `outer`. */
bool tenon__is_within(const tenon_view *inner, const tenon_view *outer);

/* Scratch memory on the CPU for a function that has callables: a tensor, so that what a callback keeps can share it. */
void *tenon__call_shared_scratch(tenon_frame *f, size_t bytes, size_t align);

/* Find whose memory the view is in, in O(log n) of the tensors of the call. TENON_EFAILED: it is not the call's. */
tenon_status tenon__find_memory(tenon_frame *f, const tenon_view *view, tenon_memory *out);

#endif
