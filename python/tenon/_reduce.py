"""Pickles: the elements of tensors, and the arrays of the frameworks as buffers."""

from __future__ import annotations

import copyreg
import pickle
from collections import ChainMap
from functools import partial
from typing import Any, Callable, Optional, SupportsIndex, TypeVar, Union

from tenon import _frameworks, _native
from tenon._native import Tensor

_Pickler = TypeVar("_Pickler", bound=Any)
Reduced = Union[str, "tuple[Any, ...]"]


def reduce(tensor: Tensor, protocol: int) -> tuple[Any, ...]:
    """Pickle the elements. From protocol 5 on they can travel out of band."""
    if not isinstance(tensor, Tensor):  # of an extension that has a bridge of its own
        tensor = _native.from_dlpack(tensor)
    data, strides = _native._bytes_of(tensor)
    buffer: Any
    if protocol >= 5:
        buffer = pickle.PickleBuffer(data)
    else:
        buffer = bytes(data) if data.readonly else bytearray(data)
    return _from_bytes, (buffer, tensor.dtype, tensor.shape, strides)


def _from_bytes(
    buffer: Any, dtype: str, shape: tuple[int, ...], strides: Optional[tuple[int, ...]] = None
) -> Tensor:
    try:
        return _native._tensor_on(buffer, 0, dtype, shape, strides)
    except ValueError:  # a buffer that arrived out of band may not be aligned
        return _native._tensor_on(bytearray(buffer), 0, dtype, shape, strides)


# --------------------------------------------------------------------------------------------------------- reducers


def reducers(pickler: _Pickler) -> _Pickler:
    """Let a pickler send the arrays of NumPy, torch and JAX on the CPU as buffers, out of band under protocol 5.

    They are read-only on arrival, and Tenon's functions do not write to them. Arrays that are not plain memory of the CPU,
    and arrays of subclasses, are pickled as before. Returns the pickler.
    """
    if not hasattr(type(pickler), "dump"):
        raise TypeError(f"tenon.reducers(): argument 'pickler': expected a pickle.Pickler, got {type(pickler).__name__}")
    before = getattr(pickler, "dispatch_table", copyreg.dispatch_table)
    table: dict[type, Callable[[Any], Reduced]] = {}
    for reducer in _frameworks.parts("reducer"):
        found = reducer()
        if found:
            table[found[0]] = partial(found[1], before.get(found[0]) or reduce_as_before)
    everything = ChainMap(table, before)
    pickler.dispatch_table = everything
    member = getattr(pickle.Pickler, "dispatch_table", None)
    if member is not None and isinstance(pickler, pickle.Pickler):
        member.__set__(pickler, everything)  # if a subclass has an attribute of this name, C code reads another one
    return pickler


class _AsBefore:
    """An object that is pickled by its own method, which is asked with the protocol of the pickler."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return self.content.__reduce_ex__(protocol)


def _same(content: Any) -> Any:
    return content


def reduce_as_before(array: Any) -> Reduced:
    return _same, (_AsBefore(array),)


def reduce_array(own: Callable[[Any], Reduced], array: Any, framework: str, requires_grad: bool = False) -> Reduced:
    try:
        tensor = _native.from_dlpack(array)
        data, strides = _native._bytes_of(tensor)
    except (BufferError, RuntimeError, TypeError, ValueError):  # not plain memory, or a dtype that only NumPy has
        return own(array)
    return _receive, (framework, data, tensor.dtype, tensor.shape, strides, requires_grad)


def _receive(
    framework: str,
    data: Tensor,
    dtype: str,
    shape: tuple[int, ...],
    strides: Optional[tuple[int, ...]],
    requires_grad: bool,
) -> Any:
    array = _native._receive(_from_bytes(data, dtype, shape, strides), framework)
    return array.requires_grad_() if requires_grad else array
