"""Random compositions of transformations, of an operator and of the same layer in jnp, on four devices.

TENON_CHANCE is the seed, which `make test-all` chooses; TENON_COMPOSITIONS is how many there are: 6, and 200 in
`make test-more`.
"""

import os
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from four_devices import SQUARE, P, partitions_batches, put, shard_map
from jax_layers import curve, layers, numbers, same

SEED = os.environ.get("TENON_CHANCE", "36")
COUNT = int(os.environ.get("TENON_COMPOSITIONS", "6"))
pytestmark = partitions_batches

# Each function of a layer f(x, w) returns an array of the shape of x, so that any of them can follow any other one.


def gradient(f, argnum=0):
    def run(x, w):
        made = jax.grad(lambda x, w: (f(x, w) ** 2).mean(), argnums=argnum)(x, w)
        return made if argnum == 0 else x * made

    return run


def tangent(f):
    return lambda x, w: jax.jvp(f, (x, w), (jnp.cos(x), jnp.sin(w)))[1]


def pulled(f):
    def run(x, w):
        made, pull = jax.vjp(f, x, w)
        dx, dw = pull(jnp.tanh(made))
        return dx + dw

    return run


def linearized(f):
    return lambda x, w: jax.linearize(f, x, w)[1](x, w)


def repeated(f):
    return lambda x, w: jax.lax.scan(lambda c, _: (jnp.tanh(f(c, w)), None), x, None, length=2)[0]


def chosen(f):
    return lambda x, w: jax.lax.cond(w.sum() > 0, f, lambda x, w: x, x, w)


def mapped(axis, weights):
    def wrap(f):
        def run(x, w):
            each = w + jnp.arange(x.shape[axis], dtype=w.dtype)[:, None] / 8 if weights else w
            return jax.vmap(f, in_axes=(axis, 0 if weights else None), out_axes=axis)(x, each)

        return run

    return wrap


def on_shards(f):
    return shard_map(f, (P("a"), P()), P("a"))


DERIVATIVES = {"grad": gradient, "grad_w": lambda f: gradient(f, 1), "jvp": tangent, "vjp": pulled, "linearize": linearized}
OTHERS = {
    "jit": jax.jit,
    "vmap": mapped(0, False),
    "vmap_1": mapped(1, False),
    "checkpoint": jax.checkpoint,
    "scan": repeated,
    "cond": chosen,
}
LOOPS = {"vmap_w": mapped(0, True)}  # of calls: refused if the batch is split
SHARDED = {"shard_map": on_shards}


def composition(source, placement):
    """Names of transformations, the innermost one first: at most two derivatives, of which the operator has the second."""
    names = source.choices([*DERIVATIVES, *OTHERS], k=source.randint(1, 4))
    while sum(name in DERIVATIVES for name in names) > 2 or sum(name.startswith("vmap") for name in names) > 2:
        names.pop(next(i for i, name in enumerate(names) if name in DERIVATIVES or name.startswith("vmap")))
    if placement == "whole":
        at, loops = source.randint(0, len(names)), sum(name.startswith("vmap") for name in names) < 2
        names.insert(at, source.choice([*LOOPS, "jit"]) if loops else "jit")
    elif placement != "shard_map":
        # Each row of a vmap of a derivative has its own gradient of the weight: a loop, too.
        first = next((i for i, name in enumerate(names) if name in DERIVATIVES), len(names))
        names = [name for i, name in enumerate(names) if i < first or not name.startswith("vmap")] or ["jit"]
    if placement == "shard_map":
        # Each device has its own mean, so derivatives are around shard_map.
        inner = [name for name in names if name not in DERIVATIVES and not name.startswith("vmap")]
        names = [*inner, "shard_map", *(name for name in names if name in DERIVATIVES)]
    return names


def build_function(f, names):
    every = {**DERIVATIVES, **OTHERS, **LOOPS, **SHARDED}
    for name in names:
        f = every[name](f)
    return f


PLACES = {
    "whole": lambda x: x,
    "line": lambda x: put(x, "a"),
    "columns": lambda x: put(x, None, "a"),
    "square": lambda x: put(x, "a", "b", mesh=SQUARE),
    "half": lambda x: put(x, "b", mesh=SQUARE),
    "shard_map": lambda x: put(x, "a"),
}


def test_random_compositions():
    source, failures = random.Random(SEED), []
    print(f"TENON_CHANCE={SEED}")
    x, w = numbers(4, 4, 2, 3), numbers(3, seed=1)
    for i in range(COUNT):
        placement = source.choice(list(PLACES))
        names = composition(source, placement)
        try:
            wanted = build_function(curve, [name for name in names if name != "shard_map"])(x, w)
            found = jax.jit(build_function(layers.curve, names))(PLACES[placement](jnp.asarray(x)), jnp.asarray(w))
            same(found, wanted)
            assert np.isfinite(np.asarray(wanted)).all()
        except Exception as error:
            failures.append(f"{i}: {placement}, {' of '.join(reversed(names))}: {type(error).__name__}: {str(error)[:400]}")
    assert not failures, f"TENON_CHANCE={SEED}\n" + "\n".join(failures)
