"""Arguments without the batch, such as the weight of a layer: one call for a whole vmap, and gradients that are summed."""

import jax
import numpy as np
from jax_layers import calls, curve, gradients, kernels, layers, numbers, same, tenon

X, W = numbers(3, 5, 4), numbers(4, seed=1)
BATCH = (0, None)


def test_vmap_over_the_rows_is_one_call():
    for axis in (0, 1):
        run = jax.jit(jax.vmap(layers.curve, in_axes=(axis, None), out_axes=1 - axis))
        same(run(X, W), jax.vmap(curve, in_axes=(axis, None), out_axes=1 - axis)(X, W))
        assert calls(run, X, W) == (1, 0)
    twice = jax.jit(jax.vmap(jax.vmap(layers.curve, in_axes=BATCH), in_axes=BATCH))
    same(twice(X, W), curve(X, W))
    assert calls(twice, X, W) == (1, 0)


def test_the_gradient_of_a_vmap_is_one_call():
    """Which adds the gradients of the weight up."""
    run = jax.jit(gradients(jax.vmap(layers.curve, in_axes=BATCH)))
    same(run(X, W), gradients(curve)(X, W))
    assert calls(run, X, W) == (1, 1)
    same(gradients(jax.vmap(jax.vmap(layers.curve, in_axes=BATCH), in_axes=BATCH))(X, W), gradients(curve)(X, W))


def test_the_gradients_of_each_row():
    """Each has its own gradient of the weight, so that the backward runs once for each."""
    run = jax.jit(jax.vmap(gradients(layers.curve), in_axes=BATCH))
    same(run(X, W), jax.vmap(gradients(curve), in_axes=BATCH)(X, W))
    assert calls(run, X, W) == (1, 3)


def test_a_backward_that_does_not_sum():
    """The gradient of the weight may have the shape of the batch. Then each row's gradient is one call, too."""
    rows = tenon.jax_ops(kernels, backward={"curve": "curve_rows_grad"})
    same(gradients(rows.curve)(X, W), gradients(curve)(X, W))
    run = jax.vmap(gradients(rows.curve), in_axes=BATCH)
    same(run(X, W), jax.vmap(gradients(curve), in_axes=BATCH)(X, W))
    assert "scan" not in str(jax.make_jaxpr(run)(X, W))


def test_a_weight_that_is_mapped_is_a_loop():
    w = numbers(3, 4, seed=2)
    for axes, args in (((0, 0), (X, w)), ((None, 0), (X, w))):
        run = jax.jit(jax.vmap(layers.curve, in_axes=axes))
        same(run(*args), jax.vmap(curve, in_axes=axes)(*args))
        assert calls(run, *args) == (3, 0)
        same(jax.vmap(gradients(layers.curve), in_axes=axes)(*args), jax.vmap(gradients(curve), in_axes=axes)(*args))
        same(gradients(jax.vmap(layers.curve, in_axes=axes))(*args), gradients(jax.vmap(curve, in_axes=axes))(*args))


def test_what_is_not_a_weight():
    """The batch may not be elsewhere in another argument, and an argument that is written is not the same for all rows."""
    y = np.zeros((4, 5), np.float32)
    text = str(jax.make_jaxpr(jax.vmap(layers.both, in_axes=(0, None)))(X, y))
    assert "scan" in text
    assert "scan" in str(jax.make_jaxpr(jax.vmap(layers.counts, in_axes=(0, None)))(X, W))


def test_an_empty_batch_and_no_batch():
    same(layers.curve(X[0, 0], W), curve(X[0, 0], W))
    same(gradients(layers.curve)(X[:0], W), (np.zeros((0, 5, 4)), np.zeros(4)))
    same(gradients(jax.vmap(layers.curve, in_axes=BATCH))(X[:0], W), (np.zeros((0, 5, 4)), np.zeros(4)))
