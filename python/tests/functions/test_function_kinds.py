"""The kinds bytes, strs, uint, complex, dtype and choices of integers, and results that are lists."""

import array
import cmath
import collections
import inspect
import math
import mmap
import pathlib
import sys

import numpy as np
import pytest
from building import build, refused, tenon


@pytest.fixture(scope="session")
def kinds():
    return tenon.load(build("kinds.c"))


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


# ------------------------------------------------------------------------------------------------------------- uint


@pytest.mark.parametrize("number", [0, 1, 2**63 - 1, 2**63, 2**64 - 1, True, Index(2**64 - 1), np.uint64(2**64 - 1)])
def test_uint(kinds, number):
    result = kinds.uint_(number)
    assert type(result) is int and result == number.__index__()


def test_uint_default(kinds):
    assert kinds.uint_() == 2**64 - 1
    assert str(inspect.signature(kinds.uint_)) == "(a=18446744073709551615)"


@pytest.mark.parametrize("number, what", [(2**64, "larger"), (2**200, "larger"), (-1, "negative"), (-(2**200), "negative")])
def test_uint_overflow(kinds, number, what):
    expected = f"uint_(): argument 'a': expected an integer from 0 to 2**64 - 1, got a {what} one"
    refused(kinds.uint_, OverflowError, expected, number)
    refused(kinds.uint_, OverflowError, expected, Index(number))


def test_uint_of_another_type(kinds):
    refused(kinds.uint_, TypeError, "uint_(): argument 'a': expected uint, got float", 1.0)
    refused(kinds.uint_, TypeError, "uint_(): argument 'a': expected uint, got str", "1")
    refused(kinds.uint_, TypeError, "uint_(): argument 'a': expected uint, got NoneType", None)


# ---------------------------------------------------------------------------------------------------------- complex


class Complex:
    def __complex__(self):
        return 3 - 4j


@pytest.mark.parametrize(
    "number", [0, 1.5, 1 + 2j, True, complex(-0.0, -0.0), np.complex64(1 - 2j), np.complex128(2j), np.float32(0.5)]
)
def test_complex(kinds, number):
    result = kinds.complex_(number)
    assert type(result) is complex and result == complex(number)
    assert math.copysign(1, result.imag) == math.copysign(1, complex(number).imag)


def test_other_complex_numbers(kinds):
    assert kinds.complex_() == 1 + 2j
    assert kinds.complex_(Complex()) == 3 - 4j
    assert kinds.complex_(np.array(1 + 1j)) == 1 + 1j
    nan = kinds.complex_(complex(math.nan, math.inf))
    assert math.isnan(nan.real) and nan.imag == math.inf
    assert cmath.isnan(kinds.complex_(math.nan))


def test_bad_complex(kinds):
    refused(kinds.complex_, TypeError, "complex_(): argument 'a': expected complex, got str", "1j")
    refused(kinds.complex_, TypeError, "complex_(): argument 'a': expected complex, got list", [1])
    refused(kinds.complex_, OverflowError, "complex_(): argument 'a': the integer is too large for a float", 10**400)
    for error in (ZeroDivisionError("no number"), KeyboardInterrupt()):

        class Broken:
            def __complex__(self):
                raise error

        with pytest.raises(type(error)) as caught:
            kinds.complex_(Broken())
        assert caught.value is error


# ---------------------------------------------------------------------------------------------------------- choices


def test_integer_choices(kinds):
    assert [kinds.choice(1), kinds.choice(2), kinds.choice(-4), kinds.choice(), kinds.choice(True)] == [1, 2, -4, 2, 1]
    assert kinds.choice(None) == -100
    assert kinds.choice(np.int8(-4)) == -4
    refused(kinds.choice, ValueError, "choice(): argument 'k': expected 1|2|-4?, got 4", 4)
    refused(kinds.choice, TypeError, "choice(): argument 'k': expected 1|2|-4?, got float", 1.0)
    refused(kinds.choice, TypeError, "choice(): argument 'k': expected 1|2|-4?, got str", "1")
    refused(
        kinds.choice,
        OverflowError,
        "choice(): argument 'k': expected an integer from -2**63 to 2**63 - 1, got a larger one",
        2**64,
    )


def test_a_choice_as_a_dimension(kinds):
    assert kinds.ones(4).tolist() == [1] * 4
    refused(kinds.ones, ValueError, "ones(): argument 'k': expected 2|4, got 3", 3)


# ----------------------------------------------------------------------------------------------------------- dtypes

F32, F64, BF16 = 2032001, 2064001, 4016001


@pytest.mark.parametrize("dtype", ["f32", "float32", np.float32, np.dtype("f4"), np.dtype(np.float32)])
def test_dtypes(kinds, dtype):
    assert kinds.dtype_(dtype) == F32


def test_more_dtypes(kinds):
    assert kinds.dtype_() == F32
    assert kinds.dtype_(None) == 0
    assert kinds.dtype_(np.bool_) == kinds.dtype_("bool") == kinds.dtype_(bool) == 6008001
    assert kinds.dtype_(np.complex128) == 5128001
    assert kinds.dtype_("bf16") == BF16


@pytest.mark.parametrize("name", ["torch", "jax.numpy", "ml_dtypes", "tensorflow"])
def test_dtypes_of_frameworks(kinds, name):
    module = pytest.importorskip(name)
    assert kinds.dtype_(module.bfloat16) == BF16
    if name == "jax.numpy":
        assert kinds.dtype_(module.zeros(1, "float32").dtype) == F32
    if name != "ml_dtypes":
        assert kinds.dtype_(module.float64) == F64


def test_a_dtype_that_prints_too_much(kinds):
    class Dtype:
        def __str__(self):
            return "x" * 100

    with pytest.raises(TypeError, match=r"^dtype_\(\): argument 't': expected dtype\?, got .*, which has no DLPack dtype$"):
        kinds.dtype_(Dtype())


def python_calls(function, *args):
    """How many functions that are written in Python a call runs."""
    calls = []
    sys.setprofile(lambda frame, event, argument: event == "call" and calls.append(frame.f_code.co_name))
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return len(calls)


def test_a_dtype_object_is_printed_once(kinds):
    """NumPy does it in Python, in 10 microseconds."""
    dtype = np.dtype("f4", metadata={"a": 1})
    assert python_calls(kinds.dtype_, dtype) > 0
    assert python_calls(kinds.dtype_, dtype) == 0
    assert kinds.dtype_(dtype) == F32


def test_many_dtype_objects(kinds):
    """More than are remembered. Each is held at most until another one has its place."""
    objects = [np.dtype(("f4", "f8")[i % 2], metadata={"i": i}) for i in range(1000)]
    for _ in range(3):
        assert [kinds.dtype_(dtype) for dtype in objects] == [F32, F64] * 500
    held = sum(sys.getrefcount(dtype) for dtype in objects) - sum(sys.getrefcount(dtype) for dtype in [np.dtype("f4", copy=True) for _ in objects])
    assert 0 < held <= 64
    del objects
    for i in range(1000):  # at addresses of those that were released
        assert kinds.dtype_(np.dtype(("f8", "i8")[i % 2], metadata={"j": i})) == (F64, 64001)[i % 2]


class ChangingDtype:
    name = "float32"

    def __str__(self):
        return self.name


def test_a_dtype_object_that_changes(kinds):
    dtype = ChangingDtype()
    assert kinds.dtype_(dtype) == F32
    dtype.name = "float64"
    assert kinds.dtype_(dtype) == F64


class Printed:
    def __str__(self):
        return "float32"


class RaisingDtype:
    def __str__(self):
        raise KeyError("no name")


def test_bad_dtypes(kinds):
    start = "dtype_(): argument 't': expected dtype?, got "
    refused(kinds.dtype_, TypeError, start + "'float33', which is not the name of a dtype", "float33")
    refused(kinds.dtype_, TypeError, start + "'', which is not the name of a dtype", "")
    refused(kinds.dtype_, TypeError, start + "'f32\\x00', which is not the name of a dtype", "f32\0")
    refused(kinds.dtype_, TypeError, start + "'\\ud800', which is not the name of a dtype", "\ud800")
    refused(kinds.dtype_, TypeError, start + "dtype('>f4'), which has no DLPack dtype", np.dtype(">f4"))
    refused(kinds.dtype_, TypeError, start + "dtype('<M8[s]'), which has no DLPack dtype", np.dtype("M8[s]"))
    refused(kinds.dtype_, TypeError, start + "<class 'float'>, which has no DLPack dtype", float)
    refused(kinds.dtype_, TypeError, start + "int", 32)
    refused(kinds.dtype_, TypeError, start + "numpy.ndarray", np.zeros(1, "f4"))
    with pytest.raises(TypeError, match=r"argument 't': expected dtype\?, got .*Printed"):
        kinds.dtype_(Printed())
    with pytest.raises(KeyError, match="no name"):
        kinds.dtype_(RaisingDtype())


def test_dtype_variables(kinds):
    assert kinds.zeros(3).dtype == np.float32
    assert kinds.zeros(3, "f64").dtype == np.float64
    assert kinds.zeros(3, np.int8).tolist() == [0, 0, 0]
    expected = "zeros(): argument 't': expected dtype(T), got i16, but T is one of f32|f64|i8"
    refused(kinds.zeros, TypeError, expected, 3, "i16")
    x = np.zeros(2, "i8")
    assert kinds.zeros_like(x, "f64").dtype == np.float64
    assert kinds.same(np.zeros(2), float.__name__ + "64").shape == (2,)
    expected = "same(): argument 't': expected dtype(T), got f32, but T = f64 from argument 'x'"
    refused(kinds.same, TypeError, expected, np.zeros(2), "f32")


# ------------------------------------------------------------------------------------------------------------ bytes


def test_bytes(kinds):
    for data in (b"", b"a", b"a\0b\xff", bytes(100000)):
        for function in (kinds.bytes_, kinds.bytes_unlocked):
            result = function(data)
            assert type(result) is bytes and result == data
    assert kinds.bytes_() is None
    assert kinds.bytes_(None) is None


class Bytes(bytes):
    pass


def buffers():
    room = mmap.mmap(-1, 8)
    room[:] = b"abcdefgh"
    return [
        bytearray(b"abcdefgh"),
        memoryview(b"abcdefgh"),
        memoryview(b"xabcdefghx")[1:9],
        array.array("b", b"abcdefgh"),
        np.frombuffer(b"abcdefgh", "u1"),
        np.frombuffer(b"abcdefgh", ">u4"),
        np.frombuffer(b"abcdefgh", "u1").reshape(2, 4),
        Bytes(b"abcdefgh"),
        room,
        tenon.from_dlpack(np.frombuffer(bytearray(b"abcdefgh"), "u1")),
    ]


@pytest.mark.parametrize("index", range(len(buffers())))
def test_buffers(kinds, index):
    data = buffers()[index]
    before = sys.getrefcount(data)
    assert kinds.bytes_(data) == b"abcdefgh"
    assert kinds.bytes_unlocked(data=data) == b"abcdefgh"
    assert sys.getrefcount(data) == before


def test_bytes_of_a_dtype_without_a_buffer_format(kinds):
    moments = np.array(["2026-01-01", "1970-01-01"], "M8[s]")
    assert kinds.bytes_(moments) == moments.tobytes()


def test_bytes_are_not_copied(kinds):
    x = np.zeros(100, "u1")
    assert kinds.address(x) == x.ctypes.data
    assert kinds.address(memoryview(x)[10:]) == x.ctypes.data + 10


def test_a_buffer_is_released(kinds):
    data = bytearray(b"abc")
    assert kinds.xored(data) == ord("a") ^ ord("b") ^ ord("c")
    data.append(1)  # a buffer that is still exported would refuse
    with pytest.raises(TypeError):
        kinds.bytes_(data, 1)
    data.append(2)
    room = mmap.mmap(-1, 8)
    kinds.xored(room)
    room.close()


def test_bytes_in_memory_that_is_written(kinds):
    x = np.zeros(16, np.uint8)
    shared = r"argument '{}' shares memory with argument 'data' and is written to"
    for data in (x, memoryview(x)[3:5], x[15:]):
        with pytest.raises(ValueError, match=shared.format("x")):
            kinds.overwrite(x, data)
        with pytest.raises(ValueError, match=shared.format(r"xs\[1\]")):
            kinds.overwrite_all([np.zeros(3, np.uint8), x], data)
        with pytest.raises(ValueError, match=shared.format("out")):
            kinds.into(data, 16, out=x)
        kinds.overwrite_alias(x, data)
    kinds.overwrite(x[:8], x[8:])
    kinds.overwrite(x, b"")
    kinds.overwrite_all([x[:8]], x[8:])
    assert kinds.into(x[:0], 16, out=x) is x


def test_bad_bytes(kinds):
    start = "bytes_(): argument 'data': expected bytes?, "
    refused(kinds.bytes_, TypeError, start + "got str", "text")
    refused(kinds.bytes_, TypeError, start + "got int", 3)
    refused(kinds.bytes_, TypeError, start + "got list", [1, 2])
    gaps = start + "that is, a buffer without gaps in C order, got "
    with pytest.raises((BufferError, ValueError)) as caught:
        kinds.bytes_(np.zeros((4, 4), "u1")[:, ::2])
    assert str(caught.value).startswith(gaps + "numpy.ndarray: ")
    with pytest.raises(BufferError) as caught:
        kinds.bytes_(memoryview(b"abcdef")[::2])
    assert str(caught.value).startswith(gaps + "memoryview: ")
    released = memoryview(b"abc")
    released.release()
    with pytest.raises(ValueError, match="released"):
        kinds.bytes_(released)


def test_bytes_of_objects(kinds):
    """The addresses of Python objects are not data."""
    message = "bytes_(): argument 'data': expected bytes?, got a buffer of Python objects"
    objects = np.array([object(), None], dtype=object)
    count = sys.getrefcount(objects)
    for data in (objects, memoryview(objects), np.zeros(2, [("number", "i8"), ("thing", "O")])):
        refused(kinds.bytes_, TypeError, message, data)
    del data
    assert sys.getrefcount(objects) == count
    other = np.array([(1, 2.0)], [("Offset", "i8"), ("O", "f8")])
    assert kinds.bytes_(other) == other.tobytes()
    assert kinds.bytes_(np.arange(3.0)) == np.arange(3.0).tobytes()


def test_bytes_results(kinds):
    assert kinds.twice() == b"second"
    with pytest.raises(ValueError, match=r"fails\(\): after the bytes"):
        kinds.fails()
    with pytest.raises(MemoryError):
        kinds.huge()
    refused(kinds.unset, RuntimeError, "unset(): the function returned without setting result 0")


def test_references_of_bytes(kinds):
    data = Bytes(b"x" * 1000)
    before = sys.getrefcount(data)
    result = kinds.bytes_(data)
    fresh = b"".join([b"x", b"y" * 999])
    assert sys.getrefcount(data) == before
    assert sys.getrefcount(result) == sys.getrefcount(fresh)


# ------------------------------------------------------------------------------------------------ strings and paths


class Path:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


def test_paths(kinds):
    assert kinds.str_("text") == "text"
    assert kinds.str_(pathlib.PurePosixPath("/a/ü")) == "/a/ü"
    assert kinds.str_(Path("x" * 1000)) == "x" * 1000
    assert kinds.str_(Path(b"bytes")) == "bytes"
    refused(kinds.str_, TypeError, "str_(): argument 'path': expected str, got bytes", b"x")
    refused(kinds.str_, TypeError, "str_(): argument 'path': expected str, got int", 3)
    with pytest.raises(TypeError, match="__fspath__"):
        kinds.str_(Path(3))
    with pytest.raises(ValueError, match=r"str_\(\): argument 'path': expected a string that UTF-8 can encode"):
        kinds.str_(Path("\ud800"))


def test_strs(kinds):
    assert kinds.strs_(["x", "", "ü\0"]) == (["x", "", "ü\0"], 3)
    assert kinds.strs_() == (["a", "b"], 2)
    assert kinds.strs_(()) == ([], 0)
    assert kinds.strs_(collections.deque("ab")).names == ["a", "b"]
    assert type(kinds.strs_(("x",)).names) is list
    many = [str(i) for i in range(10000)]
    assert kinds.strs_(many).names == many


class Endless:
    """Its items go on after its length."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        if i > 100:
            raise KeyError("too far")
        return f"s{i}"


def test_strs_are_as_many_as_their_length_says(kinds):
    assert kinds.strs_(Endless()).names == ["s0", "s1", "s2"]
    refused(kinds.strs_, TypeError, "strs_(): argument 'names': expected strs, got collections.UserDict",
            collections.UserDict({0: "a"}))


def test_bad_strs(kinds):
    start = "strs_(): argument 'names': expected strs, got "
    for value, name in (("text", "str"), (b"x", "bytes"), ({"a": 1}, "dict"), (3, "int"), (iter("a"), "str_iterator")):
        with pytest.raises(TypeError) as caught:
            kinds.strs_(value)
        assert str(caught.value).startswith(start) and "argument" in str(caught.value), name
    refused(kinds.strs_, TypeError, start + "numpy.ndarray", np.zeros(3))
    refused(kinds.strs_, TypeError, "strs_(): argument 'names[1]': expected str, got int", ["a", 1])
    with pytest.raises(ValueError, match=r"strs_\(\): argument 'names\[2\]': expected a string that UTF-8 can encode"):
        kinds.strs_(["a", "b", "\udcff"])


def test_a_list_that_changes(kinds):
    """The strings are those of the list when it was read."""

    class Changing(list):
        def __getitem__(self, i):
            self.clear()
            return "x" * 50 + str(i)

    assert kinds.strs_(Changing(["a", "b"])).names == ["x" * 50 + "0", "x" * 50 + "1"]


# ----------------------------------------------------------------------------------------------------- list results


def test_lists_of_numbers(kinds):
    assert kinds.ints_([1, -2, 2**63 - 1]) == [1, -2, 2**63 - 1]
    assert kinds.floats_([0.5, 2]) == [0.5, 2.0]
    assert kinds.ints_([]) == kinds.floats_([]) == []
    assert type(kinds.ints_([1])) is list
    assert kinds.ints_3((1, 2, 3)) == [1, 2, 3]
    refused(
        kinds.ints_3,
        RuntimeError,
        "ints_3(): the function set result 0 to a list of 2 numbers, but it is ints[3]",
        (1, 2),
    )


def test_optional_results(kinds):
    assert kinds.none_set() == (None,) * 6
    refused(
        kinds.not_utf8, RuntimeError, "not_utf8(): the function set result 0 to a string that is not UTF-8"
    )


def test_checked(kinds):
    was = tenon.check(True)
    try:
        assert kinds.bytes_(b"abc") == b"abc"
        assert kinds.strs_(["a"]).names == ["a"]
        assert kinds.zeros(2, "f64").tolist() == [0, 0]
    finally:
        tenon.check(was)


# ------------------------------------------------------------------------------------------------- stubs and pages


def test_stubs_and_pages(kinds):
    from tenon._describe_library import as_markdown
    from tenon._stubs import stub

    text = stub(kinds, "kinds.so")
    for line in (
        "def uint_(a: Union[SupportsIndex, _Bits] = ...) -> int:",
        "def complex_(a: Union[SupportsComplex, SupportsFloat, SupportsIndex] = ...) -> complex:",
        "def choice(k: Optional[Literal[1, 2, -4]] = ...) -> int:",
        "def dtype_(t: Optional[Any] = ...) -> int:",
        "def bytes_(data: Optional[Union[Buffer, _Array]] = ...) -> Optional[bytes]:",
        "def str_(path: Union[str, PathLike[str]]) -> str:",
        "def strs_(names: Sequence[str] = ...) ->",
        "def ints_3(k: _Ints) -> list[int]:",
        "def floats_(k: _Floats) -> list[float]:",
        "from os import PathLike",
        "from typing_extensions import Buffer",
    ):
        assert line in text, line
    assert "names: list[str]" in text
    page = as_markdown(kinds)
    assert "one of these integers" in page and "bytes, or a buffer" in page and "a dtype" in page


def test_descriptions(kinds):
    parameters = [f.__self__.parameters[0] for f in (kinds.choice, kinds.dtype_, kinds.bytes_, kinds.strs_)]
    assert [p["kind"] for p in parameters] == ["int", "dtype", "bytes", "strs"]
    assert parameters[0]["choices"] == (1, 2, -4)
    assert [p["default"] for p in parameters] == ["2", "'f32'", "None", "('a', 'b')"]
