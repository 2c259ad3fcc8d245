"""Memory for the kit's own producers, and how to read that of others: on the CPU, and on CUDA by the driver's library."""

from __future__ import annotations

import ctypes
from typing import Any, Optional

from . import structs

_driver: Optional[Any] = None
_context = ctypes.c_void_p()


def cuda() -> Any:
    """The CUDA driver, with the primary context of device 0 as the current one of this thread. OSError if there is no driver or
    no device."""
    global _driver
    if _driver is None:
        driver, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
        for status in (
            driver.cuInit(0),
            driver.cuDeviceGet(ctypes.byref(device), 0),
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(_context), device),
        ):
            if status:
                raise OSError(f"the CUDA driver's status is {status}")
        _driver = driver
    _driver.cuCtxSetCurrent(_context)
    return _driver


class Memory:
    """A block that stays allocated as long as this object lives. `address` is aligned to 256 bytes, as DLPack's header has it."""

    def __init__(self, size: int, device_type: int = structs.CPU) -> None:
        self.device_type, self.size = device_type, size
        if device_type == structs.CUDA:
            pointer = ctypes.c_uint64()
            if cuda().cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(max(size, 1))):
                raise MemoryError("cuMemAlloc failed")
            self.address = pointer.value
        else:
            self._block = ctypes.create_string_buffer(size + 512)
            self.start = ctypes.addressof(self._block)
            self.address = (self.start + 255) // 256 * 256

    def __del__(self) -> None:
        if self.device_type == structs.CUDA and _driver is not None:
            cuda().cuMemFree_v2(ctypes.c_uint64(self.address))

    def write(self, data: bytes) -> None:
        write(self.address, data, self.device_type)

    def buffer(self) -> memoryview:
        """All of a block on the CPU, from `start`. It keeps the memory alive."""
        return memoryview(self._block).cast("B")


def write(address: int, data: bytes, device_type: int = structs.CPU) -> None:
    if device_type in (structs.CUDA, structs.CUDA_MANAGED):
        cuda().cuMemcpyHtoD_v2(ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))
        cuda().cuCtxSynchronize()
    else:
        ctypes.memmove(address, data, len(data))


def read(address: int, size: int, device_type: int = structs.CPU) -> bytes:
    if size == 0:
        return b""
    if device_type in (structs.CUDA, structs.CUDA_MANAGED):
        data = ctypes.create_string_buffer(size)
        cuda().cuCtxSynchronize()
        if cuda().cuMemcpyDtoH_v2(data, ctypes.c_uint64(address), ctypes.c_size_t(size)):
            raise OSError("cuMemcpyDtoH failed")
        return data.raw
    return ctypes.string_at(address, size)


def read_elements(tensor: structs.DLTensor, padded: bool = False) -> list[int]:
    """The bits of each element, in C order. NULL strides mean C order."""
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else structs.c_strides(shape)
    first = (tensor.data or 0) + tensor.byte_offset
    bits, elements = tensor.bits, []
    step = 8 if padded and bits < 8 else bits
    for index in structs.indices(shape):
        position = sum(i * stride for i, stride in zip(index, strides)) * step
        at, shift = first + position // 8, position % 8
        data = read(at, (shift + bits + 7) // 8, tensor.device_type)
        elements.append(int.from_bytes(data, "little") >> shift & ((1 << bits) - 1))
    return elements


def resident() -> int:
    """The memory of this process in bytes, or the most that it has had if the system does not tell the current figure."""
    return _pages()[0]


def resident_of_its_own() -> int:
    """The same without memory that other processes can have, too: files, such as shared libraries, and shared memory. No more
    than this can be free in its allocators."""
    total, shared = _pages()
    return total - shared


def _pages() -> tuple[int, int]:
    """The resident memory, and how much of it is shared, as far as the system tells."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            total, shared = (int(word) * 4096 for word in file.read().split()[1:3])
            return total, shared
    except OSError:
        import resource
        import sys

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024), 0
