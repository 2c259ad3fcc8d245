/* A plain C library, with pointers and a length. */
#include <stddef.h>

void saxpy(float a, const float *x, const float *y, float *z, size_t n)
{
    for (size_t i = 0; i < n; i++)
        z[i] = a * x[i] + y[i];
}

double dot(const float *x, const float *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * y[i];
    return sum;
}
