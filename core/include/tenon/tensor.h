/* Owned tensors: create them, import and export them, and take views that share their memory.
 *
 * One failure rule: ownership moves only on TENON_OK. On failure nothing was taken or given, and *out is unchanged.
 *
 * Every function may be called from any thread and needs no runtime lock. Only tenon_tensor_copy copies data, and
 * tenon_tensor_contiguous if it has to. A `tenon_tensor *` may only be used with the copy of the library that created
 * it. To pass a tensor to another copy in the same process, export it as a DLPack struct. */
#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <tenon/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A view that keeps the memory it describes alive. It is opaque, a single allocation, and has an atomic reference count.
 * It is immutable, so any number of threads may read it. */
typedef struct tenon_tensor tenon_tensor;

/* Releases the memory of an owner. Called exactly once, on the thread that drops the last reference. */
typedef void (*tenon_release_fn)(void *owner);

/* ------------------------------------------------------------------------------------------------------ ownership */

/* A description of existing memory, for tenon_tensor_from_blob. Fields that are 0 mean C order (strides), no flags, the
 * CPU (device), and nothing to release (release). */
typedef struct tenon_blob {
    void *data;           /* the start of the block */
    uint64_t byte_offset; /* from `data` to the first element */
    uint64_t data_size;   /* bytes of the block, which limit all views; 0: only the bytes of these elements */
    tenon_dtype dtype;
    tenon_device device;
    int32_t ndim;
    const int64_t *shape;
    const int64_t *strides; /* in elements, or NULL */
    uint64_t flags;         /* TENON_READ_ONLY, TENON_IS_COPIED, TENON_SUBBYTE_PADDED */
    void *owner;
    tenon_release_fn release;
    /* For memory on a device: the stream (a cudaStream_t) whose work fills the memory, or NULL for the default stream.
     * The stream must outlive the tensor. Memory on ROCm must be ready when the tensor is created. */
    void *stream;
} tenon_blob;

/* Create a tensor from existing memory.
 *
 * Ownership: takes `owner` on TENON_OK, and calls release(owner) once, with the last reference. Shape and strides are
 *            copied.
 * Release:   tenon_tensor_release(*out).
 * Errors:    those of tenon_view_init, TENON_EBOUNDS (elements outside data_size), TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_from_blob(const tenon_blob *blob, tenon_tensor **out,
                                                              tenon_error *err);

/* Create a tensor from the memory that a view describes. The view is not validated again. Views of the result are
 * limited to the bytes of its elements.
 *
 * Ownership: as tenon_tensor_from_blob.
 * Release:   tenon_tensor_release(*out).
 * Errors:    TENON_EINVAL (NULL), TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_from_view(const tenon_view *view, void *owner,
                                                              tenon_release_fn release, tenon_tensor **out,
                                                              tenon_error *err);

#define TENON_ZEROED 1u

/* Create a tensor in new memory on the CPU: in C order, aligned to 64 bytes, and filled with zeros if `options` has
 * TENON_ZEROED.
 *
 * Release:   tenon_tensor_release(*out).
 * Errors:    those of tenon_view_init, TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_alloc(tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                                          uint32_t options, tenon_tensor **out, tenon_error *err);

/* Add a reference and return `tensor`. Returns NULL for NULL. */
TENON_API tenon_tensor *tenon_tensor_retain(tenon_tensor *tensor);

/* Drop a reference. The last one releases the memory, unless other tensors share it. NULL is ignored. Never blocks. */
TENON_API void tenon_tensor_release(tenon_tensor *tensor);

/* The view, valid until `tensor` is released. Returns NULL for NULL. */
TENON_API const tenon_view *tenon_tensor_view(const tenon_tensor *tensor);

/* The current reference count; 0 for NULL. An export holds a reference to its tensor; a view, even a view of a view,
 * holds one to the tensor that owns the memory. Use this for tests and debugging only, because another thread may change
 * the count at any time. */
TENON_API int64_t tenon_tensor_refcount(const tenon_tensor *tensor);

/* The owner that was passed together with `release`, or NULL if the tensor is a view or has another release function. A
 * bridge recognises its own tensors with this. */
TENON_API void *tenon_tensor_owner(const tenon_tensor *tensor, tenon_release_fn release);

/* The tensor that owns the memory: `tensor` itself, unless it is a view. Valid until `tensor` is released. Returns NULL
 * for NULL. */
TENON_API tenon_tensor *tenon_tensor_root(const tenon_tensor *tensor);

/* The stream that was given in tenon_blob, even for views, or NULL for the default stream. */
TENON_API void *tenon_tensor_stream(const tenon_tensor *tensor);

/* Copy the elements into a new tensor on the CPU, in C order. The copy is writable and has the flag TENON_IS_COPIED.
 *
 * Release:   tenon_tensor_release(*out).
 * Errors:    TENON_EINVAL, TENON_EDEVICE (the CPU cannot read the memory), TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_copy(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err);

/* Return the same tensor with another reference if it is in C order without gaps, otherwise a copy, as
 * tenon_tensor_copy does.
 *
 * Release:   tenon_tensor_release(*out).
 * Errors:    TENON_EINVAL, TENON_EDEVICE (a copy is needed, but the CPU cannot read the memory), TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_contiguous(tenon_tensor *tensor, tenon_tensor **out,
                                                               tenon_error *err);

/* --------------------------------------------------------------------------------------------------------- DLPack */

/* Import a producer's tensor without copying. If this copy of the library exported the struct, and it has not been
 * modified since, the result is the tensor that was exported.
 *
 * Ownership: takes `managed` on TENON_OK, and calls its deleter (which may be NULL) once, with the last reference;
 *            otherwise the caller keeps it. The struct is never written to.
 * Release:   tenon_tensor_release(*out).
 * Errors:    TENON_EVERSION (another major version; nothing after the deleter was read), those of tenon_view_init,
 *            TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_import(tenon_dl_managed *managed, tenon_tensor **out,
                                                           tenon_error *err);

/* As tenon_tensor_import, for the struct from before DLPack 1.0. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_import_legacy(tenon_dl_managed_legacy *managed, tenon_tensor **out,
                                                                  tenon_error *err);

/* Export the tensor to a consumer without copying. The version in the struct is the oldest minor version of DLPack 1
 * that defines its contents.
 *
 * Ownership: the struct holds a reference to the tensor. Its deleter drops the reference and frees the struct; it may be
 *            called on any thread.
 * Errors:    TENON_EINVAL, TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_export(tenon_tensor *tensor, tenon_dl_managed **out,
                                                           tenon_error *err);

/* As tenon_tensor_export, for consumers from before DLPack 1.0, which do not support flags.
 *
 * Errors:    also TENON_EREADONLY (read-only memory), TENON_EDTYPE (padded sub-byte values). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_export_legacy(tenon_tensor *tensor, tenon_dl_managed_legacy **out,
                                                                  tenon_error *err);

/* ---------------------------------------------------------------------------------------------------------- views
 *
 * Each function creates a new tensor that shares the memory of `tensor`. A view of read-only memory is read-only. A
 * negative `dim` counts from the end. A view of packed sub-byte values must start at a whole byte (TENON_ELAYOUT).
 *
 * Ownership: the result holds its own reference to the owner of the memory; `tensor` may be released before it.
 * Release:   tenon_tensor_release(*out).
 * Errors:    TENON_EINVAL (NULL), TENON_EBOUNDS (a dim or index is out of range), TENON_ENOMEM, and those listed below. */

/* An omitted index or dimension, like None in Python. */
#define TENON_OMIT INT64_MIN

/* tensor[start:stop:step] along `dim`, with Python's rules: negative indices count from the end, indices out of range are
 * clamped, and TENON_OMIT as start or stop means the default. Errors: TENON_EINVAL (a step of 0 or TENON_OMIT). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_slice(tenon_tensor *tensor, int64_t dim, int64_t start,
                                                          int64_t stop, int64_t step, tenon_tensor **out,
                                                          tenon_error *err);

/* tensor[index] along `dim`. The result does not have that dimension. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_select(tenon_tensor *tensor, int64_t dim, int64_t index,
                                                           tenon_tensor **out, tenon_error *err);

/* Reorder the dimensions: dimension i of the result is dimension axes[i]. `axes` has ndim entries, each dimension once.
 * Errors: TENON_EINVAL (a dimension appears twice). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_permute(tenon_tensor *tensor, const int32_t *axes,
                                                            tenon_tensor **out, tenon_error *err);

/* Swap two dimensions. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_transpose(tenon_tensor *tensor, int64_t dim0, int64_t dim1,
                                                              tenon_tensor **out, tenon_error *err);

/* The same elements, in C order, with another shape. One dimension may be -1: it is computed from the others. Errors:
 * TENON_ESHAPE (another number of elements), TENON_ELAYOUT (it would require a copy), TENON_EOVERFLOW. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_reshape(tenon_tensor *tensor, int32_t ndim, const int64_t *shape,
                                                            tenon_tensor **out, tenon_error *err);

/* The same elements, in C order, in one dimension. Errors: TENON_ELAYOUT (it would require a copy). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_flatten(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err);

/* Remove the dimension `dim`, which must have size 1, or with TENON_OMIT all dimensions of size 1. Errors:
 * TENON_ESHAPE. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_squeeze(tenon_tensor *tensor, int64_t dim, tenon_tensor **out,
                                                            tenon_error *err);

/* Insert a dimension of size 1 at position `dim` of the result: 0 to ndim, or negative from its end. Errors:
 * TENON_ESHAPE (more than 64 dimensions). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_expand_dims(tenon_tensor *tensor, int64_t dim, tenon_tensor **out,
                                                                tenon_error *err);

/* Repeat dimensions of size 1, and add dimensions in front, with strides of 0. Errors: TENON_ESHAPE, TENON_EOVERFLOW. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_broadcast_to(tenon_tensor *tensor, int32_t ndim,
                                                                 const int64_t *shape, tenon_tensor **out,
                                                                 tenon_error *err);

/* A view with the given shape and strides that starts `offset` elements after the first element. It must stay inside
 * the memory of the owner: `data_size` if that was given, otherwise the bytes of the owner's elements. Errors: those of
 * tenon_view_init, TENON_EINVAL (NULL strides), TENON_EBOUNDS. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_as_strided(tenon_tensor *tensor, int32_t ndim, const int64_t *shape,
                                                               const int64_t *strides, int64_t offset,
                                                               tenon_tensor **out, tenon_error *err);

/* Reinterpret the elements as another dtype of the same size. Errors: TENON_EDTYPE. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_view_as(tenon_tensor *tensor, tenon_dtype dtype, tenon_tensor **out,
                                                            tenon_error *err);

/* The real or the imaginary parts of complex elements. Errors: TENON_EDTYPE (not complex, or several lanes). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_real(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err);
TENON_API TENON_NODISCARD tenon_status tenon_tensor_imag(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err);

/* -------------------------------------------------------------------------------------------------------- origins
 *
 * In debug mode (memory.h), the reports about a tensor can name the source line that created it. To get this, define
 * TENON_ORIGINS before including a header of Tenon. Each function that creates a tensor then has a macro of the same name
 * that records the line. Without debug mode, that costs one call that returns immediately. */

/* Set the origin of the next tensor that this thread creates, for code that cannot use the macros.
 *
 * Ownership: `place` must be valid until that tensor is created.
 * Threads:   any. */
TENON_API void tenon_origin(const char *place);

#ifdef TENON_ORIGINS
#define TENON__QUOTE(x)       #x
#define TENON__QUOTE_VALUE(x) TENON__QUOTE(x)
#define TENON__PLACE          __FILE__ ":" TENON__QUOTE_VALUE(__LINE__)
#define TENON__ON_LINE(call)  (tenon_origin(TENON__PLACE), call) /* `call` may have a compound literal with commas */
#define TENON__LINE_OF(first) tenon__origin_of(first, TENON__PLACE)

/* A function, so that an argument that creates a tensor itself is evaluated first. */
static inline tenon_tensor *tenon__origin_of(tenon_tensor *tensor, const char *place)
{
    tenon_origin(place);
    return tensor;
}

#define tenon_tensor_from_blob(...)           TENON__ON_LINE(tenon_tensor_from_blob(__VA_ARGS__))
#define tenon_tensor_from_view(...)           TENON__ON_LINE(tenon_tensor_from_view(__VA_ARGS__))
#define tenon_tensor_alloc(...)               TENON__ON_LINE(tenon_tensor_alloc(__VA_ARGS__))
#define tenon_tensor_import(...)              TENON__ON_LINE(tenon_tensor_import(__VA_ARGS__))
#define tenon_tensor_import_legacy(...)       TENON__ON_LINE(tenon_tensor_import_legacy(__VA_ARGS__))
#define tenon_tensor_slice(first, ...)        tenon_tensor_slice(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_select(first, ...)       tenon_tensor_select(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_permute(first, ...)      tenon_tensor_permute(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_transpose(first, ...)    tenon_tensor_transpose(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_reshape(first, ...)      tenon_tensor_reshape(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_flatten(first, ...)      tenon_tensor_flatten(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_squeeze(first, ...)      tenon_tensor_squeeze(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_expand_dims(first, ...)  tenon_tensor_expand_dims(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_broadcast_to(first, ...) tenon_tensor_broadcast_to(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_as_strided(first, ...)   tenon_tensor_as_strided(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_view_as(first, ...)      tenon_tensor_view_as(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_real(first, ...)         tenon_tensor_real(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_imag(first, ...)         tenon_tensor_imag(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_copy(first, ...)         tenon_tensor_copy(TENON__LINE_OF(first), __VA_ARGS__)
#define tenon_tensor_contiguous(first, ...)   tenon_tensor_contiguous(TENON__LINE_OF(first), __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif

#endif
