// A torch operator on the GPU, in bf16; kernels.c has the same for the CPU.
//
//   nvcc -O3 -shared -Xcompiler -fPIC $(python -m tenon cflags) kernels.cu -o kernels.so
#include "rms_norm.cuh"
#include <tenon/function.h>

using bf16 = __nv_bfloat16;

static tenon_status launched(tenon_call *call)
{
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? TENON_OK : tenon_fail(call, TENON_EFAILED, "CUDA: %s", cudaGetErrorString(error));
}

static tenon_status rms_norm(tenon_call *call)
{
    const bf16 *x = tenon_data(call, 0, bf16), *weight = tenon_data(call, 1, bf16);
    float eps = (float)tenon_arg_double(call, 2);
    bf16 *y = tenon_result_data(call, 0, bf16);
    int64_t n = tenon_dim(call, 0), k = tenon_dim(call, 1);
    if (n && k)
        rms_norm_kernel<<<n, RMS_THREADS, 0, (cudaStream_t)tenon_stream(call)>>>(x, weight, eps, y, k);
    return launched(call);
}

static tenon_status rms_norm_grad(tenon_call *call)
{
    const bf16 *dy = tenon_data(call, 0, bf16), *x = tenon_data(call, 1, bf16), *weight = tenon_data(call, 2, bf16);
    float eps = (float)tenon_arg_double(call, 3);
    bf16 *dx = tenon_result_data(call, 0, bf16), *dweight = tenon_result_data(call, 1, bf16);
    int64_t n = tenon_dim(call, 0), k = tenon_dim(call, 1);
    cudaStream_t stream = (cudaStream_t)tenon_stream(call);
    float *sums = (float *)tenon_scratch(call, (size_t)(RMS_BLOCKS * k) * sizeof(float));
    if (!sums || !k)
        return sums ? TENON_OK : TENON_EFAILED;
    rms_norm_grad_kernel<<<RMS_BLOCKS, RMS_THREADS, 0, stream>>>(dy, x, weight, eps, dx, sums, n, k);
    rms_norm_sum_kernel<<<(k + RMS_THREADS - 1) / RMS_THREADS, RMS_THREADS, 0, stream>>>(sums, dweight, k);
    return launched(call);
}

TENON_MODULE(kernels, "RMS normalisation in bf16.",
             TENON_FUNCTION("rms_norm(x: bf16[n, k] c cuda, weight: bf16[k]? c cuda, eps: float = 1e-6) -> bf16[n, k]",
                            rms_norm, "Divides each row of x by the root of its mean square."),
             TENON_FUNCTION("rms_norm_grad(dy: bf16[n, k] c cuda, x: bf16[n, k] c cuda, weight: bf16[k]? c cuda,"
                            " eps: float = 1e-6) -> dx: bf16[n, k], dweight: bf16[k]",
                            rms_norm_grad, "Returns the gradients of x and weight of rms_norm."))
