"""What the tests of the direct path share: operators with it, without it, and with it as a torch without the symbols has it."""

import gc
import sys
import warnings

import pytest
from operators import HERE, compiled_library, tenon, torch
from tenon import _torch_direct, _torch_native


def weighted_backward(ctx, grad):
    seen.append(ctx.needs_input_grad)
    x, w = ctx.saved_tensors
    return (grad, None) if w is None else (grad * w, grad * x)


def affine_setup(ctx, inputs, output, keyword_only_inputs):
    seen.append((inputs[1:], output.shape, type(output), keyword_only_inputs))
    ctx.factor = inputs[1]


def affine_backward(ctx, grad):
    seen.append(ctx.needs_input_grad)
    return grad * ctx.factor, None


def pool_backward(ctx, grad):
    seen.append((ctx.needs_input_grad, ctx.arguments))
    return torch.ones_like(ctx.saved_tensors[0]), None, None


seen = []
BACKWARD = {
    "affine": (affine_backward, affine_setup),
    "weighted": weighted_backward,
    "dot": "dot_grad",
    "pool": pool_backward,
    "head": lambda ctx, grad: (grad, None, None),
}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return tenon.load(compiled_library(tmp_path_factory.mktemp("torch_ops"), HERE / "torch_ops.c"))


def registered(kernels, namespace, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tenon.torch_ops(kernels, name=namespace, backward=BACKWARD, **options)


@pytest.fixture(scope="module")
def on(kernels):
    ops = registered(kernels, "tenon_on")
    yield ops
    ops.close()


@pytest.fixture(scope="module")
def off(kernels):
    ops = registered(kernels, "tenon_off", direct=False)
    yield ops
    ops.close()


@pytest.fixture(scope="module")
def asking(kernels):
    """What a torch without the symbols gets: Python functions say what is active."""

    class Without:
        dispatch_keys = staticmethod(lambda: None)
        watch_by_python = staticmethod(lambda: None)

        def __getattr__(self, name):
            return getattr(_torch_native, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_torch_direct, "_torch_native", Without())
        patch.setattr(_torch_direct, "_watch", None)
        ops = registered(kernels, "tenon_asking")
    yield ops
    ops.close()


@pytest.fixture(params=["on", "asking"])
def direct(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["on", "off", "asking"])
def ops(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def nothing_seen():
    seen.clear()
    yield
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


def doubles(*shape, grad=False):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=grad)


def parts_of(function):
    found = dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__)))
    self = next(value for name, value in found.items() if name.endswith("direct")).__self__
    return next(held for held in gc.get_referents(self) if type(held) is tuple)


def spied(function):
    """The direct path of `function`, and a list of the calls that it leaves to the operator."""
    parts, calls = list(parts_of(function)), []
    operator = parts[1]

    def spy(*args, **kwargs):
        calls.append(args)
        return operator(*args, **kwargs)

    parts[1] = spy
    return _torch_native.direct(*parts), calls


def is_same(found, expected):
    assert type(found) is type(expected) or {type(found).__name__, type(expected).__name__} == {type(found).__name__}
    if isinstance(found, torch.Tensor):
        assert (found.dtype, found.device, found.shape) == (expected.dtype, expected.device, expected.shape)
        assert found.requires_grad == expected.requires_grad and found.is_inference() == expected.is_inference()
        assert found.device.type == "meta" or torch.equal(found, expected)
    elif isinstance(found, tuple):
        assert getattr(found, "_fields", None) == getattr(expected, "_fields", None) and len(found) == len(expected)
        for pair in zip(found, expected):
            is_same(*pair)
    else:
        assert found == expected
    return True
