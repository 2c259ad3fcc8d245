"""Which argument is which: as a Python function with the same parameters has it, errors included."""

import functools
import inspect

import pytest
from handmade import Echo

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

NAMES = ["a", "b", "c", "alpha", "out_", "x1", "self"]
STRANGERS = ["z", "A", "out", "like", "caf\u00e9", ""]

# Hypothesis takes longer to make a strategy than to draw from it: each is made once.
LISTS_OF_NAMES = st.lists(st.sampled_from(NAMES), unique=True, max_size=6)
LISTS_OF_VALUES = st.lists(st.integers(0, 99), max_size=7)


@functools.lru_cache(maxsize=None)
def lists_of_keywords(known):
    return st.lists(st.sampled_from(known + tuple(STRANGERS)), unique=True, max_size=6)


@st.composite
def parameters(draw):
    """(name, keyword-only?, default or required or None for optional), as Python orders them."""
    names = draw(LISTS_OF_NAMES)
    npositional = draw(st.integers(0, len(names)))
    ndefaults = draw(st.integers(0, npositional))
    made = []
    for i, name in enumerate(names):
        keyword_only = i >= npositional
        free = draw(st.booleans()) if keyword_only else i >= npositional - ndefaults
        default = draw(st.sampled_from([None, 0, -5, 10**12])) if free else inspect.Parameter.empty
        made.append((name, keyword_only, default))
    return made


def texts(params):
    """The signature, and the same for Python."""
    ours, pythons = [], []
    for i, (name, keyword_only, default) in enumerate(params):
        if keyword_only and (i == 0 or not params[i - 1][1]):
            ours.append("*")
            pythons.append("*")
        required = default is inspect.Parameter.empty
        ours.append(f"{name}: int" if required else f"{name}: int?" if default is None else f"{name}: int = {default}")
        pythons.append(name if required else f"{name}={default}")
    return f"f({', '.join(ours)})", f"def f({', '.join(pythons)}): return locals()"


def outcome(function, args, kwargs):
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        return str(error)


@settings(deadline=None, max_examples=400)
@given(parameters(), st.data())
def test_as_python_does(params, data):
    ours, python = texts(params)
    namespace = {}
    exec(python, namespace)
    echo, model = Echo(ours), namespace["f"]
    assert inspect.signature(echo.function) == inspect.signature(model)
    bind = inspect.signature(echo.function).bind
    for _ in range(8):
        args = data.draw(LISTS_OF_VALUES)
        known = tuple(name for name, _, _ in params)
        names = data.draw(lists_of_keywords(known))
        kwargs = {name: 100 + i for i, name in enumerate(names)}
        expected = outcome(model, args, kwargs)
        got = outcome(echo, args, kwargs)
        if isinstance(expected, dict):
            assert got is None, (ours, args, kwargs, got)
            bind(*args, **kwargs)
            values = dict(zip(known, echo.values()))
            assert values == {name: expected[name] for name in known}
        else:
            assert got == expected.partition(". Did you mean")[0], (ours, args, kwargs)
            with pytest.raises(TypeError):
                bind(*args, **kwargs)


def test_names_that_were_made_at_run_time():
    """Keywords are interned, as a rule; these are not."""
    echo = Echo("f(first: int, second: int = 2)")
    echo(**{"".join(["fir", "st"]): 5, "".join(["sec", "ond"]): 6})
    assert echo.values() == [5, 6]


def test_keyword_of_a_subclass():
    class Name(str):
        pass

    echo = Echo("f(first: int)")
    echo(**{Name("first"): 5})
    assert echo.values() == [5]


@pytest.mark.parametrize(
    "results, allowed",
    [
        ("", ()),
        (" -> int", ()),
        (" -> f32[]", ("out", "like")),
        (" -> y: f32[]", ("out", "like")),
        (" -> f32[?]", ("like",)),
        (" -> f32[]?", ("like",)),
        (" -> f32[], f32[]", ("like",)),
        (" -> f32[], int", ("like",)),
    ],
)
def test_out_and_like_are_taken_where_they_mean_something(results, allowed):
    echo = Echo(f"f(a: int){results}")
    echo.leave_open(*([1] if "?]" in results else []))
    words = inspect.signature(echo.function).parameters
    assert tuple(words) == ("a", *allowed)
    for word in ("out", "like"):
        if word in allowed:
            assert words[word].kind is inspect.Parameter.KEYWORD_ONLY and words[word].default is None
            echo(1, **{word: None})  # as if it had not been given
        else:
            with pytest.raises(TypeError, match=rf"f\(\) got an unexpected keyword argument '{word}'"):
                echo(1, **{word: None})


def test_out_and_like_have_no_place():
    echo = Echo("f(a: int) -> f32[]")
    with pytest.raises(TypeError, match=r"f\(\) takes 1 positional argument but 2 were given"):
        echo(1, None)


def test_star_of_a_function_without_keywords():
    assert str(inspect.signature(Echo("f(a: int, *, b: int) -> f32[]").function)) == "(a, *, b, out=None, like=None)"


def test_64_parameters():
    """As many as there can be; the last is still the last."""
    text = ", ".join(f"p{i}: int = {i}" for i in range(64))
    echo = Echo(f"f({text})")
    echo(100, p63=163)
    assert echo.values() == [100, *range(1, 63), 163]
    echo(*range(64, 128))
    assert echo.values() == list(range(64, 128))
    with pytest.raises(TypeError, match=r"f\(\) takes from 0 to 64 positional arguments but 65 were given"):
        echo(*range(65))


def test_first_mistake_is_told():
    echo = Echo("f(a: int, b: float, c: str)")
    with pytest.raises(TypeError, match="argument 'a'"):
        echo("x", "y", 3)
    with pytest.raises(TypeError, match="argument 'b'"):
        echo(c=3, b="y", a=1)
