# cython: language_level=3
# Typed memoryviews, as Cython's documentation shows them.
import numpy as np

cdef extern from *:
    """
    static void look(const void *data) { const void *volatile seen = data; (void)seen; }
    """
    void look(const void *data) noexcept nogil

def borrow(const float[:, ::1] a):
    look(&a[0, 0])

def borrow3(const float[:, ::1] a, const float[:, ::1] b, const float[:, ::1] c):
    look(&a[0, 0])
    look(&b[0, 0])
    look(&c[0, 0])

def make():
    return np.empty((2, 3), dtype=np.float32)
