"""The rules for the exchange table of a producer's type, `__dlpack_c_exchange_api__`, and each of its functions."""

from __future__ import annotations

import ctypes
import gc
import threading
from typing import Any, Optional

from . import memory, structs
from .case import EXCHANGE, Failure, NotApplicable, Refused, Registry
from .describe import Taken, address_of
from .made_producers import Made
from .parties import Producer, device_of, expect, expect_equal, expect_no_growth, expect_released, name_error, raised, references

case = Registry("producer")
_TABLE = f"{EXCHANGE}: DLPackExchangeAPI"
_HEADER = f"{EXCHANGE}: DLPackExchangeAPIHeader"
_FROM = f"{EXCHANGE}: DLPackManagedTensorFromPyObjectNoSync"
_TO = f"{EXCHANGE}: DLPackManagedTensorToPyObjectNoSync"
_BORROW = f"{EXCHANGE}: DLPackDLTensorFromPyObjectNoSync"
_ALLOCATE = f"{EXCHANGE}: DLPackManagedTensorAllocator"
_STREAM = f"{EXCHANGE}: DLPackCurrentWorkStream"
_SIZE = 1 << 18


def _capsule(array: Any) -> Any:
    found = getattr(type(array), "__dlpack_c_exchange_api__", None)
    if found is None:
        raise NotApplicable("the type has no exchange table, which is optional")
    return found


def _address(array: Any) -> int:
    capsule = _capsule(array)
    expect(type(capsule) is structs.Capsule, "a PyCapsule", type(capsule).__name__)
    name = structs.capsule_name(capsule)
    expect(name == structs.TABLE, "a capsule named 'dlpack_exchange_api'", f"the name {name!r}")
    return int(structs.capsule_pointer(capsule, structs.TABLE))


def _table(array: Any) -> structs.Exchange:
    return structs.Exchange.from_address(_address(array))


def _function(array: Any, name: str, kind: Any) -> Any:
    """A function of the table. The optional one may be NULL."""
    address = getattr(_table(array), name)
    if not address:
        if name == "borrow":
            raise NotApplicable("dltensor_from_py_object_no_sync is NULL, which is permitted")
        raise Failure("a function", "NULL")
    return kind(address)


class _Managed(Taken):
    """A struct of the table, which is always versioned."""

    def __init__(self, address: int) -> None:
        self.versioned, self.address = True, address
        self.managed = structs.Versioned.from_address(address)


def _export(array: Any) -> _Managed:
    out = ctypes.c_void_p()
    status = _function(array, "from_object", structs.FROM_OBJECT)(array, ctypes.byref(out))
    expect(status == 0 and out.value, "0 and a tensor", f"{status} and {out.value or 'NULL'}")
    return _Managed(out.value or 0)


def _import(array: Any, made: Made) -> Any:
    """An object of the array's type on the made tensor."""
    out = ctypes.c_void_p()
    export = made.export()
    status = _function(array, "to_object", structs.TO_OBJECT)(ctypes.addressof(export.managed), ctypes.byref(out))
    expect(status == 0 and out.value, "0 and an object", f"{status} and {out.value or 'NULL'}")
    result = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(result))  # `out` owned a reference
    return result


def _import_or_refuse(array: Any, made: Made) -> Any:
    try:
        return _import(array, made)
    except (Failure, NotApplicable):
        raise
    except Exception as error:
        raise Refused(name_error(error)) from None


def _made(p: Producer, *arguments: Any, **keywords: Any) -> Made:
    return Made(*arguments, device_type=structs.CPU if p.on_cpu else structs.CUDA, **keywords)


# ------------------------------------------------------------------------------------------------------------- the table


@case("table.capsule", "__dlpack_c_exchange_api__ is a PyCapsule.", _TABLE)
def _(p: Producer) -> None:
    expect(type(_capsule(p.make())) is structs.Capsule, "a PyCapsule", type(_capsule(p.make())).__name__)


@case("table.name", "The capsule is named 'dlpack_exchange_api'.", _TABLE)
def _(p: Producer) -> None:
    _address(p.make())


@case("table.static", "The table is the same for all arrays of a type, and stays alive.", _TABLE)
def _(p: Producer) -> None:
    first = _address(p.make())
    gc.collect()
    expect_equal(_address(p.make((4,), "int32")), first, "the address")


@case("table.major", "The major version of the table is 1.", _HEADER)
def _(p: Producer) -> None:
    expect_equal(_table(p.make()).major, 1, "major version")


@case("table.minor", "The capsule came with DLPack 1.3: the minor version is at least 3.", _HEADER)
def _(p: Producer) -> None:
    minor = _table(p.make()).minor
    expect(minor >= 3, "at least 3", minor)


@case("table.previous", "prev_api is NULL, or a table of an older major version.", _HEADER)
def _(p: Producer) -> None:
    table = _table(p.make())
    if table.previous:
        older = structs.Exchange.from_address(table.previous).major
        expect(older < table.major, f"a major version below {table.major}", older)


for _name, _words in (
    ("allocate", "managed_tensor_allocator"),
    ("from_object", "managed_tensor_from_py_object_no_sync"),
    ("to_object", "managed_tensor_to_py_object_no_sync"),
    ("stream", "current_work_stream"),
):

    def _add(name: str, words: str) -> None:
        @case(f"table.present.{words.replace('_', '-')}", f"{words} is not NULL.", _TABLE)
        def _(p: Producer) -> None:
            expect(getattr(_table(p.make()), name), "a function", "NULL")

    _add(_name, _words)


# ------------------------------------------------------------------------------------------------------ from_py_object


@case("table.from-object", "managed_tensor_from_py_object_no_sync exports the array, without a copy.", _FROM)
def _(p: Producer) -> None:
    array = p.make()
    taken, usual = _export(array), p.export(array)
    p.expect_elements(taken, (2, 3), "float32")
    expect(taken.pointer == usual.pointer, "the address that __dlpack__ gives", "another address")
    usual.release()
    taken.release()


@case("table.from-object.version", "The exported struct has major version 1.", _FROM)
def _(p: Producer) -> None:
    taken = _export(p.make())
    expect_equal(taken.version[0], 1, "major version")
    taken.release()


@case("table.from-object.strides", "strides is not NULL.", _FROM)
def _(p: Producer) -> None:
    taken = _export(p.make())
    expect_equal(taken.strides, (3, 1), "strides")
    taken.release()


@case("table.from-object.device", "The device is that of __dlpack_device__.", _FROM)
def _(p: Producer) -> None:
    array = p.make()
    taken = _export(array)
    expect_equal((taken.tensor.device_type, taken.tensor.device_id), device_of(array), "the device")
    taken.release()


@case("table.from-object.scalar", "An array without dimensions is exported.", _FROM)
def _(p: Producer) -> None:
    taken = _export(p.make(()))
    p.expect_elements(taken, (), "float32")
    taken.release()


@case("table.from-object.empty", "An array without elements is exported.", _FROM)
def _(p: Producer) -> None:
    taken = _export(p.make((2, 0)))
    p.expect_elements(taken, (2, 0), "float32")
    taken.release()


@case("table.from-object.layout", "An array with gaps is exported as it is.", _FROM)
def _(p: Producer) -> None:
    taken = _export(p.make((3, 4), "float32", "strided"))
    p.expect_elements(taken, (3, 4), "float32")
    taken.release()


@case("table.from-object.readonly", "READ_ONLY is set for a read-only array.", _FROM)
def _(p: Producer) -> None:
    taken = _export(p.make(layout="readonly"))
    flags = taken.flags
    taken.release()
    expect_equal(flags & structs.READ_ONLY, structs.READ_ONLY, "READ_ONLY")


@case("table.from-object.keeps", "The export keeps the memory alive until its deleter is called.", _FROM)
def _(p: Producer) -> None:
    array = p.make((64,))
    taken = _export(array)
    del array
    gc.collect()
    others = [p.make((64,), "int32") for _ in range(50)]
    p.expect_elements(taken, (64,), "float32")
    del others
    taken.release()


@case("table.from-object.released", "The deleter releases the array.", _FROM)
def _(p: Producer) -> None:
    _export(p.make()).release()
    expect_no_growth(lambda: _export(p.make((_SIZE,))).release(), _SIZE * 4, "exports")


@case("table.from-object.other-thread", "The deleter can be called on another thread.", _FROM)
def _(p: Producer) -> None:
    array = p.make()
    exports = [_export(array) for _ in range(8)]
    threads = [threading.Thread(target=taken.release) for taken in exports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = _export(array)
    p.expect_elements(last, (2, 3), "float32")
    last.release()


# --------------------------------------------------------------------------------------------------------- to_py_object


@case("table.to-object", "managed_tensor_to_py_object_no_sync returns an array of the type, on the same memory.", _TO)
def _(p: Producer) -> None:
    array, made = p.make(), _made(p)
    result = _import(array, made)
    expect(type(result) is type(array), type(array).__name__, type(result).__name__)
    taken = p.export(result)
    p.expect_elements(taken, (2, 3), "float32")
    expect(taken.pointer == made.address, "the tensor's memory", "another address")
    taken.release()


@case("table.to-object.layout", "Strides are kept.", _TO)
def _(p: Producer) -> None:
    array, made = p.make(), _made(p, (3, 4), "float32", "strided")
    result = _import_or_refuse(array, made)
    taken = p.export(result)
    p.expect_elements(taken, (3, 4), "float32")
    taken.release()


@case("table.to-object.dtype", "The dtype is kept.", _TO)
def _(p: Producer) -> None:
    array, made = p.make(), _made(p, (4,), "int16")
    taken = p.export(_import(array, made))
    p.expect_elements(taken, (4,), "int16")
    taken.release()


@case("table.to-object.readonly", "READ_ONLY is kept (a consumer that does not support it may ignore it).", _TO)
def _(p: Producer) -> None:
    array, made = p.make(), _made(p, flags=structs.READ_ONLY)
    result = _import_or_refuse(array, made)
    taken = p.export(result, max_version=(1, 3))
    flags = taken.flags
    taken.release()
    if not flags & structs.READ_ONLY:
        raise Refused("the flag is ignored")


@case("table.to-object.released", "The tensor is released once, when the object is gone.", _TO)
def _(p: Producer) -> None:
    array, made = p.make(), _made(p)
    result = _import(array, made)
    gc.collect()
    expect_equal(made.releases, 0, "releases while the object is alive:")
    del result
    expect_released(made)


@case("table.to-object.null-deleter", "A tensor whose deleter is NULL is taken.", _TO)
def _(p: Producer) -> None:
    def without_deleter(managed: Any) -> None:
        managed.deleter = None

    array, made = p.make(), _made(p, change=without_deleter)
    result = _import(array, made)
    expect_equal(address_of(result), made.address, "the address")
    del result
    gc.collect()


@case("table.to-object.unknown-dtype", "A tensor of an unknown dtype is refused: -1, and a Python exception.", _TO)
def _(p: Producer) -> None:
    def unknown(managed: Any) -> None:
        managed.tensor.code = 200

    array, made = p.make(), _made(p, change=unknown)
    export, out = made.export(), ctypes.c_void_p()
    convert = _function(array, "to_object", structs.TO_OBJECT)
    error = raised(lambda: convert(ctypes.addressof(export.managed), ctypes.byref(out)))
    expect(error is not None, "a Python exception", "none")


# --------------------------------------------------------------------------------------------------------------- borrow


def _borrow(array: Any) -> structs.DLTensor:
    tensor = structs.DLTensor()
    status = _function(array, "borrow", structs.BORROW)(array, ctypes.byref(tensor))
    expect_equal(status, 0, "the status")
    return tensor


@case("table.borrow", "dltensor_from_py_object_no_sync describes the array.", _BORROW)
def _(p: Producer) -> None:
    array = p.make()
    tensor, usual = _borrow(array), p.export(array)
    expect_equal(tuple(tensor.shape[i] for i in range(tensor.ndim)), (2, 3), "the shape")
    expect_equal(structs.dtype_name(tensor.code, tensor.bits, tensor.lanes), "float32", "the dtype")
    expect((tensor.data or 0) + tensor.byte_offset == usual.pointer, "the address that __dlpack__ gives", "another address")
    usual.release()


@case("table.borrow.strides", "strides is not NULL.", _BORROW)
def _(p: Producer) -> None:
    array = p.make((3, 4), "float32", "strided")
    tensor, usual = _borrow(array), p.export(array)
    expect(tensor.strides, "strides", "NULL")
    expect_equal(tuple(tensor.strides[i] for i in range(2)), usual.strides, "strides")
    usual.release()


@case("table.borrow.device", "The device is that of __dlpack_device__.", _BORROW)
def _(p: Producer) -> None:
    array = p.make()
    tensor = _borrow(array)
    expect_equal((tensor.device_type, tensor.device_id), device_of(array), "the device")


@case("table.borrow.references", "A borrow takes no reference: there is no deleter that could return it.", _BORROW)
def _(p: Producer) -> None:
    array = p.make()
    _borrow(array)
    before = references(array)
    for _ in range(100):
        _borrow(array)
    expect_equal(references(array) - before, 0, "additional references:")


@case("table.borrow.no-growth", "Borrows do not use more and more memory.", _BORROW)
def _(p: Producer) -> None:
    def repeat() -> None:
        array = p.make((_SIZE,))
        for _ in range(4):
            _borrow(array)

    expect_no_growth(repeat, _SIZE * 4, "borrows")


# ------------------------------------------------------------------------------------------------------------ allocator


def _allocate(p: Producer, array: Any, shape: tuple[int, ...], code: int, bits: int) -> tuple[int, Optional[int], list[Any]]:
    """The status, the tensor, and what was reported by SetError. The fields that do not count are nonsense."""
    errors: list[Any] = []
    report = structs.SET_ERROR(lambda context, kind, message: errors.append((kind, message)))
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    prototype = structs.DLTensor()
    prototype.data, prototype.byte_offset = 0x1000, 12345
    prototype.device_type = structs.CPU if p.on_cpu else structs.CUDA
    prototype.ndim, prototype.code, prototype.bits, prototype.lanes = len(shape), code, bits, 1
    prototype.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    out = ctypes.c_void_p()
    allocate = _function(array, "allocate", structs.ALLOCATE)
    status = allocate(ctypes.byref(prototype), ctypes.byref(out), None, report)
    return status, out.value, errors


def _allocated(p: Producer, array: Any, shape: tuple[int, ...], dtype: str = "float32") -> _Managed:
    status, address, errors = _allocate(p, array, shape, *structs.DTYPES[dtype])
    expect(status == 0 and address and not errors, "0 and a tensor", f"{status}, {errors}")
    return _Managed(address or 0)


@case("table.allocator", "managed_tensor_allocator makes a tensor with the prototype's dtype, shape and device.", _ALLOCATE)
def _(p: Producer) -> None:
    array = p.make()
    taken = _allocated(p, array, (4, 5), "int16")
    expect_equal(taken.shape, (4, 5), "the shape")
    expect_equal(taken.dtype, "int16", "the dtype")
    expect_equal((taken.tensor.device_type, taken.tensor.device_id), device_of(array), "the device")
    taken.release()


@case("table.allocator.memory", "The new tensor can be written to.", _ALLOCATE)
def _(p: Producer) -> None:
    taken = _allocated(p, p.make(), (64,))
    data = bytes(range(256))
    memory.write(taken.pointer, data, taken.tensor.device_type)
    expect(memory.read(taken.pointer, 256, taken.tensor.device_type) == data, "the bytes that were written", "others")
    expect_equal(taken.flags & structs.READ_ONLY, 0, "READ_ONLY")
    taken.release()


@case("table.allocator.strides", "strides is not NULL.", _ALLOCATE)
def _(p: Producer) -> None:
    taken = _allocated(p, p.make(), (4, 5))
    expect(taken.strides is not None, "strides", "NULL")
    taken.release()


@case("table.allocator.scalar", "A prototype without dimensions gives one element.", _ALLOCATE)
def _(p: Producer) -> None:
    taken = _allocated(p, p.make(), ())
    expect_equal(taken.shape, (), "the shape")
    taken.release()


@case("table.allocator.empty", "A prototype of size 0 gives a tensor without elements.", _ALLOCATE)
def _(p: Producer) -> None:
    taken = _allocated(p, p.make(), (3, 0))
    expect_equal(taken.shape, (3, 0), "the shape")
    taken.release()


@case("table.allocator.released", "The deleter releases the new tensor.", _ALLOCATE)
def _(p: Producer) -> None:
    array = p.make()

    def repeat() -> None:
        taken = _allocated(p, array, (_SIZE,))
        memory.write(taken.pointer, b"\1" * (_SIZE * 4), taken.tensor.device_type)
        taken.release()

    expect_no_growth(repeat, _SIZE * 4, "tensors")


@case("table.allocator.error", "A failure is reported by SetError, once, and the status is -1.", _ALLOCATE)
def _(p: Producer) -> None:
    status, address, errors = _allocate(p, p.make(), (2, 3), 200, 32)  # a dtype that DLPack does not define
    expect(status == -1 and len(errors) == 1, "-1, and one call of SetError", f"{status}, and {len(errors)} calls")
    kind, message = errors[0]
    expect(kind and message, "a kind and a message", f"{kind!r} and {message!r}")


# --------------------------------------------------------------------------------------------------------------- stream


@case("table.stream", "current_work_stream returns the stream of the array's device, or NULL on the CPU.", _STREAM)
def _(p: Producer) -> None:
    array = p.make()
    out = ctypes.c_void_p(0x1234)
    status = _function(array, "stream", structs.STREAM)(*device_of(array), ctypes.byref(out))
    expect_equal(status, 0, "the status")
    if p.on_cpu:
        expect(out.value != 0x1234, "the stream is set", "it is left as it was")


@case("table.stream.repeated", "current_work_stream returns the same stream while no other becomes the current one.", _STREAM)
def _(p: Producer) -> None:
    array = p.make()
    found = set()
    function = _function(array, "stream", structs.STREAM)
    for _ in range(3):
        out = ctypes.c_void_p()
        expect_equal(function(*device_of(array), ctypes.byref(out)), 0, "the status")
        found.add(out.value)
    expect_equal(len(found), 1, "streams:")
