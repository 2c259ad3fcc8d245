"""Overloaded functions: calls on JAX arrays choose an entry, and operators leave them out."""

import jax.numpy as jnp
import numpy as np
import pytest
from building import build
from jax_operators import f32, tenon

SOURCE = """
#include <tenon/function.h>
static tenon_status count(tenon_call *call)
{
    tenon_result_data(call, 0, float)[0] = (float)tenon_arg(call, 0)->numel + (float)tenon_arg(call, 0)->ndim / 2;
    return TENON_OK;
}
TENON_MODULE(overloads, "", TENON_FUNCTION("f(x: f32[n]) -> f32[1]", count, ""),
             TENON_FUNCTION("f(x: f32[n, m]) -> f32[1]", count, ""), TENON_FUNCTION("g(x: f32[n]) -> f32[1]", count, ""))
"""


def test_calls_and_operators():
    library = tenon.load(build(SOURCE))
    for x, wanted in ((f32(3), 3.5), (f32(2, 2), 5.0)):
        made = library.f(x)
        assert isinstance(made, jnp.ndarray) and np.array_equal(made, [wanted])
    with pytest.raises(TypeError, match=r"^f\(\): no signature fits the arguments\n  f\(x: f32\[n\]\)"):
        library.f(f32(1, 1, 1))
    with pytest.warns(UserWarning, match=r"f\(\) is left out: it is overloaded, and an operator has one signature"):
        ops = tenon.jax_ops(library)
    assert not hasattr(ops, "f") and np.array_equal(ops.g(f32(3)), [3.5])
