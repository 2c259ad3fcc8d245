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
    "inference": "with torch.inference_mode(): k.sum(x)",
}


def test_first_met(monkeypatch):
    """Each child of a process that has imported torch, and passed no tensor, meets it in another way."""
    monkeypatch.delenv("TENON_TORCH_STRUCT", raising=False)
    first = {name: code for name, code in FIRST.items()
             if name != "grad" or hasattr(torch.Tensor, "__dlpack_c_exchange_api__")}  # else grad exports no tensor
    code = f"""
    import os, sys, warnings
    warnings.simplefilter("ignore")
    import torch, tenon
    k, x = tenon.load(sys.argv[1]), torch.ones(3)
    for name, code in {first}.items():
        if os.fork() == 0:
            for _ in range(8):
                exec(code)
            assert k.sum(x) == 3
            print(name, tenon.torch_info()["tensors"], hasattr(torch._C.DispatchKeySet, "raw_repr"))
            break
        assert os.wait()[1] == 0, name
    """
    lines = building.run_python(code, building.build(SOURCE)).splitlines()
    assert [line.split()[0] for line in lines] == list(first)
    assert all(line.split()[1] == "struct" or line.endswith("False") for line in lines), lines


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
