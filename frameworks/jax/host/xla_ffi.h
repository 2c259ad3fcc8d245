/* XLA's C structs for custom calls (xla/ffi/api/c_api.h, versions 0.1 to 0.5), as far as the host uses them.
 *
 * Nothing of JAX is needed to build the host. frameworks/jax/tests/host compares these declarations with the header of the
 * installed jaxlib. Every struct begins with its size, as far as its writer knows it: XLA_HAS says whether a field is
 * there. */
#ifndef TENON_JAX_XLA_FFI_H
#define TENON_JAX_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

#define XLA_END(type, field)          (offsetof(type, field) + sizeof(__typeof__(((type *)0)->field)))
#define XLA_HAS(pointer, type, field) ((pointer)->size >= XLA_END(type, field))

typedef struct xla_extension {
    size_t size;
    int32_t type; /* xla_extension_metadata */
    struct xla_extension *next;
} xla_extension;

enum { xla_extension_metadata = 1 };

typedef struct xla_version {
    size_t size;
    xla_extension *extensions;
    int32_t major;
    int32_t minor;
} xla_version;

/* ---------------------------------------------------------------------------------------------------------- values */

enum {
    xla_pred = 1,
    xla_s8 = 2,
    xla_s16 = 3,
    xla_s32 = 4,
    xla_s64 = 5,
    xla_u8 = 6,
    xla_u16 = 7,
    xla_u32 = 8,
    xla_u64 = 9,
    xla_f16 = 10,
    xla_f32 = 11,
    xla_f64 = 12,
    xla_c64 = 15,
    xla_bf16 = 16,
    xla_token = 17,
    xla_c128 = 18,
    xla_f8e5m2 = 19,
    xla_f8e4m3fn = 20,
    xla_f8e4m3b11fnuz = 23,
    xla_f8e5m2fnuz = 24,
    xla_f8e4m3fnuz = 25,
    xla_f8e4m3 = 28,
    xla_f8e3m4 = 29,
    xla_f8e8m0fnu = 33,
    xla_dtype_end
};

typedef struct xla_buffer {
    size_t size;
    xla_extension *extensions;
    int32_t dtype; /* xla_pred … xla_f8e8m0fnu, or one that we do not know */
    void *data;
    int64_t rank;
    int64_t *dims;
} xla_buffer;

enum { xla_argument_buffer = 1 };

/* The kinds of attributes. */
enum { xla_attr_array = 1, xla_attr_dictionary = 2, xla_attr_scalar = 3, xla_attr_string = 4 };

typedef struct xla_span {
    const char *text; /* without a final 0 */
    size_t length;
} xla_span;

typedef struct xla_scalar {
    int32_t dtype;
    void *value;
} xla_scalar;

typedef struct xla_array {
    int32_t dtype;
    size_t length;
    void *data;
} xla_array;

/* ---------------------------------------------------------------------------------------------------------- errors */

typedef struct xla_error xla_error;

enum {
    xla_invalid_argument = 3,
    xla_not_found = 5,
    xla_resource_exhausted = 8,
    xla_out_of_range = 11,
    xla_unimplemented = 12,
    xla_internal = 13
};

typedef struct xla_error_create {
    size_t size;
    xla_extension *extensions;
    const char *message; /* copied */
    int32_t code;
} xla_error_create;

typedef struct xla_error_destroy {
    size_t size;
    xla_extension *extensions;
    xla_error *error;
} xla_error_destroy;

/* -------------------------------------------------------------------------------------------------------- services */

typedef struct xla_context xla_context;

typedef struct xla_stream_get {
    size_t size;
    xla_extension *extensions;
    xla_context *context;
    void *stream; /* out */
} xla_stream_get;

typedef struct xla_memory_allocate {
    size_t size;
    xla_extension *extensions;
    xla_context *context;
    size_t bytes;
    size_t alignment;
    void *data; /* out */
} xla_memory_allocate;

typedef struct xla_memory_free {
    size_t size;
    xla_extension *extensions;
    xla_context *context;
    size_t bytes;
    void *data;
} xla_memory_free;

typedef struct xla_task_schedule {
    size_t size;
    xla_extension *extensions;
    xla_context *context;
    void (*task)(void *data);
    void *data;
} xla_task_schedule;

typedef struct xla_thread_count {
    size_t size;
    xla_extension *extensions;
    xla_context *context;
    int64_t *count; /* out */
} xla_thread_count;

typedef struct xla_ordinal_get {
    size_t size;
    xla_extension *extensions;
    xla_context *context;
    int32_t ordinal; /* out */
} xla_ordinal_get;

/* Those that are not used are `unused`, so that the others have their places. */
typedef struct xla_api {
    size_t size;
    xla_extension *extensions;
    xla_version version;
    const void *internal;
    xla_error *(*create_error)(xla_error_create *);
    void (*unused_get_message)(void);
    void (*destroy_error)(xla_error_destroy *);
    void (*unused_register_handler)(void);
    xla_error *(*get_stream)(xla_stream_get *);
    void (*unused_types_and_state[4])(void);
    xla_error *(*allocate)(xla_memory_allocate *);
    xla_error *(*free)(xla_memory_free *);
    xla_error *(*schedule)(xla_task_schedule *);
    xla_error *(*count_threads)(xla_thread_count *);
    void (*unused_futures[3])(void);
    void (*unused_run_id)(void);
    xla_error *(*get_ordinal)(xla_ordinal_get *); /* from JAX 0.6 on */
} xla_api;

/* ------------------------------------------------------------------------------------------------------- the frame */

typedef struct xla_buffers {
    size_t size;
    xla_extension *extensions;
    int64_t count;
    int32_t *types;
    void **items; /* xla_buffer * */
} xla_buffers;

typedef struct xla_attributes {
    size_t size;
    xla_extension *extensions;
    int64_t count;
    int32_t *types;
    xla_span **names; /* sorted */
    void **items;
} xla_attributes;

enum { xla_stage_execute = 3 };

/* A field `future` follows in newer versions. The host does not use it: its calls have ended when it returns. */
typedef struct xla_frame {
    size_t size;
    xla_extension *extensions;
    const xla_api *api;
    xla_context *context;
    int32_t stage;
    xla_buffers arguments;
    xla_buffers results;
    xla_attributes attributes;
} xla_frame;

/* -------------------------------------------------------------------------------------------------------- metadata */

enum { xla_trait_capturable = 1 };

typedef struct xla_metadata {
    size_t size;
    xla_version version; /* out */
    uint32_t traits;     /* out */
} xla_metadata;

typedef struct xla_metadata_extension {
    xla_extension base;
    xla_metadata *metadata;
} xla_metadata_extension;

#endif
