"""DLPack structs out and in, with NumPy and torch on the other side."""

import ctypes as C

import model
import numpy as np
import pytest
import tenon_ctypes as T
from harness import run_cases

api = C.pythonapi
api.PyCapsule_New.restype = C.py_object
api.PyCapsule_New.argtypes = [C.c_void_p, C.c_char_p, C.c_void_p]
api.PyCapsule_GetPointer.restype = C.c_void_p
api.PyCapsule_GetPointer.argtypes = [C.py_object, C.c_char_p]
api.PyCapsule_SetName.argtypes = [C.py_object, C.c_char_p]
api.PyCapsule_GetName.restype = C.c_char_p
api.PyCapsule_GetName.argtypes = [C.py_object]

NEW, NEW_USED = b"dltensor_versioned", b"used_dltensor_versioned"  # a capsule keeps the address of its name
OLD, OLD_USED = b"dltensor", b"used_dltensor"
NAMES = [name for name in model.NUMPY]


class Exporter:
    """What a Python bridge would do: an object with __dlpack__ over a tensor."""

    def __init__(self, tensor, legacy=False):
        self.tensor, self.legacy = tensor, legacy

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        pointer = C.cast(self.tensor.export(self.legacy), C.c_void_p)
        return api.PyCapsule_New(pointer, OLD if self.legacy else NEW, None)

    def __dlpack_device__(self):
        return self.tensor.view.device.key()


def take(capsule):
    """Import what a producer's capsule holds, and mark the capsule as used."""
    legacy = api.PyCapsule_GetName(capsule) == OLD
    pointer = api.PyCapsule_GetPointer(capsule, OLD if legacy else NEW)
    tensor = T.Tensor.made("tensor_import_legacy" if legacy else "tensor_import", pointer)
    api.PyCapsule_SetName(capsule, OLD_USED if legacy else NEW_USED)
    return tensor


def numpy_array(rng):
    name = rng.choice(NAMES)
    shape = model.random_shape(rng)
    array = np.arange(int(np.prod(shape)) * model.numpy_dtype(name).itemsize, dtype=np.uint8)
    if name == "bool":
        array &= 1
    array = array.view(model.numpy_dtype(name)).reshape(shape)
    if array.ndim and rng.random() < 0.5:
        array = array[..., ::rng.choice((1, 2, -1))]
    return name, array.transpose(rng.sample(range(array.ndim), array.ndim))


def same(view, array):
    assert view.dims()[0] == array.shape
    if array.size:
        assert view.data == model.address(array)
        assert all(n == 1 or a == b for n, a, b in zip(array.shape, view.dims()[1], model.element_strides(array)))


def export_case(rng):
    """A tensor becomes a NumPy array at the same address, which keeps the memory alive."""
    name, array = numpy_array(rng)
    owner, legacy = next(T.owners), rng.random() < 0.4
    flags = 0 if legacy else rng.choice((0, T.READ_ONLY))
    tensor = T.Tensor.from_blob(model.address(array), array.shape, model.element_strides(array), T.dtype(name),
                                flags=flags, owner=owner)
    out = np.from_dlpack(Exporter(tensor, legacy))
    same(tensor.view, out)
    assert out.dtype == array.dtype
    assert out.tobytes() == array.tobytes()
    if not legacy:
        assert out.flags.writeable == (not flags)
    assert tensor.refcount == 2
    tensor.release()
    assert T.released[owner] == 0
    del out
    assert T.released.pop(owner) == 1


def import_case(rng):
    """A NumPy array becomes a tensor at the same address; the producer's deleter runs once, at the end."""
    name, array = numpy_array(rng)
    legacy = rng.random() < 0.4
    if not legacy and rng.random() < 0.3:
        array.flags.writeable = False
    capsule = array.__dlpack__() if legacy else array.__dlpack__(max_version=(1, 1))
    tensor = take(capsule)
    del capsule
    same(tensor.view, array)
    assert tensor.view.dtype.key() == T.dtype(name).key()
    assert bool(tensor.view.flags & T.READ_ONLY) == (not array.flags.writeable)
    # Export again: not deeper than one struct, the same address.
    again = tensor.export()
    assert again.contents.dl_tensor.data == tensor.view.data
    back = T.Tensor.made("tensor_import", again)
    assert back.handle == tensor.handle
    back.release()
    tensor.release()


class Producer:
    """A struct of our own making, with a deleter that counts."""

    def __init__(self, array, name, legacy=False, major=1, minor=3, flags=0, strides=True, deleter=True):
        self.array, self.deleted = array, 0
        self.shape = T.i64(array.shape)
        self.strides = T.i64(model.element_strides(array)) if strides else None
        self.function = T.DELETER(self.delete) if deleter else T.DELETER()
        body = T.DLTensor(model.address(array), T.Device(T.CPU, 0), array.ndim, T.dtype(name), self.shape,
                          self.strides, 0)
        self.struct = (T.ManagedLegacy(body, None, self.function) if legacy else
                       T.Managed(major, minor, None, self.function, flags, body))
        self.name = "tensor_import_legacy" if legacy else "tensor_import"

    def delete(self, pointer):
        assert pointer == C.addressof(self.struct)
        self.deleted += 1

    def take(self):
        return T.Tensor.made(self.name, C.byref(self.struct))


@pytest.mark.parametrize("legacy", [False, True])
def test_deleter_runs_once(legacy):
    producer = Producer(np.arange(6.0).reshape(2, 3), "f64", legacy)
    before = bytes(producer.struct)
    tensor = producer.take()
    part = tensor.op("slice", 1, 0, T.OMIT, 2)
    struct = part.export()
    tensor.release()
    part.release()
    assert producer.deleted == 0
    struct.contents.deleter(C.cast(struct, C.c_void_p))
    assert producer.deleted == 1
    assert bytes(producer.struct) == before, "the producer's struct was written"


@pytest.mark.parametrize("options", [{"major": 2}, {"major": 0}, {"flags": 1 << 40, "major": 7}])
def test_another_major_is_refused(options):
    producer = Producer(np.arange(6.0), "f64", **options)
    with pytest.raises(T.Error) as caught:
        producer.take()
    assert caught.value.status == T.EVERSION
    assert producer.deleted == 0


@pytest.mark.parametrize("legacy", [False, True])
def test_no_deleter_no_strides(legacy):
    producer = Producer(np.arange(6.0).reshape(2, 3), "f64", legacy, strides=False, deleter=False)
    tensor = producer.take()
    assert tensor.view.dims() == ((2, 3), (3, 1))
    tensor.release()


def test_legacy_refuses_what_it_cannot_say():
    data = np.zeros(8, np.uint8)
    for flags, name, status in ((T.READ_ONLY, "u8", T.EREADONLY), (T.SUBBYTE_PADDED, "u4", T.EDTYPE)):
        tensor = T.Tensor.from_blob(model.address(data), [8], None, T.dtype(name), flags=flags)
        with pytest.raises(T.Error) as caught:
            tensor.export(legacy=True)
        assert caught.value.status == status
        assert tensor.refcount == 1
        tensor.release()


@pytest.mark.parametrize("case, count", [(export_case, 700), (import_case, 700)])
def test_numpy(case, count):
    run_cases(case, count)


# ---------------------------------------------------------------------------------------------------------- torch

@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="torch is not installed: DLPack is tested with NumPy only")


TORCH = ["bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128", "f8_e4m3fn", "f8_e5m2"]
TORCH_LONG = {"u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
              "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
              "f8_e4m3fn": "float8_e4m3fn", "f8_e5m2": "float8_e5m2", "bool": "bool"}


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (4,), (2, 3), (2, 1, 3)])
def test_from_torch(torch, name, shape):
    source = torch.zeros(shape, dtype=getattr(torch, TORCH_LONG[name])).transpose(0, -1) if shape else torch.zeros(
        (), dtype=getattr(torch, TORCH_LONG[name]))
    for capsule in (torch.utils.dlpack.to_dlpack(source), source.__dlpack__(max_version=(1, 1))):
        tensor = take(capsule)
        assert T.text(T.lib.tenon_dtype_format, tensor.view.dtype) == name
        assert tensor.view.dims()[0] == tuple(source.shape)
        if source.numel():
            assert tensor.view.data == source.data_ptr()
            assert all(n == 1 or a == b for n, a, b in zip(source.shape, tensor.view.dims()[1], source.stride()))
        tensor.release()


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (4,), (2, 3), (2, 1, 3)])
def test_to_torch(torch, shape, legacy):
    owner = next(T.owners)
    data = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    tensor = T.Tensor.from_blob(model.address(data), shape, None, T.dtype("f32"), owner=owner)
    out = torch.from_dlpack(Exporter(tensor, legacy))
    assert tuple(out.shape) == shape and out.dtype == torch.float32
    assert not data.size or out.data_ptr() == model.address(data)
    assert out.tolist() == data.tolist()
    tensor.release()
    assert T.released[owner] == 0
    del out
    assert T.released.pop(owner) == 1


def test_torch_refuses_negative_strides(torch):
    """A consumer that fails leaves the struct with us: the deleter gives the count back."""
    data = np.arange(4, dtype=np.float32)
    tensor = T.Tensor.from_blob(model.address(data), [4], None, T.dtype("f32"))
    turned = tensor.op("slice", 0, T.OMIT, T.OMIT, -1)
    capsule = Exporter(turned).__dlpack__()
    with pytest.raises((RuntimeError, ValueError, BufferError)):
        torch.utils.dlpack.from_dlpack(capsule)
    if api.PyCapsule_GetName(capsule) == NEW:
        struct = C.cast(api.PyCapsule_GetPointer(capsule, NEW), C.POINTER(T.Managed))
        struct.contents.deleter(C.cast(struct, C.c_void_p))
    turned.release()
    tensor.release()
