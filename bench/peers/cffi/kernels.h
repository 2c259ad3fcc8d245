// The declarations of kernels.c for cffi's cdef.
void saxpy(float a, const float *x, const float *y, float *z, size_t n);
double dot(const float *x, const float *y, size_t n);
