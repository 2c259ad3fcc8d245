"""A PyO3 extension that takes and returns arrays with the feature `pyo3`."""

import gc
import importlib.util
import os
import sys

import numpy
import pytest


@pytest.fixture(scope="session")
def extension():
    path = os.environ.get("TENON_RUST_EXTENSION")
    if not path:
        pytest.skip("TENON_RUST_EXTENSION is not set")
    spec = importlib.util.spec_from_file_location("rust_extension", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def f32(*values):
    return numpy.array(values, "float32")


def test_arrays(extension):
    x, y = f32(1, 2, 3), f32(4, 5, 6)
    before = sys.getrefcount(x)
    assert extension.dot(x, y) == 32
    assert extension.dot(x[::2], y[::-2]) == 6 + 12
    assert extension.dot(x, x) == 14
    assert sys.getrefcount(x) == before


def test_other_producers(extension):
    assert extension.dot(memoryview(f32(1, 2)), f32(3, 4)) == 11
    torch = pytest.importorskip("torch")
    assert extension.dot(torch.tensor([1.0, 2.0]), f32(3, 4)) == 11
    jax = pytest.importorskip("jax")
    assert extension.dot(jax.numpy.array([1.0, 2.0]), torch.tensor([3.0, 4.0])) == 11


def test_written_arrays(extension):
    x = numpy.ones((4, 6))
    extension.scale(x[::2, 1::2], 3.0)
    assert x.sum() == 24 + 6 * 2
    extension.add_to(y := f32(1, 2), f32(10, 20))
    assert y.tolist() == [11, 22]


def test_arrays_that_overlap(extension):
    x = f32(1, 2, 3, 4)
    message = "overlaps another array of the call, and one of them is written to"
    for other in x, x[1:], x[::-1], memoryview(x):
        with pytest.raises((ValueError, TypeError), match=message):
            extension.add_to(x, other)
    extension.add_to(x[:2], x[2:])
    assert x.tolist() == [4, 6, 3, 4]
    # A borrow that failed is not alive.
    extension.add_to(x, f32(1, 1, 1, 1))


def test_refusals(extension):
    with pytest.raises(TypeError, match="expected an array of f32, got one of f64"):
        extension.touch(numpy.zeros(2))
    with pytest.raises(ValueError, match=r"expected an array with 1 dimensions, got the shape \[2, 2\]"):
        extension.touch(numpy.zeros((2, 2), "float32"))
    with pytest.raises(TypeError):
        extension.touch([1.0, 2.0])
    x = f32(1, 2)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        extension.add_to(x, f32(1, 2))
    with pytest.raises(ValueError, match="not aligned"):
        extension.touch(numpy.zeros(9, "uint8")[1:].view("float32"))


def test_the_same_object(extension):
    x = f32(1, 2)
    assert extension.same(x) is x
    torch = pytest.importorskip("torch")
    t = torch.ones(2, requires_grad=True)
    assert extension.same(t) is t


def test_the_same_torch_tensor(extension):
    torch = pytest.importorskip("torch")
    if not hasattr(extension, "same_torch"):
        pytest.skip("the extension was built without the feature torch")
    t = torch.nn.Parameter(torch.ones(2))
    same, address = extension.same_torch(t)
    assert same is t and address
    with pytest.raises(TypeError, match="expected torch.Tensor"):
        extension.same_torch(numpy.ones(2))


def test_a_tensor_on_another_thread(extension):
    x = numpy.arange(5.0)
    before = sys.getrefcount(x)
    assert extension.sum_elsewhere(x) == 10
    gc.collect()
    extension.touch(f32(1))  # releases what another thread left
    assert sys.getrefcount(x) == before
    with pytest.raises(TypeError, match="expected a vector of f64"):
        extension.sum_elsewhere(f32(1))


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_a_vec(extension, framework):
    pytest.importorskip(framework)
    made = extension.make(4, framework)
    assert type(made).__module__.split(".")[0].startswith(framework[:3]) and made.tolist() == [0, 1, 2, 3]
    assert extension.make(0, framework).tolist() == []
