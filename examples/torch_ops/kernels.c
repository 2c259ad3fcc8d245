/* A torch operator in plain C: RMS normalisation with an optional weight, and its gradient.
 *
 *   cc -O3 -shared -fPIC $(python -m tenon cflags) kernels.c -o kernels.so -lm
 *
 *   ops = tenon.torch_ops(tenon.load("kernels.so"), name="example", backward={"rms_norm": "rms_norm_grad"})
 *   ops.rms_norm(x, weight)          # torch.compile works too; kernels.cu is the same for a GPU */
#include <math.h>
#include <string.h>
#include <tenon/function.h>

/* 1 / the root of the mean square of a row */
static double inverse_rms(const float *x, int64_t k, double eps)
{
    double sum = 0;
    for (int64_t j = 0; j < k; j++)
        sum += (double)x[j] * x[j];
    return 1 / sqrt(sum / (double)k + eps);
}

static tenon_status rms_norm(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    const float *weight = tenon_data(call, 1, float); /* NULL if it was not given */
    double eps = tenon_arg_double(call, 2);
    float *y = tenon_result_data(call, 0, float);
    int64_t n = tenon_dim(call, 0), k = tenon_dim(call, 1);

    for (int64_t i = 0; i < n; i++) {
        double r = inverse_rms(x + i * k, k, eps);
        for (int64_t j = 0; j < k; j++)
            y[i * k + j] = (float)(r * x[i * k + j] * (weight ? weight[j] : 1));
    }
    return TENON_OK;
}

static tenon_status rms_norm_grad(tenon_call *call)
{
    const float *dy = tenon_data(call, 0, float);
    const float *x = tenon_data(call, 1, float);
    const float *weight = tenon_data(call, 2, float);
    double eps = tenon_arg_double(call, 3);
    float *dx = tenon_result_data(call, 0, float);
    float *dweight = tenon_result_data(call, 1, float);
    int64_t n = tenon_dim(call, 0), k = tenon_dim(call, 1);
    double *sums = tenon_scratch(call, (size_t)k * sizeof(double)); /* a float would lose precision */

    if (!sums)
        return TENON_EFAILED;
    memset(sums, 0, (size_t)k * sizeof(double));
    for (int64_t i = 0; i < n; i++, dy += k, x += k, dx += k) {
        double r = inverse_rms(x, k, eps), dot = 0;
        for (int64_t j = 0; j < k; j++) {
            dot += (double)dy[j] * x[j] * (weight ? weight[j] : 1);
            sums[j] += r * dy[j] * x[j];
        }
        for (int64_t j = 0; j < k; j++)
            dx[j] = (float)(r * (dy[j] * (weight ? weight[j] : 1) - x[j] * r * r * dot / (double)k));
    }
    for (int64_t j = 0; j < k; j++)
        dweight[j] = (float)sums[j];
    return TENON_OK;
}

TENON_MODULE(kernels, "RMS normalisation.",
             TENON_FUNCTION("rms_norm(x: f32[n, k] c, weight: f32[k]? c, eps: float = 1e-6) -> f32[n, k]", rms_norm,
                            "Divides each row of x by the root of its mean square."),
             TENON_FUNCTION("rms_norm_grad(dy: f32[n, k] c, x: f32[n, k] c, weight: f32[k]? c, eps: float = 1e-6)"
                            " -> dx: f32[n, k], dweight: f32[k]",
                            rms_norm_grad, "Returns the gradients of x and weight of rms_norm."))
