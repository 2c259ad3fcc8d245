# cython: language_level=3
# Typed memoryviews, as Cython's documentation shows them.

def borrow(const float[:, ::1] a):
    cdef const float *data = &a[0, 0]

def borrow3(const float[:, ::1] a, const float[:, ::1] b, const float[:, ::1] c):
    cdef const float *data = &a[0, 0]
