"""The public C interface through ctypes, as thin as it can be: TENON_LIBRARY names the shared library."""

import ctypes as C
import itertools
import os
from collections import Counter

(OK, EINVAL, ENOMEM, EOVERFLOW, EDTYPE, ESHAPE, ELAYOUT, EBOUNDS, EDEVICE, EREADONLY, EVERSION, EPARSE,
 EOVERLAP, EFAILED) = range(14)
READ_ONLY, IS_COPIED, SUBBYTE_PADDED = 1, 2, 4
VIEW_C, VIEW_F, VIEW_DENSE = 1 << 8, 1 << 9, 1 << 10
OMIT = -(1 << 63)
ZEROED = 1
CPU, CUDA, CUDA_HOST, METAL, ROCM, CUDA_MANAGED = 1, 2, 3, 8, 10, 13

I64P = C.POINTER(C.c_int64)
RELEASE = C.CFUNCTYPE(None, C.c_void_p)


class Error(Exception):
    def __init__(self, status, message):
        super().__init__(f"{lib.tenon_status_name(status).decode()}: {message}")
        self.status = status
        self.message = message


class ErrorBuffer(C.Structure):
    _fields_ = [("status", C.c_int32), ("message", C.c_char * 1012), ("function", C.c_char_p)]


class Dtype(C.Structure):
    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16)]

    def key(self):
        return self.code, self.bits, self.lanes


class Device(C.Structure):
    _fields_ = [("device_type", C.c_int32), ("device_id", C.c_int32)]

    def key(self):
        return self.device_type, self.device_id


DLTENSOR = [("data", C.c_void_p), ("device", Device), ("ndim", C.c_int32), ("dtype", Dtype), ("shape", I64P),
            ("strides", I64P), ("byte_offset", C.c_uint64)]


class DLTensor(C.Structure):
    _fields_ = DLTENSOR


class View(C.Structure):
    _fields_ = DLTENSOR + [("flags", C.c_uint64), ("numel", C.c_int64)]

    def dims(self):
        return tuple(self.shape[:self.ndim]), tuple(self.strides[:self.ndim])


class Managed(C.Structure):
    pass


class ManagedLegacy(C.Structure):
    pass


DELETER = C.CFUNCTYPE(None, C.c_void_p)
Managed._fields_ = [("major", C.c_uint32), ("minor", C.c_uint32), ("manager_ctx", C.c_void_p), ("deleter", DELETER),
                    ("flags", C.c_uint64), ("dl_tensor", DLTensor)]
ManagedLegacy._fields_ = [("dl_tensor", DLTensor), ("manager_ctx", C.c_void_p), ("deleter", DELETER)]


class Blob(C.Structure):
    _fields_ = [("data", C.c_void_p), ("byte_offset", C.c_uint64), ("data_size", C.c_uint64), ("dtype", Dtype),
                ("device", Device), ("ndim", C.c_int32), ("shape", I64P), ("strides", I64P), ("flags", C.c_uint64),
                ("owner", C.c_void_p), ("release", RELEASE)]


class Counts(C.Structure):
    _fields_ = [("tensors", C.c_int64), ("exports", C.c_int64), ("bytes", C.c_int64), ("deferred", C.c_int64)]

    def key(self):
        return self.tensors, self.exports, self.bytes, self.deferred


class Extent(C.Structure):
    _fields_ = [("low", C.c_int64), ("high", C.c_int64)]


MAX_NAMES, MAX_VARIABLES, NAME_SIZE, SPEC_TEXT, MAX_TYPES = 32, 8, 32, 256, 16


class Dtypes(C.Structure):
    _fields_ = [("kinds", C.c_uint32), ("count", C.c_int32), ("items", Dtype * MAX_TYPES)]


class Names(C.Structure):
    _fields_ = [("ndims", C.c_int32), ("nstars", C.c_int32), ("ntypes", C.c_int32), ("defined", C.c_uint32),
                ("dims", (C.c_char * NAME_SIZE) * MAX_NAMES), ("stars", (C.c_char * NAME_SIZE) * MAX_VARIABLES),
                ("types", (C.c_char * NAME_SIZE) * MAX_VARIABLES), ("allowed", Dtypes * MAX_VARIABLES)]


class Spec(C.Structure):
    _fields_ = [("flags", C.c_uint32), ("variable", C.c_int32), ("dtypes", Dtypes), ("ndims", C.c_int32),
                ("devices", C.c_uint32), ("alignment", C.c_int64), ("inplace", C.c_char * NAME_SIZE),
                ("text", C.c_char * SPEC_TEXT), ("private_", C.c_uint64 * 260)]


class Bindings(C.Structure):
    _fields_ = [("names", C.POINTER(Names)), ("function", C.c_char_p), ("argument", C.c_char_p),
                ("object", C.c_char_p), ("format_dtype", C.c_void_p), ("dims_bound", C.c_uint32), ("stars_bound", C.c_uint32),
                ("types_bound", C.c_uint32), ("dims", C.c_int64 * MAX_NAMES), ("stars", I64P * MAX_VARIABLES),
                ("star_ndims", C.c_int32 * MAX_VARIABLES), ("types", Dtype * MAX_VARIABLES),
                ("dims_from", C.c_char_p * MAX_NAMES), ("stars_from", C.c_char_p * MAX_VARIABLES),
                ("types_from", C.c_char_p * MAX_VARIABLES)]


lib = C.CDLL(os.environ["TENON_LIBRARY"])
TENSOR = C.c_void_p
VIEWP = C.POINTER(View)
ERR = C.POINTER(ErrorBuffer)
OUT = C.POINTER(TENSOR)
I32, I64, U32, U64, STR, SIZE = C.c_int32, C.c_int64, C.c_uint32, C.c_uint64, C.c_char_p, C.c_size_t

# Functions that can fail: their arguments without the last one, the error.
FALLIBLE = {
    "tenon_dtype_parse": [STR, C.POINTER(Dtype)],
    "tenon_device_parse": [STR, C.POINTER(Device)],
    "tenon_view_init": [VIEWP, C.POINTER(DLTensor), U64, I64P],
    "tenon_view_init_bytes": [VIEWP, C.POINTER(DLTensor), U64, I64P],
    "tenon_shape_numel": [I32, I64P, I64P],
    "tenon_shape_strides": [I32, I64P, C.c_char, I64P],
    "tenon_copy": [VIEWP, VIEWP],
    "tenon_tensor_from_blob": [C.POINTER(Blob), OUT],
    "tenon_tensor_alloc": [Dtype, I32, I64P, U32, OUT],
    "tenon_tensor_copy": [TENSOR, OUT],
    "tenon_tensor_contiguous": [TENSOR, OUT],
    "tenon_tensor_import": [C.c_void_p, OUT],
    "tenon_tensor_import_legacy": [C.c_void_p, OUT],
    "tenon_tensor_export": [TENSOR, C.POINTER(C.c_void_p)],
    "tenon_tensor_export_legacy": [TENSOR, C.POINTER(C.c_void_p)],
    "tenon_tensor_slice": [TENSOR, I64, I64, I64, I64, OUT],
    "tenon_tensor_select": [TENSOR, I64, I64, OUT],
    "tenon_tensor_permute": [TENSOR, C.POINTER(C.c_int32), OUT],
    "tenon_tensor_transpose": [TENSOR, I64, I64, OUT],
    "tenon_tensor_reshape": [TENSOR, I32, I64P, OUT],
    "tenon_tensor_flatten": [TENSOR, OUT],
    "tenon_tensor_squeeze": [TENSOR, I64, OUT],
    "tenon_tensor_expand_dims": [TENSOR, I64, OUT],
    "tenon_tensor_broadcast_to": [TENSOR, I32, I64P, OUT],
    "tenon_tensor_as_strided": [TENSOR, I32, I64P, I64P, I64, OUT],
    "tenon_tensor_view_as": [TENSOR, Dtype, OUT],
    "tenon_tensor_real": [TENSOR, OUT],
    "tenon_tensor_imag": [TENSOR, OUT],
    "tenon_spec_parse": [STR, C.POINTER(Names), C.POINTER(Spec)],
    "tenon_spec_check": [C.POINTER(Spec), VIEWP, C.POINTER(Bindings)],
    "tenon_spec_match": [C.POINTER(Spec), VIEWP, C.POINTER(Bindings)],
}
OTHERS = {
    "tenon_status_name": (STR, [I32]),
    "tenon_dtype_known": (C.c_bool, [Dtype]),
    "tenon_dtype_format": (SIZE, [Dtype, C.c_char_p, SIZE]),
    "tenon_dtype_format_long": (SIZE, [Dtype, C.c_char_p, SIZE]),
    "tenon_device_known": (C.c_bool, [Device]),
    "tenon_device_format": (SIZE, [Device, C.c_char_p, SIZE]),
    "tenon_view_item_bits": (I64, [VIEWP]),
    "tenon_view_nbytes": (I64, [VIEWP]),
    "tenon_view_extent": (Extent, [VIEWP]),
    "tenon_view_alignment": (SIZE, [VIEWP]),
    "tenon_view_equal": (C.c_bool, [VIEWP, VIEWP]),
    "tenon_view_overlaps": (C.c_bool, [VIEWP, VIEWP]),
    "tenon_view_self_overlaps": (C.c_bool, [VIEWP]),
    "tenon_view_format": (SIZE, [VIEWP, C.c_char_p, SIZE]),
    "tenon_tensor_retain": (TENSOR, [TENSOR]),
    "tenon_tensor_release": (None, [TENSOR]),
    "tenon_tensor_view": (VIEWP, [TENSOR]),
    "tenon_tensor_refcount": (I64, [TENSOR]),
    "tenon_stats_read": (Counts, []),
    "tenon_spec_bind": (None, [C.POINTER(Spec), VIEWP, C.POINTER(Bindings)]),
}
for _name, _arguments in FALLIBLE.items():
    getattr(lib, _name).argtypes = _arguments + [ERR]
    getattr(lib, _name).restype = C.c_int32
for _name, (_result, _arguments) in OTHERS.items():
    getattr(lib, _name).argtypes = _arguments
    getattr(lib, _name).restype = _result

_error = ErrorBuffer()


def call(name, *arguments):
    """Call a function that can fail; raise Error where it does."""
    status = getattr(lib, "tenon_" + name)(*arguments, C.byref(_error))
    if status:
        assert status == _error.status and _error.message, f"{name}: the error is not filled in"
        raise Error(status, _error.message.decode())


def i64(values):
    return (C.c_int64 * max(len(values), 1))(*values)


def stats():
    return lib.tenon_stats_read().key()


def dtype(name):
    out = Dtype()
    call("dtype_parse", name.encode(), C.byref(out))
    return out


def text(function, value):
    """What one of the format functions writes."""
    size = function(value, None, 0) + 1
    buffer = C.create_string_buffer(size)
    assert function(value, buffer, size) == size - 1
    return buffer.value.decode()


def view_init(data, shape, strides, dt, device=(CPU, 0), flags=0, byte_offset=0):
    """A view of any address; nothing is read there. The room for its dimensions lives on the view object."""
    source = DLTensor(data, Device(*device), len(shape), dt, i64(shape), None if strides is None else i64(strides),
                      byte_offset)
    view = View()
    view.room = i64([0] * (2 * len(shape)))
    call("view_init", C.byref(view), C.byref(source), flags, view.room)
    return view


released = Counter()  # owner -> how often its release function ran
owners = itertools.count(1)  # no two tests use the same one


@RELEASE
def count_release(owner):
    released[owner] += 1


class Tensor:
    """One count of a tenon_tensor; release() drops it."""

    def __init__(self, handle):
        self.handle = handle

    @classmethod
    def from_blob(cls, data, shape, strides, dt, *, byte_offset=0, data_size=0, flags=0, device=(0, 0), owner=None):
        blob = Blob(data, byte_offset, data_size, dt, Device(*device), len(shape), i64(shape),
                    None if strides is None else i64(strides), flags, owner,
                    count_release if owner is not None else RELEASE())
        return cls.made("tensor_from_blob", C.byref(blob))

    @classmethod
    def made(cls, name, *arguments):
        out = C.c_void_p(0xDEAD)
        try:
            call(name, *arguments, C.byref(out))
        except Error:
            assert out.value == 0xDEAD, f"{name}: *out changed on failure"
            raise
        return cls(out.value)

    def op(self, name, *arguments):
        """The view operation tenon_tensor_<name>, with plain Python values."""
        if name == "permute":
            arguments = [(C.c_int32 * max(len(arguments[0]), 1))(*arguments[0])]
        elif name in ("reshape", "broadcast_to"):
            arguments = [len(arguments[0]), i64(arguments[0])]
        elif name == "as_strided":
            shape, strides, offset = arguments
            arguments = [len(shape), i64(shape), i64(strides), offset]
        return Tensor.made("tensor_" + name, self.handle, *arguments)

    def export(self, legacy=False):
        out = C.c_void_p()
        call("tensor_export_legacy" if legacy else "tensor_export", self.handle, C.byref(out))
        return C.cast(out, C.POINTER(ManagedLegacy if legacy else Managed))

    @property
    def view(self):
        return lib.tenon_tensor_view(self.handle).contents

    @property
    def refcount(self):
        return lib.tenon_tensor_refcount(self.handle)

    def release(self):
        lib.tenon_tensor_release(self.handle)
        self.handle = None
