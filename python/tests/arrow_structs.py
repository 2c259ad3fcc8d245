"""Arrow's structs, made by hand, for producers that no library provides."""

import ctypes

NUMBERS = (ctypes.c_int32 * 24)(*range(24))


class Schema(ctypes.Structure):
    _fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p),
                ("flags", ctypes.c_int64), ("n_children", ctypes.c_int64), ("children", ctypes.c_void_p),
                ("dictionary", ctypes.c_void_p), ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p)]


class Array(ctypes.Structure):
    _fields_ = [("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
                ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64), ("buffers", ctypes.c_void_p),
                ("children", ctypes.c_void_p), ("dictionary", ctypes.c_void_p), ("release", ctypes.c_void_p),
                ("private_data", ctypes.c_void_p)]


class Stream(ctypes.Structure):
    _fields_ = [("get_schema", ctypes.c_void_p), ("get_next", ctypes.c_void_p), ("get_last_error", ctypes.c_void_p),
                ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p)]


RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
FILL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
TEXT = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
REASON = ctypes.create_string_buffer(b"the disk is gone")
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
kept = []  # objects that C has a pointer to
released = []  # the kinds of the structs that were released


def keep(thing):
    kept.append(thing)
    return thing


def release_of(kind):
    """A release function, which runs Python code."""
    def release(address):
        kind.from_address(address).release = None
        released.append(kind.__name__)
    return ctypes.cast(keep(RELEASE(release)), ctypes.c_void_p)


def pointers(*addresses):
    return ctypes.addressof(keep((ctypes.c_void_p * len(addresses))(*addresses)))


def schema(format=b"i", child=None, **fields):
    made = keep(Schema(format=format, name=b"", release=release_of(Schema)))
    if child:
        made.n_children, made.children = 1, pointers(ctypes.addressof(child))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def array(length=4, child=None, **fields):
    made = keep(Array(length=length, release=release_of(Array)))
    if child:
        made.n_children, made.children, made.n_buffers, made.buffers = 1, pointers(ctypes.addressof(child)), 1, pointers(None)
    else:
        made.n_buffers, made.buffers = 2, pointers(None, ctypes.addressof(NUMBERS))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def copy_of(struct):
    made = keep(type(struct)())
    ctypes.memmove(ctypes.addressof(made), ctypes.addressof(struct), ctypes.sizeof(struct))
    return made


class GivesArray:
    def __init__(self, schema, array):
        self.schema, self.array = schema, array

    def __arrow_c_array__(self, requested_schema=None):
        return (new_capsule(ctypes.addressof(copy_of(self.schema)), b"arrow_schema", None),
                new_capsule(ctypes.addressof(copy_of(self.array)), b"arrow_array", None))


class GivesStream:
    """The arrays one after the other; `fields` replace the stream's own functions."""

    def __init__(self, schema, *arrays, schema_error=0, next_error=0, **fields):
        self.schema, self.arrays, self.fields, self.nexts = schema, arrays, fields, 0
        self.schema_error, self.next_error = schema_error, next_error

    def __arrow_c_stream__(self, requested_schema=None):
        left = list(self.arrays)

        def get_schema(stream, out):
            ctypes.memmove(out, ctypes.addressof(self.schema), ctypes.sizeof(Schema))
            return self.schema_error

        def get_next(stream, out):
            self.nexts += 1
            given = left.pop(0) if left else Array()
            ctypes.memmove(out, ctypes.addressof(given), ctypes.sizeof(Array))
            return self.next_error

        functions = [FILL(get_schema), FILL(get_next), TEXT(lambda stream: ctypes.addressof(REASON)), RELEASE(lambda stream: None)]
        stream = keep(Stream(*[ctypes.cast(keep(function), ctypes.c_void_p) for function in functions]))
        for name, value in self.fields.items():
            setattr(stream, name, value)
        return new_capsule(ctypes.addressof(stream), b"arrow_array_stream", None)
