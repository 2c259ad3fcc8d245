"""torch tensors in and out. What the exchange table lets through but is no plain memory is in test_torch_special.py."""

import gc
import sys
import weakref

import pytest

torch = pytest.importorskip("torch")

import tenon_probe as probe  # noqa: E402
from arrays import NAMES as COMMON  # noqa: E402
from arrays import DLPack, check_counts, check_torch, memory  # noqa: E402

# Our names for torch's. int1 to int7 and uint1 to uint7 are left out: torch stores and hands them out as bytes.
NAMES = {
    **COMMON,
    "complex32": "c32",
    "float8_e4m3fn": "f8_e4m3fn",
    "float8_e4m3fnuz": "f8_e4m3fnuz",
    "float8_e5m2": "f8_e5m2",
    "float8_e5m2fnuz": "f8_e5m2fnuz",
    "float8_e8m0fnu": "f8_e8m0fnu",
    "float4_e2m1fn_x2": "f4_e2m1fnx2",
}
PRESENT = [name for name in NAMES if hasattr(torch, name)]
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):  # before 2.10 they are not in torch's DLPack
    PRESENT = [name for name in PRESENT if not name.startswith(("float8", "float4"))]
UNNAMED = [name for name in ("bits8", "bits16", "bits1x8", "bits2x4", "bits4x2", "bcomplex32") if hasattr(torch, name)]

LAYOUTS = {
    "C": lambda x: x,
    "transposed": lambda x: x.transpose(0, 2),
    "stepped": lambda x: x[:, ::2, 1:],
    "expanded": lambda x: x[:, :1].expand(2, 5, 4),
    "channels last": lambda x: x[None].contiguous(memory_format=torch.channels_last),
    "0-d": lambda x: x[0, 0, 0],
    "one element": lambda x: x[:1, :1, :1],
    "size 1": lambda x: x[:1, :, ::4],
    "empty": lambda x: x[:, :0],
    "nine dimensions": lambda x: x.reshape(2, 3, 2, 2, 1, 1, 1, 1, 1)[:, :, ::2],
    "as_strided": lambda x: torch.as_strided(x, (3, 3), (2, 5), 1),
    "view of another dtype": lambda x: x.view(torch.int32),
    "unfolded": lambda x: x.flatten().unfold(0, 4, 2),
}


def tensor():
    return torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_in_and_out(name):
    given = LAYOUTS[name](tensor())
    dtype = NAMES[str(given.dtype).split(".")[1]]
    check_torch(probe.borrow(given), given, dtype)
    check_torch(probe.borrow(given, probe.WRITE), given, dtype)
    handle = probe.import_(given)
    check_torch(probe.describe(handle), given, dtype)
    out = probe.export(handle, probe.TORCH)
    assert out is not given and type(out) is torch.Tensor
    assert (out.shape, out.dtype, out.device) == (given.shape, given.dtype, given.device)
    check_torch(probe.describe(handle), out, dtype)
    assert out.data_ptr() == given.data_ptr()
    assert torch.equal(out, given)


@pytest.mark.parametrize("name", LAYOUTS)
def test_dlpack_agrees(name):
    given = LAYOUTS[name](tensor())
    view = probe.borrow(DLPack(given))
    # Through __dlpack__ torch writes 1 for the strides of sizes 1: those mean nothing.
    assert view["shape"] == tuple(given.shape)
    assert view["data"] == given.data_ptr()
    for size, stride, expected in zip(view["shape"], view["strides"], given.stride()):
        assert size <= 1 or stride == expected


@pytest.mark.parametrize("name", PRESENT)
def test_dtype(name):
    dtype = getattr(torch, name)
    given = torch.zeros((2, 3 * dtype.itemsize), dtype=torch.uint8).view(dtype)
    check_torch(probe.borrow(given), given, NAMES[name])
    out = probe.through(given, probe.TORCH)
    assert out.dtype == dtype and out.data_ptr() == given.data_ptr()
    # A write on one side is seen on the other, both ways.
    probe.poke(given, 1)
    assert memory(probe.borrow(out), 1) == b"\1"
    out.view(torch.uint8)[0, 0] = 5
    assert memory(probe.borrow(given), 1) == b"\5"


@pytest.mark.parametrize("name", UNNAMED)
def test_dtype_without_a_name(name):
    given = torch.zeros(16, dtype=torch.uint8).view(getattr(torch, name))
    with pytest.raises(BufferError, match="torch.Tensor: the producer refused: .*not supported") as caught:
        probe.borrow(given)
    assert caught.value.__cause__ is not None
    assert len(str(caught.value)) < 300


def test_values_from_both_sides():
    given = tensor()
    out = probe.through(given, probe.TORCH)
    out[1, 2, 3] = -1
    assert given[1, 2, 3] == -1
    given.mul_(2)
    assert out[0, 0, 1] == 2


def test_counts():
    check_counts(tensor)
    check_counts(lambda: torch.zeros((1,) * 9))
    check_counts(lambda: torch.zeros(()))
    given = tensor()
    storage = sys.getrefcount(given)
    for _ in range(100):
        probe.through(given, probe.TORCH)
    assert sys.getrefcount(given) == storage


def test_import_outlives_the_tensor():
    given = torch.arange(1000.0)
    gone = weakref.ref(given)
    handle = probe.import_(given)
    del given
    gc.collect()
    assert gone() is not None
    out = probe.export(handle, probe.TORCH)
    del handle
    part = out[::2]
    del out
    gc.collect()
    assert part.sum() == 249500 and gone() is not None
    del part
    gc.collect()
    assert gone() is None


def test_release_on_another_thread():
    given = tensor()
    before = sys.getrefcount(given)
    probe.release_elsewhere(probe.import_(given))
    probe.borrow(b"")
    assert sys.getrefcount(given) == before


def test_parameter_and_subclasses():
    class Plain(torch.Tensor):
        pass

    class Function(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    parameter = torch.nn.Parameter(tensor())
    buffer = torch.nn.Buffer(tensor()) if hasattr(torch.nn, "Buffer") else tensor()
    for given in (parameter, buffer, tensor().as_subclass(Plain), tensor().as_subclass(Function)):
        view = probe.borrow(given)
        with torch._C.DisableTorchFunctionSubclass():
            check_torch(view, given, "f32")
        assert probe.through(given, probe.SAME) is given
        assert type(probe.through(given, probe.TORCH)) is torch.Tensor


def test_requires_grad_and_write():
    leaf = torch.ones(3, requires_grad=True)
    for given in (leaf, leaf * 2, torch.nn.Parameter(torch.ones(3)), torch.ones((), requires_grad=True)):
        check_torch(probe.borrow(given), given, "f32")
        for call in (probe.borrow, probe.import_):
            with pytest.raises(RuntimeError, match=r"requires grad.*x.detach\(\).*torch.no_grad\(\)"):
                call(given, probe.WRITE)
        check_torch(probe.borrow(given.detach(), probe.WRITE), given, "f32")
        with torch.no_grad():
            check_torch(probe.borrow(given, probe.WRITE), given, "f32")
    # Without the flag autograd survives where the object itself comes back.
    same = probe.through(leaf, probe.SAME)
    same.sum().backward()
    assert leaf.grad is not None


def test_detached_and_inference():
    with torch.inference_mode():
        given = tensor()
    check_torch(probe.borrow(given), given, "f32")
    assert not probe.through(torch.ones(2, requires_grad=True), probe.TORCH).requires_grad


def test_same():
    for make in LAYOUTS.values():
        given = make(tensor())
        handle = probe.import_(given)
        assert probe.export(handle, probe.SAME) is given
        given.requires_grad_(given.dtype.is_floating_point)  # no change of the tensor's memory
        assert probe.export(handle, probe.SAME) is given


@pytest.mark.parametrize("change", ["data", "set_", "resize_", "transpose_", "t.data of another shape"])
def test_same_after_a_change(change):
    """The import goes on describing what it saw, and is no longer the object. The old memory is kept alive here:
    where nobody else does, these take it away under an import, as they do under __dlpack__."""
    given = tensor()
    kept = given.detach()
    handle = probe.import_(given)
    if change == "data":
        given.data = torch.zeros(2, 3, 4)
    elif change == "set_":
        given.set_(torch.zeros(2, 3, 4))
    elif change == "resize_":
        given.resize_(2, 3)
    elif change == "transpose_":
        given.transpose_(0, 1)
    else:
        given.data = kept[:1]
    out = probe.export(handle, probe.SAME)
    assert type(out) is probe.Tensor
    check_torch(probe.borrow(out), kept, "f32")
    back = probe.export(handle, probe.TORCH)
    assert torch.equal(back, kept) and back.data_ptr() == kept.data_ptr()


def test_same_after_it_became_no_memory():
    given = tensor()
    handle = probe.import_(given)
    given.untyped_storage().resize_(0)
    assert type(probe.export(handle, probe.SAME)) is probe.Tensor


def test_shared_memory_of_numpy():
    np = pytest.importorskip("numpy")
    array = np.arange(6.0)
    given = torch.from_numpy(array)
    assert probe.borrow(given)["data"] == array.ctypes.data
    out = probe.through(given, probe.NUMPY)
    out[0] = 9
    assert given[0] == 9 and array[0] == 9
    there = probe.through(array, probe.TORCH)
    there[1] = 8
    assert array[1] == 8 and there.data_ptr() == array.ctypes.data


def test_types_come_and_go():
    """More classes than the bridge remembers: the rest is looked up each time."""
    for index in range(100):
        kind = type(f"Plain{index}", (torch.Tensor,), {})
        given = tensor().as_subclass(kind)
        assert probe.borrow(given)["data"] == torch.Tensor.data_ptr(given)


def test_no_class_but_its_name():
    """A class that only says it is torch.Tensor is never read as one."""
    from unittest import mock

    class Liar:
        __class__ = torch.Tensor

    for given in (mock.Mock(spec=torch.Tensor), Liar()):
        assert isinstance(given, torch.Tensor)
        with pytest.raises(TypeError):
            probe.borrow(given)


def test_pinned_import_survives_data():
    """With PIN the memory is held by an alias: `.data =` and `set_` do not take it away."""
    given = torch.arange(4.0)
    address, handle = given.data_ptr(), probe.import_(given, probe.PIN)
    given.data = torch.zeros(9)
    given.set_(torch.zeros(2))
    again = probe.export(handle, probe.TORCH)
    assert again.data_ptr() == address and again.tolist() == [0, 1, 2, 3]
    del handle, again


def test_pin_is_for_torch_and_loses_no_check():
    grown = torch.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        probe.import_(grown, probe.PIN | probe.WRITE)
    with pytest.raises(TypeError):
        probe.import_(3, probe.PIN)
    assert probe.describe(probe.import_(memoryview(b"abc"), probe.PIN))["shape"] == (3,)


def test_a_pinned_tensor_is_not_the_same():
    """The alias that holds it has no history: it is not passed off as the object."""
    given = torch.ones(2, requires_grad=True)
    assert type(probe.export(probe.import_(given, probe.PIN), probe.SAME)) is probe.Tensor
    assert probe.export(probe.import_(given), probe.SAME) is given


def test_an_array_that_is_changed_while_others_are_borrowed():
    x, y = torch.ones(1000), torch.ones(1000)

    class Producer:
        def __dlpack__(self, **options):
            x.set_(torch.zeros(1))
            return y.__dlpack__(**options)

        def __dlpack_device__(self):
            return y.__dlpack_device__()

    with pytest.raises(RuntimeError, match="torch.Tensor: it was changed while the other arrays were borrowed"):
        probe.borrow_many(x, Producer())
    assert len(probe.borrow_many(Producer(), x)) == 2
