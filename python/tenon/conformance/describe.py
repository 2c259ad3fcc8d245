"""Describes any array: by DLPack, the array interfaces, or the buffer protocol."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Optional

from . import memory, structs


class Description:
    """`elements` are bit patterns in C order; `readonly` is None if it is not known."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: str, readonly: Optional[bool], elements: list[int]) -> None:
        self.address, self.shape, self.dtype, self.readonly, self.elements = address, shape, dtype, readonly, elements


class Taken:
    """The struct in a capsule that the kit has taken, as a consumer does. It must be released."""

    def __init__(self, capsule: Any) -> None:
        if type(capsule) is not structs.Capsule:
            raise TypeError(f"__dlpack__ returned {type(capsule).__name__}, not a capsule")
        name = structs.capsule_name(capsule)
        if name not in structs.USED:
            raise TypeError(f"the capsule's name is {name!r}")
        self.versioned = name == structs.VERSIONED
        self.address = structs.capsule_pointer(capsule, name)
        structs.rename_capsule(capsule, structs.USED[name])
        kind = structs.Versioned if self.versioned else structs.Legacy
        self.managed: Any = kind.from_address(self.address)

    @property
    def tensor(self) -> Any:
        return self.managed.tensor

    @property
    def version(self) -> tuple[int, int]:
        """(0, 0) for a legacy capsule."""
        return (self.managed.major, self.managed.minor) if self.versioned else (0, 0)

    @property
    def flags(self) -> int:
        return int(self.managed.flags) if self.versioned else 0

    @property
    def pointer(self) -> int:
        """The address of the first element."""
        return int((self.tensor.data or 0) + self.tensor.byte_offset)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape[i] for i in range(self.tensor.ndim))

    @property
    def strides(self) -> Optional[tuple[int, ...]]:
        return tuple(self.tensor.strides[i] for i in range(self.tensor.ndim)) if self.tensor.strides else None

    @property
    def dtype(self) -> str:
        return structs.dtype_name(self.tensor.code, self.tensor.bits, self.tensor.lanes)

    def elements(self) -> list[int]:
        return memory.read_elements(self.tensor, bool(self.flags & structs.IS_PADDED))

    def release(self) -> None:
        deleter = self.managed.deleter
        if deleter:
            structs.DELETER(deleter)(self.address)


def _by_dlpack(array: Any) -> Description:
    try:
        capsule = array.__dlpack__(max_version=(1, 3))
    except TypeError:
        capsule = array.__dlpack__()
    taken = Taken(capsule)
    try:
        readonly = bool(taken.flags & structs.READ_ONLY) if taken.versioned else _readonly_attribute(array)
        return Description(taken.pointer, taken.shape, taken.dtype, readonly, taken.elements())
    finally:
        taken.release()


def _readonly_attribute(array: Any) -> Optional[bool]:
    writeable = getattr(getattr(array, "flags", None), "writeable", None)
    return None if writeable is None else not writeable


_KINDS = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}


def _by_interface(array: Any) -> Description:
    found, where = getattr(array, "__array_interface__", None), structs.CPU
    if found is None:
        found, where = array.__cuda_array_interface__, structs.CUDA
    address, readonly = found["data"]
    shape, typestr = tuple(found["shape"]), found["typestr"]
    size = int(typestr[2:])
    code = _KINDS[typestr[1]]
    strides = found.get("strides") or tuple(size * stride for stride in structs.c_strides(shape))
    elements = []
    for index in structs.indices(shape):
        at = address + sum(i * stride for i, stride in zip(index, strides))
        elements.append(int.from_bytes(memory.read(at, size, where), "little"))
    return Description(address, shape, structs.dtype_name(code, 8 * size), bool(readonly), elements)


_CODES = {
    "?": "bool",
    "b": "int8",
    "h": "int16",
    "i": "int32",
    "l": "int64",
    "q": "int64",
    "B": "uint8",
    "H": "uint16",
    "I": "uint32",
    "L": "uint64",
    "Q": "uint64",
    "e": "float16",
    "f": "float32",
    "d": "float64",
    "Zf": "complex64",
    "Zd": "complex128",
}


class _Buffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("rest", ctypes.c_byte * 256)]


def _by_buffer(array: Any) -> Description:
    view = memoryview(array)
    raw = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(raw), ctypes.c_int(0x11C))
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(raw))
    elements = [
        int.from_bytes(
            memory.read((raw.buf or 0) + sum(i * s for i, s in zip(index, view.strides or ())), view.itemsize), "little"
        )
        for index in structs.indices(view.shape or ())
    ]
    return Description(raw.buf or 0, tuple(view.shape or ()), _CODES[view.format.lstrip("@=<")], view.readonly, elements)


def describe(array: Any, pointer: Optional[Callable[[Any], int]] = None) -> Optional[Description]:
    """None if the array supports none of the protocols."""
    for way in (_by_dlpack, _by_interface, _by_buffer):
        try:
            found = way(array)
        except (AttributeError, TypeError, BufferError, ValueError, KeyError, RuntimeError, NotImplementedError):
            continue
        if pointer is not None:
            found.address = pointer(array)
        return found
    return None


def address_of(array: Any, pointer: Optional[Callable[[Any], int]] = None) -> Optional[int]:
    """The address of the first element, or None if the array has no way to tell it."""
    if pointer is not None:
        return int(pointer(array))
    found = getattr(array, "data_ptr", None)
    if found is not None:
        return int(found() if callable(found) else found)
    description = describe(array)
    return description.address if description else None
