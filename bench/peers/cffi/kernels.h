// What cffi's cdef is told of kernels.c.
void saxpy(float a, const float *x, const float *y, float *z, size_t n);
double dot(const float *x, const float *y, size_t n);
