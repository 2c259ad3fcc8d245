"""examples/jax_ops: the library of examples/torch_ops, built by the command in the example's first lines, and trained."""

import re
import runpy
import shlex
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import ROOT, tenon

EXAMPLE = ROOT / "examples/jax_ops"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    source = EXAMPLE / "../torch_ops/kernels.c"
    text = (EXAMPLE / "train.py").read_text()
    command = re.search(r"^ +(cc .* \.\./torch_ops/kernels\.c -o kernels\.so -lm) &&", text, re.M)[1]
    command = command.replace("$(python -m tenon cflags)", shlex.quote(f"-I{ROOT / 'core/include'}"))
    folder = tmp_path_factory.mktemp("jax_example")
    command = command.replace("../torch_ops/kernels.c", shlex.quote(str(source.resolve())))
    subprocess.run(command, shell=True, cwd=folder, check=True)
    return folder / "kernels.so"


def rms_norm(x, weight=None, eps=1e-6):
    y = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps)
    return y if weight is None else y * weight


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_example_is_right(library):
    ops = tenon.jax_ops(tenon.load(library), backward={"rms_norm": "rms_norm_grad"}, strict=True)
    keys = jax.random.split(jax.random.key(0), 3)
    x, weight, factor = (jax.random.normal(key, shape) for key, shape in zip(keys, ((7, 5), (5,), (7, 5))))
    for given in ((x,), (x, weight)):
        places = tuple(range(len(given)))
        losses = [lambda *a, f=f: jnp.sum(f(*a) * factor) for f in (ops.rms_norm, rms_norm)]
        found, expected = (jax.grad(loss, places)(*given) for loss in losses)
        close(ops.rms_norm(*given), rms_norm(*given))
        jax.tree.map(close, found, expected)


def test_the_example_trains(library, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train.py", str(library)])
    runpy.run_path(str(EXAMPLE / "train.py"), run_name="__main__")
    shown = capsys.readouterr().out
    first, last = map(float, re.search(r"loss ([\d.]+) -> ([\d.]+)", shown).groups())
    assert last < first / 5 and "trained too: True" in shown
