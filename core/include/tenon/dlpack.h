/* The DLPack 1.3 ABI under Tenon's own names.
 *
 * The layouts are DLPack's, bit for bit, so a pointer to one of these structs is a pointer to the official one. The
 * official dlpack.h can be included before or after this header: no name is shared. */
#ifndef TENON_DLPACK_H
#define TENON_DLPACK_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_DL_MAJOR 1
#define TENON_DL_MINOR 3

/* Capsule and attribute names of the Python protocol. */
#define TENON_DL_CAPSULE             "dltensor_versioned"
#define TENON_DL_CAPSULE_USED        "used_dltensor_versioned"
#define TENON_DL_CAPSULE_LEGACY      "dltensor"
#define TENON_DL_CAPSULE_LEGACY_USED "used_dltensor"
#define TENON_DL_EXCHANGE_ATTRIBUTE  "__dlpack_c_exchange_api__"
#define TENON_DL_EXCHANGE_CAPSULE    "dlpack_exchange_api"

typedef struct tenon_dl_version {
    uint32_t major;
    uint32_t minor;
} tenon_dl_version;

/* DLTensor. Strides count elements; NULL strides mean C order; the first element is at data + byte_offset. */
typedef struct tenon_dl_tensor {
    void *data;
    tenon_device device;
    int32_t ndim;
    tenon_dtype dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} tenon_dl_tensor;

/* DLManagedTensor: before DLPack 1.0, without version and flags. */
typedef struct tenon_dl_managed_legacy {
    tenon_dl_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct tenon_dl_managed_legacy *self);
} tenon_dl_managed_legacy;

/* DLManagedTensorVersioned. Where version.major is not ours, nothing past `deleter` may be read. */
typedef struct tenon_dl_managed {
    tenon_dl_version version;
    void *manager_ctx;
    void (*deleter)(struct tenon_dl_managed *self);
    uint64_t flags;
    tenon_dl_tensor dl_tensor;
} tenon_dl_managed;

/* DLPackExchangeAPIHeader: `prev_api` leads to a table of an older major version, or is NULL. */
typedef struct tenon_dl_exchange_header {
    tenon_dl_version version;
    struct tenon_dl_exchange_header *prev_api;
} tenon_dl_exchange_header;

/* DLPackExchangeAPI. Each function returns 0, or -1 on failure; none synchronises streams.
 *   managed_tensor_allocator: only dtype, ndim, shape and device of the prototype count; errors come by set_error.
 *   managed_tensor_to_py_object_no_sync: takes `tensor` on success; who owns it on failure is not specified.
 *   dltensor_from_py_object_no_sync: a borrow, without flags: read-only is invisible on this path; may be NULL. */
typedef struct tenon_dl_exchange {
    tenon_dl_exchange_header header;
    int (*managed_tensor_allocator)(tenon_dl_tensor *prototype, tenon_dl_managed **out, void *error_ctx,
                                    void (*set_error)(void *error_ctx, const char *kind, const char *message));
    int (*managed_tensor_from_py_object_no_sync)(void *py_object, tenon_dl_managed **out);
    int (*managed_tensor_to_py_object_no_sync)(tenon_dl_managed *tensor, void **out_py_object);
    int (*dltensor_from_py_object_no_sync)(void *py_object, tenon_dl_tensor *out);
    int (*current_work_stream)(int32_t device_type, int32_t device_id, void **out_stream);
} tenon_dl_exchange;

#ifdef __cplusplus
}
#endif

#endif
