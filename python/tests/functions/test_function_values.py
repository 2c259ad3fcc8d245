"""What becomes of each kind of argument that is no tensor, and what is said of the wrong ones."""

import collections
import decimal
import enum
import fractions
import math
import operator
import sys
import types
import warnings

import pytest
from building import refused, same_counts
from handmade import KINDS, Echo

BIGGEST, SMALLEST = 2**63 - 1, -(2**63)


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


class Float:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


class OnDevice:
    """A number in a tensor on another device, as a framework would have it."""

    def __dlpack_device__(self):
        return 2, 1

    def __index__(self):
        raise AssertionError("asked for its value, which waits for the device")

    __float__ = __index__


class Text(str):
    pass


class Color(str, enum.Enum):
    MEAN = "mean"


# ------------------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize("value", [0, 1, -1, BIGGEST, SMALLEST, True, Index(5), Index(SMALLEST)])
def test_int(value):
    echo = Echo("f(a: int)")
    assert echo.value(value) == value.__index__()
    assert KINDS[echo.seen["args"][0]["kind"]] == "int"


@pytest.mark.parametrize("value", [BIGGEST + 1, SMALLEST - 1, 10**100, Index(2**64), -(10**100)])
def test_int_overflow(value):
    got = "larger" if value.__index__() > 0 else "smaller"
    message = f"f(): argument 'a': expected an integer from -2**63 to 2**63 - 1, got a {got} one"
    refused(Echo("f(a: int)"), OverflowError, message, value)


@pytest.mark.parametrize(
    "value, name",
    [
        (1.0, "float"),
        ("1", "str"),
        (None, "NoneType"),
        (b"1", "bytes"),
        ([1], "list"),
        (1j, "complex"),
        (Float(1.0), f"{__name__}.Float"),
        (decimal.Decimal(1), "decimal.Decimal"),
        (fractions.Fraction(1), "fractions.Fraction"),
        (int, "type"),
    ],
)
def test_int_of_the_wrong_kind(value, name):
    refused(Echo("f(a: int)"), TypeError, f"f(): argument 'a': expected int, got {name}", value)


@pytest.mark.parametrize(
    "value",
    [
        0,
        -3,
        2**53 + 1,
        True,
        0.1,
        -0.0,
        math.inf,
        5e-324,
        Index(4),
        Float(0.25),
        decimal.Decimal("0.5"),
        fractions.Fraction(1, 3),
    ],
)
def test_float(value):
    got = Echo("f(a: float)").value(value)
    expected = float(value)
    assert got == expected and math.copysign(1, got) == math.copysign(1, expected)


def test_float_nan():
    assert math.isnan(Echo("f(a: float)").value(math.nan))


def test_float_overflow():
    refused(Echo("f(a: float)"), OverflowError, "f(): argument 'a': the integer is too large for a float", 10**400)


@pytest.mark.parametrize("value, name", [("1", "str"), (None, "NoneType"), ([1.0], "list"), (float, "type")])
def test_float_of_the_wrong_kind(value, name):
    refused(Echo("f(a: float)"), TypeError, f"f(): argument 'a': expected float, got {name}", value)


def test_float_of_a_complex_number():
    with pytest.raises(TypeError):
        Echo("f(a: float)")(1j)


@pytest.mark.parametrize("value", [True, False])
def test_bool(value):
    echo = Echo("f(a: bool)")
    assert echo.value(value) is value
    assert KINDS[echo.seen["args"][0]["kind"]] == "bool"


@pytest.mark.parametrize(
    "value, name", [(1, "int"), (0.0, "float"), ("True", "str"), (None, "NoneType"), (Index(1), f"{__name__}.Index")]
)
def test_bool_of_the_wrong_kind(value, name):
    refused(Echo("f(a: bool)"), TypeError, f"f(): argument 'a': expected bool, got {name}", value)


@pytest.mark.parametrize("signature", ["f(a: int)", "f(a: float)", "f(a: ints)", "f(a: floats)"])
def test_number_on_a_device(signature):
    """Reading it would wait for the device behind the caller's back."""
    is_list = "ints" in signature or "floats" in signature
    value, name = ([1, OnDevice()], "a[1]") if is_list else (OnDevice(), "a")
    message = f"f(): argument '{name}': expected a number, got a tensor on cuda:1; fetch it with x.item()"
    refused(Echo(signature), TypeError, message, value)


# ---------------------------------------------------------------------------------------------- exceptions of others


class Mine(Exception):
    pass


@pytest.mark.parametrize(
    "error",
    [
        Mine("mine"),
        KeyboardInterrupt(),
        SystemExit(3),
        ValueError("theirs"),
        TypeError("theirs"),
        RecursionError("deep"),
        MemoryError(),
    ],
)
@pytest.mark.parametrize(
    "signature, make",
    [
        ("f(a: int)", Index),
        ("f(a: float)", Float),
        ("f(a: float)", Index),
        ("f(a: ints)", lambda error: [1, Index(error)]),
        ("f(a: floats)", lambda error: (Float(error),)),
    ],
)
def test_exception_of_a_number(signature, make, error):
    value, args = make(error), error.args
    with same_counts(value):
        with pytest.raises(type(error)) as caught:
            Echo(signature)(value)
        assert caught.value is error and error.args == args
        del caught
        error.__traceback__ = None


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have notes from Python 3.11 on")
@pytest.mark.parametrize("error", [Mine, KeyboardInterrupt, TypeError])
def test_note_of_an_exception(error):
    for signature, make in (("f(a: int)", Index), ("f(a: float)", Float), ("f(a: ints)", lambda error: [Index(error)])):
        with pytest.raises(error) as caught:
            Echo(signature)(make(error()))
        assert caught.value.__notes__ == ["f(): argument 'a'"]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("kind", ["int", "float", "ints", "floats"])
def test_array_that_is_not_a_number(framework, kind):
    """What the framework says, after the function and the argument."""
    module = pytest.importorskip(framework)
    given, name = module.ones(2), {"numpy": "numpy.ndarray", "torch": "torch.Tensor"}[framework]
    echo, convert = Echo(f"f(a: {kind})"), float if "float" in kind else operator.index
    with pytest.raises((TypeError, ValueError, RuntimeError)) as own:
        convert(given)
    with pytest.raises(type(own.value)) as caught:
        echo([given] if kind.endswith("s") else given)
    argument = "a[0]" if kind.endswith("s") else "a"
    assert str(caught.value) == f"f(): argument '{argument}': expected {kind.rstrip('s')}, got {name}: {own.value}"
    assert type(caught.value.__context__) is type(own.value)


def test_index_that_gives_no_integer():
    with pytest.raises(TypeError, match="__index__ returned non-int"):
        Echo("f(a: int)")(Index("3"))
    with pytest.raises(TypeError, match="__float__ returned non-float"):
        Echo("f(a: float)")(Float("3"))


def test_device_that_cannot_be_told():
    class Odd(Index):
        def __dlpack_device__(self):
            return self.answer

    number = Odd(4)
    number.answer = [1, 0]  # no tuple: not DLPack's
    assert Echo("f(a: int)").value(number) == 4
    number.answer = ("cuda", 0)
    with pytest.raises(TypeError):
        Echo("f(a: int)")(number)


# --------------------------------------------------------------------------------------------------- text and choices


@pytest.mark.parametrize("value", ["", "text", "caf\u00e9", "\U0001f600", "with\0zero", Text("sub"), "x" * 5000])
def test_str(value):
    assert Echo("f(a: str)").value(value) == value


@pytest.mark.parametrize("value, name", [(b"x", "bytes"), (1, "int"), (None, "NoneType"), (["x"], "list")])
def test_str_of_the_wrong_kind(value, name):
    refused(Echo("f(a: str)"), TypeError, f"f(): argument 'a': expected str, got {name}", value)


def test_str_without_utf8():
    with pytest.raises(ValueError) as caught:
        Echo("f(a: str)")("x\ud800")
    assert type(caught.value) is ValueError and type(caught.value.__context__) is UnicodeEncodeError
    assert str(caught.value).startswith("f(): argument 'a': expected a string that UTF-8 can encode; ")
    assert "position 1" in str(caught.value)


@pytest.mark.parametrize(
    "value, index", [("mean", 0), ("sum", 1), ("", 2), ("caf\u00e9", 3), (Text("sum"), 1), (Color.MEAN, 0)]
)
def test_enum(value, index):
    echo = Echo("f(a: 'mean'|\"sum\"|''|'caf\u00e9')")
    assert echo.value(value) == index
    assert KINDS[echo.seen["args"][0]["kind"]] == "enum"


@pytest.mark.parametrize("value", ["means", "mea", "Mean", " mean", "mean\0", "caf", "caf\u00c3\u00a9"])
def test_enum_without_such_a_choice(value):
    message = f"f(): argument 'a': expected 'mean'|'caf\u00e9', got {value!r}"
    refused(Echo("f(a: 'mean'|'caf\u00e9')"), ValueError, message, value)


def test_enum_of_a_lone_surrogate():
    message = "f(): argument 'a': expected 'mean'|'sum', got '\\ud800'"
    refused(Echo("f(a: 'mean'|'sum')"), ValueError, message, "\ud800")


@pytest.mark.parametrize("value, name", [(0, "int"), (b"mean", "bytes"), (None, "NoneType")])
def test_enum_of_the_wrong_kind(value, name):
    refused(Echo("f(a: 'mean'|'sum')"), TypeError, f"f(): argument 'a': expected 'mean'|'sum', got {name}", value)


# -------------------------------------------------------------------------------------------------------------- lists


@pytest.mark.parametrize("value", [[], [1], (1, -2, BIGGEST), range(3), [Index(7), True], list(range(500))])
def test_ints(value):
    assert Echo("f(a: ints)").value(value) == [int(number.__index__()) for number in value]


@pytest.mark.parametrize("value", [[], [0.5], (1, Index(2), Float(-0.5), math.inf), range(3)])
def test_floats(value):
    assert Echo("f(a: floats)").value(value) == [float(number) for number in value]


@pytest.mark.parametrize("length", [1, 3])
def test_lists_of_a_length(length):
    for kind, number in (("ints", 2), ("floats", 2.5)):
        echo = Echo(f"f(a: {kind}[{length}])")
        assert echo.value([number] * length) == [number] * length
        for wrong in (0, length - 1, length + 1):
            if wrong != length:
                message = f"f(): argument 'a': expected {kind}[{length}], got {wrong} number{'s' * (wrong != 1)}"
                refused(echo, ValueError, message, [number] * wrong)


@pytest.mark.parametrize(
    "value, name",
    [
        ("12", "str"),
        (b"12", "bytes"),
        (bytearray(2), "bytearray"),
        ({1: 2}, "dict"),
        ({1, 2}, "set"),
        (3, "int"),
        (None, "NoneType"),
        (iter([1]), "list_iterator"),
    ],
)
@pytest.mark.parametrize("kind", ["ints", "floats"])
def test_lists_of_the_wrong_kind(kind, value, name):
    refused(Echo(f"f(a: {kind})"), TypeError, f"f(): argument 'a': expected {kind}, got {name}", value)


def test_lists_with_a_wrong_item():
    refused(Echo("f(a: ints)"), TypeError, "f(): argument 'a[1]': expected int, got float", [1, 2.0])
    refused(Echo("f(a: ints[2])"), TypeError, "f(): argument 'a[1]': expected int, got str", [1, "2"])
    refused(Echo("f(a: ints?)"), TypeError, "f(): argument 'a[0]': expected int, got list", [[1]])
    refused(Echo("f(a: floats)"), TypeError, "f(): argument 'a[1]': expected float, got NoneType", [1, None])
    refused(Echo("f(a: floats)"), TypeError, "f(): argument 'a[999]': expected float, got complex", [0.5] * 999 + [1j])
    message = "f(): argument 'a[2]': expected an integer from -2**63 to 2**63 - 1, got a larger one"
    refused(Echo("f(a: ints)"), OverflowError, message, [0, -(2**63), 2**63])
    message = "f(): argument 'a[1]': the integer is too large for a float"
    refused(Echo("f(a: floats)"), OverflowError, message, (1, 10**400))
    name = "a" * 31  # the longest
    refused(Echo(f"f({name}: ints)"), TypeError, f"f(): argument '{name}[12]': expected int, got str", [1] * 12 + ["2"])


class Endless:
    """A sequence without an end, which counts what is read of it."""

    def __init__(self, length=None):
        self.length, self.read = length, 0

    def __len__(self):
        if self.length is None:
            raise TypeError("it has no length")
        return self.length

    def __getitem__(self, index):
        self.read += 1
        return index


@pytest.mark.parametrize("kind", ["ints", "floats"])
def test_no_more_is_read_than_there_may_be(kind):
    echo = Echo(f"f(a: {kind}[2])")
    refused(echo, ValueError, f"f(): argument 'a': expected {kind}[2], got 1000000000 numbers", range(10**9))
    for length, told in ((None, "at least 3"), (2, "at least 3"), (7, "7")):
        numbers = Endless(length)
        refused(echo, ValueError, f"f(): argument 'a': expected {kind}[2], got {told} numbers", numbers)
        assert numbers.read == 3
    refused(echo, ValueError, f"f(): argument 'a': expected {kind}[2], got 1 number", range(1))
    assert echo.value(range(2)) == [0, 1]


@pytest.mark.parametrize("kind", ["ints", "floats"])
def test_no_more_is_read_than_the_list_has(kind):
    numbers = Endless(2)
    assert Echo(f"f(a: {kind})").value(numbers) == [0, 1]
    assert numbers.read == 2
    with pytest.raises(TypeError, match="it has no length"):
        Echo(f"f(a: {kind})").value(Endless())


def full_name(value):
    module = type(value).__module__
    return type(value).__qualname__ if module == "builtins" else f"{module}.{type(value).__qualname__}"


@pytest.mark.parametrize("kind", ["ints", "floats"])
def test_mappings_are_not_lists(kind):
    for mapping in (collections.UserDict({0: 7}), collections.ChainMap({0: 7}), types.MappingProxyType({0: 7}), {0: 7}):
        refused(Echo(f"f(a: {kind})"), TypeError, f"f(): argument 'a': expected {kind}, got {full_name(mapping)}", mapping)


@pytest.mark.parametrize("kind", ["ints", "floats", "ints[2]"])
def test_arrays_of_other_dimensions_are_not_lists(kind):
    numpy = pytest.importorskip("numpy")
    arrays = [numpy.float32(3), numpy.array(3), numpy.zeros((0, 3)), numpy.zeros((2, 2), int), numpy.void(b"abcd")]
    for array in [*arrays, numpy.zeros((), "i4,i4")[()], memoryview(numpy.zeros((2, 2)))]:
        refused(Echo(f"f(a: {kind})"), TypeError, f"f(): argument 'a': expected {kind}, got {full_name(array)}", array)
    assert Echo("f(a: floats)").value(numpy.array([1.5, 2.5])) == [1.5, 2.5]


def test_int_of_a_bool_of_numpy():
    numpy = pytest.importorskip("numpy")
    echo = Echo("f(a: int)")
    assert [echo.value(value) for value in (True, numpy.True_, numpy.False_)] == [1, 1, 0]
    assert Echo("f(a: ints)").value(numpy.array([True, False])) == [1, 0]


def test_list_that_changes_while_it_is_read():
    class Shrinks:
        def __index__(self):
            numbers.clear()
            return 1

    numbers = [Shrinks(), 2, 3]
    assert Echo("f(a: ints)").value(numbers) == [1, 2, 3]


def test_sequence_that_fails():
    class Broken:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            raise Mine(index)

    with pytest.raises(Mine):
        Echo("f(a: ints)")(Broken())


# ----------------------------------------------------------------------------------------------- optional and default

OPTIONAL = ["int", "float", "bool", "str", "'a'|'b'", "ints", "floats", "ints[2]", "handle('H')", "f32[n]", "f32[n] rw"]


@pytest.mark.parametrize("kind", OPTIONAL)
def test_optional(kind):
    kind, _, attribute = kind.partition(" ")
    for default in ("", " = None"):
        echo = Echo(f"f(a: {kind}? {attribute}{default}, *, b: {kind}? {attribute}{default})")
        for call in (lambda: echo(), lambda: echo(None), lambda: echo(a=None, b=None)):
            call()
            assert [KINDS[argument["kind"]] for argument in echo.seen["args"]] == ["none", "none"]
        echo()
        assert [argument["flags"] for argument in echo.seen["args"]] == [1, 1]
        echo(None)
        assert [argument["flags"] for argument in echo.seen["args"]] == [0, 1]


@pytest.mark.parametrize("kind", OPTIONAL)
def test_none_is_for_what_is_optional(kind):
    echo = Echo(f"f(a: {kind})")
    refused(echo, TypeError, f"f(): argument 'a': expected {kind}, got NoneType", None)
    with pytest.raises(TypeError, match=r"f\(\) missing 1 required positional argument: 'a'"):
        echo()


@pytest.mark.parametrize(
    "text, value",
    [
        ("int = 3", 3),
        ("int = -9223372036854775808", SMALLEST),
        ("int? = 4", 4),
        ("float = 1", 1.0),
        ("float = -2.5e3", -2500.0),
        ("float = 1e-5", 1e-5),
        ("bool = True", True),
        ("bool = False", False),
        ("str = 'x y'", "x y"),
        ('str = ""', ""),
        ("'a'|'b' = 'b'", 1),
        ("'a'|'b'? = 'a'", 0),
        ("ints = (1, 2)", [1, 2]),
        ("ints = ()", []),
        ("ints = (5,)", [5]),
        ("ints = [5]", [5]),
        ("ints[2] = (1, -2)", [1, -2]),
        ("floats = (1, 2.5)", [1.0, 2.5]),
        ("floats[1] = (0.5,)", [0.5]),
        ("bool? = False", False),
        ("str = 'caf\u00e9'", "caf\u00e9"),
    ],
)
def test_default(text, value):
    echo = Echo(f"f(a: {text})")
    got = echo.value()
    assert got == value and type(got) is type(value)
    assert echo.seen["args"][0]["flags"] == 1
    if "?" in text:
        echo(None)
        assert KINDS[echo.seen["args"][0]["kind"]] == "none"


def test_given_value_is_not_marked_as_default():
    echo = Echo("f(a: int = 3)")
    assert echo.value(3) == 3
    assert echo.seen["args"][0]["flags"] == 0


# ---------------------------------------------------------------------------------------------------- NumPy's and JAX's


def test_numpy_scalars():
    numpy = pytest.importorskip("numpy")
    integer, number, truth = Echo("f(a: int)"), Echo("f(a: float)"), Echo("f(a: bool)")
    for kind in "bhilqBHILQ":
        assert integer.value(numpy.dtype(kind).type(7)) == 7
        assert number.value(numpy.dtype(kind).type(7)) == 7.0
    for kind in "efd":
        assert number.value(numpy.dtype(kind).type(0.5)) == 0.5
        with pytest.raises(TypeError, match=r"expected int, got numpy\.float"):
            integer(numpy.dtype(kind).type(1))
    message = "f(): argument 'a': expected an integer from -2**63 to 2**63 - 1, got a larger one"
    refused(integer, OverflowError, message, numpy.uint64(2**63))
    assert truth.value(numpy.True_) is True and truth.value(numpy.False_) is False
    assert Echo("f(a: str)").value(numpy.str_("x")) == "x"
    assert Echo("f(a: 'a'|'b')").value(numpy.str_("b")) == 1
    with pytest.raises(TypeError, match="expected bool, got numpy"):
        truth(numpy.int64(1))


def test_numpy_arrays_as_numbers():
    numpy = pytest.importorskip("numpy")
    assert Echo("f(a: int)").value(numpy.array(7)) == 7
    assert Echo("f(a: float)").value(numpy.array(0.5)) == 0.5
    assert Echo("f(a: ints)").value(numpy.array([1, 2, 3], "int16")) == [1, 2, 3]
    assert Echo("f(a: floats)").value(numpy.array([1, 2.5])) == [1.0, 2.5]
    for signature in ("f(a: int)", "f(a: float)"):
        with pytest.raises(TypeError):
            Echo(signature)(numpy.zeros(3))
    with pytest.raises(TypeError):
        Echo("f(a: int)")(numpy.array(0.5))
    with pytest.raises(TypeError):
        Echo("f(a: ints)")(numpy.zeros((2, 2), int))
    with pytest.raises(TypeError):
        Echo("f(a: ints)")(numpy.array(3))


def test_float_loses_no_imaginary_part():
    """Not silently: NumPy warns."""
    numpy = pytest.importorskip("numpy")
    for number in (numpy.complex64(1 + 2j), numpy.array(1 + 2j)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises((TypeError, Warning)):
                Echo("f(a: float)")(number)


def test_jax_numbers():
    jnp = pytest.importorskip("jax.numpy")
    assert Echo("f(a: int)").value(jnp.array(7)) == 7
    assert Echo("f(a: float)").value(jnp.array(0.5)) == 0.5
