"""A framework that nobody has heard of: its tensors have DLPack's exchange table, and nothing else."""

import ctypes

import numpy

# The names of capsules must live as long as these do.
CAPSULE, USED, EXCHANGE = b"dltensor_versioned", b"used_dltensor_versioned", b"dlpack_exchange_api"
api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.Py_IncRef.argtypes = [ctypes.py_object]


class Prototype(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]


SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
Allocate = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Prototype), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p,
                             SetError)
FromObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
ToObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


class Table(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
                ("allocate", Allocate), ("from_object", FromObject), ("to_object", ToObject),
                ("borrow", ctypes.c_void_p), ("stream", ctypes.c_void_p)]


def handed_out(array):
    """The address of a managed struct that the caller owns."""
    capsule = array.__dlpack__(max_version=(1, 0))
    address = api.PyCapsule_GetPointer(capsule, CAPSULE)
    api.PyCapsule_SetName(capsule, USED)
    return address


class Taken:
    """What numpy.from_dlpack asks."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


class Tabled:
    """A tensor of the framework."""

    mistake = None  # of the next allocation
    records = True

    def __init__(self, array, requires_grad=False):
        self.array, self.requires_grad = array, requires_grad


def is_grad_enabled():
    return Tabled.records


@Allocate
def allocate(prototype, out, context, set_error):
    wanted = prototype.contents
    if Tabled.mistake:
        if Tabled.mistake != "silent":
            set_error(context, Tabled.mistake.encode(), b"its allocator says no")
        return -1
    kind = {0: "i", 1: "u", 2: "f"}[wanted.code]
    out[0] = handed_out(numpy.empty(wanted.shape[: wanted.ndim], f"{kind}{wanted.bits // 8}"))
    return 0


@FromObject
def from_object(tensor, out):
    out[0] = handed_out(tensor.array)
    return 0


@ToObject
def to_object(managed, out):
    if Tabled.mistake == "late":
        return -1
    tensor = Tabled(numpy.from_dlpack(Taken(api.PyCapsule_New(managed, CAPSULE, None))))
    api.Py_IncRef(tensor)
    out[0] = id(tensor)
    return 0


table = Table(1, 0, None, allocate, from_object, to_object, None, None)
Tabled.__dlpack_c_exchange_api__ = api.PyCapsule_New(ctypes.addressof(table), EXCHANGE, None)
