// The kernels of kernels.cu and twin.cu: RMS normalisation of bf16 rows, and its gradient.
#pragma once
#include <cstdint>
#include <cuda_bf16.h>

enum { RMS_THREADS = 256, RMS_BLOCKS = 264 }; // threads for a row; blocks that share the rows of a gradient

__device__ inline float block_sum(float value)
{
    __shared__ float sums[RMS_THREADS / 32];
    for (int offset = 16; offset; offset /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    __syncthreads(); // until all threads have read the sums of an earlier call
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0;
    for (int i = 0; i < RMS_THREADS / 32; i++)
        total += sums[i];
    return total;
}

__device__ inline float weight_at(const __nv_bfloat16 *weight, int64_t j)
{
    return weight ? __bfloat162float(weight[j]) : 1.0f;
}

__global__ void rms_norm_kernel(const __nv_bfloat16 *x, const __nv_bfloat16 *weight, float eps, __nv_bfloat16 *y,
                                int64_t k)
{
    x += blockIdx.x * k;
    y += blockIdx.x * k;
    float square = 0;
    for (int64_t j = threadIdx.x; j < k; j += RMS_THREADS)
        square += __bfloat162float(x[j]) * __bfloat162float(x[j]);
    float r = rsqrtf(block_sum(square) / (float)k + eps);
    for (int64_t j = threadIdx.x; j < k; j += RMS_THREADS)
        y[j] = __float2bfloat16(r * __bfloat162float(x[j]) * weight_at(weight, j));
}

// Each block takes every RMS_BLOCKS-th row, and adds its share of dweight to its own row of `sums`.
__global__ void rms_norm_grad_kernel(const __nv_bfloat16 *dy, const __nv_bfloat16 *x, const __nv_bfloat16 *weight,
                                     float eps, __nv_bfloat16 *dx, float *sums, int64_t n, int64_t k)
{
    sums += blockIdx.x * k;
    for (int64_t j = threadIdx.x; j < k; j += RMS_THREADS)
        sums[j] = 0;
    for (int64_t i = blockIdx.x; i < n; i += RMS_BLOCKS) {
        const __nv_bfloat16 *xi = x + i * k, *dyi = dy + i * k;
        float square = 0, dot = 0;
        for (int64_t j = threadIdx.x; j < k; j += RMS_THREADS) {
            float value = __bfloat162float(xi[j]);
            square += value * value;
            dot += value * __bfloat162float(dyi[j]) * weight_at(weight, j);
        }
        float r = rsqrtf(block_sum(square) / (float)k + eps);
        float slope = r * r * block_sum(dot) / (float)k;
        for (int64_t j = threadIdx.x; j < k; j += RMS_THREADS) {
            float value = __bfloat162float(xi[j]), grad = __bfloat162float(dyi[j]);
            dx[i * k + j] = __float2bfloat16(r * (grad * weight_at(weight, j) - value * slope));
            sums[j] += r * grad * value;
        }
    }
}

__global__ void rms_norm_sum_kernel(const float *sums, __nv_bfloat16 *dweight, int64_t k)
{
    int64_t j = blockIdx.x * (int64_t)RMS_THREADS + threadIdx.x;
    float total = 0;
    for (int i = 0; j < k && i < RMS_BLOCKS; i++)
        total += sums[i * k + j];
    if (j < k)
        dweight[j] = __float2bfloat16(total);
}
