"""torch's fast paths against the general ones, on random tensors: same exception, same message, same bytes of the view."""

import collections
import random

import pytest
import torch

import tenon_paths as paths
import tenon_probe as probe
from paths import CASES, is_view, outcome, read, that_matters

NAMES = """bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 float8_e4m3fn
float8_e5m2 uint16 uint32 uint64""".split()
DTYPES = [getattr(torch, name) for name in NAMES if hasattr(torch, name)]
FLAGS = [0, probe.WRITE, probe.C_CONTIGUOUS, probe.F_CONTIGUOUS, probe.ANY_DEVICE, probe.C_CONTIGUOUS | probe.ANY_DEVICE]
MEMORY = torch.zeros(1 << 14, dtype=torch.uint8)


@pytest.fixture(autouse=True)
def met():
    """The fast path is for a type that has been met."""
    paths.read("borrow", MEMORY)


def random_tensor(rng):
    if rng.random() < 0.03:
        return rng.choice((torch.zeros(3, device="meta"), torch.zeros(3).to_sparse(), torch.nn.Parameter(torch.zeros(3))))
    dtype = rng.choice(DTYPES)
    memory = MEMORY.view(dtype)
    shape = tuple(rng.choice((0, 1, 1, 2, 3) if rng.random() < 0.2 else (1, 2, 3)) for _ in range(rng.randint(0, 5)))
    shape += (1,) * (rng.randint(1, 20) if rng.random() < 0.05 else 0)
    count = 1
    for size in shape:
        count *= size
    offset = rng.randint(0, 7)
    if rng.random() < 0.6:
        tensor = memory[offset:offset + count].reshape(shape)
        if shape and rng.random() < 0.3:
            tensor = tensor[tuple(slice(None, None, rng.choice((1, 1, 2))) for _ in shape)]
    else:
        tensor = torch.as_strided(memory, shape, [rng.randint(0, 5) for _ in shape], offset)
    if dtype.is_complex and rng.random() < 0.4:
        tensor = tensor.conj()
        tensor = tensor.imag if rng.random() < 0.5 else tensor
    if tensor.dtype in (torch.float32, torch.float64, torch.bfloat16) and rng.random() < 0.2:
        tensor = tensor.detach().requires_grad_() if not tensor.is_neg() else tensor
    return tensor


def random_tensors(seed):
    rng = random.Random(seed)
    for _ in range(CASES):
        yield rng, random_tensor(rng)


def has_table():
    return read("table", MEMORY) is not None


def test_borrow_and_peek():
    """The peek, which calls and borrows begin with, against a borrow without it."""
    seen = collections.Counter()
    for rng, tensor in random_tensors(21):
        general, peeked = read("general", tensor), read("peek", tensor)
        assert peeked is None or peeked == general
        flags = rng.choice(FLAGS)
        assert read("borrow", tensor, flags) == read("general", tensor, flags), (tensor.dtype, tensor.stride(), flags)
        seen["view" if is_view(general) else general[0]] += 1
        seen["peeked"] += peeked is not None
    assert seen["view"] > CASES // 2 and seen[BufferError] > 100
    assert not has_table() or seen["peeked"] > CASES // 5


def test_table_and_dlpack():
    """The exchange table against __dlpack__. The messages begin with torch's own, which differ."""
    if not has_table():
        pytest.skip("this torch has no exchange table")
    seen = collections.Counter()
    for _, tensor in random_tensors(22):
        table, dlpack, peeked, borrowed = (read(way, tensor) for way in ("table", "dlpack", "peek", "borrow"))
        assert peeked is None or peeked == table
        if is_view(borrowed):
            assert borrowed == table
            assert that_matters(dlpack) == that_matters(table), (tensor.dtype, tensor.stride())
        elif is_view(table):  # only the tensor itself says that its numbers are to be conjugated or negated
            assert "not conjugated" in borrowed[1] or "not negated" in borrowed[1]
        else:
            assert borrowed == table and dlpack[0] is table[0] is BufferError
            assert dlpack[1].rpartition("; ")[2] == table[1].rpartition("; ")[2]  # our advice
        seen["view" if is_view(borrowed) else "lazy" if is_view(table) else "refused"] += 1
    assert seen["view"] > CASES // 2 and min(seen["lazy"], seen["refused"]) > 100


def test_new_tensors():
    """Results of functions, by torch's C functions if it has them, against torch.empty and a borrow of what it made."""
    rng = random.Random(23)
    names = "i8 u8 i16 i32 i64 f16 bf16 f32 f64 c64 c128 bool u16 f8_e4m3fn f128 i4 f32x2".split()
    seen = collections.Counter()
    for _ in range(CASES):
        shape = tuple(rng.choice((0, 1, 2, 3)) if rng.random() < 0.2 else rng.randint(1, 3) for _ in range(rng.randint(0, 6)))
        shape += (1,) * (rng.randint(1, 12) if rng.random() < 0.05 else 0)
        name = rng.choice(names)
        fast, general = (outcome(paths.empty, way, MEMORY, name, shape) for way in (True, False))
        if isinstance(fast[0], type):
            assert fast == general, (name, shape)
            seen["refused"] += 1
            continue
        tensors, views = zip(fast, general)
        assert {**views[0], "data": 0} == {**views[1], "data": 0}, (name, shape)
        for tensor, view in zip(tensors, views):
            assert type(tensor) is torch.Tensor and tensor.data_ptr() == view["data"] and tuple(tensor.shape) == shape
            assert tensor.is_contiguous() and not tensor.requires_grad and tensor.device.type == "cpu"
        assert tensors[0].dtype == tensors[1].dtype and tensors[0].stride() == tensors[1].stride()
        seen["made"] += 1
    assert seen["made"] > CASES // 2 and seen["refused"] > 100
