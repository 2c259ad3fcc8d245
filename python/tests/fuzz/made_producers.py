"""Producers of every protocol, made from bytes. The memory that they describe exists, but what they say about it is arbitrary.

A producer that gives away something to release has `check(took)`, which says whether it was released as often as it must be."""

import ctypes
import sys

import arrow_structs as arrow
import dlpack
from choices import SIZE, fits, memory

deleted = {}  # the address of a struct, and how often its deleter ran

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAMES = [b"dltensor_versioned", b"dltensor", b"used_dltensor", b"other"]


@dlpack.DELETER
def delete(address):
    deleted[address] += 1


# ------------------------------------------------------------------------------------------------------------ DLPack


def fill_tensor(source, tensor):
    """A DLTensor with arbitrary fields. Returns what it points to."""
    ndim = source.below(6) if source.byte() < 250 else fits(source.number(), 32, True)
    count = max(ndim, 0) if 0 <= ndim <= 64 else 0
    shape = (ctypes.c_int64 * max(count, 1))(*(source.number() for _ in range(count)))
    strides = (ctypes.c_int64 * max(count, 1))(*(source.number() for _ in range(count)))
    null_data = source.byte() > 240
    tensor.data = None if null_data else ctypes.addressof(memory) + source.below(64)
    tensor.device_type = 1 if source.byte() < 200 else source.below(20)
    tensor.device_id = source.below(3)
    tensor.ndim = ndim
    tensor.code = source.below(20)
    tensor.bits = [8, 16, 32, 64, 1, 4, 128, 0, 7, 255][source.below(10)]
    tensor.lanes = [1, 1, 1, 1, 2, 0, 65535][source.below(7)]
    # With more dimensions than are allowed, nothing may be read of these.
    tensor.shape = shape if source.byte() < 240 else None
    tensor.strides = strides if source.byte() < 200 else None
    tensor.byte_offset = fits(source.number(), 64, False) if source.byte() > 200 else 0
    return shape, strides


class Capsules:
    """A producer by capsule. It may lie about its version and its capsule's name, and fail."""

    def __init__(self, source):
        self.versioned = source.byte() < 200
        self.struct = (dlpack.Versioned if self.versioned else dlpack.Legacy)()
        self.held = fill_tensor(source, self.struct.tensor)
        self.struct.deleter = ctypes.cast(delete, ctypes.c_void_p) if source.byte() < 230 else None
        if self.versioned:
            self.struct.major = 1 if source.byte() < 220 else fits(source.number(), 32, False)
            self.struct.minor = source.below(6)
            self.struct.flags = source.below(8) if source.byte() < 250 else fits(source.number(), 64, False)
        self.name = NAMES[0 if self.versioned else 1] if source.byte() < 240 else NAMES[2 + source.below(2)]
        self.fails = source.byte() > 245
        self.device = (1, 0) if source.byte() < 230 else (source.below(20), source.number())
        self.given = 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        if self.fails or self.given:
            raise BufferError("no")
        self.given = 1
        deleted[ctypes.addressof(self.struct)] = 0
        return api.PyCapsule_New(ctypes.addressof(self.struct), self.name, None)

    def check(self, took):
        """The deleter ran once if the tensor was taken, and not at all otherwise."""
        count = deleted.pop(ctypes.addressof(self.struct), 0)
        expected = int(took and bool(self.struct.deleter))
        assert count == expected, f"the deleter ran {count} times instead of {expected}"


class Picky(Capsules):
    """It knows some of the keywords only, and rejects the others in the words of some library; or it returns anything."""

    REJECTIONS = [
        "__dlpack__() got an unexpected keyword argument '{}'",
        "'{}' is an invalid keyword argument for __dlpack__()",
        "__dlpack__() takes no keyword arguments",
        "function takes at most 0 arguments (1 given)",
        "__dlpack__(): incompatible function arguments",
        "__dlpack__() got some positional-only arguments passed as keyword arguments: '{}'",
        "got an unexpected keyword argument '{}",
        "unexpected keyword argument",
        "it does not say why",
        "\udcff",
    ]

    def __init__(self, source):
        super().__init__(source)
        self.known = source.byte()
        self.rejection, self.wrong_name = source.one_of(self.REJECTIONS), source.byte() > 200
        self.answer = [None, (), 3, "text", self][source.below(5)] if source.byte() > 220 else Ellipsis
        self.pair = [None, (1,), [1, 0], (1, 2**70), ("1", 0), (1.0, 0)][source.below(6)] if source.byte() > 200 else self.device
        self.calls = 0

    def __dlpack_device__(self):
        return self.pair

    def __dlpack__(self, **keywords):
        self.calls += 1
        assert self.calls < 20, "it is asked again and again"
        for i, name in enumerate(("stream", "max_version", "copy", "dl_device")):
            if name in keywords and not self.known >> i & 1:
                raise TypeError(self.rejection.format("other" if self.wrong_name else name))
        return super().__dlpack__() if self.answer is Ellipsis else self.answer


# ----------------------------------------------------------------------------------------------------- exchange table


@dlpack.Exchange._fields_[4][1]
def from_object(tabled, out):
    return tabled.give(out)


def tables():
    """A table that works, one of a newer major version in front of it, and tables that cannot be used."""
    good = dlpack.Exchange(major=1, minor=3, from_object=from_object)
    newer = dlpack.Exchange(major=2, previous=ctypes.addressof(good))
    circle = dlpack.Exchange(major=2)
    circle.previous = ctypes.addressof(circle)
    return [good, newer, good, circle, dlpack.Exchange(major=1), dlpack.Exchange()]


TABLES = tables()
TABLE_NAME = b"dlpack_exchange_api"


class Tabled(Capsules):
    """A producer by exchange table, whose function may fail, and give the struct nevertheless."""

    __dlpack__ = __dlpack_device__ = None

    def __new__(cls, source):
        table, name = source.one_of(TABLES), TABLE_NAME if source.byte() < 230 else b"another"
        capsule = api.PyCapsule_New(ctypes.addressof(table), name, None) if source.byte() < 240 else "no capsule"
        made = object.__new__(type("Tabled", (cls,), {"__dlpack_c_exchange_api__": capsule}))
        made.status, made.writes = source.one_of([0, 0, 0, 0, -1, 7]), source.byte() < 240
        return made

    def give(self, out):
        if self.writes and self.versioned:
            out[0] = ctypes.pointer(self.struct)
            self.given += self.status == 0
            deleted[ctypes.addressof(self.struct)] = 0
        return self.status

    def check(self, took):
        """What the table has given is released even if it was refused."""
        super().check(self.given)


# --------------------------------------------------------------------------------------------------- array interfaces


class Interface:
    """A producer by __array_interface__."""

    ATTRIBUTE = "__array_interface__"

    def __init__(self, source):
        kinds = ["<f4", "<f8", "<i8", "|u1", "|b1", ">f4", "<c8", "<V9", "f4", "", "<f\0", "|S3"]
        count = source.below(5)
        interface = {
            "version": 3 if source.byte() < 240 else source.number(),
            "shape": tuple(source.number() for _ in range(count)),
            "typestr": kinds[source.below(len(kinds))],
            "data": (ctypes.addressof(memory) + source.below(8), bool(source.below(2))) if source.byte() < 240 else None,
        }
        if source.byte() < 128:
            interface["strides"] = tuple(source.number() for _ in range(count)) if source.byte() < 240 else 3
        if source.byte() > 220:
            interface[["descr", "mask", "offset", "shape"][source.below(4)]] = source.number()
        setattr(self, self.ATTRIBUTE, interface)


class CudaInterface(Interface):
    ATTRIBUTE = "__cuda_array_interface__"

    def __init__(self, source):
        super().__init__(source)
        if source.byte() < 128:
            self.__cuda_array_interface__["stream"] = source.one_of([None, 0, 1, 2, -1, 2**63, "1", source.number()])


class BufferInterface(Interface):
    """Its memory is that of an object, from an offset on."""

    def __init__(self, source):
        super().__init__(source)
        held = source.one_of([bytearray(64), bytes(64), memoryview(bytearray(64))[::2], "text", 3])
        self.__array_interface__["data"] = held
        self.__array_interface__["offset"] = source.number()


class ArrayStruct(ctypes.Structure):
    _fields_ = [("two", ctypes.c_int), ("nd", ctypes.c_int), ("kind", ctypes.c_char), ("itemsize", ctypes.c_int),
                ("flags", ctypes.c_int), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("data", ctypes.c_void_p),
                ("descr", ctypes.c_void_p)]


class Struct:
    """A producer by __array_struct__."""

    def __init__(self, source):
        self.tensor = dlpack.DLTensor()
        self.held = fill_tensor(source, self.tensor)
        at = [ctypes.addressof(numbers) for numbers in self.held]
        self.struct = ArrayStruct(2 if source.byte() < 240 else 3, self.tensor.ndim, b"fiubcVSO\0\xff"[source.below(10):][:1],
                                  source.one_of([4, 8, 1, 2, 16, 0, fits(source.number(), 32, True)]),
                                  fits(source.number(), 32, True), *at, self.tensor.data)
        self.__array_struct__ = api.PyCapsule_New(ctypes.addressof(self.struct), None, None)


def buffer(source):
    """A producer by the buffer protocol."""
    flat = memoryview(bytearray(source.below(48) * 8))
    try:
        flat = flat.cast("BbhHiIqQfd?c"[source.below(12)])
        count = flat.nbytes // flat.itemsize
        if source.byte() < 100 and count % 2 == 0 and count:
            flat = flat.cast("B").cast(flat.format, (2, count // 2)) if flat.format != "B" else flat.cast("B", (2, count // 2))
    except (TypeError, ValueError):
        pass
    if flat.ndim == 1 and source.byte() < 128:
        flat = flat[:: source.below(5) - 2 or 1]
    return flat.toreadonly() if source.byte() < 64 else flat


# -------------------------------------------------------------------------------------------------------------- Arrow


@arrow.RELEASE
def release(address):
    deleted[ctypes.cast(address, ctypes.POINTER(arrow.Array)).contents.private_data] += 1


@arrow.RELEASE
def release_schema(address):
    deleted[ctypes.cast(address, ctypes.POINTER(arrow.Schema)).contents.private_data] += 1


class Arrow:
    """Arrays of Arrow, and their type: by themselves, or one after the other in a stream."""

    FORMATS = [b"i", b"f", b"g", b"C", b"l", b"b", b"+s", b"tdD", b"z", b"", b"u", b"e"]
    SIZES = [b"0", b"1", b"2", b"7", b"-1", b"4611686018427387904", b"9223372036854775808", b"3x", b""]

    def __init__(self, source):
        self.held, self.private = [], 0
        # A bitmap says nothing about its length, so that only small arrays have one.
        self.is_small = source.byte() < 128
        levels = source.below(4) if source.byte() < 250 else 70
        self.schema = self.make_schema(source, levels)
        self.arrays = [self.make_array(source, levels) for _ in range(source.below(4))]
        self.status = [source.one_of([0, 0, 0, 0, 5]) for _ in range(2)]
        self.empty = source.byte() > 230
        self.given = []  # the numbers of the structs that were given away
        name = "__arrow_c_stream__" if source.byte() < 128 else "__arrow_c_array__"
        method = self.stream if name == "__arrow_c_stream__" else self.pair
        setattr(self, name, method if source.byte() < 240 else lambda: source.one_of([None, (), (1, 2), "text"]))

    def keep(self, thing):
        self.held.append(thing)
        return thing

    def numbered(self, struct, function):
        """The struct with a number of its own, by which its releases are counted."""
        self.private += 1
        struct.private_data = id(self) + self.private
        struct.release = ctypes.cast(function, ctypes.c_void_p)
        deleted[struct.private_data] = 0
        return self.keep(struct)

    def pointer_to(self, *addresses):
        return ctypes.addressof(self.keep((ctypes.c_void_p * len(addresses))(*addresses)))

    def number(self, source):
        return source.below(8) if self.is_small else source.number()

    def make_schema(self, source, levels):
        size = source.one_of(self.SIZES[:4] if self.is_small else self.SIZES)
        format = b"+w:" + size if levels else source.one_of(self.FORMATS)
        made = self.numbered(arrow.Schema(self.keep(format) if source.byte() < 250 else None), release_schema)
        if source.byte() > 240:
            made.dictionary = ctypes.addressof(made)
        if source.byte() > 220:
            made.metadata = source.one_of([b"\0\0\0\0", b"\1\0\0\0\x14\0\0\0ARROW:extension:name\0\0\0\0", b"\1\0\0\0" + bytes(8)])
        if levels:
            made.n_children = 1 if source.byte() < 240 else source.number()
            made.children = self.pointer_to(ctypes.addressof(self.make_schema(source, levels - 1))) if source.byte() < 250 else None
        return made

    def make_array(self, source, levels):
        made = self.numbered(arrow.Array(self.number(source), source.one_of([0, 0, 0, -1, 1, self.number(source)])), release)
        made.offset = self.number(source) if source.byte() < 128 else 0
        bitmap = ctypes.addressof(memory) if self.is_small and source.byte() < 128 else None
        made.n_buffers = (1 if levels else 2) if source.byte() < 240 else source.below(2)
        data = ctypes.addressof(memory) + source.below(64) if source.byte() < 240 else None
        made.buffers = self.pointer_to(bitmap, data) if source.byte() < 245 else None
        if levels:
            made.n_children = 1 if source.byte() < 240 else source.number()
            made.children = self.pointer_to(ctypes.addressof(self.make_array(source, levels - 1))) if source.byte() < 250 else None
        return made

    def give(self, out, struct):
        ctypes.memmove(out, ctypes.addressof(struct), ctypes.sizeof(struct))
        if not self.empty:
            self.given.append(struct.private_data)

    def pair(self, requested_schema=None):
        arrays = [*self.arrays, self.keep(arrow.Array())]
        return (api.PyCapsule_New(ctypes.addressof(self.schema), b"arrow_schema", None),
                api.PyCapsule_New(ctypes.addressof(arrays[0]), b"arrow_array", None))

    def stream(self, requested_schema=None):
        left = list(self.arrays)

        def get_schema(stream, out):
            if self.status[0] == 0:
                self.give(out, self.schema if not self.empty else arrow.Schema())
            return self.status[0]

        def get_next(stream, out):
            if self.status[1] == 0 and left:
                self.give(out, left.pop(0))
            return self.status[1]

        functions = [arrow.FILL(get_schema), arrow.FILL(get_next), arrow.TEXT(lambda stream: 0), arrow.RELEASE(lambda stream: None)]
        made = arrow.Stream(*[ctypes.cast(self.keep(function), ctypes.c_void_p) for function in functions])
        return api.PyCapsule_New(ctypes.addressof(self.keep(made)), b"arrow_array_stream", None)

    def check(self, took):
        """What a stream has given is released once. A capsule releases what is in it, and these do not."""
        for i in range(1, self.private + 1):
            count = deleted.pop(id(self) + i)
            expected = int(id(self) + i in self.given)
            assert count == expected, f"a struct of Arrow was released {count} times instead of {expected}"


MORE = [Picky, Tabled, CudaInterface, BufferInterface, Struct, Arrow, Arrow]
