"""tenon.torch_ops: functions with lists of tensors, which are Tensor[] in schemas."""

import pytest
from operators import HERE, compiled_library, tenon, torch


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return tenon.load(compiled_library(tmp_path_factory.mktemp("torch_lists"), HERE / "torch_lists.c"))


def mix_backward(ctx, grad, _):
    w, *xs = ctx.saved_tensors
    return sum(xs) * grad, [w * grad for _ in xs]


@pytest.fixture(scope="module")
def ops(kernels):
    with pytest.warns(UserWarning, match=r"pushed\(\) is left out: a result is of type \[f64\[\?\]\], and torch has to know"):
        made = tenon.torch_ops(kernels, name="tenon_list_tests", backward={"scaled": "scaled_grad", "mix": mix_backward})
    yield made
    torch._dynamo.reset()
    made.close()


def doubles(*shape, grad=False):
    return torch.randn(shape, dtype=torch.float64, requires_grad=grad)


def test_schemas(ops):
    space = torch.ops.tenon_list_tests
    schemas = {name: str(getattr(space, name).default._schema).partition("::")[2] for name in ("scaled", "sgd", "mix", "count")}
    assert schemas == {
        "scaled": "scaled(Tensor[] xs, float a=2.) -> Tensor[]",
        "sgd": "sgd(Tensor(a0!)[] params, Tensor[] grads, float rate=1.) -> ()",
        "mix": "mix(Tensor w, Tensor[] xs) -> (Tensor, Tensor)",
        "count": "count(Tensor x, Tensor[]? xs=None) -> Tensor",
    }


def test_calls(ops):
    xs = [doubles(2), doubles(2, 3), doubles()]
    made = ops.scaled(xs, 3.0)
    assert [torch.equal(y, 3 * x) for x, y in zip(xs, made)] == [True] * 3
    assert list(ops.scaled([])) == []
    params = [torch.ones(2, dtype=torch.float64), torch.ones(3, dtype=torch.float64)]
    versions = [p._version for p in params]
    ops.sgd(params, [torch.ones_like(p) for p in params])
    assert all(not p.any() for p in params)
    assert all(p._version > v for p, v in zip(params, versions))
    found = ops.mix(doubles(3), [doubles(3), doubles(3)])
    assert found.count == 2
    assert ops.count(doubles()) == -1 and ops.count(doubles(), []) == 0 and ops.count(doubles(), [doubles(1)]) == 1


def test_errors_name_the_item(ops):
    with pytest.raises(ValueError, match=r"mix\(\): argument 'xs\[1\]': dimension 0 is 4, but n = 3 from argument 'w'"):
        ops.mix(doubles(3), [doubles(3), doubles(4)])
    with pytest.raises(TypeError, match=r"scaled\(\): argument 'xs\[0\]': expected f64\[\*_\], got f32\[1\]"):
        ops.scaled([torch.ones(1)])


def test_opcheck(ops):
    space = torch.ops.tenon_list_tests
    torch.library.opcheck(space.scaled.default, ([doubles(2, grad=True), doubles(3, 2)], 3.0))
    torch.library.opcheck(space.scaled.default, ([],))
    torch.library.opcheck(space.mix.default, (doubles(3, grad=True), [doubles(3, grad=True), doubles(3)]))
    torch.library.opcheck(space.sgd.default, ([doubles(3), doubles(2)], [doubles(3), doubles(2)]))
    torch.library.opcheck(space.count.default, (doubles(), [doubles(2)]))


def test_gradients(ops):
    x, y = doubles(3, grad=True), doubles(2, 2, grad=True)
    one, two = ops.scaled([x, y], 5.0)
    (one.sum() + 2 * two.sum()).backward()
    assert x.grad.tolist() == [5] * 3 and y.grad.tolist() == [[10, 10], [10, 10]]

    w, x, y = (doubles(4, grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(lambda w, x, y: ops.mix(w, [x, y])[0], (w, x, y))
    with pytest.raises(RuntimeError, match=r"sgd\(\): an argument requires grad, but torch supports no gradients"):
        ops.sgd([doubles(2, grad=True)], [doubles(2)])
    with pytest.raises(RuntimeError, match="has no backward"):
        ops.count(doubles(), [doubles(2, grad=True)]).backward()


def test_tangents_are_refused(ops):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(doubles(3), doubles(3))
        with pytest.raises(RuntimeError, match="an argument carries a tangent"):
            ops.mix(doubles(3), [dual])


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(ops, dynamic):
    torch._dynamo.reset()

    def model(xs):
        made = ops.scaled(xs, 2.0)
        params = [y.clone() for y in made]
        ops.sgd(params, xs)
        return [p + 1 for p in params]

    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for n in (3, 5):
        xs = [doubles(n), doubles(n, 2)]
        assert all(torch.allclose(a, x + 1) for a, x in zip(compiled(xs), xs))
    with pytest.raises(Exception, match=r"argument 'xs\[1\]'"):
        torch.compile(lambda w, xs: ops.mix(w, xs), fullgraph=True, backend="aot_eager")(doubles(3), [doubles(3), doubles(4)])


def test_exported(ops):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return ops.scaled([x, y], 3.0)

    x, y = doubles(3), doubles(2)
    program = torch.export.export(Model(), (x, y))
    one, two = program.module()(x, y)
    assert torch.equal(one, 3 * x) and torch.equal(two, 3 * y)


def test_conjugates(kernels, ops):
    x = doubles(3)
    negative = torch._neg_view(x)
    (made,) = ops.scaled([negative], 2.0)
    assert torch.equal(made, -2 * x)
    params = [doubles(3)]
    before = params[0].clone()
    ops.sgd(params, [negative])
    assert torch.allclose(params[0], before + x)


def test_results_that_are_not_used(ops):
    x, y = doubles(3, grad=True), doubles(2, grad=True)
    ops.scaled([x, y], 5.0)[0].sum().backward()
    assert x.grad.tolist() == [5] * 3
    assert y.grad is None or not y.grad.any()
    x = doubles(3, grad=True)
    ops.scaled([x, doubles(2)], 5.0)[0].sum().backward()
    assert x.grad.tolist() == [5] * 3


def test_torch_func(ops):
    xs = [doubles(3), doubles(2)]
    found = torch.func.grad(lambda xs: sum(y.square().sum() for y in ops.scaled(xs, 3.0)))(xs)
    for x, gradient in zip(xs, found):
        torch.testing.assert_close(gradient, 18 * x)


def test_vmap(ops):
    xs = [doubles(4, 3), doubles(2, 4)]
    one, two = torch.vmap(lambda x, y: tuple(ops.scaled([x, y], 3.0)), (0, 1), (0, 1))(*xs)
    torch.testing.assert_close((one, two), (3 * xs[0], 3 * xs[1]))
