"""An exchange table around that of tenon.Tensor, whose functions can be replaced by broken ones."""

import ctypes

from tenon import Tensor
from tenon.conformance import structs
from tenon.conformance.targets import TARGETS

_REAL = structs.Exchange.from_address(structs.capsule_pointer(Tensor.__dlpack_c_exchange_api__, structs.TABLE))
_ALLOCATE, _FROM = structs.ALLOCATE(_REAL.allocate), structs.FROM_OBJECT(_REAL.from_object)
_TO, _BORROW, _STREAM = structs.TO_OBJECT(_REAL.to_object), structs.BORROW(_REAL.borrow), structs.STREAM(_REAL.stream)
_kept = []  # ctypes must not free what a table points to


class Wrapped:
    """An array around a tenon.Tensor."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.data_ptr = tensor.data_ptr

    def __dlpack__(self, **keywords):
        return self.tensor.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def managed_at(out):
    return structs.Versioned.from_address(out[0])


def factory(name=structs.TABLE, capsule=None, fresh=False, **replaced):
    """A factory of arrays whose type has a table in which these fields are replaced. A callable gets the real function."""

    class Array(Wrapped):
        pass

    @structs.FROM_OBJECT
    def from_object(array, out):
        return _FROM(array.tensor, out)

    @structs.BORROW
    def borrow(array, out):
        return _BORROW(array.tensor, out)

    @structs.TO_OBJECT
    def to_object(managed, out):
        status = _TO(managed, out)  # a Python exception becomes one of ctypes: it is printed, and 0 is returned
        tensor = ctypes.cast(out[0], ctypes.py_object).value
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(tensor))
        array = Array(tensor)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
        out[0] = id(array)
        return status

    real = {"from_object": from_object, "borrow": borrow, "to_object": to_object, "allocate": _ALLOCATE, "stream": _STREAM}
    kinds = {"from_object": structs.FROM_OBJECT, "borrow": structs.BORROW, "to_object": structs.TO_OBJECT,
             "allocate": structs.ALLOCATE, "stream": structs.STREAM}
    values = {"major": 1, "minor": 3, "previous": None}
    for field, function in real.items():
        change = replaced.pop(field, Ellipsis)
        if change is None:
            values[field] = None
            continue
        if change is not Ellipsis:
            function = kinds[field](lambda *arguments, change=change, function=function: change(function, *arguments))
        _kept.append(function)
        values[field] = ctypes.cast(function, ctypes.c_void_p).value
    table = structs.Exchange(**{**values, **replaced})
    _kept.extend([table, Array])

    def new_capsule():
        one = structs.Exchange.from_buffer_copy(table)
        _kept.append(one)
        return structs.new_capsule(ctypes.addressof(one), structs.static_name(name), 0)

    class Fresh:
        def __get__(self, array, kind):
            return new_capsule()

    Array.__dlpack_c_exchange_api__ = Fresh() if fresh else capsule or new_capsule()

    def make(shape, dtype, device, layout=None):
        return Array(TARGETS["tenon"].make(shape, dtype, device, layout))

    return make
