"""Tensors in memory that several processes share."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, SupportsIndex, Union

from tenon import _frameworks, _native
from tenon._native import Tensor

try:
    from tenon import _shared_multiprocessing
except ImportError:  # Windows has no descriptors to pass, and some small systems have no multiprocessing
    _shared_multiprocessing = None  # type: ignore[assignment]


def shared_zeros(shape: Union[SupportsIndex, Sequence[SupportsIndex]], dtype: Any) -> Tensor:
    """Return a tensor of zeros in memory that other processes can attach to and write to.

    `dtype` is a name such as 'f32' or 'float32', or a dtype of NumPy, torch or JAX.
    """
    try:
        dims = [index(size) for size in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    except TypeError:
        raise TypeError(
            f"tenon.shared_zeros(): argument 'shape': expected an int or a tuple of ints, got {shape!r}"
        ) from None
    return _native._shared_zeros(dims, _dtype_name(dtype))


def share(array: Any) -> Tensor:
    """Copy an array into shared memory, which is read-only for every process. This is the only copy."""
    tensor = _native._shared_copy(_native._from_argument("tenon.share", "argument 'array'", array))
    tensor.freeze()
    return tensor


def attach(name_or_fd: Union[str, SupportsIndex]) -> Tensor:
    """Return a tensor on the shared memory of another process.

    The argument is the `shared_name` of its tensor, or a file descriptor, which remains the caller's.
    """
    return _native._shared_attach(name_or_fd if isinstance(name_or_fd, str) else _descriptor(name_or_fd))


def release_sent() -> int:
    """Release the shared tensors that this process has sent with multiprocessing and that no process has received yet.

    A tensor that was sent to a process or a queue that no longer exists is released without this call. Returns the number of
    tensors that were waiting. A process that receives one of them afterwards gets FileNotFoundError.
    """
    return _shared_multiprocessing.release_sent() if _shared_multiprocessing else 0


def _descriptor(fd: SupportsIndex) -> int:
    try:
        if not isinstance(fd, bool):
            return index(fd)
    except TypeError:
        pass
    raise TypeError(
        "tenon.attach(): argument 'name_or_fd': expected a shared_name or a file descriptor, "
        f"got {type(fd).__name__}"
    )


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, str):
        return dtype
    for dtype_name in _frameworks.parts("dtype_name"):
        try:
            name = dtype_name(dtype)
        except ValueError as error:
            raise ValueError(f"tenon.shared_zeros(): argument 'dtype': {error}") from None
        if name:
            return str(name)
    raise TypeError(f"tenon.shared_zeros(): argument 'dtype': expected a name or a dtype of NumPy, torch or JAX, got {dtype!r}")
