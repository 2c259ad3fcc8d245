"""Every operator of torch's, from C."""

import contextlib
import gc

import pytest
import tenon_torch_probe as probe
import torch

UNLOCKED = probe.info()["calls_unlocked"]


def call(name, overload, *args, results=1, unlocked=0):
    got = probe.call(name, overload, args, results, unlocked)
    return got[0] if results == 1 else got


@pytest.fixture
def x():
    return torch.arange(6.0).reshape(2, 3)


CASES = {
    "tensors": (lambda x: call("aten::mul", "Tensor", x, x), lambda x: x * x),
    "a Scalar": (lambda x: call("aten::mul", "Scalar", x, 2.5), lambda x: x * 2.5),
    "a Scalar's default": (lambda x: call("aten::add", "Tensor", x, x), lambda x: x + x),
    "a keyword Scalar": (lambda x: call("aten::add", "Tensor", x, x, 3), lambda x: x + 3 * x),
    "an int": (lambda x: call("aten::select", "int", x, 1, 2), lambda x: x[:, 2]),
    "a negative int": (lambda x: call("aten::softmax", "int", x, -1), lambda x: x.softmax(-1)),
    "a float": (lambda x: call("aten::nan_to_num", "", x, 0.5), lambda x: x.nan_to_num(0.5)),
    "an int for a float": (lambda x: call("aten::nan_to_num", "", x, 1), lambda x: x.nan_to_num(1)),
    "ints": (lambda x: call("aten::reshape", "", x, ("ints", 3, 2)), lambda x: x.reshape(3, 2)),
    "optional ints": (lambda x: call("aten::sum", "dim_IntList", x, ("ints", 1), True), lambda x: x.sum(1, True)),
    "no optional ints": (lambda x: call("aten::sum", "dim_IntList", x, None), lambda x: x.sum()),
    "an optional dtype": (
        lambda x: call("aten::sum", "", x, ("dtype", "f64")),
        lambda x: x.sum(dtype=torch.float64),
    ),
    "a dtype": (lambda x: call("aten::to", "dtype", x, ("dtype", "bf16")), lambda x: x.to(torch.bfloat16)),
    "a device": (
        lambda x: call("aten::to", "device", x, ("device", 1, 0), ("dtype", "i32")),
        lambda x: x.to("cpu", torch.int32),
    ),
    "a str": (lambda x: call("aten::gelu", "", x, "tanh"), lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    "a str's default": (lambda x: call("aten::gelu", "", x), lambda x: torch.nn.functional.gelu(x)),
    "a list of tensors": (lambda x: call("aten::cat", "", ("tensors", x, x), 1), lambda x: torch.cat([x, x], 1)),
    "an empty default list": (lambda x: call("aten::roll", "", x, ("ints", 1)), lambda x: x.roll(1)),
    "None in a list": (
        lambda x: call("aten::index", "Tensor", x, ("tensors", None, torch.tensor([0, 2]))),
        lambda x: x[:, torch.tensor([0, 2])],
    ),
    "an optional tensor": (
        lambda x: call("aten::clamp", "Tensor", x, torch.tensor(1.0), torch.tensor(2.0)),
        lambda x: x.clamp(1, 2),
    ),
    "no optional tensor": (lambda x: call("aten::clamp", "Tensor", x, torch.tensor(1.0)), lambda x: x.clamp(min=1)),
    "a memory format": (
        lambda x: call("aten::clone", "", x.reshape(1, 2, 3, 1), "channels_last"),
        lambda x: x.reshape(1, 2, 3, 1).clone(memory_format=torch.channels_last),
    ),
    "Scalars": (
        lambda x: call("aten::_foreach_add", "ScalarList", ("tensors", x, x), ("floats", 1.0, 2.5))[1],
        lambda x: x + 2.5,
    ),
    "a complex Scalar": (lambda x: call("aten::mul", "Scalar", x, 2j), lambda x: x * 2j),
    "bools": (
        lambda x: call(
            "aten::native_layer_norm_backward", "", x, x, ("ints", 3), x[:, :1], x[:, 1:2], None, None,
            ("bools", True, False, False),
        ),
        lambda x: torch.ops.aten.native_layer_norm_backward(
            x, x, [3], x[:, :1], x[:, 1:2], None, None, [True, False, False]
        )[0],
    ),
    "floats": (
        lambda x: call("aten::upsample_nearest2d", "vec", x.reshape(1, 1, 2, 3), None, ("floats", 2.0, 2.0)),
        lambda x: torch.nn.functional.interpolate(x.reshape(1, 1, 2, 3), scale_factor=2),
    ),
}


@pytest.mark.parametrize("way", ["in C", "through Python"])
@pytest.mark.parametrize("name", CASES)
def test_arguments(name, way, x):
    ours, theirs = CASES[name]
    with contextlib.nullcontext() if way == "in C" else torch.overrides.BaseTorchFunctionMode():
        got = ours(x)
    wanted = theirs(x)
    assert got.dtype == wanted.dtype and got.stride() == wanted.stride() and torch.equal(got, wanted)


def test_defaults_in_between(x):
    values, indices = call("aten::topk", "", x, 2, ..., False, results=2)
    wanted = x.topk(2, largest=False)
    assert torch.equal(values, wanted.values) and torch.equal(indices, wanted.indices)


def test_results(x):
    parts = call("aten::split", "Tensor", x, 1)
    assert [part.tolist() for part in parts] == [part.tolist() for part in x.split(1)]
    assert call("aten::size", "int", x, 1) == 3
    assert call("aten::size", "", x) == [2, 3] and call("aten::stride", "", x[0, 0]) == []
    assert call("aten::is_conj", "", x) is False
    assert call("aten::equal", "", x, x) is True
    assert call("aten::item", "", torch.tensor(2.5)) == 2.5
    assert call("aten::item", "", torch.tensor(2)) == 2
    assert call("aten::item", "", torch.tensor(3 + 2j)) == 3 + 2j
    assert call("aten::q_scale", "", torch.quantize_per_tensor(x, 0.5, 0, torch.qint8)) == 0.5
    assert call("aten::topk", "", x, 2).shape == (2, 2)  # the second is dropped
    assert probe.call("aten::topk", "", (x, 2), 0) == ()


def test_in_place_returns_the_same_object(x):
    y = call("aten::relu_", "", x)
    assert y is x


def test_counts(x):
    before = x._use_count()
    for _ in range(100):
        call("aten::mul", "Tensor", x, x)
        call("aten::add", "Tensor", x, x)
        call("aten::cat", "", ("tensors", x, x))
        call("aten::clamp", "Tensor", x, x)
        call("aten::split", "Tensor", x, 1)
    assert x._use_count() == before


def test_autograd(x):
    x.requires_grad_()
    y = call("aten::mul", "Tensor", x, x)
    assert type(y.grad_fn).__name__ == "MulBackward0"
    y.sum().backward()
    assert torch.equal(x.grad, 2 * x)
    with torch.no_grad():
        assert call("aten::mul", "Tensor", x, x).grad_fn is None


def test_a_c_function_that_calls_operators():
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    y = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(probe.square_plus, (x, y))
    assert torch.autograd.gradgradcheck(probe.square_plus, (x, y))


def test_a_model_that_trains_with_it():
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.zeros(3))
    x = torch.randn(64, 3)
    target = x @ torch.tensor([1.0, -2.0, 3.0])
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        product = call("aten::mv", "", x, weight)
        error = product - target
        probe.square_plus(error, torch.zeros(())).mean().backward()
        optimizer.step()
    assert torch.allclose(weight.detach(), torch.tensor([1.0, -2.0, 3.0]), atol=1e-3)


def test_without_the_lock(x):
    assert probe.unlocked("aten::mul", "Tensor") == UNLOCKED
    assert probe.unlocked("aten::add", "Tensor") is False
    if not UNLOCKED:
        with pytest.raises(RuntimeError, match="does not hold the lock of the interpreter"):
            call("aten::mul", "Tensor", x, x, unlocked=1)
        return
    assert torch.equal(call("aten::mul", "Tensor", x, x, unlocked=1), x * x)
    with pytest.raises(RuntimeError, match="aten::add.Tensor: .* does not hold the lock of the interpreter"):
        call("aten::add", "Tensor", x, x, unlocked=1)
    with pytest.raises(RuntimeError, match="aten::sigmoid has not been found before"):
        call("aten::sigmoid", "", x, unlocked=1)
    probe.unlocked("aten::sigmoid", "")
    assert torch.equal(call("aten::sigmoid", "", x, unlocked=1), x.sigmoid())


def test_custom_operators(x):
    with torch.library._scoped_library("tenon_test", "DEF") as library:
        library.define("twice(Tensor x, int times=2) -> Tensor")
        library.impl("twice", lambda x, times=2: x * times, "CPU")
        assert torch.equal(call("tenon_test::twice", "", x), 2 * x)
        assert torch.equal(call("tenon_test::twice", "", x, 3), 3 * x)


def test_an_operator_that_is_unloaded_and_comes_back(x):
    """With another schema: what was found before knows, and what is found by name is the new one."""
    name = "tenon_again::f"
    first = torch.library.Library("tenon_again", "FRAGMENT")
    first.define("f(Tensor x, int k) -> Tensor")
    first.impl("f", lambda x, k: x * k, "CPU")
    op = probe.find(name, "")
    assert torch.equal(probe.call(name, "", (x, 5), 1, 0, op)[0], 5 * x)
    assert probe.unlocked(name, "") is False
    with pytest.raises(RuntimeError, match="tenon_again::f: it was defined from Python, but .* lock"):
        call(name, "", x, 5, unlocked=1)
    first._destroy()
    with pytest.raises(ValueError, match="tenon_again::f: the operator was unloaded, or its schema has changed"):
        probe.call(name, "", (x, 5), 1, 0, op)
    with pytest.raises(ValueError, match="has no operator tenon_again::f"):
        call(name, "", x, 5)
    second = torch.library.Library("tenon_again", "FRAGMENT")
    second.define("f(Tensor x, Tensor k) -> int")
    second.impl("f", lambda x, k: 7, "CPU")
    with pytest.raises(ValueError, match="the operator was unloaded, or its schema has changed"):
        probe.call(name, "", (x, 5), 1, 0, op)
    with pytest.raises(ValueError, match=r"argument 'k' \(Tensor\): got an int"):
        call(name, "", x, 5)
    assert call(name, "", x, x) == 7
    second._destroy()
    third = torch.library.Library("tenon_again", "FRAGMENT")
    third.define("f(Tensor x, int k) -> Tensor")
    third.impl("f", lambda x, k: x + k, "CPU")
    assert torch.equal(probe.call(name, "", (x, 5), 1, 0, op)[0], x + 5)
    assert probe.find(name, "") == op
    third._destroy()


def test_an_operator_whose_library_is_forgotten(x):
    for schema, args in (("f(Tensor x, int k) -> Tensor", (x, 5)), ("f(Tensor x, Tensor k) -> Tensor", (x, x))):
        library = torch.library.Library("tenon_forgotten", "FRAGMENT")
        library.define(schema)
        library.impl("f", lambda x, k: x * k, "CPU")
        assert torch.equal(call("tenon_forgotten::f", "", *args), args[0] * args[1])
        op = probe.find("tenon_forgotten::f", "")
        del library
        gc.collect()
        with pytest.raises(ValueError, match="the operator was unloaded"):
            probe.call("", "", args, 1, 0, op)


def test_results_of_several_types(x):
    with torch.library._scoped_library("tenon_mixed", "DEF") as library:
        library.define("a(Tensor x) -> (Tensor, int, float)")
        library.impl("a", lambda x: (x + 1, 7, 2.5), "CPU")
        library.define("b(Tensor x) -> (Tensor[], Tensor)")
        library.impl("b", lambda x: ([x, x], x + 1), "CPU")
        library.define("c(Tensor x) -> (bool, float, int)")
        library.impl("c", lambda x: (True, 2.5, 7), "CPU")
        tensor, integer, number = call("tenon_mixed::a", "", x, results=3)
        assert torch.equal(tensor, x + 1) and integer == 7 and number == 2.5
        many, one = call("tenon_mixed::b", "", x, results=2)
        assert len(many) == 2 and torch.equal(one, x + 1)
        assert call("tenon_mixed::c", "", x, results=3) == (True, 2.5, 7)
    counts, edges = call("aten::histogramdd", "int_bins", x, 2, results=2)
    assert torch.equal(counts, torch.histogramdd(x, [2, 2, 2]).hist) and len(edges) == 3
    assert probe.unlocked("aten::histogramdd", "int_bins") is False


def test_operators_that_only_torchscript_has(x):
    assert torch.equal(call("aten::cpu", "", x), x)
    assert call("aten::mul", "int", 6, 7) == 42
    assert call("aten::len", "Tensor", x) == 2
    assert probe.unlocked("aten::cpu", "") is False


def test_results_that_are_no_tensors_or_numbers(x):
    assert call("aten::result_type", "Tensor", x, x.double()) == "f64"
    with torch.library._scoped_library("tenon_kinds", "DEF") as library:
        library.define("where(Tensor x) -> Device")
        library.impl("where", lambda x: x.device, "CPU")
        library.define("gaps(Tensor x) -> Tensor?[]")
        library.impl("gaps", lambda x: [x, None], "CPU")
        library.define("turn(Tensor x, complex c=1j) -> complex")
        library.impl("turn", lambda x, c=1j: c, "CPU")
        library.define("title(Tensor x) -> str")
        library.impl("title", lambda x: "straße", "CPU")
        library.define("flags(Tensor x) -> bool[]")
        library.impl("flags", lambda x: [True, False], "CPU")
        library.define("numbers(Tensor x) -> float[]")
        library.impl("numbers", lambda x: [1.5, 2.5], "CPU")
        assert call("tenon_kinds::where", "", x) == "cpu"
        assert call("tenon_kinds::title", "", x) == "straße"
        assert call("tenon_kinds::flags", "", x) == [True, False]
        assert call("tenon_kinds::numbers", "", x) == [1.5, 2.5]
        assert call("tenon_kinds::gaps", "", x) == [x, None]
        assert call("tenon_kinds::turn", "", x) == 1j
        assert call("tenon_kinds::turn", "", x, 2 + 1j) == 2 + 1j


def test_results_that_c_cannot_represent(x):
    with torch.library._scoped_library("tenon_strange", "DEF") as library:
        library.define("where(Tensor x) -> Device")
        library.impl("where", lambda x: torch.device("meta"), "CPU")
        library.define("kind(Tensor x) -> ScalarType")
        library.impl("kind", lambda x: torch.qint8, "CPU")
        with pytest.raises(RuntimeError, match="^tenon_strange::where: TypeError: Tenon does not know the device meta"):
            call("tenon_strange::where", "", x)
        with pytest.raises(RuntimeError, match="^tenon_strange::kind: TypeError: Tenon does not know torch's dtype number 12"):
            call("tenon_strange::kind", "", x)


def test_an_operator_with_too_many_results(x):
    with torch.library._scoped_library("tenon_many", "DEF") as library:
        library.define(f"many(Tensor x) -> ({', '.join(['Tensor'] * 17)})")
        library.impl("many", lambda x: (x.clone(),) * 17, "CPU")
        with pytest.raises(ValueError, match="^tenon_many::many has more than 64 arguments or 16 results"):
            call("tenon_many::many", "", x)


def test_a_tensor_that_is_not_defined_is_none():
    x, w = torch.rand(1, 1, 4, 4), torch.rand(1, 1, 3, 3)
    pair = ("ints", 1, 1)
    args = (x[:, :, :2, :2], x, w, None, pair, ("ints", 0, 0), pair, False, ("ints", 0, 0), 1)
    gx, gw, gb = call("aten::convolution_backward", "", *args, ("bools", True, True, False), results=3)
    assert gx.shape == x.shape and gw.shape == w.shape and gb is None


def test_a_python_operators_exception(x):
    with torch.library._scoped_library("tenon_sad", "DEF") as library:
        library.define("fail(Tensor x) -> Tensor")

        def fail(x):
            raise KeyError("no such thing")

        library.impl("fail", fail, "CPU")
        with pytest.raises(RuntimeError, match="KeyError: 'no such thing'"):
            call("tenon_sad::fail", "", x)
    assert torch.equal(call("aten::neg", "", x), -x)


def test_modes_and_subclasses_are_honoured(x):
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with Watch():
        call("aten::mul", "Tensor", x, x)
    assert "aten.mul.Tensor" in seen


class Tagged(torch.Tensor):
    seen = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(str(function))
        return super().__torch_function__(function, types, args, kwargs)


# By torch's C functions, where it has them, and through Python, because of a Scalar.
@pytest.mark.parametrize("name", ["mul", "add"])
def test_torch_function_is_asked_whatever_the_operator(name, x):
    tagged = x.as_subclass(Tagged)
    for args in ((tagged, x), (x, tagged)):
        Tagged.seen.clear()
        assert type(call(f"aten::{name}", "Tensor", *args)) is Tagged
        assert Tagged.seen == [f"aten.{name}.Tensor"]
    assert type(call("aten::cat", "", ("tensors", x, tagged))) is Tagged
    probe.unlocked(f"aten::{name}", "Tensor")
    with pytest.raises(RuntimeError, match="does not hold the lock of the interpreter"):
        call(f"aten::{name}", "Tensor", tagged, x, unlocked=1)
    assert type(call(f"aten::{name}", "Tensor", torch.nn.Parameter(x), x)) is torch.Tensor


class Careless(torch.Tensor):
    gives = None

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return cls.gives


@pytest.mark.parametrize(
    "name, gives, message",
    [
        ("mul.Tensor", None, "expected torch.Tensor, got NoneType"),
        ("item", "aaa", "expected a result of type .*, got str"),
        ("equal", 1, "expected a result of type bool, got int"),
        ("size", None, "NoneType"),
        ("split.Tensor", None, "NoneType"),
    ],
)
def test_a_torch_function_that_gives_something_else(name, gives, message, x, monkeypatch):
    monkeypatch.setattr(Careless, "gives", gives)
    base, _, overload = name.partition(".")
    careless = x.as_subclass(Careless)
    args = {"mul": (careless, x), "equal": (careless, x), "split": (careless, 1)}.get(base, (careless,))
    with pytest.raises(RuntimeError, match=message):
        call(f"aten::{base}", overload, *args)


@pytest.mark.parametrize("name", ["mul", "add"])
def test_a_torch_function_mode_is_asked_whatever_the_operator(name, x):
    from torch.overrides import TorchFunctionMode

    seen = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with Watch():
        call(f"aten::{name}", "Tensor", x, x)
    assert seen == [f"aten.{name}.Tensor"]
