"""Operators of JAX: uint, complex, dtype and choices of integers are static attributes; other kinds are left out."""

import pathlib
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import build
from jax_operators import f32, tenon

kernels = tenon.load(build(pathlib.Path(__file__).resolve().parent / "jax_kinds.c"))
X = f32(3)


@pytest.fixture(scope="module")
def made():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return tenon.jax_ops(kernels), "\n".join(str(warning.message) for warning in caught)


@pytest.fixture
def ops(made):
    return made[0]


def test_left_out(made):
    for name, reason in {
        "with_bytes": "parameter 'data' is of type bytes, which XLA cannot pass",
        "with_strs": "parameter 'names' is of type strs, which XLA cannot pass",
        "to_bytes": "result 0 is of type bytes; a result must be a tensor, an int, a float or a bool",
        "to_complex": "result 0 is of type complex; a result must be a tensor, an int, a float or a bool",
    }.items():
        assert f"{name}() is left out: {reason}" in made[1]
        assert not hasattr(made[0], name)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_values(ops, wrap):
    assert wrap(lambda x: ops.show(x))(X).tolist() == [0, 5, 1, 2]
    assert wrap(lambda x: ops.show(x, 2**63 + 3, 3 - 4j))(X).tolist() == [2**31, 3, 3, -4]
    assert np.isnan(wrap(lambda x: ops.show(x, 0, complex("nan")))(X)[2])
    assert wrap(lambda x: ops.choose(x, 4))(X).tolist() == (4 * X).tolist()
    assert wrap(lambda x: ops.choose(x))(X).tolist() == (2 * X).tolist()


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_dtypes(ops, wrap):
    assert wrap(lambda x: ops.cast(x))(X).dtype == jnp.float32
    for dtype in ("i32", "int32", jnp.int32, np.dtype("i4")):
        assert wrap(lambda x, t=dtype: ops.cast(x, t))(X).dtype == jnp.int32
    with pytest.raises(TypeError, match=r"cast\(\): argument 't': expected dtype\(U\), got i8, but U is one of f32\|i32"):
        wrap(lambda x: ops.cast(x, "i8"))(X)
    with pytest.raises(TypeError, match=r"same\(\): argument 't': expected dtype\(T\), got i32, but T = f32 from argument 'x'"):
        wrap(lambda x: ops.same(x, "i32"))(X)


def test_mistakes(ops):
    with pytest.raises(OverflowError, match=r"show\(\): argument 'k': expected an integer from 0 to 2\*\*64 - 1, got a negative"):
        ops.show(X, -1)
    with pytest.raises(TypeError, match=r"cast\(\): argument 't': expected dtype\(U\), got 'f33', which is not the name"):
        ops.cast(X, "f33")
    with pytest.raises(ValueError, match=r"argument 'k': expected 1\|2\|4, got 3"):
        ops.choose(X, 3)
    with pytest.raises(TypeError, match=r"show\(\): argument 'k' must be static"):
        jax.jit(lambda x, k: ops.show(x, k))(X, 3)


def test_without_operators():
    """The function itself, called with arrays of JAX."""
    assert kernels.cast(X, "i32").dtype == jnp.int32
    assert kernels.show(X, 2**63 + 3, 3 - 4j).tolist() == [2**31, 3, 3, -4]
    assert kernels.choose(X, 4).tolist() == (4 * X).tolist()
    with pytest.raises(ValueError, match=r"choose\(\): argument 'k': expected 1\|2\|4, got 3"):
        kernels.choose(X, 3)
