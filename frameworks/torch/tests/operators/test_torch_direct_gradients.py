"""The direct path of tenon.torch_ops: gradients and writes, as the operator has them."""

import random
import warnings

import pytest
from direct_ops import asking, direct, doubles, kernels, nothing_seen, off, on, ops, seen, spied  # noqa: F401
from operators import tenon, torch


def test_gradients(direct, off):
    for names in ("affine", "weighted", "dot"):
        for function in (getattr(direct, names), getattr(off, names)):
            one, two = doubles(4, grad=True), doubles(4, grad=True)
            assert torch.autograd.gradcheck(function, (one,) if names == "affine" else (one, two))
    x = doubles(4, grad=True)
    made = direct.affine(x)
    assert type(made.grad_fn).__name__ == "affineBackward" and not made.is_leaf
    assert type(direct.dot(x, x).grad_fn).__name__ == "dotBackward"


def test_a_backward_sees_the_same(ops):
    def run(call, *tensors):
        seen.clear()
        torch.autograd.grad(call().sum(), tensors)
        return list(seen)

    x, w = doubles(4, grad=True), doubles(4, grad=True)
    setup = ((2.0,), (4,), torch.Tensor, {"shift": None})
    assert run(lambda: ops.affine(x), x) == [setup, (True,)]
    assert run(lambda: ops.affine(x, 2), x) == [setup, (True,)]
    setup = ((3.0,), (4,), torch.Tensor, {"shift": 1.0})
    found = run(lambda: ops.affine(x, 3, shift=1), x)
    assert found == [setup, (True, False)] and type(found[0][0][0]) is float
    assert run(lambda: ops.weighted(x), x) == [(True,)]
    assert run(lambda: ops.weighted(x, None), x) == [(True,)]
    assert run(lambda: ops.weighted(x, w.detach()), x) == [(True, False)]
    assert run(lambda: ops.weighted(x.detach(), w), w) == [(False, True)]
    y = torch.ones(6, 2, requires_grad=True)
    arguments = {"mode": "mean", "size": [3, 4], "keep": True}
    assert run(lambda: ops.pool(y, "mean", (3, 4)), y) == [((True, False, False), arguments)]
    arguments = {"mode": 'a "sum"', "size": [1, 2], "keep": False}
    assert run(lambda: ops.pool(y, size=[1, 2], keep=False), y) == [((True,), arguments)]


def test_gradients_of_views_and_parameters(ops):
    base = doubles(3, 4, grad=True)
    weight = torch.nn.Parameter(doubles(4))
    ops.weighted(base[1], weight).sum().backward()
    assert torch.equal(base.grad[1], weight.detach()) and torch.equal(weight.grad, base[1].detach())
    assert base.grad[0].count_nonzero() == 0
    with torch.no_grad():
        assert not ops.weighted(base[1], weight).requires_grad
    assert not ops.weighted(base[1].detach(), weight.detach()).requires_grad


def test_second_derivatives(ops):
    x = doubles(4, grad=True)
    w = doubles(4, grad=True)
    (first,) = torch.autograd.grad(ops.weighted(x, w).sum(), x, create_graph=True)
    assert torch.equal(torch.autograd.grad(first.sum(), w)[0], torch.ones_like(w))


def test_calls_inside_a_backward_pass(direct, kernels):
    called, calls = spied(direct.weighted)
    x = doubles(4, grad=True)
    x.register_hook(lambda grad: called(grad.contiguous(), None))
    (x * 2).sum().backward()

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return called(x.detach(), None)

        @staticmethod
        def backward(ctx, grad):
            return called(grad.contiguous(), None)

    Function.apply(x).sum().backward()
    assert calls == []


def test_refusals(ops):
    x = doubles(3, grad=True)
    with pytest.raises(RuntimeError, match="plain has no backward"):
        ops.plain(x).sum().backward()
    for call in (lambda: ops.twice(x * 1), lambda: ops.add_to(doubles(3), x), lambda: ops.by_keyword(1.0, x=x)):
        with pytest.raises(RuntimeError, match="requires grad, but torch supports no gradients for a function that"):
            call()


def test_a_wrong_number_of_gradients(direct):
    """From 2.15 on, the operator refuses them too."""
    y = torch.ones(4, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"head\(\): .* incorrect number of gradients: expected 2, .* got 3"):
        direct.head(y, 2).sum().backward()


def test_what_was_saved_may_not_be_written(ops):
    x = doubles(3, grad=True)
    w = doubles(3)
    made = ops.weighted(x, w)
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()


# --------------------------------------------------------------------------------------------------------------- writes


def test_a_write_is_counted_once(ops):
    x, y = doubles(3), doubles(3)
    for call in (lambda: ops.twice(x), lambda: ops.add_to(x, y), lambda: ops.add_to(x[:2], y[:2])):
        before = x._version, y._version
        call()
        assert (x._version, y._version) == (before[0] + 1, before[1])
        with torch.inference_mode():
            call()
        assert x._version == before[0] + 2


def test_inference_tensors_are_written(ops):
    with torch.inference_mode():
        x = torch.ones(3, dtype=torch.float64)
        ops.twice(x)
    ops.twice(x)
    assert x.tolist() == [4, 4, 4]


def test_a_backward_of_the_library_gets_the_same(kernels):
    """The direct path has code of its own for it: random calls, with gradients of any strides."""
    backward = {"affine": "affine_grad", "dot": "dot_grad"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [tenon.torch_ops(kernels, name=f"tenon_{on}", backward=backward, direct=on) for on in (True, False)]
    chance = random.Random(3)
    for _ in range(1000):
        shape = [chance.randrange(1, 4) for _ in range(2)]
        x, a = torch.randn(shape, dtype=chance.choice([torch.float32, torch.float64])), chance.choice([2.0, 3, 1.5])
        more = chance.choice([{}, {"shift": None}, {"shift": 1.0}])
        y, z = torch.randn(3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
        grad = torch.randn(shape[::-1], dtype=x.dtype).t() if chance.random() < 0.5 else torch.ones((), dtype=x.dtype).expand(shape)
        follows = [chance.random() < 0.7, chance.random() < 0.7]
        found = []
        for ops in made:
            x1, y1, z1 = x.clone().requires_grad_(), y.clone().requires_grad_(follows[0]), z.clone().requires_grad_(follows[1])
            ops.affine(x1, a, **more).backward(grad)
            if any(follows):
                ops.dot(y1, z1).backward()
            found.append([None if t.grad is None else t.grad.tolist() for t in (x1, y1, z1)])
        assert found[0] == found[1]
    for ops in made:
        ops.close()
