"""A short tour of the installed package with objects that every Python has, and with NumPy if it is installed. The
argument is a library of examples/functions/kernels.c."""
import array
import gc
import sys
import threading

import tenon

try:
    import numpy
except ImportError:
    numpy = None


def walk_functions(kernels):
    x, y = array.array("f", [1, 2, 3]), array.array("f", [10, 20, 30])
    count = sys.getrefcount(x)
    z = kernels.saxpy(2.0, x, y)
    assert memoryview(z).tolist() == [12, 24, 36]
    assert kernels.dot(x, y) == 140
    kernels.scale(x, 2)
    assert x.tolist() == [2, 4, 6]
    unit = kernels.normalize(x, by="max")
    assert unit.divisor == 6 and memoryview(unit.y)[2] == 1
    assert memoryview(kernels.nonzero(x)).tolist() == [0, 1, 2]
    for wrong in [(2.0, x), (2.0, x, b"abc"), ("2", x, y), (2.0, x, object())]:
        try:
            kernels.saxpy(*wrong)
        except (TypeError, ValueError) as error:
            assert "saxpy()" in str(error)
        else:
            raise AssertionError(wrong)
    thread = threading.Thread(target=kernels.scale, args=(x, 0.5))
    thread.start()
    thread.join()
    del wrong, thread, z, unit
    assert x.tolist() == [1, 2, 3] and sys.getrefcount(x) == count


def walk_exchange():
    numbers = bytearray(8)
    tensor = tenon.to(numbers, "tenon")
    assert tensor.__dlpack_device__() == (1, 0) and memoryview(tenon.to(tensor, "memoryview")).nbytes == 8
    del tensor
    gc.collect()
    numbers.append(1)  # nothing holds it any longer
    names = {"tier", "version", "missing", "tensors", "tensors_why", "direct", "direct_why", "watch"}
    assert set(tenon.torch_info()) == names


def walk_numpy(kernels):
    x = numpy.arange(6, dtype="f4").reshape(2, 3)
    product = kernels.matmul(x, x.T)
    assert type(product) is numpy.ndarray and (product == x @ x.T).all()
    out = numpy.empty((2, 2), "f4")
    assert kernels.matmul(x, x.T, out=out) is out and (out == product).all()
    assert tenon.to(x, "numpy").ctypes.data == x.ctypes.data


loaded = tenon.load(sys.argv[1])
walk_functions(loaded)
walk_exchange()
if numpy:
    walk_numpy(loaded)
print(f"tenon {tenon.__version__} on Python {sys.version.split()[0]}: {tenon._native.__file__.rpartition('/')[2]}, "
      + (f"NumPy {numpy.__version__}" if numpy else "left out: NumPy"))
