"""A producer in pure Python that follows every rule, and can be told to break one."""

import ctypes
import enum
import threading

import tenon.conformance.made_producers as made_producers
from tenon.conformance import structs
from tenon.conformance.made_producers import Made

_exports = {}  # the address of a struct: what it keeps alive
_cache = {}
_new = structs.new_capsule
# With addresses: a reference to an object that is being destroyed would destroy it again.
_name_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(("PyCapsule_GetName", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


@structs.DELETER
def _delete(address):
    made, array, flaws = _exports.pop(address, (None, None, ()))
    if "zero-on-release" in flaws or ("zero-on-thread" in flaws and threading.current_thread() is not threading.main_thread()):
        made.memory.write(bytes(made.memory.size))


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroy_always(capsule):
    """Calls the deleter of a capsule, even if it was consumed."""
    name = ctypes.string_at(_name_of(capsule))
    address = _pointer_of(capsule, name)
    kind = structs.Versioned if name.endswith(b"versioned") else structs.Legacy
    structs.DELETER(kind.from_address(address).deleter)(address)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroy_in_python(capsule):
    """As a Python function, which must not run while an exception is pending."""
    capsule = None


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


class Model:
    """`flaws` are names of rules that it breaks; `change` is called with each struct and whether it is versioned."""

    def __init__(self, shape, dtype, layout, flaws, change):
        self.flaws, self.change, self.layout_name, self.alive = flaws, change, layout, 0
        known = layout in (None, "F", "strided", "reversed", "broadcast", "overlapping", "offset", "writable", "readonly",
                           "requires_grad", "byteswapped")
        if not known:
            raise NotImplementedError(layout)
        self.made = Made(shape, dtype, layout, padding=12 if layout == "offset" else 0)
        self.name = None

    def __del__(self):
        if "gone-with-array" in self.flaws:
            self.made.memory.write(bytes(self.made.memory.size))
        if self.name is not None:
            ctypes.memset(self.name, 120, 3)

    def __dlpack_device__(self):
        answers = {"device-list": [1, 0], "device-text": ("cpu", 0), "device-unknown": (99, 0), "device-number": (1, 3)}
        for flaw, answer in answers.items():
            if flaw in self.flaws:
                return answer
        if "device-empty" in self.flaws and 0 in self.made.shape:
            raise ValueError("no device")
        return (1, self.alive if "device-moves" in self.flaws else 0)

    def check_arguments(self, stream, max_version, dl_device, copy):
        for flaw in self.flaws:
            if isinstance(flaw, Exception):
                raise flaw
        if "thread" in self.flaws and threading.current_thread() is not threading.main_thread():
            raise RuntimeError("not on this thread")
        if stream is None and "no-none-stream" in self.flaws:
            raise ValueError("stream")
        accepted = stream is None or "any-stream" in self.flaws or ("cuda" in self.flaws and stream in (-1, 1, 2))
        if not accepted or ("no-stream" in self.flaws and stream is not None):
            raise BufferError("stream")
        if dl_device is not None and "any-device" not in self.flaws:
            if not isinstance(dl_device, tuple):
                raise TypeError("dl_device")
            if "no-enum" in self.flaws and isinstance(dl_device[0], enum.Enum):
                raise TypeError("dl_device is an Enum")
            if "only-enum" in self.flaws and not isinstance(dl_device[0], enum.Enum):
                raise TypeError("dl_device is not an Enum")
            if (int(dl_device[0]), int(dl_device[1])) != (1, 0):
                raise (ValueError if "wrong-error" in self.flaws else BufferError)("dl_device")
        if self.layout_name == "byteswapped" and "any-order" not in self.flaws:
            raise BufferError("byte order")
        if self.layout_name == "requires_grad" and "gradients" not in self.flaws:
            raise BufferError("it records gradients")

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if "no-copy-keyword" in self.flaws and copy is not None or "no-keywords" in self.flaws and max_version is not None:
            raise TypeError("unexpected keyword")
        self.check_arguments(stream, max_version, dl_device, copy)
        if "answer" in self.flaws:
            return 5
        if "cached" in self.flaws and self in _cache:
            return _cache[self]
        versioned = bool(max_version) and max_version[0] >= 1 or "always-versioned" in self.flaws
        copies = (
            copy is True and "never-copies" not in self.flaws
            or "always-copies" in self.flaws
            or "copies-for-false" in self.flaws and copy is False
            or "copies-for-device" in self.flaws and dl_device is not None
            or "legacy-copies" in self.flaws and not versioned
        )
        capsule = self.export(versioned, copies, copy)
        if "cached" in self.flaws:
            _cache[self] = capsule
        return capsule

    def export(self, versioned, copies, copy):
        source = Made(self.made.shape, self.made.dtype) if copies else self.made
        one = source.export(versioned)
        managed, address = one.managed, ctypes.addressof(one.managed)
        source.exports.clear()
        if versioned:
            managed.flags |= structs.IS_COPIED if copy is True and "no-copied-flag" not in self.flaws else 0
            read_only = self.layout_name == "readonly" and not copies and "no-readonly-flag" not in self.flaws
            managed.flags |= structs.READ_ONLY if read_only else 0
        if 0 in source.shape:
            managed.tensor.data = None
        managed.deleter = _address(_delete)
        keeps = None if "gone-with-array" in self.flaws else self
        if "never-releases" in self.flaws:
            managed.deleter = made_producers._RELEASE_VERSIONED if versioned else made_producers._RELEASE_LEGACY
        self.alive += 1
        if "keeps-references" in self.flaws:
            _cache.setdefault("references", []).append(self)
        _exports[address] = (source, keeps, self.flaws)
        if self.change:
            self.change(managed, versioned)
        name = structs.static_name(structs.VERSIONED if versioned else structs.LEGACY)
        if "wrong-name" in self.flaws:
            name = structs.static_name(b"tensor")
        if "own-name" in self.flaws:
            self.name = ctypes.create_string_buffer(structs.VERSIONED)
            name = ctypes.addressof(self.name)
            _cache.setdefault("names", []).append(self.name)
        destroy = made_producers._DESTROY_CAPSULE
        if "no-destructor" in self.flaws:
            destroy = 0
        if "always-destroys" in self.flaws:
            destroy = _address(_destroy_always)
        if "destroys-in-python" in self.flaws:
            destroy = _address(_destroy_in_python)
        return _new(address, name, destroy)


def factory(*flaws, change=None):
    """A factory of models with these flaws."""

    def make(shape, dtype, device, layout=None):
        return Model(tuple(shape), dtype, layout, flaws, change)

    return make
