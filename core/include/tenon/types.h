/* The small values that everything else is made of: status, error, dtype, device and view. */
#ifndef TENON_TYPES_H
#define TENON_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* TENON_SHARED is defined by whoever links the shared library; TENON_BUILDING by the library's own sources. */
#if defined(_WIN32) && defined(TENON_SHARED) && defined(TENON_BUILDING)
#define TENON_API __declspec(dllexport)
#elif defined(_WIN32) && defined(TENON_SHARED)
#define TENON_API __declspec(dllimport)
#elif defined(__GNUC__) && defined(TENON_HIDDEN) /* for a copy inside somebody's shared library */
#define TENON_API __attribute__((__visibility__("hidden")))
#elif defined(__GNUC__)
#define TENON_API __attribute__((__visibility__("default")))
#else
#define TENON_API
#endif

#if defined(__GNUC__)
#define TENON_NODISCARD           __attribute__((__warn_unused_result__))
#define TENON_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define TENON_NODISCARD
#define TENON_PRINTF(text, first)
#endif

/* -------------------------------------------------------------------------------------------------- status, error */

/* What a function that can fail returns. An integer and not an enum: its size is part of the ABI. */
typedef int32_t tenon_status;

enum {
    TENON_OK = 0,
    TENON_EINVAL = 1,    /* an argument is NULL or out of its range */
    TENON_ENOMEM = 2,    /* no memory */
    TENON_EOVERFLOW = 3, /* a size, product or offset does not fit 64 bits */
    TENON_EDTYPE = 4,    /* a dtype that is unknown, or not the one needed */
    TENON_ESHAPE = 5,    /* a number of dimensions or a shape that cannot be, or is not the one needed */
    TENON_ELAYOUT = 6,   /* strides or alignment that cannot serve without a copy */
    TENON_EBOUNDS = 7,   /* an index or a byte outside the memory */
    TENON_EDEVICE = 8,   /* a device that is unknown, or not the one needed */
    TENON_EREADONLY = 9, /* memory that may not be written */
    TENON_EVERSION = 10, /* a DLPack version that cannot be read or written */
    TENON_EPARSE = 11,   /* a text that is no dtype, device or spec */
    TENON_EOVERLAP = 12, /* memory that would be written and is used twice */
};

/* A failure told to a person. The caller's storage, written only by a function that fails; every `tenon_error *`
 * parameter may be NULL. The message names the function, the argument, what was expected and what came. */
typedef struct tenon_error {
    tenon_status status;
    char message[1020];
} tenon_error;

/* "TENON_EINVAL" and so on; "unknown status" for anything else. Static storage. */
TENON_API const char *tenon_status_name(tenon_status status);

/* Fill `err` (NULL is allowed) as printf would, cut off with "..." where it is too long, and return `status`. The
 * message that is there may be an argument: that is how a caller adds a word of its own. */
TENON_API tenon_status tenon_error_set(tenon_error *err, tenon_status status, const char *format, ...)
    TENON_PRINTF(3, 4);

/* ---------------------------------------------------------------------------------------------------------- dtype */

/* DLDataType: `bits` is the size of one lane (of the whole number where complex), an element has `lanes` of them. */
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

static inline bool tenon_dtype_equal(tenon_dtype a, tenon_dtype b)
{
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/* Whether code and bits are a dtype of DLPack 1.3, and lanes is not 0:
 * i, u: 1 2 4 8 16 32 64 128 bits; f: 16 32 64 128; bf16; c: 32 64 128; bool: 8; opaque: 8 16 32 64 128;
 * the float8 kinds: 8; the float6 kinds: 6; f4_e2m1fn: 4. */
TENON_API bool tenon_dtype_known(tenon_dtype dtype);

/* Parse "f32", "i8", "u64", "bf16", "bool", "c64", "f8_e4m3fn", "f4_e2m1fn", "opaque64"; with lanes "f32x4". The long
 * names of NumPy and torch are taken too: "float32", "int8", "uint64", "bfloat16", "complex64", "float8_e4m3fn".
 *
 * Errors: TENON_EPARSE, TENON_EINVAL (NULL). */
TENON_API TENON_NODISCARD tenon_status tenon_dtype_parse(const char *text, tenon_dtype *out, tenon_error *err);

/* Write the short name, always ended by 0 where size > 0; an unknown dtype gives "dtype(code, bits, lanes)".
 * Returns the length of the whole name, as snprintf does. */
TENON_API size_t tenon_dtype_format(tenon_dtype dtype, char *buffer, size_t size);

/* --------------------------------------------------------------------------------------------------------- device */

/* DLDevice. */
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

static inline tenon_device tenon_device_of(int type, int id)
{
    tenon_device device;
    device.device_type = type;
    device.device_id = id;
    return device;
}

static inline bool tenon_device_equal(tenon_device a, tenon_device b)
{
    return a.device_type == b.device_type && a.device_id == b.device_id;
}

/* Whether the type is one of DLPack 1.3 and the id is not negative. */
TENON_API bool tenon_device_known(tenon_device device);

/* Whether `data` is an address: pointer arithmetic is allowed. Not so on OpenCL, Vulkan, Metal and WebGPU, where it is
 * a handle and offsets stay in `byte_offset`. */
TENON_API bool tenon_device_has_addresses(tenon_device device);

/* Whether the CPU can read the memory: cpu, cuda_host, rocm_host, cuda_managed. */
TENON_API bool tenon_device_on_host(tenon_device device);

/* Parse "cpu", "cuda" (id 0), "cuda:1", "cuda_host", "opencl", "vulkan", "metal", "vpi", "rocm", "rocm_host",
 * "ext_dev", "cuda_managed", "oneapi", "webgpu", "hexagon", "maia", "trainium".
 *
 * Errors: TENON_EPARSE, TENON_EINVAL (NULL). */
TENON_API TENON_NODISCARD tenon_status tenon_device_parse(const char *text, tenon_device *out, tenon_error *err);

/* Write the name, with its id but for cpu:0, which is "cpu"; an unknown one gives "device(type, id)". Ends and returns
 * as tenon_dtype_format. */
TENON_API size_t tenon_device_format(tenon_device device, char *buffer, size_t size);

/* ----------------------------------------------------------------------------------------------------------- view */

/* Bits of tenon_view.flags. The first three are DLPack's and the only ones a caller may pass in. */
#define TENON_READ_ONLY      ((uint64_t)1 << 0)
#define TENON_IS_COPIED      ((uint64_t)1 << 1)
#define TENON_SUBBYTE_PADDED ((uint64_t)1 << 2)  /* each sub-byte value stands in a byte of its own */
#define TENON_VIEW_C         ((uint64_t)1 << 8)  /* C order without gaps */
#define TENON_VIEW_F         ((uint64_t)1 << 9)  /* Fortran order without gaps */
#define TENON_VIEW_DENSE     ((uint64_t)1 << 10) /* without gaps in some order of the dimensions, strides positive */
#define TENON_VIEW_WRITTEN   ((uint64_t)1 << 11) /* a function may write it */
#define TENON_VIEW_FRESH     ((uint64_t)1 << 12) /* a function's result, not yet written */

#define TENON_MAX_NDIM 64

/* A checked description of somebody's memory; owns nothing. The first 48 bytes are a DLTensor.
 *
 * `strides` is never NULL where ndim > 0. `byte_offset` is already added to `data`, and 0, where the device has
 * addresses; elsewhere both are the producer's. Made by tenon_view_init and
 * the functions of tensor.h: any other view may not be passed to Tenon. */
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

/* The view as a DLTensor, for any library that takes one. Valid as long as the view is. */
static inline const struct tenon_dl_tensor *tenon_dltensor(const tenon_view *view)
{
    return (const struct tenon_dl_tensor *)(const void *)view;
}

#ifdef __cplusplus
}
#endif

#endif
