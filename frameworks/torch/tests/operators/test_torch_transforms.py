"""torch.vmap, torch.func and forward mode, against the same layer in pure torch."""

import pytest
from operators import tenon, torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from transforms import DERIVATIVES, doubles, load_transforms, wave


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return load_transforms(tmp_path_factory)


@pytest.fixture(scope="module")
def ops(kernels):
    return tenon.torch_ops(kernels, name="tenon_transforms", **DERIVATIVES)


X, W, V = doubles(3, 4), doubles(4), doubles(3, 4)


def total(f):
    return lambda x, w: f(x, w).square().sum()


def both_ways(ops):
    return ops.wave, torch.ops.tenon_transforms.wave


def agree(ops, transformed):
    wanted = transformed(wave)
    for f in both_ways(ops):
        torch.testing.assert_close(transformed(f), wanted)


# ----------------------------------------------------------------------------------------------------------------- vmap

ONE_CALL = {
    "the batch in front": lambda f: vmap(f, (0, None))(X, W),
    "the batch at the end": lambda f: vmap(f, (1, None), out_dims=1)(X.t().contiguous(), W),
    "an argument that is not mapped": lambda f: vmap(f, (0, None))(doubles(2, 3, 4, seed=1), W),
    "twice": lambda f: vmap(vmap(f, (1, None)), (0, None))(doubles(2, 4, 5, seed=1).transpose(1, 2).contiguous().mT, W),
    "nothing": lambda f: vmap(f, (0, None))(doubles(0, 4), W),
}


@pytest.mark.parametrize("name", ONE_CALL)
def test_one_call_for_the_batch(ops, kernels, name):
    agree(ops, ONE_CALL[name])
    kernels.count()
    ONE_CALL[name](ops.wave)
    assert kernels.count() == 1


@pytest.mark.parametrize("dims", [(None, 0), (0, 0), (1, 0), (0, 1)])
def test_a_weight_that_is_mapped_takes_a_call_for_each_item(ops, kernels, dims):
    x = X.t().contiguous() if dims[0] == 1 else X
    w = doubles(4, 3, seed=1) if dims[1] == 1 else doubles(3, 4, seed=1)
    agree(ops, lambda f: vmap(f, dims)(x, w))
    kernels.count()
    vmap(ops.wave, dims)(x, w)
    assert kernels.count() == 3


@pytest.mark.parametrize("dims", [(0, 0), (1, None), (None, -1)])
def test_a_list_of_items_with_the_batch(ops, kernels, dims):
    """All items have the same batch, so that a mapped item makes it larger for each of them."""
    x, y = (doubles(3, 4, seed=i) if dim is None else doubles(5, 3, 4, seed=i).movedim(0, dim) for i, dim in enumerate(dims))
    f = lambda a, b: ops.blend([a, b, a])  # noqa: E731
    kernels.count()
    torch.testing.assert_close(vmap(f, dims)(x, y), vmap(lambda a, b: b + 2 * a, dims)(x, y))
    assert kernels.count() == 1
    found, wanted = (vmap(grad(total(g), (0, 1)), dims)(x, y) for g in (f, lambda a, b: b + 2 * a))
    torch.testing.assert_close(found, wanted)


def test_without_a_batch_there_is_a_loop(ops, kernels):
    kernels.count()
    assert torch.equal(vmap(ops.double_all, 1, 1)(X), 2 * X)
    assert kernels.count() == 4
    with pytest.raises(ValueError, match=r"double_all\(\): torch.vmap over 0 items"):
        vmap(ops.double_all)(doubles(0, 4))


def test_operators_that_write_have_no_vmap(ops):
    for f in (ops.scale, torch.ops.tenon_transforms.scale):
        for x, y, dims in ((X.clone(), X, (0, 0)), (W.clone(), X, (None, 0))):
            with pytest.raises(RuntimeError, match=r"^scale\(\): torch.vmap cannot map an operator that writes to its arguments; call it"):
                vmap(f, dims)(x, y)
            assert torch.equal(x, X if x.dim() == 2 else W)


def test_a_strided_view_is_not_copied(ops):
    """The signature of address() does not say `c`."""
    x = doubles(4, 3)
    assert vmap(ops.address, 1)(x).tolist() == [x.data_ptr()] * 3


def test_results_of_the_backward_are_summed(ops, kernels):
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    kernels.count()
    found = torch.autograd.grad(vmap(ops.wave, (0, None))(x, w).square().sum(), (x, w))
    assert kernels.count() == 2  # one forward, one backward
    wanted = torch.autograd.grad(wave(x, w).square().sum(), (x, w))
    torch.testing.assert_close(found, wanted)


def test_gradients_of_each_item(kernels):
    """One call each way for all of them, if the gradient of the weight has the batch, too."""
    with tenon.torch_ops(kernels, name="tenon_transforms_rows", backward={"wave": "wave_rows_grad"}) as own:
        each = lambda f: vmap(grad(total(f), (0, 1)), (0, None))  # noqa: E731
        for x in (X, doubles(2, 3, 4, seed=1), doubles(2, 5, 3, 4, seed=1), X[:1], X[:0]):
            kernels.count()
            found = each(own.wave)(x, W)
            assert kernels.count() == 2
            torch.testing.assert_close(found, each(wave)(x, W))
        for x in (X, X[0], X[:0], doubles(2, 3, 4, seed=1), doubles(3, 1)):  # and it is summed if there is no vmap
            found, wanted = (
                torch.autograd.grad(total(f)(*both), both)
                for f in (own.wave, wave)
                for both in [[x.clone().requires_grad_(), W[: x.shape[-1]].clone().requires_grad_()]]
            )
            torch.testing.assert_close(found, wanted)


# -------------------------------------------------------------------------------------------------------- differentiation

FORMS = {
    "grad": lambda f: grad(total(f), (0, 1))(X, W),
    "vjp": lambda f: vjp(f, X, W)[1](V),
    "jvp": lambda f: jvp(f, (X, W), (V, W + 1)),
    "jvp of one argument": lambda f: jvp(lambda w: f(X, w), (W,), (W,)),
    "jacrev": lambda f: jacrev(f, (0, 1))(X, W),
    "jacfwd": lambda f: jacfwd(f, (0, 1))(X, W),
    "hessian": lambda f: hessian(total(f), (0, 1))(X, W),
    "grad of grad": lambda f: grad(lambda w: grad(total(f))(X, w).square().sum())(W),
    "grad of jvp": lambda f: grad(lambda x: jvp(lambda y: f(y, W), (x,), (V,))[1].square().sum())(X),
    "jvp of grad": lambda f: jvp(lambda x: grad(total(f))(x, W), (X,), (V,)),
    "jvp of jvp": lambda f: jvp(lambda x: jvp(lambda y: f(y, W), (x,), (V,))[1], (X,), (V + 1,)),
    "jacrev of jacrev": lambda f: jacrev(jacrev(lambda w: total(f)(X, w)))(W),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(lambda x: total(f)(x, W)))(X),
    "vmap of grad": lambda f: vmap(grad(total(f), (0, 1)), (0, None))(X, W),
    "vmap of jvp": lambda f: vmap(lambda x, v: jvp(lambda y: f(y, W), (x,), (v,)))(X, V),
    "grad of vmap": lambda f: grad(total(vmap(f, (0, None))), (0, 1))(X, W),
}


def test_zero_tensors(ops):
    """Derivatives that are zero may come as tensors without memory, also inside of the tensors of a level."""
    zero = lambda: torch._efficientzerotensor((3, 4), dtype=torch.float64)  # noqa: E731
    for f in (ops.wave_grad, torch.ops.tenon_transforms.wave_grad):
        assert all((one == 0).all() for one in f(zero(), X, W))
        torch.testing.assert_close(f(X, zero(), W), (X * W, torch.zeros_like(W)))

    def transformed(f):
        inner = lambda x, w: jacfwd(lambda v: (f(x * v, v.cos()) * 2 - x).sum())(w) + x  # noqa: E731
        return grad(lambda *both: inner(*both).square().sum(), (0, 1))(X, W)

    agree(ops, transformed)


@pytest.mark.parametrize("name", FORMS)
def test_torch_func(ops, name):
    agree(ops, FORMS[name])


def test_dual_tensors(ops):
    def transformed(f):
        with forward_ad.dual_level():
            x = X.clone().requires_grad_()
            primal, tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(x, V), W))
            of_gradient = torch.autograd.grad(f(forward_ad.make_dual(x, V), W).square().sum(), x, create_graph=True)[0]
            return primal, tangent, *torch.autograd.grad(tangent.sum(), x), forward_ad.unpack_dual(of_gradient).tangent

    agree(ops, transformed)


def test_checks_of_torch(ops):
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    torch.autograd.gradcheck(ops.wave, (x, w), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    torch.autograd.gradgradcheck(ops.wave, (x, w), check_fwd_over_rev=True)
    torch.library.opcheck(ops.wave.op, (x, w))
    a, b = (torch.complex(doubles(5, seed=i), doubles(5, seed=i + 1)).requires_grad_() for i in range(2))
    torch.autograd.gradcheck(ops.turn, (a, b))
    torch.autograd.gradcheck(lambda *xs: ops.blend(list(xs)), (x, x.detach() + 1))
    torch.library.opcheck(ops.blend.op, ([x, x],))


@pytest.mark.parametrize("name", ["grad", "jvp", "vmap of grad"])
def test_compiled(ops, name):
    torch._dynamo.reset()

    programs = {
        "grad": lambda f: lambda x, w: grad(total(f), (0, 1))(x, w),
        "jvp": lambda f: lambda x, w: jvp(lambda y: f(y, w), (x,), (V,)),
        "vmap of grad": lambda f: lambda x, w: vmap(grad(total(f), (0, 1)), (0, None))(x, w),
    }
    found = torch.compile(programs[name](ops.wave), fullgraph=True, backend="aot_eager")(X, W)
    torch.testing.assert_close(found, programs[name](wave)(X, W))


# -------------------------------------------------------------------------------------------------------------- messages


def test_mistakes_inside_of_transforms(ops):
    """The message is that of the function, which sees the tensor inside of the one that a transform passes."""
    says = r"wave\(\): argument 'w': dimension 0 is 5, but k = 4 from argument 'x'"
    wrong = doubles(5)
    for run in (
        lambda f: vmap(f, (0, None))(X, wrong),
        lambda f: grad(lambda x: f(x, wrong).sum())(X),
        lambda f: jvp(lambda x: f(x, wrong), (X,), (V,)),
        lambda f: vmap(grad(lambda x: f(x, wrong).sum()))(X),
    ):
        for f in both_ways(ops):
            with pytest.raises((ValueError, RuntimeError), match=says):
                run(f)


def test_without_a_forward(ops):
    with pytest.raises(RuntimeError, match=r"carries a tangent.*pass forward=\{'double_all': ...\} to tenon.torch_ops\(\)"):
        jvp(ops.double_all, (W,), (W,))
    with pytest.raises(RuntimeError, match="tenon_transforms::double_all has no backward"):
        grad(lambda x: ops.double_all(x).sum())(W)


@pytest.mark.parametrize(
    ("forward", "error", "message"),
    [
        ({"wave": "missing"}, ValueError, r"argument 'forward': wave\(\): the library has no operator missing\(\)"),
        ({"missing": "wave"}, ValueError, r"argument 'forward': the library has no function missing\(\)"),
        ({"wave": "wave_grad"}, ValueError, r"wave_grad\(\) must take its arguments, then the tangents of x, w: tensor, tensor, tensor, tensor"),
        ({"wave": "wave_jvp_two"}, ValueError, "the library has no operator"),
        ({"wave": print}, TypeError, "expected a function of the library or its name, got <built-in function print>"),
        ("wave", TypeError, "argument 'forward': expected a dict, got str"),
    ],
)
def test_wrong_forward(kernels, forward, error, message):
    with pytest.raises(error, match=message):
        tenon.torch_ops(kernels, name="tenon_transforms_wrong", forward=forward)


def test_a_forward_that_is_a_function(kernels):
    with tenon.torch_ops(kernels, name="tenon_transforms_function", forward={"wave": kernels.wave_jvp}) as own:
        torch.testing.assert_close(jvp(own.wave, (X, W), (V, W)), jvp(wave, (X, W), (V, W)))
