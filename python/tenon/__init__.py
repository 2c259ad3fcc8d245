"""One C function, every tensor in the process.

    kernels = tenon.load("kernels.so")
    kernels.saxpy(2.0, x, y)        # takes arrays of NumPy, PyTorch, JAX, …; returns the same kind
"""

from tenon._load import load
from tenon._native import Tensor, check, from_dlpack, to, torch_info
from tenon._native import version as __version__

TYPE_CHECKING = False  # importing typing would take longer than everything else
if TYPE_CHECKING:
    from tenon._torch_ops import torch_ops

__all__ = ["Tensor", "check", "from_dlpack", "load", "to", "torch_info", "torch_ops", "__version__"]


def __getattr__(name: str) -> object:
    if name != "torch_ops":
        raise AttributeError(f"module 'tenon' has no attribute {name!r}")
    from tenon._torch_ops import torch_ops

    globals()[name] = torch_ops
    return torch_ops


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
