"""Every case for exchange tables fails for a table that breaks its rule, and passes for that of tenon.Tensor."""

import ctypes
import unittest

import model_producer
import pytest
from model_table import factory, managed_at
from tenon.conformance import cases, structs
from tenon.conformance.made_producers import Made
from tenon.conformance.targets import TARGETS

CASES = {case.id: case for case in cases("producer") if case.id.startswith("table.")}
_kept = []
_OLDER = structs.Exchange(major=1)


def exported(change):
    """A table whose exports are changed."""

    def from_object(real, array, out):
        status = real(array, out)
        change(managed_at(out))
        return status

    return factory(from_object=from_object)


def set_tensor(name, value):
    return lambda managed: setattr(managed.tensor, name, value)


def of_another(real, array, out):
    """The export of another array."""
    other = Made((2, 3)).export()
    _kept.append(other)
    out[0] = ctypes.addressof(other.managed)
    return 0


def deaf(managed):
    """Its deleter does nothing."""
    managed.deleter = ctypes.cast(_NOTHING, ctypes.c_void_p).value


_NOTHING = structs.DELETER(lambda address: None)


def zero(managed):
    ctypes.memset(managed.tensor.data, 0, 24)


def zeroing(managed):
    """Its deleter destroys the elements."""
    data = managed.tensor.data
    hook = structs.DELETER(lambda address: ctypes.memset(data, 0, 24))
    _kept.append(hook)
    managed.deleter = ctypes.cast(hook, ctypes.c_void_p).value


def imported(change):
    """A table that changes a tensor before it makes an object of it."""

    def to_object(real, managed, out):
        change(structs.Versioned.from_address(managed))
        return real(managed, out)

    return factory(to_object=to_object)


def unlucky(real, managed, out):
    """No tensor without a deleter."""
    return real(managed, out) if structs.Versioned.from_address(managed).deleter else -1


def any_dtype(real, managed, out):
    structs.Versioned.from_address(managed).tensor.code = 2
    return real(managed, out)


def borrowed(change):
    def borrow(real, array, out):
        status = real(array, out)
        change(array, out.contents)
        return status

    return factory(borrow=borrow)


def keep(array, tensor):
    _kept.append(array)


def keep_memory(array, tensor):
    _kept.append(array.tensor)


def allocated(change):
    def allocate(real, prototype, out, context, report):
        status = real(prototype, out, context, report)
        change(managed_at(out))
        return status

    return factory(allocate=allocate)


def silent(real, prototype, out, context, report):
    """It fails without a call of SetError."""
    return real(prototype, out, context, structs.SET_ERROR(lambda *words: None))


def left_alone(real, kind, number, out):
    return 0


def another_each_time(real, kind, number, out):
    _kept.append(out)
    out[0] = len(_kept)
    return 0


def keeps_tensor(real, managed, out):
    status = real(managed, out)
    _kept.append(ctypes.cast(out[0], ctypes.py_object).value)
    return status


def fresh_strides(array, tensor):
    tensor.strides = None


BROKEN = {
    "table.capsule": factory(capsule=12345),
    "table.name": factory(name=b"dlpack_table"),
    "table.static": factory(fresh=True),
    "table.major": factory(major=2),
    "table.minor": factory(minor=0),
    "table.previous": factory(previous=ctypes.addressof(_OLDER)),
    "table.present.managed-tensor-allocator": factory(allocate=None),
    "table.present.managed-tensor-from-py-object-no-sync": factory(from_object=None),
    "table.present.managed-tensor-to-py-object-no-sync": factory(to_object=None),
    "table.present.current-work-stream": factory(stream=None),
    "table.from-object": factory(from_object=of_another),
    "table.from-object.version": exported(lambda managed: setattr(managed, "major", 2)),
    "table.from-object.strides": exported(set_tensor("strides", None)),
    "table.from-object.device": exported(set_tensor("device_id", 3)),
    "table.from-object.scalar": exported(set_tensor("code", 1)),
    "table.from-object.empty": exported(set_tensor("code", 1)),
    "table.from-object.layout": exported(set_tensor("strides", None)),
    "table.from-object.readonly": exported(lambda managed: setattr(managed, "flags", 0)),
    "table.from-object.keeps": exported(zero),
    "table.from-object.released": exported(deaf),
    "table.from-object.other-thread": exported(zeroing),
    "table.to-object": imported(lambda managed: setattr(managed.tensor, "data", managed.tensor.data + 4)),
    "table.to-object.layout": imported(lambda managed: managed.tensor.strides.__setitem__(1, 1)),
    "table.to-object.dtype": imported(set_tensor("code", 1)),
    "table.to-object.readonly": factory(to_object=None),
    "table.to-object.released": factory(to_object=keeps_tensor),
    "table.to-object.null-deleter": factory(to_object=unlucky),
    "table.to-object.unknown-dtype": factory(to_object=any_dtype),
    "table.borrow": borrowed(lambda array, tensor: setattr(tensor, "code", 0)),
    "table.borrow.strides": borrowed(fresh_strides),
    "table.borrow.device": borrowed(lambda array, tensor: setattr(tensor, "device_id", 3)),
    "table.borrow.references": borrowed(keep),
    "table.borrow.no-growth": borrowed(keep_memory),
    "table.allocator": allocated(set_tensor("code", 1)),
    "table.allocator.memory": allocated(lambda managed: setattr(managed, "flags", structs.READ_ONLY)),
    "table.allocator.strides": allocated(set_tensor("strides", None)),
    "table.allocator.scalar": allocated(set_tensor("ndim", 1)),
    "table.allocator.empty": allocated(set_tensor("ndim", 1)),
    "table.allocator.released": allocated(deaf),
    "table.allocator.error": factory(allocate=silent),
    "table.stream": factory(stream=left_alone),
    "table.stream.repeated": factory(stream=another_each_time),
}


@pytest.fixture(autouse=True)
def forget():
    yield
    _kept.clear()


def test_each_case_has_a_broken_table():
    assert set(BROKEN) == set(CASES)


@pytest.mark.parametrize("id", CASES)
def test_a_broken_table_fails(id):
    with pytest.raises(Exception) as caught:
        CASES[id].check(BROKEN[id])
    assert not isinstance(caught.value, unittest.SkipTest), caught.value


@pytest.mark.parametrize("id", CASES)
def test_tenon_passes(id):
    CASES[id].check(TARGETS["tenon"].make)


def test_without_a_table():

    with pytest.raises(unittest.SkipTest, match="optional"):
        CASES["table.name"].check(model_producer.factory())
