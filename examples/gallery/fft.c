/* The spectrum of a sound: a fast Fourier transform of n samples, n a power of two. fft.py uses it. */
#include <math.h>
#include <tenon/function.h>

/* Sorts the samples by the reversed bits of their index, which is the order in which the transform combines them. */
static void reorder(float *real, float *imag, int64_t n)
{
    for (int64_t i = 1, j = 0; i < n; i++) {
        int64_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            float sample = real[i];
            real[i] = real[j];
            real[j] = sample;
        }
    }
    for (int64_t i = 0; i < n; i++)
        imag[i] = 0;
}

static void transform(float *real, float *imag, int64_t n)
{
    reorder(real, imag, n);
    for (int64_t size = 2; size <= n; size *= 2)
        for (int64_t k = 0; k < size / 2; k++) {
            float angle = -6.2831853f * (float)k / (float)size, c = cosf(angle), s = sinf(angle);
            for (int64_t a = k; a < n; a += size) {
                int64_t b = a + size / 2;
                float r = real[b] * c - imag[b] * s, i = real[b] * s + imag[b] * c;
                real[b] = real[a] - r;
                imag[b] = imag[a] - i;
                real[a] += r;
                imag[a] += i;
            }
        }
}

static tenon_status spectrum(tenon_call *call)
{
    int64_t n = tenon_dim(call, 0);
    const float *x = tenon_data(call, 0, float);
    float *power = tenon_result_data(call, 0, float);
    if (n < 2 || (n & (n - 1)))
        return tenon_fail(call, TENON_EINVAL, "the number of samples must be a power of two, not %lld", (long long)n);
    float *real = tenon_scratch(call, 2 * (size_t)n * sizeof *real); /* freed by the host */
    if (!real)
        return TENON_EFAILED;
    for (int64_t i = 0; i < n; i++)
        real[i] = x[i];
    transform(real, real + n, n);
    for (int64_t i = 0; i <= n / 2; i++)
        power[i] = hypotf(real[i], real[n + i]);
    return TENON_OK;
}

TENON_MODULE(fft, "Fourier transforms.",
             TENON_FUNCTION("spectrum(x: f32[n] c) -> f32[n // 2 + 1]", spectrum,
                            "Returns the magnitude of each frequency, from 0 to n / 2."))
