// Functions of a library that runs on the GPU: compiled by nvcc, linked with nothing of ours.
#include <tenon/function.h>

#include <cuda_bf16.h>

__global__ void saxpy_kernel(int64_t n, float a, const float *x, const float *y, float *z)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = a * x[i] + y[i];
}

__global__ void wait_kernel(long long cycles)
{
    for (long long start = clock64(); clock64() - start < cycles;) {
    }
}

__global__ void double_kernel(int64_t n, __nv_bfloat16 *x)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = __float2bfloat16(2 * __bfloat162float(x[i]));
}

static unsigned blocks(int64_t n)
{
    return (unsigned)((n + 255) / 256);
}

static tenon_status launched(tenon_call *call)
{
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? TENON_OK : tenon_fail(call, TENON_EFAILED, "CUDA: %s", cudaGetErrorString(error));
}

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    const float *x = tenon_data(call, 1, float), *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float);
    int64_t n = tenon_dim(call, 0);
    saxpy_kernel<<<blocks(n), 256, 0, (cudaStream_t)tenon_stream(call)>>>(n, a, x, y, z);
    return launched(call);
}

static tenon_status twice(tenon_call *call)
{
    __nv_bfloat16 *x = tenon_rw_data(call, 0, __nv_bfloat16);
    int64_t n = tenon_dim(call, 0);
    double_kernel<<<blocks(n), 256, 0, (cudaStream_t)tenon_stream(call)>>>(n, x);
    return launched(call);
}

/* Through scratch memory, after a kernel that takes a while: what was given back too early would be seen. */
static tenon_status slow_copy(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    float *z = tenon_result_data(call, 0, float);
    int64_t n = tenon_dim(call, 0);
    cudaStream_t stream = (cudaStream_t)tenon_stream(call);
    void *room = tenon_scratch(call, (size_t)n * sizeof(float));
    if (!room)
        return TENON_EFAILED;
    cudaMemcpyAsync(room, x, (size_t)n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
    wait_kernel<<<1, 1, 0, stream>>>(tenon_arg_int(call, 1));
    cudaMemcpyAsync(z, room, (size_t)n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
    return launched(call);
}

static tenon_status where(tenon_call *call)
{
    tenon_return_int(call, 0, call->device.device_type);
    tenon_return_int(call, 1, call->device.device_id);
    tenon_return_int(call, 2, (int64_t)(intptr_t)call->stream);
    return TENON_OK;
}

static tenon_status first(tenon_call *call)
{
    tenon_return_double(call, 0, *tenon_data(call, 0, float));
    return TENON_OK;
}

TENON_MODULE(gpu, "Functions on the GPU.",
             TENON_FUNCTION("saxpy(a: float, x: f32[n] c cuda, y: f32[n] c cuda) -> f32[n]", saxpy, "a*x + y"),
             TENON_FUNCTION("twice(x: bf16[n] c rw cuda)", twice, "x *= 2"),
             TENON_FUNCTION("slow_copy(x: f32[n] c cuda, cycles: int = 0) -> f32[n]", slow_copy, "A copy, later."),
             TENON_FUNCTION("where(x: any[*b] anywhere) -> type: int, id: int, stream: int", where, "Where it runs."),
             TENON_FUNCTION("first(x: f32[n]) -> float", first, "On the CPU."))
