"""examples/transformer in JAX: sharded over four devices, against the same block in pure jnp on each of them."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import ROOT
from four_devices import COLLECTIVES, partitions_batches, put

EXAMPLE = ROOT / "examples/transformer"
pytestmark = partitions_batches


class PureJax:
    """What the operators of kernels.c compute."""

    @staticmethod
    def rms_norm(x, weight, eps=1e-6):
        return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + eps) * weight

    @staticmethod
    def rotary(x, base=10000.0):
        half = x.shape[-1] // 2
        angles = jnp.arange(x.shape[-2])[:, None] * base ** (-jnp.arange(half) / half)
        one, other = x[..., :half], x[..., half:]
        sine, cosine = jnp.sin(angles), jnp.cos(angles)
        return jnp.concatenate([one * cosine - other * sine, one * sine + other * cosine], -1)

    @staticmethod
    def softmax(x, scale=1.0):
        later = jnp.triu(jnp.ones(x.shape[-2:], bool), 1)
        return jax.nn.softmax(jnp.where(later, -jnp.inf, x * scale))


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(EXAMPLE))
    import train_jax

    yield train_jax
    sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def ops(example, tmp_path_factory):
    library = tmp_path_factory.mktemp("transformer") / "kernels.so"
    flags = ["-O3", "-shared", "-fPIC", f"-I{ROOT / 'core/include'}"]
    subprocess.run(["cc", *flags, str(EXAMPLE / "kernels.c"), "-o", str(library), "-lm"], check=True)
    return example.load(str(library))


def test_the_losses_are_those_of_pure_jax(example, ops):
    """And those of torch: frameworks/torch/tests/operators/test_torch_transformer.py compares with the same block."""
    losses = example.train(ops)
    assert len(losses) == 200 and losses[0] > 3 and abs(losses[-1] - 0.806) < 0.01
    np.testing.assert_allclose(losses, example.train(PureJax), rtol=0, atol=0.01)


def test_only_gradients_are_sent(example, ops):
    p, tokens = put(example.problem.parameters()), put(example.problem.batches()[0].astype("int32"), "a")
    forward = jax.jit(lambda p, tokens: example.logits(ops, p, tokens)).lower(p, tokens[:, :-1]).compile().as_text()
    assert "tenon1" in forward and not any(name in forward for name in COLLECTIVES)
    backward = jax.jit(jax.grad(lambda p, tokens: example.loss(ops, p, tokens))).lower(p, tokens).compile().as_text()
    assert [name for name in COLLECTIVES if name in backward] == ["all-reduce"]
