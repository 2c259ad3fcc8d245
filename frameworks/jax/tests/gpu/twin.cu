// saxpy written with XLA's C++ headers, for the comparison in run.py.
#include "saxpy.cuh"
#include <xla/ffi/api/ffi.h>

namespace ffi = xla::ffi;

static ffi::Error saxpy(cudaStream_t stream, double a, ffi::Buffer<ffi::F32, 1> x, ffi::Buffer<ffi::F32, 1> y,
                        ffi::ResultBuffer<ffi::F32, 1> z)
{
    if (x.element_count() != y.element_count() || x.element_count() != z->element_count())
        return ffi::Error::InvalidArgument("the lengths differ");
    launch_saxpy(stream, (int64_t)x.element_count(), (float)a, x.typed_data(), y.typed_data(), z->typed_data());
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? ffi::Error::Success() : ffi::Error::Internal(cudaGetErrorString(error));
}

static auto binding()
{
    return ffi::Ffi::Bind()
        .Ctx<ffi::PlatformStream<cudaStream_t>>()
        .Attr<double>("a")
        .Arg<ffi::Buffer<ffi::F32, 1>>()
        .Arg<ffi::Buffer<ffi::F32, 1>>()
        .Ret<ffi::Buffer<ffi::F32, 1>>();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(twin_saxpy, saxpy, binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(twin_saxpy_captured, saxpy, binding(), {ffi::Traits::kCmdBufferCompatible});
