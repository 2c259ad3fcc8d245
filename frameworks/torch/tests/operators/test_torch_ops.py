"""tenon.torch_ops: what torch's own checks, compilers and autograd say of operators that follow from signatures.

The package is an installed `tenon`, or the one in the folder that TENON_PACKAGE names."""

import functools
import gc
import os
import pathlib
import re
import runpy
import shlex
import subprocess
import sys
import warnings

import pytest
from operators import HERE, ROOT, compiled_library, tenon, torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

EXAMPLE = ROOT / "examples/torch_ops"

LEFT_OUT = {
    "open": "of type handle",
    "end": "argument 'index' is a handle",
    "label": "of type str",
    "perhaps": "may be None",
    "quiet": "neither returns nor writes anything",
    "wide": "f128, which torch does not have",
    "lists": "torch does not accept",
    "name": "torch reserves this name",
    "close": "tenon.TorchOps reserves this name",
    "far": "hexagon",
}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return tenon.load(compiled_library(tmp_path_factory.mktemp("torch_ops"), HERE / "torch_ops.c"))


def weighted_backward(ctx, grad):
    x, w = ctx.saved_tensors
    return (grad, None) if w is None else (grad * w, grad * x)


BACKWARD = {"affine": "affine_grad", "weighted": weighted_backward, "dot": "dot_grad"}


@pytest.fixture(scope="module", params=[True, False], ids=["direct", "operators"])
def ops(kernels, request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registered = tenon.torch_ops(kernels, name="tenon_tests", backward=BACKWARD, direct=request.param)
    yield registered
    torch._dynamo.reset()
    registered.close()


@pytest.fixture(autouse=True)
def no_graphs_left():
    yield
    torch._dynamo.reset()


def doubles(*shape, grad=False):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=grad)


# ------------------------------------------------------------------------------------------------------ registration


def test_the_schemas_follow_from_the_signatures(ops):
    names = [name for name in dir(ops) if name != "close"]
    schemas = {name: str(getattr(torch.ops.tenon_tests, name).default._schema).partition("::")[2] for name in names}
    assert schemas["affine"] == "affine(Tensor x, float a=2., *, float? shift=None) -> Tensor"
    assert schemas["weighted"] == "weighted(Tensor x, Tensor? w=None) -> Tensor"
    assert schemas["add_to"] == "add_to(Tensor(a0!) y, Tensor x, float a=1.) -> ()"
    assert schemas["stats"] == "stats(Tensor x) -> (Tensor, Tensor, Tensor, Tensor)"
    assert schemas["ramp"] == "ramp(SymInt n) -> Tensor"
    assert "SymInt[] size=[1, 2], *, bool keep=True" in schemas["pool"]
    assert "affine" in repr(ops) and not hasattr(ops, "open")


def test_what_cannot_be_an_operator_is_named_with_the_reason(kernels):
    with pytest.warns(UserWarning) as caught:
        tenon.torch_ops(kernels, name="tenon_left_out").close()
    ours = [warning for warning in caught if "is left out" in str(warning.message)]
    said = {re.search(r"(\w+)\(\) is", str(warning.message))[1]: str(warning.message) for warning in ours}
    assert said.keys() == LEFT_OUT.keys()
    assert all(reason in said[name] for name, reason in LEFT_OUT.items())
    assert {warning.filename for warning in ours} == {__file__}


def test_strict_raises_and_registers_nothing(kernels):
    with pytest.raises(ValueError, match=r"open\(\) cannot be an operator"):
        tenon.torch_ops(kernels, name="tenon_strict", strict=True)
    assert not hasattr(torch.ops.tenon_strict, "affine")


@pytest.mark.filterwarnings("ignore:tenon.torch_ops")
def test_registering_twice_and_again_after_close(kernels):
    first = tenon.torch_ops(kernels, name="tenon_again")
    with pytest.raises(ValueError, match=r"torch already has an operator tenon_again::affine"):
        tenon.torch_ops(kernels, name="tenon_again")
    x = doubles(3)
    assert torch.equal(first.affine(x), 2 * x)
    first.close()
    gc.collect()
    assert not hasattr(torch.ops.tenon_again, "affine")
    with pytest.raises(AttributeError, match="closed"):
        first.affine
    second = tenon.torch_ops(kernels, name="tenon_again")
    assert torch.equal(torch.ops.tenon_again.affine(x), 2 * x)
    second.close()


@pytest.mark.filterwarnings("ignore:tenon.torch_ops")
def test_operators_stay_without_the_object(kernels):
    tenon.torch_ops(kernels, name="tenon_stays")
    gc.collect()
    x = doubles(3)
    assert torch.equal(torch.ops.tenon_stays.affine(x), 2 * x)


@pytest.mark.filterwarnings("ignore:tenon.torch_ops")
@pytest.mark.parametrize(
    "backward, said",
    [
        ({"nothing": "affine_grad"}, "no function nothing"),
        ({"affine": "nothing"}, "no operator nothing"),
        ({"affine": "label"}, r"affine\(\): label\(\) cannot be an operator: a result is of type str"),
        ({"affine": torch.autograd.Function}, r"affine\(\): expected a function, .*, got <class"),
        ({"affine": "dot_grad"}, "must take the gradients of its results, then its arguments: tensor, tensor, float"),
        ({"dot": "batch"}, "must take the gradients"),
        ({"dot": "total"}, "must take the gradients"),
        ({"plain": "weighted_grad"}, "must return the gradients of x, one result each"),
        ({"add_to": weighted_backward}, "writes to its arguments"),
        ({"by_keyword": weighted_backward}, "by keyword only"),
        ({"label": weighted_backward}, "cannot be an operator"),
        ({"plain": 5}, r"plain\(\): expected a function, .*, got 5"),
        ({"plain": (weighted_backward,)}, "pair of functions"),
        (5, "expected a dict, got int"),
    ],
)
def test_a_backward_that_does_not_fit_is_refused(kernels, backward, said):
    with pytest.raises((TypeError, ValueError), match=said):
        tenon.torch_ops(kernels, name="tenon_backward", backward=backward)
    assert not hasattr(torch.ops.tenon_backward, "affine")


@pytest.mark.filterwarnings("ignore:tenon.torch_ops")
def test_a_backward_may_be_the_function_itself(kernels):
    ops = tenon.torch_ops(kernels, name="tenon_itself", backward={"affine": kernels.affine_grad})
    x = torch.ones(3, requires_grad=True)
    ops.affine(x).sum().backward()
    assert x.grad is not None
    ops.close()


@pytest.mark.filterwarnings("ignore:tenon.torch_ops")
def test_name_of_the_library_and_with(kernels):
    with tenon.torch_ops(kernels) as ops:
        assert getattr(torch.ops, kernels.__name__).affine is not None and kernels.__name__ in repr(ops)
    assert not hasattr(getattr(torch.ops, kernels.__name__), "affine") and "closed" in repr(ops)
    ops.close()


def test_arguments_of_torch_ops(kernels):
    for namespace in ("aten", "prim", "no-name", "", "ñ", "class"):
        with pytest.raises(ValueError, match=f"argument 'name': expected an identifier.*got '{namespace}'"):
            tenon.torch_ops(kernels, name=namespace)
    with pytest.raises(TypeError, match="'name': expected str, got int"):
        tenon.torch_ops(kernels, name=5)
    with pytest.raises(TypeError, match="positional argument"):
        tenon.torch_ops(kernels, "tenon_positional")
    for wrong in (object(), None, 5, "kernels.so"):
        with pytest.raises(TypeError, match=r"'kernels': expected a module from tenon.load\(\), got \w+"):
            tenon.torch_ops(wrong, name="tenon_wrong")
    with pytest.raises(ValueError, match="argument 'kernels': <module 'os'.* has no functions"):
        tenon.torch_ops(os, name="tenon_os")


def test_without_torch():
    code = """
import sys, types
import tenon
assert "torch" not in sys.modules
sys.modules["torch"] = None
try:
    tenon.torch_ops(types.ModuleType("kernels"), name="nothing")
except ImportError as error:
    print(error)
"""
    paths = [str(pathlib.Path(tenon.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "tenon.torch_ops() needs torch, which is not installed\n"


# ------------------------------------------------------------------------------------------------------------- calls


def test_calls(ops):
    x = doubles(2, 3)
    assert torch.equal(ops.affine(x, 3.0, shift=1.0), 3 * x + 1)
    assert torch.equal(ops.affine(x.float()), 2 * x.float())
    v, w = doubles(4), doubles(4)
    assert torch.equal(ops.weighted(v), v) and torch.equal(ops.weighted(v, w), v * w)
    assert ops.pool(torch.ones(5, 2)).tolist() == torch.full((2, 3, 3), 103.0).tolist()
    assert ops.pool(torch.ones(5, 2), mode="mean", size=[3, 4])[0, 0, 0] == 7
    assert ops.positive(torch.tensor([1.0, -1.0, 2.0])).tolist() == [0, 2]


def test_numbers_become_tensors_and_names_stay(ops):
    x = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    made = ops.stats(x)
    assert made._fields == ("relu", "mask", "count", "all") and type(made).__name__ == "stats_result"
    assert made.relu.tolist() == [1, 0, 3] and made.mask.tolist() == [True, False, True]
    assert made.count.dtype == torch.int64 and made.count.item() == 2
    assert made.all.dtype == torch.bool and not made.all.item()
    assert isinstance(torch.ops.tenon_tests.stats(x), (tuple, list))
    dot = ops.dot(x, x)
    assert dot.shape == () and dot.dtype == torch.float64 and dot.item() == 14
    assert ops.total(x, x).total.item() == 14


def test_without_a_tensor_the_result_is_torchs(ops):
    made = ops.ramp(4)
    assert type(made) is torch.Tensor and made.tolist() == [0, 1, 2, 3]


def test_a_function_for_the_gpu_is_not_registered_for_the_cpu(ops):
    with pytest.raises(NotImplementedError, match="CPU"):
        ops.on_gpu(torch.ones(3))
    assert torch.ops.tenon_tests.on_gpu(torch.ones(3, device="meta")).device.type == "meta"


# ------------------------------------------------------------------------------------------------------------ opcheck

SAMPLES = {
    "affine": [lambda: ((doubles(2, 3, grad=True), 3.0), {"shift": 1.0}), lambda: ((torch.ones(4),), {})],
    "weighted": [
        lambda: ((doubles(4, grad=True), doubles(4, grad=True)), {}),
        lambda: ((doubles(4, grad=True), None), {}),
    ],
    "plain": [lambda: ((doubles(4),), {})],
    "add_to": [lambda: ((doubles(4), doubles(4), 2.0), {})],
    "twice": [lambda: ((doubles(4),), {})],
    "dot": [lambda: ((doubles(4, grad=True), doubles(4, grad=True)), {})],
    "stats": [lambda: ((doubles(5),), {})],
    "pool": [lambda: ((torch.ones(6, 2), "mean", [3, 4]), {"keep": False})],
    "ramp": [lambda: ((4,), {})],
    "head": [lambda: ((torch.ones(6), 3), {})],
    "positive": [lambda: ((torch.ones(5),), {})],
    "strides": [lambda: ((torch.ones(3, 4).t(),), {})],
}


@pytest.mark.parametrize("name, sample", [(name, sample) for name, samples in SAMPLES.items() for sample in samples])
def test_opcheck(ops, name, sample):
    args, kwargs = sample()
    done = torch.library.opcheck(getattr(torch.ops.tenon_tests, name).default, args, kwargs)
    assert len(done) >= 4 and set(done.values()) == {"SUCCESS"}


# ------------------------------------------------------------------------------------------------- shapes without data

WRONG = {
    "size": lambda ops, t: ops.weighted(t(3).double(), t(4).double()),
    "dtype": lambda ops, t: ops.weighted(t(3)),
    "ndim": lambda ops, t: ops.weighted(t(3, 1).double()),
    "variable": lambda ops, t: ops.affine(t(3).to(torch.int32)),
    "kinds": lambda ops, t: ops.batch(t(3).int(), t(3).bool()),
    "star": lambda ops, t: ops.batch(t(2, 3).int(), t(4, 3)),
    "star ndim": lambda ops, t: ops.batch(t(2, 3).int(), t(3)),
    "few": lambda ops, t: ops.batch(t(2, 3).int(), t(())),
    "two variables": lambda ops, t: ops.affine_grad(t(3), t(3).double(), 1.0),
    "expression": lambda ops, t: ops.shrink(t(9, 4), t(4)),
    "number": lambda ops, t: ops.shrink(t(9, 3), t(4), t(5, 2)),
    "negative": lambda ops, t: ops.shrink(t(2, 3), t(4)),
    "after a star": lambda ops, t: ops.trim(t(2, 3, 4)),
    "negative int": lambda ops, t: ops.ramp(-1),
    "int": lambda ops, t: ops.head(t(6), 2),
    "enum": lambda ops, t: ops.pool(t(6, 2), "median"),
    "enum of any characters": lambda ops, t: ops.pool(t(6, 2), "\x01\x1f\x7f\t'\\ß"),
    "count": lambda ops, t: ops.pool(t(6, 2), "mean", [1]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_say_the_same_without_data(ops, case):
    with pytest.raises((TypeError, ValueError)) as real:
        WRONG[case](ops, torch.ones)
    with FakeTensorMode(), pytest.raises((TypeError, ValueError)) as fake:
        WRONG[case](ops, torch.ones)
    assert type(fake.value) is type(real.value)
    assert str(fake.value) == str(real.value)


# ---------------------------------------------------------------------------------------------------- compile, export


def counted(function, **options):
    counter = CompileCounterWithBackend("aot_eager")
    return torch.compile(function, backend=counter, fullgraph=True, **options), counter


@pytest.mark.parametrize("dynamic, frames", [(True, 1), (None, 2)])
def test_sizes_do_not_recompile(ops, dynamic, frames):
    def function(x, w):
        y = ops.affine(ops.weighted(x + 1, w), 3.0, shift=0.5)
        return y, ops.dot(y, x), ops.stats(y).count, ops.pool(x.float().reshape(-1, 2)).shape[0]

    compiled, counter = counted(function, dynamic=dynamic)
    for size in (8, 12, 16, 20, 32, 64):
        x, w = doubles(size), doubles(size)
        for found, expected in zip(compiled(x, w), function(x, w)):
            assert torch.equal(torch.as_tensor(found), torch.as_tensor(expected))
    assert counter.frame_count == frames


def test_a_size_as_an_argument_does_not_recompile(ops):
    def function(x):
        return ops.ramp(x.shape[0] + 1) + ops.head(x.repeat(2), x.shape[0]).sum()

    compiled, counter = counted(function, dynamic=True)
    for size in (3, 5, 9):
        assert compiled(torch.ones(size)).tolist() == [i + 2.0 * size for i in range(size + 1)]
    assert counter.frame_count == 1


def test_compiled_without_dynamic_sizes(ops):
    compiled, counter = counted(lambda x: ops.affine(x), dynamic=False)
    for size in (3, 4):
        assert torch.equal(compiled(torch.ones(size)), 2 * torch.ones(size))
    assert counter.frame_count == 2  # or the tests above would count nothing


def test_compiled_with_a_size_that_only_the_function_knows(ops):
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled, counter = counted(lambda x: ops.positive(x) * 2)
        for values in ([1.0, -1.0, 2.0], [1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]):
            x = torch.tensor(values)
            assert compiled(x).tolist() == [2 * i for i, value in enumerate(values) if value > 0]
        assert counter.frame_count == 1


def test_compiled_mutation(ops):
    def function(y, x):
        y = y + 1
        ops.add_to(y, x, 3.0)
        return y, ops.twice(y), y * 1

    compiled, _ = counted(function)
    y, x = doubles(4), doubles(4)
    for found, expected in zip(compiled(y, x), function(y, x)):
        assert torch.equal(found, expected)
    graph_input = y.clone()
    torch.compile(lambda y: ops.add_to(y, x), backend="aot_eager", fullgraph=True)(graph_input)
    assert torch.equal(graph_input, y + x)


def test_a_wrong_shape_is_told_when_it_is_compiled(ops):
    compiled, _ = counted(lambda x, w: ops.weighted(x, w))
    with pytest.raises(Exception, match=r"weighted\(\): argument 'w': dimension 0 is \w+, but n = \w+ from argument"):
        compiled(doubles(3), doubles(4))


def test_export(ops):
    class Model(torch.nn.Module):
        def forward(self, x, w):
            return ops.stats(ops.weighted(x, w))

    n = torch.export.Dim("n", min=2)
    program = torch.export.export(Model(), (doubles(4), doubles(4)), dynamic_shapes={"x": {0: n}, "w": {0: n}})
    assert "tenon_tests.weighted" in str(program.graph)
    x, w = doubles(9), doubles(9)
    for found, expected in zip(program.module()(x, w), Model()(x, w)):
        assert torch.equal(found, expected)


def test_export_of_a_mutation(ops):
    class Model(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            ops.twice(y)
            return y

    program = torch.export.export(Model(), (doubles(4),)).run_decompositions()
    assert "auto_functionalized" in str(program.graph)
    y = doubles(4)
    assert torch.equal(program.module()(y), 4 * y)


# --------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("compiled", [False, True])
def test_gradcheck(ops, compiled):
    def check(function, *inputs):
        function = torch.compile(function, backend="aot_eager", fullgraph=True) if compiled else function
        assert torch.autograd.gradcheck(function, inputs)

    check(lambda x: ops.affine(x, 3.0, shift=1.0), doubles(2, 3, grad=True))  # another function of the library
    check(lambda x, y: ops.dot(x, y), doubles(4, grad=True), doubles(4, grad=True))
    check(lambda x, w: ops.weighted(x, w), doubles(4, grad=True), doubles(4, grad=True))  # a Python function
    check(lambda x: ops.weighted(x), doubles(4, grad=True))
    check(lambda x, w: ops.weighted(x, w), doubles(4), doubles(4, grad=True))


def test_gradients_without_what_torch_keeps_private(kernels, monkeypatch):
    class Moved:
        def __getattr__(self, name):
            if name == "_library":
                raise AttributeError(name)
            return getattr(torch, name)

    monkeypatch.setattr("tenon._torch_ops.torch_module", Moved)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ops = tenon.torch_ops(kernels, name="tenon_moved", backward=BACKWARD)
    assert torch.autograd.gradcheck(ops.dot, (doubles(4, grad=True), doubles(4, grad=True)))
    ops.close()


def test_gradients_with_strides_reach_a_function_that_wants_none(ops):
    x = doubles(2, 3, grad=True)
    ops.affine(x).sum().backward()  # an expanded 1
    assert torch.equal(x.grad, torch.full_like(x, 2))


@pytest.mark.filterwarnings("ignore:tenon.torch_ops")
def test_setup_context_of_ones_own(kernels):
    def setup(ctx, inputs, output):
        ctx.save_for_backward(output)

    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]

    ops = tenon.torch_ops(kernels, name="tenon_setup", backward={"plain": (backward, setup)})
    x = doubles(3, grad=True)
    ops.plain(x).sum().backward()
    assert torch.equal(x.grad, x.detach())
    ops.close()


def test_gradients_are_not_lost(ops):
    x = doubles(3, grad=True)
    y = ops.plain(x)
    with pytest.raises(RuntimeError, match="plain has no backward"):
        y.sum().backward()
    with torch.no_grad():
        assert not ops.plain(x).requires_grad
    for call in (lambda: ops.twice(x * 1), lambda: ops.add_to(doubles(3), x), lambda: ops.by_keyword(1.0, x=x)):
        with pytest.raises(RuntimeError, match="requires grad.*detach"):
            call()
        with pytest.raises(Exception, match="requires grad.*detach"):
            torch.compile(call, backend="aot_eager", fullgraph=True)()


def test_tangents_are_not_lost(ops):
    """torch.func.jvp gives the operator tensors without them, and takes what comes out for a constant."""
    x = doubles(3)
    for call in (ops.plain, lambda x: ops.affine(x, 3.0), lambda x: ops.twice(x * 1), lambda x: ops.dot(x, x)):
        with pytest.raises(RuntimeError, match="carries a tangent"):
            torch.func.jvp(call, (x,), (x,))
        with pytest.raises(RuntimeError, match="carries a tangent"), torch.autograd.forward_ad.dual_level():
            call(torch.autograd.forward_ad.make_dual(x, x))
    value, tangent = torch.func.jvp(lambda y: y * ops.plain(x), (x,), (x,))
    assert torch.equal(value, x * x) and torch.equal(tangent, x * x)


def test_torch_func_differentiates_what_has_a_backward(ops):
    x = doubles(3)
    assert torch.equal(torch.func.grad(lambda x: ops.affine(x).sum())(x), torch.full_like(x, 2))
    with pytest.raises(RuntimeError, match="plain has no backward"):
        torch.func.grad(lambda x: ops.plain(x).sum())(x)
    assert torch.equal(torch.func.grad(lambda y: (y * ops.affine(x)).sum())(x), 2 * x)


def test_what_was_saved_may_not_be_written(ops):
    x, y = doubles(3, grad=True), doubles(3)
    z = x * y
    ops.add_to(y, y.clone())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    with torch.inference_mode():
        ops.twice(doubles(3))


def test_vmap(ops):
    x = doubles(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that a loop is slow
        assert torch.equal(torch.vmap(ops.plain)(x), x)
        y = x.clone().requires_grad_()
        torch.vmap(ops.affine)(y).sum().backward()
        assert torch.equal(y.grad, torch.full_like(x, 2))
        with pytest.raises(RuntimeError):
            torch.vmap(lambda y: ops.add_to(doubles(4), y))(x)


# ----------------------------------------------------------------------------------------------------------- example


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    source = EXAMPLE / "kernels.c"
    command = re.search(r"^ \* +(cc .* kernels\.c -o kernels\.so -lm)$", source.read_text(), re.M)[1]
    command = command.replace("$(python -m tenon cflags)", shlex.quote(f"-I{ROOT / 'core/include'}"))
    folder = tmp_path_factory.mktemp("example")
    subprocess.run(command.replace("kernels.c", shlex.quote(str(source)), 1), shell=True, cwd=folder, check=True)
    return folder / "kernels.so"


def rms_norm(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def test_the_example_is_right(example):
    ops = tenon.torch_ops(tenon.load(example), name="tenon_example", backward={"rms_norm": "rms_norm_grad"}, strict=True)
    for weight in (None, torch.randn(5, requires_grad=True)):
        x = torch.randn(7, 5, requires_grad=True)
        given = [x] if weight is None else [x, weight]
        torch.testing.assert_close(ops.rms_norm(*given), rms_norm(*given))
        factor = torch.randn(7, 5)
        found = torch.autograd.grad((ops.rms_norm(*given) * factor).sum(), given)
        torch.testing.assert_close(found, torch.autograd.grad((rms_norm(*given) * factor).sum(), given))
        torch.library.opcheck(torch.ops.tenon_example.rms_norm.default, tuple(given))
    ops.close()


def test_the_example_trains(example, monkeypatch, capsys):
    """In this process, which has imported torch's compiler already. What that makes of an operator is tested below: the
    C++ of the other layers takes ten seconds to compile, which `make test-all` spends."""
    if not os.environ.get("TENON_CHANCE"):
        monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    monkeypatch.setattr(sys, "argv", ["train.py", str(example)])
    made = runpy.run_path(str(EXAMPLE / "train.py"), run_name="__main__")
    made["ops"].close()
    shown = capsys.readouterr().out
    first, last = map(float, re.search(r"loss ([\d.]+) -> ([\d.]+)", shown).groups())
    assert last < first / 5 and "trained too: True" in shown


# ----------------------------------------------------------------------------------------------------- torch's compiler

# Neither the vector instructions that torch tries out first nor its precompiled header make a difference to an operator;
# they take ten seconds.
PLAIN_CODE = {"cpp.vec_isa_ok": False}
if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8):
    PLAIN_CODE["cpp_cache_precompile_headers"] = False


def test_the_strides_of_an_argument_are_kept_by_the_compiler(ops):
    def function(x):
        return ops.strides((x + 1).t()), ops.strides((x * 2).relu())

    x = torch.ones(4, 6)
    with torch._inductor.config.patch(PLAIN_CODE):
        compiled = torch.compile(function, fullgraph=True)(x)
    for found, expected in zip(compiled, function(x)):
        assert found.tolist() == expected.tolist()


def test_gradients_go_through_the_compiler(ops):
    """There is nothing around the operators here that torch would write C++ for."""
    x, grad = doubles(4, grad=True), doubles(4)
    y = torch.compile(lambda x: ops.affine(ops.affine(x, 3.0), 5.0), fullgraph=True)(x)
    y.backward(grad)
    assert torch.equal(y, 5 * (3 * x)) and torch.equal(x.grad, 3 * (5 * grad))
