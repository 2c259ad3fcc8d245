"""What is wrong is said in words that name it."""

from unittest import mock

import pytest
import tenon_torch_probe as probe
import torch
from apart import run_apart


class Liar:
    @property
    def __class__(self):
        return torch.Tensor


class Pretender:
    """With everything a tensor's address could be read from."""

    __class__ = torch.Tensor
    _cdata = 12345


@pytest.mark.parametrize(
    "thing, name",
    [
        ([1.0], "list"),
        (None, "NoneType"),
        (torch.Tensor, "torch._C._TensorMeta"),
        (torch.float32, "torch.dtype"),
        (torch.UntypedStorage(4), "UntypedStorage"),
        (mock.Mock(spec=torch.Tensor), "unittest.mock.Mock"),
        (Liar(), "Liar"),
        (Pretender(), "Pretender"),
    ],
)
def test_no_tensor(thing, name):
    with pytest.raises(TypeError, match=f"expected torch.Tensor, got .*{name}"):
        probe.take(thing)


def test_a_released_handle_is_caught():
    x = torch.ones(2)
    handle = probe.take(x)
    probe.release(handle)
    others = [probe.take(torch.ones(1)) for _ in range(3)]
    with pytest.raises(ValueError, match="was released"):
        probe.give(handle)
    with pytest.raises(ValueError, match="was released"):
        probe.view(handle)
    with pytest.raises(ValueError, match=r"aten::mul.Tensor: argument 'other' .* was released"):
        probe.call("aten::mul", "Tensor", (x, ("handle", handle)))
    assert probe.refcount(handle) == 0
    assert probe.retain(handle) == 0
    for other in others:
        probe.release(other)
    with pytest.raises(ValueError, match="is NULL"):
        probe.give(0)
    probe.release(0)


def test_a_second_release_stops_the_program():
    end = run_apart("""
import torch, tenon_torch_probe as probe
handle = probe.take(torch.ones(2))
probe.release(handle)
probe.release(handle)
print("not reached")
""")
    assert end.returncode != 0 and "already released" in end.stderr and not end.stdout, end


def test_arguments_that_are_null():
    handle = probe.take(torch.ones(2))
    expected = ["view: out", "view: dims", "empty: out", "from_pointer: pointer", "from_pointer: out", "from_blob: blob",
                "from_blob: out", "find: name", "find: overload", "find: out", "call: op", "call: results"]  # fmt: skip
    assert probe.nulls(handle) == ["tenon_torch_{}(): argument '{}' is NULL".format(*line.split(": ")) for line in expected]
    probe.release(handle)


@pytest.mark.parametrize(
    "name, overload, shown",
    [("aten::nonsense", "", "aten::nonsense"), ("aten::mul", "Nonsense", "aten::mul.Nonsense"), ("mul", "", "mul")],
)
def test_an_unknown_operator_is_named(name, overload, shown):
    with pytest.raises(ValueError, match=f"torch {torch.__version__.split('+')[0]}.* has no operator {shown}$"):
        probe.call(name, overload, ())


@pytest.mark.parametrize(
    "args, message",
    [
        ((1.0,), r"aten::mul.Tensor: argument 'self' \(Tensor\): got a float"),
        (("x", 2), r"argument 'other' \(Tensor\): got an int"),
        (("x",), r"argument 'other' \(Tensor\) is missing"),
        (("x", None), r"argument 'other' \(Tensor\): got None"),
        (("x", "x", "x"), r"aten::mul.Tensor takes 2 arguments, got 3"),
    ],
)
def test_wrong_arguments(args, message):
    x = torch.ones(2)
    with pytest.raises(ValueError, match=message):
        probe.call("aten::mul", "Tensor", tuple(x if arg == "x" else arg for arg in args))


@pytest.mark.parametrize(
    "args, message",
    [
        (("x", ("long",)), r"'dim' \(Optional\[List\[int\]\]\): the length of the list is out of range"),
        (("x", ("ints", 0), False, ("dtype", "i128")), "'dtype' .*: torch has no such dtype"),
    ],
)
def test_wrong_values_of_the_right_kind(args, message):
    x = torch.ones(2)
    with pytest.raises(ValueError, match=message):
        probe.call("aten::sum", "dim_IntList", tuple(x if arg == "x" else arg for arg in args))


def test_no_such_device_or_layout():
    for device in (("device", 4, 0), ("device", 1, 5)):
        with pytest.raises(ValueError, match="'device' .*: torch has no such device"):
            probe.call("aten::to", "device", (torch.ones(2), device, ("dtype", "f32")))
    for word in ("channels_first", "float32", "nn"):
        with pytest.raises(ValueError, match="'memory_format': torch has no such layout or memory format"):
            probe.call("aten::clone", "", (torch.ones(2), word))


def test_a_shape_beyond_counting():
    with pytest.raises((OverflowError, ValueError), match=r"tenon_torch_empty\(\): the number of elements overflows"):
        probe.empty("f32", (2**40, 2**40))


def test_too_many_results():
    with pytest.raises(ValueError, match="returns 1 results, but 2 were requested"):
        probe.call("aten::neg", "", (torch.ones(2),), 2)


def test_what_torch_says_arrives():
    x, y = torch.ones(2), torch.ones(3)
    uses = x._use_count(), y._use_count()
    with pytest.raises(RuntimeError, match=r"aten::mul.Tensor.*size of tensor a \(2\) must match"):
        probe.call("aten::mul", "Tensor", (x, y))
    with pytest.raises(RuntimeError, match=r"aten::add.Tensor.*size of tensor a \(2\) must match"):
        probe.call("aten::add", "Tensor", (x, y))
    assert (x._use_count(), y._use_count()) == uses


def views():
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        imagined = torch.empty(2, 2)
    freed = torch.ones(2)
    freed.untyped_storage().resize_(0)
    return {
        "freed": (freed, "it was freed"),
        "zeros": (torch._efficientzerotensor(2), "a ZeroTensor has none"),
        "oneDNN": (
            torch.ones(2).to_mkldnn() if torch.backends.mkldnn.is_available() else freed,
            "no plain memory: .*(to_dense|freed)",
        ),
        "fake": (imagined, "a fake or wrapper tensor"),
        "meta": (torch.empty(2, device="meta"), "a meta tensor has no memory"),
        "sparse": (torch.eye(2).to_sparse(), "a sparse tensor is not a single block"),
        "nested": (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "a nested tensor is not a single block"),
        "conjugate": (torch.ones(2, dtype=torch.complex64).conj(), "resolve_conj"),
        "negated": (torch.ones(2, dtype=torch.complex64).conj().imag, "resolve_neg"),
        "negated, stride 1": (torch._neg_view(torch.ones(2)), "resolve_neg"),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["fake", "meta", "sparse", "oneDNN", "nested", "freed", "zeros", "conjugate", "negated", "negated, stride 1"]
)
def test_what_has_no_plain_memory(name, capfd):
    x, message = views()[name]
    handle = probe.take(x)
    with pytest.raises(ValueError, match=message):
        probe.view(handle)
    assert probe.give(handle) is x
    probe.release(handle)
    if probe.info()["calls_unlocked"] or name == "fake":  # torch below 2.13 writes its own words to stderr
        assert capfd.readouterr().err == ""


def test_functorch():
    """Operators work inside vmap, as in Python; memory there is none."""
    said = []

    def work(x):
        handle = probe.take(x)
        try:
            probe.view(handle)
        except ValueError as error:
            said.append(str(error))
        probe.release(handle)
        return probe.square_plus(x, x)

    x = torch.randn(4, 3)
    assert torch.equal(torch.vmap(work)(x), x * x + x)
    assert "inside torch.vmap" in said[0]
    assert torch.allclose(torch.func.grad(lambda x: probe.square_plus(x, x).sum())(x[0]), 2 * x[0] + 1)


def test_fake_tensors_go_through_operators():
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        x = torch.empty(2, 3)
        y = probe.square_plus(x, x)
    assert type(y) is type(x) and y.shape == (2, 3)


def test_without_torch():
    end = run_apart("""
import tenon_torch_probe as probe, sys
print(probe.info()["tier"], probe.info()["missing"])
for what in (lambda: probe.take([1]), lambda: probe.call("aten::mul", "Tensor", ()), lambda: probe.empty("f32", (2,))):
    try:
        what()
    except Exception as error:
        print(type(error).__name__, error)
print("torch" in sys.modules)
import torch
print(probe.info()["tier"] > 0, probe.empty("f32", (2,)).shape == (2,))
""")
    assert end.stdout.splitlines() == [
        "0 torch (it has not been imported)",
        "TypeError expected torch.Tensor, got list, and torch has not been imported",
        "RuntimeError torch cannot be used here; missing: torch (it has not been imported)",
        "RuntimeError torch cannot be used here; missing: torch (it has not been imported)",
        "False",
        "True True",
    ], end


def test_a_torch_that_is_too_old():
    """As one before 2.4 looks: neither way in."""
    end = run_apart("""
import tenon_torch_probe as probe, sys, types, torch
x = torch.ones(2)
old = types.ModuleType("torch")
old.__file__ = torch.__file__.replace("/torch/", "/no-torch/")
old.__version__ = "2.3.1"
old.Tensor = torch.Tensor
sys.modules["torch"] = old
for _ in range(2):
    try:
        probe.take(x)
    except RuntimeError as error:
        print(error)
    del old.Tensor
""")
    assert end.stdout.splitlines() == [
        "torch 2.3.1 cannot be used here; missing: the library libtorch_cpu, next to the module torch",
        "torch 2.3.1 cannot be used here; missing: torch.Tensor (torch is only partly imported)",
    ], end


def test_info():
    info = probe.info()
    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    assert info["version"] == torch.__version__
    assert info["tier"] == (2 if release >= (2, 14) else 1)
    assert info["calls_unlocked"] == (release >= (2, 13))
    assert info["blobs_unlocked"] == (release >= (2, 11))
    assert (info["missing"] == "") == (release >= (2, 14))
