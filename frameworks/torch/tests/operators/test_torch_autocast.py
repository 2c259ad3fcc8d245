"""Operators under torch.autocast."""

import pytest
from operators import VERSION, compiled_library, tenon, torch

SOURCE = """
#include <tenon/function.h>
static tenon_status first(tenon_call *call)
{
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        tenon_result_data(call, 0, float)[i] = 2 * tenon_data(call, 0, float)[i];
    return TENON_OK;
}
static tenon_status wide(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}
TENON_MODULE(autocast, "Functions of f32.",
             TENON_FUNCTION("twice(x: f32[n] c) -> f32[n]", first, "2 * x"),
             TENON_FUNCTION("twice_grad(dy: f32[n] c, x: f32[n] c) -> f32[n]", first, "2 * dy"),
             TENON_FUNCTION("copied(x: T[n] c, y: T[n] c) -> T[n] where T = f32|f64", wide, "Nothing."),
             TENON_FUNCTION("written(x: f32[n] c rw)", wide, "Nothing."))
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("autocast")
    (folder / "autocast.c").write_text(SOURCE)
    return tenon.load(compiled_library(folder, folder / "autocast.c"))


def narrow(*values):
    return torch.tensor(values, dtype=torch.bfloat16)


@pytest.mark.parametrize("autocast", ["f32", "signature"])
def test_arguments_are_converted(kernels, autocast):
    with tenon.torch_ops(kernels, name=f"tenon_autocast_{autocast}", backward={"twice": "twice_grad"}, autocast=autocast) as ops:
        x = narrow(1, 2).requires_grad_()
        for f in (ops.twice, ops.twice.op):
            with torch.autocast("cpu"):
                y = f(x)
            assert y.dtype == torch.float32 and y.tolist() == [2, 4]
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert gradient.dtype == torch.bfloat16 and gradient.tolist() == [2, 2]
        with pytest.raises((TypeError, RuntimeError), match="dtype is bf16, not f32"):
            ops.twice(narrow(1))  # not under autocast


def test_a_dtype_variable_gets_one_dtype(kernels):
    with tenon.torch_ops(kernels, name="tenon_autocast_variable", autocast="signature") as ops, torch.autocast("cpu"):
        assert ops.copied(narrow(1, 2), torch.ones(2)).dtype == torch.float32
        assert ops.copied(narrow(1, 2), narrow(1, 2)).dtype == torch.float32
        assert ops.copied(torch.ones(2).double(), torch.ones(2).double()).dtype == torch.float64


def test_what_is_written_is_not_converted(kernels):
    with tenon.torch_ops(kernels, name="tenon_autocast_written", autocast="f32") as ops, torch.autocast("cpu"):
        with pytest.raises((TypeError, RuntimeError), match="dtype is bf16, not f32"):
            ops.written(narrow(1))


def test_a_refusal_names_the_option(kernels):
    message = r"dtype is bf16, not f32; try x\.to\(torch\.float32\), or pass autocast='f32' to tenon\.torch_ops\(\): torch\.autocast makes"
    with tenon.torch_ops(kernels, name="tenon_autocast_none") as ops, torch.autocast("cpu"):
        for f in (ops.twice, ops.twice.op):
            with pytest.raises(TypeError, match=message):
                f(narrow(1))
            if VERSION >= (2, 6):
                with pytest.raises(TypeError) as caught:
                    torch.vmap(f)(narrow(1, 2)[None])
                assert str(caught.value).count("autocast=") == 1
        assert ops.twice(torch.ones(1)).tolist() == [2]


def test_compiled(kernels):
    with tenon.torch_ops(kernels, name="tenon_autocast_compiled", autocast="f32") as ops:

        def program(x):
            with torch.autocast("cpu"):
                return ops.twice(x)

        assert torch.compile(program, fullgraph=True, backend="aot_eager")(narrow(1, 2)).tolist() == [2, 4]


@pytest.mark.parametrize(("autocast", "error"), [("f8", ValueError), (torch.float32, TypeError)])
def test_wrong_option(kernels, autocast, error):
    with pytest.raises(error, match="argument 'autocast': expected"):
        tenon.torch_ops(kernels, name="tenon_autocast_wrong", autocast=autocast)
