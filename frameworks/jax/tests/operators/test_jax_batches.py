"""Operators of functions whose arguments begin with a batch, **b."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import build
from jax_operators import tenon

kernels = tenon.load(build(pathlib.Path(__file__).resolve().parent / "jax_batches.c"))
f32 = np.float32
SHAPES = [[(), (), ()], [(2, 3), (3,), ()], [(4, 1, 2), (3, 1), (1,)], [(5,), (5,), (5,)]]


@pytest.fixture(scope="module")
def ops():
    return tenon.jax_ops(kernels, backward={"lerp": "lerp_backward"})


def numbers(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).random(shape, f32))


def lerp(x, y, t):
    return x + t * (y - x)


def given(shapes):
    return [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("shapes", SHAPES)
def test_values(ops, shapes):
    args = given(shapes)
    np.testing.assert_allclose(ops.lerp(*args), lerp(*args), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(ops.lerp)(*args), lerp(*args), rtol=1e-6)
    np.testing.assert_allclose(kernels.lerp(*args), lerp(*args), rtol=1e-6)  # the eager path


@pytest.mark.parametrize("shapes", SHAPES)
def test_gradients_are_summed(ops, shapes):
    args = given(shapes)
    found = jax.grad(lambda *a: (ops.lerp(*a) ** 2).sum(), argnums=(0, 1, 2))(*args)
    wanted = jax.grad(lambda *a: (lerp(*a) ** 2).sum(), argnums=(0, 1, 2))(*args)
    for one, other in zip(found, wanted):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("axes", [(0, None, None), (0, 0, None), (1, None, 0), (None, 0, 0)])
def test_vmap(ops, axes):
    shapes = [(2, 3), (3,), ()]
    args = [numbers(*(shape if a is None else (*shape[:a], 5, *shape[a:])), seed=i) for i, (shape, a) in enumerate(zip(shapes, axes))]
    mapped = jax.vmap(ops.lerp, in_axes=axes)
    np.testing.assert_allclose(mapped(*args), jax.vmap(lerp, in_axes=axes)(*args), rtol=1e-6)
    assert "while" not in str(jax.make_jaxpr(mapped)(*args)) and "scan" not in str(jax.make_jaxpr(mapped)(*args))  # one call
    twice = jax.vmap(jax.vmap(ops.norm))(numbers(2, 3, 4, 5))
    np.testing.assert_allclose(twice, jnp.linalg.norm(numbers(2, 3, 4, 5), axis=-1), rtol=1e-5)


def test_shapes_that_do_not_broadcast(ops):
    message = "argument 'y': dimension 0 is 3, and dimension 1 of argument 'x' is 2: they must be equal, or one of them 1"
    for call in (ops.lerp, jax.jit(ops.lerp), kernels.lerp):
        with pytest.raises(ValueError, match=message):
            call(numbers(4, 2), numbers(3), numbers())


def test_export(ops):
    from jax import export

    (b,) = export.symbolic_shape("b")
    checks = [export.DisabledSafetyCheck.custom_call(name) for name in ops.custom_calls]
    shapes = [jax.ShapeDtypeStruct(shape, f32) for shape in ((b, 3), (3,), ())]
    exported = export.export(jax.jit(ops.lerp), disabled_checks=checks)(*shapes)
    assert exported.out_avals[0].shape == (b, 3)
    args = given([(4, 3), (3,), ()])
    np.testing.assert_allclose(exported.call(*args), lerp(*args), rtol=1e-6)
