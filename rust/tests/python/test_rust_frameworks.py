"""The same functions with torch, JAX, torch.compile and jax.jit."""

import numpy
import pytest

pytestmark = pytest.mark.filterwarnings("ignore:.* is left out")


def test_torch(kernels):
    torch = pytest.importorskip("torch")
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
    z = kernels.saxpy(2.0, x, y)
    assert type(z) is torch.Tensor and z.tolist() == [12, 24]
    assert kernels.halves(torch.tensor([1.0, 3.0], dtype=torch.bfloat16)).tolist() == [0.5, 1.5]
    assert kernels.Table(x.reshape(1, 2)).total() == 3
    assert kernels.grid(2, 2, like="torch").tolist() == [[0, 1], [2, 3]]


def test_torch_compile(kernels):
    torch = pytest.importorskip("torch")
    import tenon

    ops = tenon.torch_ops(kernels, name="rust_kernels_test")
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
    compiled = torch.compile(lambda x, y: ops.saxpy(2.0, x, y) + 1, fullgraph=True, backend="eager")
    assert compiled(x, y).tolist() == [13, 25]


def test_jax(kernels):
    jax = pytest.importorskip("jax")
    import tenon

    x, y = jax.numpy.array([1.0, 2.0], "float32"), jax.numpy.array([10.0, 20.0], "float32")
    z = kernels.saxpy(2.0, x, y)
    assert isinstance(z, jax.Array) and z.tolist() == [12, 24]
    ops = tenon.jax_ops(kernels)
    assert jax.jit(lambda x, y: ops.saxpy(2.0, x, y) + 1)(x, y).tolist() == [13, 25]


def test_mixed(kernels):
    torch = pytest.importorskip("torch")
    z = kernels.saxpy(1.0, numpy.ones(2, "float32"), torch.ones(2))
    assert type(z) is numpy.ndarray and z.tolist() == [2, 2]
