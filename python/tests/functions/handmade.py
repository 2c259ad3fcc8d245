"""Modules made by hand, in memory: the structs of function.h, and a function of every signature (echo.c)."""

import ctypes
import json
import os
from ctypes import c_char, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p

from building import build, tenon

MAGIC = int.from_bytes(b"TENONMOD", "little")
RELEASE_LOCK, KEEP_LOCK, NO_GRAD_CHECK = 1, 2, 4
KINDS = ["none", "tensor", "int", "float", "bool", "str", "enum", "ints", "floats", "tensors", "handle", "complex"]
DTYPES = {
    "bool": (6, 8),
    "i8": (0, 8),
    "i16": (0, 16),
    "i32": (0, 32),
    "i64": (0, 64),
    "u8": (1, 8),
    "u16": (1, 16),
    "u32": (1, 32),
    "u64": (1, 64),
    "f16": (2, 16),
    "f32": (2, 32),
    "f64": (2, 64),
    "bf16": (4, 16),
    "c64": (5, 64),
    "c128": (5, 128),
}


class Function(ctypes.Structure):
    _fields_ = [
        ("signature", c_char_p),
        ("doc", c_char_p),
        ("call", c_void_p),
        ("shape", c_void_p),
        ("data", c_void_p),
        ("flags", c_uint64),
        ("reserved", c_uint64 * 2),
    ]


class Module(ctypes.Structure):
    _fields_ = [
        ("magic", c_uint64),
        ("major", c_uint32),
        ("minor_needed", c_uint32),
        ("size", c_uint32),
        ("function_size", c_uint32),
        ("nfunctions", c_int64),
        ("functions", c_void_p),
        ("name", c_char_p),
        ("doc", c_char_p),
        ("version", c_char_p),
        ("load", c_void_p),
        ("unload", c_void_p),
        ("flags", c_uint64),
    ]


class Call(ctypes.Structure):
    """The beginning of tenon_call, as far as a test written in Python needs it."""

    _fields_ = [
        ("size", c_uint32),
        ("minor", c_uint32),
        ("host", c_void_p),
        ("function", c_void_p),
        ("state", c_void_p),
    ]


class Host(ctypes.Structure):
    """The beginning of tenon_host."""

    FAIL = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int32, c_char_p, ctypes.c_size_t)
    _fields_ = [("size", c_uint32), ("minor", c_uint32), ("name", c_char_p), ("fail", FAIL)]


class EchoData(ctypes.Structure):
    _fields_ = [("open_ndim", c_int32), ("length", c_int32), ("open_shape", c_int64 * 8), ("text", c_char * 16384)]


CALL = ctypes.CFUNCTYPE(c_int32, c_void_p)
LOAD = ctypes.CFUNCTYPE(c_int32, c_void_p, ctypes.POINTER(c_void_p))
UNLOAD = ctypes.CFUNCTYPE(None, c_void_p)

_library = build("echo.c")
ECHO = ctypes.cast(ctypes.CDLL(str(_library)).tenon_test_echo, c_void_p).value
_kept = []  # what the functions made here point to, for ever


def entry(signature, call=ECHO, *, doc=None, shape=None, data=None, flags=0):
    """A row of a table. `call` is an address, or a Python function of the call's address."""
    call, shape = (CALL(code) if callable(code) else code for code in (call, shape))
    _kept.extend([call, shape, data])
    address = ctypes.addressof(data) if data is not None else None
    text = signature.encode() if isinstance(signature, str) else signature
    return Function(text, doc, ctypes.cast(call, c_void_p), ctypes.cast(shape, c_void_p), address, flags)


def module(entries=(), **changes):
    """A module of these rows, changed as said; `functions` may be the bytes of a table of another size."""
    table = changes.pop("functions", None) or (Function * len(entries))(*entries)
    fields = dict(
        magic=MAGIC,
        major=1,
        minor_needed=0,
        size=ctypes.sizeof(Module),
        name=b"handmade",
        function_size=ctypes.sizeof(Function),
        nfunctions=len(entries),
        functions=ctypes.addressof(table),
    )
    fields.update(changes)
    for name in ("load", "unload"):
        if name in fields:
            _kept.append(fields[name])
            fields[name] = ctypes.cast(fields[name], c_void_p)
    made = Module(**fields)
    _kept.extend([table, made])
    return made


def load(made):
    """tenon.load of a library whose module is this one, a Module or an address."""
    os.environ["TENON_TEST_MODULE"] = str(ctypes.addressof(made) if isinstance(made, Module) else made)
    try:
        return tenon.load(_library)
    finally:
        del os.environ["TENON_TEST_MODULE"]


def host_fail(address, status, message):
    """tenon_fail for a function in Python."""
    host = ctypes.cast(Call.from_address(address).host, ctypes.POINTER(Host)).contents
    return host.fail(address, status, message, len(message))


class Echo:
    """A function of this signature, which says what it was given: `seen`, or None where it was not reached."""

    def __init__(self, signature, **options):
        self.data = EchoData()
        self.function = load_one(entry(signature, data=self.data, **options))
        self.seen = None

    def __call__(self, /, *args, **kwargs):
        self.data.length, self.seen = 0, None
        try:
            return self.function(*args, **kwargs)
        finally:
            if self.data.length:
                self.seen = json.loads(self.data.text.decode())

    def leave_open(self, *shape):
        """The shape that results have which the signature leaves open."""
        self.data.open_ndim = len(shape)
        self.data.open_shape[: len(shape)] = shape

    def values(self):
        return [_value(argument) for argument in self.seen["args"]]

    def value(self, /, *args, **kwargs):
        """What the last argument of this call is for the function."""
        self(*args, **kwargs)
        return self.values()[-1]


def load_one(row):
    loaded = load(module([row]))
    (name,) = [name for name, value in vars(loaded).items() if not name.startswith("__") and not isinstance(value, type)]
    return getattr(loaded, name)


def _value(argument):
    kind, value = KINDS[argument["kind"]], argument["value"]
    if kind == "bool":
        return bool(value)
    if kind == "float":
        return float.fromhex(value)
    if kind == "str":
        text = bytes.fromhex(value)
        assert text[-1] == 0
        return text[:-1].decode()
    if kind == "ints":
        return value["ints"]
    return [float.fromhex(number) for number in value["floats"]] if kind == "floats" else value
