"""saxpy for NumPy, for which tvm-ffi has no allocator, so the caller allocates the memory."""
import numpy as np
import tvm_ffi


def load(path):
    """(saxpy, saxpy for NumPy, dot), each looked up once: `module.name` would look it up on each call."""
    module = tvm_ffi.load_module(path)
    saxpy_into = module.saxpy_into

    def saxpy_numpy(a, x, y):
        z = np.empty_like(x)
        saxpy_into(a, x, y, z)
        return z

    return module.saxpy, saxpy_numpy, module.dot
