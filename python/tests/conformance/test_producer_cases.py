"""Every case for producers fails for a producer that breaks its rule, and passes for Tenon's tensors."""

import ctypes
import pathlib
import unittest

import model_producer
import pytest
from building import run_python
from model_producer import factory
from tenon.conformance import Case, Failure, cases, structs
from tenon.conformance.targets import TARGETS

CASES = {case.id: case for case in cases("producer") if case.id.startswith("producer.")}
HERE = pathlib.Path(__file__).resolve().parent
_shared = (ctypes.c_int64 * 16)()


def field(name, value):
    """A producer whose struct has this value in a field of the tensor."""

    def change(managed, versioned):
        setattr(managed.tensor, name, value)

    return factory(change=change)


def versioned_field(name, value):
    def change(managed, versioned):
        if versioned:
            setattr(managed, name, value)

    return factory(change=change)


def flag(bit):
    def change(managed, versioned):
        if versioned:
            managed.flags |= bit

    return factory(change=change)


def c_strides(managed, versioned):
    for i, stride in enumerate(structs.c_strides(tuple(managed.tensor.shape[i] for i in range(managed.tensor.ndim)))):
        managed.tensor.strides[i] = stride


def byte_strides(managed, versioned):
    for i in range(managed.tensor.ndim):
        managed.tensor.strides[i] *= 4


def next_element(managed, versioned):
    managed.tensor.data += 4


def misaligned(managed, versioned):
    managed.tensor.data += 1


def wrong_size(managed, versioned):
    managed.tensor.shape[0] += 1


def common_shape(managed, versioned):
    """One array of sizes for all exports."""
    for i in range(managed.tensor.ndim):
        _shared[i] = managed.tensor.shape[i]
    managed.tensor.shape = ctypes.cast(_shared, ctypes.POINTER(ctypes.c_int64))


def other_code(managed, versioned):
    managed.tensor.code += 1


BROKEN = {
    "producer.capsule.type": factory("answer"),
    "producer.capsule.legacy-name": factory("always-versioned"),
    "producer.capsule.none-name": factory("always-versioned"),
    "producer.capsule.versioned-name": factory("wrong-name"),
    "producer.capsule.old-consumer": factory("always-versioned"),
    "producer.max-version.1.0": versioned_field("major", 2),
    "producer.max-version.1.3": versioned_field("major", 2),
    "producer.max-version.later-minor": versioned_field("major", 2),
    "producer.max-version.later-major": versioned_field("major", 2),
    "producer.keywords": factory("no-keywords"),
    "producer.capsule.fresh": factory("cached"),
    "producer.capsule.static-name": factory("own-name", "gone-with-array"),
    "producer.capsule.destructor": factory("no-destructor"),
    "producer.capsule.unconsumed-legacy": factory("no-destructor"),
    "producer.capsule.unconsumed-versioned": factory("no-destructor"),
    "producer.capsule.consumed-legacy": factory("always-destroys"),
    "producer.capsule.consumed-versioned": factory("always-destroys"),
    "producer.capsule.pending-exception": factory("destroys-in-python"),
    "producer.version.major": versioned_field("major", 3),
    "producer.version.minor": versioned_field("minor", 77),
    "producer.version.covers-dtype": versioned_field("minor", 0),
    "producer.struct.ndim": field("ndim", 1),
    "producer.struct.shape": factory(change=wrong_size),
    "producer.struct.strides-present": field("strides", None),
    "producer.struct.strides": factory(change=byte_strides),
    "producer.struct.lanes": field("lanes", 2),
    "producer.struct.data": field("data", None),
    "producer.struct.alignment": factory(change=misaligned),
    "producer.struct.device": field("device_id", 3),
    "producer.flags.unknown": flag(1 << 20),
    "producer.flags.copied": flag(structs.IS_COPIED),
    "producer.flags.padded": flag(structs.IS_PADDED),
    "producer.flags.writable": flag(structs.READ_ONLY),
    "producer.struct.outlives-array": factory("gone-with-array"),
    "producer.struct.byte-order": factory("any-order"),
    "producer.shape.empty-data": factory(change=wrong_size),
    **{id: factory(change=other_code) for id in CASES if id.startswith("producer.shape.") and id != "producer.shape.empty-data"},
    **{id: factory(change=other_code) for id in CASES if id.startswith("producer.dtype.")},
    **{id: factory(change=c_strides) for id in CASES if id.startswith("producer.layout.")},
    "producer.layout.offset": factory(change=next_element),
    "producer.layout.no-copy": factory("always-copies"),
    "producer.stream.none": factory("no-none-stream"),
    "producer.stream.not-on-cpu": factory("any-stream"),
    "producer.stream.below-minus-one": factory("any-stream"),
    "producer.stream.overflow": factory("any-stream"),
    "producer.stream.type": factory("any-stream"),
    "producer.stream.cuda-minus-one": factory("no-stream"),
    "producer.stream.cuda-legacy": factory("no-stream"),
    "producer.stream.cuda-per-thread": factory("no-stream"),
    "producer.stream.cuda-zero": factory("any-stream"),
    "producer.copy.none": factory("always-copies"),
    "producer.copy.false": factory("copies-for-false"),
    "producer.copy.false-flag": flag(structs.IS_COPIED),
    "producer.copy.true": factory("never-copies"),
    "producer.copy.true-flag": factory("no-copied-flag"),
    "producer.copy.independent": factory("never-copies"),
    "producer.copy.legacy": factory("never-copies"),
    "producer.copy.strided": factory(change=next_element),
    "producer.copy.readonly": factory("no-copied-flag"),
    "producer.copy.released": factory("never-releases"),
    "producer.dl-device.own": factory("copies-for-device"),
    "producer.dl-device.integers": factory("only-enum"),
    "producer.dl-device.enum": factory("no-enum"),
    "producer.dl-device.unsupported": factory("wrong-error"),
    "producer.dl-device.unknown": factory("any-device"),
    "producer.dl-device.no-copy": factory("wrong-error"),
    "producer.dl-device.type": factory("any-device"),
    "producer.dl-device.to-cpu": field("device_type", 2),
    "producer.device.pair": factory("device-list"),
    "producer.device.integers": factory("device-text"),
    "producer.device.known": factory("device-unknown"),
    "producer.device.cpu": factory("device-number"),
    "producer.device.empty": factory("device-empty"),
    "producer.device.exported": factory("device-moves"),
    "producer.deleter.releases": factory("never-releases"),
    "producer.deleter.releases-legacy": factory("never-releases"),
    "producer.deleter.references": factory("keeps-references"),
    "producer.deleter.after-array": factory("gone-with-array"),
    "producer.deleter.before-array": factory("zero-on-release"),
    "producer.deleter.other-thread": factory("zero-on-thread"),
    "producer.deleter.foreign-thread": factory("zero-on-thread"),
    "producer.many.alive": factory("zero-on-release"),
    "producer.many.arrays": factory(change=common_shape),
    "producer.many.threads": factory("thread"),
    "producer.re-export": factory("always-copies"),
    "producer.re-export.legacy": factory("legacy-copies"),
    "producer.readonly.flag": factory("no-readonly-flag"),
    "producer.readonly.elements": factory(RuntimeError("read-only")),
    "producer.requires-grad": factory(RuntimeError("gradients")),
}
ON_CUDA = {id for id in CASES if id.startswith("producer.stream.cuda-")} | {"producer.dl-device.to-cpu"}


@pytest.fixture(autouse=True)
def forget():
    yield
    model_producer._cache.clear()
    model_producer._exports.clear()


def device_of(id):
    """The models of cases about CUDA are in memory of the CPU, and only say otherwise."""
    return "cuda:0" if id in ON_CUDA else "cpu"


def test_each_case_has_a_broken_producer():
    assert set(BROKEN) == set(CASES)
    assert all(isinstance(case, Case) and case.rule.endswith(".") and case.source for case in CASES.values())


@pytest.mark.parametrize("id", CASES)
def test_a_broken_producer_fails(id):
    with pytest.raises(Exception) as caught:
        CASES[id].check(BROKEN[id], device=device_of(id))
    assert not isinstance(caught.value, unittest.SkipTest), caught.value
    assert isinstance(caught.value, Failure) or not isinstance(caught.value, AssertionError)


# Its deleter is a Python function, which may not run while an exception is pending; its memory is on the CPU.
BEYOND_THE_MODEL = {"producer.capsule.pending-exception", "producer.dl-device.to-cpu"}


@pytest.mark.parametrize("id", [id for id in CASES if id not in BEYOND_THE_MODEL])
def test_the_model_passes(id):
    """It is a producer that could be written by hand from the documents."""
    flaws = ["cuda"] if id in ON_CUDA else []
    try:
        CASES[id].check(factory(*flaws), device=device_of(id))
    except unittest.SkipTest as reason:
        assert id == "producer.requires-grad", reason


@pytest.mark.parametrize("id", CASES)
def test_tenon_passes(id):
    try:
        CASES[id].check(TARGETS["tenon"].make)
    except unittest.SkipTest as reason:
        optional = {"producer.shape.empty-data", "producer.struct.byte-order", "producer.requires-grad"}
        assert id in optional | ON_CUDA, reason


# Large blocks of glibc come from the heap here, where the last of 65 keeps the other 64 from going back to the system.
FREE_MEMORY = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
from model_producer import factory
from tenon.conformance import Leak, cases
ctypes.CDLL(None).mallopt(-3, 1 << 30)
blocks = [bytearray(b"\\1") * (1 << 20) for _ in range(65)]
del blocks[:-1]
case = next(case for case in cases("producer") if case.id == "producer.deleter.releases")
case.check(factory())
try:
    case.check(factory("never-releases"))
except Leak as leak:
    print(leak)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc's allocator")
def test_free_memory_hides_no_leak():
    """The first leaks take memory that the allocator keeps, and the process does not grow with them."""
    assert "no growth after" in run_python(FREE_MEMORY, HERE)
