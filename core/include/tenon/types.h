/* Errors, and the names of dtypes and devices. The types themselves are in abi.h. */
#ifndef TENON_TYPES_H
#define TENON_TYPES_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <tenon/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Define TENON_SHARED to link the shared library. Only the library's own build defines TENON_BUILDING. */
#if defined(_WIN32) && defined(TENON_SHARED) && defined(TENON_BUILDING)
#define TENON_API __declspec(dllexport)
#elif defined(_WIN32) && defined(TENON_SHARED)
#define TENON_API __declspec(dllimport)
#elif defined(__GNUC__) && defined(TENON_HIDDEN) /* for a copy inside another shared library */
#define TENON_API __attribute__((__visibility__("hidden")))
#elif defined(__GNUC__)
#define TENON_API __attribute__((__visibility__("default")))
#else
#define TENON_API
#endif

/* -------------------------------------------------------------------------------------------------- status, error */

/* A description of a failure, in the caller's storage. Only a function that fails writes to it. Every `tenon_error *`
 * parameter may be NULL. The message names the function, the argument, what was expected and what was passed. */
typedef struct tenon_error {
    tenon_status status;
    char message[1008];
    int32_t os_error; /* errno, if a call to the operating system failed; otherwise 0 */
    /* The name of the function that the message begins with, as in "saxpy(): argument 'x' is NULL", or NULL. It is valid
     * until the program ends or, if it is the name of a signature, as long as the signature. */
    const char *function;
} tenon_error;

/* The name of a status, such as "TENON_EINVAL", or "unknown status". The string is static. */
TENON_API const char *tenon_status_name(tenon_status status);

/* Set the status and the message of `err`, which may be NULL, and return `status`. The message is formatted as by printf,
 * and ends with "..." if it is too long. The current message may be one of the arguments, to extend it. */
TENON_API tenon_status tenon_error_set(tenon_error *err, tenon_status status, const char *format, ...)
    TENON_PRINTF(3, 4);

/* The same, but the message begins with "function(): ", and `err->function` is set to that pointer. If `function` is NULL,
 * this is tenon_error_set. */
TENON_API tenon_status tenon_error_set_in(tenon_error *err, tenon_status status, const char *function,
                                          const char *format, ...) TENON_PRINTF(4, 5);

/* The message without "function(): ", for a caller that adds the name of another function. Returns the whole message if
 * there is no function, or if its name was truncated. The result points into `err`. */
static inline const char *tenon_error_reason(const tenon_error *err)
{
    size_t length = err->function ? strlen(err->function) : 0;
    bool named =
        length && strncmp(err->message, err->function, length) == 0 && strncmp(err->message + length, "(): ", 4) == 0;
    return err->message + (named ? length + 4 : 0);
}

/* ---------------------------------------------------------------------------------------------------------- dtype */

/* Whether code and bits are a dtype of DLPack 1.3 and lanes is not 0:
 * i, u: 1 2 4 8 16 32 64 128 bits; f: 16 32 64 128; bf16; c: 32 64 128; bool: 8; opaque: 8 16 32 64 128;
 * the float8 kinds: 8; the float6 kinds: 6; f4_e2m1fn: 4. */
TENON_API bool tenon_dtype_known(tenon_dtype dtype);

/* Parse "f32", "i8", "u64", "bf16", "bool", "c64", "f8_e4m3fn", "f4_e2m1fn", "opaque64"; with lanes "f32x4". The long
 * names of NumPy and torch are accepted too: "float32", "int8", "uint64", "bfloat16", "complex64", "float8_e4m3fn".
 *
 * Errors: TENON_EPARSE, TENON_EINVAL (NULL). */
TENON_API TENON_NODISCARD tenon_status tenon_dtype_parse(const char *text, tenon_dtype *out, tenon_error *err);

/* Write the short name, or "dtype(code, bits, lanes)" for an unknown dtype. The name is truncated to fit and terminated
 * by 0 if size > 0. Returns the length of the whole name, like snprintf. */
TENON_API size_t tenon_dtype_format(tenon_dtype dtype, char *buffer, size_t size);
/* The same with the long name of NumPy, torch and the array API standard: "float32", "bfloat16", "float8_e4m3fn"; with lanes
 * "float4_e2m1fn_x2". */
TENON_API size_t tenon_dtype_format_long(tenon_dtype dtype, char *buffer, size_t size);
/* A function like these, for the names of another runtime. */
typedef size_t (*tenon_dtype_format_fn)(tenon_dtype dtype, char *buffer, size_t size);

/* The natural alignment of an element in bytes, at most 16. This is the size of the element, the size of one part for a
 * complex dtype, and 1 for a sub-byte dtype. With several lanes it is the largest power of two that divides the size, as
 * for CUDA's vector types. It is 1 for an unknown dtype (tenon_dtype_known). */
TENON_API size_t tenon_dtype_alignment(tenon_dtype dtype);

/* --------------------------------------------------------------------------------------------------------- device */

/* Whether DLPack 1.3 defines the device type and the id is not negative. */
TENON_API bool tenon_device_known(tenon_device device);

/* Whether `data` is an address on this device, so that pointer arithmetic is allowed. On OpenCL, Vulkan, Metal and
 * WebGPU it is a handle, and offsets stay in `byte_offset`. */
TENON_API bool tenon_device_has_addresses(tenon_device device);

/* Whether the CPU can read the memory: cpu, cuda_host, rocm_host, cuda_managed. */
TENON_API bool tenon_device_on_host(tenon_device device);

/* Parse "cpu", "cuda" (id 0), "cuda:1", "cuda_host", "opencl", "vulkan", "metal", "vpi", "rocm", "rocm_host",
 * "ext_dev", "cuda_managed", "oneapi", "webgpu", "hexagon", "maia", "trainium".
 *
 * Errors: TENON_EPARSE, TENON_EINVAL (NULL). */
TENON_API TENON_NODISCARD tenon_status tenon_device_parse(const char *text, tenon_device *out, tenon_error *err);

/* Write the name with the id, such as "cuda:1"; cpu:0 is "cpu", and an unknown device is "device(type, id)". Truncates and
 * returns like tenon_dtype_format. */
TENON_API size_t tenon_device_format(tenon_device device, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
