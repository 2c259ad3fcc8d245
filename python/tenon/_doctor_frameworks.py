"""The frameworks that doctor looks for, one line for each: more than Tenon has a folder for. Nothing is imported here."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Framework(NamedTuple):
    name: str  # as in tenon.to(x, name), if that knows it
    module: str  # to import; `m` in the expressions
    distribution: str  # to install, as in: pip install DISTRIBUTION
    make: str  # an expression: a small array of float32
    take: Optional[str] = ""  # an array on the memory of the tenon.Tensor `x`; "" is tenon.to(x, name); None: it cannot


FRAMEWORKS = (
    Framework("numpy", "numpy", "numpy", "m.arange(6, dtype='float32')"),
    Framework("torch", "torch", "torch", "m.arange(6, dtype=m.float32)"),
    Framework("jax", "jax", "jax", "m.numpy.arange(6, dtype='float32')"),
    Framework("tensorflow", "tensorflow", "tensorflow", "m.range(6, dtype='float32')"),
    Framework("cupy", "cupy", "cupy-cuda12x", "m.arange(6, dtype='float32')"),
    Framework("paddle", "paddle", "paddlepaddle", "m.arange(6, dtype='float32')", "m.from_dlpack(x)"),
    Framework("pyarrow", "pyarrow", "pyarrow", "m.array(range(6), m.float32())", None),
    Framework("mlx", "mlx.core", "mlx[cpu]", "m.arange(6, dtype=m.float32)", "m.array(x)"),
    Framework("array_api_strict", "array_api_strict", "array-api-strict", "m.arange(6, dtype=m.float32)", "m.from_dlpack(x)"),
    Framework("tinygrad", "tinygrad", "tinygrad", "m.Tensor.arange(6, dtype=m.dtypes.float32).realize()", None),
)

# So that a process that only looks does not take most of a GPU's memory, and does not talk.
ENVIRONMENT = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
