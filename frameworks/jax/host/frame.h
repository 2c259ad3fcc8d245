/* What the sources of one call share. */
#ifndef TENON_JAX_FRAME_H
#define TENON_JAX_FRAME_H

#include "internal.h"

enum { JAX_INLINE_DIMS = 8 };

typedef struct jax_tensor {
    tenon_view view;
    int64_t dims[2 * JAX_INLINE_DIMS];
} jax_tensor;

/* Scratch memory on a device, which XLA frees in the order of the stream. */
typedef struct jax_scratch {
    struct jax_scratch *next;
    void *data;
    size_t bytes;
} jax_scratch;

/* One call, on the stack; nothing fills it with zeros. */
typedef struct jax_frame {
    tenon_frame base; /* first */
    const xla_frame *xla;
    tenon_error *err;
    const char *letters; /* one for each parameter */
    const xla_buffer *packed;
    int64_t operands; /* read so far */
    int64_t attributes;
    int64_t numbers; /* of the packed operand */
    bool on_gpu;
    jax_scratch *scratch;
    tenon_value args[TENON_MAX_PARAMETERS];
    tenon_value results[TENON_MAX_RESULTS];
    jax_tensor tensors[TENON_MAX_PARAMETERS + TENON_MAX_RESULTS]; /* of the arguments, then of the results */
} jax_frame;

static inline jax_frame *jax_frame_of(tenon_frame *base)
{
    return (jax_frame *)(void *)base; /* it is the first member */
}

/* The buffer at this place, or NULL. */
static inline const xla_buffer *jax_buffer(const xla_buffers *buffers, int64_t index)
{
    const xla_buffer *buffer = index < buffers->count && buffers->types[index] == xla_argument_buffer
                                   ? (const xla_buffer *)buffers->items[index]
                                   : NULL;
    return buffer && XLA_HAS(buffer, xla_buffer, dims) ? buffer : NULL;
}

/* Ignore an error of XLA, if there is one. */
static inline void jax_drop_error(const xla_api *api, xla_error *error)
{
    if (error && XLA_HAS(api, xla_api, destroy_error))
        api->destroy_error(&(xla_error_destroy){.size = XLA_END(xla_error_destroy, error), .error = error});
}

/* By XLA's number. Those that Tenon does not know have no bits, and so have those of less than a byte, which are stored
 * differently on each backend. */
extern const tenon_dtype tenon__jax_dtypes[xla_dtype_end];

/* The dtype that XLA numbers so, or NULL. */
static inline const tenon_dtype *jax_dtype(int32_t dtype)
{
    return (uint32_t)dtype < xla_dtype_end && tenon__jax_dtypes[dtype].bits ? &tenon__jax_dtypes[dtype] : NULL;
}

/* Report an error. Each returns -1. */

/* The program does not keep to the rules in jax_host.h. */
int tenon__jax_malformed(jax_frame *f, const char *what);
/* Argument `index` cannot be read. If an earlier one does not match, that is the error. */
int tenon__jax_refuse(jax_frame *f, int32_t index, tenon_status status, const char *reason);
int tenon__jax_refuse_kind(jax_frame *f, int32_t index, const char *got);

/* Read argument `index`, which is not a tensor. 0, or -1: refused. */
int tenon__jax_take_scalar(jax_frame *f, int32_t index);
int tenon__jax_take_packed(jax_frame *f, int32_t index);
int tenon__jax_take_attribute(jax_frame *f, int32_t index);
/* The number of items of argument `index`, a list of tensors. 0, or -1: it has none. */
int tenon__jax_take_count(jax_frame *f, int32_t index, int64_t *count);

/* The place of result `index` among XLA's results: a list has as many as it has items. */
int64_t tenon__jax_result_place(const jax_frame *f, int32_t index);

/* Store the results that are numbers in their buffers. 0, or -1: refused. */
int tenon__jax_give_numbers(jax_frame *f);

/* Find the device and the stream of the call. 0, or -1: refused. */
int tenon__jax_join_gpu(jax_frame *f);
/* The client's `device_scratch`; and the end of it. */
void *tenon__jax_device_scratch(tenon_frame *base, size_t bytes, tenon_device device);
void tenon__jax_free_scratch(const jax_frame *f);

/* The client's `thread_count` and `schedule`: XLA's threads. */
int tenon__jax_thread_count(tenon_frame *base);
int tenon__jax_schedule(tenon_frame *base, void (*task)(void *data), void *data);

#endif
