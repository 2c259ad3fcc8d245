from tenon._array_types import Array, FrameworkArray
from tenon._compile import CompileError, compile
from tenon._conversions import conversions
from tenon._jax_ops import jax_ops
from tenon._load import Library, load
from tenon._native import Tensor, check, from_dlpack, to
from tenon._native import version as __version__
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
