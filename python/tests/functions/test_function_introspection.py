"""What a function says of itself: to help(), inspect, a debugger, and whoever tries to keep it."""

import copy
import inspect
import pickle
import pydoc
import types

import pytest
from building import tenon
from handmade import Echo, entry, load, module


def test_module(kernels):
    assert type(kernels) is tenon.Library and isinstance(kernels, types.ModuleType) and inspect.ismodule(kernels)
    assert type(kernels).__module__ == "tenon" and repr(kernels).startswith("<module 'kernels' from '/")
    assert (kernels.__name__, kernels.__doc__, kernels.__version__) == ("kernels", "Kernels written once.", "1.2.3")
    assert {"saxpy", "copy", "moments"} <= set(dir(kernels))
    assert "kernels" in repr(kernels)
    with pytest.raises(AttributeError):
        kernels.nothing


def test_function(kernels):
    saxpy = kernels.saxpy
    assert callable(saxpy) and isinstance(saxpy, types.BuiltinFunctionType)
    assert (saxpy.__name__, saxpy.__module__) == ("saxpy", "kernels")
    assert saxpy.__text_signature__ == "(a, x, y, *, out=None, like=None)"
    assert saxpy.__doc__ == "Returns a*x + y.\n\nsaxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]"
    assert "saxpy" in repr(saxpy)
    assert saxpy.__qualname__.endswith("saxpy")
    assert hash(saxpy) and saxpy == kernels.saxpy


def test_function_without_words(kernels):
    assert kernels.copy.__doc__ == "copy(x: T[*b] c) -> T[*b] where T = any"


@pytest.mark.parametrize(
    "signature, text",
    [
        ("f()", "()"),
        ("f(a: int)", "(a)"),
        ("f(a: int = -3, b: float = 1e-5)", "(a=-3, b=1e-05)"),
        ("f(*, a: int)", "(*, a)"),
        ("f(a: str = 'x y', b: 'p'|'q' = \"q\")", "(a='x y', b='q')"),
        ("f(a: ints = (1, 2), b: floats? = None)", "(a=(1, 2), b=None)"),
        ("f(a: bool = True, b: f32[n]?)", "(a=True, b=None)"),
        ("f(a: ints = [1], b: ints = ())", "(a=[1], b=())"),
        ("f(a: int, *, b: int = 2) -> int, f32[]", "(a, *, b=2, like=None)"),
        ("f() -> f32[3]", "(*, out=None, like=None)"),
        ("f( a : int , b:int=2 )->f32 [ ] ", "(a, b=2, *, out=None, like=None)"),
        ("f(self: int, cls: int)", "(self, cls)"),
        ("f(x: f32[n, k] rw, mode: 'a,b'|'(' = '(')", "(x, mode='(')"),
        ("f(a: str = 'Caf\u00e9', b: 'm\u00fc'|'\U0001f600' = '\U0001f600')", "(a='Caf\u00e9', b='\U0001f600')"),
        ("f(a: str = \"it's\", b: str = 'say \"so\"')", "(a=\"it's\", b='say \"so\"')"),
    ],
)
def test_signature(signature, text):
    assert str(inspect.signature(Echo(signature).function)) == text


def test_signature_binds(kernels):
    bound = inspect.signature(kernels.saxpy).bind(1, y=3, x=2, like="numpy")
    assert bound.arguments == {"a": 1, "x": 2, "y": 3, "like": "numpy"}


def test_help_with_other_letters():
    text = pydoc.plain(pydoc.render_doc(Echo("f(a: str = 'Caf\u00e9')").function))
    assert r"f(a='Caf\xe9')" in text or "f(a='Caf\u00e9')" in text
    assert "f(a: str = 'Caf\u00e9')" in text


def test_help(kernels):
    text = pydoc.plain(pydoc.render_doc(kernels.saxpy))
    assert "saxpy(a, x, y, *, out=None, like=None)" in text and "Returns a*x + y." in text and "x: f32[n] c" in text
    whole = pydoc.plain(pydoc.render_doc(kernels))
    assert "Kernels written once." in whole and "moments(x, *, like=None)" in whole and "1.2.3" in whole


def test_what_stands_behind(kernels):
    """The __self__ of a function has its parts, for tools."""
    function = kernels.saxpy.__self__
    assert (function.name, function.module, function.doc) == ("saxpy", "kernels", "Returns a*x + y.")
    assert function.signature == "saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]"
    assert function.signature in repr(function)
    assert [parameter["name"] for parameter in function.parameters] == ["a", "x", "y"]
    assert [parameter["kind"] for parameter in function.parameters] == ["float", "tensor", "tensor"]
    assert [parameter["type"] for parameter in function.parameters] == ["float", "f32[n] c", "f32[n] c"]
    assert [(result["kind"], result["type"]) for result in function.results] == [("tensor", "f32[n]")]
    with pytest.raises(TypeError):
        type(function)()
    with pytest.raises(AttributeError):
        function.name = "other"
    assert kernels.copy.__self__.doc is None


def test_what_stands_behind_parameters():
    function = Echo(
        "f(a: int = 3, *, b: 'x'|'y'? = 'y', c: ints[2]?, d: handle('H'), e: f32[n]? rw) -> r: int, s: 'p'|'q'"
    ).function.__self__
    found = {parameter["name"]: parameter for parameter in function.parameters}
    assert (found["a"]["default"], found["a"]["optional"], found["a"]["keyword_only"]) == ("3", False, False)
    assert (found["b"]["default"], found["b"]["optional"], found["b"]["keyword_only"]) == ("'y'", True, True)
    assert found["b"]["choices"] == ("x", "y") and found["c"]["count"] == 2 and found["d"]["handle"] == "H"
    assert found["e"]["written"] is True and found["d"]["default"] is None
    assert [result["name"] for result in function.results] == ["r", "s"] and function.results[1]["choices"] == (
        "p",
        "q",
    )


def test_doc_with_odd_words():
    loaded = load(module([entry("f(a: int)", doc="Caf\u00e9 100% \u2014 f(x)\n--\n\nMore.".encode())]))
    assert loaded.f.__text_signature__ == "(a)"
    assert loaded.f.__doc__.startswith("Caf\u00e9 100% \u2014 f(x)") and "More." in loaded.f.__doc__


def test_copies(kernels):
    assert copy.copy(kernels.saxpy) is kernels.saxpy and copy.deepcopy(kernels.saxpy) is kernels.saxpy


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_handle_is_not_pickled(kernels, protocol):
    with pytest.raises((TypeError, pickle.PicklingError), match="Handle"):
        pickle.dumps(kernels.counter_new(), protocol)
    alive = kernels.counts().alive
    with pytest.raises(TypeError, match="Handle"):
        copy.copy(kernels.counter_new())
    assert kernels.counts().alive == alive


def test_package():
    assert tenon.load.__doc__ and str(inspect.signature(tenon.load)).startswith("(path")
