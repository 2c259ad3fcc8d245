"""tenon.Tensor and DLPack capsules in the package: tenon.from_dlpack, tenon.to, and functions that are given them."""

import ctypes
import os

import pytest
from building import build, tenon

import tenon_hostile as hostile  # noqa: E402
from producers import Producer  # noqa: E402

CUDA = 2


def test_from_dlpack():
    np = pytest.importorskip("numpy")
    array = np.arange(6, dtype="f4").reshape(2, 3)
    given = tenon.from_dlpack(array)
    assert type(given) is tenon.Tensor and given.data_ptr == array.ctypes.data and given.shape == (2, 3)
    assert tenon.from_dlpack(array.__dlpack__()).data_ptr == array.ctypes.data
    assert tenon.from_dlpack(given[1]).data_ptr == array[1].ctypes.data
    assert np.from_dlpack(given[:, ::2]).tolist() == [[0, 2], [3, 5]]
    with pytest.raises(AttributeError, match="expected an array"):
        tenon.from_dlpack(object())
    assert np.dtype(given.dtype) == array.dtype and given.T.shape == (3, 2)


def test_no_keywords():
    array = bytearray(8)
    with pytest.raises(TypeError) as caught:
        tenon.to(array, "memoryview", copy=True)
    assert str(caught.value) == "tenon.to(): expected no keyword arguments, got ['copy']; it neither copies nor moves memory"
    with pytest.raises(TypeError, match=r"tenon.to\(\) takes exactly 2 arguments"):
        tenon.to(array)


def test_frameworks_by_their_modules():
    np = pytest.importorskip("numpy")
    array = np.arange(3.0)
    assert tenon.to(array, np).ctypes.data == array.ctypes.data
    assert type(tenon.to(array, tenon)) is tenon.Tensor
    with pytest.raises(ValueError, match=r"tenon.to\(\): argument 'framework': expected one of 'numpy', .*, got 'os'"):
        tenon.to(array, os)
    with pytest.raises(ValueError, match="got 'nump'"):
        tenon.to(array, "nump")
    with pytest.raises(TypeError, match="expected the name of a framework or its module, got <class 'int'>"):
        tenon.to(array, 7)
    torch = pytest.importorskip("torch")
    assert tenon.to(array, torch).data_ptr() == array.ctypes.data


def test_capsules(kernels):
    np = pytest.importorskip("numpy")
    array = np.arange(4, dtype="f4")
    capsule = array.__dlpack__(max_version=(1, 0))
    tensor = tenon.to(capsule, "tenon")
    assert memoryview(tensor).tolist() == [0, 1, 2, 3]
    with pytest.raises(BufferError, match="already been consumed"):
        tenon.to(capsule, "numpy")
    result = kernels.saxpy(2.0, array.__dlpack__(), array)
    assert type(result) is np.ndarray and result.tolist() == [0, 3, 6, 9]
    with pytest.raises(BufferError, match=r"saxpy\(\): argument 'y': .*already been consumed"):
        kernels.saxpy(2.0, array, capsule)
    with pytest.raises(TypeError, match=r"saxpy\(\): argument 'y'"):
        other = ctypes.pythonapi.PyCapsule_New
        other.restype, other.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        kernels.saxpy(2.0, array, other(1, None, None))


def test_it_runs_on_the_producers_stream():
    module = tenon.load(
        build(
            """
            #include <tenon/function.h>
            static tenon_status where(tenon_call *call)
            {
                tenon_return_int(call, 0, (int64_t)(intptr_t)call->stream);
                return TENON_OK;
            }
            static tenon_status same(tenon_call *call) { (void)call; return TENON_OK; }
            TENON_MODULE(streams, "Streams.",
                TENON_FUNCTION("where(x: f32[*a] cuda, y: f32[*b]? cuda) -> int", where, ""),
                TENON_FUNCTION("same(x: f32[*a] cuda) -> f32[*a]", same, ""))
            """
        )
    )
    hostile.plan(stream=77, device_type=CUDA, data=4096, shape=(4,))
    thing = type("Tabled", (), {"__dlpack_c_exchange_api__": hostile.table()})()
    tensor = tenon.to(thing, "tenon")
    assert module.where(thing) == module.where(tensor) == module.where(tensor[1:]) == 77
    producer = Producer()
    other = tenon.to(producer, "tenon")
    producer.since()
    assert module.where(other) == 0 and producer.since() == [1]
    assert module.where(tensor, other) == 77 and producer.since() == [77]
    with pytest.raises(ValueError, match="cannot allocate memory on its device; pass out=, or like= with an array"):
        module.same(other)
    capsule = other.__dlpack__(stream=-1)
    with pytest.raises(ValueError, match="a DLPack capsule does not say which framework makes new arrays; pass out="):
        module.same(capsule)
    hostile.plan()
