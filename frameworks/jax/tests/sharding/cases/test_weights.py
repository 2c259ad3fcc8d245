"""Arguments without the batch, such as weights, are whole on each device; batches that are broadcast may be split, too."""

import pathlib

import jax
import numpy as np
import pytest
from building import build
from four_devices import (
    LINE,
    SHARDY,
    SQUARE,
    VERSION,
    NamedSharding,
    P,
    collectives,
    partitions_batches,
    put,
    sentence,
    shard_map,
    specs,
)
from jax_layers import curve, gradients, layers, numbers, same
from jax_operators import HERE, tenon

pytestmark = partitions_batches
X, W = numbers(8, 4, 4), numbers(4, seed=1)
SPLITS = [("a",), (None, "a"), ("a", "b"), (("b", "a"),), ("b",), (None, ("a", "b"))]
batches = tenon.jax_ops(tenon.load(build(pathlib.Path(HERE) / "jax_batches.c")), backward={"lerp": "lerp_backward"})


def mesh_of(spec):
    return SQUARE if "b" in str(spec) else LINE


@pytest.mark.parametrize("spec", SPLITS, ids=str)
def test_a_batch_that_is_split(spec):
    """Forward nothing is sent. Backward the gradient of the weight is added up, once."""
    mesh = mesh_of(spec)
    x = put(X, *spec, mesh=mesh)
    for w in (W, put(W, mesh=mesh)):
        for wrap in (lambda f: f, jax.jit):
            made = wrap(layers.curve)(x, w)
            same(made, curve(X, W))
            assert specs(made) == spec
            found = wrap(gradients(layers.curve))(x, w)
            same(found, gradients(curve)(X, W))
            assert specs(found[0]) == spec and found[1].sharding.is_fully_replicated
        assert collectives(layers.curve, x, w) == []
        assert collectives(gradients(layers.curve), x, w) == ["all-reduce"]


def test_vmap_is_split():
    x = put(X, "a")
    mapped = jax.vmap(layers.curve, in_axes=(0, None))
    same(jax.jit(mapped)(x, W), curve(X, W))
    assert collectives(mapped, x, W) == []
    same(jax.jit(gradients(mapped))(x, W), gradients(curve)(X, W))
    assert collectives(gradients(mapped), x, W) == ["all-reduce"]


def test_derivatives_of_both_modes():
    x, tx, tw = put(X, "a"), numbers(8, 4, 4, seed=2), numbers(4, seed=3)
    push = lambda f: lambda x, w: jax.jvp(f, (x, w), (tx, tw))[1]  # noqa: E731
    same(jax.jit(push(layers.curve))(x, W), push(curve)(X, W))
    assert collectives(push(layers.curve), x, W) == []
    for f in (push(layers.curve), gradients(layers.curve), push(gradients(layers.curve)), gradients(push(layers.curve))):
        jax.jit(f)(x, W)
    same(jax.jit(push(gradients(layers.curve)))(x, W), push(gradients(curve))(X, W))
    same(jax.jit(gradients(push(layers.curve)))(x, W), gradients(push(curve))(X, W))
    twice = lambda f: jax.grad(lambda x, w: sum((g**2).sum() for g in gradients(f)(x, w)), argnums=(0, 1))  # noqa: E731
    same(jax.jit(twice(layers.curve))(x, W), twice(curve)(X, W))


def test_a_weight_that_is_split_is_refused():
    how = " in dimension 0, which does not belong to the batch"
    for x in (X, put(X, "a")):
        with pytest.raises(ValueError) as eager:
            layers.curve(x, put(W, "a"))
        assert str(eager.value) == sentence("curve", "w", how)
        with pytest.raises(jax.errors.JaxRuntimeError) as compiled:
            jax.jit(layers.curve)(x, put(W, "a"))
        assert sentence("curve", "w", how) in str(compiled.value)
    with pytest.raises(ValueError) as eager:
        layers.curve(put(X, None, None, "a"), W)
    assert str(eager.value) == sentence("curve", "x", how.replace("0", "2"))


def test_a_sum_that_the_user_calls_is_refused():
    """A result without the batch may be anything, for instance a maximum, unless the function is a derivative."""
    x = put(X, "a")
    with pytest.raises(ValueError) as caught:
        layers.curve_grad(x, x, W)
    assert str(caught.value) == sentence("curve_grad", "g")


def test_training_gives_the_same_weights():
    """A gradient that is too large by the number of devices would show."""

    @jax.jit
    def step(w, x):
        return w - 0.01 * jax.grad(lambda w: (layers.curve(layers.curve(x, w), w) ** 2).mean())(w)

    @jax.jit
    def reference(w, x):
        return w - 0.01 * jax.grad(lambda w: (curve(curve(x, w), w) ** 2).mean())(w)

    one, other, x = W, W, put(X, ("a", "b"), mesh=SQUARE)
    for _ in range(5):
        one, other = step(one, x), reference(other, X)
    same(one, other)


def test_shard_map():
    whole = shard_map(layers.curve, (P("a"), P()), P("a"))
    same(jax.jit(gradients(whole))(put(X, "a"), W), gradients(curve)(X, W))
    tangents = (numbers(8, 4, 4, seed=2), numbers(4, seed=3))
    same(jax.jvp(whole, (X, W), tangents), jax.jvp(curve, (X, W), tangents))
    if VERSION >= (0, 6, 1):
        inside = shard_map(gradients(layers.curve), (P("a"), P()), (P("a"), P()))
        same(jax.jit(inside)(put(X, "a"), W), gradients(curve)(X, W))


@pytest.mark.skipif(not hasattr(jax, "shard_map") or not SHARDY, reason="needs Shardy")
def test_a_shard_map_over_some_axes():
    """XLA numbers the devices in another way there, so that nothing may be added up over the other axes."""
    part = shard_map(layers.curve, (P("a"), P()), P("a"), mesh=SQUARE, axis_names={"a"})
    same(jax.jit(part)(put(X, "a", "b", mesh=SQUARE), W), curve(X, W))
    same(jax.jit(gradients(part))(put(X, "a", mesh=SQUARE), W), gradients(curve)(X, W))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"curve_grad\(\): argument 'g' is sharded over 2 devices"):
        jax.jit(gradients(part))(put(X, "a", "b", mesh=SQUARE), W)


@pytest.mark.skipif(not hasattr(jax.sharding, "auto_axes") or not SHARDY, reason="explicit axes need JAX 0.7 and Shardy")
def test_explicit_axes():
    mesh = jax.make_mesh((4,), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x, w = put(X, "a", mesh=mesh), put(W, mesh=mesh)
        for wrap in (lambda f: f, jax.jit):
            made = wrap(layers.curve)(x, w)
            same(made, curve(X, W))
            assert tuple(jax.typeof(made).sharding.spec) == ("a", None, None)
            same(wrap(gradients(layers.curve))(x, w), gradients(curve)(X, W))
        assert collectives(layers.curve, x, w) == []


# ------------------------------------------------------------------------------------------------- batches that are broadcast


def lerp(x, y, t):
    return x + t * (y - x)


CASES = [
    ((8, 4), (4,), (), (("a",), (), ())),
    ((8, 4), (4,), (), ((None, "a"), ("a",), ())),
    ((8, 4), (4,), (8, 1), (("a", "b"), ("b",), ("a",))),
    ((4,), (8, 4), (8, 1), (("b",), ("a", "b"), ())),
    ((1, 4), (8, 1), (1,), ((None, "a"), (), ())),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_repeated_argument(case):
    *shapes, splits = case
    args = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    given = [put(x, *spec, mesh=SQUARE) for x, spec in zip(args, splits)]
    for wrap in (lambda f: f, jax.jit):
        same(wrap(batches.lerp)(*given), lerp(*args))
    assert collectives(batches.lerp, *given) == []
    slopes = lambda f: jax.grad(lambda *a: (f(*a) ** 2).sum(), argnums=(0, 1, 2))  # noqa: E731
    same(jax.jit(slopes(batches.lerp))(*given), slopes(lerp)(*args))
    assert "all-gather" not in collectives(slopes(batches.lerp), *given)


def test_a_repeated_argument_that_is_split_in_another_way():
    x, y = put(numbers(8, 4), "a", mesh=SQUARE), put(numbers(4), "b", mesh=SQUARE)
    with pytest.raises(ValueError) as caught:
        batches.lerp(x, y, numbers())
    assert str(caught.value) == sentence("lerp", "y", " in a different way from argument 'x'")


def test_a_constraint_of_the_user():
    """XLA may not split what it was told to keep whole, nor gather what is split."""
    whole = NamedSharding(LINE, P())
    run = lambda x, w: layers.curve(x, jax.lax.with_sharding_constraint(w * 2, whole)) * x  # noqa: E731
    assert collectives(run, put(X, "a"), put(W)) == []
