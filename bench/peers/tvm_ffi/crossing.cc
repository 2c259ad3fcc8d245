// tvm-ffi: TensorView is its form that owns nothing, Tensor the one that does.
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;

static void look(ffi::TensorView a)
{
    volatile const void *data = a.data_ptr();
    (void)data;
}

static void borrow(ffi::TensorView a) { look(a); }
static void borrow2(ffi::TensorView a, ffi::TensorView b) { look(a), look(b); }
static void borrow3(ffi::TensorView a, ffi::TensorView b, ffi::TensorView c) { look(a), look(b), look(c); }
static void owned(ffi::Tensor a) { look(a); }
static ffi::Tensor through(ffi::Tensor a) { return a; }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(borrow, borrow);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(borrow2, borrow2);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(borrow3, borrow3);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(owned, owned);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(through, through);
