"""Functions whose tensors all begin with the same `*b`: the batch is partitioned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from four_devices import (
    LINE,
    SQUARE,
    VERSION,
    NamedSharding,
    P,
    collectives,
    f32,
    ops,
    partitions_batches,
    put,
    refuses,
    replicating,
    sentence,
    specs,
)

pytestmark = partitions_batches
A, B = f32(8, 4, 3, 2), f32(8, 4, 2, 5)  # two dimensions of a batch
EXACT = np.testing.assert_array_equal
PARTITIONED = [("a",), (None, "a"), (("a", "b"),), ("a", "b"), ("b", "a"), (None, ("b", "a"))]
not_replicated = pytest.mark.parametrize("spec", PARTITIONED, ids=str)


def check(f, args, expected, spec):
    """The same values in all ways to call it; the results are split like the batch, and nothing is sent."""
    for wrap in (lambda f: f, jax.jit):
        results = wrap(f)(*args)
        for result, one in zip(jax.tree_util.tree_leaves(results), expected):
            EXACT(result, one)
            assert specs(result) == spec
    assert collectives(f, *args) == []


def mesh_of(spec):
    return SQUARE if "b" in str(spec) else LINE


@not_replicated
def test_over_axes_of_a_mesh(spec):
    mesh = mesh_of(spec)
    check(ops.matmul, (put(A, *spec, mesh=mesh), put(B, *spec, mesh=mesh)), [A @ B], spec)
    check(replicating.matmul, (put(A, *spec, mesh=mesh), put(B, *spec, mesh=mesh)), [A @ B], spec)


@not_replicated
def test_one_argument_is_replicated(spec):
    mesh = mesh_of(spec)
    check(ops.matmul, (put(A, *spec, mesh=mesh), put(B, mesh=mesh)), [A @ B], spec)
    check(ops.matmul, (put(A, mesh=mesh), put(B, *spec, mesh=mesh)), [A @ B], spec)
    check(ops.matmul, (put(A, *spec, mesh=mesh), B), [A @ B], spec)


def test_numbers():
    x = put(A, "a")
    check(lambda x: ops.affine(x, 3.0, shift=1.0), (x,), [3 * A + 1], ("a",))
    check(lambda x, a: ops.affine(x, a), (x, jnp.float32(3)), [3 * A], ("a",))
    check(lambda x, a: ops.affine(x, a), (x, put(np.float32(3))), [3 * A], ("a",))


def test_several_results():
    x = put(A, "a")
    check(ops.square_grad_grad, (x, x, x), [np.asarray(one) for one in ops.square_grad_grad(A, A, A)], ("a",))


def test_a_result_with_fewer_dimensions():
    x = put(np.ones((8, 3), np.int32), "a")
    result = ops.batch(x, put(f32(8, 3)))
    assert result.shape == (8,) and specs(result) == ("a",)


def test_every_dimension_is_the_batch():
    for spec in (("a",), ("a", "b"), (None, "b"), ("a", None, None), (("a", "b"),)):
        x = put(f32(8, 4, 6), *spec, mesh=SQUARE)
        check(ops.square, (x,), [f32(8, 4, 6) ** 2], tuple(one for one in spec if one or "b" in spec))


def test_an_argument_that_is_written():
    check(lambda x: ops.scale(x, 3.0), (put(A, "a"),), [3 * A], ("a",))
    x = put(A, "a") + 0  # in XLA's own memory, which can be donated
    before = [shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards]
    y = jax.jit(lambda x: ops.scale(x, 3.0), donate_argnums=0)(x)
    assert [shard.data.unsafe_buffer_pointer() for shard in y.addressable_shards] == before
    EXACT(y, 3 * A)


def test_grad():
    a, b = put(A, "a"), put(B, "a")
    expected = 2 * (A @ B) @ B.swapaxes(-1, -2), A.swapaxes(-1, -2) @ (2 * (A @ B))
    f = jax.grad(lambda a, b: (ops.matmul(a, b) ** 2).sum(), argnums=(0, 1))
    check(f, (a, b), expected, ("a",))
    second = jax.grad(lambda x: jax.grad(lambda y: ops.square(y).sum())(x).sum())
    check(second, (a,), [np.full_like(A, 2)], ("a",))


def test_remat_and_scan():
    def thrice(x):
        return jax.lax.scan(lambda carry, _: (jax.checkpoint(ops.square)(carry), None), x, None, length=3)[0]

    x = put(A / 2, "a")
    check(thrice, (x,), [(A / 2) ** 8], ("a",))
    check(jax.grad(lambda x: thrice(x).sum()), (x,), [8 * (A / 2) ** 7], ("a",))


def test_vmap_over_the_split_dimension_is_one_call():
    check(jax.vmap(ops.matmul), (put(A, "a"), put(B, "a")), [A @ B], ("a",))
    check(jax.vmap(ops.square), (put(A, None, "a"),), [A * A], (None, "a"))
    check(jax.vmap(jax.grad(lambda x: ops.square(x).sum())), (put(A, "a"),), [2 * A], ("a",))


def test_another_dimension_is_refused():
    how = " in dimension {}, which does not belong to the batch"
    a, b = f32(8, 4, 4), f32(8, 4, 4)
    refuses(ops.matmul, put(a, None, "a"), put(b), says=sentence("matmul", "a", how.format(1)))
    refuses(ops.matmul, put(a, "a"), put(b, None, None, "a"), says=sentence("matmul", "b", how.format(2)))
    a, b = put(a, "a", "b", mesh=SQUARE), put(b, "a", mesh=SQUARE)
    refuses(ops.matmul, a, b, says=sentence("matmul", "a", how.format(1)))
    EXACT(replicating.matmul(a, b), f32(8, 4, 4) @ f32(8, 4, 4))
    assert "all-gather" in collectives(replicating.matmul, a, b)


def test_batches_that_are_split_differently_are_refused():
    a, b = put(A, "a", mesh=SQUARE), put(B, "b", mesh=SQUARE)
    refuses(ops.matmul, a, b, says=sentence("matmul", "b", " in a different way from argument 'a'"))
    for wrap in (lambda f: f, jax.jit):
        EXACT(wrap(replicating.matmul)(a, b), A @ B)


def test_copies_in_another_order_are_the_same_split():
    """XLA may list the devices that hold one part in any order."""
    from tenon._jax_sharding import _Tiles

    assert _Tiles((2, 1, 2), (1, 0, 3, 2)).leading(1) == _Tiles((2, 1, 2), (0, 1, 2, 3)).leading(1)
    assert _Tiles((2, 1, 2), (0, 2, 1, 3)).leading(1) != _Tiles((2, 1, 2), (0, 1, 2, 3)).leading(1)


def test_parts_of_different_sizes_are_refused():
    def f(made):
        return jax.jit(lambda x: made.square(jax.lax.with_sharding_constraint(x, NamedSharding(LINE, P("a")))))

    x = put(f32(6, 4))
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        f(ops)(x)
    assert sentence("square", "x", " in parts of different sizes") in str(caught.value)
    EXACT(f(replicating)(x), f32(6, 4) ** 2)


def test_a_chain_stays_split():
    def chain(a, b):
        for _ in range(3):
            a = jnp.tanh(ops.square(ops.affine(a, 0.5)))
        return ops.matmul(a, b)

    made = jax.jit(chain)(put(A, "a"), put(B, "a"))
    assert specs(made) == ("a",) and collectives(chain, put(A, "a"), put(B, "a")) == []
    np.testing.assert_allclose(made, chain(A, B), rtol=1e-6)


@pytest.mark.skipif(not hasattr(jax, "pmap") or VERSION >= (0, 8), reason="pmap's arrays are no longer special")
def test_the_result_of_pmap_is_refused():
    with pytest.raises(ValueError) as caught:
        ops.square(jax.pmap(lambda x: x + 1)(f32(4, 2)))
    assert str(caught.value) == sentence("square", "x", " by pmap")
