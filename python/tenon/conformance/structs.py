"""DLPack's structs, dtypes and capsules, by ctypes."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any, Optional

READ_ONLY, IS_COPIED, IS_PADDED = 1, 2, 4
CPU, CUDA, CUDA_MANAGED, EXTENSION = 1, 2, 13, 12
DEVICE_TYPES = (1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)
LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"
USED = {LEGACY: b"used_dltensor", VERSIONED: b"used_dltensor_versioned"}
TABLE = b"dlpack_exchange_api"


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Legacy(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


# Deleters get no interpreter lock: they must take it themselves if they need it. The functions of a table are called with it.
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
ALLOCATE = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(DLTensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, SET_ERROR
)
FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
TO_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
BORROW = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Exchange(ctypes.Structure):
    """DLPackExchangeAPI. The functions are addresses, since each of them may be NULL in a broken table."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("from_object", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("borrow", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


# ------------------------------------------------------------------------------------------------------------- capsules


def _function(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


new_capsule = _function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
capsule_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_get_name = _function("PyCapsule_GetName", ctypes.c_void_p, ctypes.py_object)
_set_name = _function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
capsule_destructor = _function("PyCapsule_GetDestructor", ctypes.c_void_p, ctypes.py_object)
Capsule = type(new_capsule(1, 0, 0))

# Names of capsules have static storage: these buffers are never freed.
_names: dict[bytes, Any] = {}


def static_name(name: Optional[bytes]) -> int:
    if name is None:
        return 0
    if name not in _names:
        _names[name] = ctypes.create_string_buffer(name)
    return ctypes.addressof(_names[name])


def capsule_name(capsule: object) -> Optional[bytes]:
    address = _get_name(capsule)
    return ctypes.string_at(address) if address else None


def rename_capsule(capsule: object, name: bytes) -> None:
    _set_name(capsule, static_name(name))


# --------------------------------------------------------------------------------------------------------------- dtypes

# name: (code, bits). Floats of at most 8 bits: exponent bits, mantissa bits and bias are in _SMALL.
DTYPES = {
    "bool": (6, 8),
    "int8": (0, 8),
    "int16": (0, 16),
    "int32": (0, 32),
    "int64": (0, 64),
    "uint8": (1, 8),
    "uint16": (1, 16),
    "uint32": (1, 32),
    "uint64": (1, 64),
    "float16": (2, 16),
    "float32": (2, 32),
    "float64": (2, 64),
    "bfloat16": (4, 16),
    "complex64": (5, 64),
    "complex128": (5, 128),
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
    "float6_e2m3fn": (15, 6),
    "float6_e3m2fn": (16, 6),
    "float4_e2m1fn": (17, 4),
    "int4": (0, 4),
    "uint4": (1, 4),
}
# The dtypes of the array API standard, which a producer and a consumer must support.
STANDARD_DTYPES = tuple(DTYPES)[:12] + ("complex64", "complex128")
_SMALL = {
    "float8_e3m4": (4, 3),
    "float8_e4m3": (3, 7),
    "float8_e4m3b11fnuz": (3, 11),
    "float8_e4m3fn": (3, 7),
    "float8_e4m3fnuz": (3, 8),
    "float8_e5m2": (2, 15),
    "float8_e5m2fnuz": (2, 16),
    "float8_e8m0fnu": (0, 127),
    "float6_e2m3fn": (3, 1),
    "float6_e3m2fn": (2, 3),
    "float4_e2m1fn": (1, 1),
}
_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "ff",
    "complex128": "dd",
}


def dtype_name(code: int, bits: int, lanes: int = 1) -> str:
    """The name, or for an unknown dtype its numbers."""
    for name, found in DTYPES.items():
        if found == (code, bits) and lanes == 1:
            return name
    return f"code {code}, {bits} bits, {lanes} lanes"


def bits_of(name: str) -> int:
    return DTYPES[name][1]


def pattern(name: str, value: int) -> int:
    """The bits of a small number that is not negative. float8_e8m0fnu has no zero and no 3: these become 1 and 2."""
    if name in _SMALL:
        mantissa, bias = _SMALL[name]
        if name == "float8_e8m0fnu":
            value = 1 << (max(value, 1).bit_length() - 1)
        if value == 0:
            return 0
        exponent = int(math.log2(value))
        return (exponent + bias) << mantissa | int((value / 2**exponent - 1) * 2**mantissa)
    if name == "bfloat16":
        return int.from_bytes(struct.pack("<f", value)[2:], "little")
    if name in ("int4", "uint4"):
        return value & 15
    if name == "bool":
        return int(value != 0)
    parts = (value, 0) if name.startswith("complex") else (value,)
    return int.from_bytes(struct.pack("<" + _FORMATS[name], *parts), "little")


def c_strides(shape: Any) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= max(size, 1)
    return tuple(strides)


def product(shape: Any) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def indices(shape: Any) -> Any:
    """Every index, in C order."""
    if not shape:
        yield ()
        return
    for rest in indices(shape[:-1]):
        for last in range(shape[-1]):
            yield (*rest, last)
