/* Write a C function once, call it from every runtime.
 *
 * A shared library that includes only this header, and links against nothing, provides functions to Python, Elixir and
 * any other host. tenon/abi.h, which it includes, has the types; `make bundle` writes both as one file,
 * tenon_function.h, which can be copied into a project.
 *
 *   static tenon_status saxpy(tenon_call *call)
 *   {
 *       float a        = (float)tenon_arg_double(call, 0);
 *       const float *x = tenon_data(call, 1, float);
 *       const float *y = tenon_data(call, 2, float);
 *       float *z       = tenon_result_data(call, 0, float);
 *       int64_t n      = tenon_dim(call, 0);
 *       for (int64_t i = 0; i < n; i++)
 *           z[i] = a * x[i] + y[i];
 *       return TENON_OK;
 *   }
 *   TENON_MODULE(kernels, "Kernels written once.",
 *       TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."))
 *
 * docs/signatures.md describes the grammar of signatures; `python -m tenon docs` prints the folder of that page in the
 * Python package. The header compiles as C99, C11, C++17 and CUDA. */
#ifndef TENON_FUNCTION_H
#define TENON_FUNCTION_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <tenon/abi.h>

#include <stdarg.h>
#include <stdio.h>
#ifdef TENON_CHECK_INDICES
#include <stdlib.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------------------------------------------- failing */

/* Fail the call with a message, formatted as by printf. The caller gets an exception in Python, {:error, …} in Elixir.
 * Returns the status for the function to return: `return tenon_fail(call, TENON_EINVAL, "…");`. */
static inline tenon_status tenon_fail(tenon_call *call, tenon_status status, const char *format, ...)
    TENON_PRINTF(3, 4);

static inline tenon_status tenon_fail(tenon_call *call, tenon_status status, const char *format, ...)
{
    char message[801]; /* one more than is sent, to see where a character ends */
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    size_t shown = length < 0 ? 0 : (size_t)length < sizeof message ? (size_t)length : sizeof message - 2;
    while (shown > 0 && ((unsigned char)message[shown] & 0xc0) == 0x80) /* do not split a UTF-8 character */
        shown--;
    return (call->host->fail)(call, status, message, shown);
}

static inline const char *tenon__kind_name(uint32_t kind)
{
    static const char *const names[] = {
        "not given", "a tensor",       "an int",           "a float",           "a bool",    "a str",
        "an enum",   "a list of ints", "a list of floats", "a list of tensors", "a handle",  "a complex number",
        "a uint",    "bytes",          "a list of strs",   "a dtype",           "a callable"};
    return kind < sizeof names / sizeof *names ? names[kind] : "of an unknown kind";
}

/* The argument or result. If it does not exist or is of another kind, fails the call and returns NULL. */
static inline const tenon_value *tenon__value(tenon_call *call, const tenon_value *values, int count, int index,
                                              uint32_t kind, const char *accessor)
{
    if (index < 0 || index >= count) {
        tenon_fail(call, TENON_EFAILED, "its code calls %s for index %d, but there %s only %d %s%s", accessor, index,
                   count == 1 ? "is" : "are", count, values == call->args ? "argument" : "result",
                   count == 1 ? "" : "s");
        return NULL;
    }
    if (values[index].kind != kind) {
        tenon_fail(call, TENON_EFAILED, "its code calls %s for index %d, which is %s", accessor, index,
                   tenon__kind_name(values[index].kind));
        return NULL;
    }
    return &values[index];
}

/* Fail the call if the host does not offer the service. */
static inline bool tenon__served(tenon_call *call, bool there, const char *what)
{
    if (!there)
        tenon_fail(call, TENON_EFAILED, "this host (%s) has no %s", call->host->name, what);
    return there;
}

/* ------------------------------------------------------------------------------------------------------- arguments
 *
 * Each accessor checks the index and the kind of the argument. A mismatch is a bug in the function: the accessor fails
 * the call (TENON_EFAILED) and returns NULL or 0. After that, tenon_dim returns 0 too, so loops over dimensions end
 * immediately. */

/* Whether an optional argument has a value: it was passed, or has a default other than None. */
static inline bool tenon_has_arg(const tenon_call *call, int index)
{
    return index >= 0 && index < call->nargs && call->args[index].kind != TENON_KIND_NONE;
}

/* The tensor, or NULL if an optional one was not passed. */
static inline const tenon_view *tenon_arg(tenon_call *call, int index)
{
    if (index >= 0 && index < call->nargs && call->args[index].kind == TENON_KIND_NONE)
        return NULL;
    const tenon_value *value =
        tenon__value(call, call->args, call->nargs, index, TENON_KIND_TENSOR, "tenon_arg() or tenon_data()");
    return value ? value->as.view : NULL;
}

static inline size_t tenon__element_bits(const tenon_view *view)
{
    bool padded = view->dtype.bits < 8 && (view->flags & TENON_SUBBYTE_PADDED);
    return (size_t)(padded ? 8 : view->dtype.bits) * view->dtype.lanes;
}

static inline void *tenon__typed_data(tenon_call *call, const tenon_view *view, int index, size_t size,
                                      const char *accessor)
{
    if (!view)
        return NULL;
    size_t bits = tenon__element_bits(view);
    if (size != (bits % 8 ? 1 : bits / 8)) {
        tenon_fail(call, TENON_EFAILED,
                   "its code calls %s for index %d with a type of %d bytes, and the elements have %d bits", accessor,
                   index, (int)size, (int)bits);
        return NULL;
    }
    return view->data;
}

static inline const void *tenon__arg_data(tenon_call *call, int index, size_t size)
{
    return tenon__typed_data(call, tenon_arg(call, index), index, size, "tenon_data()");
}

static inline void *tenon__rw_data(tenon_call *call, int index, size_t size)
{
    const tenon_view *view = tenon_arg(call, index);
    if (view && !(view->flags & TENON_VIEW_WRITTEN)) {
        tenon_fail(call, TENON_EFAILED,
                   "its code calls tenon_rw_data() for index %d, which is not 'rw' in its signature", index);
        return NULL;
    }
    return tenon__typed_data(call, view, index, size, "tenon_rw_data()");
}

/* A pointer to the first element of a tensor argument: `const T *`, or `T *` if the signature has 'rw'. The size of T
 * must be the size of an element (1 byte for packed sub-byte values). NULL if an optional argument was not passed. */
#define tenon_data(call, index, T)    ((const T *)tenon__arg_data(call, index, sizeof(T)))
#define tenon_rw_data(call, index, T) ((T *)tenon__rw_data(call, index, sizeof(T)))

/* An int, or the integer that was passed for `1|2|4`. */
static inline int64_t tenon_arg_int(tenon_call *call, int index)
{
    const tenon_value *value = tenon__value(call, call->args, call->nargs, index, TENON_KIND_INT, "tenon_arg_int()");
    return value ? value->as.integer : 0;
}

/* A float. */
static inline double tenon_arg_double(tenon_call *call, int index)
{
    const tenon_value *value =
        tenon__value(call, call->args, call->nargs, index, TENON_KIND_FLOAT, "tenon_arg_double()");
    return value ? value->as.number : 0;
}

/* A bool. */
static inline bool tenon_arg_bool(tenon_call *call, int index)
{
    const tenon_value *value = tenon__value(call, call->args, call->nargs, index, TENON_KIND_BOOL, "tenon_arg_bool()");
    return value && value->as.integer;
}

/* The index of the string that was passed, in the order of the signature. */
static inline int tenon_arg_enum(tenon_call *call, int index)
{
    const tenon_value *value = tenon__value(call, call->args, call->nargs, index, TENON_KIND_ENUM, "tenon_arg_enum()");
    return value ? (int)value->as.integer : 0;
}

/* A uint. */
static inline uint64_t tenon_arg_uint(tenon_call *call, int index)
{
    const tenon_value *value = tenon__value(call, call->args, call->nargs, index, TENON_KIND_UINT, "tenon_arg_uint()");
    return value ? (uint64_t)value->as.integer : 0;
}

/* A dtype. If the accessor fails, all of its fields are 0. */
static inline tenon_dtype tenon_arg_dtype(tenon_call *call, int index)
{
    const tenon_value *value =
        tenon__value(call, call->args, call->nargs, index, TENON_KIND_DTYPE, "tenon_arg_dtype()");
    return value ? value->as.dtype : tenon_dtype_of(0, 0, 0);
}

/* `parts` receives the real and the imaginary part. */
static inline void tenon_arg_complex(tenon_call *call, int index, double parts[2])
{
    const tenon_value *value =
        tenon__value(call, call->args, call->nargs, index, TENON_KIND_COMPLEX, "tenon_arg_complex()");
    parts[0] = value ? value->as.parts[0] : 0;
    parts[1] = value ? value->as.parts[1] : 0;
}

static inline const void *tenon__arg_list(tenon_call *call, int index, uint32_t kind, int64_t *length,
                                          const char *accessor)
{
    bool left_out = index >= 0 && index < call->nargs && call->args[index].kind == TENON_KIND_NONE;
    const tenon_value *value = left_out ? NULL : tenon__value(call, call->args, call->nargs, index, kind, accessor);
    if (length)
        *length = value ? value->as.list.length : 0;
    return value ? value->as.list.data : NULL;
}

static inline const void *tenon__arg_bytes(tenon_call *call, int index, uint32_t kind, size_t *length,
                                           const char *accessor)
{
    int64_t count = 0;
    const void *data = tenon__arg_list(call, index, kind, &count, accessor);
    if (length)
        *length = (size_t)count;
    return data;
}

/* A string in UTF-8, terminated by 0. `length`, which may be NULL, receives the number of bytes. Returns NULL if an
 * optional argument was not passed. */
static inline const char *tenon_arg_str(tenon_call *call, int index, size_t *length)
{
    return (const char *)tenon__arg_bytes(call, index, TENON_KIND_STR, length, "tenon_arg_str()");
}

/* The caller's bytes, which are not copied; otherwise as tenon_arg_str. */
static inline const void *tenon_arg_bytes(tenon_call *call, int index, size_t *length)
{
    return tenon__arg_bytes(call, index, TENON_KIND_BYTES, length, "tenon_arg_bytes()");
}

/* The items of an `ints`; `length` receives their number. Otherwise as tenon_arg_str. */
static inline const int64_t *tenon_arg_ints(tenon_call *call, int index, int64_t *length)
{
    return (const int64_t *)tenon__arg_list(call, index, TENON_KIND_INTS, length, "tenon_arg_ints()");
}

/* The items of a `floats`, as by tenon_arg_ints. */
static inline const double *tenon_arg_floats(tenon_call *call, int index, int64_t *length)
{
    return (const double *)tenon__arg_list(call, index, TENON_KIND_FLOATS, length, "tenon_arg_floats()");
}

/* The tensors of a list, in an array. */
static inline const tenon_view *tenon_arg_tensors(tenon_call *call, int index, int64_t *length)
{
    return (const tenon_view *)tenon__arg_list(call, index, TENON_KIND_TENSORS, length, "tenon_arg_tensors()");
}

/* The items of a `strs`, as by tenon_arg_ints. */
static inline const tenon_text *tenon_arg_strs(tenon_call *call, int index, int64_t *length)
{
    return (const tenon_text *)tenon__arg_list(call, index, TENON_KIND_STRS, length, "tenon_arg_strs()");
}

/* The object of a handle("type"), or NULL if an optional one was not passed. */
static inline void *tenon_arg_handle(tenon_call *call, int index)
{
    if (index >= 0 && index < call->nargs && call->args[index].kind == TENON_KIND_NONE)
        return NULL;
    const tenon_value *value =
        tenon__value(call, call->args, call->nargs, index, TENON_KIND_HANDLE, "tenon_arg_handle()");
    return value ? value->as.handle.object : NULL;
}

/* The stream for work on call->device: a cudaStream_t on CUDA, NULL on the CPU. */
static inline void *tenon_stream(const tenon_call *call)
{
    return call->stream;
}

/* -------------------------------------------------------------------------------------------- dimensions and dtypes */

/* The value of a dimension name of the signature. Names are numbered from 0 in the order in which they first appear. An
 * int parameter that is used as a dimension appears at its own position; names such as `*b` are not counted. Returns -1
 * if only arguments that were not passed have the name, and 0 after the call has failed. */
static inline int64_t tenon_dim(tenon_call *call, int index)
{
    if (call->flags & TENON_CALL_FAILED)
        return 0;
    if (index < 0 || index >= call->ndims) {
        tenon_fail(call, TENON_EFAILED, "its code calls tenon_dim() for index %d, but its signature has only %d name%s",
                   index, call->ndims, call->ndims == 1 ? "" : "s");
        return 0;
    }
    return call->dims[index];
}

/* The dtype of a dtype variable of the signature, numbered like dimension names. */
static inline tenon_dtype tenon_type(tenon_call *call, int index)
{
    if (index < 0 || index >= call->ntypes) {
        tenon_fail(call, TENON_EFAILED,
                   "its code calls tenon_type() for index %d, but its signature has only %d variable%s", index,
                   call->ntypes, call->ntypes == 1 ? "" : "s");
        return tenon_dtype_of(0, 0, 0);
    }
    return call->types[index];
}

static inline int tenon__find(tenon_call *call, uint32_t what, const char *name, const char *accessor)
{
    static const char *const whats[] = {"argument", "result", "dimension", "dtype variable"};
    int32_t index = -1;
    if (!tenon__served(call, call->host->find != NULL, "access by name"))
        return -1;
    if (name)
        index = call->host->find(call, what, name, strlen(name));
    if (index < 0)
        tenon_fail(call, TENON_EFAILED, "its code calls %s for '%s', but its signature has no such %s", accessor,
                   name ? name : "(null)", whats[what]);
    return index;
}

/* The index of an argument or a result by its name. If there is no such name, fails the call and returns -1, for which
 * the other accessors return NULL or 0. */
static inline int tenon_index(tenon_call *call, const char *name)
{
    return tenon__find(call, TENON_NAME_ARG, name, "tenon_index()");
}

/* The index of a result by its name, as by tenon_index. */
static inline int tenon_result_index(tenon_call *call, const char *name)
{
    return tenon__find(call, TENON_NAME_RESULT, name, "tenon_result_index()");
}

/* As tenon_dim, by the name in the signature. If there is no such name, the call fails. */
static inline int64_t tenon_dim_named(tenon_call *call, const char *name)
{
    int index = tenon__find(call, TENON_NAME_DIM, name, "tenon_dim_named()");
    return index < 0 ? 0 : tenon_dim(call, index);
}

/* As tenon_type, by the name in the signature. If there is no such name, the call fails. */
static inline tenon_dtype tenon_type_named(tenon_call *call, const char *name)
{
    int index = tenon__find(call, TENON_NAME_TYPE, name, "tenon_type_named()");
    return index < 0 ? tenon_dtype_of(0, 0, 0) : tenon_type(call, index);
}

/* --------------------------------------------------------------------------------------------------------- results */

/* A tensor result. Results are already allocated when the function starts, except those of unknown size. */
static inline const tenon_view *tenon_result(tenon_call *call, int index)
{
    const tenon_value *value = tenon__value(call, call->results, call->nresults, index, TENON_KIND_TENSOR,
                                            "tenon_result() or tenon_result_data()");
    if (value && !value->as.view)
        tenon_fail(call, TENON_EFAILED, "its code asks for result %d before tenon_result_alloc()", index);
    return value ? value->as.view : NULL;
}

static inline void *tenon__result_data(tenon_call *call, int index, size_t size)
{
    return tenon__typed_data(call, tenon_result(call, index), index, size, "tenon_result_data()");
}

/* A `T *` to the first element of a result, which is in C order without gaps. */
#define tenon_result_data(call, index, T) ((T *)tenon__result_data(call, index, sizeof(T)))

/* Allocate a result of unknown size: one that has `?` as a dimension, or that may be None. Returns NULL if the call has
 * failed. */
static inline const tenon_view *tenon_result_alloc(tenon_call *call, int index, int ndim, const int64_t *shape)
{
    if (!tenon__value(call, call->results, call->nresults, index, TENON_KIND_TENSOR, "tenon_result_alloc()") ||
        !tenon__served(call, call->host->result_alloc != NULL, "results of unknown size"))
        return NULL;
    return call->host->result_alloc(call, index, tenon_dtype_of(0, 0, 0), ndim, shape);
}

/* The tensors of a result "for xs", one for each item of xs, in an array. NULL if there are none, or if the call has
 * failed. */
static inline const tenon_view *tenon_result_tensors(tenon_call *call, int index, int64_t *length)
{
    const tenon_value *value =
        tenon__value(call, call->results, call->nresults, index, TENON_KIND_TENSORS, "tenon_result_tensors()");
    if (length)
        *length = value ? value->as.list.length : 0;
    return value ? (const tenon_view *)value->as.list.data : NULL;
}

/* Allocate the next tensor of a result that is a list without "for". The view is valid until the function returns. Returns
 * NULL if the call has failed. */
static inline const tenon_view *tenon_result_push(tenon_call *call, int index, int ndim, const int64_t *shape)
{
    if (!tenon__value(call, call->results, call->nresults, index, TENON_KIND_TENSORS, "tenon_result_push()") ||
        !tenon__served(call, call->host->result_push != NULL, "results that are lists of tensors"))
        return NULL;
    return call->host->result_push(call, index, tenon_dtype_of(0, 0, 0), ndim, shape);
}

static inline tenon_status tenon__return(tenon_call *call, int index, uint32_t kind, int64_t integer, double number,
                                         const char *accessor)
{
    if (!tenon__value(call, call->results, call->nresults, index, kind, accessor))
        return TENON_EFAILED;
    tenon_value *result = &call->results[index];
    result->flags &= ~TENON_VALUE_UNSET;
    if (kind == TENON_KIND_FLOAT)
        result->as.number = number;
    else
        result->as.integer = integer;
    return TENON_OK;
}

/* Return a result that is not a tensor. The host copies strings, bytes and lists. Return an enum with tenon_return_int, as
 * the index of its string. If one of these does not return TENON_OK, the call has failed, and what the function returns
 * no longer matters; so most functions need not look at it. */
static inline tenon_status tenon_return_int(tenon_call *call, int index, int64_t value)
{
    bool is_enum = index >= 0 && index < call->nresults && call->results[index].kind == TENON_KIND_ENUM;
    return tenon__return(call, index, is_enum ? TENON_KIND_ENUM : TENON_KIND_INT, value, 0, "tenon_return_int()");
}

/* As tenon_return_int, for a uint. */
static inline tenon_status tenon_return_uint(tenon_call *call, int index, uint64_t value)
{
    return tenon__return(call, index, TENON_KIND_UINT, (int64_t)value, 0, "tenon_return_uint()");
}

/* As tenon_return_int, for a float. */
static inline tenon_status tenon_return_double(tenon_call *call, int index, double value)
{
    return tenon__return(call, index, TENON_KIND_FLOAT, 0, value, "tenon_return_double()");
}

/* As tenon_return_int, for a bool. */
static inline tenon_status tenon_return_bool(tenon_call *call, int index, bool value)
{
    return tenon__return(call, index, TENON_KIND_BOOL, value, 0, "tenon_return_bool()");
}

/* As tenon_return_int, for a complex number. */
static inline tenon_status tenon_return_complex(tenon_call *call, int index, double real, double imaginary)
{
    if (!tenon__value(call, call->results, call->nresults, index, TENON_KIND_COMPLEX, "tenon_return_complex()"))
        return TENON_EFAILED;
    call->results[index].flags &= ~TENON_VALUE_UNSET;
    call->results[index].as.parts[0] = real;
    call->results[index].as.parts[1] = imaginary;
    return TENON_OK;
}

/* `length` bytes of UTF-8. */
static inline tenon_status tenon_return_str(tenon_call *call, int index, const char *text, size_t length)
{
    if (!tenon__value(call, call->results, call->nresults, index, TENON_KIND_STR, "tenon_return_str()") ||
        !tenon__served(call, call->host->result_str != NULL, "results of strings"))
        return TENON_EFAILED;
    return call->host->result_str(call, index, text, length);
}

/* `length` bytes. */
static inline tenon_status tenon_return_bytes(tenon_call *call, int index, const void *data, size_t length)
{
    if (!tenon__value(call, call->results, call->nresults, index, TENON_KIND_BYTES, "tenon_return_bytes()") ||
        !tenon__served(call, call->host->result_bytes != NULL, "results of bytes"))
        return TENON_EFAILED;
    return call->host->result_bytes(call, index, data, length);
}

static inline tenon_status tenon__return_list(tenon_call *call, int index, uint32_t kind, const void *items,
                                              int64_t count, const char *accessor)
{
    if (!tenon__value(call, call->results, call->nresults, index, kind, accessor) ||
        !tenon__served(call, call->host->result_list != NULL, "results that are lists"))
        return TENON_EFAILED;
    return call->host->result_list(call, index, items, count);
}

/* A list of `length` integers. */
static inline tenon_status tenon_return_ints(tenon_call *call, int index, const int64_t *items, int64_t count)
{
    return tenon__return_list(call, index, TENON_KIND_INTS, items, count, "tenon_return_ints()");
}

/* A list of `length` floats. */
static inline tenon_status tenon_return_floats(tenon_call *call, int index, const double *items, int64_t count)
{
    return tenon__return_list(call, index, TENON_KIND_FLOATS, items, count, "tenon_return_floats()");
}

/* A list of `length` strings. */
static inline tenon_status tenon_return_strs(tenon_call *call, int index, const tenon_text *items, int64_t count)
{
    return tenon__return_list(call, index, TENON_KIND_STRS, items, count, "tenon_return_strs()");
}

/* Return a handle.
 *
 * Ownership: the host takes `object` on TENON_OK, and calls destroy(object) once, after the last reference to the
 *            handle is gone. */
static inline tenon_status tenon_return_handle(tenon_call *call, int index, void *object, void (*destroy)(void *object))
{
    if (!tenon__value(call, call->results, call->nresults, index, TENON_KIND_HANDLE, "tenon_return_handle()") ||
        !tenon__served(call, call->host->result_handle != NULL, "handles"))
        return TENON_EFAILED;
    return call->host->result_handle(call, index, object, destroy);
}

/* -------------------------------------------------------------------------------------- memory that outlives a call */

/* Keep a tensor argument that has 'keep' in its signature beyond the call. Read the memory through `view` of the result,
 * which may differ from the argument's: a host may have to copy small tensors.
 *
 * Ownership: the caller owns the share, and each call gives another one. NULL if an optional argument was not passed, or
 *            if the call has failed.
 * Release:   tenon_kept_release, on any thread, at any time. */
static inline tenon_kept *tenon_arg_keep(tenon_call *call, int index)
{
    if (index >= 0 && index < call->nargs && call->args[index].kind == TENON_KIND_NONE)
        return NULL;
    if (!tenon__value(call, call->args, call->nargs, index, TENON_KIND_TENSOR, "tenon_arg_keep()") ||
        !tenon__served(call, call->host->arg_keep != NULL, "arguments that outlive a call"))
        return NULL;
    return call->host->arg_keep(call, index);
}

/* NULL is ignored. */
static inline void tenon_kept_release(tenon_kept *kept)
{
    if (kept)
        kept->release(kept);
}

static inline tenon_status tenon__result_memory(tenon_call *call, int index, void *data, int ndim, const int64_t *shape,
                                                const int64_t *strides, void *owner, void (*release)(void *owner),
                                                const char *accessor)
{
    if (!tenon__value(call, call->results, call->nresults, index, TENON_KIND_TENSOR, accessor) ||
        !tenon__served(call, call->host->result_memory != NULL, "results in the function's memory"))
        return TENON_EFAILED;
    return call->host->result_memory(call, index, data, ndim, shape, strides, owner, release);
}

/* Return memory of the library as a tensor result that has 'own' in its signature. The dtype is the signature's, the
 * device is call->device, and strides count elements; NULL means C order.
 *
 * Ownership: the host takes `owner` on TENON_OK, and calls release(owner) once, after the last array is gone, on any
 *            thread; also if the call fails later. */
static inline tenon_status tenon_result_own(tenon_call *call, int index, void *data, int ndim, const int64_t *shape,
                                            const int64_t *strides, void *owner, void (*release)(void *owner))
{
    if (!release) /* a NULL release is that of tenon_result_of */
        return tenon_fail(call, TENON_EFAILED,
                          "its code calls tenon_result_own() for index %d without a release function", index);
    return tenon__result_memory(call, index, data, ndim, shape, strides, owner, release, "tenon_result_own()");
}

/* Return memory of the object or of an argument as a tensor result that has 'of(self)' or 'of(x)' in its signature. The
 * array keeps the object or the argument alive. Memory of an argument must be inside the argument's. */
static inline tenon_status tenon_result_of(tenon_call *call, int index, void *data, int ndim, const int64_t *shape,
                                           const int64_t *strides)
{
    return tenon__result_memory(call, index, data, ndim, shape, strides, NULL, NULL, "tenon_result_of()");
}

/* -------------------------------------------------------------------------------------------------------- services */

/* Uninitialised memory on call->device, aligned to 64 bytes and valid until the function returns. Returns NULL if the
 * call has failed. */
static inline void *tenon_scratch(tenon_call *call, size_t bytes)
{
    if (!tenon__served(call, call->host->scratch != NULL, "scratch memory"))
        return NULL;
    return call->host->scratch(call, bytes, 64, call->device);
}

/* Whether the caller has given up. Always false if the host cannot tell. */
static inline bool tenon_cancelled(tenon_call *call)
{
    return call->host->cancelled && call->host->cancelled(call);
}

/* Call body(context, begin, end) for parts of 0 to count - 1, each of at least `grain` except the last, on several
 * threads if the process has them, and otherwise for all at once on this thread. One loop at a time has the threads.
 * Returns when all parts have ended, with the first status that is not TENON_OK; after it no other part begins. The body
 * may use `call` for tenon_fail, tenon_cancelled and tenon_parallel_for, and for nothing else. It must not be left by
 * longjmp. */
static inline tenon_status tenon_parallel_for(tenon_call *call, int64_t count, int64_t grain,
                                              tenon_status (*body)(void *context, int64_t begin, int64_t end),
                                              void *context)
{
    if (count <= 0)
        return TENON_OK;
    if (call->host->parallel)
        return call->host->parallel(call, count, grain, body, context);
    return body(context, 0, count);
}

/* --------------------------------------------------------------------------------------------------------- batches */

static inline tenon_status tenon__for_each(tenon_call *call, int count, const size_t *sizes, int64_t grain,
                                           tenon_status (*body)(void *context, void *const *data, const int64_t *steps,
                                                                int64_t count),
                                           void *context)
{
    if (!tenon__served(call, call->host->for_each != NULL, "batches"))
        return TENON_EFAILED;
    return call->host->for_each(call, count, sizes, grain, body, context);
}

/* Call body(context, data, steps, count) for runs of items of a batch `**b`. data[k] is the first item of the run in the k-th
 * tensor that has the batch, the arguments first and then the results, and the next item is steps[k] elements further, which
 * may be 0. An optional argument that was not passed is NULL. Of tensors in C order all items are one run.
 * The order of the runs follows the strides, so that memory is read and written in its order.
 *
 * Runs are shared by several threads, as those of tenon_parallel_for, if there are more than `grain` items; with INT64_MAX
 * they stay on this one. Returns the first status that is not TENON_OK. */
static inline tenon_status tenon_for_each(tenon_call *call, int64_t grain,
                                          tenon_status (*body)(void *context, void *const *data, const int64_t *steps,
                                                               int64_t count),
                                          void *context)
{
    return tenon__for_each(call, 0, NULL, grain, body, context);
}

/* Compilers vectorise a loop only if they know that its items do not depend on each other. */
#if defined(__clang__)
#define TENON__INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define TENON__INDEPENDENT _Pragma("GCC ivdep")
#else
#define TENON__INDEPENDENT
#endif

/* An elementwise function, whole: TENON_ELEMENTWISE(lerp, z = x + t * (y - x), float, z, float, x, float, y, float, t) is the
 * function of "lerp(x: f32[**b], y: f32[**b], t: f32[**b]) -> f32[**b]". After the code, which sets the result, come the type
 * and the name of the result, and those of one to six arguments. Long runs that are not dense are copied in small pieces,
 * so that the compiler vectorises the loop for any strides. Large batches run on several threads. */
#define TENON_ELEMENTWISE(name, code, R, out, ...)                                                                     \
    TENON__PICK(__VA_ARGS__, TENON__EACH6, 0, TENON__EACH5, 0, TENON__EACH4, 0, TENON__EACH3, 0, TENON__EACH2, 0,      \
                TENON__EACH1, 0, 0)                                                                                    \
    (name, code, R, out, __VA_ARGS__)

enum { TENON__PIECE = 256, TENON__SHORT_RUN = 16, TENON__ELEMENTWISE_GRAIN = 32768 };

#define TENON__PICK(a, b, c, d, e, f, g, h, i, j, k, l, picked, ...) picked

/* A pointer to the items of argument `k` from `at` on, in its memory or in a piece. */
#define TENON__PIECE_OF(A, a) A tenon__piece_##a[TENON__PIECE]
#define TENON__TAKE(A, a, k)                                                                                           \
    const A *tenon__from_##a = (const A *)tenon__data[k] + tenon__at * tenon__steps[k];                                \
    if (tenon__steps[k] == 0) {                                                                                        \
        const A tenon__same = *tenon__from_##a;                                                                        \
        for (int64_t tenon__i = 0; tenon__i < tenon__n && tenon__at == 0; tenon__i++)                                  \
            tenon__piece_##a[tenon__i] = tenon__same;                                                                  \
        tenon__from_##a = tenon__piece_##a;                                                                            \
    } else if (tenon__steps[k] != 1) {                                                                                 \
        const int64_t tenon__step = tenon__steps[k];                                                                   \
        int64_t tenon__i = 0;                                                                                          \
        for (; tenon__i + 4 <= tenon__n; tenon__i += 4, tenon__from_##a += 4 * tenon__step) {                          \
            tenon__piece_##a[tenon__i] = tenon__from_##a[0];                                                           \
            tenon__piece_##a[tenon__i + 1] = tenon__from_##a[tenon__step];                                             \
            tenon__piece_##a[tenon__i + 2] = tenon__from_##a[2 * tenon__step];                                         \
            tenon__piece_##a[tenon__i + 3] = tenon__from_##a[3 * tenon__step];                                         \
        }                                                                                                              \
        for (; tenon__i < tenon__n; tenon__i++, tenon__from_##a += tenon__step)                                        \
            tenon__piece_##a[tenon__i] = *tenon__from_##a;                                                             \
        tenon__from_##a = tenon__piece_##a;                                                                            \
    }
#define TENON__POINTER(A, a, k)                                                                                        \
    const A *tenon__from_##a = (const A *)tenon__data[k];                                                              \
    const int64_t tenon__step_##a = tenon__steps[k]
#define TENON__ITEM(A, a)         const A a = tenon__from_##a[tenon__i]
#define TENON__STRIDED_ITEM(A, a) const A a = tenon__from_##a[tenon__i * tenon__step_##a]

/* First long runs of which at most one tensor is strided, in pieces; then all others: a loop that copies two tensors is slower
 * than one that is not vectorised. */
#define TENON__EACH_BODY(name, code, R, out, count, pieces, takes, pointers, items, strided, ...)                      \
    static tenon_status tenon__run_strided_##name(void *const *tenon__data, const int64_t *tenon__steps,               \
                                                  int64_t tenon__count)                                                \
    {                                                                                                                  \
        pieces;                                                                                                        \
        R tenon__piece_##out[TENON__PIECE];                                                                            \
        int64_t tenon__n = TENON__PIECE;                                                                               \
        for (int64_t tenon__at = 0; tenon__at < tenon__count; tenon__at += tenon__n) {                                 \
            tenon__n = tenon__count - tenon__at < tenon__n ? tenon__count - tenon__at : tenon__n;                      \
            takes;                                                                                                     \
            R *tenon__to = (R *)tenon__data[count] + tenon__at * tenon__steps[count];                                  \
            R *tenon__out = tenon__steps[count] == 1 ? tenon__to : tenon__piece_##out;                                 \
            TENON__INDEPENDENT                                                                                         \
            for (int64_t tenon__i = 0; tenon__i < tenon__n; tenon__i++) {                                              \
                items;                                                                                                 \
                R out;                                                                                                 \
                code;                                                                                                  \
                tenon__out[tenon__i] = out;                                                                            \
            }                                                                                                          \
            for (int64_t tenon__i = 0; tenon__out != tenon__to && tenon__i < tenon__n; tenon__i++)                     \
                tenon__to[tenon__i * tenon__steps[count]] = tenon__out[tenon__i];                                      \
        }                                                                                                              \
        return TENON_OK;                                                                                               \
    }                                                                                                                  \
    static tenon_status tenon__run_##name(void *tenon__context, void *const *tenon__data, const int64_t *tenon__steps, \
                                          int64_t tenon__count)                                                        \
    {                                                                                                                  \
        pointers;                                                                                                      \
        R *tenon__to = (R *)tenon__data[count];                                                                        \
        const int64_t tenon__step = tenon__steps[count];                                                               \
        int tenon__strided = 0; /* tensors that are neither dense nor repeated */                                      \
        bool tenon__dense = true;                                                                                      \
        (void)tenon__context;                                                                                          \
        for (int tenon__k = 0; tenon__k <= count; tenon__k++) {                                                        \
            tenon__strided += (tenon__steps[tenon__k] & ~(int64_t)1) != 0;                                             \
            tenon__dense = tenon__dense && tenon__steps[tenon__k] == 1;                                                \
        }                                                                                                              \
        if (!tenon__dense && tenon__strided < 2 && tenon__count >= TENON__SHORT_RUN)                                   \
            return tenon__run_strided_##name(tenon__data, tenon__steps, tenon__count);                                 \
        if (!tenon__dense) {                                                                                           \
            for (int64_t tenon__i = 0; tenon__i < tenon__count; tenon__i++) {                                          \
                strided;                                                                                               \
                R out;                                                                                                 \
                code;                                                                                                  \
                tenon__to[tenon__i * tenon__step] = out;                                                               \
            }                                                                                                          \
            return TENON_OK;                                                                                           \
        }                                                                                                              \
        TENON__INDEPENDENT                                                                                             \
        for (int64_t tenon__i = 0; tenon__i < tenon__count; tenon__i++) {                                              \
            items;                                                                                                     \
            R out;                                                                                                     \
            code;                                                                                                      \
            tenon__to[tenon__i] = out;                                                                                 \
        }                                                                                                              \
        return TENON_OK;                                                                                               \
    }                                                                                                                  \
    static tenon_status name(tenon_call *tenon__call)                                                                  \
    {                                                                                                                  \
        static const size_t tenon__sizes[] = {__VA_ARGS__, sizeof(R)};                                                 \
        return tenon__for_each(tenon__call, count + 1, tenon__sizes, TENON__ELEMENTWISE_GRAIN, tenon__run_##name,      \
                               NULL);                                                                                  \
    }

#define TENON__EACH1(name, code, R, out, A, a)                                                                         \
    TENON__EACH_BODY(name, code, R, out, 1, TENON__PIECE_OF(A, a), TENON__TAKE(A, a, 0), TENON__POINTER(A, a, 0),      \
                     TENON__ITEM(A, a), TENON__STRIDED_ITEM(A, a), sizeof(A))
#define TENON__EACH2(name, code, R, out, A, a, B, b)                                                                   \
    TENON__EACH_BODY(name, code, R, out, 2, TENON__PIECE_OF(A, a);                                                     \
                     TENON__PIECE_OF(B, b), TENON__TAKE(A, a, 0) TENON__TAKE(B, b, 1), TENON__POINTER(A, a, 0);        \
                     TENON__POINTER(B, b, 1), TENON__ITEM(A, a); TENON__ITEM(B, b), TENON__STRIDED_ITEM(A, a);         \
                     TENON__STRIDED_ITEM(B, b), sizeof(A), sizeof(B))
#define TENON__EACH3(name, code, R, out, A, a, B, b, C, c)                                                             \
    TENON__EACH_BODY(name, code, R, out, 3, TENON__PIECE_OF(A, a); TENON__PIECE_OF(B, b);                              \
                     TENON__PIECE_OF(C, c), TENON__TAKE(A, a, 0) TENON__TAKE(B, b, 1) TENON__TAKE(C, c, 2),            \
                     TENON__POINTER(A, a, 0);                                                                          \
                     TENON__POINTER(B, b, 1); TENON__POINTER(C, c, 2), TENON__ITEM(A, a); TENON__ITEM(B, b);           \
                     TENON__ITEM(C, c), TENON__STRIDED_ITEM(A, a); TENON__STRIDED_ITEM(B, b);                          \
                     TENON__STRIDED_ITEM(C, c), sizeof(A), sizeof(B), sizeof(C))
#define TENON__EACH4(name, code, R, out, A, a, B, b, C, c, D, d)                                                       \
    TENON__EACH_BODY(                                                                                                  \
        name, code, R, out, 4, TENON__PIECE_OF(A, a); TENON__PIECE_OF(B, b); TENON__PIECE_OF(C, c);                    \
        TENON__PIECE_OF(D, d), TENON__TAKE(A, a, 0) TENON__TAKE(B, b, 1) TENON__TAKE(C, c, 2) TENON__TAKE(D, d, 3),    \
        TENON__POINTER(A, a, 0);                                                                                       \
        TENON__POINTER(B, b, 1); TENON__POINTER(C, c, 2); TENON__POINTER(D, d, 3), TENON__ITEM(A, a);                  \
        TENON__ITEM(B, b); TENON__ITEM(C, c); TENON__ITEM(D, d), TENON__STRIDED_ITEM(A, a); TENON__STRIDED_ITEM(B, b); \
        TENON__STRIDED_ITEM(C, c); TENON__STRIDED_ITEM(D, d), sizeof(A), sizeof(B), sizeof(C), sizeof(D))
#define TENON__EACH5(name, code, R, out, A, a, B, b, C, c, D, d, E, e)                                                 \
    TENON__EACH_BODY(name, code, R, out, 5, TENON__PIECE_OF(A, a); TENON__PIECE_OF(B, b); TENON__PIECE_OF(C, c);       \
                     TENON__PIECE_OF(D, d); TENON__PIECE_OF(E, e),                                                     \
                                            TENON__TAKE(A, a, 0) TENON__TAKE(B, b, 1) TENON__TAKE(C, c, 2)             \
                                                TENON__TAKE(D, d, 3) TENON__TAKE(E, e, 4),                             \
                                            TENON__POINTER(A, a, 0);                                                   \
                     TENON__POINTER(B, b, 1); TENON__POINTER(C, c, 2); TENON__POINTER(D, d, 3);                        \
                     TENON__POINTER(E, e, 4), TENON__ITEM(A, a); TENON__ITEM(B, b); TENON__ITEM(C, c);                 \
                     TENON__ITEM(D, d); TENON__ITEM(E, e), TENON__STRIDED_ITEM(A, a); TENON__STRIDED_ITEM(B, b);       \
                     TENON__STRIDED_ITEM(C, c); TENON__STRIDED_ITEM(D, d);                                             \
                     TENON__STRIDED_ITEM(E, e), sizeof(A), sizeof(B), sizeof(C), sizeof(D), sizeof(E))
#define TENON__EACH6(name, code, R, out, A, a, B, b, C, c, D, d, E, e, F, f)                                           \
    TENON__EACH_BODY(name, code, R, out, 6, TENON__PIECE_OF(A, a); TENON__PIECE_OF(B, b); TENON__PIECE_OF(C, c);       \
                     TENON__PIECE_OF(D, d); TENON__PIECE_OF(E, e);                                                     \
                     TENON__PIECE_OF(F, f),                                                                            \
                     TENON__TAKE(A, a, 0) TENON__TAKE(B, b, 1) TENON__TAKE(C, c, 2) TENON__TAKE(D, d, 3)               \
                         TENON__TAKE(E, e, 4) TENON__TAKE(F, f, 5),                                                    \
                     TENON__POINTER(A, a, 0);                                                                          \
                     TENON__POINTER(B, b, 1); TENON__POINTER(C, c, 2); TENON__POINTER(D, d, 3);                        \
                     TENON__POINTER(E, e, 4); TENON__POINTER(F, f, 5), TENON__ITEM(A, a); TENON__ITEM(B, b);           \
                     TENON__ITEM(C, c); TENON__ITEM(D, d); TENON__ITEM(E, e);                                          \
                     TENON__ITEM(F, f), TENON__STRIDED_ITEM(A, a); TENON__STRIDED_ITEM(B, b);                          \
                     TENON__STRIDED_ITEM(C, c); TENON__STRIDED_ITEM(D, d); TENON__STRIDED_ITEM(E, e);                  \
                     TENON__STRIDED_ITEM(F, f), sizeof(A), sizeof(B), sizeof(C), sizeof(D), sizeof(E), sizeof(F))

/* ------------------------------------------------------------------------------------------------------- callbacks */

/* An int, for an argument of a callback. */
static inline tenon_value tenon_value_of_int(int64_t integer)
{
    tenon_value value = {TENON_KIND_INT, 0, {NULL}, 0};
    value.as.integer = integer;
    return value;
}

/* A float, for an argument of a callback. */
static inline tenon_value tenon_value_of_double(double number)
{
    tenon_value value = {TENON_KIND_FLOAT, 0, {NULL}, 0};
    value.as.number = number;
    return value;
}

/* A bool, for an argument of a callback. */
static inline tenon_value tenon_value_of_bool(bool truth)
{
    tenon_value value = {TENON_KIND_BOOL, 0, {NULL}, 0};
    value.as.integer = truth;
    return value;
}

/* `length` bytes of UTF-8. */
static inline tenon_value tenon_value_of_str(const char *text, size_t length)
{
    tenon_value value = {TENON_KIND_STR, 0, {NULL}, 0};
    value.as.list.data = text;
    value.as.list.length = (int64_t)length;
    return value;
}

/* The view is that of an argument or a result, or tenon_view_of. */
static inline tenon_value tenon_value_of_view(const tenon_view *view)
{
    tenon_value value = {TENON_KIND_TENSOR, 0, {NULL}, 0};
    value.as.view = view;
    return value;
}

/* A view of memory on the CPU in C order, for a callback only. The memory is inside an argument, a result or a block of
 * tenon_scratch. `shape` must live as long as the view. */
static inline tenon_view tenon_view_of(const void *data, tenon_dtype dtype, int ndim, const int64_t *shape)
{
    tenon_view view;
    memset(&view, 0, sizeof view);
    view.data = (void *)(uintptr_t)data;
    view.device = tenon_device_of(TENON_CPU, 0);
    view.ndim = ndim;
    view.dtype = dtype;
    view.shape = (int64_t *)(uintptr_t)shape;
    return view;
}

/* Call an argument that is callable('(x: f64[n], step: int) -> float'). `args` has a value for each parameter of that
 * signature, in order, and `results` receives a value for each of its results (NULL if it has none); a string is valid until
 * the function returns.
 *
 * Tensors must be in the memory of arguments, of results or of tenon_scratch. The caller may keep them: they keep the memory
 * alive, and may be read after the call. They are read-only unless that signature has 'rw'.
 *
 * The host takes the runtime's lock meanwhile. Only the function's own thread may use this, and not inside the body of a
 * loop. If the callback raises an exception, the call fails with it: return then, because later callbacks are refused. */
static inline tenon_status tenon_callback(tenon_call *call, int index, const tenon_value *args, tenon_value *results)
{
    if (!tenon__value(call, call->args, call->nargs, index, TENON_KIND_CALLABLE, "tenon_callback()") ||
        !tenon__served(call, call->host->callback != NULL, "callbacks"))
        return TENON_EFAILED;
    return call->host->callback(call, index, args, results);
}

/* -------------------------------------------------------------------------------------------------- strided access */

#ifdef TENON_CHECK_INDICES
/* Print and abort if the indices do not fit the view. */
static inline void tenon__check_at(const tenon_view *view, size_t size, const int64_t *index, size_t count)
{
    size_t bits = tenon__element_bits(view);
    if (count != (size_t)view->ndim) {
        fprintf(stderr, "tenon_at(): %d indices for a tensor with %d dimensions\n", (int)count, (int)view->ndim);
        abort();
    }
    if (size * 8 != bits) {
        fprintf(stderr, "tenon_at(): a type of %d bytes for elements of %d bits\n", (int)size, (int)bits);
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        if (index[i] < 0 || index[i] >= view->shape[i]) {
            fprintf(stderr, "tenon_at(): index %lld is outside dimension %d, which has %lld elements\n",
                    (long long)index[i], (int)i, (long long)view->shape[i]);
            abort();
        }
    }
}
#endif

static inline void *tenon__at(const tenon_view *view, size_t size, const int64_t *index, size_t count)
{
    int64_t offset = 0;
#ifdef TENON_CHECK_INDICES
    tenon__check_at(view, size, index, count);
#endif
    for (size_t i = 0; i < count; i++)
        offset += index[i] * view->strides[i];
    return (char *)view->data + offset * (int64_t)size;
}

/* The element of a view at the given indices, found by its strides: `tenon_at(view, const float, i, j)`. Nothing is
 * checked, unless the file is compiled with -DTENON_CHECK_INDICES: then a wrong number of indices, a type of another size
 * or an index out of range is printed, and the process aborts. In inner loops over contiguous data use a pointer instead:
 * compilers cannot vectorise this. */
#ifndef __cplusplus
#define tenon_at(view, T, ...)                                                                                         \
    (*(T *)tenon__at(view, sizeof(T), (const int64_t[]){__VA_ARGS__},                                                  \
                     sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#endif

/* --------------------------------------------------------------------------------------------------------- modules */

#if defined(_WIN32)
#define TENON__EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define TENON__EXPORT __attribute__((__visibility__("default")))
#else
#define TENON__EXPORT
#endif

#ifdef __cplusplus
} /* extern "C" */

template <typename... Index> static inline void *tenon__at_cpp(const tenon_view *view, size_t size, Index... index)
{
    const int64_t indices[] = {static_cast<int64_t>(index)...};
    return tenon__at(view, size, indices, sizeof...(index));
}
#define tenon_at(view, T, ...) (*static_cast<T *>(tenon__at_cpp(view, sizeof(T), __VA_ARGS__)))

#include <tenon/cpp/guard.hpp>
#define TENON__EXTERN_C extern "C"
#else
#define TENON__GUARDED(function)        function
#define TENON__GUARDED_LOAD(function)   function
#define TENON__GUARDED_UNLOAD(function) function
#define TENON__EXTERN_C
#endif

/* An entry in the table of a module: the signature, the C function, and its documentation. */
#define TENON_FUNCTION(signature, function, doc) TENON_FUNCTION_FLAGS(signature, function, doc, 0)
#define TENON_FUNCTION_FLAGS(signature, function, doc, flags)                                                          \
    {                                                                                                                  \
        signature, doc, TENON__GUARDED(function), NULL, NULL, flags,                                                   \
        {                                                                                                              \
            0, 0                                                                                                       \
        }                                                                                                              \
    }
/* The same, with a `shape` function that allocates the results of unknown size. */
#define TENON_FUNCTION_SHAPED(signature, function, shape, doc, flags)                                                  \
    {                                                                                                                  \
        signature, doc, TENON__GUARDED(function), TENON__GUARDED(shape), NULL, flags,                                  \
        {                                                                                                              \
            0, 0                                                                                                       \
        }                                                                                                              \
    }

/* A class: an entry in the table of a module. A function with its name is its constructor, "Name.method(self, ...)" is a
 * method, "Name.method(...)" a static method, and "Name.size: int" a property. The flags are TENON_CLASS_CONCURRENT or 0. */
#define TENON_CLASS(name, doc) TENON_CLASS_FLAGS(name, doc, 0)
#define TENON_CLASS_FLAGS(name, doc, flags)                                                                            \
    {                                                                                                                  \
        "class " name, doc, NULL, NULL, NULL, flags,                                                                   \
        {                                                                                                              \
            0, 0                                                                                                       \
        }                                                                                                              \
    }

/* A constant of a class or of the module, "Name.LEAF = 16" or "LEAF = 16": an integer, a float, a string, True or False. */
#define TENON_CONSTANT(definition, doc)                                                                                \
    {                                                                                                                  \
        definition, doc, NULL, NULL, NULL, 0,                                                                          \
        {                                                                                                              \
            0, 0                                                                                                       \
        }                                                                                                              \
    }

/* Define the module of a library, with its functions. Use one of these once in each library. The second form adds `load`
 * and `unload`. */
#define TENON_MODULE(name, doc, ...) TENON_MODULE_STATE(name, doc, NULL, NULL, __VA_ARGS__)
#define TENON_MODULE_STATE(name, doc, load, unload, ...)                                                               \
    static const tenon_function tenon__functions_##name[] = {__VA_ARGS__};                                             \
    static const tenon_module tenon__module_##name = {                                                                 \
        TENON_MAGIC,                                                                                                   \
        TENON_ABI_MAJOR,                                                                                               \
        TENON_ABI_MINOR,                                                                                               \
        (uint32_t)sizeof(tenon_module),                                                                                \
        (uint32_t)sizeof(tenon_function),                                                                              \
        (int64_t)(sizeof tenon__functions_##name / sizeof(tenon_function)),                                            \
        tenon__functions_##name,                                                                                       \
        #name,                                                                                                         \
        doc,                                                                                                           \
        TENON_MODULE_VERSION,                                                                                          \
        TENON__GUARDED_LOAD(load),                                                                                     \
        TENON__GUARDED_UNLOAD(unload),                                                                                 \
        0};                                                                                                            \
    TENON__EXTERN_C TENON__EXPORT const tenon_module *tenon_module_v1(void);                                           \
    const tenon_module *tenon_module_v1(void)                                                                          \
    {                                                                                                                  \
        return &tenon__module_##name;                                                                                  \
    }

/* The version of the library itself, as a string. Define it before this header is included. */
#ifndef TENON_MODULE_VERSION
#define TENON_MODULE_VERSION NULL
#endif

#endif
