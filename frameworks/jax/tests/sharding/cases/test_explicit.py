"""A mesh with explicit axes: types say how arrays are split, so that a call is refused when it is traced."""

import jax
import numpy as np
import pytest
from four_devices import SHARDY, P, collectives, f32, ops, put, replicating, sentence, shard_map

if not hasattr(jax.sharding, "auto_axes") or not SHARDY:
    pytest.skip("explicit axes need JAX 0.7 and Shardy", allow_module_level=True)

A, B = f32(8, 4, 3), f32(8, 3, 2)
EXACT = np.testing.assert_array_equal
MESH = jax.make_mesh((4,), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))


@pytest.fixture(autouse=True)
def explicit():
    with jax.set_mesh(MESH):
        yield


def split(x, *spec):
    return put(x, *spec, mesh=MESH)


def type_of(x):
    return tuple(jax.typeof(x).sharding.spec)


def test_a_batch():
    a, b = split(A, "a"), split(B, "a")
    for args in ((a, b), (a, split(B)), (split(A), b)):
        for wrap in (lambda f: f, jax.jit):
            z = wrap(ops.matmul)(*args)
            EXACT(z, A @ B)
            assert type_of(z) == ("a", None, None)
        assert collectives(ops.matmul, *args) == []
    assert type_of(jax.jit(lambda a, b: ops.matmul(a, b) + 1)(a, b)) == ("a", None, None)


def test_grad():
    expected = 2 * (A @ B) @ B.swapaxes(-1, -2), A.swapaxes(-1, -2) @ (2 * (A @ B))
    f = jax.grad(lambda a, b: (ops.matmul(a, b) ** 2).sum(), argnums=(0, 1))
    for b in (split(B, "a"), split(B)):
        made = jax.jit(f)(split(A, "a"), b)
        for one, value in zip(made, expected):
            EXACT(one, value)
        assert type_of(made[0]) == ("a", None, None) and type_of(made[1]) == type_of(b)


def test_numbers():
    x = split(A, "a")
    EXACT(jax.jit(lambda x, a: ops.affine(x, a))(x, np.float32(3)), 3 * A)
    assert type_of(jax.jit(lambda x: ops.affine(x, 3.0))(x)) == ("a", None, None)


def test_what_is_not_a_batch_is_refused_when_it_is_traced():
    a, b = split(f32(8, 4), "a"), split(f32(4, 8))
    for f in (ops.product, jax.jit(ops.product), lambda *args: jax.eval_shape(ops.product, *args)):
        with pytest.raises(ValueError) as caught:
            f(a, b)
        assert str(caught.value) == sentence("product", "a")
    with pytest.raises(ValueError) as caught:
        jax.jit(ops.matmul)(split(A, None, "a"), split(B))
    assert str(caught.value) == sentence("matmul", "a", " in dimension 1, which does not belong to the batch")


def test_vmap_one_after_the_other():
    """Refused when it is traced, whichever dimension is split."""
    x, y = f32(8, 4, 4), f32(8, 4, 4) + 1
    for spec in (("a",), (None, "a"), (None, None, "a")):
        a, b = split(x, *spec), split(y, spec[0])
        mapped = jax.vmap(ops.product)
        for f in (mapped, jax.jit(mapped), lambda *args: jax.eval_shape(jax.vmap(ops.product), *args)):
            with pytest.raises(ValueError) as caught:
                f(a, b)
            assert str(caught.value) == sentence("product", "a")
        for wrap in (lambda f: f, jax.jit):
            EXACT(wrap(jax.vmap(replicating.product))(a, b), x @ y)
    EXACT(jax.jit(jax.vmap(ops.product))(split(x), split(y)), x @ y)


def test_replicate():
    a, b = split(f32(8, 4), "a"), split(f32(4, 8))
    for wrap in (lambda f: f, jax.jit):
        EXACT(wrap(replicating.product)(a, b), f32(8, 4) @ f32(4, 8))
    made = jax.jit(jax.grad(lambda a: replicating.product(a, b).sum()))(a)
    EXACT(made, np.ones((8, 8)) @ f32(4, 8).T)
    assert type_of(made) == ("a", None)


def test_replicated_arrays_are_taken():
    a, b = split(f32(8, 4)), split(f32(4, 8))
    for made in (ops, replicating):
        EXACT(jax.jit(made.product)(a, b), f32(8, 4) @ f32(4, 8))
        EXACT(jax.jit(jax.grad(lambda a: made.product(a, b).sum()))(a), np.ones((8, 8)) @ f32(4, 8).T)


def test_shard_map():
    product = shard_map(ops.product, (P("a"), P()), P("a"), mesh=MESH)
    a, b = split(f32(8, 4), "a"), split(f32(4, 8))
    EXACT(jax.jit(product)(a, b), f32(8, 4) @ f32(4, 8))
    assert collectives(product, a, b) == []
