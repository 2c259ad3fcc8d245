"""torch met for the first time inside a transformation: the layout of its tensors is found afterwards."""

import building
import pytest

pytest.importorskip("torch")
SOURCE = """
#include <tenon/function.h>
static tenon_status sum(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    double total = 0;
    for (int64_t i = 0; x && i < tenon_dim(call, 0); i++)
        total += x[i];
    tenon_return_double(call, 0, total);
    return TENON_OK;
}
TENON_MODULE(met, "", TENON_FUNCTION("sum(x: f32[n]) -> float", sum, ""))
"""
FIRST = {
    "trace": "torch.jit.trace(lambda q: q * k.sum(x), (x,))",
    "vmap": "torch.vmap(lambda q: q * k.sum(x))(torch.ones(2))",
    "grad": "torch.func.grad(lambda q: q * k.sum(x))(torch.tensor(1.0))",
    "inference": "exec('with torch.inference_mode(): k.sum(x)')",
}


@pytest.mark.parametrize("first", FIRST)
def test_first_met(first):
    code = f"""
    import sys, warnings
    warnings.simplefilter("ignore")
    import torch, tenon
    k, x = tenon.load(sys.argv[1]), torch.ones(3)
    for _ in range(8):
        {FIRST[first]}
    assert k.sum(x) == 3
    print(tenon.torch_info()["tensors"], hasattr(torch._C.DispatchKeySet, "raw_repr"))
    """
    how, has_keys = building.run_python(code, building.build(SOURCE)).split()[-2:]
    assert how == "struct" or has_keys == "False"


def test_negated_views_are_not_taken_for_plain():
    import torch

    k = building.tenon.load(building.build(SOURCE))
    view = torch._neg_view(torch.ones(3))
    if building.tenon.torch_info()["tensors"] != "struct":
        pytest.skip("only the struct shows it")
    with pytest.raises(BufferError, match="resolve_neg"):
        k.sum(view)
    assert k.sum(view.resolve_neg()) == -3
