"""The operators of jax_layers.c, with derivatives of both modes up to the second order, and the same layer in jnp."""

import pathlib

import jax
import numpy as np
from building import build
from jax_operators import tenon

kernels = tenon.load(build(pathlib.Path(__file__).resolve().parent / "jax_layers.c"))
BACKWARD = {"curve": "curve_grad", "curve_grad": "curve_grad_grad", "curve_jvp": "curve_jvp_grad"}
FORWARD = {"curve": "curve_jvp", "curve_grad": "curve_grad_jvp", "curve_jvp": "curve_jvp_jvp"}
layers = tenon.jax_ops(kernels, backward=BACKWARD, forward=FORWARD)


def curve(x, w):
    return w * x * x


def loss(f):
    return lambda x, w: (f(x, w) ** 2).sum()


def gradients(f):
    return jax.grad(loss(f), argnums=(0, 1))


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(np.float32)


def same(found, wanted):
    """Whether two trees of arrays have the same shapes and nearly the same numbers."""
    one, other = jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(wanted)
    assert [x.shape for x in one] == [x.shape for x in other]
    for x, y in zip(one, other):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=2e-4, atol=1e-5)


def calls(f, *args):
    """How often the layer and its backward run in f(*args)."""
    before = kernels.count()
    jax.block_until_ready(f(*args))
    backward, forward = divmod(kernels.count() - before, 1000)
    return forward, backward
