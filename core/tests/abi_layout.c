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
FIELD(tenon_error, message, 4, 1008);
FIELD(tenon_error, os_error, 1012, 4);
FIELD(tenon_error, function, 1016, 8);

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

SIZE(tenon_stats, 32);
FIELD(tenon_stats, tensors, 0, 8);
FIELD(tenon_stats, exports, 8, 8);
FIELD(tenon_stats, bytes, 16, 8);
FIELD(tenon_stats, deferred, 24, 8);

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
VALUE(TENON_EFAILED, 13);

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

VALUE(TENON_ABI_MAJOR, 1);
VALUE(TENON_ABI_MINOR, 0);
VALUE(TENON_MAGIC, 0x444f4d4e4f4e4554);

VALUE(TENON_KIND_NONE, 0);
VALUE(TENON_KIND_TENSOR, 1);
VALUE(TENON_KIND_INT, 2);
VALUE(TENON_KIND_FLOAT, 3);
VALUE(TENON_KIND_BOOL, 4);
VALUE(TENON_KIND_STR, 5);
VALUE(TENON_KIND_ENUM, 6);
VALUE(TENON_KIND_INTS, 7);
VALUE(TENON_KIND_FLOATS, 8);
VALUE(TENON_KIND_TENSORS, 9);
VALUE(TENON_KIND_HANDLE, 10);
VALUE(TENON_KIND_COMPLEX, 11);
VALUE(TENON_KIND_UINT, 12);
VALUE(TENON_KIND_BYTES, 13);
VALUE(TENON_KIND_STRS, 14);
VALUE(TENON_KIND_DTYPE, 15);
VALUE(TENON_KIND_CALLABLE, 16);

VALUE(TENON_NAME_ARG, 0);
VALUE(TENON_NAME_RESULT, 1);
VALUE(TENON_NAME_DIM, 2);
VALUE(TENON_NAME_TYPE, 3);

VALUE(TENON_VALUE_DEFAULT, 1);
VALUE(TENON_VALUE_UNSET, 2);
VALUE(TENON_CALL_FAILED, 1);
VALUE(TENON_CALL_UNLOCKED, 2);
VALUE(TENON_CALL_SHAPE_ONLY, 4);
VALUE(TENON_RELEASE_LOCK, 1);
VALUE(TENON_CAPTURABLE, 8);
VALUE(TENON_KEEP_LOCK, 2);
VALUE(TENON_NO_GRAD_CHECK, 4);
VALUE(TENON_CAPTURABLE, 8);
VALUE(TENON_CLASS_CONCURRENT, 16);

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

SIZE(tenon_blob, 88);
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
FIELD(tenon_blob, stream, 80, 8);

SIZE(tenon_allocator, 24);
FIELD(tenon_allocator, alloc, 0, 8);
FIELD(tenon_allocator, free, 8, 8);
FIELD(tenon_allocator, context, 16, 8);

SIZE(tenon_deferred_node, 24);
FIELD(tenon_deferred_node, next, 0, 8);
FIELD(tenon_deferred_node, release, 8, 8);
FIELD(tenon_deferred_node, owner, 16, 8);
SIZE(tenon_deferred, 8);

SIZE(tenon_value, 32);
FIELD(tenon_value, kind, 0, 4);
FIELD(tenon_value, flags, 4, 4);
FIELD(tenon_value, as, 8, 16);
FIELD(tenon_value, as.view, 8, 8);
FIELD(tenon_value, as.integer, 8, 8);
FIELD(tenon_value, as.number, 8, 8);
FIELD(tenon_value, as.parts, 8, 16);
FIELD(tenon_value, as.list.data, 8, 8);
FIELD(tenon_value, as.list.length, 16, 8);
FIELD(tenon_value, as.handle.object, 8, 8);
FIELD(tenon_value, as.handle.type, 16, 8);
FIELD(tenon_value, as.dtype, 8, 4);
FIELD(tenon_value, reserved, 24, 8);

SIZE(tenon_call, 112);
FIELD(tenon_call, size, 0, 4);
FIELD(tenon_call, minor, 4, 4);
FIELD(tenon_call, host, 8, 8);
FIELD(tenon_call, function, 16, 8);
FIELD(tenon_call, state, 24, 8);
FIELD(tenon_call, args, 32, 8);
FIELD(tenon_call, results, 40, 8);
FIELD(tenon_call, nargs, 48, 4);
FIELD(tenon_call, nresults, 52, 4);
FIELD(tenon_call, dims, 56, 8);
FIELD(tenon_call, types, 64, 8);
FIELD(tenon_call, ndims, 72, 4);
FIELD(tenon_call, ntypes, 76, 4);
FIELD(tenon_call, device, 80, 8);
FIELD(tenon_call, stream, 88, 8);
FIELD(tenon_call, flags, 96, 4);
FIELD(tenon_call, reserved, 100, 4);
FIELD(tenon_call, host_private, 104, 8);

SIZE(tenon_text, 16);
FIELD(tenon_text, data, 0, 8);
FIELD(tenon_text, length, 8, 8);

SIZE(tenon_kept, 24);
FIELD(tenon_kept, size, 0, 4);
FIELD(tenon_kept, reserved, 4, 4);
FIELD(tenon_kept, view, 8, 8);
FIELD(tenon_kept, release, 16, 8);

SIZE(tenon_host, 144);
FIELD(tenon_host, size, 0, 4);
FIELD(tenon_host, minor, 4, 4);
FIELD(tenon_host, name, 8, 8);
FIELD(tenon_host, fail, 16, 8);
FIELD(tenon_host, result_alloc, 24, 8);
FIELD(tenon_host, result_handle, 32, 8);
FIELD(tenon_host, result_str, 40, 8);
FIELD(tenon_host, scratch, 48, 8);
FIELD(tenon_host, cancelled, 56, 8);
FIELD(tenon_host, extension, 64, 8);
FIELD(tenon_host, find, 72, 8);
FIELD(tenon_host, arg_keep, 80, 8);
FIELD(tenon_host, result_memory, 88, 8);
FIELD(tenon_host, result_bytes, 96, 8);
FIELD(tenon_host, result_list, 104, 8);
FIELD(tenon_host, parallel, 112, 8);
FIELD(tenon_host, result_push, 120, 8);
FIELD(tenon_host, callback, 128, 8);
FIELD(tenon_host, for_each, 136, 8);

SIZE(tenon_function, 64);
FIELD(tenon_function, signature, 0, 8);
FIELD(tenon_function, doc, 8, 8);
FIELD(tenon_function, call, 16, 8);
FIELD(tenon_function, shape, 24, 8);
FIELD(tenon_function, data, 32, 8);
FIELD(tenon_function, flags, 40, 8);
FIELD(tenon_function, reserved, 48, 16);

SIZE(tenon_module, 88);
FIELD(tenon_module, magic, 0, 8);
FIELD(tenon_module, major, 8, 4);
FIELD(tenon_module, minor_needed, 12, 4);
FIELD(tenon_module, size, 16, 4);
FIELD(tenon_module, function_size, 20, 4);
FIELD(tenon_module, nfunctions, 24, 8);
FIELD(tenon_module, functions, 32, 8);
FIELD(tenon_module, name, 40, 8);
FIELD(tenon_module, doc, 48, 8);
FIELD(tenon_module, version, 56, 8);
FIELD(tenon_module, load, 64, 8);
FIELD(tenon_module, unload, 72, 8);
FIELD(tenon_module, flags, 80, 8);
#endif

/* -------------------------------------------------------------------------------------------- the official header */

#ifdef TENON_OFFICIAL_DLPACK
#include "headers/dlpack_compare.h"
#endif

int main(void)
{
    return 0;
}
