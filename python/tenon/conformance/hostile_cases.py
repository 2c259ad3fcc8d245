"""The rules for consumers: from_dlpack, with hostile producers, and with the keyword `copy`."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Optional

from . import memory, structs
from .case import HEADER, PAGE, STANDARD, Failure, NotApplicable, Refused, Registry
from .made_producers import AnsweringArray, ElsewhereArray, Made, MadeArray, OldArray, RaisingArray, SharingArray
from .parties import Consumer, expect, expect_equal, expect_released, name_error, show

case = Registry("consumer")
_FUNCTION = f"{STANDARD}: from_dlpack"
_TENSOR = f"{HEADER}: DLTensor"
_VERSION = f"{HEADER}: DLPackVersion"
_DELETER = f"{HEADER}: DLManagedTensorVersioned.deleter"
_CAPSULE = f"{PAGE}: Implementation"
_ZERO_COPY = f"{PAGE}: Semantics"
_COPY = f"{_FUNCTION}, copy"
# For what is not DLPack at all no type is documented: any of those that describe a bad argument.
_BAD = (BufferError, TypeError, ValueError)


# --------------------------------------------------------------------------------------------------------------- hostile


def _add_name(id: str, name: Optional[bytes], words: str) -> None:
    @case(f"consumer.hostile.{id}", f"A capsule {words} is refused: BufferError, TypeError or ValueError.", _CAPSULE)
    def _(c: Consumer) -> None:
        made = c.made()
        c.expect_refused(MadeArray(made, True, name), _BAD)
        expect_equal(made.releases, 0, "releases of a struct that is not the consumer's:")


_add_name("wrong-name", b"tensor", "with another name")
_add_name("no-name", None, "without a name")
_add_name("consumed-versioned", b"used_dltensor_versioned", "named 'used_dltensor_versioned'")
_add_name("consumed-legacy", b"used_dltensor", "named 'used_dltensor'")


def _add_answer(id: str, value: object, words: str) -> None:
    @case(f"consumer.hostile.{id}", f"A __dlpack__ that returns {words} is refused: BufferError, TypeError or ValueError.", _CAPSULE)
    def _(c: Consumer) -> None:
        c.expect_refused(AnsweringArray(c.made(), value), _BAD)


_add_answer("answers-none", None, "None")
_add_answer("answers-number", 12345, "a number")


def _change(field: str, value: Any) -> Callable[[Any], None]:
    def change(managed: Any) -> None:
        setattr(managed.tensor, field, value)

    return change


def _shape(*sizes: int) -> Callable[[Any], None]:
    def change(managed: Any) -> None:
        for i, size in enumerate(sizes):
            managed.tensor.shape[i] = size
        managed.tensor.strides[0] = sizes[1]

    return change


def _add_hostile(id: str, rule: str, source: str, expected: tuple[type[BaseException], ...], **keywords: Any) -> None:
    @case(f"consumer.hostile.{id}", rule, source)
    def _(c: Consumer) -> None:
        made = c.made(**keywords)
        c.expect_refused(MadeArray(made, True), expected, made)


_REFUSED = "is refused with BufferError and released once."
_add_hostile("later-major", f"A struct of major version 2 {_REFUSED}", _VERSION, (BufferError,), version=(2, 0))
_add_hostile("far-major", f"A struct of major version 99 {_REFUSED}", _VERSION, (BufferError,), version=(99, 7))
_add_hostile("unknown-dtype", f"A dtype code that DLPack does not define {_REFUSED}", _FUNCTION, (BufferError,), change=_change("code", 200))
_add_hostile("odd-bits", f"A float of 24 bits {_REFUSED}", _FUNCTION, (BufferError,), change=_change("bits", 24))
_add_hostile("no-bits", f"A dtype of 0 bits {_REFUSED}", _FUNCTION, (BufferError,), change=_change("bits", 0))
_add_hostile("no-lanes", f"A dtype of 0 lanes {_REFUSED}", _FUNCTION, (BufferError,), change=_change("lanes", 0))
_add_hostile("fp4-bits", f"A float4_e2m1fn of 8 bits {_REFUSED}", f"{HEADER}: DLDataTypeCode", (BufferError,), change=_change("code", 17))
_SHAPE = "is refused (BufferError, ValueError, OverflowError or MemoryError) and released once."
_SIZES = (BufferError, ValueError, OverflowError, MemoryError)
_add_hostile("overflow", f"A shape whose product overflows {_SHAPE}", _TENSOR, _SIZES, change=_shape(2**62, 2**62))
_add_hostile("overflow-bytes", f"A shape whose size in bytes overflows {_SHAPE}", _TENSOR, _SIZES, change=_shape(2**31, 2**31))
_add_hostile("negative-size", f"A shape with a negative size {_SHAPE}", _TENSOR, _SIZES, change=_shape(2, -3))
_add_hostile("negative-ndim", f"A negative number of dimensions {_SHAPE}", _TENSOR, _SIZES, change=_change("ndim", -1))


@case("consumer.hostile.too-many-dimensions", f"An array of 10,000 dimensions {_SHAPE}", _TENSOR)
def _(c: Consumer) -> None:
    count = 10_000
    numbers = (ctypes.c_int64 * count)(*[1] * count)

    def change(managed: Any) -> None:
        managed.tensor.ndim = count
        managed.tensor.shape = managed.tensor.strides = ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int64))

    made = c.made((1,), change=change)
    try:
        result = c.consume(MadeArray(made, True))
    except (*_SIZES, TypeError) as error:
        error.__traceback__ = None
    except Exception as error:
        error.__traceback__ = None
        raise Failure("BufferError, ValueError, OverflowError or MemoryError", name_error(error)) from None
    else:
        expect(getattr(result, "ndim", count) == count, "10,000 dimensions, or a refusal", getattr(result, "ndim", None))
        del result
    expect_released(made)


def _expect_elsewhere(c: Consumer, array: Any, made: Made, kind: int, expected: tuple[type[BaseException], ...]) -> None:
    """Memory of another device is refused, or the result is on that device: nothing may read it as memory of the CPU."""
    try:
        result = c.consume(array)
    except expected:
        expect_released(made)
        return
    except Exception as error:
        error.__traceback__ = None
        refusal = name_error(error)
    else:
        refusal = ""
    if refusal:
        expect_released(made)
        raise Refused(f"{refusal}; BufferError is recommended")
    where = result.__dlpack_device__() if hasattr(result, "__dlpack_device__") else None
    expect(where is not None and int(where[0]) == kind, f"a refusal, or a result on device type {kind}", f"a result on {where}")
    del result
    expect_released(made)


def _add_device(id: str, kind: int, words: str) -> None:
    rule = f"A tensor on {words} is refused with BufferError (recommended) and released once, or stays on that device."

    @case(f"consumer.hostile.{id}", rule, _ZERO_COPY)
    def _(c: Consumer) -> None:
        made = c.made(change=_change("device_type", kind))
        _expect_elsewhere(c, ElsewhereArray(made, (kind, 0)), made, kind, (BufferError,))


_add_device("unknown-device", 99, "a device type that DLPack does not define")
_add_device("extension-device", structs.EXTENSION, "an extension device")


@case("consumer.hostile.false-device", "A capsule whose device is not that of __dlpack_device__ is refused, or not read.", f"{_FUNCTION}, device")
def _(c: Consumer) -> None:
    made = c.made(change=_change("device_type", structs.EXTENSION))
    array = ElsewhereArray(made, (c.device_type, 0))
    _expect_elsewhere(c, array, made, structs.EXTENSION, (*_BAD, RuntimeError))


@case("consumer.hostile.false-extension-device", "An array that says that it is on an extension device is refused, or taken.", f"{_FUNCTION}, device")
def _(c: Consumer) -> None:
    c.expect_same_or_refused(ElsewhereArray(c.made(), (structs.EXTENSION, 0)))


def _add_bad_device(id: str, where: Any, words: str) -> None:
    @case(f"consumer.hostile.{id}", f"A __dlpack_device__ that returns {words} is refused, or not asked.", f"{STANDARD}: array.__dlpack_device__")
    def _(c: Consumer) -> None:
        c.expect_same_or_refused(ElsewhereArray(c.made(), where))


_add_bad_device("device-none", None, "None")
_add_bad_device("device-single", (1,), "one number")
_add_bad_device("device-text", ("cpu", "zero"), "text")


class _Own(Exception):
    """An exception that no package can know."""


def _add_raises(id: str, error: BaseException, words: str) -> None:
    @case(f"consumer.raises.{id}", f"{words} of __dlpack__ reaches the caller.", f"{_FUNCTION}, Raises")
    def _(c: Consumer) -> None:
        array = RaisingArray(c.made(), error)
        try:
            c.consume(array)
        except type(error) as came:
            expect(str(error) in str(came), f"the message {str(error)!r}", name_error(came))
            return
        except Exception as came:
            raise Failure(name_error(error), name_error(came)) from None
        raise Failure(name_error(error), "no exception")


_add_raises("buffer-error", BufferError("these strides cannot be exported"), "A BufferError")
_add_raises("own", _Own("only this package knows it"), "An exception of the producer's own class")
_add_raises("type-error", TypeError("unsupported operand of the producer"), "A TypeError that has nothing to do with keywords")
_add_raises("memory-error", MemoryError("the device is full"), "A MemoryError")


@case("consumer.raises.device", "An exception of __dlpack_device__ reaches the caller, unless it is not called.", f"{_FUNCTION}, Raises")
def _(c: Consumer) -> None:
    made = c.made()
    try:
        result = c.consume(ElsewhereArray(made, _Own("no device")))
    except _Own as error:
        error.__traceback__ = None
        expect_released(made)
        return
    except Exception as error:
        raise Failure("the producer's exception", name_error(error)) from None
    c.expect_same(result, made)
    raise Refused("__dlpack_device__ is not called")


class _NoMethods:
    pass


class _NoDevice:
    def __init__(self, made: Made) -> None:
        self.array = MadeArray(made)

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)


@case("consumer.missing.methods", "An object without __dlpack__ is an AttributeError.", f"{_FUNCTION}, Raises")
def _(c: Consumer) -> None:
    c.expect_refused(_NoMethods(), (AttributeError,))


@case("consumer.missing.device", "An object without __dlpack_device__ is an AttributeError, unless it is not called.", f"{_FUNCTION}, Raises")
def _(c: Consumer) -> None:
    made = c.made()
    try:
        result = c.consume(_NoDevice(made))
    except AttributeError:
        return
    except Exception as error:
        raise Failure("AttributeError", name_error(error)) from None
    c.expect_same(result, made)
    raise Refused("__dlpack_device__ is not called")


# ------------------------------------------------------------------------------------------------------------------ copy


def _expect_copy(c: Consumer, result: Any, made: Made) -> None:
    """Memory of its own, with the elements that the producer had."""
    expect(c.address(result) != made.address, "memory of its own", "the producer's memory")
    memory.write(made.address, b"\xff" * 24, made.device_type)
    found = c.describe(result)
    expect(found.elements == made.elements(), f"the elements {show(made.elements())}", show(found.elements))


def _copy(c: Consumer, array: Any, copy: Optional[bool]) -> Any:
    try:
        return c.consume_with(array, copy=copy)
    except (Failure, NotApplicable):
        raise
    except TypeError as error:
        if "copy" in str(error) and "keyword" in str(error) or "no keyword" in str(error):
            raise NotApplicable("from_dlpack takes no keyword 'copy'") from None
        raise


@case("consumer.copy.none", "copy=None shares the memory.", _COPY)
def _(c: Consumer) -> None:
    made = c.made()
    c.expect_same(_copy(c, MadeArray(made), None), made, zero_copy=True)


@case("consumer.copy.false", "copy=False shares the memory, or BufferError or ValueError is raised.", _COPY)
def _(c: Consumer) -> None:
    made = c.made()
    try:
        result = _copy(c, MadeArray(made), False)
    except (BufferError, ValueError) as error:
        raise Refused(name_error(error)) from None
    c.expect_same(result, made, zero_copy=True)


@case("consumer.copy.true", "copy=True copies, by the producer or by the consumer.", _COPY)
def _(c: Consumer) -> None:
    made = c.made()
    _expect_copy(c, _copy(c, MadeArray(made), True), made)


@case("consumer.copy.true-shared", "copy=True copies, even if the producer shares without IS_COPIED (the producer should copy).", _COPY)
def _(c: Consumer) -> None:
    made = c.made()
    result = _copy(c, SharingArray(made), True)
    if c.address(result) == made.address:
        raise Refused("the producer is trusted to copy")
    _expect_copy(c, result, made)


@case("consumer.copy.true-old", "copy=True copies, or is refused, if the producer's __dlpack__ has no `copy`.", _COPY)
def _(c: Consumer) -> None:
    made = c.made()
    try:
        result = _copy(c, OldArray(made), True)
    except (NotApplicable, Failure):
        raise
    except Exception as error:
        raise Refused(name_error(error)) from None
    _expect_copy(c, result, made)


@case("consumer.copy.false-old", "copy=False shares, or is refused, if the producer's __dlpack__ has no `copy`.", _COPY)
def _(c: Consumer) -> None:
    made = c.made()
    try:
        result = _copy(c, OldArray(made), False)
    except (NotApplicable, Failure):
        raise
    except Exception as error:
        raise Refused(name_error(error)) from None
    c.expect_same(result, made)


@case("consumer.copy.true-legacy", "copy=True copies what a producer exports in a legacy capsule, which has no flags.", _COPY)
def _(c: Consumer) -> None:
    made = c.made()
    try:
        result = _copy(c, MadeArray(made, False), True)
    except NotApplicable:
        raise
    except Exception as error:
        raise Refused(name_error(error)) from None
    _expect_copy(c, result, made)


@case("consumer.copy.released", "What copy=True takes is released once.", _DELETER)
def _(c: Consumer) -> None:
    made = c.made()
    result = _copy(c, MadeArray(made), True)
    del result
    expect_released(made)


@case("consumer.copy.readonly", "copy=True of a read-only array gives a copy with the same elements.", _COPY)
def _(c: Consumer) -> None:
    made = c.made(flags=structs.READ_ONLY)
    _expect_copy(c, _copy(c, MadeArray(made), True), made)
