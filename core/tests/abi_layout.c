/* Every size, offset and number that other libraries rely on. It compiles as C11 and as C++17, or something changed.
 *
 * With TENON_OFFICIAL_DLPACK the official header (<dlpack/dlpack.h>, or TENON_OFFICIAL_HEADER) is compared too:
 * included before ours where TENON_OFFICIAL_FIRST is defined, else after it. */
#ifdef TENON_OFFICIAL_DLPACK
#ifndef TENON_OFFICIAL_HEADER
#define TENON_OFFICIAL_HEADER <dlpack/dlpack.h>
#endif
#ifdef TENON_OFFICIAL_FIRST
#include TENON_OFFICIAL_HEADER
#endif
#endif

#include <tenon/tenon.h>

#ifdef TENON_OFFICIAL_DLPACK
#ifndef TENON_OFFICIAL_FIRST
#include TENON_OFFICIAL_HEADER
#endif
#endif

#ifdef __cplusplus
#define HOLDS(condition) static_assert(condition, #condition)
#else
#define HOLDS(condition) _Static_assert(condition, #condition)
#endif

#define SIZE(type, size)             HOLDS(sizeof(type) == (size))
#define FIELD(type, name, at, bytes) HOLDS(offsetof(type, name) == (at) && sizeof(((type *)0)->name) == (bytes))
#define VALUE(name, number)          HOLDS((uint64_t)(name) == (uint64_t)(number))

/* -------------------------------------------------------------------------------------- the same on every machine */

SIZE(tenon_status, 4);
HOLDS((tenon_status)-1 < 0);

SIZE(tenon_error, 1024);
FIELD(tenon_error, status, 0, 4);
FIELD(tenon_error, message, 4, 1020);

SIZE(tenon_dtype, 4);
FIELD(tenon_dtype, code, 0, 1);
FIELD(tenon_dtype, bits, 1, 1);
FIELD(tenon_dtype, lanes, 2, 2);

SIZE(tenon_device, 8);
FIELD(tenon_device, device_type, 0, 4);
FIELD(tenon_device, device_id, 4, 4);

SIZE(tenon_dl_version, 8);
FIELD(tenon_dl_version, major, 0, 4);
FIELD(tenon_dl_version, minor, 4, 4);

SIZE(tenon_extent, 16);
FIELD(tenon_extent, low, 0, 8);
FIELD(tenon_extent, high, 8, 8);

SIZE(tenon_counts, 32);
FIELD(tenon_counts, tensors, 0, 8);
FIELD(tenon_counts, exports, 8, 8);
FIELD(tenon_counts, bytes, 16, 8);
FIELD(tenon_counts, deferred, 24, 8);

VALUE(TENON_DL_MAJOR, 1);
VALUE(TENON_DL_MINOR, 3);
VALUE(TENON_MAX_NDIM, 64);

VALUE(TENON_OK, 0);
VALUE(TENON_EINVAL, 1);
VALUE(TENON_ENOMEM, 2);
VALUE(TENON_EOVERFLOW, 3);
VALUE(TENON_EDTYPE, 4);
VALUE(TENON_ESHAPE, 5);
VALUE(TENON_ELAYOUT, 6);
VALUE(TENON_EBOUNDS, 7);
VALUE(TENON_EDEVICE, 8);
VALUE(TENON_EREADONLY, 9);
VALUE(TENON_EVERSION, 10);
VALUE(TENON_EPARSE, 11);
VALUE(TENON_EOVERLAP, 12);

VALUE(TENON_CODE_INT, 0);
VALUE(TENON_CODE_UINT, 1);
VALUE(TENON_CODE_FLOAT, 2);
VALUE(TENON_CODE_OPAQUE, 3);
VALUE(TENON_CODE_BFLOAT, 4);
VALUE(TENON_CODE_COMPLEX, 5);
VALUE(TENON_CODE_BOOL, 6);
VALUE(TENON_CODE_F8_E3M4, 7);
VALUE(TENON_CODE_F8_E4M3, 8);
VALUE(TENON_CODE_F8_E4M3B11FNUZ, 9);
VALUE(TENON_CODE_F8_E4M3FN, 10);
VALUE(TENON_CODE_F8_E4M3FNUZ, 11);
VALUE(TENON_CODE_F8_E5M2, 12);
VALUE(TENON_CODE_F8_E5M2FNUZ, 13);
VALUE(TENON_CODE_F8_E8M0FNU, 14);
VALUE(TENON_CODE_F6_E2M3FN, 15);
VALUE(TENON_CODE_F6_E3M2FN, 16);
VALUE(TENON_CODE_F4_E2M1FN, 17);

VALUE(TENON_CPU, 1);
VALUE(TENON_CUDA, 2);
VALUE(TENON_CUDA_HOST, 3);
VALUE(TENON_OPENCL, 4);
VALUE(TENON_VULKAN, 7);
VALUE(TENON_METAL, 8);
VALUE(TENON_VPI, 9);
VALUE(TENON_ROCM, 10);
VALUE(TENON_ROCM_HOST, 11);
VALUE(TENON_EXT_DEV, 12);
VALUE(TENON_CUDA_MANAGED, 13);
VALUE(TENON_ONEAPI, 14);
VALUE(TENON_WEBGPU, 15);
VALUE(TENON_HEXAGON, 16);
VALUE(TENON_MAIA, 17);
VALUE(TENON_TRAINIUM, 18);

VALUE(TENON_READ_ONLY, 1);
VALUE(TENON_IS_COPIED, 2);
VALUE(TENON_SUBBYTE_PADDED, 4);
VALUE(TENON_VIEW_C, 0x100);
VALUE(TENON_VIEW_F, 0x200);
VALUE(TENON_VIEW_DENSE, 0x400);
VALUE(TENON_VIEW_WRITTEN, 0x800);
VALUE(TENON_VIEW_FRESH, 0x1000);

/* ------------------------------------------------------------------------------------------- with 64-bit pointers */

#if UINTPTR_MAX == UINT64_MAX
SIZE(tenon_dl_tensor, 48);
FIELD(tenon_dl_tensor, data, 0, 8);
FIELD(tenon_dl_tensor, device, 8, 8);
FIELD(tenon_dl_tensor, ndim, 16, 4);
FIELD(tenon_dl_tensor, dtype, 20, 4);
FIELD(tenon_dl_tensor, shape, 24, 8);
FIELD(tenon_dl_tensor, strides, 32, 8);
FIELD(tenon_dl_tensor, byte_offset, 40, 8);

SIZE(tenon_view, 64);
FIELD(tenon_view, data, 0, 8);
FIELD(tenon_view, device, 8, 8);
FIELD(tenon_view, ndim, 16, 4);
FIELD(tenon_view, dtype, 20, 4);
FIELD(tenon_view, shape, 24, 8);
FIELD(tenon_view, strides, 32, 8);
FIELD(tenon_view, byte_offset, 40, 8);
FIELD(tenon_view, flags, 48, 8);
FIELD(tenon_view, numel, 56, 8);

SIZE(tenon_dl_managed_legacy, 64);
FIELD(tenon_dl_managed_legacy, dl_tensor, 0, 48);
FIELD(tenon_dl_managed_legacy, manager_ctx, 48, 8);
FIELD(tenon_dl_managed_legacy, deleter, 56, 8);

SIZE(tenon_dl_managed, 80);
FIELD(tenon_dl_managed, version, 0, 8);
FIELD(tenon_dl_managed, manager_ctx, 8, 8);
FIELD(tenon_dl_managed, deleter, 16, 8);
FIELD(tenon_dl_managed, flags, 24, 8);
FIELD(tenon_dl_managed, dl_tensor, 32, 48);

SIZE(tenon_dl_exchange_header, 16);
FIELD(tenon_dl_exchange_header, version, 0, 8);
FIELD(tenon_dl_exchange_header, prev_api, 8, 8);

SIZE(tenon_dl_exchange, 56);
FIELD(tenon_dl_exchange, header, 0, 16);
FIELD(tenon_dl_exchange, managed_tensor_allocator, 16, 8);
FIELD(tenon_dl_exchange, managed_tensor_from_py_object_no_sync, 24, 8);
FIELD(tenon_dl_exchange, managed_tensor_to_py_object_no_sync, 32, 8);
FIELD(tenon_dl_exchange, dltensor_from_py_object_no_sync, 40, 8);
FIELD(tenon_dl_exchange, current_work_stream, 48, 8);

SIZE(tenon_blob, 80);
FIELD(tenon_blob, data, 0, 8);
FIELD(tenon_blob, byte_offset, 8, 8);
FIELD(tenon_blob, data_size, 16, 8);
FIELD(tenon_blob, dtype, 24, 4);
FIELD(tenon_blob, device, 28, 8);
FIELD(tenon_blob, ndim, 36, 4);
FIELD(tenon_blob, shape, 40, 8);
FIELD(tenon_blob, strides, 48, 8);
FIELD(tenon_blob, flags, 56, 8);
FIELD(tenon_blob, owner, 64, 8);
FIELD(tenon_blob, release, 72, 8);

SIZE(tenon_allocator, 24);
FIELD(tenon_allocator, alloc, 0, 8);
FIELD(tenon_allocator, free, 8, 8);
FIELD(tenon_allocator, context, 16, 8);

SIZE(tenon_deferred_node, 24);
FIELD(tenon_deferred_node, next, 0, 8);
FIELD(tenon_deferred_node, release, 8, 8);
FIELD(tenon_deferred_node, owner, 16, 8);
SIZE(tenon_deferred, 8);
#endif

/* -------------------------------------------------------------------------------------------- the official header */

#ifdef TENON_OFFICIAL_DLPACK
#include "headers/dlpack_compare.h"
#endif

int main(void)
{
    return 0;
}
