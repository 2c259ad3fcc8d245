/* The client: what a host gives the driver, and the services of a host that the driver implements.
 *
 * A host gives the driver one constant table of functions. Declare it `static const` (or hidden) in the file that makes the
 * calls. docs/hosts.md has the contract of each member. */
#ifndef TENON_HOST_CLIENT_H
#define TENON_HOST_CLIENT_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_frame tenon_frame; /* one call: host/frame.h */

/* Why a call is refused. */
typedef enum tenon_refusal {
    TENON_REFUSED_ARGUMENT, /* it does not match; bindings.argument is its name, or NULL */
    TENON_REFUSED_DEVICE,   /* argument `index` is on another device than the call */
    TENON_REFUSED_RESULT,   /* the shape of result `index` has no value, or its memory is on another device */
    TENON_REFUSED_BY_CODE   /* the function failed, or did not keep to its signature; the message is without its name */
} tenon_refusal;

/* Whose memory a tensor is in that is passed to a callback. */
enum {
    TENON_MEMORY_NONE,     /* it has no elements */
    TENON_MEMORY_ARGUMENT, /* of argument `index`, or of its item `item` if that is a list */
    TENON_MEMORY_RESULT,   /* the same of a result that the host has made */
    TENON_MEMORY_SCRATCH   /* the tensor `scratch` */
};

typedef struct tenon_memory {
    uint32_t where; /* TENON_MEMORY_… */
    int32_t index;
    int64_t item; /* -1 if it is not a list */
    struct tenon_tensor *scratch;
} tenon_memory;

/* A callback that the function calls. The arguments match its signature. Views are valid until the client returns, and are
 * TENON_READ_ONLY unless the callback may write to them. */
typedef struct tenon_callback_call {
    int32_t index; /* of the argument that is called */
    const struct tenon_signature *signature;
    const tenon_value *args;
    const tenon_memory *memory; /* of each argument that is a tensor */
    tenon_value *results; /* `kind` is set; the client writes the rest, and allocates strings in the frame's blocks */
} tenon_callback_call;

/* What a host brings. Members that return an int return 0 on success; otherwise they have reported the error in the host's
 * own way. Those of the second half may be NULL. */
typedef struct tenon_client {
    /* Report an error. */
    void (*refuse)(tenon_frame *frame, tenon_refusal why, int32_t index, const tenon_error *err);
    /* A phrase for argument `index` in messages, such as "numpy.ndarray", which lives as long as the call; NULL if the
     * argument was left out. */
    const char *(*describe)(tenon_frame *frame, int32_t index);
    /* Allocate tensor result `index` before the function runs, and call tenon_frame_set_result. */
    int (*make_result)(tenon_frame *frame, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape);
    /* The same while the function runs. On failure it calls tenon_fail, or keeps the host's own error for `refuse`. */
    int (*open_result)(tenon_frame *frame, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape);
    /* Take a handle as result `index`; takes `object` on success. Fails as open_result does. */
    int (*take_handle)(tenon_frame *frame, int32_t index, void *object, void (*destroy)(void *object));
    /* Call frame->call.function->call, with or without the runtime's lock, and return what it returned. */
    tenon_status (*run)(tenon_frame *frame);

    /* Scratch memory on a device, or NULL; fails as open_result does. */
    void *(*device_scratch)(tenon_frame *frame, size_t bytes, tenon_device device);
    /* Keep tensor argument `index`, which was passed and is "keep", beyond the call: a share that the function owns, with
     * its size set, and a release that may be called on any thread at any time. NULL: it failed as open_result does. */
    tenon_kept *(*keep_argument)(tenon_frame *frame, int32_t index);
    /* Whether results may be "own" and "of(...)": the host takes them with tenon_frame_take_memory. */
    bool takes_memory;
    /* Warn about result `index` of a checked call; the message is without the name of the function. Not 0: the host made an
     * error of it, and has reported it. */
    int (*warn)(tenon_frame *frame, int32_t index, const char *message);
    /* Write the runtime's name of the dtype of an argument, for messages about it. NULL: the names of signatures. */
    tenon_dtype_format_fn format_dtype;
    /* As `describe`, for an item of argument `index`, which is a list of tensors. */
    const char *(*describe_item)(tenon_frame *frame, int32_t index, int64_t item);
    /* As make_result, for item `item` of result `index`, a list "for ..."; the items are made in order. *view is the memory,
     * and the array that its shape and strides point to lives as long as the call. NULL: such results are refused. */
    int (*make_item)(tenon_frame *frame, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                     const int64_t *shape, tenon_view *view);
    /* As open_result, for the next item of a list that the function makes. NULL: such results are refused. */
    int (*open_item)(tenon_frame *frame, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                     const int64_t *shape, tenon_view *view);
    /* Argument `index`, which is "convert", is about to be converted, into a copy of `bytes` bytes: its memory is read now. Not 0:
     * it must not be read, and the host has reported why. NULL: arguments are not converted. */
    int (*convert)(tenon_frame *frame, int32_t index, int64_t bytes);
    /* It was converted, and the call matches: count it. Not 0: the host made an error of it, and has reported it. */
    int (*converted)(tenon_frame *frame, int32_t index, int64_t bytes);
    /* Call argument `call->index`, with the runtime's lock; fails as open_result does. NULL: the call fails. */
    int (*callback)(tenon_frame *frame, const tenon_callback_call *call);
    /* Make result `index` of bytes, which the host copies, while the function runs; a second one replaces the first. Fails as
     * open_result does. NULL: the driver copies them into a block, and the result's value is that. */
    int (*take_bytes)(tenon_frame *frame, int32_t index, const void *data, size_t length);
    /* Whether the caller has given up. Called on the thread of the call. NULL: the host does not know. */
    bool (*cancelled)(tenon_frame *frame);
    /* How many threads a parallel loop may use, the calling one included; 1: no others; 0: as many as OpenMP has. NULL: 0.
     * Called on the thread of the call. */
    int (*thread_count)(tenon_frame *frame);
    /* The host has its own threads for loops if thread_count is not 0: run task(data) on one of them, now or later, once. Not
     * 0: it cannot. Called on the thread of the call. NULL: loops run on the threads of OpenMP. */
    int (*schedule)(tenon_frame *frame, void (*task)(void *data), void *data);
} tenon_client;

/* ------------------------------------------------------------------------------------------------ services of a host */

/* The members of a tenon_host that are the same for every client: static const tenon_host host = {TENON_HOST_SERVICES,
 * .name = "mine"}; a host adds `extension` if it has it. This is for C: in C++, assign the members. */
/* clang-format off */
#define TENON_HOST_SERVICES                                                                                            \
    .size = sizeof(tenon_host), .minor = TENON_ABI_MINOR, .fail = tenon_frame_host_fail,                               \
    .result_alloc = tenon_frame_host_result_alloc, .result_handle = tenon_frame_host_result_handle,                    \
    .result_str = tenon_frame_host_result_str, .scratch = tenon_frame_host_scratch,                                    \
    .find = tenon_frame_host_find, .arg_keep = tenon_frame_host_arg_keep,                                              \
    .result_memory = tenon_frame_host_result_memory, .result_push = tenon_frame_host_result_push,                      \
    .result_bytes = tenon_frame_host_result_bytes, .result_list = tenon_frame_host_result_list,                        \
    .callback = tenon_frame_host_callback, .cancelled = tenon_frame_host_cancelled,                                    \
    .parallel = tenon_frame_host_parallel, .for_each = tenon_frame_host_for_each
/* clang-format on */

TENON_API tenon_status tenon_frame_host_fail(tenon_call *call, tenon_status status, const char *message, size_t length);
TENON_API const tenon_view *tenon_frame_host_result_alloc(tenon_call *call, int32_t index, tenon_dtype dtype,
                                                          int32_t ndim, const int64_t *shape);
TENON_API const tenon_view *tenon_frame_host_result_push(tenon_call *call, int32_t index, tenon_dtype dtype,
                                                         int32_t ndim, const int64_t *shape);
TENON_API tenon_status tenon_frame_host_callback(tenon_call *call, int32_t index, const tenon_value *args,
                                                 tenon_value *results);
TENON_API tenon_status tenon_frame_host_for_each(tenon_call *call, int32_t count, const size_t *sizes, int64_t grain,
                                                 tenon_status (*body)(void *context, void *const *data,
                                                                      const int64_t *steps, int64_t count),
                                                 void *context);
TENON_API tenon_status tenon_frame_host_result_handle(tenon_call *call, int32_t index, void *object,
                                                      void (*destroy)(void *object));
TENON_API tenon_status tenon_frame_host_result_str(tenon_call *call, int32_t index, const char *text, size_t length);
TENON_API tenon_status tenon_frame_host_result_bytes(tenon_call *call, int32_t index, const void *data, size_t length);
TENON_API tenon_status tenon_frame_host_result_list(tenon_call *call, int32_t index, const void *items, int64_t count);
TENON_API void *tenon_frame_host_scratch(tenon_call *call, size_t bytes, size_t align, tenon_device device);
TENON_API int32_t tenon_frame_host_find(tenon_call *call, uint32_t what, const char *name, size_t length);
TENON_API tenon_kept *tenon_frame_host_arg_keep(tenon_call *call, int32_t index);
TENON_API tenon_status tenon_frame_host_result_memory(tenon_call *call, int32_t index, void *data, int32_t ndim,
                                                      const int64_t *shape, const int64_t *strides, void *owner,
                                                      void (*release)(void *owner));

TENON_API int32_t tenon_frame_host_cancelled(tenon_call *call);
TENON_API tenon_status tenon_frame_host_parallel(tenon_call *call, int64_t count, int64_t grain,
                                                 tenon_status (*body)(void *context, int64_t begin, int64_t end),
                                                 void *context);

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
