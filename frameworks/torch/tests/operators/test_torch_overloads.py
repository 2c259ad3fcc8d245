"""tenon.torch_ops: overloaded functions are left out, because an operator has one signature."""

import pytest
from operators import compiled_library, tenon, torch

SOURCE = """
#include <tenon/function.h>
static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
TENON_MODULE(overloads, "", TENON_FUNCTION("f(x: f32[n]) -> f32[n]", none, ""),
             TENON_FUNCTION("f(x: f64[n]) -> f64[n]", none, ""), TENON_FUNCTION("g(x: f32[n]) -> f32[n]", none, ""))
"""


def test_they_are_left_out(tmp_path):
    (tmp_path / "overloads.c").write_text(SOURCE)
    library = tenon.load(compiled_library(tmp_path, tmp_path / "overloads.c"))
    with pytest.warns(UserWarning, match=r"f\(\) is left out: it is overloaded, and an operator has one signature"):
        ops = tenon.torch_ops(library, name="tenon_overload_tests")
    assert not hasattr(ops, "f") and ops.g(torch.ones(2)).shape == (2,)
    ops.close()
    with pytest.raises(ValueError, match=r"f\(\) cannot be an operator: it is overloaded"):
        tenon.torch_ops(library, name="tenon_overload_tests", strict=True)
