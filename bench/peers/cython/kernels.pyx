# cython: language_level=3, boundscheck=False, wraparound=False
# The extension that every peer writes: saxpy and dot on f32 vectors of one length.
import numpy as np

def saxpy(float a, const float[::1] x, const float[::1] y):
    if x.shape[0] != y.shape[0]:
        raise ValueError("x and y differ in length")
    result = np.empty(x.shape[0], dtype=np.float32)
    cdef float[::1] z = result
    cdef Py_ssize_t i
    for i in range(x.shape[0]):
        z[i] = a * x[i] + y[i]
    return result

def dot(const float[::1] x, const float[::1] y):
    if x.shape[0] != y.shape[0]:
        raise ValueError("x and y differ in length")
    cdef double total = 0
    cdef Py_ssize_t i
    for i in range(x.shape[0]):
        total += <double>x[i] * y[i]
    return total
