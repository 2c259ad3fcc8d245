"""One C function, every tensor in the process.

    kernels = tenon.load("kernels.so")
    kernels.saxpy(2.0, x, y)        # takes arrays of NumPy, PyTorch, JAX, …; returns the same kind
"""

from tenon._load import Library, load
from tenon._native import Tensor, check, from_dlpack, to
from tenon._native import version as __version__

TYPE_CHECKING = False  # importing typing would take longer than everything else
if TYPE_CHECKING:
    from tenon._array_types import Array, FrameworkArray
    from tenon._compile import CompileError, compile
    from tenon._conversions import conversions
    from tenon._jax_ops import jax_ops
    from tenon._ray_ops import ray_ops
    from tenon._reduce import reducers
    from tenon._shared import attach, release_sent, share, shared_zeros
    from tenon._torch_native import torch_info
    from tenon._torch_ops import torch_ops

__all__ = [
    "Array",
    "CompileError",
    "FrameworkArray",
    "Library",
    "Tensor",
    "attach",
    "check",
    "compile",
    "conversions",
    "from_dlpack",
    "jax_ops",
    "load",
    "ray_ops",
    "reducers",
    "release_sent",
    "share",
    "shared_zeros",
    "to",
    "torch_info",
    "torch_ops",
    "__version__",
]

# The modules of the names that are imported when they are first used.
_LAZY = {
    "Array": "_array_types",
    "CompileError": "_compile",
    "FrameworkArray": "_array_types",
    "attach": "_shared",
    "compile": "_compile",
    "conversions": "_conversions",
    "jax_ops": "_jax_ops",
    "ray_ops": "_ray_ops",
    "reducers": "_reduce",
    "release_sent": "_shared",
    "share": "_shared",
    "shared_zeros": "_shared",
    "torch_info": "_torch_native",
    "torch_ops": "_torch_ops",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'tenon' has no attribute {name!r}")
    from importlib import import_module

    module = f"tenon.{_LAZY[name]}"
    try:
        found: object = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        from tenon._native import frameworks

        raise AttributeError(f"tenon.{name} is not part of this build, which has {', '.join(frameworks)}") from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
