"""The types of the arrays that functions take. They are for annotations, and isinstance() knows them from Python 3.10 on."""

import sys
from array import array
from functools import reduce
from mmap import mmap
from operator import or_
from typing import TYPE_CHECKING, Any, Protocol, Union, runtime_checkable

# One protocol has one name, because some frameworks declare only a part: NumPy declares __dlpack__ for numbers but not for
# booleans, and JAX does not declare __dlpack_device__.


@runtime_checkable
class DLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


@runtime_checkable
class DLPackDevice(Protocol):
    def __dlpack_device__(self) -> tuple[Any, Any]: ...


@runtime_checkable
class TFTensor(Protocol):
    def __tf_tensor__(self, *args: Any, **kwargs: Any) -> Any: ...


@runtime_checkable
class Buffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...


@runtime_checkable
class ArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> Any: ...


@runtime_checkable
class ArrayStruct(Protocol):
    @property
    def __array_struct__(self) -> Any: ...


@runtime_checkable
class CudaArrayInterface(Protocol):
    @property
    def __cuda_array_interface__(self) -> Any: ...


@runtime_checkable
class ArrowArray(Protocol):
    def __arrow_c_array__(self, *args: Any, **kwargs: Any) -> Any: ...


@runtime_checkable
class ArrowStream(Protocol):
    def __arrow_c_stream__(self, *args: Any, **kwargs: Any) -> Any: ...


# An array of a framework: a function that is given one returns arrays of the same framework.
FrameworkArray = Union[DLPack, DLPackDevice, TFTensor]

Array = Union[
    FrameworkArray,
    Buffer,
    ArrayInterface,
    ArrayStruct,
    CudaArrayInterface,
    ArrowArray,
    ArrowStream,
]

if not TYPE_CHECKING:
    # Type checkers know __buffer__ in every version of Python; objects have it from Python 3.12 on.
    if sys.version_info < (3, 12):
        Array = Union[Array, bytes, bytearray, memoryview, array, mmap]
    # isinstance() accepts unions that are written with `|`, but not typing.Union, if a protocol has attributes.
    if sys.version_info >= (3, 10):
        FrameworkArray, Array = reduce(or_, FrameworkArray.__args__), reduce(or_, Array.__args__)
