"""A framework that no text names, by its exchange table alone: results are its own, and gradients are not lost."""

import sys

import pytest
from building import same_counts

numpy = pytest.importorskip("numpy")
if tuple(map(int, numpy.__version__.split(".")[:2])) < (2, 1):  # of the stand-in: versioned capsules
    pytest.skip("the stand-in is made with NumPy 2.1", allow_module_level=True)

import tabled  # noqa: E402
from tabled import Tabled  # noqa: E402


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    Tabled.mistake, Tabled.records = None, True


def tensor(*numbers, **more):
    return Tabled(numpy.array(numbers, "f4"), **more)


def test_results_are_its_own(kernels):
    z = kernels.saxpy(2.0, tensor(1, 2, 3), tensor(1, 1, 1))
    assert type(z) is Tabled
    assert z.array.tolist() == [3, 5, 7]


def test_its_memory_is_taken(kernels):
    x = tensor(1, 2, 3)
    out = numpy.zeros(3, "f4")
    assert kernels.saxpy(2.0, x, x, out=out) is out
    assert out.tolist() == [3, 6, 9]
    kernels.add_to(x, 1.0)
    assert x.array.tolist() == [2, 3, 4]


@pytest.mark.parametrize("mistake", ["ValueError", "silent", "late", "RuntimeError"])
def test_where_it_makes_none_ours_do(kernels, mistake):
    Tabled.mistake = mistake
    z = kernels.saxpy(2.0, tensor(1, 2, 3), tensor(1, 1, 1))
    assert type(z).__name__ == "Tensor"
    assert memoryview(z).tolist() == [3, 5, 7]


def test_no_memory_is_no_memory(kernels):
    Tabled.mistake = "MemoryError"
    with pytest.raises(MemoryError, match="its allocator says no"):
        kernels.saxpy(2.0, tensor(1, 2, 3), tensor(1, 1, 1))


def test_gradients_are_not_lost(kernels, monkeypatch):
    x = tensor(1, 2, 3, requires_grad=True)
    monkeypatch.setattr(tabled, "is_grad_enabled", lambda: Tabled.records)
    with pytest.raises(RuntimeError, match=r"saxpy\(\): argument 'y': it requires grad"):
        kernels.saxpy(1.0, tensor(1, 2, 3), x)
    Tabled.records = False
    assert kernels.saxpy(1.0, x, x).array.tolist() == [2, 4, 6]
    Tabled.records = True
    monkeypatch.delattr(tabled, "is_grad_enabled")  # it cannot be asked: the tensor's own word counts
    with pytest.raises(RuntimeError, match="it requires grad"):
        kernels.saxpy(1.0, x, x)
    monkeypatch.delitem(sys.modules, "tabled")  # nor here
    with pytest.raises(RuntimeError, match="it requires grad"):
        kernels.saxpy(1.0, x, x)
    x.requires_grad = lambda: True  # a method says nothing
    assert kernels.saxpy(1.0, x, x).array.tolist() == [2, 4, 6]


def test_without_elements(kernels):
    assert type(kernels.saxpy(2.0, tensor(), tensor())) is Tabled


def test_nothing_stays(kernels):
    x = tensor(1, 2, 3)
    with same_counts(x, x.array):
        for _ in range(5):
            kernels.saxpy(2.0, x, x)
