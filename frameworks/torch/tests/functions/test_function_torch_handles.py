"""handle("torch.Tensor"): the very same tensor in a function, with its autograd history."""

import gc
import sys

import pytest
import tenon
from building import ROOT, build, run_python

torch = pytest.importorskip("torch")

SOURCE = """
#include <tenon/function.h>
#include <tenon/torch.h>

static void let_go(void *tensor) { (void)tensor; }

static tenon_status same(tenon_call *call)
{
    return tenon_return_handle(call, 0, tenon_arg_handle(call, 0), let_go);
}

static tenon_status squared(tenon_call *call)
{
    const tenon_torch_table *torch = tenon_torch_of(call);
    tenon_torch *x = (tenon_torch *)tenon_arg_handle(call, 0);
    tenon_error err;
    tenon_torch_value arguments[2] = {tenon_torch_tensor(x), tenon_torch_tensor(x)}, result;
    if (!torch)
        return tenon_fail(call, TENON_EFAILED, "this host has no torch");
    if (torch->call("aten::mul", "Tensor", 2, arguments, 1, &result, &err))
        return tenon_fail(call, TENON_EFAILED, "%s", err.message);
    tenon_status status = tenon_return_handle(call, 0, result.as.tensor, let_go);
    torch->value_release(&result);
    return status;
}

static tenon_status given(tenon_call *call)
{
    tenon_return_bool(call, 0, tenon_has_arg(call, 0));
    return TENON_OK;
}

TENON_MODULE(handles, "Tensors as themselves.",
    TENON_FUNCTION("same(x: handle('torch.Tensor')) -> handle('torch.Tensor')", same, "x itself."),
    TENON_FUNCTION("squared(x: handle('torch.Tensor')) -> handle('torch.Tensor')", squared, "By torch's own kernel."),
    TENON_FUNCTION("given(x: handle('torch.Tensor')?) -> bool", given, "Whether there is one."))
"""


@pytest.fixture(scope="module")
def handles():
    return tenon.load(build(SOURCE, "-I", str(ROOT / "frameworks/torch/include"), "-I", str(ROOT / "python/include"),
                            "-I", __import__("sysconfig").get_path("include"), name="handles.so"))  # fmt: skip


def test_the_same_object(handles):
    class Mine(torch.Tensor):
        pass

    for x in (torch.ones(3), torch.nn.Parameter(torch.ones(3)), torch.ones(3).as_subclass(Mine)):
        before = sys.getrefcount(x)
        for _ in range(100):
            assert handles.same(x) is x
        gc.collect()
        assert sys.getrefcount(x) == before


def test_autograd_goes_on(handles):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = handles.squared(x)
    assert y.grad_fn is not None
    y.sum().backward()
    assert x.grad.tolist() == [2, 4, 6]


def test_what_this_torch_has():
    info = tenon.torch_info()
    stable = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)
    assert info["version"] == torch.__version__ and info["tier"] == ("stable" if stable else "private")
    assert (info["missing"] == "") == stable


def test_without_torch():
    code = """
        import sys, tenon
        assert "torch" not in sys.modules
        assert tenon.torch_info()["tier"] == "none" and tenon.torch_info()["missing"]
        assert "torch" not in sys.modules
    """
    run_python(code)


def test_what_is_no_tensor(handles):
    class Liar:
        __class__ = torch.Tensor

    for wrong, name in ((3, "int"), ("text", "str"), (Liar(), "Liar")):
        with pytest.raises(TypeError, match=rf"same\(\): argument 'x': .*{name}"):
            handles.same(wrong)
    assert handles.given(None) is False and handles.given(torch.ones(1)) is True
