# cython: language_level=3, boundscheck=False, wraparound=False
# dot once more, with the lock let go while it computes.

def dot(const float[::1] x, const float[::1] y):
    if x.shape[0] != y.shape[0]:
        raise ValueError("x and y differ in length")
    cdef double total = 0
    cdef Py_ssize_t i
    with nogil:
        for i in range(x.shape[0]):
            total += <double>x[i] * y[i]
    return total
