"""Memory of ours as each framework's array: the same pointer, the same layout, released once, with the last of them."""

import gc
import importlib
import sys

import pytest

import tenon_probe as probe
from arrays import READ_ONLY, jax_knows_read_only, numpy_name

# dtype, shape, strides, byte offset; all within probe.new's 4096 bytes.
LAYOUTS = {
    "C": ("f32", (2, 3)),
    "F": ("f32", (2, 3), (1, 2)),
    "permuted": ("i16", (2, 3, 4), (4, 8, 1)),
    "gaps": ("f32", (2, 3), (8, 2)),
    "broadcast": ("f32", (4, 3), (0, 1)),
    "offset": ("f32", (5,), None, 12),
    "negative": ("f32", (5,), (-1,), 64),
    "0-d": ("f64", ()),
    "empty": ("f32", (0, 3)),
    "nine dimensions": ("u8", (2,) * 9),
}


def optional(name):
    """A function: the module, or a skip. It is imported here and now, before conftest.py freezes what there is."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        module = None
    return lambda: module or pytest.skip(f"{name} is not here")


numpy, torch, jax = optional("numpy"), optional("torch"), optional("jax")
if sys.modules.get("jax"):
    jax().config.update("jax_enable_x64", True)


@pytest.mark.parametrize("name", LAYOUTS)
def test_numpy(name, released):
    numpy()
    handle = probe.new(*LAYOUTS[name])
    view = probe.describe(handle)
    array = probe.export(handle, probe.NUMPY)
    assert array.ctypes.data == view["data"]
    assert array.shape == view["shape"] and numpy_name(array.dtype) == view["dtype"]
    assert tuple(s // array.itemsize for s in array.strides) == view["strides"]
    assert array.flags.writeable and not array.flags.owndata
    del handle
    part = array[...]
    del array
    assert released() == 0
    if part.size:
        part[...] = 3
        assert (part == 3).all()
    del part
    assert released() == 1


@pytest.mark.parametrize("name", LAYOUTS)
def test_torch(name, released):
    torch()
    handle = probe.new(*LAYOUTS[name])
    view = probe.describe(handle)
    if name == "negative":
        with pytest.raises(BufferError, match="torch has no negative strides; pass a copy"):
            probe.export(handle, probe.TORCH)
        return
    tensor = probe.export(handle, probe.TORCH)
    assert tensor.data_ptr() == (view["data"] if tensor.numel() else 0)
    assert tuple(tensor.shape) == view["shape"] and tensor.stride() == view["strides"]
    assert tensor.device.type == "cpu" and not tensor.requires_grad
    del handle
    part = tensor.view_as(tensor)
    del tensor
    assert released() == 0
    del part
    assert released() == 1


@pytest.mark.parametrize("name", LAYOUTS)
def test_jax(name, released):
    jax()
    handle = probe.new(*LAYOUTS[name])
    view = probe.describe(handle)
    if name in ("gaps", "broadcast", "offset", "negative"):
        # JAX holds only dense memory at multiples of 64 bytes; it would copy, and a copy was not asked for.
        with pytest.raises(BufferError, match="jax.dlpack did not accept the tensor") as caught:
            probe.export(handle, probe.JAX)
        assert caught.value.__cause__ is not None
        del caught, handle
        assert released() == 1
        return
    array = probe.export(handle, probe.JAX)
    assert array.shape == view["shape"]
    assert not array.size or array.unsafe_buffer_pointer() == view["data"]
    assert probe.borrow(array)["flags"] & READ_ONLY
    del handle
    assert released() == 0 or not array.size  # JAX keeps no memory that has no elements
    del array
    assert released() == 1


@pytest.mark.parametrize("name", LAYOUTS)
def test_memoryview(name, released):
    handle = probe.new(*LAYOUTS[name])
    view = probe.describe(handle)
    out = probe.export(handle, probe.MEMORYVIEW)
    assert out.shape == view["shape"]
    assert tuple(s // out.itemsize for s in out.strides) == view["strides"]
    assert not out.readonly
    assert probe.borrow(out)["data"] == view["data"]
    del handle
    part = memoryview(out)
    del out
    assert released() == 0
    del part
    assert released() == 1


def test_read_only(released):
    handle = probe.new("f32", (2, 3), None, 0, READ_ONLY)
    data = probe.describe(handle)["data"]
    with pytest.raises(BufferError, match="read-only.*pass a copy"):
        probe.export(handle, probe.CAPSULE_LEGACY)
    out = [probe.export(handle, kind) for kind in (probe.TENSOR, probe.SAME, probe.MEMORYVIEW)]
    assert out[2].readonly
    for given in out:
        view = probe.borrow(given)
        assert view["data"] == data and view["flags"] & READ_ONLY
        with pytest.raises(ValueError, match="read-only"):
            probe.borrow(given, probe.WRITE)
    del out, given, handle
    assert released() == 1


def test_read_only_numpy():
    np = numpy()
    array = probe.export(probe.new("f32", (2, 3), None, 0, READ_ONLY), probe.NUMPY)
    assert not array.flags.writeable and not array.T[1:].flags.writeable
    with pytest.raises(ValueError):
        array.setflags(write=True)
    with pytest.raises(ValueError):
        array[0, 0] = 1
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        again = np.from_dlpack(probe.export(probe.new("f32", (2,), None, 0, READ_ONLY), probe.TENSOR))
        assert not again.flags.writeable


def test_read_only_torch(released):
    torch()
    handle = probe.new("f32", (2, 3), None, 0, READ_ONLY)
    with pytest.raises(BufferError, match="torch has no read-only tensors; pass a copy"):
        probe.export(handle, probe.TORCH)
    del handle
    assert released() == 1


def test_read_only_jax():
    jax()
    handle = probe.new("f32", (2, 3), None, 0, READ_ONLY)
    if not jax_knows_read_only():
        with pytest.raises(BufferError, match="read-only"):
            probe.export(handle, probe.JAX)
        return
    assert probe.export(handle, probe.JAX).unsafe_buffer_pointer() == probe.describe(handle)["data"]


NUMPY_DTYPES = "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64 c64 c128".split()
SMALL_FLOATS = (
    "f8_e3m4 f8_e4m3 f8_e4m3b11fnuz f8_e4m3fn f8_e4m3fnuz f8_e5m2 f8_e5m2fnuz f8_e8m0fnu f6_e2m3fn f6_e3m2fn f4_e2m1fn"
).split()
OTHERS = ["bf16", "c32", "i4", "u4", "i2", "f4_e2m1fnx2", "f32x4", "opaque64", "i128", "f128"]
EVERY_DTYPE = NUMPY_DTYPES + SMALL_FLOATS + OTHERS
REFUSED = (ValueError, BufferError)


@pytest.mark.parametrize("dtype", EVERY_DTYPE)
@pytest.mark.parametrize("framework", ["NUMPY", "TORCH", "JAX", "MEMORYVIEW", "TENSOR", "SAME"])
def test_every_dtype(framework, dtype, released):
    """It arrives as the same dtype on the same memory, or is refused; in both cases released once."""
    module = {"NUMPY": numpy, "TORCH": torch, "JAX": jax}.get(framework, lambda: None)()
    if framework == "NUMPY" and dtype not in NUMPY_DTYPES:
        pytest.importorskip("ml_dtypes")
    handle = probe.new(dtype, (4,))
    view = probe.describe(handle)
    try:
        out = probe.export(handle, getattr(probe, framework))
    except REFUSED as error:
        assert framework not in ("TENSOR", "SAME") and dtype not in NUMPY_DTYPES
        if module is not None:
            assert framework.lower() in str(error).lower() and len(str(error)) < 500 and "\n" not in str(error)
        del error
    else:
        back = probe.borrow(out)
        assert back["dtype"] == dtype and back["data"] == view["data"] and back["shape"] == (4,)
        del out
    del handle
    assert released() == 1


@pytest.mark.parametrize("dtype", ["i2", "i4", "u4", "f4_e2m1fn", "f6_e2m3fn"])
def test_numbers_in_bytes_of_their_own(dtype):
    """Packed, NumPy cannot hold them; padded, ml_dtypes can."""
    numpy()
    pytest.importorskip("ml_dtypes")
    with pytest.raises(ValueError, match=f"NumPy has no dtype for {dtype}"):
        probe.export(probe.new(dtype, (4,)), probe.NUMPY)
    handle = probe.new(dtype, (4,), None, 0, 4)
    array = probe.export(handle, probe.NUMPY)
    assert array.itemsize == 1 and probe.borrow(array) == probe.describe(handle)


@pytest.mark.parametrize("framework", ["NUMPY", "TORCH", "JAX", "MEMORYVIEW", "TENSOR", "CAPSULE", "CAPSULE_LEGACY"])
def test_several_on_one_memory(framework, released):
    {"NUMPY": numpy, "TORCH": torch, "JAX": jax}.get(framework, lambda: None)()
    handle = probe.new("f32", (2, 3))
    out = [probe.export(handle, getattr(probe, framework)) for _ in range(3)]
    assert len({id(one) for one in out}) == 3
    del handle
    while out:
        assert released() == 0
        out.pop()
    assert released() == 1


def test_every_framework_at_once(released):
    np, th = numpy(), torch()
    jax()
    handle = probe.new("f32", (2, 3))
    array, tensor, immutable = (probe.export(handle, kind) for kind in (probe.NUMPY, probe.TORCH, probe.JAX))
    del handle
    array[0, 0] = 5
    assert tensor[0, 0] == 5 and float(np.asarray(immutable)[0, 0]) == 5
    tensor[1, 2] = -1
    assert array[1, 2] == -1
    assert th.from_dlpack(array).data_ptr() == tensor.data_ptr()
    del array, tensor
    assert released() == 0
    del immutable
    assert released() == 1


def test_consumers_of_dlpack(released):
    """A consumer that asks our tensor itself."""
    np = numpy()
    given = probe.export(probe.new("f32", (2, 3), (1, 2)), probe.TENSOR)
    array = np.from_dlpack(given)
    assert array.ctypes.data == probe.borrow(given)["data"] and array.strides == (4, 8)
    assert np.asarray(memoryview(given)).ctypes.data == array.ctypes.data
    del given
    assert released() == 0
    del array
    assert released() == 1


@pytest.mark.parametrize("device, name", [(4, "opencl"), (7, "vulkan"), (15, "webgpu"), (16, "hexagon")])
def test_torch_is_not_asked_for_a_device_without_tensors(device, name, released):
    """It calls the deleter of OpenCL memory, and then says that it has not taken it."""
    torch()
    given = probe.export(probe.new("f32", (2,), None, 0, 0, device))
    with pytest.raises(BufferError, match=f"torch has no tensors on {name}:0; copy the memory to a device that it has"):
        probe.through(given, probe.TORCH)
    assert given.shape == (2,) and released() == 0
    del given
    assert released() == 1


def test_torch_asks_itself(released):
    th = torch()
    given = probe.export(probe.new("f32", (2, 3), (1, 2)), probe.TENSOR)
    tensor = th.from_dlpack(given)
    assert tensor.data_ptr() == probe.borrow(given)["data"] and tensor.stride() == (1, 2)
    del given
    assert released() == 0
    del tensor
    assert released() == 1


def test_exports_can_be_borrowed_and_imported_again(released):
    numpy()
    handle = probe.new("f32", (2, 3))
    array = probe.export(handle, probe.NUMPY)
    again = probe.import_(array)
    assert probe.export(again, probe.SAME) is array
    assert probe.describe(again) == probe.describe(handle)
    del handle, array
    gc.collect()
    assert released() == 0
    del again
    assert released() == 1


def test_missing_framework(monkeypatch, released):
    """The framework's ImportError, and nothing is held."""
    for module, kind in (("cupy", probe.CUPY), ("tensorflow.experimental.dlpack", probe.TENSORFLOW)):
        monkeypatch.setitem(sys.modules, module, None)
        handle = probe.new("f32", (2,))
        with pytest.raises(ImportError):
            probe.export(handle, kind)
        del handle
    assert released() == 2


def test_unknown_kind():
    handle = probe.new("f32", (2,))
    for kind in (-1, 99):
        with pytest.raises(ValueError, match="not a value of tenon_py_as"):
            probe.export(handle, kind)
