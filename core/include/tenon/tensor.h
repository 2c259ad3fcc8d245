/* Owned tensors: who keeps memory alive, how it crosses to others, and views that share it.
 *
 * One failure rule: ownership moves only on TENON_OK. Otherwise nothing was taken or given, and *out is unchanged.
 *
 * Every function may be called from any thread and needs no runtime lock. None copies data but tenon_tensor_copy, and
 * tenon_tensor_contiguous where it has to. A `tenon_tensor *` belongs to the copy of the library that made it: to
 * another copy in the process it goes as a DLPack struct. */
#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H

#include <tenon/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A view with a share of the memory it describes. Opaque, one allocation, atomically counted, never changed after it is
 * made: any number of threads may read it. */
typedef struct tenon_tensor tenon_tensor;

/* Gives an owner's memory back. Called exactly once, by whichever thread drops the last count. */
typedef void (*tenon_release_fn)(void *owner);

/* ------------------------------------------------------------------------------------------------------ ownership */

/* Memory of the caller's, for tenon_tensor_from_blob. What is left 0 is: no strides (C order), no flags, on the CPU
 * (device 0:0), nothing to release. */
typedef struct tenon_blob {
    void *data;           /* where the block starts */
    uint64_t byte_offset; /* from there to the first element */
    uint64_t data_size;   /* bytes of the block, all of which views may use; 0: only those that this view touches */
    tenon_dtype dtype;
    tenon_device device;
    int32_t ndim;
    const int64_t *shape;
    const int64_t *strides; /* in elements, or NULL */
    uint64_t flags;         /* TENON_READ_ONLY, TENON_IS_COPIED, TENON_SUBBYTE_PADDED */
    void *owner;
    tenon_release_fn release;
    /* Of memory on a device: the stream whose work fills it (a cudaStream_t), which outlives the tensor; NULL: the device's
     * default stream. Memory on ROCm must be ready when the tensor is made. */
    void *stream;
} tenon_blob;

/* Make a tensor of memory that exists.
 *
 * Ownership: takes `owner` on TENON_OK, calls release(owner) once with the last count. Shape and strides are copied.
 * Release:   tenon_tensor_release(*out).
 * Errors:    those of tenon_view_init, TENON_EBOUNDS (reaches outside data_size), TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_from_blob(const tenon_blob *blob, tenon_tensor **out,
                                                              tenon_error *err);

/* Make a tensor of memory that a view describes: what it says was checked when it was made. Views of the result stay
 * inside the bytes that it touches.
 *
 * Ownership: as tenon_tensor_from_blob; the view's shape and strides are copied.
 * Release:   tenon_tensor_release(*out).
 * Errors:    TENON_EINVAL (NULL), TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_from_view(const tenon_view *view, void *owner,
                                                              tenon_release_fn release, tenon_tensor **out,
                                                              tenon_error *err);

#define TENON_ZEROED 1u

/* Make a tensor of new memory on the CPU: C order, 64-byte aligned, filled with zeros where `options` has TENON_ZEROED.
 *
 * Release:   tenon_tensor_release(*out).
 * Errors:    those of tenon_view_init, TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_alloc(tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                                          uint32_t options, tenon_tensor **out, tenon_error *err);

/* Add a count and return `tensor`. NULL gives NULL. */
TENON_API tenon_tensor *tenon_tensor_retain(tenon_tensor *tensor);

/* Drop a count; the last one releases the memory, unless other tensors share it. NULL does nothing. Never waits. */
TENON_API void tenon_tensor_release(tenon_tensor *tensor);

/* The view, valid until `tensor` is released. NULL gives NULL. */
TENON_API const tenon_view *tenon_tensor_view(const tenon_tensor *tensor);

/* The counts on this tensor at this moment; 0 for NULL. An export counts on its tensor, a view (also of a view) on the
 * tensor that owns the memory. For tests and debugging: another thread may have changed it already. */
TENON_API int64_t tenon_tensor_refcount(const tenon_tensor *tensor);

/* The owner that was given together with `release`, or NULL where the tensor is a view, or somebody else's: how a
 * bridge knows its own tensors. */
TENON_API void *tenon_tensor_owner(const tenon_tensor *tensor, tenon_release_fn release);

/* The tensor that owns the memory: `tensor` itself, unless it is a view. Valid until `tensor` is released. NULL gives
 * NULL. */
TENON_API tenon_tensor *tenon_tensor_root(const tenon_tensor *tensor);

/* The stream whose work fills the memory, as tenon_blob had it, also for views; else NULL, the default stream. */
TENON_API void *tenon_tensor_stream(const tenon_tensor *tensor);

/* Copy the elements into a new tensor on the CPU, in C order; it is writable and marked TENON_IS_COPIED.
 *
 * Release:   tenon_tensor_release(*out).
 * Errors:    TENON_EINVAL, TENON_EDEVICE (memory that the CPU cannot read), TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_copy(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err);

/* Return the same tensor with one count more where it is in C order without gaps, else a copy as tenon_tensor_copy
 * makes it.
 *
 * Release:   tenon_tensor_release(*out).
 * Errors:    TENON_EINVAL, TENON_EDEVICE (a copy is needed, of memory that the CPU cannot read), TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_contiguous(tenon_tensor *tensor, tenon_tensor **out,
                                                               tenon_error *err);

/* --------------------------------------------------------------------------------------------------------- DLPack */

/* Import a producer's tensor without copying. A struct that this copy of the library exported, and that nobody has
 * changed, comes back as the tensor it was made from.
 *
 * Ownership: takes `managed` on TENON_OK and calls its deleter (which may be NULL) once, with the last count; otherwise
 *            the caller keeps it. It is only read.
 * Release:   tenon_tensor_release(*out).
 * Errors:    TENON_EVERSION (another major: nothing past the deleter was read), those of tenon_view_init,
 *            TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_import(tenon_dl_managed *managed, tenon_tensor **out,
                                                           tenon_error *err);

/* As tenon_tensor_import, for the struct before DLPack 1.0. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_import_legacy(tenon_dl_managed_legacy *managed, tenon_tensor **out,
                                                                  tenon_error *err);

/* Export the tensor to a consumer without copying. The version is the oldest minor of DLPack 1 that defines what the
 * struct holds.
 *
 * Ownership: gives a struct that holds one count; its deleter drops it and frees the struct, on any thread.
 * Errors:    TENON_EINVAL, TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_export(tenon_tensor *tensor, tenon_dl_managed **out,
                                                           tenon_error *err);

/* As tenon_tensor_export, for consumers older than DLPack 1.0, which know no flags.
 *
 * Errors:    also TENON_EREADONLY (read-only memory), TENON_EDTYPE (padded sub-byte values). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_export_legacy(tenon_tensor *tensor, tenon_dl_managed_legacy **out,
                                                                  tenon_error *err);

/* ---------------------------------------------------------------------------------------------------------- views
 *
 * Each gives a new tensor on the same memory, holding a count of its own on the owner; read-only stays read-only. A
 * `dim` may be negative and then counts from the end. Packed sub-byte values can only be cut at whole bytes
 * (TENON_ELAYOUT).
 *
 * Ownership: takes nothing; `tensor` may be released before the result.
 * Release:   tenon_tensor_release(*out).
 * Errors:    TENON_EINVAL (NULL), TENON_EBOUNDS (a dim or index that is not there), TENON_ENOMEM, and those named. */

/* An index or dimension left out, as None in Python. */
#define TENON_OMIT INT64_MIN

/* tensor[start:stop:step] along `dim`, by Python's rules: negative indices count from the end, those beyond it are cut,
 * TENON_OMIT as start or stop gives the default. Errors: TENON_EINVAL (a step of 0 or TENON_OMIT). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_slice(tenon_tensor *tensor, int64_t dim, int64_t start,
                                                          int64_t stop, int64_t step, tenon_tensor **out,
                                                          tenon_error *err);

/* tensor[index] along `dim`, which goes away. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_select(tenon_tensor *tensor, int64_t dim, int64_t index,
                                                           tenon_tensor **out, tenon_error *err);

/* Dimension i of the result is dimension axes[i]; each is named once, ndim in all. Errors: TENON_EINVAL (twice). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_permute(tenon_tensor *tensor, const int32_t *axes,
                                                            tenon_tensor **out, tenon_error *err);

/* Two dimensions change places. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_transpose(tenon_tensor *tensor, int64_t dim0, int64_t dim1,
                                                              tenon_tensor **out, tenon_error *err);

/* The same elements in C order under another shape; one dimension may be -1: what is left. Errors: TENON_ESHAPE
 * (another number of elements), TENON_ELAYOUT (it would need a copy), TENON_EOVERFLOW. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_reshape(tenon_tensor *tensor, int32_t ndim, const int64_t *shape,
                                                            tenon_tensor **out, tenon_error *err);

/* One dimension. Errors: TENON_ELAYOUT (it would need a copy). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_flatten(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err);

/* Without dimension `dim`, which must be of size 1 (TENON_ESHAPE); TENON_OMIT: without all that are. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_squeeze(tenon_tensor *tensor, int64_t dim, tenon_tensor **out,
                                                            tenon_error *err);

/* With a new dimension of size 1 at `dim` of the result: 0 to ndim, or negative from its end. Errors: TENON_ESHAPE
 * (more than 64). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_expand_dims(tenon_tensor *tensor, int64_t dim, tenon_tensor **out,
                                                                tenon_error *err);

/* Repeat dimensions of size 1, and new ones in front, by strides of 0. Errors: TENON_ESHAPE, TENON_EOVERFLOW. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_broadcast_to(tenon_tensor *tensor, int32_t ndim,
                                                                 const int64_t *shape, tenon_tensor **out,
                                                                 tenon_error *err);

/* Any shape and strides, `offset` elements from the first one, inside the owner's extent: `data_size` where it was
 * given, else the bytes touched by the view that the owner came with. Errors: those of tenon_view_init, TENON_EINVAL
 * (NULL strides), TENON_EBOUNDS. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_as_strided(tenon_tensor *tensor, int32_t ndim, const int64_t *shape,
                                                               const int64_t *strides, int64_t offset,
                                                               tenon_tensor **out, tenon_error *err);

/* The same bits under another dtype of the same size. Errors: TENON_EDTYPE. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_view_as(tenon_tensor *tensor, tenon_dtype dtype, tenon_tensor **out,
                                                            tenon_error *err);

/* The real or the imaginary parts of complex numbers. Errors: TENON_EDTYPE (not complex, or of several lanes). */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_real(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err);
TENON_API TENON_NODISCARD tenon_status tenon_tensor_imag(tenon_tensor *tensor, tenon_tensor **out, tenon_error *err);

/* -------------------------------------------------------------------------------------------------------- origins
 *
 * With TENON_DEBUG=1 in the environment, reports about a tensor can name the source line that made it. Code opts in: it
 * defines TENON_ORIGINS before it includes a header of Tenon. Each function that makes a tensor then has a macro of the
 * same name, which passes the line on; without TENON_DEBUG this costs one call that returns at once. */

/* Name the place that makes the next tensor on this thread, for code that cannot use the macros.
 *
 * Ownership: `place` must live until that tensor is made.
 * Threads:   any. */
TENON_API void tenon_origin(const char *place);

#ifdef TENON_ORIGINS
#define TENON__QUOTE(x)       #x
#define TENON__QUOTE_VALUE(x) TENON__QUOTE(x)
#define TENON__PLACE          __FILE__ ":" TENON__QUOTE_VALUE(__LINE__)
#define TENON__ON_LINE(call)  (tenon_origin(TENON__PLACE), call) /* `call` may have a compound literal with commas */
#define TENON__LINE_OF(first) tenon__origin_of(first, TENON__PLACE)

/* A function, so that a tensor which the argument makes is made first. */
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
