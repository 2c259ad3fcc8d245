/* The loops of tenon/more.c on raw pointers: called with an address, a number of elements and a step, by ctypes. */
#include <stdint.h>

#define LOOPS(name, T, SUM)                                                                                            \
    double dense_##name(const T *x, int64_t n)                                                                         \
    {                                                                                                                  \
        SUM sum = 0;                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            sum += x[i];                                                                                               \
        return (double)sum;                                                                                            \
    }                                                                                                                  \
    double strided_##name(const T *x, int64_t n, int64_t step)                                                         \
    {                                                                                                                  \
        SUM sum = 0;                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            sum += x[i * step];                                                                                        \
        return (double)sum;                                                                                            \
    }
LOOPS(f32, float, float)
LOOPS(i64, int64_t, int64_t)
LOOPS(u8, uint8_t, uint64_t)
