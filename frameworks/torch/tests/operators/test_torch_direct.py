"""The direct path of tenon.torch_ops: the same results as without it, and the operator whenever torch has to see it."""

import contextlib
import copy
import inspect
import os
import pathlib
import subprocess
import sys
import threading

import numpy
import pytest
from direct_ops import asking, direct, kernels, nothing_seen, off, on, ops  # noqa: F401
from direct_ops import doubles, is_same, registered, seen, spied
from operators import compiled_library, tenon, torch
from tenon import _torch_direct, _torch_native
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


CALLS = {
    "affine": lambda ops: ops.affine(torch.ones(2, 3), 3.0, shift=1.0),
    "a default": lambda ops: ops.affine(torch.ones(2, 3)),
    "an int for a float": lambda ops: ops.affine(torch.ones(3), 3),
    "by name": lambda ops: ops.affine(a=4.0, x=torch.ones(3)),
    "an optional tensor": lambda ops: ops.weighted(torch.ones(4).double()),
    "two tensors": lambda ops: ops.weighted(torch.ones(4).double(), torch.full((4,), 3.0).double()),
    "a parameter": lambda ops: ops.affine(torch.nn.Parameter(torch.ones(3)).detach()),
    "a number": lambda ops: ops.dot(torch.ones(4).double(), torch.ones(4).double()),
    "names": lambda ops: ops.stats(torch.arange(-2, 3).double()),
    "one name": lambda ops: ops.total(torch.ones(4).double(), torch.ones(4).double()),
    "lists": lambda ops: ops.pool(torch.ones(6, 2), "mean", [3, 4], keep=False),
    "a tuple": lambda ops: ops.pool(torch.ones(6, 2), "mean", (3, 4)),
    "no tensor": lambda ops: ops.ramp(5),
    "an unknown size": lambda ops: ops.positive(torch.arange(-2.0, 3)),
    "strides": lambda ops: ops.strides(torch.ones(3, 4).t()),
    "a tensor by keyword": lambda ops: ops.by_keyword(1.0, x=torch.ones(0).double()),
    "rw": lambda ops: ops.twice(torch.ones(3).double()),
    "rw without a result": lambda ops: ops.add_to(torch.ones(3).double(), torch.ones(3).double()),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("mode", ["default", "no_grad", "inference"])
def test_plain_calls_do_not_reach_the_operator(direct, off, call, mode):
    modes = {"default": contextlib.nullcontext, "no_grad": torch.no_grad, "inference": torch.inference_mode}
    with modes[mode]():
        assert is_same(CALLS[call](direct), CALLS[call](off))

    class Spied:
        calls = []

        def __getattr__(self, name):
            function, parameters = getattr(direct, name), inspect.signature(getattr(direct, name))
            called, self.calls = spied(function)

            def bound(*args, **kwargs):
                given = parameters.bind(*args, **kwargs)
                given.apply_defaults()
                return called(*given.arguments.values())

            return bound

    spy = Spied()
    with modes[mode]():
        CALLS[call](spy)
    assert spy.calls == []


# ------------------------------------------------------------------------------------------------------------ watchers


class SeesOperators(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        seen.append(str(function))
        return function(*args, **(kwargs or {}))


class SeesFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.append(str(function))
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def default_device():
    torch.set_default_device("cpu")
    yield
    torch.set_default_device(None)


MODES = {
    "dispatch mode": SeesOperators,
    "function mode": SeesFunctions,
    "fake tensors": lambda: FakeTensorMode(allow_non_fake_inputs=True),
    "autocast": lambda: torch.autocast("cpu"),
    "profiler": lambda: torch.autograd.profiler.profile(use_kineto=False),
    "device": lambda: torch.device("cpu"),
    "default device": default_device,
}


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_modes_see_the_operator(direct, off, mode, inference):
    x = doubles(4)
    called, calls = spied(direct.weighted)
    with torch.inference_mode(inference), MODES[mode]():
        found = called(x, None)
        expected = off.weighted(x)
    assert len(calls) == 1
    called(x, None)
    assert len(calls) == 1  # it is over
    assert mode == "fake tensors" or is_same(found, expected)


def test_tangents_are_seen_by_the_operator(direct):
    x = doubles(4)
    called, calls = spied(direct.weighted)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        with pytest.raises(RuntimeError, match="the operator has no forward mode"):
            called(dual, None)
        assert len(calls) == 1
        assert torch.equal(called(x, None), x)
    called(x, None)
    called(x[1:], None)
    assert len(calls) <= 2


TRANSFORMS = {
    "vmap": lambda f, x: torch.vmap(f)(torch.stack([x, x])),
    "grad of another": lambda f, x: torch.func.grad(lambda y: (y * f(x)).sum())(x),
    "vjp of another": lambda f, x: torch.func.vjp(lambda y: y * f(x), x)[0],
    "jvp of another": lambda f, x: torch.func.jvp(lambda y: y * f(x), (x,), (x,))[1],
    "functionalize": lambda f, x: torch.func.functionalize(f)(x),
    "jit.trace": lambda f, x: torch.jit.trace(f, (x,), check_trace=False)(x),
    "make_fx": lambda f, x: make_fx(f)(x)(x),
    "make_fx, symbolic": lambda f, x: make_fx(f, tracing_mode="symbolic")(x)(x),
    "make_fx, pre-dispatch": lambda f, x: make_fx(f, pre_dispatch=True)(x)(x),
    "symbolic_trace": lambda f, x: torch.fx.symbolic_trace(f)(x),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_see_the_operator(direct, off, transform):
    x = doubles(4)
    called, calls = spied(direct.weighted)
    found = TRANSFORMS[transform](lambda x: called(x, None), x)
    assert calls
    assert is_same(found, TRANSFORMS[transform](lambda x: off.weighted(x), x))


@pytest.mark.filterwarnings("ignore")
def test_graphs_hold_the_operator(ops):
    def function(x):
        return ops.affine(x, 3.0) + ops.dot(x, x) + ops.stats(x).relu

    namespace, x, y = ops.affine.op.namespace, doubles(4), doubles(4)
    traced = torch.jit.trace(function, (x,))
    assert f"{namespace}::affine" in str(traced.graph) and torch.equal(traced(y), function(y))
    for options in ({}, {"tracing_mode": "symbolic"}, {"pre_dispatch": True}):
        graph = make_fx(function, **options)(x)
        assert f"{namespace}.affine" in graph.code and torch.equal(graph(y), function(y))


def test_compiled(ops):
    def function(x, w):
        return ops.affine(ops.weighted(x, w), 3.0, shift=0.5), ops.stats(x), ops.dot(x, w), ops.pool(x.float()[:, None])

    x, w = doubles(4), doubles(4)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    assert is_same(compiled(x, w), function(x, w))


def test_compiled_with_gradients(ops):
    def function(x, w):
        return ops.affine(ops.weighted(x, w), 3.0, shift=0.5), ops.dot(x, w)

    given = doubles(4, grad=True), doubles(4, grad=True)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    found = torch.autograd.grad(sum(part.sum() for part in compiled(*given)), given)
    assert is_same(found, torch.autograd.grad(sum(part.sum() for part in function(*given)), given))


@pytest.mark.parametrize("strict", [True, False])
def test_exported(ops, strict):
    class Model(torch.nn.Module):
        def forward(self, x, w):
            return ops.affine(ops.weighted(x, w)), ops.dot(x, w)

    program = torch.export.export(Model(), (doubles(4), doubles(4)), strict=strict)
    assert f"{ops.affine.op.namespace}.weighted" in str(program.graph)
    x, w = doubles(4), doubles(4)
    assert is_same(program.module()(x, w), Model()(x, w))


def test_opcheck(ops):
    done = torch.library.opcheck(ops.weighted.op, (doubles(4, grad=True), doubles(4, grad=True)))
    assert set(done.values()) == {"SUCCESS"}


def test_the_profiler_lists_the_operator(ops):
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        ops.affine(doubles(3))
    assert f"{ops.affine.op.namespace}::affine" in [event.name for event in profile.function_events]


def test_transforms_refuse_the_same(ops):
    x = doubles(3)
    assert torch.equal(torch.func.grad(lambda x: ops.affine(x).sum())(x), torch.full_like(x, 2))
    with pytest.raises(RuntimeError, match="carries a tangent.*the operator has no forward mode"):
        torch.func.jvp(ops.plain, (x,), (x,))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="the operator has no forward mode"):
        ops.plain(torch.autograd.forward_ad.make_dual(x.requires_grad_(), x))


def test_a_mode_of_one_thread_is_not_seen_in_another(direct):
    x, counts, turns = doubles(3), {}, threading.Barrier(2, timeout=60)

    def run(name, mode):
        called, calls = spied(direct.weighted)
        with mode():
            turns.wait()
            for _ in range(100):
                called(x, None)
            turns.wait()
        counts[name] = len(calls)

    threads = [threading.Thread(target=run, args=item) for item in {"plain": torch.no_grad, "mode": SeesOperators}.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {"plain": 0, "mode": 100}


# ----------------------------------------------------------------------------------------------------------- arguments


class Subclass(torch.Tensor):
    pass


class Text(str):
    pass


OTHERS = {
    "a subclass": lambda f: f("affine")(torch.ones(3).as_subclass(Subclass)),
    "a meta tensor": lambda f: f("affine")(torch.ones(3, device="meta")),
    "a negated view": lambda f: f("affine")(torch._neg_view(torch.ones(3))),
    "a conjugate's imaginary part": lambda f: f("affine")(torch.full((3,), 1 + 2j).conj().imag.contiguous()),
    "a zero tensor": lambda f: f("affine")(torch._efficientzerotensor((3,))),
    "a NumPy number": lambda f: f("affine")(torch.ones(3), numpy.float64(3)),
    "a bool for a float": lambda f: f("affine")(torch.ones(3), True),
    "a huge int": lambda f: f("affine")(torch.ones(3), 2**60 + 1),
    "a str of its own class": lambda f: f("pool")(torch.ones(6, 2), Text("mean")),
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_arguments_go_to_the_operator(direct, off, other):
    calls = []

    def through(name):
        parameters = inspect.signature(getattr(direct, name)).parameters.values()
        called, more = spied(getattr(direct, name))
        calls.append(more)
        return lambda *args: called(*args, *[p.default for p in parameters][len(args) :])

    try:
        expected = OTHERS[other](lambda name: getattr(off, name))
    except Exception as error:
        with pytest.raises(type(error)):
            OTHERS[other](through)
    else:
        assert is_same(OTHERS[other](through), expected)
    assert other.startswith("a conjugate") or len(calls[0]) == 1


@pytest.mark.parametrize("wrong", [numpy.ones(3), [1.0], 2.0, "x"])
def test_objects_that_are_not_tensors_are_refused_by_torch(ops, wrong):
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor' for argument 'x'"):
        ops.affine(wrong)


WRONG = {
    "dtype": lambda ops, t: ops.weighted(t(3)),
    "rank": lambda ops, t: ops.weighted(t(3, 1).double()),
    "size": lambda ops, t: ops.weighted(t(3).double(), t(4).double()),
    "an expression": lambda ops, t: ops.head(t(6), 2),
    "a choice": lambda ops, t: ops.pool(t(6, 2), "median"),
    "a count": lambda ops, t: ops.pool(t(6, 2), "mean", [1]),
    "a layout": lambda ops, t: ops.affine(t(3, 4).t()),
    "rw": lambda ops, t: ops.add_to(t(3).double(), t(4).double()),
    "a required argument": lambda ops, t: ops.dot(t(3)),
    "an argument too many": lambda ops, t: ops.dot(t(3), t(3), t(3)),
    "an unknown name": lambda ops, t: ops.dot(t(3), z=t(3)),
    "twice": lambda ops, t: ops.dot(t(3), t(3), x=t(3)),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("case", WRONG)
def test_errors_are_those_of_the_function(kernels, ops, case, grad):
    def make(*shape):
        return torch.ones(*shape).requires_grad_(grad and case != "rw")

    with torch.no_grad(), pytest.raises((TypeError, ValueError)) as expected:
        WRONG[case](kernels, make)
    with pytest.raises((TypeError, ValueError)) as found:
        WRONG[case](ops, make)
    assert type(found.value) is type(expected.value)
    if "argument" not in case and case not in ("an unknown name", "twice"):  # Python says these
        assert str(found.value) == str(expected.value)


def test_torch_ops_says_the_same(kernels, on):
    for case in ("dtype", "rank", "size", "a layout"):
        with pytest.raises((TypeError, ValueError)) as expected:
            WRONG[case](kernels, torch.ones)
        with pytest.raises((TypeError, ValueError, RuntimeError)) as found:
            WRONG[case](torch.ops.tenon_on, torch.ones)
        assert str(expected.value) in str(found.value)


def test_a_device_that_it_is_not_for_is_refused_by_torch(ops):
    with pytest.raises(NotImplementedError, match="CPU"):
        ops.on_gpu(torch.ones(3))


# --------------------------------------------------------------------------------------------------- what the function is


def test_the_number_of_arguments_is_checked(direct):
    """The Python function around it always passes one for each parameter."""
    path, _ = spied(direct.affine)
    with pytest.raises(TypeError, match="expected one argument for each parameter"):
        path(torch.ones(1))


def test_the_function_is_that_of_the_library(ops, kernels):
    for name in ("affine", "weighted", "pool", "ramp", "stats", "by_keyword"):
        function, own = getattr(ops, name), getattr(kernels, name)
        parameters = [p for p in inspect.signature(own).parameters.values() if p.name not in ("out", "like")]
        assert list(inspect.signature(function).parameters.values()) == parameters
        assert (function.__name__, function.__qualname__, function.__doc__) == (name, name, own.__doc__)
        assert function is getattr(ops, name) and copy.deepcopy(function) is function
        assert repr(function).startswith(f"<function {name} at ")
        namespace = function.op.namespace
        assert function.op is getattr(getattr(torch.ops, namespace), name).default


def test_any_name_can_be_a_parameter(tmp_path):
    source = tmp_path / "names.c"
    source.write_text("""#include <tenon/function.h>
    static tenon_status same(tenon_call *call) {
        tenon_result_data(call, 0, float)[0] = tenon_data(call, 0, float)[0] + (float)tenon_arg_double(call, 1);
        return TENON_OK;
    }
    TENON_MODULE(names, NULL, TENON_FUNCTION("make(_direct: f32[1], __operator: float = 2, *, is_compiling: int = 1,"
                                             " self: float?, None_: str = '{self} %s') -> f32[1]", same, NULL))""")
    for direct in (True, False):
        ops = tenon.torch_ops(tenon.load(compiled_library(tmp_path, source)), name="tenon_names", direct=direct)
        assert ops.make(torch.ones(1)).item() == 3 and ops.make(torch.ones(1), __operator=4.0, self=1.0).item() == 5
        ops.close()


def test_direct_is_a_switch(on, off, kernels):
    def free(function):
        return function.__code__.co_freevars

    assert "_direct" in free(on.affine) and "_direct" not in free(off.affine)
    with pytest.raises(TypeError, match="argument 'direct': expected bool, got str"):
        tenon.torch_ops(kernels, name="tenon_switch", direct="no")
    with pytest.raises(TypeError, match="argument 'strict': expected bool, got str"):
        tenon.torch_ops(kernels, name="tenon_switch", strict="no")
    info = tenon.torch_info()
    assert all(type(value) is str for value in info.values())
    assert (info["direct"], info["direct_why"]) == ("on", "")
    assert info["watch"] == ("tls" if sys.platform == "linux" else "python")


def test_a_torch_that_has_changed_is_called_through_the_operator(kernels, monkeypatch):
    class Said:
        direct_off = staticmethod(seen.append)

        def __getattr__(self, name):
            return getattr(_torch_native, name)

    def changed(device, inference):
        raise AttributeError("there is no DispatchKeySet")

    monkeypatch.setattr(_torch_direct, "_torch_native", Said())
    monkeypatch.setattr(_torch_direct, "_watch", None)
    monkeypatch.setattr(_torch_direct, "_key_set", changed)
    ops = registered(kernels, "tenon_changed")
    assert seen == [f"torch {torch.__version__}: AttributeError: there is no DispatchKeySet"]
    assert "_direct" not in ops.affine.__code__.co_freevars and ops.affine(torch.ones(1)).item() == 2
    ops.close()


SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
import tenon
before = tenon.torch_info()
import torch
from tenon import _torch_direct, _torch_native
if "slow" in sys.argv:
    class Without:
        dispatch_keys = staticmethod(lambda: None)
        def __getattr__(self, name):
            return getattr(_torch_native, name)
    _torch_direct._torch_native = Without()
kernels = tenon.load(sys.argv[1])
ops = tenon.torch_ops(kernels, name="tenon_apart", backward={"affine": "affine_grad"})
x = torch.ones(3, requires_grad=True)
ops.affine(x).sum().backward()
assert x.grad.tolist() == [2, 2, 2]
assert ops.affine(torch._neg_view(torch.ones(3))).tolist() == [-2, -2, -2]
with torch.inference_mode():
    assert ops.affine(x).tolist() == [2, 2, 2]
ops.add_to(torch.ones(3).double(), torch.ones(3).double())
info = tenon.torch_info()
print(before["direct"], "|", before["direct_why"], "|", info["direct"], "|", info["direct_why"], "|", info["watch"], "|",
      type(ops.affine(x).grad_fn).__name__, "|", "torch._dynamo" in sys.modules)
"""


@pytest.mark.parametrize(
    "value, slow, said",
    [
        (None, False, "off | torch has not been imported | on |  | tls | affineBackward | False"),
        (None, True, "off | torch has not been imported | on |  | python | affineBackward | False"),
        ("0", False, "off | TENON_TORCH_DIRECT=0 is set | off | TENON_TORCH_DIRECT=0 is set | tls | Generated"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="the name of the watch is that of Linux")
def test_the_switch_of_the_environment(kernels, value, slow, said):
    paths = [str(pathlib.Path(tenon.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("TENON_TORCH_DIRECT", None)
    environment["TENON_TORCH_STRUCT"] = "0" if slow else "1"
    if value:
        environment["TENON_TORCH_DIRECT"] = value
    command = [sys.executable, "-c", SCRIPT, kernels.__file__, *(["slow"] if slow else [])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(said)
