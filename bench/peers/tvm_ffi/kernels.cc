// The extension that every peer writes: saxpy and dot on f32 vectors of one length.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;

static void check(ffi::TensorView x, ffi::TensorView y)
{
    for (ffi::TensorView v : {x, y}) {
        TVM_FFI_CHECK(v.device().device_type == kDLCPU, ValueError) << "expected memory of the CPU";
        TVM_FFI_CHECK((v.dtype() == DLDataType{kDLFloat, 32, 1}), TypeError) << "expected float32";
        TVM_FFI_CHECK(v.ndim() == 1 && v.IsContiguous(), ValueError) << "expected one dimension without gaps";
    }
    TVM_FFI_CHECK(x.size(0) == y.size(0), ValueError) << "x and y differ in length";
}

static ffi::Tensor saxpy(double a, ffi::TensorView x, ffi::TensorView y)
{
    check(x, y);
    ffi::Tensor z = ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
    auto from_x = static_cast<const float *>(x.data_ptr()), from_y = static_cast<const float *>(y.data_ptr());
    auto to = static_cast<float *>(z.data_ptr());
    for (int64_t i = 0; i < x.size(0); i++)
        to[i] = static_cast<float>(a) * from_x[i] + from_y[i];
    return z;
}

// For frameworks without an allocator (NumPy), the caller allocates the result.
static void saxpy_into(double a, ffi::TensorView x, ffi::TensorView y, ffi::TensorView z)
{
    check(x, y);
    check(x, z);
    auto from_x = static_cast<const float *>(x.data_ptr()), from_y = static_cast<const float *>(y.data_ptr());
    auto to = static_cast<float *>(z.data_ptr());
    for (int64_t i = 0; i < x.size(0); i++)
        to[i] = static_cast<float>(a) * from_x[i] + from_y[i];
}

static double dot(ffi::TensorView x, ffi::TensorView y)
{
    check(x, y);
    auto from_x = static_cast<const float *>(x.data_ptr()), from_y = static_cast<const float *>(y.data_ptr());
    double sum = 0;
    for (int64_t i = 0; i < x.size(0); i++)
        sum += static_cast<double>(from_x[i]) * from_y[i];
    return sum;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(saxpy, saxpy);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(saxpy_into, saxpy_into);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(dot, dot);
