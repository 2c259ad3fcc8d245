"""Calls by plan with torch's tensors against the general path, which TENON_PLAN=0 chooses."""

import contextlib
import random

import building
import pytest
from planned import NAMES, SOURCE, load, outcome, random_call

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
forward_ad = torch.autograd.forward_ad
DTYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8,
          "T": torch.float32, "f32|f64": torch.float64}
NUMBERS = {"float": [1.5, 2, float("nan")], "int": [1, 2, 3, True], "bool": [True, False], "uint": [2, 3], "str": ["text", None],
           "enum": ["mean", "sum", "other"], "bytes": [b"abc", None]}


@pytest.fixture
def libraries(monkeypatch):
    return load(building, monkeypatch)


@pytest.fixture(scope="module")
def planned():
    return building.tenon.load(building.build(SOURCE))


def random_tensor(rng, wanted):
    name, _, dims = wanted.partition("]")[0].partition("[")
    ndim = dims.count(",") + 1 if dims else 0
    dtype = DTYPES[name] if rng.random() < 0.9 else rng.choice([*DTYPES.values(), torch.bool, torch.complex64])
    ndim = ndim if rng.random() < 0.9 else rng.randrange(4)
    tensor = torch.zeros([rng.choice([0, 1, 2, 2, 2, 2, 2, 3]) for _ in range(ndim)], dtype=dtype)
    for change in rng.sample(["none"] * 14 + ["transpose", "step", "view", "numpy", "expand", "parameter", "grad", "inference",
                                              "detach", "clone", "cow", "meta", "dual"], 2):
        if isinstance(tensor, numpy.ndarray):
            break
        if change == "transpose":
            tensor = tensor.t() if tensor.ndim == 2 else tensor
        elif change == "step" and tensor.ndim:
            tensor = tensor[::2]
        elif change == "view":
            tensor = tensor.view(tensor.shape)
        elif change == "numpy" and not (tensor.requires_grad or tensor.is_meta or tensor.is_inference()):
            tensor = tensor.numpy()
        elif change == "expand":
            tensor = tensor.expand(2, *tensor.shape)
        elif change == "parameter" and tensor.is_floating_point() and not tensor.is_inference():
            tensor = torch.nn.Parameter(tensor, requires_grad=rng.random() < 0.5)
        elif change == "grad" and tensor.is_floating_point() and tensor.is_leaf and not tensor.is_inference():
            tensor.requires_grad_(True)
        elif change == "inference":
            with torch.inference_mode():
                tensor = tensor.clone()
        elif change == "detach":
            tensor = tensor.detach()
        elif change == "clone":
            tensor = tensor.clone()
        elif change == "cow" and hasattr(torch.Tensor, "__dlpack_c_exchange_api__") and not tensor.is_meta:
            # Without the table, __dlpack__ reads it before it is written, and gives other strides to sizes of 1.
            tensor = torch._lazy_clone(tensor)
        elif change == "meta":
            tensor = tensor.to("meta")
        elif change == "dual" and forward_ad._current_level >= 0 and tensor.is_floating_point():
            if tensor.is_contiguous() and not tensor.is_inference():
                tensor = forward_ad.make_dual(tensor.detach(), torch.ones_like(tensor))
    return tensor


def same(one, other):
    if isinstance(one, tuple) and not isinstance(one[0], type):
        return type(one[0]) is type(other[0]) and one[0].shape == other[0].shape and bool((one[0] == other[0]).all())
    return one == other


@pytest.mark.parametrize("name", NAMES)
def test_as_the_general_path(libraries, name):
    """1,000 random calls of each function: what it sees, what it returns, and errors."""
    rng, taken = random.Random(19), 0
    function, general = (getattr(library, name) for library in libraries)
    parameters = function.__self__.parameters
    for _ in range(1000):
        with forward_ad.dual_level() if rng.random() < 0.1 else contextlib.nullcontext():
            arguments = {p["name"]: rng.choice(NUMBERS[p["kind"]]) if p["kind"] in NUMBERS else random_tensor(rng, p["type"])
                         for p in parameters}
            args, kwargs = random_call(rng, arguments)
            by_plan, expected = outcome(function, *args, **kwargs), outcome(general, *args, **kwargs)
        assert same(by_plan, expected), (args, kwargs, by_plan, expected)
        taken += not (isinstance(expected, tuple) and isinstance(expected[0], type))
    assert taken > 1 or name in ("fails", "many")


def test_what_is_written_is_counted(planned):
    x = torch.zeros(2, 3)
    for expected in range(1, 4):
        planned.written(x)
        assert x._version == expected and x[0, 0] == expected


def test_gradients_are_not_lost(planned):
    x = torch.zeros(3, requires_grad=True)
    for argument in (x, torch.nn.Parameter(torch.zeros(3)), x * 2, (x * 2)[:2]):
        with pytest.raises(RuntimeError, match=r"one\(\): argument 'x': it requires grad"):
            planned.one(argument)
    with torch.no_grad():
        assert planned.one(x) == planned.one(x=x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.zeros(3), torch.ones(3))
        with pytest.raises(RuntimeError, match="it carries a tangent"):
            planned.one(dual)


def test_the_storage_may_be_gone(planned):
    x = torch.ones(3)
    assert planned.one(x) == planned.one(x=x)
    x.untyped_storage().resize_(0)
    assert outcome(planned.one, x) == outcome(planned.one, x=x)
    assert outcome(planned.one, x)[0] is BufferError


def test_the_dual_level_is_asked_once_for_each_call(planned):
    """The first of two tensors says that there is none, which must not hold for the next call."""
    rows = torch.zeros(2, 3)
    planned.in_order(rows[0], rows[1])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.zeros(3), torch.ones(3))[:]
        with pytest.raises(RuntimeError, match="it carries a tangent"):
            planned.in_order(rows[0], dual)
    planned.in_order(rows[0], rows[1])
