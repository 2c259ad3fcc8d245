"""A tensor's memory in C, and C's memory in a tensor."""

import gc
import os

import pytest
import tenon_torch_probe as probe
import torch

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8,
    "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "u16": torch.uint16,
    "u32": torch.uint32, "u64": torch.uint64, "bool": torch.bool, "c64": torch.complex64, "c128": torch.complex128,
    "f8_e4m3fn": torch.float8_e4m3fn, "f8_e5m2": torch.float8_e5m2,
}  # fmt: skip


def view(x):
    handle = probe.take(x)
    try:
        return probe.view(handle)
    finally:
        probe.release(handle)


def shapes():
    x = torch.arange(24.0).reshape(2, 3, 4)
    return [x, x[1:, ::2], x.transpose(0, 2), x.expand(5, 2, 3, 4), torch.tensor(1.0), torch.empty(0, 3), x[:, :, 1]]


@pytest.mark.parametrize("x", shapes(), ids=lambda x: f"{tuple(x.shape)}{x.stride()}")
def test_view(x):
    seen = view(x)
    assert seen["shape"] == tuple(x.shape)
    if x.numel() > 1:
        assert seen["strides"] == x.stride()
    assert seen["data"] == x.data_ptr()
    assert (seen["dtype"], seen["device"]) == ("f32", (1, 0))


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name):
    x = probe.empty(name, (2, 3))
    assert (x.dtype, tuple(x.shape), x.stride()) == (DTYPES[name], (2, 3), (3, 1))
    assert view(x)["dtype"] == name


@pytest.mark.filterwarnings("ignore")
def test_a_quantized_dtype_is_refused():
    x = torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8)
    with pytest.raises(TypeError, match=r"Tenon does not know torch's dtype number \d+; pass x.int_repr\(\)"):
        view(x)


def test_a_view_without_the_lock():
    x = torch.ones(3)
    handle = probe.take(x)
    reads_struct = hasattr(torch._C.DispatchKeySet, "raw_repr") and os.environ.get("TENON_TORCH_STRUCT") != "0"
    if reads_struct or probe.info()["calls_unlocked"]:
        assert probe.view_unlocked(handle) is None
    else:  # only Python code can ask whether the view is negated
        assert "does not hold the lock" in probe.view_unlocked(handle)
    probe.release(handle)
    handle = probe.take(torch.empty(3, device="meta"))
    assert "no plain memory" in probe.view_unlocked(handle)
    probe.release(handle)


def test_a_parameters_view_is_its_memory():
    x = torch.nn.Parameter(torch.ones(3))
    assert view(x)["data"] == x.data_ptr()


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4)])
def test_torchs_own_memory(shape):
    x = probe.empty("f32", shape)
    x.fill_(2)
    assert x.sum().item() == 2 * x.numel()
    x.resize_(100)


def test_what_cannot_be_made():
    for device in ((4, 0), (1, 5)):
        with pytest.raises(ValueError, match="torch cannot make a tensor on"):
            probe.empty("f32", (2,), *device)
    with pytest.raises(TypeError, match="has no dtype i128"):
        probe.empty("i128", (2,))
    with pytest.raises(ValueError, match="-1"):
        probe.empty("f32", (-1,))
    with pytest.raises(RuntimeError):
        probe.empty("f32", (1 << 40, 1 << 15))


def test_cs_memory():
    before = probe.released()
    x = probe.blob((2, 3), None)
    assert x.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    x.mul_(2)
    y = x[1]
    del x
    gc.collect()
    assert probe.released() == before
    assert y.tolist() == [8.0, 10.0, 12.0]
    del y
    gc.collect()
    assert probe.released() == before + 1


def test_cs_memory_with_strides_and_autograd():
    x = probe.blob((2, 2), (1, 2)).requires_grad_()
    assert x.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    (x * x).sum().backward()
    assert torch.equal(x.grad, 2 * x)


@pytest.mark.parametrize("with_data", [0, 1])
def test_empty_memory_is_given_back(with_data):
    before = probe.released()
    x = probe.blob((0, 3), None, 0, with_data)
    assert x.shape == (0, 3)
    del x
    gc.collect()
    assert probe.released() == before + 1


@pytest.mark.parametrize(
    "args, error, message",
    [
        (((2, 3), None, 1), ValueError, "no read-only tensors"),
        (((2,), (-1,)), ValueError, "negative strides|outside|reaches"),
        (((100,), None), IndexError, "tensor_from_blob"),
        (((2,), None, 0, 1, "i128"), TypeError, "has no dtype i128"),
        (((2,), None, 0, 0), ValueError, "NULL"),
    ],
)
def test_refused_memory_stays_the_callers(args, error, message):
    before = probe.released()
    with pytest.raises(error, match=message):
        probe.blob(*args)
    gc.collect()
    assert probe.released() == before


def test_memory_on_a_device():
    """Whether torch takes the address for one of CUDA's or not: its owner is called once, or stays the caller's."""
    before = probe.released()
    try:
        probe.blob((2,), None, 0, 1, "f32", 2)
        taken = 1
    except RuntimeError as error:
        assert "tenon_torch_from_blob" in str(error)
        taken = 0
    gc.collect()
    assert probe.released() == before + taken


def test_a_handle_by_the_pointer_of_torch():
    x = torch.ones(2, requires_grad=True)
    handle = probe.take(x)
    try:
        assert probe.by_pointer(handle) is x
    except RuntimeError as error:
        assert "torch 2.13 or newer" in str(error)
    finally:
        probe.release(handle)
    with pytest.raises(ValueError, match="argument 'pointer' is NULL"):
        probe.by_pointer(None)
