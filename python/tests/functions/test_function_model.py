"""Signatures made by chance, called with arrays that fit and arrays that do not, against a model of the rules: bind
all, check all in their order, make the results."""

import functools
import math
import sys

import pytest
from handmade import DTYPES, Echo

numpy = pytest.importorskip("numpy")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

TYPES = ["f32", "f64", "i32", "u8", "bool", "c64"]
NUMPY = {"f32": "float32", "f64": "float64", "i32": "int32", "u8": "uint8", "bool": "bool", "c64": "complex64"}
KINDS = {"real": {"f32", "f64", "i32", "u8"}, "integer": {"i32", "u8"}, "any": set(TYPES)}
NAMES, STARS, VARIABLES = ["n", "m", "k"], ["b", "s"], ["T", "U"]
MAX_BYTES = 1 << 20


def choices(words):
    """The dtypes that a list such as "f32|integer" allows."""
    return set().union(*(KINDS.get(word, {word}) for word in words.split("|")))


class Mismatch(Exception):
    def __init__(self, exception, argument):
        super().__init__(exception, argument)
        self.exception, self.argument = exception, argument


def evaluate(text, dims):
    return eval(text, {"__builtins__": {}}, dims)


def bind(params, where, args):
    """What the arguments say: sizes, shapes of stars, dtypes. The first to say something is right."""
    dims, stars, types = {}, {}, {}
    for (name, kind, spec), arg in zip(params, args):
        if kind == "int":
            dims.setdefault(name, arg)
            continue
        if arg is None:
            continue
        dtype, shape = spec
        if dtype in VARIABLES:
            types.setdefault(dtype, arg[0])
        places = place(shape, arg[1])
        for text, size in places or []:
            if text in NAMES:
                dims.setdefault(text, size)
            elif text[0] == "*":
                stars.setdefault(text, size)
    return dims, stars, types


def place(shape, sizes):
    """Each dimension of the signature with its size, or None where their numbers differ."""
    star = next((i for i, text in enumerate(shape) if text[0] == "*"), None)
    if star is None:
        return list(zip(shape, sizes)) if len(shape) == len(sizes) else None
    more = len(sizes) - (len(shape) - 1)
    if more < 0:
        return None
    return (
        list(zip(shape, sizes[:star]))
        + [(shape[star], tuple(sizes[star : star + more]))]
        + list(zip(shape[star + 1 :], sizes[star + more :]))
    )


def check(params, where, args, dims, stars, types):
    for (name, kind, spec), arg in zip(params, args):
        if kind == "int":
            if dims[name] != arg:
                raise Mismatch(ValueError, name)
            continue
        if arg is None:
            continue
        dtype, shape = spec
        allowed = choices(where[dtype]) if dtype in VARIABLES else choices(dtype)
        if arg[0] not in allowed or types.get(dtype, arg[0]) != arg[0]:
            raise Mismatch(TypeError, name)
        places = place(shape, arg[1])
        if places is None:
            raise Mismatch(ValueError, name)
        for text, size in places:
            if text == "_":
                continue
            try:
                wanted = stars[text] if text[0] == "*" else evaluate(text, dims)
            except ZeroDivisionError:
                raise Mismatch(OverflowError, name) from None
            except (KeyError, NameError):
                raise Mismatch(ValueError, name) from None
            if wanted != size:
                raise Mismatch(ValueError, name)


def results_of(results, dims, stars, types):
    """The dtype and shape of each result; a Mismatch where one has none."""
    made = []
    for dtype, shape in results:
        sizes = []
        try:
            for text in shape:
                sizes.extend(stars[text] if text[0] == "*" else [evaluate(text, dims)])
                if min(sizes, default=0) < 0:
                    raise Mismatch(ValueError, None)
            made.append((types[dtype] if dtype in VARIABLES else dtype, tuple(sizes)))
        except ZeroDivisionError:
            raise Mismatch(OverflowError, None) from None
        except (KeyError, NameError):
            raise Mismatch(ValueError, None) from None
    return made


# -------------------------------------------------------------------------------------------------- what is generated


# Hypothesis takes longer to make a strategy than to draw from it: each is made once.


@functools.lru_cache(maxsize=None)
def expressions(names):
    return st.recursive(
        st.sampled_from(names) | st.integers(0, 4).map(str),
        lambda inner: (
            st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
            | st.tuples(inner, st.integers(1, 3)).map(lambda t: f"({t[0]} - 3) // {t[1]}")
            | st.tuples(inner, st.sampled_from(names)).map(lambda t: f"({t[0]}) // {t[1]}")
        ),
        max_leaves=3,
    )


@functools.lru_cache(maxsize=None)
def lists_of_dims(names, kind):
    """Dimensions: "alone" binds the names, "checked" has everything but a star, "result" is what can be computed."""
    if kind == "alone":
        return st.lists(st.sampled_from(names) if names else st.just("_"), max_size=2)
    if kind == "checked":
        numbers = st.just("_") | st.integers(0, 3).map(str)
        return st.lists(st.sampled_from(names) | numbers | expressions(names), max_size=2)
    return st.lists(st.sampled_from(names) | expressions(names), max_size=3)


@functools.lru_cache(maxsize=None)
def dtypes(variables):
    return st.sampled_from(variables) | DTYPE_LISTS if variables else DTYPE_LISTS


DTYPE_LISTS = st.sampled_from(TYPES) | st.lists(
    st.sampled_from(TYPES + sorted(KINDS)), unique=True, min_size=1, max_size=3
).map("|".join)
SUBSETS = {
    "names": st.lists(st.sampled_from(NAMES), unique=True, min_size=1).map(tuple),
    "stars": st.lists(st.sampled_from(STARS), unique=True, max_size=1),
    "variables": st.lists(st.sampled_from(VARIABLES), unique=True),
}
STAR_SIZES = st.lists(st.integers(0, 3), max_size=2)


@st.composite
def signatures(draw):
    """(parameters, results, where clause); every name stands alone in some argument."""
    names, stars = draw(SUBSETS["names"]), draw(SUBSETS["stars"])
    where = {name: draw(DTYPE_LISTS) for name in draw(SUBSETS["variables"])}
    ints = draw(st.lists(st.sampled_from(names), unique=True, max_size=1))
    alone = tuple(name for name in names if name not in ints)
    params = [(name, "int", None) for name in ints]
    count = draw(st.integers(1, 3))
    for i in range(count):
        dims = draw(lists_of_dims(alone, "alone")) + draw(lists_of_dims(names, "checked"))
        if i == 0:  # binds whatever nothing else does
            dims += [name for name in alone if name not in dims]
        dims = draw(st.permutations(dims))
        if stars and (i == 0 or draw(st.booleans())):
            dims.insert(draw(st.integers(0, len(dims))), f"*{stars[0]}")
        dtype = draw(dtypes(tuple(sorted(where))))
        params.append((f"x{i}", draw(st.sampled_from(["tensor", "tensor", "optional"])), (dtype, dims)))
    for variable in where:
        if not any(spec and spec[0] == variable for _, _, spec in params):
            params.append((f"y{variable}", "tensor", (variable, [])))
    params = draw(st.permutations(params))
    results = []
    for _ in range(draw(st.integers(0, 2))):
        dims = draw(lists_of_dims(names, "result"))
        if stars and draw(st.booleans()):
            dims.insert(draw(st.integers(0, len(dims))), f"*{stars[0]}")
        results.append((draw(st.sampled_from(TYPES + sorted(where))), dims))
    return params, results, where


def text_of(params, results, where):
    shown = []
    for name, kind, spec in params:
        shown.append(f"{name}: int" if kind == "int" else f"{name}: {spec[0]}[{', '.join(spec[1])}]")
        if kind == "optional":
            shown[-1] += "?"
    # Behind what may be left out nothing is required, but after the star.
    text = f"f({', '.join(['*', *shown])})"
    if results:
        text += " -> " + ", ".join(f"{dtype}[{', '.join(dims)}]" for dtype, dims in results)
    if where:
        text += " where " + ", ".join(f"{name} = {words}" for name, words in where.items())
    return text


@st.composite
def arguments(draw, params, where):
    """Ones that fit, as a rule; then some of them are spoilt."""
    dims = {name: draw(st.integers(0, 4)) for name in NAMES}
    stars = {f"*{name}": draw(STAR_SIZES) for name in STARS}
    types = {name: draw(st.sampled_from(sorted(choices(words)))) for name, words in where.items()}
    args = []
    for name, kind, spec in params:
        if kind == "int":
            args.append(dims[name] + draw(st.sampled_from([0, 0, 0, 1, -5])))
            continue
        if kind == "optional" and draw(st.integers(0, 3)) == 0:
            args.append(None)
            continue
        sizes = []
        for text in spec[1]:
            try:
                sizes.extend(stars[text] if text[0] == "*" else [2] if text == "_" else [evaluate(text, dims)])
            except ZeroDivisionError:
                sizes.append(0)
        sizes = [min(max(size, 0), 20) for size in sizes]
        dtype = types[spec[0]] if spec[0] in VARIABLES else draw(st.sampled_from(sorted(choices(spec[0]))))
        spoilt = draw(st.integers(0, 15))
        if spoilt == 0:
            dtype = draw(st.sampled_from(TYPES))
        elif spoilt == 1:
            sizes.insert(draw(st.integers(0, len(sizes))), 1)
        elif spoilt == 2 and sizes:
            sizes.pop()
        elif spoilt == 3 and sizes:
            sizes[draw(st.integers(0, len(sizes) - 1))] = draw(st.integers(0, 4))
        if math.prod(sizes) > 4096:
            sizes = [min(size, 2) for size in sizes]
        args.append((dtype, tuple(sizes)))
    return args


# --------------------------------------------------------------------------------------------------------------- tests

seen = {"fits": 0, TypeError: 0, ValueError: 0, "result": 0}  # ValueError: or OverflowError, which is rare


@settings(deadline=None, max_examples=500, suppress_health_check=list(hypothesis.HealthCheck))
@given(signatures(), st.data())
def test_against_the_model(made, data):
    params, results, where = made
    text = text_of(*made)
    echo = Echo(text)
    for _ in range(3):
        args = data.draw(arguments(params, where))
        call(echo, text, params, results, where, args)


def call(echo, text, params, results, where, args):
    dims, stars, types = bind(params, where, args)
    try:
        check(params, where, args, dims, stars, types)
        expected = results_of(results, dims, stars, types)
        hypothesis.assume(all(math.prod(shape) * 16 < MAX_BYTES for _, shape in expected))
    except Mismatch as mismatch:
        expected = mismatch
    arrays = {
        name: arg if arg is None or kind == "int" else numpy.zeros(arg[1], NUMPY[arg[0]])
        for (name, kind, _), arg in zip(params, args)
    }
    note = (text, args)
    if isinstance(expected, Mismatch):
        kind = ValueError if expected.exception is OverflowError else expected.exception
        seen[kind if expected.argument else "result"] += 1
        with pytest.raises(expected.exception) as caught:
            echo(**arrays)
        told = f"f(): argument '{expected.argument}'" if expected.argument else "f(): result "
        assert str(caught.value).startswith(told), (note, str(caught.value))
        assert echo.seen is None
        return
    seen["fits"] += 1
    got = echo(**arrays)
    made = () if not results else (got,) if len(results) == 1 else got
    assert [(array.dtype.name, array.shape) for array in made] == [
        (NUMPY[dtype], shape) for dtype, shape in expected
    ], note
    assert [tuple(result["shape"]) for result in echo.seen["results"]] == [shape for _, shape in expected]
    order = names_in_order(params, results)
    assert echo.seen["dims"] == [dims.get(name, -1) for name in order], note
    order = [spec[0] for _, _, spec in params if spec and spec[0] in VARIABLES]
    assert echo.seen["types"] == [
        list(DTYPES[types[name]]) if name in types else [0, 0] for name in dict.fromkeys(order)
    ], note


def names_in_order(params, results):
    """The names of dimensions as they first appear; an int counts where it is used as one."""
    words = []
    for name, kind, spec in params:
        words += [f"int {name}"] if kind == "int" else split_words(spec[1])
    words += [word for _, shape in results for word in split_words(shape)]
    used = {word for word in words if word in NAMES}
    return list(dict.fromkeys(word.replace("int ", "") for word in words if word.replace("int ", "") in used))


def split_words(shape):
    return [letter for text in shape if text[0] != "*" for letter in text if letter in NAMES]


def test_the_model_saw_everything():
    """Of each outcome there were enough: else the generator is broken, and the test above says nothing."""
    assert min(seen.values()) > 20, seen


# ------------------------------------------------------------------------------------------------------ single rules


def test_division_rounds_down():
    echo = Echo("f(x: u8[n], y: u8[m]) -> u8[(n - m) // 2 + 3], u8[(m - n) // (0 - 2) + 3]")
    for n in range(6):
        got = echo(numpy.zeros(n, "u1"), numpy.zeros(3, "u1"))
        assert [array.shape for array in got] == [((n - 3) // 2 + 3,), ((3 - n) // -2 + 3,)]


@pytest.mark.parametrize(
    "signature, args, message",
    [
        ("f(x: f32[n], y: f32[n])", [(2,), (3,)], "f(): argument 'y': dimension 0 is 3, but n = 2 from argument 'x'"),
        (
            "f(x: f32[n + 1], y: f32[n])",
            [(5,), (3,)],
            "f(): argument 'x': dimension 0 is 5, but n + 1 = 4 (n = 3 from argument 'y')",
        ),
        (
            "f(x: f32[n] , y: f32[m]) -> f32[n - m]",
            [(2,), (5,)],
            "f(): result 0: dimension 0, n - m, is -3 (n = 2 from argument 'x', m = 5 from argument 'y')",
        ),
        (
            "f(x: f32[n], y: f32[m]) -> a: f32[n // m]",
            [(2,), (0,)],
            "f(): result 'a': dimension 0, n // m, overflows 64 bits or divides by 0 "
            "(n = 2 from argument 'x', m = 0 from argument 'y')",
        ),
        (
            "f(x: f32[*b, 2], y: f32[*b])",
            [(3, 2), (4,)],
            "f(): argument 'y': *b is [4], but *b = [3] from argument 'x'",
        ),
        (
            "f(x: f32[3])",
            [(4,)],
            "f(): argument 'x': expected f32[3], got f32[4] (numpy.ndarray)\n  dimension 0 is 4, not 3",
        ),
        (
            "f(x: f32[n])",
            [(4, 2)],
            "f(): argument 'x': expected f32[n], got f32[4, 2] (numpy.ndarray)\n  2 dimensions, not 1",
        ),
        (
            "f(x: f32[*b, n, m])",
            [(4,)],
            "f(): argument 'x': expected f32[*b, n, m], got f32[4] (numpy.ndarray)\n  1 dimension, not at least 2",
        ),
        (
            "f(x: f32[n]?, y: f32[]?) -> f32[n]",
            [None, ()],
            "f(): result 0: dimension 0, n, has no value: no argument of this call determines n",
        ),
        (
            "f(x: f32[*b]?, y: f32[]?) -> f32[*b]",
            [None, ()],
            "f(): result 0: no argument of this call determines *b",
        ),
    ],
)
def test_message_of_a_shape(signature, args, message):
    arrays = [arg if arg is None else numpy.zeros(arg, "float32") for arg in args]
    with pytest.raises(OverflowError if "overflows 64 bits" in message else ValueError) as caught:
        Echo(signature)(*arrays)
    assert str(caught.value) == message


def test_int_and_dimension_differ():
    echo = Echo("f(x: f32[n], n: int)")
    echo(numpy.zeros(3, "float32"), 3)
    with pytest.raises(ValueError) as caught:
        echo(numpy.zeros(3, "float32"), 4)
    assert str(caught.value) == "f(): argument 'n' is 4, but n = 3 from argument 'x'"
    with pytest.raises(ValueError, match=r"f\(\): argument 'x': dimension 0 is 3, but n = 4 from argument 'n'"):
        Echo("f(n: int, x: f32[n])")(4, numpy.zeros(3, "float32"))


@pytest.mark.parametrize("n", [-1, 2**62, -(2**63)])
def test_result_of_an_impossible_size(n):
    with pytest.raises(OverflowError if n > 0 else ValueError):
        Echo("f(n: int) -> f32[n]")(n)


def test_result_too_large_for_memory():
    with pytest.raises(MemoryError) as caught:
        Echo("f(n: int) -> u8[n]")(2**50)
    if sys.version_info >= (3, 11):  # before, exceptions had no notes
        assert caught.value.__notes__ == ["f(): result 0"]


@pytest.mark.parametrize(
    "words, given, message",
    [
        (
            "f32",
            "float64",
            "expected f32[n], got f64[2] (numpy.ndarray)\n  dtype is f64, not f32; try x.astype('float32')",
        ),
        ("f32|i32", "float64", "expected f32|i32[n], got f64[2] (numpy.ndarray)\n  dtype is f64, not f32|i32"),
        ("integer", "float64", "expected integer[n], got f64[2] (numpy.ndarray)\n  dtype is f64, not integer"),
        ("real", "complex64", "expected real[n], got c64[2] (numpy.ndarray)\n  dtype is c64, not real"),
        ("real", "bool", "expected real[n], got bool[2] (numpy.ndarray)\n  dtype is bool, not real"),
        ("T", "float64", "expected T[n], got f64[2] (numpy.ndarray)\n  dtype is f64, but T is one of f32|integer"),
    ],
)
def test_message_of_a_dtype(words, given, message):
    where = " where T = f32|integer" if words == "T" else ""
    with pytest.raises(TypeError) as caught:
        Echo(f"f(x: {words}[n]){where}")(numpy.zeros(2, given))
    assert str(caught.value) == f"f(): argument 'x': {message}"


def test_message_of_two_dtypes():
    with pytest.raises(TypeError) as caught:
        Echo("f(x: T[n], y: T[n]) where T = f32|f64")(numpy.zeros(2, "float32"), numpy.zeros(2))
    assert str(caught.value) == (
        "f(): argument 'y': expected T[n], got f64[2] (numpy.ndarray)\n  dtype is f64, but T = f32 from argument 'x'"
    )


def test_every_number_of_dimensions():
    echo = Echo("f(x: u8[*b]) -> u8[*b]")
    for ndim in range(33 if numpy.lib.NumpyVersion(numpy.__version__) < "2.0.0" else 65):
        assert echo(numpy.zeros((1,) * ndim, "u1")).shape == (1,) * ndim


@pytest.mark.parametrize("attribute", ["c", "f", "dense"])
def test_layouts(attribute):
    base = numpy.zeros((4, 6), "float32")
    layouts = {
        "C": base,
        "F": numpy.asfortranarray(base),
        "gaps": base[:, ::2],
        "back": base[::-1],
        "dense": numpy.zeros((2, 3, 4), "float32").transpose(1, 0, 2).reshape(3, 2, 4),
    }
    fit = {"c": {"C"}, "f": {"F"}, "dense": {"C", "F"}}[attribute]
    for name, array in layouts.items():
        array = array if array.ndim == 2 else array[:, :, 0]
        echo = Echo(f"f(x: f32[_, _] {attribute})")
        if name in fit:
            echo(array)
            continue
        words = {"c": "are not in C order", "f": "are not in Fortran order", "dense": "leave gaps"}[attribute]
        with pytest.raises(
            ValueError, match=rf"f\(\): argument 'x': expected f32\[_, _\] {attribute}, got .*\n.* {words}"
        ):
            echo(array)


def test_alignment():
    memory = numpy.zeros(200, "u1")
    start = -memory.ctypes.data % 64
    echo = Echo("f(x: u8[n] aligned(64))")
    echo(memory[start : start + 64])
    echo(memory[start + 1 : start + 1])  # nothing to be aligned
    with pytest.raises(ValueError, match="the memory is aligned to 8 bytes, not 64"):
        echo(memory[start + 8 : start + 16])
