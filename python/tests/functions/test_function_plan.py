"""Calls by plan against the general path, which TENON_PLAN=0 chooses: same results, same errors, same views."""

import ctypes
import gc
import random
import sys
import weakref

import building
import numpy as np
import pytest
from planned import METHODS, NAMES, SOURCE, load, outcome, random_call


@pytest.fixture
def libraries(monkeypatch):
    return load(building, monkeypatch)


@pytest.fixture(scope="module")
def planned():
    return building.tenon.load(building.build(SOURCE))


def same(one, other):
    if isinstance(one, tuple) and isinstance(one[0], np.ndarray):
        return isinstance(other, tuple) and one[0].dtype == other[0].dtype and np.array_equal(one[0], other[0]) and (
            one[1:] == other[1:])
    return one == other


DTYPES = {"f32": "f4", "f64": "f8", "i64": "i8", "i32": "i4", "u8": "u1", "T": "f4", "f32|f64": "f8"}


def random_array(rng, buffer, wanted):
    """An array of the type that is wanted, or nearly so."""
    name, _, dims = wanted.partition("]")[0].partition("[")
    ndim = dims.count(",") + 1 if dims else 0
    dtype = DTYPES[name] if rng.random() < 0.9 else rng.choice([*DTYPES.values(), "?", "c8", ">f4", "f2"])
    ndim = ndim if rng.random() < 0.9 else rng.randrange(4)
    shape = tuple(rng.choice([0, 1, 2, 2, 2, 2, 2, 2, 3, 3]) for _ in range(ndim))
    count = int(np.prod(shape, dtype=int))
    offset = rng.choice([0, 0, 0, 64, 4, 8, 1])
    array = np.frombuffer(buffer, dtype, count, offset).reshape(shape)
    for change in rng.sample(["none"] * 12 + ["transpose", "step", "reverse", "readonly", "expand", "subclass", "metadata"], 2):
        if change == "transpose":
            array = array.T
        elif change == "step" and array.ndim:
            array = array[::2]
        elif change == "reverse" and array.ndim:
            array = array[::-1]
        elif change == "readonly":
            array = array.view()
            array.flags.writeable = False
        elif change == "expand" and array.ndim:
            array = np.broadcast_to(array, (2, *array.shape))
        elif change == "subclass":
            array = array.view(np.matrix) if array.ndim == 2 else array
        elif change == "metadata":
            array = array.view(np.dtype(array.dtype, metadata={"a": 1}))
    return array


def random_argument(rng, buffer, wanted):
    other = [1, 2.5, True, None, -3, 2**70, "text", [1.0], np.float64(2), np.int32(3)]
    return random_array(rng, buffer, wanted) if rng.random() < 0.97 else rng.choice(other)


NUMBERS = {"float": [1.5, 2.0, 3, True, "x", np.float32(1), float("nan"), 10**400, -1], "int": [1, 2, 3, -5, 2**63, 2.0, True, np.int8(4)],
           "bool": [True, False, 1, None, np.True_], "uint": [1, 0, -1, 2**64 - 1, 2**64, True],
           "str": ["text", "", "\u00e9", "\ud800", None, b"x"], "enum": ["mean", "sum", "\u00e9", "\u00c3\u00a9", "su", 1],
           "bytes": [b"", b"abc", bytearray(b"abc"), memoryview(b"abcd")[::2], "x", None]}


@pytest.mark.parametrize("name", NAMES)
def test_as_the_general_path(libraries, name):
    """1,000 random calls of each function."""
    rng, taken = random.Random(17), 0
    buffer = np.zeros(4096, "u1")
    buffer = buffer[-buffer.ctypes.data % 64:][:2048]
    function, general = (getattr(library, name) for library in libraries)
    parameters = function.__self__.parameters
    for _ in range(1000):
        arguments = {p["name"]: rng.choice(NUMBERS[p["kind"]]) if p["kind"] in NUMBERS else
                     random_argument(rng, buffer, p["type"]) for p in parameters}
        args, kwargs = random_call(rng, arguments)
        by_plan, expected = outcome(function, *args, **kwargs), outcome(general, *args, **kwargs)
        assert same(by_plan, expected), (args, kwargs, by_plan, expected)
        taken += not (isinstance(expected, tuple) and isinstance(expected[0], type))
    assert taken > 1 or name == "fails"  # test_arguments_that_fit has more


@pytest.mark.parametrize("name", METHODS)
def test_methods_as_the_general_path(libraries, name):
    """1,000 random calls of each method, on objects of its class and on others."""

    def selves(library):
        closed = library.Held(3)
        closed.close()
        return [library.Held(1), library.Held(2), library.Other(1), closed, None, 1, library]

    rng, taken = random.Random(19), 0
    buffer = np.zeros(4096, "u1")
    methods, objects = [getattr(library.Held, name) for library in libraries], [selves(library) for library in libraries]
    parameters = methods[0].function.parameters[1:]
    for _ in range(1000):
        arguments = {p["name"]: rng.choice(NUMBERS[p["kind"]]) if p["kind"] in NUMBERS else None if p["kind"] == "handle" else
                     random_argument(rng, buffer, p["type"]) for p in parameters}
        args, kwargs = random_call(rng, arguments)
        at, other = (rng.randrange(2) if rng.random() < 0.7 else rng.randrange(7) for _ in range(2))
        results = []
        for method, own in zip(methods, objects):
            given = [own[other] if name == "add" and value is None else value for value in args]
            named = {key: own[other] if key == "other" else value for key, value in kwargs.items()}
            results.append(outcome(method, own[at], *given, **named))
        assert same(*results), (at, other, args, kwargs, results)
        taken += not isinstance(results[1], tuple)
    assert taken > 20


FITTING = {"in_order": lambda n, m: (np.ones(n, "f4"), np.ones(n, "f4")),
           "square": lambda n, m: (np.ones((n, n)), np.ones(n, "i8")),
           "mixed": lambda n, m: (0.5, np.ones((n, m), "f4"), m, np.ones((m, n), "i4"), n > m),
           "make": lambda n, m: (np.ones(n), np.ones(m, "u1")),
           "fixed": lambda n, m: (np.ones((n, 3), "f4"), np.ones(2, "f4")),
           "variable": lambda n, m: (np.ones(n, "i4"), np.ones((n, m), "i4"), np.ones(n)),
           "bound": lambda n, m: (n, np.ones(n, "f4"), m),
           "both": lambda n, m: (np.ones(n, "f4"), np.ones(n, "f4"), np.ones(m, "f4")),
           "make_more": lambda n, m: (np.ones(n), m),
           "many": lambda n, m: (*(np.ones(n, "f4") for _ in range(6)), m)}


@pytest.mark.parametrize("name", FITTING)
def test_arguments_that_fit(libraries, name):
    rng = random.Random(18)
    function, general = (getattr(library, name) for library in libraries)
    names = [p["name"] for p in function.__self__.parameters]
    for _ in range(1000):
        arguments = FITTING[name](rng.randrange(1, 9), rng.randrange(1, 9))
        expected = general(*arguments)
        assert same(function(*arguments), expected), arguments
        assert same(function(**dict(zip(names, arguments))), expected), arguments


def test_keywords_in_order_with_other_arguments(libraries):
    """The names of the keywords in order are remembered. They mean something else after another number of arguments."""
    call = ctypes.pythonapi.PyObject_Vectorcall
    call.restype, call.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p, ctypes.c_size_t, ctypes.py_object]

    def vectorcall(function, keywords, *values):
        array = (ctypes.c_void_p * len(values))(*map(id, values))
        return call(function, array, len(values) - len(keywords), keywords)

    x, y = np.ones(4, "f4"), np.ones(5, "f4")
    for library in libraries:
        in_order, optional = library.in_order, library.optional
        keywords = ("x", "y")
        for _ in range(3):
            assert vectorcall(in_order, keywords, x, x) == in_order(x, x)
            with pytest.raises(TypeError, match=r"takes 2 positional arguments but 3 were given|multiple values for argument 'x'"):
                vectorcall(in_order, keywords, x, x, x)
            with pytest.raises(ValueError, match="dimension 0 is 5, but n = 4"):
                vectorcall(in_order, keywords, x, y)
        keywords = ("k", "a")
        for _ in range(3):
            assert vectorcall(optional, keywords, x, None, 2, 0.5) == optional(x, None, 2, 0.5)
            assert vectorcall(optional, keywords, x, 2, 0.5) == optional(x, k=2, a=0.5)
            assert vectorcall(optional, keywords, 2, 0.5) == optional(k=2, a=0.5)
            with pytest.raises(TypeError, match="multiple values for argument 'k'"):
                vectorcall(optional, keywords, x, None, 3, 2, 0.5)


def test_names_of_keywords_hold_nothing(libraries):
    """Only the parameters' own names are remembered, not equal strings that hold other objects."""

    class Name(str):
        pass

    class Held:
        pass

    held, x = Held(), np.ones(2, "f4")
    names = {Name("x"): x, Name("y"): x}
    for name in names:
        name.held = held
    reference = weakref.ref(held)
    for library in libraries:
        assert library.in_order(**names) == library.in_order(x, x)
    del held, name, names
    gc.collect()
    assert reference() is None


def test_a_dtype_object_is_held(planned):
    """The plan remembers the first dtype object that it met, so that no other one can take its address."""
    function = building.tenon.load(building.build(SOURCE)).one
    dtype = np.dtype("f4", metadata={"held": True})
    array = np.zeros(3, dtype)
    before = sys.getrefcount(dtype)
    expected = function(x=array)  # the way of keywords looks into the object
    assert sys.getrefcount(dtype) == before
    assert function(array) == expected
    assert sys.getrefcount(dtype) == before + 1
    assert function(array) == expected and function(np.zeros(3, "f4"))
    assert sys.getrefcount(dtype) == before + 1
    del function
    gc.collect()


def test_results_are_new(planned):
    x, y = np.ones(3), np.ones(2, "u1")
    one, other = planned.make(x, y)[0], planned.make(x, y)[0]
    assert one.shape == (2, 3) and one.ctypes.data != other.ctypes.data
    assert sys.getrefcount(one) == 2 and sys.getrefcount(x) == 2


def test_nothing_is_held_after_a_failure(planned):
    x = np.ones(3, "f4")
    for arguments in ((x,), (np.ones(3),), (x.reshape(1, 3),)):
        with pytest.raises((ValueError, TypeError)):
            planned.fails(*arguments)
    assert sys.getrefcount(x) == 3  # the last tuple has it too
