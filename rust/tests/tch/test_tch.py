"""torch's tensors through tch, with the extension that TENON_RUST_TCH names; `tools/nox rust_tch` builds it."""

import gc
import importlib.util
import os
import sys
import weakref

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def extension():
    path = os.environ.get("TENON_RUST_TCH")
    if not path:
        pytest.skip("TENON_RUST_TCH is not set")
    spec = importlib.util.spec_from_file_location("rust_tch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_identical_object_comes_back(extension):
    x = torch.ones(3)
    before, shares = sys.getrefcount(x), x._use_count()
    for _ in range(1000):
        assert extension.same(x) is x
    assert (sys.getrefcount(x), x._use_count()) == (before, shares)
    for other in (torch.nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True) * 2, torch.ones(4)[::2],
                  torch.ones(0), torch.tensor(1.5)):
        assert extension.same(other) is other


def test_what_tch_reads(extension):
    assert extension.describe(torch.arange(6, dtype=torch.int64).reshape(2, 3)) == ([2, 3], "Int64", 15.0)
    assert extension.describe(torch.ones(2, 2).t()) == ([2, 2], "Float", 4.0)


def test_what_tch_writes(extension):
    x = torch.zeros(3)
    assert extension.fill(x, 2.5) is x
    assert x.tolist() == [2.5] * 3 and x._version == 1


def test_a_tensor_of_tch(extension):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = extension.doubled(x)
    assert type(y) is torch.Tensor and y.tolist() == [2, 4] and y._use_count() == 1
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_a_tensor_that_only_tch_has(extension):
    x = torch.arange(3.0)
    x.note = "the dict of the object"
    alive = weakref.ref(x)
    extension.keep(x)
    del x
    gc.collect()
    kept = extension.kept()
    assert kept.note == "the dict of the object" and kept.tolist() == [0, 1, 2] and alive() is kept
    extension.keep(None)
    del kept
    gc.collect()
    assert alive() is None and extension.kept() is None
