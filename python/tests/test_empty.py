"""New arrays by the framework's own allocator, filled through the borrow that comes with them."""

import importlib
import sys

import pytest

import tenon_probe as probe
from arrays import READ_ONLY, check_numpy, check_torch, memory


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


np, torch, jax, ml_dtypes = (optional(name) for name in ("numpy", "torch", "jax", "ml_dtypes"))
if jax:
    jax.config.update("jax_enable_x64", True)
needs_numpy = pytest.mark.skipif(not np, reason="NumPy is not here")
needs_torch = pytest.mark.skipif(not torch, reason="torch is not here")
needs_jax = pytest.mark.skipif(not jax or not np, reason="JAX is not here")

SHAPES = [(), (3,), (2, 3), (0, 3), (2,) * 9]
PLAIN = "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64 c64 c128".split()


def size_of(view):
    return view["numel"] * {"b": 1}.get(view["dtype"][0], int(view["dtype"].lstrip("boliufc") or 8) // 8)


@pytest.mark.parametrize("like", [None, b"", "a tensor", "a device's tensor"])
@pytest.mark.parametrize("shape", SHAPES)
def test_ours(like, shape):
    """Without a framework, and like anything that is none: a tenon.Tensor on the CPU."""
    if isinstance(like, str):
        like = probe.export(probe.new("i8", (2,), None, 0, 0, 1 if like == "a tensor" else 3), probe.TENSOR)
    out, view = probe.empty(like, "f32", shape, 1)
    assert type(out) is probe.Tensor
    assert (view["shape"], view["dtype"], view["device"]) == (shape, "f32", (1, 0))
    assert not view["flags"] & READ_ONLY and view["data"] % 64 == 0
    assert memory(view, size_of(view)) == b"\1" * size_of(view)
    assert probe.borrow(out) == view


@needs_numpy
@pytest.mark.parametrize("hands_out", ["memory", "copies", "nothing twice"])
def test_the_array_api(hands_out):
    """What is written to a copy would be lost, so a framework that hands out copies gets a tenon.Tensor."""

    class Array:
        device, float32 = "cpu", "float32"

        def __init__(self, array, left=-1):
            self.array, self.left = array, left

        def __array_namespace__(self):
            return Array

        @staticmethod
        def empty(shape, *, dtype, device):
            return Array(np.zeros(shape, dtype), 1 if hands_out == "nothing twice" else -1)

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            if self.left == 0:
                raise RuntimeError("once only")
            self.left -= 1
            return (self.array.copy() if hands_out == "copies" else self.array).__dlpack__()

    out, view = probe.empty(Array(np.zeros(1, "f4")), "f32", (2, 3), 1)
    assert type(out) is (Array if hands_out == "memory" else probe.Tensor)
    check_numpy(view, out.array if hands_out == "memory" else np.from_dlpack(out))


@needs_numpy
@pytest.mark.parametrize("shape", SHAPES)
def test_numpy(shape):
    out, view = probe.empty(np.zeros(1), "f32", shape, 1)
    assert type(out) is np.ndarray and out.flags.owndata and out.flags.writeable
    assert out.dtype == "f4" and out.shape == shape and out.flags.c_contiguous
    check_numpy(view, out)
    assert out.tobytes() == b"\1" * out.nbytes
    assert sys.getrefcount(out) == 2


@needs_numpy
@pytest.mark.parametrize("dtype", PLAIN)
def test_numpy_dtypes(dtype):
    out, view = probe.empty(np.zeros(1), dtype, (3,), 0)
    check_numpy(view, out, dtype)
    assert not out.any()


@needs_numpy
@pytest.mark.skipif(not ml_dtypes, reason="ml_dtypes is not here")
@pytest.mark.parametrize("dtype, name", [("bf16", "bfloat16"), ("f8_e5m2", "float8_e5m2"), ("i4", "int4")])
def test_numpy_of_ml_dtypes(dtype, name):
    out, view = probe.empty(np.zeros(1), dtype, (3,), 0)
    assert out.dtype == getattr(ml_dtypes, name)
    assert probe.borrow(out) == view and view["dtype"] == dtype


@needs_numpy
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_numpy_subclass_and_refusals():
    out, _ = probe.empty(np.asmatrix(np.zeros((1, 1))), "f32", (3,))
    assert type(out) is np.ndarray
    for dtype in ("f32x4", "opaque64", "f128"):
        with pytest.raises(ValueError, match="NumPy has no dtype"):
            probe.empty(np.zeros(1), dtype, (3,))
    with pytest.raises((ValueError, MemoryError)):
        probe.empty(np.zeros(1), "f64", (2**40, 2**15))


@needs_torch
@pytest.mark.parametrize("shape", SHAPES)
def test_torch(shape):
    out, view = probe.empty(torch.zeros(1), "f32", shape, 1)
    assert type(out) is torch.Tensor and out.device.type == "cpu"
    assert out.dtype == torch.float32 and tuple(out.shape) == shape and out.is_contiguous()
    check_torch(view, out, "f32")
    if out.numel():
        assert bytes(out.flatten().view(torch.uint8).tolist()) == b"\1" * 4 * out.numel()
    out.resize_(100)  # torch's own memory, which can grow


TORCH_DTYPES = PLAIN + "bf16 c32 f8_e4m3fn f8_e4m3fnuz f8_e5m2 f8_e5m2fnuz f8_e8m0fnu f4_e2m1fnx2".split()


@needs_torch
@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_torch_dtypes(dtype):
    try:
        out, view = probe.empty(torch.zeros(1), dtype, (3,), 0)
    except ValueError as refused:  # an older torch
        assert "torch has no dtype" in str(refused) and dtype not in ("f32", "bf16", "c64")
        return
    except BufferError as refused:  # one that knows it, but not in DLPack
        assert dtype.startswith("f8") and not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), refused
        return
    check_torch(view, out, dtype)


@needs_torch
@pytest.mark.parametrize("dtype", ["f8_e3m4", "f6_e2m3fn", "f32x4"])
def test_torch_has_no_such_dtype(dtype):
    with pytest.raises(ValueError, match="torch has no dtype"):
        probe.empty(torch.zeros(1), dtype, (3,))


@needs_torch
def test_torch_parameter_and_grad():
    parameter = torch.nn.Parameter(torch.ones(3))
    out, _ = probe.empty(parameter, "f32", (3,), 0)
    assert type(out) is torch.Tensor and not out.requires_grad


@needs_jax
@pytest.mark.parametrize("shape", SHAPES)
def test_jax(shape):
    """Our memory, aligned so that JAX takes it without a copy; filled before anyone in JAX has looked."""
    out, view = probe.empty(jax.numpy.zeros(1), "f32", shape, 1)
    assert isinstance(out, jax.Array) and out.shape == shape and out.dtype == "float32"
    assert view["data"] % 64 == 0 and not view["flags"] & READ_ONLY
    if out.size:
        assert out.unsafe_buffer_pointer() == view["data"]
    assert np.asarray(out).tobytes() == b"\1" * (4 * out.size)
    assert probe.borrow(out)["flags"] & READ_ONLY  # from now on


@needs_jax
@pytest.mark.parametrize("dtype", [*PLAIN, "bf16", "f8_e4m3fn", "f8_e5m2"])
def test_jax_dtypes(dtype):
    out, view = probe.empty(jax.numpy.zeros(1), dtype, (3,), 0)
    assert probe.borrow(out)["dtype"] == dtype == view["dtype"]
    assert out.unsafe_buffer_pointer() == view["data"]


@needs_jax
def test_jax_refuses():
    with pytest.raises(BufferError, match="jax.dlpack did not accept the tensor"):
        probe.empty(jax.numpy.zeros(1), "i4", (3,))


@pytest.mark.parametrize("like", ["numpy", "torch", "jax", "nothing"])
def test_impossible_shapes(like):
    given = {"numpy": np and np.zeros(1), "torch": torch and torch.zeros(1), "jax": jax and jax.numpy.zeros(1)}
    with pytest.raises(ValueError, match="dimension 0 is -1"):
        probe.empty(given.get(like), "f32", (-1,))
    for shape in ((2**62, 4), (2**61,)):
        with pytest.raises(OverflowError, match=r"'shape': f32\[[\d, ]+\] has more bytes than 64 bits can count"):
            probe.empty(given.get(like), "f32", shape)


def test_like_a_subclass_is_of_the_framework():
    torch = pytest.importorskip("torch")
    kind = type("Sub", (torch.Tensor,), {})
    assert isinstance(probe.empty(torch.ones(2).as_subclass(kind), "f32", (2,))[0], torch.Tensor)


def test_like_must_be_an_array():
    for like in (3, object(), "abc", bytearray, pytest):
        with pytest.raises(TypeError):
            probe.empty(like, "f32", (2,))
    assert type(probe.empty(memoryview(b"abc"), "f32", (2,))[0]) is probe.Tensor


def test_the_dtype_is_the_one_asked_for():
    torch = pytest.importorskip("torch")
    with pytest.raises((TypeError, ValueError), match="i4|int4"):
        probe.empty(torch.ones(2), "i4", (2,))
