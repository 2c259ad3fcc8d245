"""examples/transformer: a block whose kernels are ours, compiled and sharded, against the same block in pure torch."""

import os
import sys

import pytest
from operators import ROOT, VERSION, compiled_library, torch

EXAMPLE = ROOT / "examples/transformer"
# Inductor compiles C++ for half a minute, so only the long run uses it.
BACKEND = "inductor" if os.environ.get("TENON_CHANCE") else "aot_eager"


class PureTorch:
    """What the operators of kernels.c compute."""

    @staticmethod
    def rms_norm(x, weight, eps=1e-6):
        return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight

    @staticmethod
    def rotary(x, base=10000.0):
        t, half = x.shape[-2], x.shape[-1] // 2
        angles = torch.arange(t)[:, None] * base ** (-torch.arange(half) / half)
        one, other = x[..., :half], x[..., half:]
        return torch.cat([one * angles.cos() - other * angles.sin(), one * angles.sin() + other * angles.cos()], -1)

    @staticmethod
    def softmax(x, scale=1.0):
        later = torch.ones(x.shape[-2:], dtype=torch.bool).triu(1)
        return (x * scale).masked_fill(later, -torch.inf).softmax(-1)


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(EXAMPLE))
    import train_torch

    yield train_torch
    sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return str(compiled_library(tmp_path_factory.mktemp("transformer"), EXAMPLE / "kernels.c", "-lm"))


@pytest.fixture(scope="module")
def wanted(example):
    return example.train(example.Block(PureTorch()))


def test_the_losses_are_those_of_pure_torch(example, library, wanted):
    made = []
    with pytest.MonkeyPatch.context() as patch:
        load = example.load
        patch.setattr(example, "load", lambda path: made.append(load(path)) or made[-1])
        losses = example.one_process(library, BACKEND)
    made[0].close()
    assert losses[0] > 3 and losses[-1] < 0.9
    torch.testing.assert_close(losses, wanted, rtol=0, atol=0.01)


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_the_same_losses_in_two_processes(example, library, wanted, monkeypatch):
    if VERSION < (2, 8):
        pytest.skip("this torch has FSDP2 for GPUs only")
    paths = [str(EXAMPLE), *sys.path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    torch.testing.assert_close(example.two_processes(library, BACKEND), wanted, rtol=0, atol=0.01)
