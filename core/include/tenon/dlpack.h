/* The DLPack 1.3 ABI under Tenon's own names.
 *
 * The layouts are identical to DLPack's, so a pointer to one of these structs is a pointer to the official one. The
 * official dlpack.h can be included before or after this header, because they have no name in common. */
#ifndef TENON_DLPACK_H
#define TENON_DLPACK_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

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

/* DLTensor. Strides are in elements; NULL strides mean C order. The first element is at data + byte_offset. */
typedef struct tenon_dl_tensor {
    void *data;
    tenon_device device;
    int32_t ndim;
    tenon_dtype dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} tenon_dl_tensor;

/* DLManagedTensor, the struct from before DLPack 1.0. It has no version and no flags. */
typedef struct tenon_dl_managed_legacy {
    tenon_dl_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct tenon_dl_managed_legacy *self);
} tenon_dl_managed_legacy;

/* DLManagedTensorVersioned. If version.major is not TENON_DL_MAJOR, do not read anything after `deleter`. */
typedef struct tenon_dl_managed {
    tenon_dl_version version;
    void *manager_ctx;
    void (*deleter)(struct tenon_dl_managed *self);
    uint64_t flags;
    tenon_dl_tensor dl_tensor;
} tenon_dl_managed;

/* DLPackExchangeAPIHeader. `prev_api` points to the table of an older major version, or is NULL. */
typedef struct tenon_dl_exchange_header {
    tenon_dl_version version;
    struct tenon_dl_exchange_header *prev_api;
} tenon_dl_exchange_header;

/* DLPackExchangeAPI. Each function returns 0 on success and -1 on failure. None of them synchronises streams.
 *   managed_tensor_allocator: uses only dtype, ndim, shape and device of the prototype; reports errors by set_error.
 *   managed_tensor_to_py_object_no_sync: takes `tensor` on success. DLPack does not specify who owns it on failure.
 *   dltensor_from_py_object_no_sync: borrows. It has no flags, so it cannot report read-only memory. May be NULL. */
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
