"""Forward mode: `forward=` of jax_ops, alone and beside `backward=`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from jax_layers import BACKWARD, FORWARD, curve, gradients, kernels, layers, loss, numbers, same, tenon

X, W = numbers(2, 3, 4), numbers(4, seed=1)
TX, TW = numbers(2, 3, 4, seed=2), numbers(4, seed=3)


def test_jvp():
    for wrap in (lambda f: f, jax.jit):
        same(wrap(lambda *t: jax.jvp(layers.curve, (X, W), t))(TX, TW), jax.jvp(curve, (X, W), (TX, TW)))
        same(wrap(lambda t: jax.jvp(lambda w: layers.curve(X, w), (W,), (t,)))(TW), jax.jvp(lambda w: curve(X, w), (W,), (TW,)))
    same(jax.linearize(layers.curve, X, W)[1](TX, TW), jax.linearize(curve, X, W)[1](TX, TW))
    own = tenon.jax_ops(kernels, forward={"curve": kernels.curve_jvp})  # without a backward
    same(jax.jvp(own.curve, (X, W), (TX, TW)), jax.jvp(curve, (X, W), (TX, TW)))
    with pytest.raises(RuntimeError, match="`curve` has no backward: give one to tenon.jax_ops"):
        gradients(own.curve)(X, W)


def test_jacfwd_and_hessian():
    both = {"argnums": (0, 1)}
    same(jax.jacfwd(layers.curve, **both)(X, W), jax.jacfwd(curve, **both)(X, W))
    x = X[0]
    wanted = jax.hessian(loss(curve), **both)(x, W)
    for make in (jax.hessian, lambda f, **o: jax.jacfwd(jax.jacfwd(f, **o), **o), lambda f, **o: jax.jacrev(jax.jacfwd(f, **o), **o)):
        same(make(loss(layers.curve), **both)(x, W), wanted)
        same(jax.jit(make(loss(layers.curve), **both))(x, W), wanted)


def test_check_grads_in_both_modes_and_of_second_order():
    check_grads(layers.curve, (X, W), order=2, modes=("fwd", "rev"), rtol=0.02, atol=0.02)
    check_grads(lambda x, w: jax.vmap(layers.curve, in_axes=(0, None))(x, w), (X, W), order=2, rtol=0.02, atol=0.02)
    check_grads(lambda x: layers.curve(x, W), (X,), order=2, modes=("fwd", "rev"), rtol=0.02, atol=0.02)


def test_loops_and_remat():
    def thrice(f):
        return lambda x, w: jax.lax.scan(lambda x, _: (jax.checkpoint(f)(x, w), None), x / 2, None, length=3)[0]

    same(jax.jvp(thrice(layers.curve), (X, W), (TX, TW)), jax.jvp(thrice(curve), (X, W), (TX, TW)))
    same(gradients(thrice(layers.curve))(X, W), gradients(thrice(curve))(X, W))


def test_vmap_of_tangents():
    push = lambda f: lambda tx, tw: jax.jvp(f, (X, W), (tx, tw))[1]  # noqa: E731
    many, each = numbers(5, 2, 3, 4), numbers(5, 4)
    for axes in ((0, 0), (0, None), (None, 0)):
        args = (many if axes[0] == 0 else TX, each if axes[1] == 0 else TW)
        same(jax.vmap(push(layers.curve), axes)(*args), jax.vmap(push(curve), axes)(*args))
    text = str(jax.make_jaxpr(jax.vmap(lambda t: jax.jvp(lambda x: layers.curve(x, W), (X,), (t,))[1]))(many))
    assert "scan" not in text


SAYS = "`curve` has no forward: give one to tenon.jax_ops(), for forward-mode differentiation (jvp, jacfwd, linearize, hessian)"


def test_without_a_forward():
    own = tenon.jax_ops(kernels, backward=BACKWARD)
    for run in (
        lambda: jax.jvp(own.curve, (X, W), (TX, TW)),
        lambda: jax.jit(lambda *t: jax.jvp(own.curve, (X, W), t))(TX, TW),
        lambda: jax.jacfwd(own.curve)(X, W),
        lambda: jax.linearize(own.curve, X, W)[1](TX, TW),
    ):
        with pytest.raises(TypeError) as caught:
            run()
        assert str(caught.value) == SAYS
    alone = tenon.jax_ops(kernels, backward=BACKWARD, forward={"curve": "curve_jvp"})
    with pytest.raises(TypeError, match="`curve_grad` has no forward"):
        jax.hessian(loss(alone.curve))(X[0], W)
    half = tenon.jax_ops(kernels, backward={"curve": "curve_grad"}, forward={"curve": "curve_jvp"})
    with pytest.raises(TypeError, match="`curve_jvp` has no forward"):
        jax.jacfwd(jax.jacfwd(half.curve))(X[0], W)
    with pytest.raises(TypeError, match="`counts` has no forward, and cannot have one, because it writes to its arguments"):
        jax.jvp(own.counts, (X, W), (TX, TW))


def test_integers_have_no_tangents():
    made, moved = jax.jvp(lambda x: layers.curve(x, W).astype(jnp.int32), (X,), (TX,))
    assert moved.dtype == jax.dtypes.float0


@pytest.mark.parametrize(
    "forward, exception, message",
    [
        ([], TypeError, "argument 'forward': expected a dict, got list"),
        ({1: "curve_jvp"}, TypeError, "argument 'forward': expected names of functions as keys, got 1"),
        ({"curved": "curve_jvp"}, ValueError, "argument 'forward': the library has no function curved()"),
        ({"curve": "curved"}, ValueError, "argument 'forward': curve(): the library has no operator curved()"),
        ({"curve": 1}, TypeError, "argument 'forward': curve(): expected a function of the library, or its name, got 1"),
        ({"curve": "curve_grad"}, ValueError, "curve_grad() must take its arguments, then the tangents of those that are floats: tensor, tensor, tensor, tensor"),
        ({"counts": "curve_jvp"}, ValueError, "counts() writes to its arguments; such a function cannot have a forward"),
        ({"curve_grad": "curve_grad_grad"}, ValueError, "must take its arguments"),
        ({"curve": "curve_jvp", "curve_grad": "curve_jvp"}, ValueError, "must take its arguments"),
    ],
)
def test_wrong_forwards(forward, exception, message):
    with pytest.raises(exception) as caught:
        tenon.jax_ops(kernels, forward=forward)
    assert message in str(caught.value)


def test_the_same_arguments_give_the_same_operators():
    assert tenon.jax_ops(kernels, backward=BACKWARD, forward=FORWARD) is layers
    assert tenon.jax_ops(kernels, backward=BACKWARD) is not layers
