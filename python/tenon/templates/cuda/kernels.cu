/* The functions of NAME. `python -m tenon docs` prints the folder of the grammar of their signatures. */
#define TENON_MODULE_VERSION "0.1.0"
#include <tenon/function.h>

static __global__ void saxpy_kernel(float a, const float *x, const float *y, float *z, int64_t n)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = a * x[i] + y[i];
}

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    const float *x = tenon_data(call, 1, float);
    const float *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float); /* already allocated, in the caller's framework */
    int64_t n = tenon_dim(call, 0);

    if (n) /* the caller's stream orders this after the work that makes x and y */
        saxpy_kernel<<<(unsigned)((n + 255) / 256), 256, 0, (cudaStream_t)tenon_stream(call)>>>(a, x, y, z, n);
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? TENON_OK : tenon_fail(call, TENON_EFAILED, "CUDA: %s", cudaGetErrorString(error));
}

TENON_MODULE(NAME, "Functions written once.",
             TENON_FUNCTION("saxpy(a: float, x: f32[n] c cuda, y: f32[n] c cuda) -> f32[n]", saxpy, "Returns a*x + y."))
