/* The ABI between a library of functions and its hosts: every struct, number and symbol that both sides must agree on.
 * Authors include tenon/function.h, which has the accessors; a language other than C declares these types.
 *
 * Structs that are stored in arrays are frozen. Structs that are passed by pointer have a field `size` and grow only at
 * the end. The header compiles as C99, C11, C++17 and CUDA. */
#ifndef TENON_ABI_H
#define TENON_ABI_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the ABI. A library needs the version of the header that it was compiled with; a host accepts every
 * library of its major version that does not need a later minor version than its own. */
#define TENON_ABI_MAJOR 1
#define TENON_ABI_MINOR 0

#if defined(__GNUC__)
#define TENON_NODISCARD           __attribute__((__warn_unused_result__))
#define TENON_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define TENON_NODISCARD
#define TENON_PRINTF(text, first)
#endif

/* --------------------------------------------------------------------------------------------------------- status */

/* The return type of every function that can fail. It is an integer, not an enum, because its size is part of the
 * ABI. */
typedef int32_t tenon_status;

enum {
    TENON_OK = 0,
    TENON_EINVAL = 1,    /* an argument is NULL or out of range */
    TENON_ENOMEM = 2,    /* out of memory */
    TENON_EOVERFLOW = 3, /* a size, product or offset does not fit in 64 bits */
    TENON_EDTYPE = 4,    /* the dtype is unknown, or not the required one */
    TENON_ESHAPE = 5,    /* the shape is invalid, or not the required one */
    TENON_ELAYOUT = 6,   /* the strides or the alignment would require a copy */
    TENON_EBOUNDS = 7,   /* an index or a byte is outside the memory */
    TENON_EDEVICE = 8,   /* the device is unknown, or not the required one */
    TENON_EREADONLY = 9, /* the memory must not be written to */
    TENON_EVERSION = 10, /* the version of DLPack or of this ABI is not supported */
    TENON_EPARSE = 11,   /* a string is not a valid dtype, device, spec or signature */
    TENON_EOVERLAP = 12, /* memory that would be written to overlaps other memory in use */
    TENON_EFAILED = 13,  /* the function failed for a reason of its own */
    TENON_ESYSTEM = 14,  /* the operating system refused; tenon_error.os_error has its errno */
};

/* ---------------------------------------------------------------------------------------------------------- dtype */

/* The same as DLDataType. `bits` is the size of one lane, and an element has `lanes` lanes. For a complex dtype, `bits`
 * counts the real and the imaginary part together. */
typedef struct tenon_dtype {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} tenon_dtype;

enum {
    TENON_CODE_INT = 0,
    TENON_CODE_UINT = 1,
    TENON_CODE_FLOAT = 2,
    TENON_CODE_OPAQUE = 3,
    TENON_CODE_BFLOAT = 4,
    TENON_CODE_COMPLEX = 5,
    TENON_CODE_BOOL = 6,
    TENON_CODE_F8_E3M4 = 7,
    TENON_CODE_F8_E4M3 = 8,
    TENON_CODE_F8_E4M3B11FNUZ = 9,
    TENON_CODE_F8_E4M3FN = 10,
    TENON_CODE_F8_E4M3FNUZ = 11,
    TENON_CODE_F8_E5M2 = 12,
    TENON_CODE_F8_E5M2FNUZ = 13,
    TENON_CODE_F8_E8M0FNU = 14,
    TENON_CODE_F6_E2M3FN = 15,
    TENON_CODE_F6_E3M2FN = 16,
    TENON_CODE_F4_E2M1FN = 17,
};

/* A dtype, of one of the codes above. */
static inline tenon_dtype tenon_dtype_of(int code, int bits, int lanes)
{
    tenon_dtype dtype;
    dtype.code = (uint8_t)code;
    dtype.bits = (uint8_t)bits;
    dtype.lanes = (uint16_t)lanes;
    return dtype;
}

#define TENON_BOOL tenon_dtype_of(TENON_CODE_BOOL, 8, 1)
#define TENON_I8   tenon_dtype_of(TENON_CODE_INT, 8, 1)
#define TENON_I16  tenon_dtype_of(TENON_CODE_INT, 16, 1)
#define TENON_I32  tenon_dtype_of(TENON_CODE_INT, 32, 1)
#define TENON_I64  tenon_dtype_of(TENON_CODE_INT, 64, 1)
#define TENON_U8   tenon_dtype_of(TENON_CODE_UINT, 8, 1)
#define TENON_U16  tenon_dtype_of(TENON_CODE_UINT, 16, 1)
#define TENON_U32  tenon_dtype_of(TENON_CODE_UINT, 32, 1)
#define TENON_U64  tenon_dtype_of(TENON_CODE_UINT, 64, 1)
#define TENON_F16  tenon_dtype_of(TENON_CODE_FLOAT, 16, 1)
#define TENON_F32  tenon_dtype_of(TENON_CODE_FLOAT, 32, 1)
#define TENON_F64  tenon_dtype_of(TENON_CODE_FLOAT, 64, 1)
#define TENON_BF16 tenon_dtype_of(TENON_CODE_BFLOAT, 16, 1)
#define TENON_C64  tenon_dtype_of(TENON_CODE_COMPLEX, 64, 1)
#define TENON_C128 tenon_dtype_of(TENON_CODE_COMPLEX, 128, 1)

/* Whether two dtypes are the same. */
static inline bool tenon_dtype_equal(tenon_dtype a, tenon_dtype b)
{
    return memcmp(&a, &b, sizeof a) == 0; /* one comparison is enough: there is no padding */
}

/* --------------------------------------------------------------------------------------------------------- device */

/* The same as DLDevice. */
typedef struct tenon_device {
    int32_t device_type;
    int32_t device_id;
} tenon_device;

enum {
    TENON_CPU = 1,
    TENON_CUDA = 2,
    TENON_CUDA_HOST = 3,
    TENON_OPENCL = 4,
    TENON_VULKAN = 7,
    TENON_METAL = 8,
    TENON_VPI = 9,
    TENON_ROCM = 10,
    TENON_ROCM_HOST = 11,
    TENON_EXT_DEV = 12,
    TENON_CUDA_MANAGED = 13,
    TENON_ONEAPI = 14,
    TENON_WEBGPU = 15,
    TENON_HEXAGON = 16,
    TENON_MAIA = 17,
    TENON_TRAINIUM = 18,
};

/* A device, of one of the types above. */
static inline tenon_device tenon_device_of(int type, int id)
{
    tenon_device device;
    device.device_type = type;
    device.device_id = id;
    return device;
}

/* Whether two devices are the same. */
static inline bool tenon_device_equal(tenon_device a, tenon_device b)
{
    return a.device_type == b.device_type && a.device_id == b.device_id;
}

/* ----------------------------------------------------------------------------------------------------------- view */

/* Bits of tenon_view.flags. The first three are DLPack's, and the only ones that a caller may set. */
#define TENON_READ_ONLY      ((uint64_t)1 << 0)
#define TENON_IS_COPIED      ((uint64_t)1 << 1)
#define TENON_SUBBYTE_PADDED ((uint64_t)1 << 2)  /* each sub-byte value occupies a whole byte */
#define TENON_VIEW_C         ((uint64_t)1 << 8)  /* in C order without gaps */
#define TENON_VIEW_F         ((uint64_t)1 << 9)  /* in Fortran order without gaps */
#define TENON_VIEW_DENSE     ((uint64_t)1 << 10) /* no gaps in some order of the dimensions, positive strides */
#define TENON_VIEW_WRITTEN   ((uint64_t)1 << 11) /* the function may write to it */
#define TENON_VIEW_FRESH     ((uint64_t)1 << 12) /* a result that has not been written yet */

#define TENON_MAX_NDIM 64

/* A validated description of a tensor's memory. A view owns nothing. Its first 48 bytes are a DLTensor.
 *
 * `strides` is never NULL if ndim > 0. If the device has addresses, `byte_offset` has already been added to `data` and
 * is 0; if `data` is a handle, both are as the producer gave them. Only tenon_view_init and the functions of tensor.h
 * create views: do not pass a view that was filled in by hand to Tenon. */
typedef struct tenon_view {
    void *data;
    tenon_device device;
    int32_t ndim;
    tenon_dtype dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
    uint64_t flags;
    int64_t numel;
} tenon_view;

struct tenon_dl_tensor;

/* The view as a DLTensor, for any library that accepts one. It is valid as long as the view is. */
static inline const struct tenon_dl_tensor *tenon_dltensor(const tenon_view *view)
{
    return (const struct tenon_dl_tensor *)(const void *)view;
}

/* --------------------------------------------------------------------------------------------------------- values */

/* The kind of an argument or a result. */
enum {
    TENON_KIND_NONE = 0, /* optional, and not passed */
    TENON_KIND_TENSOR = 1,
    TENON_KIND_INT = 2,
    TENON_KIND_FLOAT = 3,
    TENON_KIND_BOOL = 4, /* `integer` is 0 or 1 */
    TENON_KIND_STR = 5,  /* `list` is UTF-8; `length` counts bytes, without the 0 after them */
    TENON_KIND_ENUM = 6, /* `integer` is the index of the string */
    TENON_KIND_INTS = 7,
    TENON_KIND_FLOATS = 8,
    TENON_KIND_TENSORS = 9, /* `list` is const tenon_view[] */
    TENON_KIND_HANDLE = 10,
    TENON_KIND_COMPLEX = 11, /* `parts` are the real and the imaginary part */
    TENON_KIND_UINT = 12,    /* `integer` has the bits of a uint64_t */
    TENON_KIND_BYTES = 13,   /* `list` is bytes */
    TENON_KIND_STRS = 14,    /* `list` is const tenon_text[] */
    TENON_KIND_DTYPE = 15,
    TENON_KIND_CALLABLE = 16 /* called with tenon_callback; the members of `as` are the host's */
};

/* A string in a list of strings: `length` bytes of UTF-8. Frozen. */
typedef struct tenon_text {
    const char *data;
    size_t length;
} tenon_text;

/* Bits of tenon_value.flags. */
#define TENON_VALUE_DEFAULT 1u /* the argument was not passed, and has its default */
#define TENON_VALUE_UNSET   2u /* the function has not returned this result yet */

typedef struct tenon_value {
    uint32_t kind;
    uint32_t flags;
    union {
        const tenon_view *view;
        int64_t integer;
        double number;
        double parts[2];
        struct {
            const void *data;
            int64_t length;
        } list;
        struct {
            void *object;
            const char *type;
        } handle;
        tenon_dtype dtype;
    } as;
    uint64_t reserved;
} tenon_value;

/* ------------------------------------------------------------------------------------------------- calls and hosts */

typedef struct tenon_call tenon_call;
typedef struct tenon_host tenon_host;
typedef struct tenon_function tenon_function;
typedef struct tenon_module tenon_module;
typedef struct tenon_kept tenon_kept;

/* Bits of tenon_call.flags. */
#define TENON_CALL_FAILED     1u /* fail() was called: the function's return value is ignored */
#define TENON_CALL_UNLOCKED   2u /* the runtime's lock is released */
#define TENON_CALL_SHAPE_ONLY 4u /* this is a call of `shape`, which must not read the data */

/* One call. The host creates it, and it is valid until the function returns. Use the accessors below; a function in
 * another language may read the fields directly. */
struct tenon_call {
    uint32_t size;
    uint32_t minor;
    const tenon_host *host;
    const tenon_function *function;
    void *state; /* created by the module's `load` */
    const tenon_value *args;
    tenon_value *results;
    int32_t nargs;
    int32_t nresults;
    const int64_t *dims; /* the dimension names of the signature, in order of first appearance */
    const tenon_dtype *types;
    int32_t ndims;
    int32_t ntypes;
    tenon_device device; /* of the device tensors, or the CPU; it is not made the current device */
    void *stream;        /* the stream for work on that device: a cudaStream_t on CUDA */
    uint32_t flags;
    uint32_t reserved;
    void *host_private;
};

/* A share of an argument's memory, which outlives the call: see tenon_arg_keep. */
struct tenon_kept {
    uint32_t size;
    uint32_t reserved;
    const tenon_view *view;            /* valid until the release */
    void (*release)(tenon_kept *self); /* to be called once, on any thread */
};

/* What `find` of a tenon_host looks for: an argument, a result, a dimension name or a dtype variable. */
enum { TENON_NAME_ARG = 0, TENON_NAME_RESULT = 1, TENON_NAME_DIM = 2, TENON_NAME_TYPE = 3 };

/* The services that a host offers to a function. A member is NULL if the host does not offer that service; the
 * accessors below check for that.
 *
 * Threads: only the thread that runs the function may use these. The body of a parallel loop may use `fail`, `cancelled`
 * and `parallel` on any thread. */
struct tenon_host {
    uint32_t size;
    uint32_t minor;
    const char *name; /* "python", "elixir" */
    /* Fail the call. The first message is kept. Returns `status`, or TENON_EFAILED if that is TENON_OK. */
    tenon_status (*fail)(tenon_call *call, tenon_status status, const char *message, size_t length);
    /* Allocate a result whose size is not in the signature. A dtype of all zeros means the one in the signature.
     * Returns NULL if the call has failed. */
    const tenon_view *(*result_alloc)(tenon_call *call, int32_t index, tenon_dtype dtype, int32_t ndim,
                                      const int64_t *shape);
    /* Return a handle. The host takes `object` on TENON_OK, and calls destroy(object) exactly once. */
    tenon_status (*result_handle)(tenon_call *call, int32_t index, void *object, void (*destroy)(void *object));
    /* Return a string. The host copies it. */
    tenon_status (*result_str)(tenon_call *call, int32_t index, const char *text, size_t length);
    /* Allocate uninitialised memory that is valid until the function returns. Returns NULL if the call has failed. */
    void *(*scratch)(tenon_call *call, size_t bytes, size_t align, tenon_device device);
    /* Whether the caller has given up. If so, return as soon as possible, with any status. */
    int32_t (*cancelled)(tenon_call *call);
    /* A table of additional services by name, or NULL if the host does not have it. */
    const void *(*extension)(tenon_call *call, const char *name, uint32_t version);
    /* The index of a name of the signature, or -1. `what` is TENON_NAME_…. */
    int32_t (*find)(tenon_call *call, uint32_t what, const char *name, size_t length);
    /* Keep an argument beyond the call. The caller owns the share. Returns NULL if the call has failed. */
    tenon_kept *(*arg_keep)(tenon_call *call, int32_t index);
    /* Return memory as a tensor. "own": the host takes `owner` on TENON_OK, and calls release(owner) exactly once, even
     * if the call fails later. "of(...)": `owner` and `release` are NULL. NULL strides mean C order. */
    tenon_status (*result_memory)(tenon_call *call, int32_t index, void *data, int32_t ndim, const int64_t *shape,
                                  const int64_t *strides, void *owner, void (*release)(void *owner));
    /* Return bytes, or a list of int64_t, double or tenon_text. The host copies them. */
    tenon_status (*result_bytes)(tenon_call *call, int32_t index, const void *data, size_t length);
    tenon_status (*result_list)(tenon_call *call, int32_t index, const void *items, int64_t count);
    /* Call body(context, begin, end) for parts of 0 to count - 1 of at least `grain`, on several threads if there are any.
     * Returns the first status that is not TENON_OK. */
    tenon_status (*parallel)(tenon_call *call, int64_t count, int64_t grain,
                             tenon_status (*body)(void *context, int64_t begin, int64_t end), void *context);
    /* Allocate the next tensor of a list that the function makes. The view is valid until the function returns; otherwise as
     * result_alloc. */
    const tenon_view *(*result_push)(tenon_call *call, int32_t index, tenon_dtype dtype, int32_t ndim,
                                     const int64_t *shape);
    /* Call argument `index`, a callable, with the arguments that its own signature has, and write its results. After a
     * failure the call has failed. */
    tenon_status (*callback)(tenon_call *call, int32_t index, const tenon_value *args, tenon_value *results);
    /* Call `body` for runs of items of the batch, as tenon_for_each does. If `sizes` is not NULL, the batch has `count` tensors
     * whose items are one element of these sizes, in bytes; otherwise the call fails. */
    tenon_status (*for_each)(tenon_call *call, int32_t count, const size_t *sizes, int64_t grain,
                             tenon_status (*body)(void *context, void *const *data, const int64_t *steps,
                                                  int64_t count),
                             void *context);
};

/* ------------------------------------------------------------------------------------------ functions and modules */

typedef tenon_status (*tenon_call_fn)(tenon_call *call);

/* Bits of tenon_function.flags. Without the first two, the host decides by the size of the arguments whether to release
 * the runtime's lock; it keeps the lock if the function takes a handle that is not an object of a class. */
#define TENON_RELEASE_LOCK  ((uint64_t)1 << 0) /* always release the runtime's lock during the call */
#define TENON_KEEP_LOCK     ((uint64_t)1 << 1) /* never release it */
#define TENON_NO_GRAD_CHECK ((uint64_t)1 << 2) /* accept tensors that require grad; gradients do not flow through */
/* The function may become part of a CUDA graph. Its calls only launch work on tenon_stream(call), the same work for the same
 * arguments: it does not read the data, wait for the device, or allocate memory, not even with tenon_scratch. A host that
 * does not know the flag ignores it. */
#define TENON_CAPTURABLE ((uint64_t)1 << 3)
/* Of a class: calls on one object may run at the same time. Without it, the host runs one after the other. */
#define TENON_CLASS_CONCURRENT ((uint64_t)1 << 4)

struct tenon_function {
    const char *signature;
    const char *doc;
    tenon_call_fn call;
    /* Called before `call` to allocate the results of unknown size with tenon_result_alloc. May be NULL. */
    tenon_call_fn shape;
    void *data; /* for the function's own use */
    uint64_t flags;
    uint64_t reserved[2];
};

#define TENON_MAGIC ((uint64_t)0x444f4d4e4f4e4554u) /* "TENONMOD" */

struct tenon_module {
    uint64_t magic;
    uint32_t major;
    uint32_t minor_needed;
    uint32_t size;
    uint32_t function_size;
    int64_t nfunctions;
    const tenon_function *functions;
    const char *name;
    const char *doc;
    const char *version;
    /* `load` creates the state that the functions of one loaded library share in call->state, and `unload` frees it.
     * Either may be NULL. A `load` that fails (tenon_fail) must have freed everything. Its call has no arguments. */
    tenon_status (*load)(tenon_call *call, void **state);
    void (*unload)(void *state);
    uint64_t flags;
};

/* The only symbol that a library exports. */
typedef const tenon_module *(*tenon_module_fn)(void);
#define TENON_MODULE_SYMBOL "tenon_module_v1"

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
