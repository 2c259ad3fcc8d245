"""tenon.Tensor.__cuda_array_interface__, with stand-ins for memory on CUDA that are never read."""

import pytest
import tenon_hostile as hostile
import tenon_probe as probe
from producers import Producer, through

CPU, CUDA, READ_ONLY = 1, 2, 1
OTHER_DEVICES = (1, 3, 4, 7, 8, 10, 11, 12, 13, 14)


def tensor(dtype="f32", shape=(2, 3), strides=None, offset=0, flags=0, device=CUDA, index=0, stream=0):
    return probe.export(probe.new(dtype, shape, strides, offset, flags, device, index, stream))


def interface(*arguments, **options):
    return tensor(*arguments, **options).__cuda_array_interface__


def test_it_is_version_3():
    x = tensor()
    assert x.__cuda_array_interface__ == {
        "shape": (2, 3), "typestr": "<f4", "data": (x.data_ptr, False), "strides": None, "stream": 1, "version": 3,
    }  # fmt: skip


@pytest.mark.parametrize("device", OTHER_DEVICES)
def test_other_devices_do_not_have_it(device):
    x = tensor(device=device)
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match=f"only tensors on CUDA have __cuda_array_interface__, and this one is on {x.device}"):
        x.__cuda_array_interface__


@pytest.mark.parametrize("dtype, typestr", [
    ("bool", "|b1"), ("i8", "|i1"), ("u8", "|u1"), ("i16", "<i2"), ("u32", "<u4"), ("i64", "<i8"), ("f16", "<f2"),
    ("f64", "<f8"), ("c64", "<c8"), ("c128", "<c16"),
])  # fmt: skip
def test_dtypes(dtype, typestr):
    assert interface(dtype)["typestr"] == typestr


@pytest.mark.parametrize("dtype", ["bf16", "f8_e4m3fn", "i4", "c32", "f32x2", "f4_e2m1fn"])
def test_dtypes_without_a_name(dtype):
    with pytest.raises(AttributeError, match="has no name for the dtype .*; use DLPack"):
        interface(dtype)


def test_strides_are_in_bytes():
    assert interface(strides=(1, 2))["strides"] == (4, 8)
    assert interface("f64", strides=(3, 1))["strides"] is None
    x = tensor("i16", (4, 5))
    assert x[::-1, ::2].__cuda_array_interface__["strides"] == (-10, 4)
    assert x[::-1].__cuda_array_interface__["data"][0] == x.data_ptr + 3 * 10
    assert interface(shape=(3,), strides=(0,))["strides"] == (0,)


def test_shapes():
    assert interface(shape=())["shape"] == () and interface(shape=())["strides"] is None
    empty = interface(shape=(0, 3))
    assert empty["shape"] == (0, 3) and empty["data"] == (0, False) and empty["strides"] is None


def test_offset():
    x = tensor(offset=16)
    assert x.__cuda_array_interface__["data"][0] == x.data_ptr


def test_read_only():
    x = tensor(flags=READ_ONLY)
    assert x.__cuda_array_interface__["data"] == (x.data_ptr, True)
    assert x[0].__cuda_array_interface__["data"][1] is True


def test_stream_of_a_tensor_that_c_code_made():
    assert interface(stream=77)["stream"] == 77
    assert tensor(stream=77)[1:].__cuda_array_interface__["stream"] == 77


def test_stream_of_a_framework_with_a_table():
    hostile.plan(stream=78, device_type=CUDA, data=4096, shape=(4,))
    thing = type("Tabled", (), {"__dlpack_c_exchange_api__": hostile.table()})()
    x = probe.through(thing, probe.TENSOR)
    assert x.__cuda_array_interface__["stream"] == x[1:].__cuda_array_interface__["stream"] == 78
    hostile.plan(stream=0, device_type=CUDA, data=4096, shape=(4,))
    assert x.__cuda_array_interface__["stream"] == 1
    hostile.plan()


def test_another_producer_orders_the_default_stream():
    producer = Producer()
    x = through(producer)
    assert x.__cuda_array_interface__["stream"] == 1 and producer.since() == [1]
    producer.error = BufferError("gone")
    with pytest.raises(BufferError, match="gone"):
        x.__cuda_array_interface__


def test_our_own_bridge_reads_it():
    x = tensor("i16", (4, 5))[::-1, ::2]
    same = type("Same", (), {"__cuda_array_interface__": x.__cuda_array_interface__})()
    assert probe.borrow(same, probe.ANY_DEVICE)["data"] == x.data_ptr
    assert probe.borrow(same, probe.ANY_DEVICE)["strides"] == x.strides
