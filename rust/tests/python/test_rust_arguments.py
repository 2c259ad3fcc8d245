"""Each kind of argument and result of a function in Rust, called from Python."""

import re

import numpy
import pytest


def f64(*values):
    return numpy.array(values, "float64")


def f32(*values):
    return numpy.array(values, "float32")


def test_documentation_comes_from_doc_comments(kernels):
    assert kernels.__name__ == "rust_kernels"
    assert kernels.__doc__ == "Kernels in Rust.\n\nEach has one kind of argument."
    assert kernels.saxpy.__doc__.startswith("Returns a*x + y.")
    assert kernels.Table.__doc__.startswith("Rows that it keeps.")


def test_slices_and_an_out(kernels):
    assert kernels.saxpy(2.0, f32(1, 2, 3), f32(10, 20, 30)).tolist() == [12, 24, 36]
    assert kernels.saxpy(2.0, f32(), f32()).tolist() == []
    assert kernels.dot(f32(1, 2), f32(3, 4)) == 11
    out = f32(0, 0)
    assert kernels.saxpy(1.0, f32(1, 2), f32(1, 1), out=out) is out
    assert out.tolist() == [2, 3]
    with pytest.raises(ValueError, match="shares memory|overlap"):
        kernels.saxpy(1.0, out, f32(1, 1), out=out)
    with pytest.raises(TypeError, match=re.escape("saxpy(): argument 'x': expected f32[n], got f64[2]")):
        kernels.saxpy(1.0, f64(1, 2), f32(1, 2))


def test_a_flag(kernels):
    assert kernels.released(f32(1))


@pytest.mark.parametrize("n", [0, 1, 10_000, 300_000])
def test_parallel_loop(kernels, n):
    x = numpy.arange(n, dtype="float64")
    assert (kernels.twice(x) == 2 * x).all()


def test_views_have_any_strides(kernels):
    x = numpy.arange(12, dtype="float64").reshape(3, 4)
    for view in x, x.T, x[::2, ::-1], x[:, :0]:
        assert (kernels.transposed(view) == view.T).all()
    y = numpy.zeros((4, 6))
    kernels.add_scaled(y[::2, 1::2])
    kernels.add_scaled(y[1::2, ::-2], by=1.0)
    assert y.sum() == 2 * 3 * 2.0 + 2 * 3 * 1.0
    assert (y[::2, 1::2] == 2).all()


@pytest.mark.parametrize("dtype", "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split())
def test_instances_of_a_generic_function(kernels, dtype):
    x = numpy.array([1, 2, 3], dtype)
    kernels.increment(x)
    assert x.tolist() == [2, 3, 4]


def test_an_instance_that_does_not_exist(kernels):
    with pytest.raises(TypeError, match=re.escape("increment(): argument 'x': expected T[n]")):
        kernels.increment(numpy.array([1], "complex64"))


def test_cells_may_overlap(kernels):
    x = f64(1, 2, 3, 4)
    kernels.shift(x, x)
    assert x.tolist() == [1, 1, 1, 1]


def test_bools_that_are_neither_0_nor_1(kernels):
    x = numpy.array([0, 1, 2, 255], "uint8").view("bool")
    z, count = kernels.negated(x)
    assert z.view("uint8").tolist() == [1, 0, 0, 0] and count == 3


def test_numbers_strings_and_lists(kernels):
    assert kernels.reduce(f64(1, 2, 6)) == (3.0, "mean")
    assert kernels.reduce(f64(1, 2, 6), "max") == (6.0, "max")
    assert kernels.greet("é", times=2) == "hello éhello é"
    assert kernels.greet("", loud=True) == "HELLO "
    assert kernels.total([1, 2, 3]) == 6 and kernels.total([], []) == 0
    assert kernels.total([1, 2], [0.5, 0.25]) == 1.0
    assert kernels.given() is None and kernels.given(f32(1, 2)) == 2


def test_results_that_the_function_makes(kernels):
    assert kernels.positive(f64(1, -1, 2)).tolist() == [1, 2]
    values, order = kernels.sorted(f64(3, 1, 2))
    assert values.tolist() == [1, 2, 3] and order.tolist() == [1, 2, 0]
    assert kernels.grid(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]
    x = f64(1, 2, 3)
    tail = kernels.tail(x)
    assert tail.tolist() == [2, 3] and numpy.shares_memory(tail, x)
    assert kernels.tail(f64()).tolist() == []


def test_lists_of_tensors(kernels):
    xs = [numpy.ones((2, 3)), numpy.ones((1, 3))]
    assert [x.tolist() for x in kernels.sums(xs)] == [[3, 3], [3]]
    assert kernels.sums([]) == []
    ys = [f64(1, 2), f64(3)]
    kernels.clear(ys)
    assert [y.tolist() for y in ys] == [[0, 0], [0]]
    assert [x.tolist() for x in kernels.split(f64(1, 2, 3, 4, 5), 2)] == [[1, 2], [3, 4], [5]]


def test_any_dtype(kernels):
    assert kernels.describe(numpy.zeros((2, 3), "int16")) == "i16[2, 3] 1"
    assert kernels.describe(f64().reshape(0, 1)) == "f64[0, 1] 1"
    assert kernels.copy_bytes(numpy.zeros(3, "int32"), numpy.zeros(4, "uint8")) == 7


def test_other_kinds(kernels):
    assert kernels.values(2**64 - 1, 1 + 2j) == (2**64 - 1, 2 + 1j, 2)
    with pytest.raises(OverflowError):
        kernels.values(-1, 0)
    assert kernels.texts(b"abc", ["x", "é", ""]) == (b"cba", ["X", "É", ""], "f32")
    assert kernels.texts(b"", [], "int16") == (b"", [], "i16")
    assert kernels.lists(3) == ([0, 1, 2], [0.0, 0.5, 1.0])
    for dtype in "float32", "float64":
        z = kernels.filled(2, dtype)
        assert z.dtype == dtype and z.tolist() == [7, 7]
    assert kernels.converted(numpy.array([1, 2], "int32")) == 3
    with pytest.raises(ValueError, match="n >= 1"):
        kernels.converted(f64())
    assert kernels.area(3.0) == 9 and kernels.area(2.0, 4.0) == 8


def test_callbacks(kernels):
    assert kernels.fold(lambda total, i: total + 2 * i, 4) == 12
    x = f64(1, 2)

    def change(view):
        assert numpy.shares_memory(numpy.asarray(view), x)
        x[0] = 10

    assert kernels.visit(x, change) == 12
    with pytest.raises(ZeroDivisionError):
        kernels.fold(lambda total, i: 1 / 0, 3)


@pytest.mark.parametrize(
    "kind, exception",
    [
        ("invalid", ValueError),
        ("bounds", IndexError),
        ("overflow", OverflowError),
        ("dtype", TypeError),
        ("memory", MemoryError),
        ("parse", RuntimeError),
        ("failed", RuntimeError),
    ],
)
def test_errors(kernels, kind, exception):
    with pytest.raises(exception) as caught:
        kernels.fail(kind)
    assert type(caught.value) is exception
    message = {"invalid": "invalid é", "parse": "invalid digit found in string"}.get(kind, kind)
    assert str(caught.value) == f"fail(): {message}"


def test_an_error_of_another_type(kernels):
    with pytest.raises(RuntimeError, match=re.escape("fail_string(): a string")):
        kernels.fail_string()


@pytest.mark.parametrize(
    "how, message",
    [
        (0, "the function panicked: index 0 is wrong"),
        (1, "the function panicked: (its payload is not a string)"),
        (2, "(the Display of the error panicked)"),
    ],
)
def test_panics(kernels, how, message):
    with pytest.raises(RuntimeError, match=re.escape(message)):
        kernels.fail_rudely(how)


def test_a_result_that_is_not_filled(kernels):
    assert kernels.unfilled(1).tolist() == [1]
    with pytest.raises(RuntimeError, match="its code wrote only 1 of the 3 elements of result 0"):
        kernels.unfilled(3)
