"""torch met for the first time inside a transformation: the layout of its tensors is found afterwards."""

import building
import pytest

torch = pytest.importorskip("torch")
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
def test_first_met(first, monkeypatch):
    monkeypatch.delenv("TENON_TORCH_STRUCT", raising=False)
    if first == "grad" and not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch exports no tensor inside torch.func.grad")
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


@pytest.mark.parametrize("struct", ["0", "1"])
def test_negated_views_are_not_taken_for_plain(struct, monkeypatch):
    """A stride of 1 says nothing about it, and neither does torch's exchange table."""
    monkeypatch.setenv("TENON_TORCH_STRUCT", struct)
    code = """
    import sys, torch, tenon
    k = tenon.load(sys.argv[1])
    z = torch.ones(4, dtype=torch.complex64)
    views = [torch._neg_view(torch.ones(3)), z.conj().imag.as_strided((2,), (1,)), torch._neg_view(torch.ones(1)),
             torch._neg_view(torch.ones(6))[::2], torch.nn.Parameter(torch._neg_view(torch.ones(3)), requires_grad=False)]
    class Other(torch.Tensor):
        pass
    views.append(views[0].as_subclass(Other))
    for view in views:
        assert view.is_neg()
        try:
            print("sum:", k.sum(view))
        except BufferError as error:
            assert "resolve_neg" in str(error)
        assert k.sum(view.resolve_neg()) == view.sum(), view
    print(tenon.torch_info()["tensors"])
    """
    how = building.run_python(code, building.build(SOURCE)).split()
    assert len(how) == 1 and (struct == "1" or how != ["struct"])
