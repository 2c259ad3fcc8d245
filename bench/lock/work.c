/* The same work with the lock kept and with the lock released: a sum whose time grows with the memory. */
#include <tenon/function.h>

static tenon_status total(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t n = tenon_dim(call, 0);
    float sum[16] = {0};
    for (int64_t i = 0; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++)
            sum[k] += x[i + k];
    double all = 0;
    for (int k = 0; k < 16; k++)
        all += (double)sum[k];
    tenon_return_double(call, 0, all);
    return TENON_OK;
}

TENON_MODULE(work, "Work of some length.",
             TENON_FUNCTION_FLAGS("kept(x: f32[n] c) -> float", total, "With the lock.", TENON_KEEP_LOCK),
             TENON_FUNCTION_FLAGS("released(x: f32[n] c) -> float", total, "Without it.", TENON_RELEASE_LOCK))
