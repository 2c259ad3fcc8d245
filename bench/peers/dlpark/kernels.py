"""saxpy for NumPy, which has no exchange table that could make an array, so the caller allocates the memory."""
import numpy as np
from dlpark_kernels import dot, dot_view, saxpy, saxpy_into


def saxpy_numpy(a, x, y):
    z = np.empty_like(x)
    saxpy_into(a, x, y, z)
    return z
