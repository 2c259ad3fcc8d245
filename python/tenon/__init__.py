"""One C function, every tensor in the process.

    kernels = tenon.load("kernels.so")
    kernels.saxpy(2.0, x, y)        # takes arrays of NumPy, PyTorch, JAX, …; returns the same kind
"""

from tenon._load import Library, load
from tenon._native import Tensor, check, from_dlpack, to
from tenon._native import version as __version__

# __init__.pyi has the types of all public names. This file runs in every program, and each further name costs microseconds. So
# the names that are imported when they are first used are in _names.py, with __all__.


def __getattr__(name: str) -> object:
    from tenon._names import find

    return find(name)


def __dir__() -> list[str]:
    from tenon._names import names

    return names()
