"""DLPack's structs and the exchange table for ctypes, to read the contents of capsules."""

import ctypes


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        (
            "allocate",
            ctypes.PYFUNCTYPE(
                ctypes.c_int,
                ctypes.POINTER(DLTensor),
                ctypes.POINTER(ctypes.POINTER(Versioned)),
                ctypes.c_void_p,
                SET_ERROR,
            ),
        ),
        ("from_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Versioned)))),
        ("to_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Versioned), ctypes.POINTER(ctypes.c_void_p))),
        ("borrow", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))),
        ("stream", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))),
    ]


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]


def name_of(capsule):
    return _get_name(capsule).decode()


def contents(capsule):
    """The struct in a DLPack capsule, by its name. It keeps the capsule alive."""
    kind = {"dltensor": Legacy, "dltensor_versioned": Versioned}[name_of(capsule)]
    found = kind.from_address(_get_pointer(capsule, _get_name(capsule)))
    found.capsule = capsule
    return found


def table_of(kind):
    return Exchange.from_address(_get_pointer(kind.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


def describe(tensor):
    """shape, strides, (code, bits, lanes), device and byte_offset of a DLTensor."""
    dims = range(tensor.ndim)
    return (
        tuple(tensor.shape[i] for i in dims),
        tuple(tensor.strides[i] for i in dims),
        (tensor.code, tensor.bits, tensor.lanes),
        (tensor.device_type, tensor.device_id),
        tensor.byte_offset,
    )
