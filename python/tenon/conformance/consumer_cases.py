"""The rules for consumers: from_dlpack, with well-formed and with unusual producers, which the kit makes."""

from __future__ import annotations

import gc
import threading
from typing import Any, Callable, Optional

from . import memory, structs
from .case import HEADER, PAGE, STANDARD, NotApplicable, Refused, Registry
from .describe import describe
from .made_producers import Made, MadeArray, OldArray, OldestArray
from .parties import Consumer, expect, expect_equal, expect_no_growth, expect_released, show

case = Registry("consumer")
_METHOD = f"{STANDARD}: array.__dlpack__"
_TENSOR = f"{HEADER}: DLTensor"
_VERSION = f"{HEADER}: DLPackVersion"
_DTYPE = f"{HEADER}: DLDataType"
_FLAGS = f"{HEADER}: DLManagedTensorVersioned.flags"
_DELETER = f"{HEADER}: DLManagedTensorVersioned.deleter"
_CAPSULE = f"{PAGE}: Implementation"
_ZERO_COPY = f"{PAGE}: Semantics"


# ----------------------------------------------------------------------------------------------------- well-formed ones


def _add_plain(id: str, rule: str, source: str, versioned: Optional[bool], **keywords: Any) -> None:
    @case(id, rule, source)
    def _(c: Consumer) -> None:
        made = c.made(**keywords)
        c.expect_same(c.take(MadeArray(made, versioned)), made, zero_copy=True)


_add_plain("consumer.capsule.versioned", "A versioned capsule is taken without a copy.", _CAPSULE, True)
_add_plain("consumer.capsule.legacy", "A legacy capsule is taken without a copy, even if a version was asked for.", _METHOD, False)
_add_plain("consumer.capsule.negotiated", "An array that negotiates as the standard has it is taken.", _METHOD, None)


def _add_shape(id: str, shape: tuple[int, ...], words: str, change: Optional[Callable[[Any], None]] = None) -> None:
    @case(f"consumer.shape.{id}", f"An array of {words} is taken with its shape and elements.", _TENSOR)
    def _(c: Consumer) -> None:
        made = c.made(shape, change=change)
        c.expect_same(c.take(MadeArray(made)), made)


def _no_sizes(managed: Any) -> None:
    managed.tensor.shape = managed.tensor.strides = None


def _no_data(managed: Any) -> None:
    managed.tensor.data = None


def _odd_stride(managed: Any) -> None:
    managed.tensor.strides[1] = 12345


_add_shape("scalar", (), "no dimensions")
_add_shape("scalar-null", (), "no dimensions, with shape and strides NULL,", _no_sizes)
_add_shape("one", (1,), "one element")
_add_shape("ones", (1, 1, 1), "three dimensions of size 1")
_add_shape("odd-stride", (2, 1, 3), "a dimension of size 1 with any stride", _odd_stride)
_add_shape("empty", (0,), "size 0, with data not NULL,")
_add_shape("empty-null", (0,), "size 0, with data NULL,", _no_data)
_add_shape("empty-inside", (2, 0, 3), "three dimensions, one of size 0,", _no_data)
_add_shape("three-dimensions", (2, 3, 4), "three dimensions")
_add_shape("eight-dimensions", (1, 2, 1, 2, 1, 2, 1, 2), "eight dimensions")
_add_shape("long", (1000,), "1,000 elements")


def _add_dtype(name: str) -> None:
    @case(f"consumer.dtype.{name}", f"{name} is taken with the right dtype and elements, or refused.", _DTYPE)
    def _(c: Consumer) -> None:
        made = c.made((4,), name)
        result = c.take(MadeArray(made)) if name == "float32" else c.take_or_refuse(MadeArray(made))
        found = describe(result)
        if found is not None:
            expect_equal(found.dtype, name, "the dtype")
            expect(found.elements == made.elements(), f"the elements {show(made.elements())}", show(found.elements))
        if c.address(result) != made.address:
            raise Refused("a copy was made")


for _name in structs.DTYPES:
    _add_dtype(_name)


def _add_layout(id: str, layout: Optional[str], words: str, **keywords: Any) -> None:
    @case(f"consumer.layout.{id}", f"An array with {words} is taken with the right elements, or refused.", f"{_TENSOR}.strides")
    def _(c: Consumer) -> None:
        made = c.made((3, 4), "float32", layout, **keywords)
        c.expect_same(c.take_or_refuse(MadeArray(made)), made)


_add_layout("column-major", "F", "column-major order")
_add_layout("gaps", "strided", "gaps between its elements")
_add_layout("negative", "reversed", "negative strides")
_add_layout("zero", "broadcast", "a stride of 0")
_add_layout("overlapping", "overlapping", "overlapping rows")
_add_layout("unaligned", None, "data that is only aligned to its elements", padding=4)
_add_layout("misaligned", None, "data that is not aligned to its elements", padding=1)


def _add_offset(id: str, versioned: bool) -> None:
    @case(f"consumer.byte-offset.{id}", f"byte_offset is added to data, in a {id} struct.", f"{_TENSOR}.byte_offset")
    def _(c: Consumer) -> None:
        def move(managed: Any) -> None:
            managed.tensor.data = managed.tensor.data - 256
            managed.tensor.byte_offset = 256

        made = c.made(padding=256, change=move)
        c.expect_same(c.take(MadeArray(made, versioned)), made)


_add_offset("versioned", True)
_add_offset("legacy", False)


def _null_strides(managed: Any) -> None:
    managed.tensor.strides = None


@case("consumer.strides.null-legacy", "NULL strides of a legacy struct mean C order.", f"{_TENSOR}.strides")
def _(c: Consumer) -> None:
    made = c.made(change=_null_strides)
    c.expect_same(c.take(MadeArray(made, False)), made)


@case("consumer.strides.null-versioned", "NULL strides before DLPack 1.2 mean C order.", f"{_TENSOR}.strides")
def _(c: Consumer) -> None:
    made = c.made(change=_null_strides, version=(1, 0))
    c.expect_same(c.take(MadeArray(made, True)), made)


# --------------------------------------------------------------------------------------------------------------- flags


@case("consumer.flags.readonly", "READ_ONLY is kept (a consumer that does not support it may ignore it).", _METHOD)
def _(c: Consumer) -> None:
    made = c.made(flags=structs.READ_ONLY)
    result = c.take_or_refuse(MadeArray(made, True))
    c.expect_same(result, made)
    if not c.describe(result).readonly:
        raise Refused("the flag is ignored")


@case("consumer.flags.writable", "An array without READ_ONLY can be taken as one that can be written to.", _FLAGS)
def _(c: Consumer) -> None:
    made = c.made()
    result = c.take(MadeArray(made, True))
    if c.describe(result).readonly:
        raise Refused("the result is read-only")


@case("consumer.flags.copied", "A struct with IS_COPIED is taken as it is.", _FLAGS)
def _(c: Consumer) -> None:
    made = c.made(flags=structs.IS_COPIED)
    c.expect_same(c.take(MadeArray(made, True)), made)


@case("consumer.flags.padded", "An int4 array with IS_SUBBYTE_TYPE_PADDED is taken with the right elements, or refused.", _FLAGS)
def _(c: Consumer) -> None:
    made = c.made((4,), "int4", padded=True)
    result = c.take_or_refuse(MadeArray(made, True))
    found = c.describe(result)
    expect(found.elements == made.elements(), f"the elements {show(made.elements())}", show(found.elements))


@case("consumer.flags.unknown", "A flag of a later version is ignored or refused.", _FLAGS)
def _(c: Consumer) -> None:
    c.expect_same_or_refused(MadeArray(c.made(flags=1 << 40), True))


# ------------------------------------------------------------------------------------------------- how it asks for arrays


@case("consumer.asks.once", "A successful import takes one capsule, and keeps no other.", _CAPSULE)
def _(c: Consumer) -> None:
    made = c.made()
    result = c.take(MadeArray(made))
    gc.collect()
    taken = [export for export in made.exports if export.releases == 0]
    expect(len(taken) <= 1, "one export in use", f"{len(taken)} of {len(made.exports)}")
    del result


@case("consumer.asks.max-version", "max_version, if it is passed, is a pair of integers.", _METHOD)
def _(c: Consumer) -> None:
    array = MadeArray(c.made())
    c.take(array)
    for asked in array.asked:
        if "max_version" in asked and asked["max_version"] is not None:
            pair = asked["max_version"]
            good = isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(n, int) for n in pair)
            expect(good, "a tuple of two integers", repr(pair))
            return
    raise Refused("it is not passed")


@case("consumer.asks.keywords", "Only keywords of the standard are passed.", _METHOD)
def _(c: Consumer) -> None:
    array = MadeArray(c.made())
    c.take(array)
    unknown = {name for asked in array.asked for name in asked} - {"stream", "max_version", "dl_device", "copy"}
    expect(not unknown, "stream, max_version, dl_device, copy", ", ".join(sorted(unknown)))


@case("consumer.asks.stream", "The stream is valid for the array's device: None on the CPU, not 0 on CUDA.", f"{_METHOD}, stream")
def _(c: Consumer) -> None:
    array = MadeArray(c.made())
    c.take(array)
    for asked in array.asked:
        stream = asked.get("stream")
        if c.device_type == structs.CPU:
            expect(stream is None, "None", repr(stream))
        else:
            expect(stream is None or (stream != 0 and stream >= -1), "None, -1, or more than 0", repr(stream))


# --------------------------------------------------------------------------------------------------------------- lifetime


def _add_renamed(id: str, versioned: bool) -> None:
    @case(f"consumer.capsule.renamed-{id}", f"A {id} capsule that was taken is renamed to 'used_…'.", _CAPSULE)
    def _(c: Consumer) -> None:
        made = c.made()
        array = MadeArray(made, versioned, keep=True)
        result = c.take(array)
        names = {structs.capsule_name(capsule) for capsule in array.capsules}
        wanted = structs.USED[structs.VERSIONED if versioned else structs.LEGACY]
        if wanted not in names and c.address(result) != made.address:
            raise Refused("a copy was made, and the capsule was not taken")
        expect(wanted in names, f"the name {wanted.decode()!r}", ", ".join(map(repr, names)))


_add_renamed("versioned", True)
_add_renamed("legacy", False)


def _nothing(managed: Any) -> None:
    """Leaves a struct as it is."""


def _add_released(id: str, versioned: bool) -> None:
    @case(f"consumer.release.{id}", f"A {id} tensor is released once, when the result is gone.", _DELETER)
    def _(c: Consumer) -> None:
        made = c.made(change=_nothing)
        result = c.take(MadeArray(made, versioned))
        shared = c.address(result) == made.address
        gc.collect()
        alive = [export.releases for export in made.exports].count(0)
        expect(alive == 1 or not shared, "no release while the result is alive", f"{made.releases} releases")
        del result
        expect_released(made)


_add_released("versioned", True)
_add_released("legacy", False)


def _add_null_deleter(id: str, versioned: bool) -> None:
    @case(f"consumer.release.null-deleter-{id}", f"A {id} struct with a NULL deleter is taken.", _DELETER)
    def _(c: Consumer) -> None:
        def change(managed: Any) -> None:
            managed.deleter = None

        made = c.made(change=change)
        result = c.take(MadeArray(made, versioned))
        c.expect_same(result, made)
        del result
        gc.collect()


_add_null_deleter("versioned", True)
_add_null_deleter("legacy", False)


@case("consumer.release.empty", "A tensor without elements is released too.", _DELETER)
def _(c: Consumer) -> None:
    made = c.made((0,), change=_no_data)
    result = c.take(MadeArray(made))
    del result
    expect_released(made)


@case("consumer.release.readonly", "A read-only tensor is released too.", _DELETER)
def _(c: Consumer) -> None:
    made = c.made(flags=structs.READ_ONLY)
    result = c.take_or_refuse(MadeArray(made, True))
    del result
    expect_released(made)


@case("consumer.release.other-thread", "A result can be dropped on another thread.", _CAPSULE)
def _(c: Consumer) -> None:
    made = c.made()
    results = [c.take(MadeArray(made)) for _ in range(8)]
    threads = [threading.Thread(target=results.pop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect_released(made)


@case("consumer.release.producer-gone", "The result is usable after the producer's object is gone.", _ZERO_COPY)
def _(c: Consumer) -> None:
    made = c.made()
    array = MadeArray(made)
    result = c.take(array)
    del array
    gc.collect()
    c.expect_same(result, made)


@case("consumer.many.alive", "Many results of one array can be alive at once.", _CAPSULE)
def _(c: Consumer) -> None:
    made = c.made((64,))
    results = [c.take(MadeArray(made)) for _ in range(100)]
    for result in results[::20]:
        c.expect_same(result, made)
    del results, result
    expect_released(made)


@case("consumer.many.threads", "Several threads can import at the same time.", _CAPSULE)
def _(c: Consumer) -> None:
    made, errors = [c.made() for _ in range(4)], []

    def work(one: Made) -> None:
        try:
            for _ in range(25):
                c.expect_same(c.take(MadeArray(one)), one)
        except BaseException as error:
            errors.append(error.with_traceback(None))

    threads = [threading.Thread(target=work, args=(one,)) for one in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    for one in made:
        expect_released(one)


@case("consumer.many.no-growth", "Imports do not use more and more memory.", _DELETER)
def _(c: Consumer) -> None:
    size = 1 << 18
    block = memory.Memory(size * 4, c.device_type)
    block.write(b"\1" * (size * 4))
    made = c.made((size,), "float32", block=block)

    def repeat() -> None:
        c.take(MadeArray(made))

    expect_no_growth(repeat, size * 4, "imports")
    expect_released(made)


@case("consumer.re-export", "The result can be exported again: the same memory, shape and dtype.", _ZERO_COPY)
def _(c: Consumer) -> None:
    made = c.made()
    result = c.take(MadeArray(made))
    if not hasattr(result, "__dlpack__"):
        raise NotApplicable("the result has no __dlpack__")
    found = describe(result)
    expect(found is not None, "an export", "none")
    if found is not None:
        expect_equal((found.shape, found.dtype), ((2, 3), "float32"), "shape and dtype")
        expect(found.address == made.address, "the producer's memory", "another address")


@case("consumer.re-import", "The result can be imported by the same function.", _ZERO_COPY)
def _(c: Consumer) -> None:
    made = c.made()
    result = c.take(MadeArray(made))
    if not hasattr(result, "__dlpack__"):
        raise NotApplicable("the result has no __dlpack__")
    again = c.take(result)
    del result
    gc.collect()
    c.expect_same(again, made)
    del again
    expect_released(made)


# ------------------------------------------------------------------------------------------------- unusual but lawful


@case("consumer.unusual.later-minor", "A later minor version is taken: the ABI is the same.", _VERSION)
def _(c: Consumer) -> None:
    made = c.made(version=(1, 99))
    c.expect_same(c.take(MadeArray(made, True)), made)


@case("consumer.unusual.old-signature", "A __dlpack__ that only has `stream` is called without the other keywords.", _METHOD)
def _(c: Consumer) -> None:
    made = c.made()
    c.expect_same(c.take(OldArray(made)), made)


@case("consumer.unusual.no-parameters", "A __dlpack__ without parameters is called without keywords, or refused.", _METHOD)
def _(c: Consumer) -> None:
    made = c.made()
    c.expect_same(c.take_or_refuse(OldestArray(made)), made)


@case("consumer.unusual.no-context", "manager_ctx may be NULL.", f"{HEADER}: DLManagedTensorVersioned.manager_ctx")
def _(c: Consumer) -> None:
    def change(managed: Any) -> None:
        managed.context = None

    made = c.made(change=change)
    c.expect_same(c.take(MadeArray(made, True)), made)


@case("consumer.unusual.lanes", "A vector dtype (two lanes) is taken with the right size, or refused.", _DTYPE)
def _(c: Consumer) -> None:
    def change(managed: Any) -> None:
        managed.tensor.lanes = 2

    made = c.made((8,), change=change)  # it describes 4 vectors

    def halve(managed: Any) -> None:
        change(managed)
        managed.tensor.shape[0] = 4

    made.change = halve
    result = c.take_or_refuse(MadeArray(made))
    found = c.describe(result)
    expect(found.dtype == "code 2, 32 bits, 2 lanes" or found.shape == (4, 2), "vectors, or a dimension more", found.dtype)
