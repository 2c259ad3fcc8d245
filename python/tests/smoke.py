"""A short tour of the bridge with objects that every Python has, and with NumPy if it is installed. For each version
of Python, and under valgrind. TENON_PROBE names the folder with the built tenon_probe."""
import array
import gc
import os
import sys
import threading

sys.path.insert(0, os.environ["TENON_PROBE"])
import tenon_probe as probe  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None


def raises(exception, act, *arguments):
    try:
        act(*arguments)
    except exception as error:
        return str(error)
    raise AssertionError(f"no {exception.__name__}")


def walk_standard_library():
    numbers = array.array("i", range(6))
    count = sys.getrefcount(numbers)
    view = probe.borrow(numbers)
    assert (view["dtype"], view["shape"], view["data"]) == ("i32", (6,), numbers.buffer_info()[0])
    assert probe.borrow(memoryview(numbers)[::-2])["strides"] == (-2,)
    assert probe.through(numbers) is numbers
    assert probe.through(numbers, probe.MEMORYVIEW).tolist() == list(range(6))
    assert "read-only" in raises(ValueError, probe.poke, b"abc", 1)
    assert "expected an array" in raises(TypeError, probe.borrow, object())
    probe.poke(numbers, 7)
    assert numbers[0] == 7 and sys.getrefcount(numbers) == count


def walk_releases():
    owner = bytearray(8)
    probe.release_elsewhere(probe.import_(owner))
    probe.borrow(b"")
    owner.append(1)
    thread = threading.Thread(target=lambda: probe.import_release(owner))
    thread.start()
    thread.join()
    owner.append(1)


def walk_tensor():
    before = probe.released()
    tensor = probe.export(probe.new("f64", (2, 3)))
    assert "f64[2, 3]" in repr(tensor) and memoryview(tensor).shape == (2, 3)
    assert probe.borrow(tensor)["shape"] == (2, 3) and tensor.__dlpack_device__() == (1, 0)

    class Producer:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self, *, stream=None):
            return self.capsule

    once = Producer(tensor.__dlpack__())
    assert probe.borrow(once)["dtype"] == "f64"
    assert "consumed" in raises(BufferError, probe.borrow, once)
    tensor.__dlpack__(max_version=(1, 0))  # no consumer takes it
    del tensor, once
    gc.collect()
    assert probe.released() == before + 1


def walk_numpy():
    for dtype in "?bBhHiIqQefdFD":
        whole = numpy.zeros((4, 6), dtype)
        part = whole[1:, ::-2]
        view = probe.borrow(part)
        assert view["data"] == part.ctypes.data and view["shape"] == part.shape
        assert view["strides"] == tuple(stride // part.itemsize for stride in part.strides)
        assert probe.through(part) is part
        back = probe.through(part, probe.NUMPY)
        assert back.ctypes.data == part.ctypes.data and back.strides == part.strides and back.dtype == part.dtype
        back[0, 0] = 1
        assert part[0, 0] == 1
        whole.flags.writeable = False
        assert not probe.through(whole, probe.NUMPY).flags.writeable
    raises(TypeError, probe.borrow, numpy.zeros(3, "M8[s]"))
    made, view = probe.empty(numpy.zeros(1), "i16", (5,), 0)
    assert type(made) is numpy.ndarray and made.tolist() == [0] * 5 and made.ctypes.data == view["data"]
    from_ours = probe.export(probe.new("u8", (4,)), probe.NUMPY)
    assert from_ours.tolist() == [0, 1, 2, 3]


def walk_registered_dtypes():
    """NumPy 2.5 lets code register the DLPack dtype of a dtype. It cannot be unregistered."""
    for key, dtype, name in (((3, 64), "M8[ns]", "opaque64"), ((3, 16), "V2", "opaque16")):
        part = numpy.zeros((2, 3), dtype)[:, ::2]
        assert "DLPack" in raises(TypeError, probe.borrow, part)
        numpy.dtypes.register_dlpack_dtype(key, part.dtype)
        view = probe.borrow(part)
        assert (view["dtype"], view["data"], view["shape"], view["strides"]) == (name, part.ctypes.data, (2, 2), (3, 2))
        assert probe.through(part) is part
        back = probe.through(part, probe.NUMPY)
        assert back.ctypes.data == part.ctypes.data and back.strides == part.strides and back.dtype == part.dtype
        part.flags.writeable = False
        assert probe.borrow(part)["flags"] & 1
    assert "Python objects" in raises(TypeError, probe.borrow, numpy.zeros(2, object))


probe.borrow(b"")
baseline = probe.stats()
walk_standard_library()
walk_releases()
walk_tensor()
if numpy:
    walk_numpy()
    if hasattr(getattr(numpy, "dtypes", None), "register_dlpack_dtype"):
        walk_registered_dtypes()
gc.collect()
assert probe.stats() == baseline, probe.stats()
print(f"Python {sys.version.split()[0]}, " + (f"NumPy {numpy.__version__}" if numpy else "left out: NumPy"))
