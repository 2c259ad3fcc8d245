"""Operators of functions whose arguments begin with a batch, **b."""

import pytest
from operators import HERE, compiled_library, tenon, torch


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    kernels = tenon.load(compiled_library(tmp_path_factory.mktemp("torch_batches"), HERE / "torch_batches.c"))
    return tenon.torch_ops(kernels, name="tenon_batches", backward={"lerp": "lerp_backward"})


SHAPES = [[(), (), ()], [(2, 3), (3,), ()], [(4, 1, 2), (3, 1), (1,)], [(5,), (5,), (5,)]]


def doubles(*shape, grad=False):
    return torch.rand(shape, dtype=torch.float64).requires_grad_(grad)


@pytest.mark.parametrize("shapes", SHAPES)
def test_values(ops, shapes):
    x, y, t = (doubles(*shape) for shape in shapes)
    torch.testing.assert_close(ops.lerp(x, y, t), torch.lerp(x, y, t))


@pytest.mark.parametrize("shapes", SHAPES)
def test_gradients_are_summed(ops, shapes):
    args = [doubles(*shape, grad=True) for shape in shapes]
    weight = torch.rand(torch.broadcast_shapes(*shapes), dtype=torch.float64)
    found = torch.autograd.grad((ops.lerp(*args) * weight).sum(), args)
    wanted = torch.autograd.grad((torch.lerp(*args) * weight).sum(), args)
    for one, other, argument in zip(found, wanted, args):
        assert one.shape == argument.shape
        torch.testing.assert_close(one, other)


def test_a_backward_in_python(ops, tmp_path_factory):
    def backward(ctx, grad):
        x, y, t = ctx.saved_tensors
        return grad * (1 - t), grad * t, None

    kernels = tenon.load(compiled_library(tmp_path_factory.mktemp("torch_batches_python"), HERE / "torch_batches.c"))
    own = tenon.torch_ops(kernels, name="tenon_batches_python", backward={"lerp": backward})
    x, y, t = doubles(4, 1, grad=True), doubles(3, grad=True), doubles()
    found = torch.autograd.grad(own.lerp(x, y, t).sum(), (x, y))
    assert [grad.shape for grad in found] == [(4, 1), (3,)]
    own.close()


VMAPS = [
    ((0, None, None), [(5, 2, 3), (3,), ()]),
    ((2, 0, None), [(2, 3, 5), (5,), (3,)]),
    ((None, 1, 0), [(4, 3), (3, 5), (5,)]),
]


@pytest.mark.parametrize(("dims", "shapes"), VMAPS)
def test_vmap(ops, dims, shapes):
    args = [doubles(*shape) for shape in shapes]
    torch.testing.assert_close(torch.vmap(ops.lerp, dims)(*args), torch.vmap(torch.lerp, dims)(*args))

    def gradients(f):
        return torch.func.grad(lambda *given: torch.vmap(f, dims)(*given).square().sum(), (0, 1, 2))(*args)

    torch.testing.assert_close(gradients(ops.lerp), gradients(torch.lerp))


def test_opcheck(ops):
    for name, args in (("lerp", (doubles(4, 1), doubles(3), doubles())), ("norm", (doubles(2, 3, 4),))):
        torch.library.opcheck(getattr(torch.ops.tenon_batches, name).default, args)
    torch.library.opcheck(torch.ops.tenon_batches.lerp.default, (doubles(4, 1, grad=True), doubles(3), doubles(1)))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(ops, dynamic):
    compiled = torch.compile(lambda x, y, t: ops.lerp(x, y, t) + 1, dynamic=dynamic, fullgraph=True, backend="aot_eager")
    for shapes in SHAPES:
        x, y, t = (doubles(*shape) for shape in shapes)
        torch.testing.assert_close(compiled(x, y, t), torch.lerp(x, y, t) + 1)


def test_shapes_that_do_not_broadcast(ops):
    message = "argument 'y': dimension 0 is 3, and dimension 1 of argument 'x' is 2: they must be equal, or one of them 1"
    with pytest.raises(ValueError, match=message):
        ops.lerp(doubles(4, 2), doubles(3), doubles())
    fake = torch._subclasses.FakeTensorMode
    with fake() as mode, pytest.raises(ValueError, match=message):
        torch.ops.tenon_batches.lerp(*(mode.from_tensor(x) for x in (doubles(4, 2), doubles(3), doubles())))
