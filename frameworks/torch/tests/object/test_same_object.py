"""The tensor in C is the tensor in Python: one object, counted on both sides."""

import gc
import os
import sys
import weakref

import pytest
import tenon_torch_probe as probe
import torch
from apart import run_apart
from torch import nn


class Tagged(torch.Tensor):
    pass


def tensors():
    x = torch.arange(6.0).reshape(2, 3)
    leaf = torch.ones(3, requires_grad=True)
    return {
        "plain": x,
        "view": x[:, ::2],
        "leaf": leaf,
        "recorded": leaf * 2,
        "parameter": nn.Parameter(torch.ones(2)),
        "buffer": nn.Buffer(torch.ones(2)) if hasattr(nn, "Buffer") else x,
        "subclass": torch.ones(2).as_subclass(Tagged),
        "scalar": torch.tensor(3),
        "empty": torch.empty(0, 4),
        "sparse": torch.eye(3).to_sparse(),
        "meta": torch.empty(2, device="meta"),
        "conjugate": torch.ones(2, dtype=torch.complex64).conj(),
    }


@pytest.mark.parametrize("name", tensors())
def test_the_same_object_comes_back(name):
    x = tensors()[name]
    facts = lambda: (type(x), x.requires_grad, x.is_leaf, x.grad_fn, x.dtype, x.shape)  # noqa: E731
    before = facts()
    assert probe.round_trips(x, 3) is x
    assert facts() == before


@pytest.mark.parametrize("name", tensors())
def test_counts(name):
    x = tensors()[name]
    references, uses = sys.getrefcount(x), x._use_count()
    handle = probe.take(x)
    assert x._use_count() == uses + 1
    other = probe.take(x)
    assert x._use_count() == uses + 2
    out = probe.give(handle)
    assert out is x
    assert x._use_count() == uses + 2
    del out
    probe.release(other)
    assert x._use_count() == uses + 1
    probe.release(handle)
    assert (sys.getrefcount(x), x._use_count()) == (references, uses)


def test_counts_of_a_handle():
    x = torch.ones(2)
    uses = x._use_count()
    handle = probe.take(x)
    assert probe.refcount(handle) == 1
    assert probe.retain(handle) == handle
    assert (probe.refcount(handle), x._use_count()) == (2, uses + 1)
    probe.release(handle)
    assert (probe.refcount(handle), x._use_count()) == (1, uses + 1)
    probe.release(handle)
    assert (probe.refcount(handle), x._use_count()) == (0, uses)


def test_many_round_trips():
    x = nn.Parameter(torch.ones(2))
    references, uses = sys.getrefcount(x), x._use_count()
    assert probe.round_trips(x, int(os.environ.get("TENON_TORCH_ROUND_TRIPS", 100_000))) is x
    assert (sys.getrefcount(x), x._use_count()) == (references, uses)


RANDOM = """
import hashlib, random, sys, torch
import tenon_torch_probe as probe
class Tagged(torch.Tensor):
    pass
chance, seen = random.Random(5), hashlib.sha256()
kinds = [lambda x: x, lambda x: x, lambda x: x[..., ::2], lambda x: x.t(), lambda x: x.as_subclass(Tagged), lambda x: x.detach(),
         lambda x: torch.nn.Parameter(x.double()), lambda x: x.double().requires_grad_() * 2, lambda x: x.to("meta"),
         lambda x: x.to_sparse(), lambda x: torch._neg_view(x), lambda x: x.expand(3, *x.shape)]
for i in range(10_000):
    x = torch.ones([chance.randrange(4) for _ in range(2)], dtype=chance.choice([torch.float32, torch.int64, torch.uint8]))
    x = chance.choice(kinds)(x)
    state = lambda: (sys.getrefcount(x), x._use_count())
    before, handle = state(), probe.take(x)
    uses = x._use_count()
    same = probe.give(handle) is x
    if chance.random() < 0.5:
        probe.retain(handle)
        probe.release(handle)
    try:
        view = probe.view(handle)
    except Exception as error:
        view = f"{type(error).__name__}: {error}"
    if isinstance(view, dict):
        view = str({name: value for name, value in view.items() if name != "data"})
    probe.release(handle)
    seen.update(repr((uses - before[1], same, state() == before, view, type(x).__name__, str(x.dtype))).encode())
    assert same and state() == before
print(seen.hexdigest())
"""


def test_random_tensors_do_the_same_with_and_without_the_struct(monkeypatch):
    """A handle is copied from the Python object itself if its struct is read; otherwise torch makes it."""
    printed = []
    for struct in ("1", "0"):
        monkeypatch.setenv("TENON_TORCH_STRUCT", struct)
        done = run_apart(RANDOM)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1] != ""


def test_the_object_lives_while_only_c_holds_it():
    x = torch.ones(3).as_subclass(Tagged)
    x.note = "still here"
    gone = weakref.ref(x)
    identity = id(x)
    handle = probe.take(x)
    del x
    gc.collect()
    back = probe.give(handle)
    assert (type(back), back.note, id(back)) == (Tagged, "still here", identity)
    probe.release(handle)
    assert back.note == "still here"
    del back
    gc.collect()
    assert gone() is None


def test_the_last_count_in_c_ends_the_object():
    x = torch.ones(3)
    gone = weakref.ref(x)
    handle = probe.take(x)
    del x
    probe.release(handle)
    gc.collect()
    assert gone() is None


def test_autograd_goes_on_through_the_handle():
    x = torch.ones(3, requires_grad=True)
    seen = []
    y = x * 2
    y.register_hook(lambda grad: seen.append(grad.sum().item()))
    y.retain_grad()
    z = probe.round_trips(y, 2)
    (z * 3).sum().backward()
    assert x.grad.tolist() == [6.0] * 3
    assert y.grad.tolist() == [3.0] * 3
    assert seen == [9.0]


def test_a_model_keeps_its_parameters():
    model = nn.Linear(3, 2)
    weights = list(model.parameters())
    assert all(probe.round_trips(weight, 2) is weight for weight in weights)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.clone()
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert not torch.equal(before, model.weight)


def test_what_is_done_to_the_tensor_is_seen():
    x = torch.zeros(3)
    handle = probe.take(x)
    x.add_(1)
    assert probe.give(handle).tolist() == [1.0] * 3
    x.requires_grad_()
    assert probe.give(handle).requires_grad
    x.data = torch.ones(5)
    assert probe.view(handle)["shape"] == (5,)
    probe.release(handle)


def test_handles_in_an_autograd_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return probe.call("aten::mul", "Tensor", (x, torch.tensor(2.0)))[0]

        @staticmethod
        def backward(ctx, grad):
            return probe.call("aten::mul", "Tensor", (grad, torch.tensor(2.0)))[0]

    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Double.apply, (x,))


def test_a_pending_exception_survives_a_release():
    class Loud(torch.Tensor):
        def __del__(self):
            try:
                raise KeyError("inside")
            except KeyError:
                pass

    x = torch.ones(2).as_subclass(Loud)
    handle = probe.take(x)
    del x
    with pytest.raises(ZeroDivisionError):
        try:
            1 / 0
        finally:
            probe.release(handle)
