"""Tensors that cross to other processes: shared memory, and pickles."""

from __future__ import annotations

import copyreg
import os
import pickle
import sys
from collections.abc import Sequence
from typing import Any, Callable, Optional, SupportsIndex, TypeVar, Union

from tenon import _native
from tenon._native import Tensor

_Pickler = TypeVar("_Pickler", bound=Any)


def shared(shape: Union[SupportsIndex, Sequence[SupportsIndex]], dtype: Any) -> Tensor:
    """Return a tensor of zeros in memory that other processes can attach to and write to.

    `dtype` is a name such as 'f32' or 'float32', or a dtype of NumPy or torch.
    """
    dims = shape if isinstance(shape, (tuple, list)) else (shape,)
    for size in dims:
        if not hasattr(size, "__index__"):
            raise TypeError(f"tenon.shared(): argument 'shape': expected an int or a tuple of ints, got {shape!r}")
    return _native._shared_alloc(dims, _dtype_name(dtype))


def share(array: Any) -> Tensor:
    """Copy an array into shared memory, which is read-only for every process. This is the only copy."""
    source = _native.from_dlpack(array)
    tensor = _native._shared_alloc(source.shape, source.dtype)
    _native._copy_into(tensor, source)
    tensor.freeze()
    return tensor


def attach(name_or_fd: Union[str, int]) -> Tensor:
    """Return a tensor on the shared memory of another process.

    The argument is the `shared_name` of its tensor, or a file descriptor, which remains the caller's.
    """
    if isinstance(name_or_fd, bool) or not isinstance(name_or_fd, (str, int)):
        raise TypeError(
            "tenon.attach(): argument 'name_or_fd': expected a shared_name or a file descriptor, "
            f"got {type(name_or_fd).__name__}"
        )
    return _native._shared_attach(name_or_fd)


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, str):
        return dtype
    torch = sys.modules.get("torch")
    if torch and isinstance(dtype, torch.dtype):
        return str(dtype).partition(".")[2]
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(dtype, type) and issubclass(dtype, numpy.generic):
        dtype = numpy.dtype(dtype)
    if numpy and isinstance(dtype, numpy.dtype):
        if not dtype.isnative:
            raise ValueError(f"tenon.shared(): argument 'dtype': {dtype!r} does not have the byte order of this machine")
        return str(dtype.name)
    raise TypeError(f"tenon.shared(): argument 'dtype': expected a name or a dtype of NumPy or torch, got {dtype!r}")


# ---------------------------------------------------------------------------------------------------------- pickles


def reduce(tensor: Tensor, protocol: int) -> tuple[Any, ...]:
    """Pickle the elements. From protocol 5 on they can travel out of band."""
    data = _native._bytes_of(tensor)
    buffer: Any
    if protocol >= 5:
        buffer = pickle.PickleBuffer(data)
    else:
        buffer = bytes(data) if data.readonly else bytearray(data)
    return _from_bytes, (buffer, tensor.dtype, tensor.shape)


def _from_bytes(buffer: Any, dtype: str, shape: tuple[int, ...]) -> Tensor:
    try:
        return _native._tensor_on(buffer, 0, dtype, shape, None)
    except ValueError:  # a buffer that arrived out of band may not be aligned
        return _native._tensor_on(bytearray(buffer), 0, dtype, shape, None)


def _reduce_for_process(tensor: Tensor) -> tuple[Any, ...]:
    """Pickle for a process of multiprocessing: shared memory by its descriptor."""
    from multiprocessing.reduction import DupFd

    found = _native._shared_root(tensor)
    if found is None:
        return reduce(tensor, pickle.DEFAULT_PROTOCOL)
    root, offset = found
    whole = tensor.shared_name is not None
    place = None if whole else (offset, tensor.dtype, tensor.shape, tensor.strides)
    return _from_descriptor, (DupFd(_native._shared_fd(root)), place)


def _from_descriptor(descriptor: Any, place: Optional[tuple[int, str, tuple[int, ...], tuple[int, ...]]]) -> Tensor:
    fd: int = descriptor.detach()
    try:
        tensor = _native._shared_attach(fd)
    finally:
        os.close(fd)
    return tensor if place is None else _native._tensor_on(tensor, *place)


def _register() -> None:
    # Windows has no descriptors to pass, and some small systems have no multiprocessing.
    try:
        from multiprocessing.reduction import DupFd, ForkingPickler  # noqa: F401
    except ImportError:
        return
    ForkingPickler.register(Tensor, _reduce_for_process)


_register()


# --------------------------------------------------------------------------------------------------------- reducers


def reducers(pickler: _Pickler) -> _Pickler:
    """Let a pickler send the arrays of NumPy, torch and JAX on the CPU as buffers, out of band if it can.

    They are read-only on arrival. Returns the pickler.
    """
    table: dict[type, Callable[[Any], Any]] = dict(getattr(pickler, "dispatch_table", copyreg.dispatch_table))
    for module, name in (("numpy", "ndarray"), ("torch", "Tensor"), ("jaxlib._jax", "ArrayImpl")):
        found = getattr(sys.modules.get(module), name, None)
        if found is not None:
            table[found] = _reduce_array
    pickler.dispatch_table = table
    return pickler
