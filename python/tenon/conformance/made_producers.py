"""Producers that the kit makes: well-formed ones, unusual but lawful ones, and hostile ones."""

from __future__ import annotations

import array
import ctypes
import functools
from typing import Any, Callable, Optional

from tenon import _native

from . import memory, structs

_RELEASE_VERSIONED, _RELEASE_LEGACY, _DESTROY_CAPSULE = _native._conformance_hooks()
_ARRAY_CODES = {"float32": "f", "float64": "d", "int32": "i", "int16": "h"}  # for large arrays
# A consumer may call a deleter at any time until the process ends. Structs and counters are therefore never freed.
_alive: list[Any] = []


@functools.lru_cache(maxsize=8)
def _count_up(code: str, size: int) -> bytes:
    return array.array(code, range(size)).tobytes()


class Layout:
    """How the elements of an array are placed. `value(index, n)` is the element at an index, the n-th in C order."""

    def __init__(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        value: Callable[[tuple[int, ...], int], int] = lambda index, n: n,
    ) -> None:
        self.shape, self.strides, self.value = shape, strides, value

    def elements(self) -> list[int]:
        return [self.value(index, n) for n, index in enumerate(structs.indices(self.shape))]

    def offsets(self) -> list[int]:
        return [sum(i * stride for i, stride in zip(index, self.strides)) for index in structs.indices(self.shape)]


def layout_named(name: Optional[str], shape: tuple[int, ...]) -> Layout:
    """The layouts that a factory may be asked for, besides C order (None)."""
    plain = structs.c_strides(shape)
    if name == "F":
        return Layout(shape, tuple(reversed(structs.c_strides(shape[::-1]))))
    if name == "reversed":
        return Layout(shape, tuple(-stride for stride in plain))
    if name == "strided":
        return Layout(shape, tuple(2 * stride for stride in plain))
    if name == "broadcast":
        return Layout(shape, (0, *plain[1:]), lambda index, n: n % max(structs.product(shape[1:]), 1))
    if name == "overlapping":
        return Layout(shape, (1,) * len(shape), lambda index, n: sum(index))
    return Layout(shape, plain)


class Export:
    """One struct that a consumer gets, and how often it has been released."""

    def __init__(self, managed: Any, name: Optional[bytes], counter: Any) -> None:
        self.managed, self.name, self._counter = managed, name, counter
        self.source: Optional[Made] = None

    @property
    def releases(self) -> int:
        return int(self._counter.value)

    def capsule(self) -> Any:
        return structs.new_capsule(ctypes.addressof(self.managed), structs.static_name(self.name), _DESTROY_CAPSULE)


class Made:
    """An array in the kit's own memory, which is described as the caller says, truthfully or not."""

    def __init__(
        self,
        shape: tuple[int, ...] = (2, 3),
        dtype: str = "float32",
        layout: Optional[str] = None,
        *,
        device_type: int = structs.CPU,
        padding: int = 0,
        padded: bool = False,
        change: Optional[Callable[[Any], None]] = None,
        version: tuple[int, int] = (1, 3),
        flags: int = 0,
        block: Optional[memory.Memory] = None,
    ) -> None:
        """`padding` is the number of bytes before the first element; `change` is called with each struct before it is given
        away; `block` is memory that is used as it is."""
        self.shape, self.dtype, self.layout = shape, dtype, layout_named(layout, shape)
        self.device_type, self.version = device_type, version
        self.flags = flags | (structs.IS_PADDED if padded else 0)
        self.change, self.exports = change, list[Export]()
        step = max(structs.bits_of(dtype), 8) if padded else structs.bits_of(dtype)
        offsets = [structs.product(shape) - 1, 0] if layout is None else self.layout.offsets() or [0]
        first = -min(0, *offsets) * step // 8 + padding
        size = first + ((max(0, *offsets) + 1) * step + 7) // 8
        self.memory = block or memory.Memory(size, device_type)
        self.address = self.memory.address + first
        if block is None and layout is None and dtype in _ARRAY_CODES and not padding:
            self.memory.write(_count_up(_ARRAY_CODES[dtype], structs.product(shape)))
        elif block is None:
            data = bytearray(size)
            for offset, value in zip(self.layout.offsets(), self.layout.elements()):
                position = first * 8 + offset * step
                bits = structs.pattern(dtype, value) << position % 8
                for i, byte in enumerate(bits.to_bytes(17, "little")):
                    if byte:
                        data[position // 8 + i] |= byte
            self.memory.write(bytes(data))

    def elements(self) -> list[int]:
        return [structs.pattern(self.dtype, value) for value in self.layout.elements()]

    def export(self, versioned: bool = True, name: Optional[bytes] = b"", copied: bool = False) -> Export:
        """A new struct. Its capsule has the right name, unless one is given."""
        source = self.copied() if copied else self
        counter = ctypes.c_int64(0)
        managed: Any = structs.Versioned() if versioned else structs.Legacy()
        tensor = managed.tensor
        count = len(self.shape)
        numbers = (ctypes.c_int64 * (2 * count or 1))(*self.shape, *source.layout.strides)
        tensor.data = source.address
        tensor.device_type = self.device_type
        tensor.ndim = count
        tensor.code, tensor.bits = structs.DTYPES[self.dtype]
        tensor.lanes = 1
        tensor.shape = ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(ctypes.byref(numbers, 8 * count), ctypes.POINTER(ctypes.c_int64))
        managed.context = ctypes.addressof(counter)
        managed.deleter = _RELEASE_VERSIONED if versioned else _RELEASE_LEGACY
        if versioned:
            managed.major, managed.minor = self.version
            managed.flags = self.flags | (structs.IS_COPIED if copied else 0)
        if self.change:
            self.change(managed)
        if name == b"":
            name = structs.VERSIONED if versioned else structs.LEGACY
        _alive.append((managed, numbers, counter))
        made = Export(managed, name, counter)
        made.source = source  # a copy lives as long as this array remembers the export
        self.exports.append(made)
        return made

    def copied(self) -> Made:
        return Made(self.shape, self.dtype, device_type=self.device_type)

    @property
    def releases(self) -> int:
        return sum(export.releases for export in self.exports)


class MadeArray:
    """An array as the standard has it. It remembers what it was asked for."""

    def __init__(self, made: Made, versioned: Optional[bool] = None, name: Optional[bytes] = b"", keep: bool = False) -> None:
        """`versioned`: always legacy, or BufferError if no version is asked for. `keep`: keep the capsules, for their names."""
        self.made, self.versioned, self.name, self.keep = made, versioned, name, keep
        self.asked: list[dict[str, Any]] = []
        self.capsules: list[Any] = []
        self.plain = made.change is None and not keep  # nothing about it is unusual
        self.unasked = False  # whether it had to refuse since no version was asked for

    def __dlpack_device__(self) -> Any:
        return (self.made.device_type, 0)

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        unknown = set(keywords) - {"stream", "max_version", "dl_device", "copy"}
        if unknown:
            raise TypeError(f"__dlpack__() got an unexpected keyword argument {unknown.pop()!r}")
        where = keywords.get("dl_device")
        if where is not None and (int(where[0]), int(where[1])) != (self.made.device_type, 0):
            raise BufferError("this array can only be exported to its own device")
        return self.answer(keywords)

    def answer(self, keywords: dict[str, Any]) -> Any:
        asked = keywords.get("max_version") is not None and keywords["max_version"][0] >= 1
        versioned = asked if self.versioned is None else self.versioned
        if versioned and not asked:
            self.unasked = True
            raise BufferError("this array has only versioned capsules, and no max_version was passed")
        capsule = self.made.export(versioned, self.name, copied=bool(keywords.get("copy"))).capsule()
        if self.keep:
            self.capsules.append(capsule)
        return capsule


class OldArray(MadeArray):
    """__dlpack__ as it was before 2023.12: only `stream`."""

    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
        self.asked.append({"stream": stream})
        return self.answer({})


class OldestArray(MadeArray):
    """__dlpack__ without a parameter."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        self.asked.append({})
        return self.answer({})


class SharingArray(MadeArray):
    """Takes `copy`, and shares all the same; it does not set the flag of a copy."""

    def answer(self, keywords: dict[str, Any]) -> Any:
        return super().answer({**keywords, "copy": None})


class RaisingArray(MadeArray):
    """__dlpack__ raises."""

    def __init__(self, made: Made, error: BaseException) -> None:
        super().__init__(made)
        self.error = error

    def answer(self, keywords: dict[str, Any]) -> Any:
        raise self.error


class AnsweringArray(MadeArray):
    """__dlpack__ returns the given object, which is usually not a capsule."""

    def __init__(self, made: Made, value: object) -> None:
        super().__init__(made)
        self.value = value

    def answer(self, keywords: dict[str, Any]) -> Any:
        return self.value


class ElsewhereArray(MadeArray):
    """__dlpack_device__ returns the given object, or raises it."""

    def __init__(self, made: Made, where: Any) -> None:
        super().__init__(made)
        self.where = where

    def __dlpack_device__(self) -> Any:
        if isinstance(self.where, BaseException):
            raise self.where
        return self.where

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        return self.answer(keywords)
