"""A call on arrays that are split, outside shard_map, of a function whose tensors do not begin with a batch."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from four_devices import (
    LINE,
    SQUARE,
    Mesh,
    NamedSharding,
    P,
    calls,
    collectives,
    f32,
    ops,
    put,
    refuses,
    replicating,
    sentence,
)

A, B = f32(8, 4), f32(4, 8)
X = f32(8)
EXACT = np.testing.assert_array_equal


def other_shardings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(jax.sharding, "PositionalSharding"):
            yield "positional", jax.device_put(X, jax.sharding.PositionalSharding(jax.devices()))
        if hasattr(jax.sharding, "GSPMDSharding"):
            form = NamedSharding(LINE, P("a"))._to_xla_hlo_sharding(1)
            yield "gspmd", jax.device_put(X, jax.sharding.GSPMDSharding(jax.devices(), form))
        yield "of one device", jax.device_put(X, jax.devices()[2])


OTHERS = dict(other_shardings())


def test_is_refused_before_the_function_runs():
    refuses(ops.counted, put(X, "a"), says=sentence("counted", "x"))
    refuses(ops.product, put(A, "a"), put(B), says=sentence("product", "a"))
    refuses(ops.product, put(A), put(B, None, "a"), says=sentence("product", "b"))
    refuses(ops.product, put(A, "b", mesh=SQUARE), put(B, mesh=SQUARE), says=sentence("product", "a"))
    refuses(ops.dot, put(X, "a"), put(X), says=sentence("dot", "x"))
    refuses(ops.stats, put(X, "a"), says=sentence("stats", "x"))


@pytest.mark.parametrize("kind", sorted(OTHERS))
def test_other_kinds_of_sharding(kind):
    x = OTHERS[kind]
    if kind == "of one device":
        assert calls(ops.counted, x) == 1 and ops.counted(x).devices() == x.devices()
    else:
        refuses(ops.counted, x, says=sentence("counted", "x"))


@pytest.mark.skipif(not hasattr(jax, "pmap"), reason="there is no pmap")
def test_the_result_of_pmap():
    x = jax.pmap(lambda x: x + 1)(X.reshape(4, 2))
    with pytest.raises(ValueError, match=r"product\(\): argument 'a' is sharded over 4 devices( by pmap)?, and a call"):
        ops.product(x, f32(2, 2))


def test_transformations_are_refused():
    """Without jit they are eager calls: the error is the same ValueError."""
    says, a = sentence("product", "a"), put(A, "a")
    refuses(jax.value_and_grad(lambda a: ops.product(a, B).sum()), a, says=says)
    refuses(lambda a: jax.vjp(ops.product, a, B)[0], a, says=says)
    refuses(jax.vmap(lambda a, b: ops.product(a, b)), put(A[None], None, "a"), B[None], says=says)
    refuses(jax.vmap(jax.value_and_grad(lambda a: ops.product(a, B).sum())), put(A[None], None, "a"), says=says)
    refuses(jax.value_and_grad(lambda a: jax.vmap(ops.product)(a, B[None]).sum()), put(A[None], None, "a"), says=says)


def test_a_failure_of_the_function_is_not_replaced():
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="the number -2 is negative"):
        jax.block_until_ready(jax.vmap(ops.fail)(f32(2, 3)))


def test_vmap_one_after_the_other_is_refused():
    """Each turn of the loop would gather."""
    x, y = f32(8, 4, 4), f32(8, 4, 4) + 1
    for args, name in (((put(x, "a"), put(y)), "a"), ((put(x), put(y, None, "a")), "b")):
        refuses(jax.vmap(ops.product), *args, says=sentence("product", name))
    for args in ((put(x), put(y)), (x, y)):
        EXACT(jax.jit(jax.vmap(ops.product))(*args), x @ y)
    EXACT(jax.vmap(replicating.product)(put(x, "a"), put(y)), x @ y)
    twice = f32(4, 2, 4, 4)
    EXACT(jax.vmap(jax.vmap(ops.product), in_axes=(1, None))(twice, x[:4]), twice.swapaxes(0, 1) @ x[:4])
    EXACT(jax.grad(lambda x: jax.vmap(ops.product)(x, y).sum())(x), np.ones((8, 4, 4)) @ y.swapaxes(1, 2))


def test_what_is_split_inside_the_program_is_refused():
    @jax.jit
    def f(x):
        return ops.counted(jax.lax.with_sharding_constraint(x, NamedSharding(LINE, P("a"))))

    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        f(put(X))
    assert sentence("counted", "x") in str(caught.value)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.jit(lambda x: ops.product(x.reshape(2, 16), x.reshape(16, 2)))(put(A, "a"))
    assert "product(): argument 'a' is sharded over 4 devices, and a call" in str(caught.value)


def test_what_xla_chose_to_split():
    """It shards w because of w * x. The message says how to keep it whole, and that sends nothing."""
    x, w = put(X, "a"), put(X)
    whole = NamedSharding(LINE, P())

    def program(keep):
        return lambda w, x: (ops.counted(keep(w)), w * x)

    says = sentence("counted", "x") + (
        ". If XLA chose this sharding, not you, pass jax.lax.with_sharding_constraint(x, NamedSharding(mesh, "
        "PartitionSpec())), which copies it to each device"
    )
    for keep in (lambda w: w + 1, lambda w: jax.device_put(w + 1, whole)):
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            jax.jit(program(keep))(jnp.asarray(X), x)
        assert says in str(caught.value)
    constrained = program(lambda w: jax.lax.with_sharding_constraint(w + 1, whole))
    made = jax.jit(constrained)(w, x)
    EXACT(made[0], ops.counted(X + 1))
    EXACT(made[1], X * X)
    assert collectives(constrained, w, x) == []


def test_the_next_call_is_fine():
    with pytest.raises(jax.errors.JaxRuntimeError):
        jax.jit(ops.product)(put(A, "a"), put(B))
    EXACT(jax.jit(ops.product)(put(A), put(B)), A @ B)


@pytest.mark.parametrize("made", [ops, replicating], ids=["raise", "replicate"])
def test_replicated_arrays_are_taken(made):
    for wrap in (lambda f: f, jax.jit):
        z = wrap(made.product)(put(A), put(B))
        EXACT(z, A @ B)
        assert z.sharding.is_fully_replicated and len(z.devices()) == 4
        EXACT(wrap(made.product)(put(A), B), A @ B)
        EXACT(wrap(made.dot)(put(X), put(X)), X @ X)
    assert collectives(made.product, put(A), put(B)) == []
    one = Mesh(np.array(jax.devices()[:1]), ("a",))
    EXACT(made.product(put(A, "a", mesh=one), put(B, mesh=one)), A @ B)


def test_replicate_gathers():
    for a, b in ((put(A, "a"), put(B)), (put(A), put(B, "a")), (put(A, "a", "b", mesh=SQUARE), put(B, mesh=SQUARE))):
        for wrap in (lambda f: f, jax.jit):
            EXACT(wrap(replicating.product)(a, b), A @ B)
        assert "all-gather" in collectives(replicating.product, a, b)
    EXACT(jax.grad(lambda a: replicating.product(a, B).sum())(put(A, "a")), np.ones((8, 8)) @ B.T)
    relu, mask, count, everything = replicating.stats(put(X, "a"))
    EXACT(relu, np.maximum(X, 0))
    EXACT(mask, X > 0)
    assert (int(count), bool(everything)) == ((X > 0).sum(), (X > 0).all())


def test_a_function_without_tensors_in_a_program_with_split_arrays():
    f = jax.jit(lambda x: ops.ramp(8) + x)
    EXACT(f(put(X, "a")), ops.ramp(8) + X)


def test_the_rest_of_the_program_stays_split():
    def f(a, b, c):
        return ops.product(a, b) + c

    z = jax.jit(f)(put(A), put(B), put(f32(8, 8), "a"))
    EXACT(z, A @ B + f32(8, 8))
    assert collectives(f, put(A), put(B), put(f32(8, 8), "a")) == []


def test_cond_and_while_loop():
    def f(a):
        return jax.lax.cond(a[0, 0] > 0, lambda: ops.product(a, a), lambda: ops.product(a, -a))

    square = f32(4, 4)
    EXACT(jax.jit(f)(put(square)), square @ square if square[0, 0] > 0 else -(square @ square))
    loop = jax.jit(lambda a: jax.lax.fori_loop(0, 2, lambda _, x: ops.product(x, a), jnp.eye(4, dtype=jnp.float32)))
    EXACT(loop(put(square)), square @ square)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        loop(put(square, "a"))
    assert "product(): argument '" in str(caught.value) and "is sharded over 4 devices, and a call" in str(caught.value)
