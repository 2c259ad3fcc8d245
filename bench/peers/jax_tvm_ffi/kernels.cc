// saxpy as an operator of JAX: the caller gives the memory of the result.
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;

static void check(ffi::TensorView v, int64_t size)
{
    TVM_FFI_CHECK(v.device().device_type == kDLCPU, ValueError) << "expected memory of the CPU";
    TVM_FFI_CHECK((v.dtype() == DLDataType{kDLFloat, 32, 1}), TypeError) << "expected float32";
    TVM_FFI_CHECK(v.ndim() == 1 && v.IsContiguous(), ValueError) << "expected one dimension without gaps";
    TVM_FFI_CHECK(v.size(0) == size, ValueError) << "the lengths differ";
}

static void saxpy(double a, ffi::TensorView x, ffi::TensorView y, ffi::TensorView z)
{
    TVM_FFI_CHECK(x.ndim() == 1, ValueError) << "expected one dimension";
    for (ffi::TensorView v : {x, y, z})
        check(v, x.size(0));
    auto from_x = static_cast<const float *>(x.data_ptr()), from_y = static_cast<const float *>(y.data_ptr());
    auto to = static_cast<float *>(z.data_ptr());
    for (int64_t i = 0; i < x.size(0); i++)
        to[i] = static_cast<float>(a) * from_x[i] + from_y[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(saxpy, saxpy);
