"""saxpy for torch, which accepts the capsule, and for NumPy, which does not, so the caller allocates the memory."""
import numpy as np
import torch
from pyo3_dlpack_kernels import dot, saxpy, saxpy_into


def saxpy_torch(a, x, y):
    return torch.from_dlpack(saxpy(a, x, y))


def saxpy_numpy(a, x, y):
    z = np.empty_like(x)
    saxpy_into(a, x, y, z)
    return z
