"""What the cases share: four devices, meshes, the operators, and the words of their errors."""

import importlib
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax_operators import BACKWARD, kernels, quiet_ops

SHARDY = os.environ["TENON_PARTITIONER"] == "shardy"
VERSION = jax.__version_info__
jax.config.update("jax_use_shardy_partitioner", SHARDY)
assert jax.device_count() == 4

LINE = Mesh(np.array(jax.devices()), ("a",))
SQUARE = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
partitions_batches = pytest.mark.skipif(VERSION < (0, 5, 3), reason="a batch is partitioned by JAX 0.5.3 and newer")


def product_backward(residuals, g):
    return g @ residuals["b"].T, residuals["a"].T @ g


BACKWARDS = {**BACKWARD, "product": product_backward, "matmul": lambda residuals, g: matmul_backward(residuals, g)}
ops = quiet_ops(kernels, backward=BACKWARDS)
replicating = quiet_ops(kernels, backward=BACKWARDS, sharding="replicate")


def matmul_backward(residuals, g):
    a, b = (jnp.swapaxes(residuals[name], -1, -2) for name in "ab")
    return ops.matmul(g, b), ops.matmul(a, g)


def f32(*shape):
    """Small numbers: sums of products of them are exact."""
    return (np.arange(np.prod(shape, dtype=int)) % 7 - 2).astype(np.float32).reshape(shape)


def put(x, *spec, mesh=LINE):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def shard_map(f, in_specs, out_specs, mesh=LINE, **options):
    if hasattr(jax, "shard_map"):
        return jax.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)
    from jax.experimental.shard_map import shard_map as experimental

    # Older versions check replication only of primitives that they know.
    return experimental(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_rep=False, **options)


def collectives(f, *args):
    """The collectives in the compiled program of f."""
    text = jax.jit(f).lower(*args).compile().as_text()
    assert "custom-call" in text
    return [name for name in COLLECTIVES if name in text]


def specs(x):
    """How an array is split, without trailing Nones, which versions of JAX write or leave out."""
    spec = list(x.sharding.spec)
    while spec and spec[-1] is None:
        spec.pop()
    return tuple(spec)


def sentence(function, name, how="", devices=4):
    return (
        f"{function}(): argument '{name}' is sharded over {devices} devices{how}, and a call would gather it on each; "
        "call it inside jax.shard_map, or pass sharding='replicate' to tenon.jax_ops()"
    )


def calls(f, *args):
    """How often the C function counted() runs in f(*args)."""
    before = kernels.count()
    jax.block_until_ready(f(*args))
    return kernels.count() - before


def refuses(f, *args, says):
    """Both an eager call and a compiled one are refused, with that sentence, before the function runs."""
    before = kernels.count()
    with pytest.raises(ValueError) as eager:
        f(*args)
    assert str(eager.value) == says
    with pytest.raises(jax.errors.JaxRuntimeError) as compiled:
        jax.jit(f)(*args)
    if hasattr(importlib.import_module("jax._src.compiler"), "register_xla_runtime_error_handler"):
        assert str(compiled.value).splitlines()[0].startswith(says)  # not the traceback of a callback
    assert says in str(compiled.value)
    assert kernels.count() == before
