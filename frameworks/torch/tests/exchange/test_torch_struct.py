"""Tensors that are read by torch's own struct: the probe that finds its layout, and the same tensors read without it."""

import collections
import itertools
import os
import random
import subprocess
import sys

import pytest
import tenon
import torch
from bridges import copy_of_bridge
from paths import CASES, is_view, outcome, that_matters
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import tenon_paths
import tenon_probe as probe

native = tenon._torch_native
INFO = tenon.torch_info()
HAS_TABLE = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
WITHOUT_LAYOUT = "torch._C.DispatchKeySet.raw_repr"
FIELDS = {"storage", "autograd", "sizes", "offset", "numel", "dtype", "keys", "data", "check", "impl"}


def can_probe():
    return hasattr(torch._C._dispatch_keys(torch.zeros(1)), "raw_repr")


needs_probe = pytest.mark.skipif(not can_probe(), reason="this torch does not tell its key sets")


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    """The bridge with the struct, and without it."""
    plain = torch.zeros(3), torch.nn.Parameter(torch.zeros(3))
    return tuple(copy_of_bridge(tenon_paths.__file__, tmp_path_factory.mktemp("bridge"), switch, *plain)
                 for switch in (None, "0"))


# -------------------------------------------------------------------------------------------------------- torch_info


def test_info():
    assert {"tier", "version", "missing", "tensors", "tensors_why"} <= set(INFO)
    assert all(isinstance(value, str) for value in INFO.values())
    if os.environ.get("TENON_TORCH_STRUCT") == "0":
        assert INFO["tensors"] == ("table" if HAS_TABLE else "dlpack")
        assert INFO["tensors_why"] == "TENON_TORCH_STRUCT=0 was set"
    elif can_probe():
        assert (INFO["tensors"], INFO["tensors_why"]) == ("struct", "")
    else:
        assert INFO["tensors"] == "dlpack" and WITHOUT_LAYOUT in INFO["tensors_why"]


def run(code, **env):
    """The output of a new process that can import tenon and torch."""
    paths = [os.environ[name] for name in ("TENON_PROBE", "TENON_PACKAGE") if os.environ.get(name)]
    start = f"import sys; sys.path[:0] = {paths!r}; import tenon\n"
    env = {**{name: value for name, value in os.environ.items() if name != "TENON_TORCH_STRUCT"}, **env}
    done = subprocess.run([sys.executable, "-W", "error", "-c", start + code], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_torch_is_not_imported():
    assert run("info = tenon.torch_info(); print(info['tensors'], info['tensors_why'], 'torch' in sys.modules)") == (
        "dlpack torch has not been imported False")
    assert run("try: tenon._torch_native.probe()\nexcept ValueError as e: print(e)") == (
        "_torch_probe(): torch has not been imported")


def test_switch_is_read_at_import():
    code = "import os; os.environ['TENON_TORCH_STRUCT'] = '{}'; import torch; print(tenon.torch_info()['tensors'])"
    assert run(code.format("1"), TENON_TORCH_STRUCT="0") in ("table", "dlpack")
    assert run(code.format("0")) == ("struct" if can_probe() else "dlpack")


@needs_probe
def test_first_meeting_changes_nothing():
    """No warning (-W error), no new module, no random number, and the same modes."""
    run("""
import torch
torch.manual_seed(0)
torch_info = tenon.torch_info
state, modules = torch.get_rng_state(), set(sys.modules)
assert torch_info()["tensors"] == "struct"
assert torch.equal(state, torch.get_rng_state()) and modules == set(sys.modules)
assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
assert "torch._dynamo" not in sys.modules
""")


def reads_struct(bridge):
    """Whether a copy of the bridge uses the struct: only its peek takes a tensor with one element."""
    return bridge.read("peek", torch.zeros(1)) is not None


class Raising:
    """The user's code, which the probe must not run."""

    @staticmethod
    def raise_it(self, function, types, args=(), kwargs=None):
        raise KeyboardInterrupt

    function = type("Function", (TorchFunctionMode,), {"__torch_function__": raise_it})
    dispatch = type("Dispatch", (TorchDispatchMode,), {"__torch_dispatch__": raise_it})


MODES = {
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
    "device": lambda: torch.device("meta"),
    "fake": FakeTensorMode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "function": Raising.function,
    "dispatch": Raising.dispatch,
}


@needs_probe
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
def test_first_meeting_in_a_mode(mode, tmp_path):
    """The user's modes neither see the probe nor disturb it."""
    tensor = torch.arange(6.0)
    with MODES[mode]():
        bridge = copy_of_bridge(tenon_paths.__file__, tmp_path, None, tensor)
    assert reads_struct(bridge)


@needs_probe
@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.vmap])
def test_first_meeting_inside_functorch(transform, tmp_path):
    """What fails there is tried again later."""
    bridges = []

    def f(x):
        with pytest.raises((BufferError, RuntimeError)):
            copy_of_bridge(tenon_paths.__file__, tmp_path, None, x, kept=bridges)
        return x.sum()

    transform(f)(torch.ones(3, 3) if transform is torch.func.vmap else torch.ones(3))
    bridges[0].read("borrow", torch.ones(3))
    assert reads_struct(bridges[0])


# --------------------------------------------------------------------------------------------------------- the probe


def fields(words=None):
    found = native.probe(words) if words is not None else native.probe()
    words = found.pop("words")
    assert isinstance(words, bytes)
    return found, words


@needs_probe
def test_probe_finds_each_field():
    found, words = fields()
    assert set(found) == FIELDS and all(0 < at < len(words) for at in found.values())
    assert len(set(found.values())) == len(found)
    assert fields(words) == (found, words)
    assert native.probe(words=words)["sizes"] == native.probe(words=bytearray(words))["sizes"]
    assert words[found["sizes"]:][:24] == b"".join(n.to_bytes(8, "little") for n in (5, 2, 3))


@needs_probe
@pytest.mark.parametrize("by", [8, 16, 64])
def test_probe_of_shifted_words(by):
    found, words = fields()
    assert fields(bytes(by) + words)[0] == {name: at + by for name, at in found.items()}


@needs_probe
def test_probe_of_inserted_words():
    """A new member before the sizes moves what comes after it."""
    found, words = fields()
    at = found["sizes"]
    moved = fields(words[:at] + bytes(8) + words[at:])[0]
    assert moved == {name: old + 8 * (old >= at) for name, old in found.items()}


def size_of(name):
    return {"sizes": 88, "dtype": 6}.get(name, 8)


@needs_probe
@pytest.mark.parametrize("name", sorted(FIELDS))
def test_probe_of_missing_and_duplicated_words(name):
    found, words = fields()
    start, size = found[name] - found[name] % (2 if name == "dtype" else 8), size_of(name)
    value = words[start:start + size]
    with pytest.raises(ValueError, match=f"field '{name}' is missing"):
        native.probe(words[:start] + bytes(size) + words[start + size:])
    with pytest.raises(ValueError, match=f"field '{name}' is ambiguous"):
        native.probe(words + bytes(-len(words) % 8) + value + bytes(-size % 8))


@needs_probe
def test_probe_of_garbage():
    found, words = fields()
    rng, seen = random.Random(18), collections.Counter()
    for _ in range(CASES):
        garbage = bytearray(rng.randbytes(rng.choice((0, 1, 7, 8, len(words), 1000))))
        if rng.random() < 0.7:  # the words themselves, with a few changes
            garbage = bytearray(words)
            for _ in range(rng.randint(0, 3)):
                at = rng.randrange(max(len(garbage), 1))
                change = rng.random()
                if not garbage:
                    break
                if change < 0.5:
                    garbage[at] ^= 1 << rng.randrange(8)
                elif change < 0.7:
                    del garbage[at:]
                elif change < 0.85:
                    other = rng.randrange(len(garbage))
                    garbage[at:at + 8] = garbage[other:other + 8]
                else:
                    garbage[at:at] = rng.randbytes(8)
        result = outcome(native.probe, bytes(garbage))
        if isinstance(result, dict):
            # Accepted: each value is where the dict says, as in the original.
            for name, at in found.items():
                start, inside = (at, 0) if name == "dtype" else (at - at % 8, at % 8)
                size = 5 if name == "dtype" else size_of(name)
                now = result[name] - inside
                assert garbage[now:now + size] == words[start:start + size], name
            seen["accepted"] += 1
        else:
            assert result[0] is ValueError and "field '" in result[1]
            seen["refused"] += 1
    assert seen["accepted"] > 100 and seen["refused"] > CASES // 3


@needs_probe
def test_probe_wants_bytes():
    with pytest.raises(TypeError):
        native.probe(3)
    with pytest.raises(TypeError):
        native.probe(None, None)


# ------------------------------------------------------------------------------------------------- with and without

NAMES = """bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 uint16 uint32 uint64
float8_e4m3fn float8_e5m2""".split()
DTYPES = [getattr(torch, name) for name in (NAMES if HAS_TABLE else NAMES[:12]) if hasattr(torch, name)]
MEMORY = torch.zeros(1 << 14, dtype=torch.uint8)
FLAGS = [0, probe.WRITE, probe.C_CONTIGUOUS, probe.F_CONTIGUOUS, probe.ANY_DEVICE, probe.WRITE | probe.C_CONTIGUOUS]


class Sub(torch.Tensor):
    pass


class Dispatching(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError


def freed(offset):
    tensor = torch.zeros(8)[offset:]
    tensor.untyped_storage().resize_(0)
    return tensor


def throwing():
    tensor = torch.zeros(3)
    torch._C._set_throw_on_mutable_data_ptr(tensor)
    return tensor


def renamed(cls):
    tensor = torch.zeros(3)
    tensor.__class__ = cls
    return tensor


def fake():
    with FakeTensorMode():
        return torch.zeros(3)


def inference(*shape):
    with torch.inference_mode():
        return torch.zeros(*shape)


def inference_view():
    with torch.inference_mode():
        return torch.zeros(4, 4)[1:, ::2]


def view_without_grad():
    leaf = torch.zeros(4, requires_grad=True)
    with torch.no_grad():
        return leaf[1:]


def with_hook():
    tensor = torch.zeros(3, requires_grad=True)
    tensor.register_hook(lambda grad: grad)
    return tensor


SPECIAL = {
    "sparse": lambda: torch.zeros(3).to_sparse(),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "meta": lambda: torch.zeros(3, device="meta"),
    "quantized": lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8),
    "mkldnn": lambda: torch.zeros(3).to_mkldnn(),
    "nested": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
    "zero": lambda: torch._efficientzerotensor(3),
    "conj": lambda: torch.zeros(3, dtype=torch.complex64).conj(),
    "neg": lambda: torch.zeros(3, dtype=torch.complex64).conj().imag,
    "neg one": lambda: torch.zeros(1, dtype=torch.complex64).conj().imag,
    "named": lambda: torch.zeros(2, 3, names=("a", "b")),
    "fake": fake,
    "subclass": lambda: torch.zeros(3).as_subclass(Sub),
    "wrapper": lambda: Dispatching(torch.zeros(3)),
    "class": lambda: renamed(Sub),
    "class parameter": lambda: renamed(torch.nn.Parameter),
    "parameter": lambda: torch.nn.Parameter(torch.zeros(3)),
    "parameter without grad": lambda: torch.nn.Parameter(torch.zeros(2, 3), requires_grad=False),
    "parameter of int": lambda: torch.nn.Parameter(torch.zeros(3, dtype=torch.int32), requires_grad=False),
    "buffer": lambda: torch.nn.BatchNorm1d(3).running_mean,
    "uninitialized": lambda: torch.nn.LazyLinear(3).weight,
    "inference": lambda: inference(2, 3),
    "inference view": inference_view,
    "requires grad": lambda: torch.zeros(3, requires_grad=True),
    "grad_fn": lambda: torch.zeros(3, requires_grad=True) * 2,
    "detached": lambda: torch.zeros(3, requires_grad=True).detach(),
    "view without grad": view_without_grad,
    "hook": with_hook,
    "throwing": throwing,
    "resized": lambda: torch.zeros(8).resize_(0),
    "empty": lambda: torch.zeros(0, 3),
    "scalar": lambda: torch.tensor(1.5),
    "complex scalar": lambda: torch.tensor(1.5j),
    "number": lambda: torch.zeros(3).sum(),
    "expanded": lambda: torch.zeros(3, 1).expand(3, 4),
    "expanded scalar": lambda: torch.zeros(()).expand(3),
    "six": lambda: torch.zeros(1, 2, 1, 2, 1, 2),
    "nine": lambda: torch.zeros((1,) * 9),
    "channels": lambda: torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "shared": lambda: torch.zeros(3).share_memory_(),
    "data": lambda: setattr(tensor := torch.zeros(3), "data", torch.zeros(2, 2)) or tensor,
    "set_": lambda: torch.zeros(3).set_(torch.zeros(5, 6)[1:]),
    "view of bytes": lambda: MEMORY[8:24].view(torch.float32),
    "bits8": lambda: MEMORY[:8].view(torch.bits8),
    "uint4": lambda: MEMORY[:8].view(torch.uint4),
    "int3": lambda: MEMORY[:8].view(torch.int3),
    "uint4 of a subclass": lambda: MEMORY[:8].view(torch.uint4).as_subclass(Sub),
    "uint4 without elements": lambda: MEMORY[:0].view(torch.uint4),
    "complex32": lambda: MEMORY[:8].view(torch.complex32),
    "wide": lambda: torch.zeros(1).as_strided((1, 1), (1 << 40, 1)),
}


def same(ways, tensor, flags=0, about=None):
    """Compare what the two bridges say of a tensor; the result, and whether the peek took it."""
    struct, other = ways
    first, second = (outcome(bridge.read, "borrow", tensor, flags) for bridge in (struct, other))
    general = outcome(struct.read, "general", tensor, flags)
    peeked = outcome(struct.read, "peek", tensor)
    if is_view(second) and not HAS_TABLE:  # __dlpack__ gives other strides where they do not matter
        first, general, second = that_matters(first), that_matters(general), that_matters(second)
        peeked = that_matters(peeked) if is_view(peeked) else peeked
    assert first == second == general, about
    assert peeked is None or flags or peeked == second, about
    return second, peeked is not None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SPECIAL)
def test_special(ways, name):
    try:
        tensor = SPECIAL[name]()
    except (RuntimeError, AttributeError, NotImplementedError, TypeError) as error:
        pytest.skip(f"this torch cannot make it: {error}".splitlines()[0])
    for flags in FLAGS:
        same(ways, tensor, flags, name)


@pytest.mark.parametrize("cls", [torch.Tensor, Sub])
@pytest.mark.parametrize("offset", [0, 1, 7])
def test_freed_memory(ways, cls, offset):
    """torch computes its address from NULL and the offset."""
    for bridge, flags in itertools.product(ways, FLAGS):
        assert outcome(bridge.read, "peek", freed(offset)) is None
        # Without its table torch itself refuses to export it.
        with pytest.raises(BufferError, match="has elements but no memory" + ("" if HAS_TABLE else "|out of bounds for storage")):
            bridge.read("borrow", freed(offset).as_subclass(cls), flags)


@pytest.mark.parametrize("name", ["uint1", "uint4", "uint7", "int1", "int4", "int7"])
def test_integers_of_less_than_8_bits(ways, name):
    """torch describes them as if they had 8."""
    if not hasattr(torch, name):
        pytest.skip("this torch does not have it")
    tensor, bytes_name = torch.empty(4, dtype=getattr(torch, name)), "uint8" if name[0] == "u" else "int8"
    for bridge, flags in itertools.product(ways, FLAGS):
        assert outcome(bridge.read, "peek", tensor) is None
        with pytest.raises((TypeError, BufferError)) as error:
            bridge.read("borrow", tensor, flags)
        if HAS_TABLE:
            assert f"Tenon does not know its dtype, torch.{name}; pass x.view(torch.{bytes_name})" in str(error.value)
        assert is_view(outcome(bridge.read, "borrow", tensor.view(getattr(torch, bytes_name)), flags))


@pytest.mark.filterwarnings("ignore")
def test_functorch(ways):
    seen = []

    def look(x):
        for flags in FLAGS:
            seen.append(same(ways, x, flags)[0])
        return x.sum()

    torch.func.vmap(look)(torch.zeros(3, 4))
    torch.func.grad(look)(torch.zeros(3))
    torch.func.functionalize(look)(torch.zeros(3))
    assert len(seen) == 3 * len(FLAGS) and not any(map(is_view, seen[:2]))


def random_tensor(rng):
    dtype = rng.choice(DTYPES)
    memory = MEMORY.view(dtype)
    shape = tuple(rng.choice((0, 1, 1, 2, 3) if rng.random() < 0.2 else (1, 2, 3)) for _ in range(rng.randint(0, 5)))
    shape += (1,) * (rng.randint(1, 20) if rng.random() < 0.05 else 0)
    offset, kind = rng.randint(0, 7), rng.random()
    if kind < 0.4:
        tensor = torch.empty(shape, dtype=dtype)
    elif kind < 0.5:
        with torch.inference_mode():
            tensor = torch.empty(shape, dtype=dtype)
    elif kind < 0.75:
        tensor = memory[offset:offset + torch.Size(shape).numel()].reshape(shape)
    else:
        tensor = torch.as_strided(memory, shape, [rng.randint(0, 5) for _ in shape], offset)
    if shape and rng.random() < 0.2:
        tensor = tensor[tuple(slice(None, None, rng.choice((1, 1, 2))) for _ in shape)]
    if len(shape) > 1 and rng.random() < 0.2:
        tensor = tensor.transpose(0, -1)
    if dtype.is_complex and rng.random() < 0.3:
        tensor = tensor.conj()
        tensor = tensor.imag if rng.random() < 0.5 else tensor
    if tensor.is_inference() or tensor.is_neg() or not tensor.is_floating_point():
        return tensor
    chance = rng.random()
    if chance < 0.1:
        return tensor.detach().requires_grad_()
    return torch.nn.Parameter(tensor, requires_grad=chance < 0.15) if chance < 0.2 else tensor


@pytest.mark.filterwarnings("ignore")
def test_random(ways):
    rng, seen = random.Random(1), collections.Counter()
    for _ in range(CASES):
        tensor, flags = random_tensor(rng), rng.choice(FLAGS)
        about = (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), flags)
        result, peeked = same(ways, tensor, flags, about)
        seen["view" if is_view(result) else result[0]] += 1
        seen["peeked"] += peeked
    assert seen["view"] > CASES // 2 and seen[RuntimeError] > 50 and seen[ValueError] > 100
    assert not can_probe() or seen["peeked"] > CASES // 4


# ----------------------------------------------------------------------------------------------------- copy on write


def lazy_pair():
    first = torch.arange(6.0).reshape(2, 3)
    return first, first._lazy_clone()


needs_lazy = pytest.mark.skipif(INFO["tensors"] != "struct" or not hasattr(torch.Tensor, "_lazy_clone"),
                                reason="tensors are not read by their struct")
is_cow = torch._C._is_cow_tensor if hasattr(torch._C, "_is_cow_tensor") else None


@needs_lazy
def test_a_read_does_not_copy(ways):
    struct, other = ways
    for view in (lambda x: x, lambda x: x[:, 1:], lambda x: x.t()):
        first, second = (view(x) for x in lazy_pair())
        one, two = struct.read("borrow", first), struct.read("borrow", second, probe.ANY_DEVICE)
        assert one == two and is_cow(first) and is_cow(second)
        assert struct.read("peek", first) is None
        assert {**that_matters(other.read("borrow", second)), "data": None} == {**that_matters(two), "data": None}


@needs_lazy
def test_a_write_copies(ways):
    struct, _ = ways
    first, second = lazy_pair()
    shared = struct.read("borrow", first)["data"]
    written = struct.read("borrow", first, probe.WRITE)["data"]
    assert not is_cow(first) and written == first.data_ptr() != shared
    assert struct.read("peek", first)["data"] == written


@needs_lazy
def test_an_import_copies():
    """It outlives the call: a later write of torch would replace the memory."""
    first, second = lazy_pair()
    imported = tenon.from_dlpack(first)
    assert not is_cow(first)
    first.add_(1)
    assert imported.__dlpack_device__()[0] == 1 and torch.from_dlpack(imported).tolist() == first.tolist()


@needs_lazy
def test_a_storage_that_throws_is_left_to_torch(ways):
    struct, other = ways
    results = [outcome(bridge.read, "borrow", throwing()) for bridge in (struct, other)]
    assert results[0] == results[1] and not is_view(results[0])
