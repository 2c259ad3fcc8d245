"""Every device of DLPack, in and out without the hardware: nothing of the memory is read."""

import pytest

import dlpack
import tenon_probe as probe
from arrays import READ_ONLY, DLPack

DEVICES = {
    1: "cpu",
    2: "cuda",
    3: "cuda_host",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    9: "vpi",
    10: "rocm",
    11: "rocm_host",
    12: "ext_dev",
    13: "cuda_managed",
    14: "oneapi",
    15: "webgpu",
    16: "hexagon",
    17: "maia",
    18: "trainium",
}
ON_HOST = {1, 3, 11, 13}
HANDLES = {4, 7, 8, 15}  # `data` is no address there: an offset stays beside it


def make(device_type, device_id=0, flags=0):
    """A tensor on that device, 8 bytes behind its start; and what is to be seen of it."""
    handle = probe.new("f32", (2, 3), (1, 2), 8, flags, device_type, device_id)
    view = probe.describe(handle)
    assert view["device"] == (device_type, device_id)
    assert view["byte_offset"] == (8 if device_type in HANDLES else 0)
    assert view["flags"] & READ_ONLY == flags
    return handle, view


class Capsule:
    """A producer of capsules of one kind."""

    def __init__(self, handle, kind):
        self.handle, self.kind = handle, kind

    def __dlpack__(self, **keywords):
        return probe.export(self.handle, self.kind)


def ways(handle):
    """The tensor as each kind of object that carries a device."""
    yield "tenon.Tensor", probe.export(handle, probe.TENSOR)
    yield "__dlpack__", DLPack(probe.export(handle, probe.TENSOR))
    yield "capsule", Capsule(handle, probe.CAPSULE)
    if not probe.describe(handle)["flags"] & READ_ONLY:
        yield "legacy capsule", Capsule(handle, probe.CAPSULE_LEGACY)


@pytest.mark.parametrize("flags", [0, READ_ONLY])
@pytest.mark.parametrize("device_id", [0, 3])
@pytest.mark.parametrize("device_type", DEVICES)
def test_in_and_out(device_type, device_id, flags, released):
    handle, view = make(device_type, device_id, flags)
    for name, given in ways(handle):
        assert probe.borrow(given, probe.ANY_DEVICE) == view, name
        again = probe.import_(given, probe.ANY_DEVICE)
        assert probe.describe(again) == view, name
        out = probe.export(again, probe.TENSOR)
        assert out.__dlpack_device__() == (device_type, device_id)
        assert probe.borrow(out, probe.ANY_DEVICE) == view, name
        assert f"on {DEVICES[device_type]}" in repr(out)
        del again, out, given
    del handle
    assert released() == 1


@pytest.mark.parametrize("device_type", DEVICES)
def test_only_what_the_cpu_can_read(device_type):
    handle, view = make(device_type, 1)
    for name, given in ways(handle):
        if device_type in ON_HOST:
            assert probe.borrow(given) == view, name
            continue
        for call in (probe.borrow, probe.import_):
            with pytest.raises(ValueError, match=f"{DEVICES[device_type]}:1, which the CPU cannot read; pass a copy"):
                call(given)


@pytest.mark.parametrize("device_type", DEVICES)
def test_capsules(device_type):
    handle, view = make(device_type, 2)
    for kind in (probe.CAPSULE, probe.CAPSULE_LEGACY):
        inside = dlpack.contents(probe.export(handle, kind))
        tensor = inside.tensor
        assert tensor.data == view["data"]
        assert dlpack.describe(tensor) == ((2, 3), (1, 2), (2, 32, 1), (device_type, 2), view["byte_offset"])


@pytest.mark.parametrize("device_type", DEVICES)
def test_buffers_are_the_cpus(device_type):
    handle, view = make(device_type)
    if device_type in ON_HOST:
        assert probe.export(handle, probe.MEMORYVIEW).shape == (2, 3)
        return
    with pytest.raises(BufferError, match="the memory is not on the CPU"):
        probe.export(handle, probe.MEMORYVIEW)
    pytest.importorskip("numpy")
    with pytest.raises(ValueError, match=f"on {DEVICES[device_type]}:0, which NumPy cannot read"):
        probe.export(handle, probe.NUMPY)


@pytest.mark.parametrize("device_type", [5, 6, 19, 100, -1])
def test_unknown_device(device_type):
    with pytest.raises(ValueError, match="device"):
        probe.new("f32", (2,), None, 0, 0, device_type, 0)


def test_cuda_array_interface():
    class Cuda:
        def __init__(self, **more):
            self.__cuda_array_interface__ = {
                "shape": (2, 3),
                "typestr": "<f4",
                "data": (0x7F0000001000, False),
                "version": 3,
                "strides": (4, 8),
                **more,
            }

    view = probe.borrow(Cuda(), probe.ANY_DEVICE)
    assert (view["data"], view["shape"], view["strides"]) == (0x7F0000001000, (2, 3), (1, 2))
    assert view["device"][0] == 2 and not view["flags"] & READ_ONLY
    assert probe.borrow(Cuda(data=(0x1000, True)), probe.ANY_DEVICE)["flags"] & READ_ONLY
    assert probe.borrow(Cuda(strides=None), probe.ANY_DEVICE)["strides"] == (3, 1)
    with pytest.raises(ValueError, match="cuda:0, which the CPU cannot read"):
        probe.borrow(Cuda())


def test_streams_are_named():
    """A producer on a device is always told the stream: 1 is CUDA's default, 0 ROCm's; on the CPU there is none."""
    seen = []

    class Producer:
        def __init__(self, device_type):
            self.inner = probe.export(make(device_type)[0], probe.TENSOR)

        def __dlpack__(self, **keywords):
            seen.append(keywords.get("stream", "none"))
            return self.inner.__dlpack__(max_version=keywords["max_version"])

        def __dlpack_device__(self):
            return self.inner.__dlpack_device__()

    for device_type in (1, 2, 3, 10, 13):
        probe.borrow(Producer(device_type), probe.ANY_DEVICE)
    assert seen == ["none", 1, "none", 0, 1]
    seen.clear()
    for stream in (1, 2, -1, 4096):
        probe.borrow(Producer(2), probe.ANY_DEVICE, stream)
    assert seen == [1, 2, -1, 4096]
