"""Overloaded functions: which entry is called, what happens if none fits, and what the function says of itself."""

import copy
import inspect
import pickle
import pydoc
import sys
import threading

import numpy as np
import pytest
from building import build, tenon
from handmade import entry, load, module

f32, f64 = np.float32, np.float64


@pytest.fixture(scope="module")
def lib():
    return tenon.load(build("overloads.c"))


def ones(*shape, dtype=f32):
    return np.ones(shape, dtype)


# ------------------------------------------------------------------------------------------------------------- calls


@pytest.mark.parametrize(
    ("args", "kwargs", "signature"),
    [
        ((ones(3),), {}, "chosen(x: f32[n] c) -> str"),
        ((ones(0),), {}, "chosen(x: f32[n] c) -> str"),
        ((), {"x": ones(3)}, "chosen(x: f32[n] c) -> str"),
        ((ones(3, dtype=f64),), {}, "chosen(x: f64[n]) -> str"),
        ((), {"x": ones(3, dtype=f64)}, "chosen(x: f64[n]) -> str"),
        ((ones(3, 2),), {}, "chosen(x: f32[n, m]) -> str"),
        ((3,), {}, "chosen(n: int) -> str"),
        ((np.int64(3),), {}, "chosen(n: int) -> str"),
        ((True,), {}, "chosen(n: int) -> str"),
        ((3.5,), {}, "chosen(n: float) -> str"),
        ((2**70,), {}, "chosen(n: float) -> str"),
        (("a",), {}, "chosen(mode: 'a'|'b') -> str"),
        (("c",), {}, "chosen(text: str) -> str"),
        ((), {"text": "a"}, "chosen(text: str) -> str"),
        ((ones(2), ones(2)), {}, "chosen(x: f32[n], y: f32[n]) -> str"),
        ((ones(2),), {"y": ones(2)}, "chosen(x: f32[n], y: f32[n]) -> str"),
        ((), {"key": 3}, "chosen(*, key: int) -> str"),
        (([ones(2)],), {}, "chosen(xs: [f32[n]]) -> str"),
        ((memoryview(b"12345678").cast("f"),), {}, "chosen(x: f32[n] c) -> str"),
    ],
)
def test_the_first_that_fits(lib, args, kwargs, signature):
    for _ in range(2):
        assert lib.chosen(*args, **kwargs) == signature


def test_results(lib):
    x = np.arange(4, dtype=f32)
    for dtype in (f32, f64, f32):
        made = lib.twice(x.astype(dtype))
        assert made.dtype == dtype and np.array_equal(made, 2 * x)
        out = np.empty(4, dtype)
        assert lib.twice(x.astype(dtype), out=out) is out and np.array_equal(out, 2 * x)
    assert lib.twice(4) == 8.0
    assert lib.twice(memoryview(x), like="numpy").dtype == f32


def test_conditions_choose(lib):
    assert [lib.sized(ones(n))[-6:] for n in (0, 2, 3)] == [" n < 3", " n < 3", "n >= 3"]


def test_named_results(lib):
    assert type(lib.range(1)) is type(lib.range(1.5)) is lib.range_result
    assert type(lib.range("x")) is lib.range_result_3 is not lib.range_result
    assert lib.range("x")._fields == ("low", "high", "step")
    for value in (lib.range(1), lib.range("x")):
        assert pickle.loads(pickle.dumps(value)) == value


# ------------------------------------------------------------------------------------------------------------ errors

NONE = """chosen(): no signature fits the arguments
  chosen(x: f32[n] c) -> str: argument 'x': expected f32[n], got i64[3] (numpy.ndarray); dtype is i64, not f32; try x.astype('float32')
  chosen(x: f64[n]) -> str: argument 'x': expected f64[n], got i64[3] (numpy.ndarray); dtype is i64, not f64; try x.astype('float64')
  chosen(x: f32[n, m]) -> str: argument 'x': expected f32[n, m], got i64[3] (numpy.ndarray); dtype is i64, not f32; try x.astype('float32')
  chosen(n: int) -> str: argument 'n': expected int, got numpy.ndarray: only integer scalar arrays can be converted to a scalar index
  chosen(n: float) -> str: argument 'n': expected float, got numpy.ndarray: only 0-dimensional arrays can be converted to Python scalars
  chosen(mode: 'a'|'b') -> str: argument 'mode': expected 'a'|'b', got numpy.ndarray
  chosen(text: str) -> str: argument 'text': expected str, got numpy.ndarray
  chosen(x: f32[n], y: f32[n]) -> str: missing 1 required positional argument: 'y'
  chosen(*, key: int) -> str: takes 0 positional arguments but 1 was given
  chosen(xs: [f32[n]]) -> str: argument 'xs': expected [f32[n]], got numpy.ndarray; pass a list or a tuple of arrays"""


def test_none_fits(lib):
    with pytest.raises(TypeError) as raised:
        lib.chosen(np.arange(3))
    lines = str(raised.value).splitlines()
    expected = NONE.splitlines()
    assert [line.split(": argument")[0] for line in lines] == [line.split(": argument")[0] for line in expected]
    assert lines[:4] + lines[6:] == expected[:4] + expected[6:]  # NumPy's words in between depend on its version
    assert type(raised.value) is TypeError
    assert raised.value.__cause__ is None and raised.value.__context__ is None


def test_other_errors_are_reasons_too(lib):
    with pytest.raises(TypeError, match=r"\n  sized\(x: f32\[n\]\) -> str where n < 3: got an unexpected keyword argument 'y'\n"):
        lib.sized(y=ones(2))
    with pytest.raises(TypeError, match=r"\n  range\(n: int\).*: missing 1 required positional argument: 'n'\n  range\(n: float\)"):
        lib.range()


def test_the_function_fails(lib):
    with pytest.raises(TypeError, match=r"^fails\(\): the function fails by itself$"):
        lib.fails(ones(3))


class Raises:
    def __init__(self, error):
        self.error = error
        self.count = 0

    def go(self, *args, **kwargs):
        self.count += 1
        raise self.error

    __index__ = __float__ = __len__ = __fspath__ = go

    def __getitem__(self, i):
        raise AssertionError


class Producer(Raises):
    __dlpack__ = Raises.go

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("kind", [Raises, Producer])
@pytest.mark.parametrize("error", [TypeError("mine"), KeyError("mine"), KeyboardInterrupt(), MemoryError(), RecursionError()])
def test_an_exception_of_an_argument_propagates(lib, kind, error):
    argument = kind(error)
    with pytest.raises(type(error)) as raised:
        lib.twice(argument)
    assert raised.value is error
    assert argument.count == 1


def test_a_producer_that_refuses(lib):
    """The bridge raises an exception with the producer's as its cause. No other entry is tried."""
    argument = Producer(ValueError("mine"))
    with pytest.raises(BufferError, match=r"^twice\(\): argument 'x': .*: the producer refused: mine") as raised:
        lib.twice(argument)
    assert raised.value.__cause__ is argument.error and argument.count == 1


def test_an_exception_of_a_call_inside_an_argument(lib):
    """A mismatch in a call that an argument makes is the argument's own exception."""

    class Nested:
        def __init__(self, call):
            self.call = call

        def __float__(self):
            return self.call()

    with pytest.raises(TypeError, match=r"^alone\(\): argument 'x': expected f32\[n\], got str$"):
        lib.twice(Nested(lambda: lib.alone("x")))
    with pytest.raises(TypeError, match=r"^chosen\(\): no signature fits the arguments\n"):
        lib.twice(Nested(lambda: lib.chosen(None)))
    with pytest.raises(TypeError, match=r"^twice\(\): no signature fits the arguments\n"):
        lib.twice(Nested(lambda: lib.twice("x")))
    assert lib.twice(Nested(lambda: lib.twice(2.5))) == 10.0


def test_recursion(lib):
    class Endless:
        def __float__(self):
            return lib.twice(self)

    with pytest.raises(RecursionError):
        lib.twice(Endless())
    assert lib.twice(1) == 2


def test_nothing_is_lost(lib):
    x, other = ones(3, dtype=np.int32), object()
    counts = sys.getrefcount(x), sys.getrefcount(other)
    for _ in range(10):
        for argument in (x, other, [x], (x, other)):
            with pytest.raises(TypeError):
                lib.chosen(argument)
        assert lib.chosen(ones(2), ones(2))
    del argument
    assert (sys.getrefcount(x), sys.getrefcount(other)) == counts


def test_gradients(lib):
    torch = pytest.importorskip("torch")
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^twice\(\): argument 'x': .*grad"):
        lib.twice(x)
    assert lib.strict(x) == "strict(x: f32|f64[n]) -> str"
    assert lib.strict(x.detach()) == "strict(x: f32[n]) -> str"
    assert lib.twice(torch.ones(3, dtype=torch.float64)).dtype == torch.float64


def test_jax_arrays(lib):
    jnp = pytest.importorskip("jax.numpy")
    assert np.array_equal(lib.twice(jnp.arange(3.0, dtype=jnp.float32)), [0, 2, 4])
    assert lib.chosen(jnp.ones((2, 2), jnp.float32)) == "chosen(x: f32[n, m]) -> str"


def test_threads(lib):
    x, y = ones(100), ones(100, dtype=f64)
    wrong = []

    def work(array):
        for _ in range(300):
            if lib.twice(array).dtype != array.dtype:
                wrong.append(array.dtype)

    threads = [threading.Thread(target=work, args=(array,)) for array in (x, y, x, y)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ----------------------------------------------------------------------------------------------------------- classes


def test_constructors(lib):
    assert [box.value() for box in (lib.Box(), lib.Box(5), lib.Box(value=7), lib.Box(ones(3)))] == [0, 5, 7, 3]
    with pytest.raises(TypeError, match=r"^Box\(\): no signature fits the arguments\n  Box\(\): takes 0 positional arguments but 1 was given\n  Box\(value: int\): argument 'value': expected int, got str\n"):
        lib.Box("x")
    with pytest.raises(TypeError, match=r"^Box\.__new__\(\): the first argument must be the class overloads\.Box$"):
        lib.Box.__new__(int)
    assert lib.Box.__doc__ == (
        "A box.\n\nAn empty one.\n\nBox()\n\nOne with a value.\n\nBox(value: int)\n\nBox(values: f32[n])"
    )
    assert lib.Box.__text_signature__ == "(*args, **kwargs)"


def test_methods(lib):
    box = lib.Box(3)
    assert box.put(ones(2)) == lib.Box.put(box, ones(2)) == "Box.put(self, x: f32[n] c) -> str"
    assert box.put(other=lib.Box()) == box.put(box) == "Box.put(self, other: handle('Box')) -> str"
    assert box.put() == "Box.put(self) -> str"
    bound = box.put
    assert bound(ones(2)[::1]) == "Box.put(self, x: f32[n] c) -> str"
    with pytest.raises(TypeError, match=r"^Box\.put\(\): no signature fits the arguments\n  Box\.put\(self, x: f32\[n\] c\) -> str: argument 'x': expected"):
        box.put("x")
    with pytest.raises(TypeError, match="no signature fits the arguments"):
        lib.Box.put(3)
    closed = lib.Box(4)
    closed.close()
    with pytest.raises(ValueError, match=r"^Box\.put\(\): this Box is closed$"):
        closed.put()
    with pytest.raises(ValueError, match=r"^Box\.put\(\): argument 'other': this Box is closed$"):
        box.put(closed)
    assert "Puts floats." in lib.Box.put.__doc__ and "Box.put(self) -> str" in lib.Box.put.__doc__
    assert [str(part) for part in inspect.signature(lib.Box.put).parameters.values()] == ["self", "*args", "**kwargs"]


def test_static_methods(lib):
    assert lib.Box.of(3) == "Box.of(n: int) -> str" and lib.Box.of("x") == "Box.of(n: str) -> str"


# ----------------------------------------------------------------------------------------------------- introspection


def test_documentation(lib):
    assert lib.twice.__doc__ == (
        "Returns 2 * x.\n\ntwice(x: f32[n]) -> f32[n]\n\ntwice(x: f64[n]) -> f64[n]\n\ntwice(x: float) -> float"
    )
    assert str(inspect.signature(lib.twice)) == "(*args, **kwargs)"
    page = pydoc.render_doc(lib.twice, renderer=pydoc.plaintext)
    assert "twice(*args, **kwargs)" in page and "twice(x: f64[n]) -> f64[n]" in page
    assert str(inspect.signature(lib.alone)) == "(x)"


def test_descriptions(lib):
    described = lib.twice.__self__
    assert [one.signature for one in described.overloads] == [
        "twice(x: f32[n]) -> f32[n]",
        "twice(x: f64[n]) -> f64[n]",
        "twice(x: float) -> float",
    ]
    assert described.overloads[0] is described
    assert lib.alone.__self__.overloads == (lib.alone.__self__,)
    assert [one.name for one in lib.Box.put.function.overloads] == ["Box.put"] * 3


def test_pickle(lib):
    for function in (lib.twice, lib.Box.put, lib.Box.of, lib.Box):
        assert pickle.loads(pickle.dumps(function)) is copy.copy(function) is function
    described = lib.twice.__self__
    assert pickle.loads(pickle.dumps(described)) is described
    with pytest.raises(TypeError, match=r"cannot be pickled: pickle twice\(\), which is overloaded"):
        pickle.dumps(described.overloads[1])


def test_other_processes_find_them(lib, tmp_path):
    file = tmp_path / "function.pickle"
    file.write_bytes(pickle.dumps(lib.twice))
    from building import run_python

    code = f"import pickle, sys, numpy; f = pickle.load(open({str(file)!r}, 'rb')); print(f(numpy.ones(2)), f(3))"
    assert run_python(code) == "[2. 2.] 6.0\n"


def test_a_library_that_is_dropped():
    library = tenon.load(build("overloads.c"))
    twice, put = library.twice, library.Box(3).put
    del library
    assert twice(3) == 6 and put() == "Box.put(self) -> str"


# ----------------------------------------------------------------------------------------------------------- modules


def test_equal_parameters_are_refused():
    with pytest.raises(ImportError, match=r"functions 0 and 1 take the same arguments, so the second one would never be called"):
        load(module([entry("f(x: f32[n])"), entry("f(y: f32[m]) -> int")]))
    loaded = load(module([entry("f(x: f32[n])"), entry("f(y: f32[m, m])")]))
    assert len(loaded.f.__self__.overloads) == 2


def test_checked_mode(lib):
    before = tenon.check(True) if hasattr(tenon, "check") else None
    try:
        assert np.array_equal(lib.twice(ones(3, dtype=f64)), [2, 2, 2])
    finally:
        if before is not None:
            tenon.check(before)
