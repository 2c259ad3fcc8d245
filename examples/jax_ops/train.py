"""A model that uses one of our own operators, compiled and trained with JAX on the CPU. The operator is the one of
examples/torch_ops: the same library serves both frameworks.

    cc -O3 -shared -fPIC $(python -m tenon cflags) ../torch_ops/kernels.c -o kernels.so -lm && python train.py kernels.so
"""
import sys

import jax
import jax.numpy as jnp

import tenon

ops = tenon.jax_ops(tenon.load(sys.argv[1]), backward={"rms_norm": "rms_norm_grad"})


def model(parameters, x):
    hidden = x @ parameters["first"]
    hidden = ops.rms_norm(hidden, parameters["norm"])
    return jnp.tanh(hidden) @ parameters["last"]


def loss(parameters, x, wanted):
    return jnp.mean((model(parameters, x) - wanted) ** 2)


@jax.jit
def step(parameters, moments, count, x, wanted):
    """One step of Adam."""
    value, gradients = jax.value_and_grad(loss)(parameters, x, wanted)
    means, squares = moments
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, squares, gradients)

    def update(parameter, mean, square):
        return parameter - 0.01 * (mean / (1 - 0.9**count)) / (jnp.sqrt(square / (1 - 0.999**count)) + 1e-8)

    return jax.tree.map(update, parameters, means, squares), (means, squares), value


def main():
    keys = jax.random.split(jax.random.key(0), 3)
    parameters = {
        "first": jax.random.normal(keys[0], (8, 32)) / 8**0.5,
        "norm": jnp.ones(32),
        "last": jax.random.normal(keys[1], (32, 1)) / 32**0.5,
    }
    moments = jax.tree.map(jnp.zeros_like, (parameters, parameters))
    x = jax.random.normal(keys[2], (256, 8))
    wanted = jnp.tanh(x[:, :1] * x[:, 1:2])
    losses = []
    for count in range(1, 201):
        parameters, moments, value = step(parameters, moments, float(count), x, wanted)
        losses.append(float(value))
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    moved = float(jnp.max(jnp.abs(parameters["norm"] - 1)))
    print("the weight of the norm was trained too:", moved > 0)


if __name__ == "__main__":
    main()
