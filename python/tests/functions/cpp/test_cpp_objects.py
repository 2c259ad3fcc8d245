"""Functions of function.hpp: objects by value and in shared pointers, tuples, members of classes, and further kinds."""

import copy
import gc
import pickle
from collections import UserString

import pytest
from building import build_cpp, refused, tenon

numpy = pytest.importorskip("numpy")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


@pytest.fixture(scope="session")
def library():
    return tenon.load(build_cpp("cpp/objects.cpp", *WARNINGS))


@pytest.fixture
def objects(library):
    """All objects of a test are destroyed at its end."""
    before = library.alive()
    yield library
    gc.collect()
    assert library.alive() == before


# ------------------------------------------------------------------------------------------------------------ objects


def test_objects_by_value(objects):
    before = objects.alive()
    p, q = objects.Point(1, 2), objects.Point(3, 6)
    assert objects.alive() == before + 2
    m = objects.middle(p, q)
    assert (m.x, m.y) == (2, 4) and (p.x, p.y) == (1, 2) and objects.alive() == before + 3
    assert objects.middle(p, p) == p
    assert objects.positive(p) == p and objects.positive(objects.Point(-1, 1)) is None
    assert objects.scaled(numpy.array([3.0], "f4"), q) == objects.Point(9, 18)
    with pytest.raises(TypeError, match=r"middle\(\): argument 'b': expected objects\.Point, got int"):
        objects.middle(p, 1)


def test_members(objects):
    assert objects.LIMIT == 100 and objects.Point.DIM == 2
    p = objects.Point.origin()
    p[1] = 3
    assert (p.x, p.y, p.norm) == (0, 3, 9) and 3 in p and 4 not in p
    assert p(2) == objects.Point(0, 6) and hash(p) == 0 and len({p, objects.Point(0, 3)}) == 1
    with pytest.raises(OverflowError, match=r"^Point\.__setitem__\(\): argument 'i': expected an integer from 0 to 18446744073709551615, got -1$"):
        p[-1] = 1
    assert pickle.loads(pickle.dumps(p)) == p and copy.deepcopy(p) == p and copy.copy(p) is not p
    refused(objects.Point.load, ValueError, "Point.load(): the state is damaged", b"x")


def test_shared_pointers(objects):
    a = objects.Node(1)
    assert a.value == 1 and a.uses == 1 and a.next is None
    b = objects.push(a, 2)
    assert a.uses == 2 and [*b] == [2, 1] and b.next.value == 1
    again = b.next
    assert again is not a and a.uses == 3
    del a, again
    gc.collect()
    assert b.next.uses == 2 and [*b] == [2, 1]
    walk = iter(b)
    assert b.uses == 2
    del b
    gc.collect()
    assert list(walk) == [2, 1]
    assert objects.push(None, 5).next is None and objects.push(list=None, value=6).value == 6


def test_other_objects_of_a_shared_type(objects):
    for make in (objects.raw, objects.unique):
        made = make(4)
        assert made.value == 4 and made.uses == 1
        assert objects.shared(numpy.zeros(1, "f4"), made) == 2 and objects.push(made, 1).next.value == 4
    twin = objects.copy(made)
    assert twin.value == 4 and twin.uses == 1 and twin is not made
    refused(objects.null, RuntimeError, "null(): its code returned a null pointer instead of an object")


# ------------------------------------------------------------------------------------------------------------- tuples


def test_tuples(objects):
    found = objects.named(1.5)
    assert (found.value, found.text) == (3, "twice")
    count, many, values = objects.several(3)
    assert (count, many, values.tolist()) == (3, True, [1.5, 1.5, 1.5])
    x = numpy.arange(3, dtype="f4")
    found = objects.mixed(x)
    assert found.n == 3 and found.y.tolist() == [0, 2, 4] and found.p == objects.Point(1, 2)
    assert objects.total(numpy.array([2.5, 1])) == (2, 2.5)


def test_assigned_memory(objects):
    rows, none = objects.assigned(3)
    assert rows.shape == (3, 2) and rows.sum() == 18 and none is None


# -------------------------------------------------------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    "name, low, high",
    [("i8", -128, 127), ("i32", -(2**31), 2**31 - 1), ("u32", 0, 2**32 - 1), ("size", 0, 2**63 - 1), ("maybe", -(2**15), 2**15 - 1)],
)
def test_integers(objects, name, low, high):
    function = getattr(objects, name)
    assert function(low) == low and function(high) == high
    top = 2**64 - 1 if name == "size" else high
    for wrong in (low - 1, high + 1):
        if -(2**63) <= wrong < 2**63:
            message = f"{name}(): argument 'k': expected an integer from {low} to {top}, got {wrong}"
            refused(function, OverflowError, message, wrong)
        else:
            with pytest.raises(OverflowError):
                function(wrong)


def test_integers_of_other_functions(objects):
    assert objects.i32() == 7 and objects.maybe() == -1 and objects.maybe(None) == -1
    x = numpy.zeros(1)
    assert objects.narrow(x, 5) == 5
    with pytest.raises(OverflowError, match=r"^narrow\(\): argument 'k': expected an integer from -2147483648 to 2147483647, got 2147483648$"):
        objects.narrow(x, 2**31)


def test_unsigned_integers(objects):
    assert objects.uint(2**64 - 1) == 2**64 - 1 and objects.u16(65535) == 65535
    refused(objects.u16, OverflowError, "u16(): argument 'k': expected an integer from 0 to 65535, got 65536", 65536)
    message = "u16(): argument 'k': expected an integer from 0 to 65535, got 18446744073709551615"
    refused(objects.u16, OverflowError, message, 2**64 - 1)
    with pytest.raises(OverflowError):
        objects.uint(-1)


def test_numbers_and_choices(objects):
    assert objects.conjugate(1 + 2j) == 1 - 2j and objects.swap(1 + 2j) == 2 + 1j
    assert objects.bits("f32") == 32 and objects.bits(numpy.dtype("i2")) == 16
    assert objects.choice() == 2 and objects.choice(4) == 4 and objects.chosen(1) == 1
    with pytest.raises(ValueError):
        objects.choice(3)


def test_bytes_and_strings(objects):
    assert objects.reversed(b"abc") == b"cba" and objects.reversed(bytearray()) == b""
    assert objects.view() == 77 and objects.view(b"") == 0 and objects.view(memoryview(b"xyz")) == 3
    assert objects.split("a,b,,é") == ["a", "b", "", "é"] and objects.split("a--b", "--") == ["a", "b"]
    assert objects.join(["x", "", "é"]) == "x;;é;" and objects.join(()) == ""
    assert objects.ints(3) == [5, 5, 5] and objects.ints(0) == [] and objects.floats(2) == [0.5, 0.5]
    with pytest.raises(TypeError):
        objects.join([UserString])


# ----------------------------------------------------------------------------------------------------------- callbacks


def test_callbacks(objects):
    x = numpy.arange(8.0)
    seen = []

    def f(part, i, s, b):
        seen.append((part, i, s, b))
        return part.sum()

    assert objects.apply(f, x[::2]) == 24
    assert [call[1:] for call in seen] == [(3, "text", True), (-1, "", False)]
    assert seen[0][0].ctypes.data == x.ctypes.data and seen[0][0].tolist() == [0, 2, 4, 6] and not seen[0][0].flags.writeable

    def fill(y):
        y[:] = 5

    assert objects.fill(fill, 3).tolist() == [5, 5, 5]
    assert objects.ask(lambda: (7, "a")) == "a7" and objects.ask() == "nothing"
    for dtype in ("f4", "f8"):
        assert objects.each(numpy.array([1, 2], dtype), lambda v: v * 1.5).tolist() == [1.5, 3]


def test_callbacks_that_fail(objects):
    calls = []

    def f(*_):
        calls.append(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        objects.apply(f, numpy.zeros(2))
    assert len(calls) == 1
    with pytest.raises(OverflowError, match=r"^ask\(\): a callback returned 300, which is outside the range of its C\+\+ type$"):
        objects.ask(lambda: (300, "a"))
    with pytest.raises(TypeError):
        objects.ask(3)
