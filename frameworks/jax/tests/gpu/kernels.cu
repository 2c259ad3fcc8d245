// The functions of run.py: operators of JAX on a GPU, compiled by nvcc, linked with nothing of ours.
#include "rms_norm.cuh"
#include "saxpy.cuh"
#include <tenon/function.h>

using bf16 = __nv_bfloat16;

static tenon_status launched(tenon_call *call)
{
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? TENON_OK : tenon_fail(call, TENON_EFAILED, "CUDA: %s", cudaGetErrorString(error));
}

static cudaStream_t stream_of(tenon_call *call)
{
    return (cudaStream_t)tenon_stream(call);
}

static tenon_status saxpy(tenon_call *call)
{
    launch_saxpy(stream_of(call), tenon_dim(call, 0), (float)tenon_arg_double(call, 0), tenon_data(call, 1, float),
                 tenon_data(call, 2, float), tenon_result_data(call, 0, float));
    return launched(call);
}

static tenon_status add(tenon_call *call)
{
    launch_saxpy(stream_of(call), tenon_arg(call, 0)->numel, 1, tenon_data(call, 0, float), tenon_data(call, 1, float),
                 tenon_result_data(call, 0, float));
    return launched(call);
}

static tenon_status scale(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float);
    launch_saxpy(stream_of(call), tenon_dim(call, 0), (float)tenon_arg_double(call, 1) - 1, x, x, x);
    return launched(call);
}

static tenon_status rms_norm(tenon_call *call)
{
    int64_t n = tenon_dim(call, 0), k = tenon_dim(call, 1);
    if (n && k)
        rms_norm_kernel<<<n, RMS_THREADS, 0, stream_of(call)>>>(tenon_data(call, 0, bf16), tenon_data(call, 1, bf16),
                                                                (float)tenon_arg_double(call, 2),
                                                                tenon_result_data(call, 0, bf16), k);
    return launched(call);
}

static tenon_status rms_norm_grad(tenon_call *call)
{
    int64_t n = tenon_dim(call, 0), k = tenon_dim(call, 1);
    cudaStream_t stream = stream_of(call);
    float *sums = (float *)tenon_scratch(call, (size_t)(RMS_BLOCKS * k) * sizeof(float));
    if (!sums || !k)
        return sums ? TENON_OK : TENON_EFAILED;
    rms_norm_grad_kernel<<<RMS_BLOCKS, RMS_THREADS, 0, stream>>>(
        tenon_data(call, 0, bf16), tenon_data(call, 1, bf16), tenon_data(call, 2, bf16),
        (float)tenon_arg_double(call, 3), tenon_result_data(call, 0, bf16), sums, n, k);
    rms_norm_sum_kernel<<<(k + RMS_THREADS - 1) / RMS_THREADS, RMS_THREADS, 0, stream>>>(
        sums, tenon_result_data(call, 1, bf16), k);
    return launched(call);
}

__global__ void wait_kernel(long long cycles)
{
    for (long long start = clock64(); clock64() - start < cycles;) {
    }
}

/* Through scratch memory, after a kernel that takes a while: memory that is reused too early gives a wrong result. */
static tenon_status slow_copy(tenon_call *call)
{
    size_t bytes = (size_t)tenon_dim(call, 0) * sizeof(float);
    void *room = tenon_scratch(call, bytes);
    if (!room)
        return TENON_EFAILED;
    cudaMemcpyAsync(room, tenon_data(call, 0, float), bytes, cudaMemcpyDeviceToDevice, stream_of(call));
    wait_kernel<<<1, 1, 0, stream_of(call)>>>(tenon_arg_int(call, 1));
    cudaMemcpyAsync(tenon_result_data(call, 0, float), room, bytes, cudaMemcpyDeviceToDevice, stream_of(call));
    return launched(call);
}

/* The device and the stream of the call, as numbers. */
static tenon_status where(tenon_call *call)
{
    uint64_t stream = (uint64_t)(uintptr_t)call->stream;
    uint32_t words[4] = {(uint32_t)call->device.device_type, (uint32_t)call->device.device_id, (uint32_t)stream,
                         (uint32_t)(stream >> 32)};
    cudaMemcpyAsync(tenon_result_data(call, 0, uint32_t), words, sizeof words, cudaMemcpyHostToDevice, stream_of(call));
    return launched(call);
}

static tenon_status fails(tenon_call *call)
{
    return tenon_fail(call, TENON_EFAILED, "the matrix is singular at row %d", 7);
}

static tenon_status first(tenon_call *call)
{
    *tenon_result_data(call, 0, float) = *tenon_data(call, 0, float);
    return TENON_OK;
}

#define SAXPY(name) name "(a: float, x: f32[n] c cuda, y: f32[n] c cuda) -> f32[n]"

TENON_MODULE(jax_gpu, "Operators of JAX on a GPU.", TENON_FUNCTION(SAXPY("saxpy"), saxpy, "a*x + y"),
             TENON_FUNCTION_FLAGS(SAXPY("saxpy_captured"), saxpy, "a*x + y, in CUDA graphs", TENON_CAPTURABLE),
             TENON_FUNCTION("add(x: f32[*b, n] c cuda, y: f32[*b, n] c cuda) -> f32[*b, n]", add, "x + y"),
             TENON_FUNCTION("scale(x: f32[n] c rw cuda, a: float)", scale, "x *= a"),
             TENON_FUNCTION("rms_norm(x: bf16[n, k] c cuda, weight: bf16[k]? c cuda, eps: float = 1e-6) -> bf16[n, k]",
                            rms_norm, "Divides each row of x by the root of its mean square."),
             TENON_FUNCTION("rms_norm_grad(dy: bf16[n, k] c cuda, x: bf16[n, k] c cuda, weight: bf16[k]? c cuda,"
                            " eps: float = 1e-6) -> dx: bf16[n, k], dweight: bf16[k]",
                            rms_norm_grad, "Returns the gradients of x and weight of rms_norm."),
             TENON_FUNCTION("slow_copy(x: f32[n] c cuda, cycles: int = 0) -> f32[n]", slow_copy, "A copy, later."),
             TENON_FUNCTION("where(x: f32[n] c cuda) -> u32[4]", where, "Where it runs."),
             TENON_FUNCTION("fails(x: f32[n] c cuda) -> f32[n]", fails, "Always fails."),
             TENON_FUNCTION("first(x: f32[n] c) -> f32[]", first, "On the CPU."))
