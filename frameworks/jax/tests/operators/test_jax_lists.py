"""Operators of JAX with lists of tensors: each item is an operand or a result of one call."""

import pathlib
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import build
from jax_operators import f32, tenon

kernels = tenon.load(build(pathlib.Path(__file__).resolve().parent / "jax_lists.c"))


def mix_backward(residuals, grad):
    return sum(residuals["xs"]) * grad, [residuals["w"] * grad for _ in residuals["xs"]]


@pytest.fixture(scope="module")
def ops():
    with pytest.warns(UserWarning, match=r"pushed\(\) is left out: result 0 is of type \[f32\[\?\]\], whose length is not known"):
        return tenon.jax_ops(kernels, backward={"scaled": "scaled_grad", "mix": mix_backward})


X, Y = f32(3), f32(2, 2)


def equal(made, wanted):
    return len(made) == len(wanted) and all(np.array_equal(a, b) for a, b in zip(made, wanted))


def test_calls(ops):
    assert equal(ops.scaled([X, Y], 3.0), [3 * X, 3 * Y])
    assert equal(ops.scaled((np.asarray(X), Y)), [2 * X, 2 * Y])
    assert ops.scaled([]) == []
    assert equal(jax.jit(lambda x, y: ops.scaled([x, y, x], 3.0))(X, Y), [3 * X, 3 * Y, 3 * X])
    found = ops.mix(X, [X, X])
    assert np.array_equal(found.z, 2 * X * X) and found.count == 2
    found = ops.mix(X, [])
    assert not found.z.any() and found.count == 0
    assert ops.count(jnp.float32(0)) == -1 and ops.count(jnp.float32(0), []) == 0
    assert ops.count(jnp.float32(0), [X, X]) == 2


def test_written_items(ops):
    params = [jnp.ones(3), jnp.ones((2, 2))]
    made = ops.sgd(params, [X, Y], 2.0)
    assert equal(made, [1 - 2 * X, 1 - 2 * Y])
    assert equal(params, [jnp.ones(3), jnp.ones((2, 2))])  # JAX's arrays never change
    assert equal(jax.jit(lambda p, g: ops.sgd(p, g))(params, [X, Y]), [1 - X, 1 - Y])
    assert ops.sgd([], []) == []


def test_mistakes(ops):
    with pytest.raises(ValueError, match=r"^mix\(\): argument 'xs\[1\]': dimension 0 is 4, but n = 3 from argument 'w'"):
        ops.mix(X, [X, f32(4)])
    with pytest.raises(ValueError, match=r"^mix\(\): argument 'xs\[1\]': dimension 0 is 4, but n = 3 from argument 'w'"):
        jax.jit(ops.mix)(X, [X, f32(4)])
    with pytest.raises(TypeError, match=r"^scaled\(\): argument 'xs\[0\]': expected f32\[\*_\], got i32\[2\]"):
        ops.scaled([jnp.ones(2, "int32")])
    with pytest.raises(TypeError, match=r"^scaled\(\): argument 'xs\[1\]': expected an array of JAX or NumPy, got builtins.str"):
        ops.scaled([X, "text"])
    for wrong in ("text", b"bytes", {0: X}, X, np.ones(2, "f4"), 3, (x for x in [X])):
        with pytest.raises(TypeError, match=r"^scaled\(\): argument 'xs': expected \[f32\[\*_\] c\], got .*; pass a list"):
            ops.scaled(wrong)


def test_gradients(ops):
    def loss(x, y):
        one, two = ops.scaled([x, y], 5.0)
        return one.sum() + 2 * two.sum()

    gx, gy = jax.grad(loss, (0, 1))(X, Y)
    assert np.array_equal(gx, np.full(3, 5)) and np.array_equal(gy, np.full((2, 2), 10))
    gx, gy = jax.jit(jax.grad(lambda x, y: ops.mix(x, [y, y]).z.sum(), (0, 1)))(X, X)
    assert np.array_equal(gx, 2 * X) and np.array_equal(gy, 2 * X)
    gs = jax.grad(lambda xs: ops.scaled(xs)[0].sum())([X, Y])
    assert np.array_equal(gs[0], np.full(3, 2)) and not gs[1].any()
    with pytest.raises(RuntimeError, match="`count` has no backward"):
        jax.grad(lambda x: ops.count(jnp.float32(0), [x]))(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = tenon.jax_ops(kernels, name="wrong", backward={"mix": lambda residuals, grad: (grad, grad)})
    with pytest.raises(TypeError, match=r"mix\(\): its backward must return a list of 1 gradient for argument 'xs'"):
        jax.grad(lambda x: own.mix(x, [X]).z.sum())(X)


def test_vmap(ops):
    xs = jnp.stack([X, X + 1])
    made = jax.vmap(lambda x: ops.scaled([x, X], 2.0))(xs)
    assert np.array_equal(made[0], 2 * xs) and np.array_equal(made[1], jnp.stack([2 * X, 2 * X]))


def test_eager_calls_of_the_function():
    assert equal(kernels.scaled([X, Y], 3.0), [3 * X, 3 * Y])
