/* softmax over the last axis, from a plain loop to all cores: steps.py measures each step. */
#include <math.h>
#include <tenon/function.h>

/* exp of a number that is not positive, without a branch or a call, so that the compiler vectorises the loop around it. */
static inline float fast_exp(float x)
{
    x = x < -87.0f ? -87.0f : x;
    int32_t n = (int32_t)(x * 1.44269504f - 0.5f); /* the nearest integer */
    float r = x - (float)n * 0.693147181f, p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    int32_t bits = (n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return (p * r * r + r + 1.0f) * power;
}

static void softmax_row(const float *x, float *y, int64_t n)
{
    float largest = x[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        largest = x[i] > largest ? x[i] : largest;
    for (int64_t i = 0; i < n; i++)
        y[i] = fast_exp(x[i] - largest);
    for (int64_t i = 0; i < n; i++)
        sum += y[i];
    for (int64_t i = 0; i < n; i++)
        y[i] /= sum;
}

/* Step 1: as it is written first. */
static tenon_status naive(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    float *y = tenon_result_data(call, 0, float);
    int64_t rows = tenon_dim(call, 0), n = tenon_dim(call, 1);
    for (int64_t row = 0; row < rows; row++, x += n, y += n) {
        float largest = x[0], sum = 0;
        for (int64_t i = 1; i < n; i++)
            largest = x[i] > largest ? x[i] : largest;
        for (int64_t i = 0; i < n; i++)
            sum += y[i] = expf(x[i] - largest);
        for (int64_t i = 0; i < n; i++)
            y[i] /= sum;
    }
    return TENON_OK;
}

/* Step 2: a loop that the compiler vectorises. */
static tenon_status vectorised(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    float *y = tenon_result_data(call, 0, float);
    int64_t rows = tenon_dim(call, 0), n = tenon_dim(call, 1);
    for (int64_t row = 0; row < rows; row++)
        softmax_row(x + row * n, y + row * n, n);
    return TENON_OK;
}

typedef struct rows_loop {
    const float *x;
    float *y;
    int64_t n;
} rows_loop;

static tenon_status some_rows(void *context, int64_t begin, int64_t end)
{
    const rows_loop *l = context;
    for (int64_t row = begin; row < end; row++)
        softmax_row(l->x + row * l->n, l->y + row * l->n, l->n);
    return TENON_OK;
}

/* Step 3: on all cores. Step 4 is this one, compiled for newer CPUs too. */
static tenon_status parallel(tenon_call *call)
{
    rows_loop l = {tenon_data(call, 0, float), tenon_result_data(call, 0, float), tenon_dim(call, 1)};
    return tenon_parallel_for(call, tenon_dim(call, 0), 1 + 20000 / (l.n + 1), some_rows, &l);
}

TENON_MODULE(softmax, "softmax over the last axis.",
             TENON_FUNCTION_FLAGS("naive(x: f32[rows, n] c) -> f32[rows, n] where n >= 1", naive, "A plain loop.",
                                  TENON_RELEASE_LOCK),
             TENON_FUNCTION_FLAGS("vectorised(x: f32[rows, n] c) -> f32[rows, n] where n >= 1", vectorised, "One core.",
                                  TENON_RELEASE_LOCK),
             TENON_FUNCTION_FLAGS("parallel(x: f32[rows, n] c) -> f32[rows, n] where n >= 1", parallel, "All cores.",
                                  TENON_RELEASE_LOCK))
