"""The two sides of an exchange as cases see them, and what they share."""

from __future__ import annotations

import gc
import inspect
import re
import sys
import time
from typing import Any, Callable, Optional

from . import memory, structs
from .case import Failure, Leak, NotApplicable, Refused
from .describe import Description, Taken, address_of, describe
from .made_producers import Made, MadeArray, layout_named

NEWEST = (1, 3)


def name_error(error: BaseException) -> str:
    """The type and the first line of the message."""
    lines = re.sub("0x[0-9a-f]{6,}", "0x…", str(error)).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def expect(condition: object, expected: object, came: object) -> None:
    if not condition:
        raise Failure(expected, came)


def expect_equal(came: object, expected: object, what: str) -> None:
    if came != expected:
        raise Failure(f"{what} {expected}", f"{what} {came}")


def raised(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Optional[Exception]:
    """The exception that a call raises, without its frames, which would keep its arguments alive; None if it returns."""
    try:
        function(*arguments, **keywords)
    except Exception as error:
        return error.with_traceback(None)
    return None


def wait_until(condition: Callable[[], bool], seconds: float = 2.0) -> bool:
    """Some packages release on another thread, a moment later."""
    end = time.monotonic() + seconds
    while not condition():
        gc.collect()
        if time.monotonic() > end:
            return condition()
        time.sleep(0.005)
    return True


def expect_no_growth(repeat: Callable[[], None], size: int, what: str, count: int = 32) -> None:
    """A leak of `size` bytes in each call is found; what caches and allocators keep is not counted. The free memory of allocators
    can hide the first leaks, so `count` calls are followed by as many as would fill all memory of this process."""
    for _ in range(8):
        repeat()
    gc.collect()
    before, calls = memory.resident(), 0
    for more in (count, memory.resident_of_its_own() // size + 1):
        for _ in range(more):
            repeat()
        calls += more
        gc.collect()
        grown = memory.resident() - before
        if grown > count * size // 2:
            raise Leak(f"no growth after {calls} {what} of {size >> 10} KiB", f"{grown >> 10} KiB more")


def has_keyword(function: Callable[..., Any], name: str) -> bool:
    """Whether a function takes a keyword; also if its signature is not known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == name and p.kind != p.POSITIONAL_ONLY or p.kind == p.VAR_KEYWORD for p in parameters)


class Producer:
    """A factory of arrays."""

    def __init__(self, make: Callable[..., Any], device: str = "cpu") -> None:
        self._make, self.device = make, device
        self.on_cpu = device.split(":")[0] == "cpu"

    def make(self, shape: tuple[int, ...] = (2, 3), dtype: str = "float32", layout: Optional[str] = None) -> Any:
        """A new array with the elements 0, 1, 2, … It must have the methods of the protocol."""
        keywords = {}
        if layout is not None:
            if not has_keyword(self._make, "layout"):
                raise NotApplicable("the factory takes no keyword 'layout'")
            keywords["layout"] = layout
        try:
            array = self._make(shape, dtype, self.device, **keywords)
        except NotImplementedError as error:
            raise NotApplicable(str(error) or f"the factory makes no {dtype} array of this layout") from None
        for method in ("__dlpack__", "__dlpack_device__"):
            expect(hasattr(type(array), method), f"an array with the method {method}", type(array).__name__)
        return array

    def capsule(self, array: Any) -> Any:
        """A capsule of the newest version that the array offers."""
        try:
            return array.__dlpack__(max_version=NEWEST)
        except TypeError:
            return array.__dlpack__()

    def export(self, array: Any, **keywords: Any) -> Taken:
        """The struct of an export with these keywords, or the newest one."""
        if "max_version" in keywords:
            capsule = array.__dlpack__(**keywords)
        else:
            try:
                capsule = array.__dlpack__(**keywords, max_version=NEWEST)
            except TypeError:
                capsule = array.__dlpack__(**keywords)
        expect(type(capsule) is structs.Capsule, "a PyCapsule", type(capsule).__name__)
        name = structs.capsule_name(capsule)
        expect(name in structs.USED, "a capsule named 'dltensor' or 'dltensor_versioned'", f"the name {_text(name)}")
        return Taken(capsule)

    def export_versioned(self, array: Any, **keywords: Any) -> Taken:
        taken = self.export(array, max_version=NEWEST, **keywords)
        if not taken.versioned:
            taken.release()
            raise NotApplicable("the array has only legacy capsules, which have no version and no flags")
        return taken

    def export_legacy(self, array: Any, **keywords: Any) -> Taken:
        try:
            taken = self.export(array, max_version=None, **keywords)
        except BufferError as error:
            raise NotApplicable(f"the array has no legacy capsules: {name_error(error)}") from None
        if taken.versioned:
            taken.release()
            raise NotApplicable("the array has no legacy capsules")
        return taken

    def export_or_refuse(self, array: Any) -> Taken:
        """For what need not be supported: dtypes and layouts. The standard says that BufferError reports it."""
        try:
            return self.export(array)
        except BufferError as error:
            raise Refused(name_error(error)) from None
        except (Failure, NotApplicable):
            raise
        except Exception as error:
            raise Failure("a capsule, or BufferError", name_error(error)) from None

    def expect_elements(self, taken: Taken, shape: tuple[int, ...], dtype: str, layout: Optional[str] = None) -> None:
        wanted = [structs.pattern(dtype, value) for value in layout_named(layout, shape).elements()]
        expect_equal(taken.shape, shape, "the shape")
        expect_equal(taken.dtype, dtype, "the dtype")
        came = taken.elements()
        if dtype == "float8_e8m0fnu":  # it has no zero
            wanted, came = wanted[1:3], came[1:3]
        expect(came == wanted, f"the elements {show(wanted)}", show(came))


def show(elements: list[int]) -> str:
    """The first elements, as the bits that they are."""
    return "[" + ", ".join(hex(element) for element in elements[:8]) + (", …]" if len(elements) > 8 else "]")


def _text(name: Optional[bytes]) -> str:
    return "NULL" if name is None else repr(name.decode(errors="replace"))


def _skip_if_unasked(array: Any) -> None:
    if getattr(array, "unasked", False):
        raise NotApplicable("from_dlpack does not ask for versioned capsules")


class Consumer:
    """A function from_dlpack."""

    def __init__(
        self, consume: Callable[..., Any], device: str = "cpu", pointer: Optional[Callable[[Any], int]] = None
    ) -> None:
        self._consume, self._pointer = consume, pointer
        self.device_type = structs.CPU if device.split(":")[0] == "cpu" else structs.CUDA

    def made(self, *arguments: Any, **keywords: Any) -> Made:
        return Made(*arguments, device_type=self.device_type, **keywords)

    def consume(self, array: Any, **keywords: Any) -> Any:
        return self._consume(array, **keywords)

    def consume_with(self, array: Any, **keywords: Any) -> Any:
        for name in keywords:
            if not has_keyword(self._consume, name):
                raise NotApplicable(f"from_dlpack takes no keyword {name!r}")
        return self._consume(array, **keywords)

    def take(self, array: Any) -> Any:
        """The result for an array that must be taken."""
        try:
            return self._consume(array)
        except Exception as error:
            _skip_if_unasked(array)
            self._skip_if_legacy(array)
            raise Failure("the array is taken", name_error(error)) from None

    def _skip_if_legacy(self, array: Any) -> None:
        """One case is about legacy capsules by themselves; the others do not apply if these are not taken."""
        if getattr(array, "versioned", None) is False and not array.plain:
            if raised(self._consume, MadeArray(self.made(), False)) is not None:
                raise NotApplicable("legacy capsules are not taken")

    def take_or_refuse(self, array: MadeArray) -> Any:
        """The result for an array that need not be supported. A refusal must release the capsule."""
        try:
            return self._consume(array)
        except Exception as error:
            error.__traceback__ = None
            refusal = name_error(error)
        _skip_if_unasked(array)
        expect_released(array.made)
        raise Refused(refusal)

    def expect_same_or_refused(self, array: MadeArray) -> None:
        """An array that may be taken or refused: both are lawful, if it is shown as it is, or released."""
        try:
            self.expect_same(self.take_or_refuse(array), array.made)
        except Refused:
            pass

    def address(self, result: Any) -> int:
        found = address_of(result, self._pointer)
        if found is None:
            raise Failure("a result that tells its address (--pointer names a function for that)", type(result).__name__)
        return found

    def describe(self, result: Any) -> Description:
        found = describe(result, self._pointer)
        if found is None:
            raise NotApplicable(f"{type(result).__name__} has no protocol that tells its elements")
        return found

    def expect_same(self, result: Any, made: Made, zero_copy: bool = False) -> None:
        """The result has the producer's shape, dtype and elements, in its memory. Only some cases are about copies: a consumer
        that always copies fails those, and is not blamed for it in each of the others."""
        address = self.address(result)
        found = describe(result, self._pointer)
        if found is not None:
            expect_equal(found.shape, made.shape, "the shape")
            expect_equal(found.dtype, made.dtype, "the dtype")
            expect(found.elements == made.elements(), f"the elements {show(made.elements())}", show(found.elements))
        if structs.product(made.shape) == 0 or address == made.address:
            return
        if zero_copy:
            raise Failure("the producer's memory, without a copy", "another address")
        raise Refused("a copy was made")

    def expect_refused(
        self, array: Any, expected: tuple[type[BaseException], ...], made: Optional[Made] = None, once: bool = True
    ) -> None:
        """A hostile array: one of these exceptions, and what was taken is released exactly once."""
        words = " or ".join(kind.__name__ for kind in expected)
        try:
            result = self._consume(array)
        except expected:
            _skip_if_unasked(array)
            result = None
        except Exception as error:
            error.__traceback__ = None
            _skip_if_unasked(array)
            raise Failure(words, name_error(error)) from None
        else:
            raise Failure(words, f"it was taken: {type(result).__name__}")
        if made is not None and once:
            del array
            expect_released(made)


def expect_released(made: Made, exports: Optional[int] = None) -> None:
    """Every export of it was released exactly once."""
    wait_until(lambda: all(export.releases >= 1 for export in made.exports))
    counts = [export.releases for export in made.exports]
    if any(count == 0 for count in counts):
        raise Leak("each export is released once", f"{counts.count(0)} of {len(counts)} not released")
    expect(max(counts, default=1) == 1, "each export is released once", f"one released {max(counts, default=0)} times")


def device_of(array: Any) -> tuple[int, int]:
    """What __dlpack_device__ returns, as integers. One case is about a device id that is None; the others take it for 0."""
    kind, number = array.__dlpack_device__()
    return int(getattr(kind, "value", kind)), int(number or 0)


def references(array: object) -> int:
    return sys.getrefcount(array)
