"""Operators of JAX whose functions have conditions, which are checked when the program runs."""

import jax
import numpy as np
import pytest
from building import build
from jax_operators import RunTimeError, f32, tenon

SOURCE = """
#include <tenon/function.h>
static tenon_status top(tenon_call *call)
{
    float *y = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim_named(call, "k"); i++)
        y[i] = tenon_data(call, 0, float)[i];
    return TENON_OK;
}
TENON_MODULE(conditions, "", TENON_FUNCTION("top(x: f32[n] c, k: int, eps: float? = None) -> f32[k] where k >= 1, k <= n, eps > 0",
                                            top, ""))
"""
MESSAGE = r"top\(\): argument 'k': expected k <= n, got k = 5 \(n = 4 from argument 'x'\)"


@pytest.fixture(scope="module")
def kernels():
    return tenon.load(build(SOURCE))


def test_functions(kernels):
    x = f32(4)
    assert np.array_equal(kernels.top(x, 3), x[:3])
    with pytest.raises(RunTimeError, match=MESSAGE):
        kernels.top(x, 5)


def test_operators(kernels):
    ops = tenon.jax_ops(kernels)
    x = f32(4)
    for top in (ops.top, jax.jit(ops.top, static_argnums=(1, 2))):
        assert np.array_equal(top(x, 3, 0.5), x[:3])
        with pytest.raises(RunTimeError, match=MESSAGE):
            jax.block_until_ready(top(x, 5, None))
        with pytest.raises(RunTimeError, match="argument 'eps': expected eps > 0, got eps = nan"):
            jax.block_until_ready(top(x, 3, float("nan")))
