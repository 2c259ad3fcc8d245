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

/* A run of rows. Rows whose numbers are not next to each other are copied to their result first. */
static tenon_status some_rows(void *context, void *const *data, const int64_t *steps, int64_t count)
{
    const tenon_view *view = context;
    int64_t n = view->shape[view->ndim - 1], stride = view->strides[view->ndim - 1];
    for (int64_t row = 0; row < count; row++) {
        const float *x = (const float *)data[0] + row * steps[0];
        float *y = (float *)data[1] + row * steps[1];
        for (int64_t i = 0; stride != 1 && i < n; i++)
            y[i] = x[i * stride];
        softmax_row(stride == 1 ? x : y, y, n);
    }
    return TENON_OK;
}

/* Step 2: a batch of rows, with any number of dimensions and any strides, and a loop that the compiler vectorises. */
static tenon_status batch(tenon_call *call)
{
    return tenon_for_each(call, INT64_MAX, some_rows, (void *)(uintptr_t)tenon_arg(call, 0));
}

/* Step 3: on all cores. Step 4 is this one, compiled for newer CPUs too. */
static tenon_status parallel(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    return tenon_for_each(call, 1 + 20000 / (x->shape[x->ndim - 1] + 1), some_rows, (void *)(uintptr_t)x);
}

TENON_MODULE(softmax, "softmax over the last axis.",
             TENON_FUNCTION_FLAGS("naive(x: f32[rows, n] c) -> f32[rows, n] where n >= 1", naive, "A plain loop.",
                                  TENON_RELEASE_LOCK),
             TENON_FUNCTION_FLAGS("batch(x: f32[**b, n]) -> f32[**b, n] where n >= 1", batch, "One core.",
                                  TENON_RELEASE_LOCK),
             TENON_FUNCTION_FLAGS("parallel(x: f32[**b, n]) -> f32[**b, n] where n >= 1", parallel, "All cores.",
                                  TENON_RELEASE_LOCK))
