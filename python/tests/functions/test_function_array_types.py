"""tenon.Array: a type for annotations and isinstance(), which is what functions take."""

import array
import ctypes
import datetime
import mmap
import sys
from typing import Optional, TypeVar

import pytest
from building import build, run_python, tenon

FIRST = """
#include <tenon/function.h>
static tenon_status rank(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_arg(call, 0)->ndim);
    return TENON_OK;
}
TENON_MODULE(first, NULL, TENON_FUNCTION("rank(x: any[*b] cpu|cuda) -> int", rank, NULL))
"""


class Interface:
    """An array that only has __array_interface__."""

    def __init__(self):
        self.numbers = array.array("f", [1, 2, 3])
        self.__array_interface__ = {
            "version": 3,
            "typestr": "<f4",
            "shape": (3,),
            "data": (self.numbers.buffer_info()[0], False),
        }


class DLPack:
    """An array that only has __dlpack__."""

    def __init__(self):
        self.tensor = tenon.to(array.array("f", [1, 2, 3]), "tenon")

    def __dlpack__(self, *, stream=None):
        return self.tensor.__dlpack__()


def of_framework(name, make):
    def made():
        return make(pytest.importorskip(name))

    return pytest.param(made, id=name)


ARRAYS = [
    of_framework("numpy", lambda numpy: numpy.ones(3, "float32")),
    of_framework("torch", lambda torch: torch.ones(3)),
    of_framework("jax", lambda jax: jax.numpy.ones(3, "float32")),
    of_framework("pyarrow", lambda pyarrow: pyarrow.array([1.0, 2.0])),
    of_framework("polars", lambda polars: polars.Series([1.0, 2.0])),
    pytest.param(lambda: tenon.to(array.array("f", [1]), "tenon"), id="tenon"),
    pytest.param(Interface, id="interface"),
    pytest.param(DLPack, id="dlpack"),
]
BUFFERS = [
    b"123",
    bytearray(3),
    memoryview(b"123"),
    array.array("f", [1]),
    mmap.mmap(-1, 8),
    *([(ctypes.c_int * 3)()] if sys.version_info >= (3, 12) else []),
]
OTHERS = [3, 2.5, "text", None, [1.0], (1.0, 2.0), {1: 2}, datetime.date(2026, 1, 1), int, object()]


@pytest.fixture(scope="module")
def rank():
    return tenon.load(build(FIRST)).rank


needs_unions = pytest.mark.skipif(sys.version_info < (3, 10), reason="isinstance() knows unions from Python 3.10 on")


@needs_unions
@pytest.mark.parametrize("make", ARRAYS)
def test_arrays(rank, make):
    x = make()
    assert isinstance(x, tenon.Array) and rank(x) == 1


@needs_unions
@pytest.mark.parametrize("x", BUFFERS, ids=lambda x: type(x).__name__)
def test_buffers(rank, x):
    assert isinstance(x, tenon.Array) and not isinstance(x, tenon.FrameworkArray) and rank(x) == 1


@needs_unions
@pytest.mark.parametrize("x", OTHERS, ids=lambda x: type(x).__name__)
def test_other_objects(rank, x):
    assert not isinstance(x, tenon.Array)
    with pytest.raises(TypeError, match=r"rank\(\): argument 'x'"):
        rank(x)


@needs_unions
@pytest.mark.parametrize("make", ARRAYS[:3])
def test_arrays_of_frameworks(make):
    assert isinstance(make(), tenon.FrameworkArray)


def test_annotations():
    variable = TypeVar("variable", bound=tenon.Array)

    def use(x: tenon.Array, y: Optional[tenon.FrameworkArray] = None) -> "list[tenon.Array]":
        return [x]

    assert use.__annotations__["x"] is tenon.Array and variable.__bound__ is tenon.Array


def test_lazy():
    code = """
    import sys, tenon
    print("tenon._array_types" in sys.modules)
    tenon.Array
    print("tenon._array_types" in sys.modules)
    """
    assert run_python(code) == "False\nTrue\n"
    assert {"Array", "FrameworkArray"} <= set(dir(tenon)) & set(tenon.__all__)
