"""Batches, shape functions and the state of a library."""

import numpy
import pytest


def test_elements_of_a_batch(kernels):
    x, y = numpy.arange(6.0).reshape(2, 3), numpy.arange(3.0)
    assert numpy.allclose(kernels.hypot(x, y), numpy.hypot(x, y))
    assert numpy.allclose(kernels.hypot(x[:, ::-2], 3.0 * numpy.ones((4, 1, 1))), numpy.hypot(x[:, ::-2], 3 * numpy.ones((4, 1, 1))))
    assert kernels.hypot(numpy.float64(3).reshape(()), numpy.array(4.0)) == 5
    assert kernels.hypot(numpy.ones((0, 3)), y).shape == (0, 3)
    many = numpy.arange(100_000.0)
    assert numpy.allclose(kernels.hypot(many, many), numpy.hypot(many, many))


def test_rows_of_a_batch(kernels):
    x, w = numpy.arange(24, dtype="float32").reshape(4, 2, 3), numpy.arange(2.0)
    assert numpy.array_equal(kernels.weighted(x, w), x * w[:, None])
    assert numpy.array_equal(kernels.weighted(x[::-1, :, ::-2], w), x[::-1, :, ::-2] * w[:, None])
    assert kernels.weighted(numpy.ones((2, 0), "float32"), w).shape == (2, 0)
    rows = numpy.ones((5000, 3), "float32")
    assert numpy.array_equal(kernels.weighted(rows, 2 * numpy.ones(5000)), 2 * rows)
    into = numpy.full((2, 3), 9.0)
    kernels.weighted(x[0], w, out=into)
    assert numpy.array_equal(into, x[0] * w[:, None])


def test_panics_and_gaps_in_a_batch(kernels):
    with pytest.raises(RuntimeError, match="the weight is negative"):
        kernels.weighted(numpy.ones((5000, 3), "float32"), -numpy.ones(5000))
    with pytest.raises(RuntimeError, match="wrote only 0 of the 3 elements of result 0"):
        kernels.unvisited(numpy.ones(3))


def test_a_result_of_a_batch_in_kept_memory(kernels):
    kept = numpy.ones((2, 2), "float32")
    table = kernels.Table(kept)
    with pytest.raises(ValueError, match="shares memory with an array that an object of this library keeps"):
        kernels.hypot(numpy.ones(2), numpy.ones(2), out=kept.view("float64").reshape(-1))
    assert table.total() == 4


def test_a_shape_function(kernels):
    assert kernels.repeat(numpy.array([1.0, 2.0]), 2).tolist() == [1, 2, 1, 2]
    with pytest.raises(ValueError, match="k is negative"):
        kernels.repeat(numpy.ones(2), -1)
    with pytest.raises(RuntimeError, match=r"its shape function returns \[14\], and its code makes \[1\]"):
        kernels.repeat(numpy.ones(2), 7)


def test_the_state(kernels):
    first = kernels.count()
    assert [kernels.count(), kernels.count()] == [first + 1, first + 2] and first >= 100
    with pytest.raises(RuntimeError, match="the module has no state of the type that the function takes"):
        kernels.other_state()


def test_a_dtype_without_an_instance(kernels):
    assert kernels.doubles_only(numpy.ones(3)) == 3
    with pytest.raises(TypeError, match="the function has no instance for the dtype f32"):
        kernels.doubles_only(numpy.ones(3, "float32"))
