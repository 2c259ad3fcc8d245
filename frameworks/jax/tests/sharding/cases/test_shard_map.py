"""Inside shard_map, a function runs on the shards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import run_python
from four_devices import SHARDY, SQUARE, VERSION, P, calls, collectives, f32, ops, put, sentence, shard_map
from jax_operators import FILE

A, B = f32(8, 3), f32(3, 5)
X = f32(8)
EXACT = np.testing.assert_array_equal


def test_runs_on_shards_without_a_collective():
    product = shard_map(ops.product, (P("a"), P()), P("a"))
    for a in (A, put(A, "a")):
        EXACT(product(a, B), A @ B)
        EXACT(jax.jit(product)(a, B), A @ B)
    assert collectives(product, put(A, "a"), put(B)) == []
    counted = jax.jit(shard_map(ops.counted, P("a"), P("a")))
    assert calls(counted, put(X, "a")) == 4


def test_the_first_call_of_a_process():
    """Nothing that the first call looks up may depend on the transformation around it."""
    code = f"""
        import jax, numpy as np, tenon, warnings
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        shard_map = getattr(jax, "shard_map", None)
        if not shard_map:
            from jax.experimental.shard_map import shard_map as experimental
            shard_map = lambda f, **options: experimental(f, check_rep=False, **options)
        warnings.simplefilter("ignore", UserWarning)
        ops = tenon.jax_ops(tenon.load({str(FILE)!r}))
        mesh = Mesh(np.array(jax.devices()), ("a",))
        x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("a")))
        print(shard_map(ops.counted, mesh=mesh, in_specs=P("a"), out_specs=P("a"))(x).shape)
        try:
            ops.counted(x)
        except ValueError as error:
            print(error.__cause__)
    """
    assert run_python(code).split("\n")[:2] == ["(8,)", "None"]


def test_a_batch_and_numbers():
    affine = shard_map(lambda x, a: ops.affine(x, a, shift=1.0), (P("a"), P()), P("a"))
    EXACT(jax.jit(affine)(put(A, "a"), np.float32(3)), 3 * A + 1)
    EXACT(shard_map(lambda x: ops.affine(x, 3.0), P("a"), P("a"))(A), 3 * A)
    assert collectives(affine, put(A, "a"), np.float32(3)) == []


def test_results_without_a_batch():
    dot = shard_map(lambda x, y: ops.dot(x, y)[None], (P("a"), P("a")), P("a"))
    EXACT(dot(X, X), (X * X).reshape(4, 2).sum(1))
    total = shard_map(lambda x: jax.lax.psum(ops.dot(x, x), "a"), P("a"), P())
    assert float(jax.jit(total)(X)) == float(X @ X)


def test_several_results():
    def stats(x):
        made = ops.stats(x)
        return made.relu, made.mask, made.count[None]

    relu, mask, count = shard_map(stats, P("a"), P("a"))(X)
    EXACT(relu, np.maximum(X, 0))
    EXACT(mask, X > 0)
    EXACT(count, (X > 0).reshape(4, 2).sum(1))


def test_an_argument_that_is_written():
    EXACT(jax.jit(shard_map(lambda x: ops.scale(x, 3.0), P("a"), P("a")))(put(X, "a")), 3 * X)


def loss(a, b):
    return (ops.product(a, b) ** 2).sum()


def gradients():
    """Of loss(), written by hand."""
    g = 2 * (A @ B)
    return g @ B.T, A.T @ g


def test_grad_outside():
    product = shard_map(ops.product, (P("a"), P()), P("a"))
    for wrap in (lambda f: f, jax.jit):
        made = wrap(jax.grad(lambda a, b: (product(a, b) ** 2).sum(), argnums=(0, 1)))(put(A, "a"), B)
        for one, expected in zip(made, gradients()):
            EXACT(one, expected)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.checkpoint], ids=["plain", "remat"])
def test_grad_inside(wrap):
    """The argument that is the same on every device gets the sum of the gradients, once."""
    a, b = gradients()
    inside = shard_map(jax.grad(wrap(loss)), (P("a"), P()), P("a"))
    EXACT(inside(put(A, "a"), B), a)
    if VERSION >= (0, 6, 1):  # JAX itself knows since then what is the same on every device
        inside = shard_map(jax.grad(wrap(loss), argnums=(0, 1)), (P("a"), P()), (P("a"), P()))
        for one, expected in zip(jax.jit(inside)(put(A, "a"), B), (a, b)):
            EXACT(one, expected)
    elif VERSION < (0, 6):  # each device has the gradient of its shard, as in jax.numpy
        each = shard_map(lambda a, b: jax.grad(wrap(loss), argnums=1)(a, b)[None], (P("a"), P()), P("a"))
        EXACT(each(put(A, "a"), B), [A[i : i + 2].T @ (2 * (A[i : i + 2] @ B)) for i in range(0, 8, 2)])


@pytest.mark.skipif(VERSION < (0, 6, 1), reason="the gradient of psum was another one")
def test_grad_of_a_sum_over_devices():
    summed = shard_map(jax.grad(lambda a, b: jax.lax.psum(loss(a, b), "a")), (P("a"), P()), P("a"))
    EXACT(summed(put(A, "a"), B), gradients()[0])


def test_grad_of_grad():
    def second(x):
        return jax.grad(lambda y: jax.grad(lambda z: ops.square(z).sum())(y).sum())(x)

    EXACT(shard_map(second, P("a"), P("a"))(X), np.full(8, 2, np.float32))


def test_scan():
    def thrice(x):
        return jax.lax.scan(lambda carry, _: (ops.affine(carry, 2.0), None), x, None, length=3)[0]

    mapped = shard_map(thrice, P("a"), P("a"))
    EXACT(jax.jit(mapped)(put(X, "a")), 8 * X)
    assert collectives(mapped, put(X, "a")) == []
    EXACT(shard_map(jax.grad(lambda x: thrice(x).sum()), P("a"), P("a"))(X), np.full(8, 8, np.float32))
    EXACT(jax.grad(lambda x: mapped(x).sum())(X), np.full(8, 8, np.float32))


def test_vmap_and_jit():
    rows = shard_map(jax.vmap(jax.jit(ops.counted)), P("a"), P("a"))
    assert calls(jax.jit(rows), put(A, "a")) == 8
    EXACT(rows(A), ops.counted(A.reshape(-1)).reshape(A.shape))
    EXACT(jax.vmap(shard_map(ops.square, P("a"), P("a")))(A.reshape(1, 8, 3)), (A * A)[None])


def test_over_some_axes_of_a_mesh():
    options = {"axis_names": {"a"}} if hasattr(jax, "shard_map") else {"auto": frozenset("b")}
    mapped = jax.jit(shard_map(ops.product, (P("a"), P()), P("a"), mesh=SQUARE, **options))
    if SHARDY:
        EXACT(mapped(put(A, "a", mesh=SQUARE), put(B, mesh=SQUARE)), A @ B)
        if VERSION >= (0, 6):
            with pytest.raises(jax.errors.JaxRuntimeError) as caught:
                mapped(put(A, ("a", "b"), mesh=SQUARE), put(B, mesh=SQUARE))
            assert sentence("product", "a", devices=2) in str(caught.value)
    elif VERSION >= (0, 5):
        with pytest.raises(NotImplementedError, match=r"product\(\): XLA's partitioner GSPMD cannot .* use Shardy"):
            mapped(A, B)


@pytest.mark.skipif(not hasattr(jax, "pmap"), reason="there is no pmap")
def test_pmap():
    EXACT(jax.pmap(ops.square)(A.reshape(4, 2, 3)), (A * A).reshape(4, 2, 3))
    EXACT(jax.pmap(jax.grad(lambda x: ops.square(x).sum()))(jnp.asarray(X.reshape(4, 2))), 2 * X.reshape(4, 2))
