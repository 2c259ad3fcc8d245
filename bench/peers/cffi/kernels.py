"""The extension that every peer writes: saxpy and dot on f32 vectors of one length."""
import numpy as np
from bench_cffi import ffi, lib


def check(x, y):
    for v in (x, y):
        if not isinstance(v, np.ndarray) or v.dtype != np.float32:
            raise TypeError("expected a float32 array")
        if v.ndim != 1 or not v.flags.c_contiguous:
            raise ValueError("expected one dimension without gaps")
    if len(x) != len(y):
        raise ValueError("x and y differ in length")


def saxpy(a, x, y):
    check(x, y)
    z = np.empty_like(x)
    lib.saxpy(a, ffi.from_buffer("float[]", x), ffi.from_buffer("float[]", y), ffi.from_buffer("float[]", z), len(x))
    return z


def dot(x, y):
    check(x, y)
    return lib.dot(ffi.from_buffer("float[]", x), ffi.from_buffer("float[]", y), len(x))
