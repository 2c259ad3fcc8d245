"""The rules for producers: the keywords of __dlpack__, and __dlpack_device__."""

from __future__ import annotations

import enum
from typing import Any

from . import memory, structs
from .case import HEADER, STANDARD, Failure, NotApplicable, Refused, Registry
from .parties import NEWEST, Producer, device_of, expect, expect_equal, expect_no_growth, name_error, raised

case = Registry("producer")
_METHOD = f"{STANDARD}: array.__dlpack__"
_DEVICE = f"{STANDARD}: array.__dlpack_device__"
_FLAGS = f"{HEADER}: DLManagedTensorVersioned.flags"
_DELETER = f"{HEADER}: DLManagedTensorVersioned.deleter"
_SIZE = 1 << 18  # elements of float32: 1 MiB


# ---------------------------------------------------------------------------------------------------------------- stream

_STREAM = f"{_METHOD}, stream"


def _on_cuda(p: Producer) -> None:
    if p.on_cpu:
        raise NotApplicable("the arrays are on the CPU, which has no streams")


def _add_stream(id: str, stream: Any, rule: str, accepted: bool, cuda: bool, cpu: bool = False) -> None:
    @case(f"producer.stream.{id}", rule, _STREAM)
    def _(p: Producer) -> None:
        if cuda:
            _on_cuda(p)
        if cpu and not p.on_cpu:
            raise NotApplicable("the arrays are not on the CPU")
        array = p.make()
        if accepted:
            taken = p.export(array, stream=stream)
            p.expect_elements(taken, (2, 3), "float32")
            taken.release()
            return
        error = raised(lambda: p.export(array, stream=stream).release())
        expect(error is not None, "an exception", "a capsule")


_add_stream("none", None, "stream=None is accepted on every device.", True, False)
_add_stream("not-on-cpu", 1, "On the CPU only stream=None is accepted.", False, False, cpu=True)
_add_stream("below-minus-one", -2, "A stream is not less than -1.", False, False)
_add_stream("overflow", 2**70, "A stream that is not a pointer is refused.", False, False)
_add_stream("type", "default", "A stream that is not an integer is refused.", False, False)
_add_stream("cuda-minus-one", -1, "On CUDA stream=-1 means that the producer does not synchronise.", True, True)
_add_stream("cuda-legacy", 1, "On CUDA stream=1 is the legacy default stream.", True, True)
_add_stream("cuda-per-thread", 2, "On CUDA stream=2 is the per-thread default stream.", True, True)
_add_stream("cuda-zero", 0, "On CUDA stream=0 is ambiguous and refused.", False, True)


# ------------------------------------------------------------------------------------------------------------------ copy

_COPY = f"{_METHOD}, copy"


@case("producer.copy.none", "copy=None shares the memory if possible.", _COPY)
def _(p: Producer) -> None:
    array = p.make()
    first, second = p.export(array, copy=None), p.export(array, copy=None)
    expect(first.pointer == second.pointer, "the same memory in each export", "two addresses")
    first.release()
    second.release()


@case("producer.copy.false", "copy=False shares the memory.", _COPY)
def _(p: Producer) -> None:
    array = p.make()
    first, second = p.export(array), p.export(array, copy=False)
    expect(first.pointer == second.pointer, "the array's memory", "another address")
    p.expect_elements(second, (2, 3), "float32")
    first.release()
    second.release()


@case("producer.copy.false-flag", "copy=False does not set IS_COPIED.", _COPY)
def _(p: Producer) -> None:
    taken = p.export_versioned(p.make(), copy=False)
    expect_equal(taken.flags & structs.IS_COPIED, 0, "IS_COPIED")
    taken.release()


@case("producer.copy.true", "copy=True always copies.", _COPY)
def _(p: Producer) -> None:
    array = p.make()
    shared, copied = p.export(array), p.export(array, copy=True)
    expect(shared.pointer != copied.pointer, "memory of its own", "the array's memory")
    p.expect_elements(copied, (2, 3), "float32")
    shared.release()
    copied.release()


def _copied(p: Producer, export: Any, array: Any) -> Any:
    """A copy. That it can be made is another case."""
    try:
        return export(array, copy=True)
    except (Failure, NotApplicable):
        raise
    except Exception as error:
        raise NotApplicable(f"copy=True: {name_error(error)}") from None


@case("producer.copy.true-flag", "copy=True sets IS_COPIED.", _COPY)
def _(p: Producer) -> None:
    taken = _copied(p, p.export_versioned, p.make())
    expect_equal(taken.flags & structs.IS_COPIED, structs.IS_COPIED, "IS_COPIED")
    taken.release()


@case("producer.copy.independent", "What the consumer writes into a copy does not change the array.", _FLAGS)
def _(p: Producer) -> None:
    array = p.make()
    copied = _copied(p, p.export, array)
    memory.write(copied.pointer, b"\xff" * 24, copied.tensor.device_type)
    shared = p.export(array)
    p.expect_elements(shared, (2, 3), "float32")
    shared.release()
    copied.release()


@case("producer.copy.legacy", "copy=True copies in a legacy capsule too.", _COPY)
def _(p: Producer) -> None:
    array = p.make()
    shared, copied = p.export(array), _copied(p, p.export_legacy, array)
    expect(shared.pointer != copied.pointer, "memory of its own", "the array's memory")
    p.expect_elements(copied, (2, 3), "float32")
    shared.release()
    copied.release()


@case("producer.copy.strided", "copy=True copies an array with gaps: the elements stay the same.", _COPY)
def _(p: Producer) -> None:
    array = p.make((3, 4), "float32", "strided")
    copied = _copied(p, p.export, array)
    p.expect_elements(copied, (3, 4), "float32")
    copied.release()


@case("producer.copy.readonly", "copy=True copies a read-only array, and sets IS_COPIED.", _COPY)
def _(p: Producer) -> None:
    array = p.make(layout="readonly")
    copied = _copied(p, p.export_versioned, array)
    p.expect_elements(copied, (2, 3), "float32")
    expect_equal(copied.flags & structs.IS_COPIED, structs.IS_COPIED, "IS_COPIED")
    copied.release()


@case("producer.copy.released", "The deleter releases a copy.", _DELETER)
def _(p: Producer) -> None:
    array = p.make((_SIZE,))
    expect_no_growth(lambda: _copied(p, p.export, array).release(), _SIZE * 4, "copies")


# ------------------------------------------------------------------------------------------------------------- dl_device

_WHERE = f"{_METHOD}, dl_device"


@case("producer.dl-device.own", "dl_device=array.__dlpack_device__() shares the memory.", _WHERE)
def _(p: Producer) -> None:
    array = p.make()
    first, second = p.export(array), p.export(array, dl_device=array.__dlpack_device__())
    expect(first.pointer == second.pointer, "the array's memory", "another address")
    first.release()
    second.release()


@case("producer.dl-device.integers", "dl_device may be a tuple of plain integers.", _WHERE)
def _(p: Producer) -> None:
    array = p.make()
    taken = p.export(array, dl_device=device_of(array))
    expect_equal((taken.tensor.device_type, taken.tensor.device_id), device_of(array), "the device")
    taken.release()


@case("producer.dl-device.enum", "The device type in dl_device may be an Enum with an integer value.", _WHERE)
def _(p: Producer) -> None:
    array = p.make()
    kind, number = device_of(array)
    Device: Any = enum.IntEnum("Device", {"OWN": kind})
    taken = p.export(array, dl_device=(Device.OWN, number))
    expect_equal((taken.tensor.device_type, taken.tensor.device_id), (kind, number), "the device")
    taken.release()


def _add_elsewhere(id: str, where: tuple[int, int], rule: str, **keywords: Any) -> None:
    @case(f"producer.dl-device.{id}", rule, _WHERE)
    def _(p: Producer) -> None:
        error = raised(lambda: p.export(p.make(), dl_device=where, **keywords).release())
        came = name_error(error) if error else "a capsule"
        expect(isinstance(error, BufferError), "BufferError", came)


_add_elsewhere("unsupported", (structs.EXTENSION, 0), "A device type that the producer does not support is a BufferError.")
_add_elsewhere("unknown", (99, 0), "A device type that DLPack does not define is a BufferError.")
_add_elsewhere("no-copy", (structs.EXTENSION, 0), "Another device with copy=False is a BufferError.", copy=False)


@case("producer.dl-device.type", "A dl_device that is not a pair is refused with an exception.", _WHERE)
def _(p: Producer) -> None:
    error = raised(lambda: p.export(p.make(), dl_device="cpu").release())
    expect(error is not None, "an exception", "a capsule")


@case("producer.dl-device.to-cpu", "An array of another device can be exported to the CPU: a copy, with IS_COPIED.", _WHERE)
def _(p: Producer) -> None:
    _on_cuda(p)
    try:
        taken = p.export(p.make(), dl_device=(structs.CPU, 0), max_version=NEWEST)
    except BufferError as error:
        raise Refused(name_error(error)) from None
    expect_equal((taken.tensor.device_type, taken.tensor.device_id), (structs.CPU, 0), "the device")
    p.expect_elements(taken, (2, 3), "float32")
    if taken.versioned:
        expect_equal(taken.flags & structs.IS_COPIED, structs.IS_COPIED, "IS_COPIED")
    taken.release()


# ---------------------------------------------------------------------------------------------------- __dlpack_device__


@case("producer.device.pair", "__dlpack_device__ returns a tuple of two.", _DEVICE)
def _(p: Producer) -> None:
    where = p.make().__dlpack_device__()
    expect(isinstance(where, tuple) and len(where) == 2, "a tuple of two", repr(where))


@case("producer.device.integers", "Device type and device id are integers, or an Enum with an integer value.", _DEVICE)
def _(p: Producer) -> None:
    kind, number = p.make().__dlpack_device__()
    kind = kind.value if isinstance(kind, enum.Enum) else kind
    expect(isinstance(kind, int) and isinstance(number, int), "two integers", (kind, number))


@case("producer.device.known", "The device type is one that DLPack defines.", f"{HEADER}: DLDeviceType")
def _(p: Producer) -> None:
    kind = p.make().__dlpack_device__()[0]
    kind = kind.value if isinstance(kind, enum.Enum) else kind
    expect(kind in structs.DEVICE_TYPES, "a device type of DLPack", kind)


@case("producer.device.cpu", "An array on the CPU is on device (1, 0).", f"{HEADER}: DLDevice.device_id")
def _(p: Producer) -> None:
    if not p.on_cpu:
        raise NotApplicable("the arrays are not on the CPU")
    expect_equal(device_of(p.make()), (1, 0), "the device")


@case("producer.device.empty", "__dlpack_device__ works for arrays without elements and without dimensions.", _DEVICE)
def _(p: Producer) -> None:
    for shape in ((0,), ()):
        expect_equal(device_of(p.make(shape)), device_of(p.make()), "the device")


@case("producer.device.exported", "__dlpack_device__ returns the same while exports are alive.", _DEVICE)
def _(p: Producer) -> None:
    array = p.make()
    before = device_of(array)
    taken = p.export(array)
    expect_equal(device_of(array), before, "the device")
    taken.release()
    expect_equal(device_of(array), before, "the device")
