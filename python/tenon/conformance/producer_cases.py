"""The rules for producers: capsules, structs, dtypes, layouts, deleters. request_cases.py has those for the keywords."""

from __future__ import annotations

import ctypes
import gc
import random
import sys
import threading
from typing import Any, Optional

from . import memory, structs
from .case import HEADER, PAGE, STANDARD, Failure, Leak, NotApplicable, Refused, Registry
from .parties import NEWEST, Producer, device_of, expect, expect_equal, expect_no_growth, name_error, raised, references, show

case = Registry("producer")
_METHOD = f"{STANDARD}: array.__dlpack__"
_DEVICE = f"{STANDARD}: array.__dlpack_device__"
_VERSION = f"{HEADER}: DLPackVersion"
_TENSOR = f"{HEADER}: DLTensor"
_DTYPE = f"{HEADER}: DLDataType"
_FLAGS = f"{HEADER}: DLManagedTensorVersioned.flags"
_DELETER = f"{HEADER}: DLManagedTensorVersioned.deleter"
_CAPSULE = f"{PAGE}: Implementation"
_SIZE = 1 << 18  # elements of float32: 1 MiB


# ------------------------------------------------------------------------------------------------------------- capsules


@case("producer.capsule.type", "__dlpack__ returns a PyCapsule.", _METHOD)
def _(p: Producer) -> None:
    capsule = p.capsule(p.make())
    expect(type(capsule) is structs.Capsule, "a PyCapsule", type(capsule).__name__)


def _named(p: Producer, **keywords: Any) -> Optional[bytes]:
    capsule = p.make().__dlpack__(**keywords)
    expect(type(capsule) is structs.Capsule, "a PyCapsule", type(capsule).__name__)
    return structs.capsule_name(capsule)


def _expect_legacy(p: Producer, **keywords: Any) -> None:
    try:
        name = _named(p, **keywords)
    except BufferError as error:
        raise Refused(name_error(error)) from None
    expect(name == structs.LEGACY, "a capsule named 'dltensor', or BufferError", f"the name {name!r}")


@case("producer.capsule.legacy-name", "Without max_version, the capsule is named 'dltensor', or BufferError is raised.", _METHOD)
def _(p: Producer) -> None:
    _expect_legacy(p)


@case("producer.capsule.none-name", "max_version=None means the same as no max_version.", _METHOD)
def _(p: Producer) -> None:
    _expect_legacy(p, max_version=None)


@case("producer.capsule.versioned-name", "With max_version=(1, 0), the capsule is named 'dltensor_versioned' (recommended).", _METHOD)
def _(p: Producer) -> None:
    name = _named(p, max_version=(1, 0))
    if name == structs.LEGACY:
        raise Refused("a legacy capsule")
    expect(name == structs.VERSIONED, "a capsule named 'dltensor_versioned'", f"the name {name!r}")


@case("producer.capsule.old-consumer", "With max_version=(0, 8), the capsule is a legacy one, or BufferError is raised.", _METHOD)
def _(p: Producer) -> None:
    _expect_legacy(p, max_version=(0, 8))


def _add_version(id: str, maximum: tuple[int, int], words: str) -> None:
    @case(f"producer.max-version.{id}", f"max_version={maximum}, {words}: the array is exported, with major version 1.", _METHOD)
    def _(p: Producer) -> None:
        taken = p.export(p.make(), max_version=maximum)
        if taken.versioned:
            expect_equal(taken.version[0], 1, "major version")
        p.expect_elements(taken, (2, 3), "float32")
        taken.release()


_add_version("1.0", (1, 0), "the first one with the versioned struct")
_add_version("1.3", (1, 3), "the newest one")
_add_version("later-minor", (1, 99), "of a newer consumer")
_add_version("later-major", (2, 0), "of a consumer with a newer ABI")


@case("producer.keywords", "__dlpack__ takes stream, max_version, dl_device and copy by keyword, each with None.", _METHOD)
def _(p: Producer) -> None:
    keywords = {"stream": None, "max_version": NEWEST, "dl_device": None, "copy": None}
    p.export(p.make(), **keywords).release()


@case("producer.capsule.fresh", "Each call returns a new capsule with a struct of its own, since each is consumed once.", _CAPSULE)
def _(p: Producer) -> None:
    array = p.make()
    first, second = p.capsule(array), p.capsule(array)
    expect(first is not second, "two capsules", "the same capsule twice")
    one, two = p.export(array), p.export(array)
    expect(one.address != two.address, "two structs", "the same struct twice")
    one.release()
    p.expect_elements(two, (2, 3), "float32")
    two.release()


@case("producer.capsule.static-name", "The capsule's name is statically allocated: it outlives the array.", _CAPSULE)
def _(p: Producer) -> None:
    array = p.make()
    capsule = p.capsule(array)
    before = structs.capsule_name(capsule)
    del array
    gc.collect()
    expect_equal(structs.capsule_name(capsule), before, "the name")


@case("producer.capsule.destructor", "The capsule has a destructor.", _CAPSULE)
def _(p: Producer) -> None:
    expect(structs.capsule_destructor(p.capsule(p.make())), "a destructor", "NULL")


def _add_unconsumed(id: str, keywords: dict[str, Any]) -> None:
    @case(f"producer.capsule.unconsumed-{id}", f"A {id} capsule that no consumer takes releases the array.", _CAPSULE)
    def _(p: Producer) -> None:
        if id == "legacy":
            p.export_legacy(p.make()).release()

        def repeat() -> None:
            p.make((_SIZE,)).__dlpack__(**keywords)

        expect_no_growth(repeat, _SIZE * 4, "unused capsules")


_add_unconsumed("legacy", {"max_version": None})
_add_unconsumed("versioned", {"max_version": NEWEST})


def _add_consumed(id: str) -> None:
    @case(f"producer.capsule.consumed-{id}", f"The destructor of a consumed {id} capsule does not call the deleter.", _CAPSULE)
    def _(p: Producer) -> None:
        array = p.make()
        taken = p.export_legacy(array) if id == "legacy" else p.export_versioned(array)
        taken.release()
        capsule = array.__dlpack__(**({} if id == "legacy" else {"max_version": NEWEST}))
        calls: list[int] = []
        hook = structs.DELETER(calls.append)
        name = structs.capsule_name(capsule) or b""
        kind: Any = structs.Versioned if name == structs.VERSIONED else structs.Legacy
        managed = kind.from_address(structs.capsule_pointer(capsule, name))
        real, managed.deleter = managed.deleter, ctypes.cast(hook, ctypes.c_void_p).value
        structs.rename_capsule(capsule, structs.USED[name])
        del capsule, array
        gc.collect()
        expect(not calls, "the deleter is left to the consumer", "the destructor called it")
        elements = memory.read_elements(managed.tensor)
        wanted = [structs.pattern("float32", i) for i in range(6)]
        expect(elements == wanted, f"the elements {show(wanted)}", show(elements))
        managed.deleter = real
        if real:
            structs.DELETER(real)(ctypes.addressof(managed))


_add_consumed("legacy")
_add_consumed("versioned")


@case(
    "producer.capsule.pending-exception",
    "A capsule that is destroyed while an exception is pending does not replace the exception.",
    _CAPSULE,
)
def _(p: Producer) -> None:
    array = p.make()
    messages = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda found: messages.append(repr(found.exc_value))
    try:
        error = raised(lambda: int(p.capsule(array)))  # the argument is dropped while the TypeError is pending
    finally:
        sys.unraisablehook = hook
    expect(type(error) is TypeError and "int()" in str(error), "the TypeError of int()", name_error(error) if error else "nothing")
    expect(not messages, "no other exception", ", ".join(messages))


# --------------------------------------------------------------------------------------------------------------- struct


@case("producer.version.major", "The major version of a versioned struct is 1.", _VERSION)
def _(p: Producer) -> None:
    taken = p.export_versioned(p.make())
    expect_equal(taken.version[0], 1, "major version")
    taken.release()


@case("producer.version.minor", "The minor version is one that DLPack has had: 0 to 3.", _VERSION)
def _(p: Producer) -> None:
    taken = p.export_versioned(p.make())
    expect(taken.version[1] <= 3, "a minor version from 0 to 3", taken.version[1])
    taken.release()


@case("producer.version.covers-dtype", "A dtype that came with DLPack 1.1 (fp8) is exported as version 1.1 or newer.", _VERSION)
def _(p: Producer) -> None:
    try:
        taken = p.export_versioned(p.make((4,), "float8_e4m3fn"))
    except BufferError as error:
        raise NotApplicable(name_error(error)) from None
    expect(taken.version >= (1, 1), "version 1.1 or newer", taken.version)
    taken.release()


def _add_field(id: str, rule: str, source: str, check: Any, layout: Optional[str] = None) -> None:
    """A rule about the struct of a plain array of float32[2, 3]."""

    @case(id, rule, source)
    def _(p: Producer) -> None:
        array = p.make(layout=layout)
        taken = p.export(array)
        check(array, taken)
        taken.release()


def _strides_present(array: Any, taken: Any) -> None:
    if taken.tensor.strides or not taken.versioned or taken.version < (1, 2):
        return
    raise Failure("strides that are not NULL, as in DLPack 1.2 and newer", f"NULL, in version {taken.version}")


def _aligned(array: Any, taken: Any) -> None:
    expect((taken.tensor.data or 0) % 4 == 0, "data that is aligned to its elements", hex(taken.tensor.data or 0))
    if (taken.tensor.data or 0) % 256:
        raise Refused(f"data is aligned to {(taken.tensor.data & -taken.tensor.data)} bytes; the header's note permits it")


def _same_device(array: Any, taken: Any) -> None:
    expect_equal((taken.tensor.device_type, taken.tensor.device_id), device_of(array), "the device")


_add_field("producer.struct.ndim", "ndim is the number of dimensions.", _TENSOR, lambda a, t: expect_equal(t.tensor.ndim, 2, "ndim"))
_add_field("producer.struct.shape", "shape has the size of each dimension.", _TENSOR, lambda a, t: expect_equal(t.shape, (2, 3), "shape"))
_add_field("producer.struct.strides-present", "strides is not NULL in DLPack 1.2 and newer.", f"{_TENSOR}.strides", _strides_present)
_add_field(
    "producer.struct.strides",
    "strides are in elements, not bytes.",
    f"{_TENSOR}.strides",
    lambda a, t: expect_equal(t.strides or (3, 1), (3, 1), "strides"),
)
_add_field("producer.struct.lanes", "An ordinary dtype has one lane.", _DTYPE, lambda a, t: expect_equal(t.tensor.lanes, 1, "lanes"))
_add_field(
    "producer.struct.data",
    "data is not NULL if the array has elements.",
    f"{_TENSOR}.data",
    lambda a, t: expect(t.pointer, "an address", "NULL"),
)
_add_field("producer.struct.alignment", "data is aligned to 256 bytes, or at least to its elements (the header knows libraries that do so).", f"{_TENSOR}.data", _aligned)
_add_field("producer.struct.device", "The device in the struct is the one that __dlpack_device__ returns.", _DEVICE, _same_device)
_add_field(
    "producer.flags.unknown",
    "No flag is set that DLPack does not define.",
    _FLAGS,
    lambda a, t: expect_equal(t.flags & ~7, 0, "other flags"),
)
_add_field(
    "producer.flags.copied",
    "Without a copy, the flag IS_COPIED is not set.",
    _FLAGS,
    lambda a, t: expect_equal(t.flags & structs.IS_COPIED, 0, "IS_COPIED"),
)
_add_field(
    "producer.flags.padded",
    "IS_SUBBYTE_TYPE_PADDED is not set for dtypes of whole bytes.",
    _FLAGS,
    lambda a, t: expect_equal(t.flags & structs.IS_PADDED, 0, "IS_SUBBYTE_TYPE_PADDED"),
)


@case("producer.flags.writable", "READ_ONLY is not set for an array that can be written to.", _FLAGS)
def _(p: Producer) -> None:
    taken = p.export_versioned(p.make(layout="writable"))
    expect_equal(taken.flags & structs.READ_ONLY, 0, "READ_ONLY")
    taken.release()


@case("producer.struct.outlives-array", "Struct, shape, strides and elements stay valid after the array is gone.", _CAPSULE)
def _(p: Producer) -> None:
    array = p.make((4, 5))
    taken = p.export(array)
    before = taken.strides
    del array
    gc.collect()
    others = [p.make((4, 5), "int32") for _ in range(50)]  # they would use freed memory
    p.expect_elements(taken, (4, 5), "float32")
    expect_equal(taken.strides, before, "strides")
    del others
    taken.release()


@case("producer.struct.byte-order", "An array that is not in native byte order is refused with an error.", _DTYPE)
def _(p: Producer) -> None:
    error = raised(p.export, p.make(layout="byteswapped"))
    expect(error is not None, "an exception", "a capsule")
    expect(isinstance(error, BufferError), "BufferError", name_error(error) if error else "")


# --------------------------------------------------------------------------------------------------------------- shapes


def _add_shape(id: str, shape: tuple[int, ...], words: str) -> None:
    @case(f"producer.shape.{id}", f"An array of {words} is exported with its shape and elements.", _TENSOR)
    def _(p: Producer) -> None:
        array = p.make(shape)
        taken = p.export(array)
        p.expect_elements(taken, shape, "float32")
        taken.release()


_add_shape("scalar", (), "no dimensions")
_add_shape("one", (1,), "one element")
_add_shape("ones", (1, 1, 1), "three dimensions of size 1")
_add_shape("one-in-the-middle", (2, 1, 3), "a dimension of size 1 between others")
_add_shape("empty", (0,), "size 0")
_add_shape("empty-inside", (2, 0, 3), "three dimensions, one of size 0")
_add_shape("three-dimensions", (2, 3, 4), "three dimensions")
_add_shape("eight-dimensions", (1, 2, 1, 2, 1, 2, 1, 2), "eight dimensions")
_add_shape("long", (1000,), "1,000 elements")


@case("producer.shape.empty-data", "data is NULL if the array has no elements (recommended).", f"{_TENSOR}.data")
def _(p: Producer) -> None:
    taken = p.export(p.make((0,)))
    expect_equal(taken.shape, (0,), "the shape")
    data = taken.tensor.data
    taken.release()
    if data:
        raise Refused("data is not NULL")


# --------------------------------------------------------------------------------------------------------------- dtypes


def _add_dtype(name: str) -> None:
    code, bits = structs.DTYPES[name]

    @case(f"producer.dtype.{name}", f"{name} has code {code}, {bits} bits and one lane, and the right elements.", _DTYPE)
    def _(p: Producer) -> None:
        taken = p.export_or_refuse(p.make((4,), name))
        expect_equal((taken.tensor.code, taken.tensor.bits, taken.tensor.lanes), (code, bits, 1), "(code, bits, lanes)")
        p.expect_elements(taken, (4,), name)
        taken.release()


for _name in structs.DTYPES:
    _add_dtype(_name)


# --------------------------------------------------------------------------------------------------------------- layouts


def _add_layout(id: str, layout: str, words: str) -> None:
    @case(f"producer.layout.{id}", f"An array with {words} is exported as it is, or refused with BufferError.", f"{_TENSOR}.strides")
    def _(p: Producer) -> None:
        taken = p.export_or_refuse(p.make((3, 4), "float32", layout))
        p.expect_elements(taken, (3, 4), "float32", layout)
        taken.release()


_add_layout("column-major", "F", "column-major order")
_add_layout("gaps", "strided", "gaps between its elements")
_add_layout("negative", "reversed", "negative strides")
_add_layout("zero", "broadcast", "a stride of 0")
_add_layout("overlapping", "overlapping", "overlapping rows")


@case("producer.layout.offset", "data + byte_offset is the first element of an array that begins inside an allocation.", f"{_TENSOR}.byte_offset")
def _(p: Producer) -> None:
    taken = p.export_or_refuse(p.make((3, 4), "float32", "offset"))
    p.expect_elements(taken, (3, 4), "float32")
    taken.release()


@case("producer.layout.no-copy", "An array with gaps is exported without a copy.", f"{PAGE}: Semantics")
def _(p: Producer) -> None:
    array = p.make((3, 4), "float32", "strided")
    first, second = p.export_or_refuse(array), p.export_or_refuse(array)
    expect(first.pointer == second.pointer, "the same memory in each export", "two addresses")
    first.release()
    second.release()


# -------------------------------------------------------------------------------------------------------------- deleters


@case("producer.deleter.releases", "The deleter releases the array.", _DELETER)
def _(p: Producer) -> None:
    expect_no_growth(lambda: p.export(p.make((_SIZE,))).release(), _SIZE * 4, "exports")


@case("producer.deleter.releases-legacy", "The deleter of a legacy struct releases the array.", f"{HEADER}: DLManagedTensor.deleter")
def _(p: Producer) -> None:
    expect_no_growth(lambda: p.export_legacy(p.make((_SIZE,))).release(), _SIZE * 4, "exports")


@case("producer.deleter.references", "Exports that are released leave no references to the array.", _DELETER)
def _(p: Producer) -> None:
    array = p.make()
    p.export(array).release()
    gc.collect()
    before = references(array)
    for _ in range(200):
        p.export(array).release()
    gc.collect()
    grown = references(array) - before
    if grown > 0:
        raise Leak("as many references as before", f"{grown} more after 200 exports")
    expect(grown == 0, "as many references as before", f"{-grown} fewer after 200 exports")


@case("producer.deleter.after-array", "The export keeps the memory alive until its deleter is called.", f"{PAGE}: Semantics")
def _(p: Producer) -> None:
    array = p.make((64,))
    taken = p.export(array)
    del array
    gc.collect()
    others = [p.make((64,), "int32") for _ in range(50)]
    p.expect_elements(taken, (64,), "float32")
    del others
    taken.release()


@case("producer.deleter.before-array", "The array can still be used after its export is released.", f"{PAGE}: Semantics")
def _(p: Producer) -> None:
    array = p.make((64,))
    p.export(array).release()
    gc.collect()
    others = [p.make((64,), "int32") for _ in range(50)]
    taken = p.export(array)
    p.expect_elements(taken, (64,), "float32")
    del others
    taken.release()


@case("producer.deleter.other-thread", "The deleter can be called on another thread of Python.", _CAPSULE)
def _(p: Producer) -> None:
    array = p.make((64,))
    exports = [p.export(array) for _ in range(8)]
    threads = [threading.Thread(target=taken.release) for taken in exports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = p.export(array)
    p.expect_elements(taken, (64,), "float32")
    taken.release()


@case("producer.deleter.foreign-thread", "The deleter can be called on a thread that Python does not know, without its lock.", _CAPSULE)
def _(p: Producer) -> None:
    create = getattr(ctypes.CDLL(None), "pthread_create", None) if sys.platform != "win32" else None
    if create is None:
        raise NotApplicable("this system has no pthread_create")
    join = ctypes.CDLL(None).pthread_join
    array = p.make((64,))
    for _ in range(4):
        taken = p.export(array)
        thread = ctypes.c_void_p()
        # The deleter itself is the thread's function: nothing of Python runs on it.
        if create(ctypes.byref(thread), None, ctypes.c_void_p(taken.managed.deleter), ctypes.c_void_p(taken.address)):
            raise NotApplicable("pthread_create failed")
        join(thread, None)
    last = p.export(array)
    p.expect_elements(last, (64,), "float32")
    last.release()


# ------------------------------------------------------------------------------------------------------- many, re-export


@case("producer.many.alive", "Many exports can be alive at once, and be released in any order.", _CAPSULE)
def _(p: Producer) -> None:
    array = p.make((64,))
    exports = [p.export(array) for _ in range(100)]
    random.Random(0).shuffle(exports)
    for i, taken in enumerate(exports):
        if i % 10 == 0:
            p.expect_elements(taken, (64,), "float32")
        taken.release()
    last = p.export(array)
    p.expect_elements(last, (64,), "float32")
    last.release()


@case("producer.many.arrays", "Exports of many arrays are independent of each other.", _CAPSULE)
def _(p: Producer) -> None:
    shapes = [(i + 1,) for i in range(50)]
    exports = [p.export(p.make(shape)) for shape in shapes]
    for shape, taken in list(zip(shapes, exports))[::2]:
        taken.release()
    for shape, taken in list(zip(shapes, exports))[1::2]:
        p.expect_elements(taken, shape, "float32")
        taken.release()


@case("producer.many.threads", "Several threads can export one array at the same time.", _CAPSULE)
def _(p: Producer) -> None:
    array, errors = p.make((64,)), []

    def work() -> None:
        try:
            for _ in range(50):
                taken = p.export(array)
                p.expect_elements(taken, (64,), "float32")
                taken.release()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@case("producer.re-export", "A later export of the array shows the same memory.", f"{PAGE}: Semantics")
def _(p: Producer) -> None:
    array = p.make()
    first = p.export(array)
    second = p.export(array)
    expect(first.pointer == second.pointer, "the same memory in each export", "two addresses")
    first.release()
    third = p.export(array)
    expect(second.pointer == third.pointer, "the same memory in each export", "two addresses")
    second.release()
    third.release()


@case("producer.re-export.legacy", "Legacy and versioned exports show the same memory.", f"{PAGE}: Semantics")
def _(p: Producer) -> None:
    array = p.make()
    old, new = p.export_legacy(array), p.export_versioned(array)
    expect(old.pointer == new.pointer, "the same memory in both exports", "two addresses")
    old.release()
    new.release()


# ------------------------------------------------------------------------------------------------- special arrays


@case("producer.readonly.flag", "READ_ONLY is set for a read-only array, or BufferError is raised.", _FLAGS)
def _(p: Producer) -> None:
    array = p.make(layout="readonly")
    try:
        taken = p.export_versioned(array)
    except BufferError as error:
        raise Refused(name_error(error)) from None
    flags = taken.flags
    taken.release()
    expect_equal(flags & structs.READ_ONLY, structs.READ_ONLY, "READ_ONLY")


@case("producer.readonly.elements", "A read-only array is exported with its elements.", _TENSOR)
def _(p: Producer) -> None:
    taken = p.export_or_refuse(p.make(layout="readonly"))
    p.expect_elements(taken, (2, 3), "float32")
    taken.release()


@case("producer.requires-grad", "An array that records gradients is exported, or refused with BufferError.", _METHOD)
def _(p: Producer) -> None:
    taken = p.export_or_refuse(p.make(layout="requires_grad"))
    p.expect_elements(taken, (2, 3), "float32")
    taken.release()
