"""tenon.torch_ops: conditions are checked when the function runs, whatever way torch takes to it."""

import pytest
from operators import VERSION, compiled_library, tenon, torch

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
# A kernel in C cannot choose the exception of torch.ops.
FROM_OPS = RuntimeError if VERSION >= (2, 10) else ValueError
MESSAGE = r"top\(\): argument 'k': expected k <= n, got k = 5 \(n = 4 from argument 'x'\)"


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torch_conditions")
    (folder / "conditions.c").write_text(SOURCE)
    made = tenon.torch_ops(tenon.load(compiled_library(folder, folder / "conditions.c")), name="tenon_condition_tests")
    yield made
    torch._dynamo.reset()
    made.close()


def test_calls(ops):
    x = torch.arange(4.0)
    for function, error in ((ops.top, ValueError), (torch.ops.tenon_condition_tests.top, FROM_OPS)):
        assert torch.equal(function(x, 3), x[:3])
        assert torch.equal(function(x, 4, 0.5), x)
        with pytest.raises(error, match=MESSAGE):
            function(x, 5)
        with pytest.raises(error, match=r"top\(\): argument 'eps': expected eps > 0, got eps = nan"):
            function(x, 1, float("nan"))


def test_sizes_that_are_known_at_run_time(ops):
    compiled = torch.compile(lambda x, k: torch.ops.tenon_condition_tests.top(x + 1, k), backend="eager", dynamic=True, fullgraph=True)
    assert torch.equal(compiled(torch.zeros(4), 3), torch.ones(3))
    assert torch.equal(compiled(torch.zeros(7), 6), torch.ones(6))
    with pytest.raises(FROM_OPS, match=MESSAGE):
        compiled(torch.zeros(4), 5)


def test_shapes_do_not_depend_on_them(ops):
    with torch._subclasses.FakeTensorMode():
        assert torch.ops.tenon_condition_tests.top(torch.zeros(4), 2).shape == (2,)
