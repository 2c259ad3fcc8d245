// tvm-ffi: TensorView is its form that owns nothing, Tensor the one that does.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdlib>

namespace ffi = tvm::ffi;

static void look(ffi::TensorView a)
{
    const void *volatile data = a.data_ptr();
    (void)data;
}

static void borrow(ffi::TensorView a) { look(a); }
static void borrow2(ffi::TensorView a, ffi::TensorView b) { look(a), look(b); }
static void borrow3(ffi::TensorView a, ffi::TensorView b, ffi::TensorView c) { look(a), look(b), look(c); }
static void owned(ffi::Tensor a) { look(a); }
static ffi::Tensor through(ffi::Tensor a) { return a; }

// The sum of the first elements. An array owns its items.
static double firsts(ffi::Array<ffi::Tensor> xs)
{
    double sum = 0;
    for (ffi::Tensor x : xs)
        sum += *static_cast<const float *>(x.data_ptr());
    return sum;
}

// The memory and the stream on which it is ready: that of the framework whose tensor was passed.
static void stream(ffi::TensorView a)
{
    look(a);
    void *volatile current = TVMFFIEnvGetStream(a.device().device_type, a.device().device_id);
    (void)current;
}

// Memory of this extension's own, by the allocator that the caller of FromNDAlloc brings.
struct Memory {
    void AllocData(DLTensor *tensor) { tensor->data = std::malloc(ffi::GetDataSize(*tensor)); }
    void FreeData(DLTensor *tensor) { std::free(tensor->data); }
};

static ffi::Tensor make()
{
    return ffi::Tensor::FromNDAlloc(Memory(), ffi::Shape({2, 3}), DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(borrow, borrow);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(borrow2, borrow2);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(borrow3, borrow3);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(owned, owned);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(through, through);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(stream, stream);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(make, make);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(firsts, firsts);
