"""The rules for an exchange between two packages."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

from . import structs
from .case import HEADER, PAGE, STANDARD, Leak, NotApplicable, Refused, Registry
from .parties import Consumer, Producer, expect, expect_equal, expect_no_growth, name_error, show, wait_until

case = Registry("round-trip")
_SEMANTICS = f"{PAGE}: Semantics"


def _give(c: Consumer, array: Any) -> Any:
    """A consumer need not support the producer's device, dtype or layout."""
    try:
        return c.consume(array)
    except Exception as error:
        error.__traceback__ = None
        raise Refused(name_error(error)) from None


def _expect_elements(c: Consumer, result: Any, shape: tuple[int, ...], dtype: str = "float32") -> None:
    found = c.describe(result)
    wanted = [structs.pattern(dtype, i) for i in range(structs.product(shape))]
    expect_equal(found.shape, shape, "the shape")
    expect_equal(found.dtype, dtype, "the dtype")
    expect(found.elements == wanted, f"the elements {show(wanted)}", show(found.elements))


def _aligned_array(p: Producer) -> tuple[Any, int]:
    """An array and its address. A consumer may have to copy data that is aligned to less than 64 bytes, which depends on where
    the producer's allocator puts an array: a few are tried."""
    others = []
    for _ in range(32):
        array = p.make((3, 4))
        taken = p.export(array)
        address = taken.pointer
        taken.release()
        if address % 64 == 0:
            break
        others.append(array)
    return array, address


@case("round-trip.values", "The consumer's array has the producer's shape and elements.", _SEMANTICS)
def _(p: Producer, c: Consumer) -> None:
    _expect_elements(c, _give(c, p.make((3, 4))), (3, 4))


@case("round-trip.pointer", "The consumer's array shows the producer's memory.", _SEMANTICS)
def _(p: Producer, c: Consumer) -> None:
    array, address = _aligned_array(p)
    result = _give(c, array)
    if c.address(result) != address and address % 64:
        raise Refused(f"a copy was made of data that is aligned to {address & -address} bytes")
    expect(c.address(result) == address, "the producer's memory", "another address")


@case("round-trip.copy", "copy=True gives the consumer memory of its own.", f"{STANDARD}: from_dlpack, copy")
def _(p: Producer, c: Consumer) -> None:
    array, address = _aligned_array(p)
    try:
        result = c.consume_with(array, copy=True)
    except NotApplicable:
        raise
    except Exception as error:
        raise Refused(name_error(error)) from None
    expect(c.address(result) != address, "memory of its own", "the producer's memory")
    _expect_elements(c, result, (3, 4))


@case("round-trip.dtype", "int32, uint8 and bool, if the producer has them, arrive as what they are.", f"{HEADER}: DLDataType")
def _(p: Producer, c: Consumer) -> None:
    for dtype in ("int32", "uint8", "bool"):
        try:
            array = p.make((4,), dtype)
        except NotApplicable:
            continue
        _expect_elements(c, _give(c, array), (4,), dtype)


@case("round-trip.layout", "An array with gaps arrives with the right elements, or is refused.", f"{HEADER}: DLTensor.strides")
def _(p: Producer, c: Consumer) -> None:
    _expect_elements(c, _give(c, p.make((3, 4), "float32", "strided")), (3, 4))


@case("round-trip.readonly", "A read-only array stays read-only (a consumer that does not support it may ignore it).", f"{STANDARD}: array.__dlpack__")
def _(p: Producer, c: Consumer) -> None:
    result = _give(c, p.make((3, 4), "float32", "readonly"))
    _expect_elements(c, result, (3, 4))
    if not c.describe(result).readonly:
        raise Refused("the flag is ignored")


class _Watched:
    """An array whose exports tell how often they are released."""

    def __init__(self, array: Any) -> None:
        self.array, self.releases, self.exports = array, 0, 0
        self.hooks: list[Any] = []

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> Any:
        capsule = self.array.__dlpack__(**keywords)
        name = structs.capsule_name(capsule)
        kind: Any = structs.Versioned if name == structs.VERSIONED else structs.Legacy
        managed = kind.from_address(structs.capsule_pointer(capsule, name))
        real = managed.deleter

        def release(address: int) -> None:
            self.releases += 1
            if real:
                structs.DELETER(real)(address)

        hook = structs.DELETER(release)
        self.hooks.append(hook)
        self.exports += 1
        managed.deleter = ctypes.cast(hook, ctypes.c_void_p).value
        return capsule


@case("round-trip.released", "The producer's tensor is released once, when the consumer's array is gone.", f"{HEADER}: DLManagedTensorVersioned.deleter")
def _(p: Producer, c: Consumer) -> None:
    watched = _Watched(p.make((3, 4)))
    result = _give(c, watched)
    _expect_elements(c, result, (3, 4))
    expect(watched.exports > 0, "an export", "none")
    del result
    gc.collect()
    if not wait_until(lambda: watched.releases >= watched.exports):
        raise Leak(f"{watched.exports} releases", watched.releases)
    expect_equal(watched.releases, watched.exports, "releases:")


@case("round-trip.no-growth", "Many exchanges do not use more and more memory.", _SEMANTICS)
def _(p: Producer, c: Consumer) -> None:
    size = 1 << 18
    _give(c, p.make((size,)))
    expect_no_growth(lambda: _give(c, p.make((size,))), size * 4, "exchanges")


@case("round-trip.producer-gone", "The consumer's array is usable after the producer's is gone.", _SEMANTICS)
def _(p: Producer, c: Consumer) -> None:
    array = p.make((3, 4))
    result = _give(c, array)
    del array
    gc.collect()
    others = [p.make((3, 4), "int32") for _ in range(50)]
    _expect_elements(c, result, (3, 4))
    del others
