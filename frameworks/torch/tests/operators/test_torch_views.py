"""tenon.torch_ops: views that torch has not computed yet (conjugate and negated ones, and ZeroTensors) as arguments of operators
that write."""

import contextlib

import pytest
from operators import compiled_library, tenon, torch

SOURCE = """
#include <tenon/function.h>
static tenon_status add(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    float *to = (float *)x->data;
    const float *from = tenon_has_arg(call, 1) ? (const float *)tenon_arg(call, 1)->data : NULL;
    for (int64_t i = 0; i < x->numel * x->dtype.bits / 32; i++)
        to[i] += from ? from[i] : 1;
    return TENON_OK;
}
TENON_MODULE(add, "", TENON_FUNCTION("add(x: f32[n] rw, y: f32[n]? = None)", add, ""),
             TENON_FUNCTION("add_named(x: f32[n] rw, *, y: f32[n])", add, ""),
             TENON_FUNCTION("add_complex(x: c64[n] rw, y: c64[n])", add, ""),
             TENON_FUNCTION("add_to_all(x: f32[n] rw) -> f32[n]", add, ""))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")
    (folder / "source.c").write_text(SOURCE)
    return tenon.load(compiled_library(folder, folder / "source.c"))


@pytest.fixture(scope="module", params=["direct", "direct=False", "torch.ops"])
def operators(library, request):
    with tenon.torch_ops(library, name="tenon_views", direct=request.param == "direct") as ops:
        yield torch.ops.tenon_views if request.param == "torch.ops" else ops


CONTEXTS = {
    "plain": contextlib.nullcontext,
    "autocast": lambda: torch.autocast("cpu"),
    "profiler": lambda: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}


@pytest.fixture(params=CONTEXTS)
def context(request):
    with CONTEXTS[request.param]():
        yield


def negated():
    return torch._neg_view(torch.arange(3.0))


def conjugated():
    return torch.tensor([1 + 2j, 3 - 4j]).conj()


def zeros():
    return torch._efficientzerotensor((3,))


WRITTEN = {
    "negated": ("add", negated, lambda: (torch.ones(3),)),
    "negated, without another": ("add", negated, lambda: ()),
    "negated, and so is the other": ("add", negated, lambda: (negated(),)),
    "negated, with a result": ("add_to_all", negated, lambda: ()),
    "negated, of no elements": ("add", lambda: torch._neg_view(torch.ones(0)), lambda: ()),
    "conjugated": ("add_complex", conjugated, lambda: (torch.ones(2, dtype=torch.complex64),)),
    "zeros": ("add", zeros, lambda: ()),
    "zeros with a result": ("add_to_all", zeros, lambda: ()),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_no_operator_writes_to_such_a_view(library, operators, context, case):
    name, make, others = WRITTEN[case]
    with pytest.raises(BufferError) as expected:
        getattr(library, name)(make(), *others())
    for _ in range(20):  # torch's own kernel destroyed the heap
        x = make()
        before = x.clone()
        with pytest.raises(BufferError) as error:
            getattr(operators, name)(x, *others())
        assert str(error.value) == str(expected.value)
        assert torch.equal(x.clone(), before)


def test_other_arguments_are_resolved(operators, context):
    for _ in range(20):
        x, y = torch.ones(3), negated()
        operators.add(x, y)
        assert x.tolist() == [1, 0, -1]
        operators.add_named(x, y=y)
        assert x.tolist() == [1, -1, -3]
        operators.add(x, zeros())
        assert x.tolist() == [1, -1, -3]
        assert y.is_neg() and y.tolist() == [0, -1, -2]
        x, y = torch.zeros(2, dtype=torch.complex64), conjugated()
        operators.add_complex(x, y)
        assert x.tolist() == [1 - 2j, 3 + 4j]
        assert y.is_conj()


def test_memory_that_is_read_and_written_is_read_first(operators):
    x = torch.arange(3.0)
    operators.add(x, torch._neg_view(x))
    assert x.tolist() == [0, 0, 0]


def test_a_written_view_is_not_compiled(operators):
    def write(x):
        operators.add(x)
        return x

    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"add\(\): argument 'x': the function cannot write to a negated view; pass x.resolve_neg"):
        torch.compile(write, backend="aot_eager", fullgraph=True)(negated())
