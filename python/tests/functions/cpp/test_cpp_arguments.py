"""Functions of function.hpp: every kind of argument and result, and generic lambdas."""

import gc
import subprocess
import sys

import pytest
from building import ROOT, build_cpp, refused, tenon

numpy = pytest.importorskip("numpy")

ISSUE = """
    #include <tenon/function.hpp>

    static void saxpy(double a, tenon::in<float, 1> x, tenon::in<float, 1> y, tenon::out<float, 1> z)
    {
        for (int64_t i = 0; i < x.size(); i++)
            z(i) = a * x(i) + y(i);
    }

    TENON_CPP_MODULE(kernels, "Kernels written once.",
        TENON_CPP("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."))
"""


def test_the_first_example():
    file = build_cpp(ISSUE, name="kernels.so")
    kernels = tenon.load(file)
    x = numpy.arange(5, dtype="f4")
    assert kernels.saxpy(2.0, x, numpy.ones(5, "f4")).tolist() == [1, 3, 5, 7, 9]
    assert kernels.__doc__.startswith("Kernels written once.")
    assert kernels.saxpy.__doc__.startswith("Returns a*x + y.")
    with pytest.raises(TypeError, match=r"saxpy\(\): argument 'x': expected f32\[n\], got f64\[1\]"):
        kernels.saxpy(2.0, numpy.zeros(1), numpy.ones(1, "f4"))


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_a_library_exports_one_symbol(level):
    """Two libraries with two versions of the headers share nothing, not even without -fvisibility=hidden."""
    file = build_cpp(ISSUE, level, name=f"exports{level}.so")
    shown = subprocess.run(["nm", "-D", "--defined-only", str(file)], stdout=subprocess.PIPE, text=True, check=True)
    assert [line.split()[-1] for line in shown.stdout.splitlines()] == ["tenon_module_v1"]


def test_tensors(kinds):
    x, y = numpy.arange(6, dtype="f4"), numpy.arange(6, 12, dtype="f4")
    assert kinds.saxpy(2, x, y).tolist() == (2 * x + y).tolist()
    assert kinds.dot(x[::2], y[::-2]) == float(x[::2] @ y[::-2])
    square = numpy.arange(6.0).reshape(2, 3)
    assert (kinds.transpose(square) == square.T).all()
    assert (kinds.transpose(square.T) == square).all()
    assert (kinds.transpose(square[:, ::-1]) == square[:, ::-1].T).all()
    out = numpy.empty((3, 2))
    assert kinds.transpose(square, out=out) is out and (out == square.T).all()
    numbers = numpy.arange(6, dtype="i4")
    assert kinds.clear(numbers[::2]) is None and numbers.tolist() == [0, 1, 0, 3, 0, 5]
    refused(kinds.clear, ValueError, "clear(): expected one dimension, got 2", numpy.zeros((2, 2), "i4"))
    assert kinds.sum(numpy.array([1 + 2j, 3 - 1j])).tolist() == [4, 1]
    assert kinds.scalar(numpy.float32(2.5)) == 3.5
    assert kinds.bytes_of(numpy.zeros((2, 3), "f8")) == 48 and kinds.bytes_of(numpy.zeros((), "i2")) == 2
    assert kinds.dot(x[:0], y[:0]) == 0 and kinds.saxpy(2, x[:0], y[:0]).shape == (0,)


def test_no_copy(kinds):
    x = numpy.zeros((4, 6), "f4")[::2, ::3]
    assert kinds.address(x) == (x.ctypes.data, 12, 3)
    assert kinds.address(x.T) == (x.ctypes.data, 3, 12)


def test_optional_tensors(kinds):
    assert kinds.first() is None
    assert kinds.first(numpy.array([2.5], "f4")) == 2.5
    assert kinds.first(None, numpy.array([3])) == 3.0


def test_values(kinds):
    text = kinds.describe(-3, True, "säy", "vïew", "c", "max", [1, 2, 3], (0.5, 1))
    assert text == "-3 yes säy/vïew/c max 3 1.500000 none none"
    text = kinds.describe(1, False, "", "", "", "sum", [], (0, 0), 2.5, "t")
    assert text == "1 no // sum 0 0.000000 2.500000 t"
    assert kinds.how("sum") == "max" and kinds.how("max") == "sum"
    assert kinds.half(5) == 2 and kinds.half(-1) is None
    assert kinds.is_empty("") and not kinds.is_empty("x") and not kinds.is_empty(None)
    assert kinds.large(2**63 - 1) == 2**63 - 1
    refused(kinds.large, OverflowError, "large(): result 0: 18446744073709551615 does not fit in 64 bits with a sign", -1)
    assert kinds.small(2**63 - 1) == 2**63 - 1
    refused(kinds.small, OverflowError, "small(): result 0: -1 is negative, but a uint is not", -1)


STRINGS = r"""
    #include <optional>
    #include <string_view>
    #include <tenon/stl.hpp>

    static int64_t calls;
    static int64_t measure(const char *s) { return calls++, static_cast<int64_t>(strlen(s)); }
    TENON_CPP_MODULE(strings, nullptr,
        TENON_CPP("measure(s: str) -> int", measure, ""),
        TENON_CPP("maybe(s: str?) -> int", [](const char *s) { return s ? measure(s) : -1; }, ""),
        TENON_CPP("optional(s: str?) -> int", [](std::optional<const char *> s) { return s ? measure(*s) : -1; }, ""),
        TENON_CPP("generic(x: T[n], s: str) -> int where T = f32|f64", [](auto, const char *s) { return measure(s); }, ""),
        TENON_CPP("generic_optional(x: T[n], s: str?) -> int where T = f32|f64",
            [](auto, std::optional<const char *> s) { return s ? measure(*s) : -1; }, ""),
        TENON_CPP("views(s: str) -> int", [](std::string_view s) { return calls++, s.size(); }, ""),
        TENON_CPP("calls() -> int", [] { return calls; }, ""))
"""


def test_strings_that_c_would_cut():
    """`const char *` has no length. The other types do, and keep the whole string."""
    strings = tenon.load(build_cpp(STRINGS, "-Wall", "-Wextra", "-Wconversion", "-Werror", name="strings.so"))
    x = numpy.zeros(2, "f4")
    for name, before in ("measure", ()), ("maybe", ()), ("optional", ()), ("generic", (x,)), ("generic_optional", (x,)):
        function, calls = getattr(strings, name), strings.calls()
        assert function(*before, "säy") == 4 and function(*before, "") == 0
        for wrong, byte in ("a\0c", 1), ("\0", 0), ("ä\0", 2):
            message = f"{name}(): argument 's': expected a string without '\\0', got one with it at byte {byte}"
            refused(function, ValueError, message, *before, wrong)
        assert strings.calls() == calls + 2
    assert strings.maybe(None) == strings.optional(None) == strings.generic_optional(x, None) == -1
    assert strings.views("a\0c") == 3


def test_several_results(kinds):
    x = numpy.arange(3, dtype="f4")
    result = kinds.several(x)
    assert result.doubled.tolist() == [0, 2, 4] and result.rows.tolist() == [0, 1, 2]
    assert (result.sum, result.text, result.any) == (3.0, "of 3", True)
    assert kinds.several(x[:0]).any is False


def test_every_dtype_of_a_variable(kinds):
    for name in "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8".split():
        x = numpy.arange(4, dtype=name).reshape(2, 2)
        scaled = kinds.scale(3, x)
        assert scaled.dtype == x.dtype and (scaled == x * x.dtype.type(3)).all()
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in "bfloat16 float8_e4m3fn float8_e5m2".split():
        x = numpy.array([0.5, 1, -2], getattr(ml_dtypes, name))
        assert kinds.scale(2, x).astype("f4").tolist() == [1, 2, -4]
    refused(kinds.scale, TypeError, "scale(): the function has no C++ type for the dtype of T", 2,
            numpy.zeros(3, ml_dtypes.float8_e3m4))


def test_two_variables(kinds):
    for name in "f4 f8 c8".split():
        for index in "i4 i8".split():
            x = numpy.array([1, 2, 3], name)
            taken = kinds.gather(x, numpy.array([2, 0, 7], index), fill=-1)
            assert taken.dtype == x.dtype and taken.tolist() == [3, 1, -1]


def test_a_variable_that_no_argument_has(kinds):
    y = numpy.ones(1, "f4")
    assert kinds.optional_type(y, numpy.full(1, 2.0)) == 3 and kinds.optional_type(y, y) == 2
    assert kinds.optional_type(y) > 1


def test_torch(kinds):
    torch = pytest.importorskip("torch")
    x = torch.arange(4.0)
    assert kinds.saxpy(2, x, x).tolist() == [0, 3, 6, 9]
    assert kinds.scale(2, x.bfloat16()).dtype is torch.bfloat16
    made = kinds.own(4, like=torch)
    assert made.tolist() == [0, 1, 2, 3]
    table = kinds.Table(torch.ones(2, 3))
    assert isinstance(table.rows(), numpy.ndarray) and len(table) == 2


def test_shape_function(kinds):
    x = numpy.arange(3, dtype="f4")
    assert kinds.repeat(x, 2).tolist() == [0, 0, 1, 1, 2, 2]
    refused(kinds.repeat, ValueError, "repeat(): times is negative", x, -1)


def test_services(kinds):
    assert kinds.scratch(1000) == 0
    x = numpy.zeros(5)
    kinds.parallel(x)
    assert x.tolist() == [1] * 5
    refused(kinds.parallel, IndexError, "parallel(): a bad index", x, 3)


def test_every_kind():
    """core/tests/test_cpp.cpp calls the same functions with a host of its own."""
    library = tenon.load(build_cpp(ROOT / "core/tests/headers/use_cpp.cpp"))
    assert library.use_uint(2**63) == 2**63 + 1
    assert library.use_complex(1 + 2j, 3 + 4j) == 4 - 2j
    assert library.use_bytes(b"abc", bytearray(b"xyz")) == b"xy"
    assert library.use_texts(["ab", "xyz"]) == 103
    assert library.use_dtype("f16") == 16
    assert library.return_ints([1, 2], [3, 4]) == [4, 6]
    assert library.return_texts("abc") == ["a", "abc"]


def test_state_of_a_library():
    """TENON_MODULE_STATE takes functions of C++, too; what `load` throws is the reason of the ImportError."""
    text = """
        #include <tenon/function.hpp>
        static tenon_status load(tenon_call *, void **state)
        {
            if (FAILS)
                throw tenon::error(TENON_EINVAL, "it is %d o'clock", 5);
            *state = new int64_t(41);
            return TENON_OK;
        }
        static void unload(void *state) { delete static_cast<int64_t *>(state); }
        TENON_MODULE_STATE(stateful, "Counts.", load, unload,
            TENON_CPP("next() -> int", [] { return ++*static_cast<int64_t *>(tenon::call()->state); }, "Counts."))
    """
    library = tenon.load(build_cpp(text, "-DFAILS=0", name="stateful.so"))
    assert [library.next(), library.next()] == [42, 43]
    with pytest.raises(ImportError, match="it is 5 o'clock"):
        tenon.load(build_cpp(text, "-DFAILS=1", name="failing.so"))


def test_references(kinds):
    x = numpy.zeros(4, "f4")
    before = sys.getrefcount(x)
    for _ in range(10):
        kinds.saxpy(1, x, x)
        kinds.several(x)
    gc.collect()
    assert sys.getrefcount(x) == before
