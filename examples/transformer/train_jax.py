"""The same block, compiled and trained with JAX. The batch is sharded over all devices, and the parameters are on each.

    cc -O3 -shared -fPIC $(python -m tenon cflags) kernels.c -o kernels.so -lm
    XLA_FLAGS=--xla_force_host_platform_device_count=4 python train_jax.py kernels.so
"""
import sys

import jax
import jax.numpy as jnp
import numpy
import problem
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tenon


def attention(ops, p, x):
    batch, length, width = x.shape
    size = width // problem.HEADS

    def heads(weight):
        return (x @ weight).reshape(batch, length, problem.HEADS, size).swapaxes(1, 2)

    query, key, value = heads(p["query"]), heads(p["key"]), heads(p["value"])
    scores = ops.rotary(query) @ ops.rotary(key).swapaxes(-1, -2)
    seen = ops.softmax(scores, size**-0.5) @ value
    return seen.swapaxes(1, 2).reshape(batch, length, width) @ p["output"]


def logits(ops, p, tokens):
    x = p["embedding"][tokens]
    x = x + attention(ops, p, ops.rms_norm(x, p["norm_attention"]))
    x = x + jax.nn.relu(ops.rms_norm(x, p["norm_hidden"]) @ p["up"]) @ p["down"]
    return ops.rms_norm(x, p["norm_logits"]) @ p["logits"]


def loss(ops, p, tokens):
    chances = jax.nn.log_softmax(logits(ops, p, tokens[:, :-1]))
    return -jnp.take_along_axis(chances, tokens[:, 1:, None], -1).mean()


def make_step(ops):
    """One step of Adam."""

    @jax.jit
    def step(p, means, squares, count, tokens):
        value, gradients = jax.value_and_grad(lambda p: loss(ops, p, tokens))(p)
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
        squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, squares, gradients)

        def update(x, mean, square):
            return x - problem.RATE * mean / (1 - 0.9**count) / (jnp.sqrt(square / (1 - 0.999**count)) + 1e-8)

        return jax.tree.map(update, p, means, squares), means, squares, value

    return step


def train(ops):
    """Return the loss of each step."""
    mesh = Mesh(numpy.array(jax.devices()), ("batch",))
    whole, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("batch"))
    p = jax.device_put(problem.parameters(), whole)
    means = squares = jax.tree.map(jnp.zeros_like, p)
    step, losses = make_step(ops), []
    for count, tokens in enumerate(problem.batches().astype("int32"), 1):
        p, means, squares, value = step(p, means, squares, float(count), jax.device_put(tokens, split))
        losses.append(float(value))
    return losses


def load(path):
    return tenon.jax_ops(tenon.load(path), backward=problem.BACKWARD)


def main():
    losses = train(load(sys.argv[1]))
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f} on {jax.device_count()} devices")


if __name__ == "__main__":
    main()
