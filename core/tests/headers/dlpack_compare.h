/* Our declarations of the DLPack ABI against the official ones. Whatever differs does not compile. */
#include <stddef.h>

#ifdef __cplusplus
#define CHECK(condition) static_assert(condition, #condition)
#else
#define CHECK(condition) _Static_assert(condition, #condition)
#endif

#define SAME_SIZE(ours, theirs) CHECK(sizeof(ours) == sizeof(theirs))
#define SAME_FIELD2(ours, a, theirs, b)                                                                                \
    CHECK(offsetof(ours, a) == offsetof(theirs, b));                                                                   \
    CHECK(sizeof(((ours *)0)->a) == sizeof(((theirs *)0)->b))
#define SAME_FIELD(ours, theirs, field) SAME_FIELD2(ours, field, theirs, field)
#define SAME_VALUE(ours, theirs)        CHECK((unsigned long long)(ours) == (unsigned long long)(theirs))

SAME_VALUE(TENON_DL_MAJOR, DLPACK_MAJOR_VERSION);

SAME_SIZE(tenon_dl_version, DLPackVersion);
SAME_FIELD(tenon_dl_version, DLPackVersion, major);
SAME_FIELD(tenon_dl_version, DLPackVersion, minor);

SAME_SIZE(tenon_device, DLDevice);
SAME_FIELD(tenon_device, DLDevice, device_type);
SAME_FIELD(tenon_device, DLDevice, device_id);

SAME_SIZE(tenon_dtype, DLDataType);
SAME_FIELD(tenon_dtype, DLDataType, code);
SAME_FIELD(tenon_dtype, DLDataType, bits);
SAME_FIELD(tenon_dtype, DLDataType, lanes);

SAME_SIZE(tenon_dl_tensor, DLTensor);
SAME_FIELD(tenon_dl_tensor, DLTensor, data);
SAME_FIELD(tenon_dl_tensor, DLTensor, device);
SAME_FIELD(tenon_dl_tensor, DLTensor, ndim);
SAME_FIELD(tenon_dl_tensor, DLTensor, dtype);
SAME_FIELD(tenon_dl_tensor, DLTensor, shape);
SAME_FIELD(tenon_dl_tensor, DLTensor, strides);
SAME_FIELD(tenon_dl_tensor, DLTensor, byte_offset);

CHECK(sizeof(DLTensor) == offsetof(tenon_view, flags));
SAME_FIELD(tenon_view, DLTensor, data);
SAME_FIELD(tenon_view, DLTensor, device);
SAME_FIELD(tenon_view, DLTensor, ndim);
SAME_FIELD(tenon_view, DLTensor, dtype);
SAME_FIELD(tenon_view, DLTensor, shape);
SAME_FIELD(tenon_view, DLTensor, strides);
SAME_FIELD(tenon_view, DLTensor, byte_offset);

SAME_SIZE(tenon_dl_managed_legacy, DLManagedTensor);
SAME_FIELD(tenon_dl_managed_legacy, DLManagedTensor, dl_tensor);
SAME_FIELD(tenon_dl_managed_legacy, DLManagedTensor, manager_ctx);
SAME_FIELD(tenon_dl_managed_legacy, DLManagedTensor, deleter);

SAME_SIZE(tenon_dl_managed, DLManagedTensorVersioned);
SAME_FIELD(tenon_dl_managed, DLManagedTensorVersioned, version);
SAME_FIELD(tenon_dl_managed, DLManagedTensorVersioned, manager_ctx);
SAME_FIELD(tenon_dl_managed, DLManagedTensorVersioned, deleter);
SAME_FIELD(tenon_dl_managed, DLManagedTensorVersioned, flags);
SAME_FIELD(tenon_dl_managed, DLManagedTensorVersioned, dl_tensor);

SAME_VALUE(TENON_READ_ONLY, DLPACK_FLAG_BITMASK_READ_ONLY);
SAME_VALUE(TENON_IS_COPIED, DLPACK_FLAG_BITMASK_IS_COPIED);
SAME_VALUE(TENON_SUBBYTE_PADDED, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);

SAME_VALUE(TENON_CODE_INT, kDLInt);
SAME_VALUE(TENON_CODE_UINT, kDLUInt);
SAME_VALUE(TENON_CODE_FLOAT, kDLFloat);
SAME_VALUE(TENON_CODE_OPAQUE, kDLOpaqueHandle);
SAME_VALUE(TENON_CODE_BFLOAT, kDLBfloat);
SAME_VALUE(TENON_CODE_COMPLEX, kDLComplex);
SAME_VALUE(TENON_CODE_BOOL, kDLBool);
SAME_VALUE(TENON_CODE_F8_E3M4, kDLFloat8_e3m4);
SAME_VALUE(TENON_CODE_F8_E4M3, kDLFloat8_e4m3);
SAME_VALUE(TENON_CODE_F8_E4M3B11FNUZ, kDLFloat8_e4m3b11fnuz);
SAME_VALUE(TENON_CODE_F8_E4M3FN, kDLFloat8_e4m3fn);
SAME_VALUE(TENON_CODE_F8_E4M3FNUZ, kDLFloat8_e4m3fnuz);
SAME_VALUE(TENON_CODE_F8_E5M2, kDLFloat8_e5m2);
SAME_VALUE(TENON_CODE_F8_E5M2FNUZ, kDLFloat8_e5m2fnuz);
SAME_VALUE(TENON_CODE_F8_E8M0FNU, kDLFloat8_e8m0fnu);
SAME_VALUE(TENON_CODE_F6_E2M3FN, kDLFloat6_e2m3fn);
SAME_VALUE(TENON_CODE_F6_E3M2FN, kDLFloat6_e3m2fn);
SAME_VALUE(TENON_CODE_F4_E2M1FN, kDLFloat4_e2m1fn);

SAME_VALUE(TENON_CPU, kDLCPU);
SAME_VALUE(TENON_CUDA, kDLCUDA);
SAME_VALUE(TENON_CUDA_HOST, kDLCUDAHost);
SAME_VALUE(TENON_OPENCL, kDLOpenCL);
SAME_VALUE(TENON_VULKAN, kDLVulkan);
SAME_VALUE(TENON_METAL, kDLMetal);
SAME_VALUE(TENON_VPI, kDLVPI);
SAME_VALUE(TENON_ROCM, kDLROCM);
SAME_VALUE(TENON_ROCM_HOST, kDLROCMHost);
SAME_VALUE(TENON_EXT_DEV, kDLExtDev);
SAME_VALUE(TENON_CUDA_MANAGED, kDLCUDAManaged);
SAME_VALUE(TENON_ONEAPI, kDLOneAPI);
SAME_VALUE(TENON_WEBGPU, kDLWebGPU);
SAME_VALUE(TENON_HEXAGON, kDLHexagon);
SAME_VALUE(TENON_MAIA, kDLMAIA);
SAME_VALUE(TENON_TRAINIUM, kDLTrn);

/* The exchange table came with DLPack 1.2; older packages ship older headers. */
#if DLPACK_MINOR_VERSION >= 2
SAME_SIZE(tenon_dl_exchange_header, DLPackExchangeAPIHeader);
SAME_FIELD(tenon_dl_exchange_header, DLPackExchangeAPIHeader, version);
SAME_FIELD(tenon_dl_exchange_header, DLPackExchangeAPIHeader, prev_api);

SAME_SIZE(tenon_dl_exchange, DLPackExchangeAPI);
SAME_FIELD(tenon_dl_exchange, DLPackExchangeAPI, header);
SAME_FIELD(tenon_dl_exchange, DLPackExchangeAPI, managed_tensor_allocator);
SAME_FIELD(tenon_dl_exchange, DLPackExchangeAPI, managed_tensor_from_py_object_no_sync);
SAME_FIELD(tenon_dl_exchange, DLPackExchangeAPI, managed_tensor_to_py_object_no_sync);
SAME_FIELD(tenon_dl_exchange, DLPackExchangeAPI, dltensor_from_py_object_no_sync);
SAME_FIELD(tenon_dl_exchange, DLPackExchangeAPI, current_work_stream);
#endif
