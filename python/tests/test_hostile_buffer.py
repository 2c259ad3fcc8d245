"""The buffer protocol, from exporters that are hostile or merely odd. Each buffer that was got is released once."""

import ctypes
import struct
import sys

import pytest
import tenon_hostile as hostile
import tenon_probe as probe
from hostility import EXCEPTIONS, Surprise, outstanding, refused, taken

READ_ONLY = 1


def buffer(**plan):
    """A maker of objects with a buffer that is made by the plan."""

    def make():
        hostile.plan(**plan)
        return hostile.Buffer()

    return make


# ------------------------------------------------------------------------------------------------------------- taken

NATIVE = {"?": "bool", "c": "u8", "b": "i8", "B": "u8", "h": "i16", "H": "u16", "i": "i32", "I": "u32", "q": "i64",
          "Q": "u64", "l": f"i{8 * struct.calcsize('l')}", "L": f"u{8 * struct.calcsize('l')}", "n": "i64", "N": "u64",
          "e": "f16", "f": "f32", "d": "f64", "Zf": "c64", "Zd": "c128", "F": "c64", "D": "c128"}


def size_of(dtype):
    return 1 if dtype == "bool" else int(dtype.strip("abcdefghijklmnopqrstuvwxyz")) // 8


@pytest.mark.parametrize("letters", NATIVE)
@pytest.mark.parametrize("order", ["", "@", "="])
def test_each_format(letters, order):
    dtype = NATIVE[letters]
    if order == "=" and letters in "lL":
        dtype = dtype[0] + "32"
    make = buffer(format=order + letters, itemsize=size_of(dtype))
    if order == "=" and letters in "nN":
        refused(make, TypeError, "format")
    else:
        assert taken(make)["dtype"] == dtype


def test_no_format_means_bytes():
    assert taken(buffer(format=None, itemsize=1))["dtype"] == "u8"


def test_no_strides_mean_c_order():
    assert taken(buffer(shape=(2, 3)))["strides"] == (3, 1)


def test_no_shape_is_one_dimension_of_bytes():
    assert taken(buffer(format=None, itemsize=1, shape=None, ndim=1, len=24))["shape"] == (24,)
    assert taken(buffer(shape=None, ndim=1, len=24))["shape"] == (6,)
    assert taken(buffer(shape=None, ndim=0, len=4))["numel"] == 1


def test_strides_of_every_sign():
    assert taken(buffer(shape=(2, 2, 3), strides=(-16, 0, 4)))["strides"] == (-4, 0, 1)


def test_strides_of_small_dimensions_do_not_count():
    assert taken(buffer(shape=(1, 3), strides=(7, 4)))["shape"] == (1, 3)


def test_suboffsets_that_are_not_used():
    taken(buffer(shape=(2, 3), strides=(12, 4), suboffsets=(-1, -1)))


def test_read_only():
    assert taken(buffer(read_only=1))["flags"] & READ_ONLY
    refused(buffer(read_only=1), ValueError, "read-only", probe.WRITE)


@pytest.mark.parametrize("ndim", [8, 9, 64])
def test_many_dimensions(ndim):
    assert len(taken(buffer(shape=(1,) * ndim, strides=(4,) * ndim))["shape"]) == ndim


# --------------------------------------------------------------------------------------------------------- not taken

WRONG = {
    "structure": (TypeError, "structure", {"format": "T{i:a:f:b:}", "itemsize": 8}),
    "long double": (TypeError, "long double", {"format": "g", "itemsize": 16}),
    "complex long double": (TypeError, "long double", {"format": "Zg", "itemsize": 32}),
    "two numbers": (TypeError, "format", {"format": "ff", "itemsize": 8}),
    "counted": (TypeError, "format", {"format": "2f", "itemsize": 8}),
    "nonsense": (TypeError, "format", {"format": "\u00e9", "itemsize": 1}),
    "half a complex": (TypeError, "format", {"format": "Z", "itemsize": 8}),
    "objects": (TypeError, "format", {"format": "O", "itemsize": 8}),
    "text": (TypeError, "format", {"format": "w", "itemsize": 4}),
    "pointers": (TypeError, "format", {"format": "P", "itemsize": 8}),
    "order alone": (TypeError, "format", {"format": "<", "itemsize": 1}),
    "item size": (TypeError, "'f' is not for items of 8 bytes", {"format": "f", "itemsize": 8}),
    "item size of none": (TypeError, "items of 0 bytes", {"format": "f", "itemsize": 0}),
    "negative item size": (TypeError, "items of -4 bytes", {"format": "f", "itemsize": -4}),
    "bytes of four": (TypeError, "'B' is not for items of 4 bytes", {"format": None, "itemsize": 4}),
    "swapped": (TypeError, "swapped", {"format": ">f" if sys.byteorder == "little" else "<f"}),
    "network order": (TypeError, "swapped", {"format": "!d", "itemsize": 8}),
    "suboffsets": (BufferError, "suboffsets", {"shape": (2, 3), "strides": (12, 4), "suboffsets": (0, -1)}),
    "inner suboffsets": (BufferError, "suboffsets", {"shape": (2, 3), "strides": (12, 4), "suboffsets": (-1, 8)}),
    "memory": (BufferError, "", {"data": 0}),
    "negative ndim": (BufferError, "", {"ndim": -1}),
    "65 dimensions": (BufferError, "", {"shape": (1,) * 65, "strides": (4,) * 65}),
    "huge ndim": (BufferError, "", {"ndim": 2**31 - 1}),
    "negative size": (BufferError, "", {"shape": (-3,)}),
    "negative size, strides": (BufferError, "", {"shape": (-3,), "strides": (4,)}),
    "overflow": (BufferError, "", {"shape": (2**62, 2**62)}),
    "stride overflow": (BufferError, "", {"shape": (3, 3), "strides": (2**63 - 4, 4)}),
    "least stride": (BufferError, "", {"shape": (3,), "strides": (-(2**63),)}),
    "odd strides": (ValueError, "multiples", {"shape": (3,), "strides": (5,)}),
    "two dimensions without a shape": (BufferError, "shape", {"shape": None, "ndim": 2, "len": 24}),
    "no shape and a negative length": (BufferError, "", {"shape": None, "ndim": 1, "len": -4}),
}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_field(field):
    error, text, plan = WRONG[field]
    refused(buffer(**plan), error, text)


@pytest.mark.parametrize("kind", EXCEPTIONS)
@pytest.mark.parametrize("answer", ["fail", "ok"])
def test_an_exception_is_unchanged_whatever_the_function_returns(kind, answer):
    raised = kind("no buffer today")
    error = refused(buffer(answer=answer, error=raised), kind, "no buffer today")
    assert error is raised
    hostile.plan()


@pytest.mark.parametrize("kind", [BufferError, ValueError])
def test_a_refusal_is_a_buffer_error_with_its_cause(kind):
    refused(buffer(answer="fail", error=kind("not this one")), BufferError, "not this one", cause=kind)
    hostile.plan()


def test_failure_without_an_exception():
    refused(buffer(answer="fail"), BufferError, "without an exception")


def test_after_a_refusal_the_next_way_is_tried():
    def method(self, **keywords):
        hostile.plan()
        return hostile.capsule(shape=(7,))

    both = type("Both", (hostile.Buffer,), {"__dlpack__": method})

    def make(error):
        def made():
            hostile.plan(answer="fail", error=error)
            return both()

        return made

    assert taken(make(BufferError("as a buffer: no")))["shape"] == (7,)
    refused(make(Surprise("a bug")), Surprise, "a bug")
    refused(make(KeyboardInterrupt("stop")), KeyboardInterrupt, "stop")
    hostile.plan()


@pytest.mark.parametrize("deleter", ["raise", "clobber"])
def test_a_release_cannot_change_how_a_call_ends(deleter):
    heard = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: heard.append(str(unraisable.exc_value))
    try:
        taken(buffer(deleter=deleter))
        refused(buffer(deleter=deleter, read_only=1), ValueError, "read-only", probe.WRITE)
        refused(buffer(deleter=deleter, format="O", itemsize=8), TypeError, "format")
    finally:
        sys.unraisablehook = hook
    assert heard == (["the deleter raised"] * 6 if deleter == "raise" else [])


def test_parsing_gives_buffers_back():
    before = outstanding()
    hostile.plan()
    first, second = hostile.Buffer(), hostile.Buffer()
    references = sys.getrefcount(first), sys.getrefcount(second)
    with pytest.raises(TypeError):
        probe.parse(first, second, "no number")
    with pytest.raises(TypeError):
        probe.parse(first, object(), 3)
    assert probe.parse(first, second, 3) == 3
    assert (sys.getrefcount(first), sys.getrefcount(second)) == references
    assert outstanding() == before


def test_many_are_borrowed_or_none():
    before = outstanding()
    hostile.plan()
    things = [hostile.Buffer() for _ in range(5)]
    assert len(probe.borrow_many(*things)) == 5
    with pytest.raises(TypeError):
        probe.borrow_many(*things, object())
    assert [sys.getrefcount(thing) for thing in things] == [3 + (sys.version_info < (3, 9))] * 5
    assert outstanding() == before


def test_a_buffer_is_held_as_long_as_the_import():
    memory = bytearray(16)
    handle = probe.import_(memory)
    with pytest.raises(BufferError):
        memory.extend(b"more")
    view = probe.export(handle, probe.MEMORYVIEW)
    del handle
    with pytest.raises(BufferError):
        memory.extend(b"more")
    view.release()
    del view
    memory.extend(b"more")


def test_structures_of_ctypes():
    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float)]

    refused(lambda: (Pair * 3)(), TypeError, "structure")
    refused(Pair, TypeError, "structure")
