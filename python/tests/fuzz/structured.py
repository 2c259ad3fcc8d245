"""Random producers and random calls from bytes, for the fuzzer of the Python bridge and for tests that replay its inputs.

`run(data)` reads what it needs from the bytes, as far as they go. Whatever they say, a call ends, raises one of ALLOWED, and each
producer's deleter runs exactly once. The memory that producers describe exists, but what they say about it is arbitrary, so that
elements are read only of tensors whose extent is inside it."""

import ctypes
import gc
import io
import pathlib
import pickle
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "functions"), str(HERE.parent / "soak")]

import dlpack  # noqa: E402
from world import World, tenon  # noqa: E402

ALLOWED = (TypeError, ValueError, BufferError, OverflowError, IndexError, MemoryError, AttributeError, RuntimeError, OSError)
SIZE = 1 << 16
memory = ctypes.create_string_buffer(SIZE)
world = World(0)
deleted = {}  # the address of a struct, and how often its deleter ran

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAMES = [b"dltensor_versioned", b"dltensor", b"used_dltensor", b"other"]
NUMBERS = [0, 1, 2, 3, 4, -1, -2, 5, 7, 63, 64, 65, 127, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**61, 2**63 - 1, -(2**63)]


@dlpack.DELETER
def delete(address):
    deleted[address] += 1


class Bytes:
    """The fuzzer's bytes, one choice after the other; zeros at their end."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def below(self, count):
        return self.byte() % count

    def number(self):
        """Small numbers and limits often, any other number sometimes."""
        choice = self.byte()
        if choice < 200:
            return NUMBERS[choice % len(NUMBERS)]
        return struct.unpack("<q", bytes(self.byte() for _ in range(8)))[0]

    def done(self):
        return self.at >= len(self.data)


def fits(value, bits, signed):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return value if low <= value <= high else value % (high + 1)


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


class Interface:
    """A producer by __array_interface__."""

    def __init__(self, source):
        kinds = ["<f4", "<f8", "<i8", "|u1", "|b1", ">f4", "<c8", "<V9", "f4", "", "<f\0", "|S3"]
        count = source.below(5)
        self.__array_interface__ = {
            "version": 3 if source.byte() < 240 else source.number(),
            "shape": tuple(source.number() for _ in range(count)),
            "typestr": kinds[source.below(len(kinds))],
            "data": (ctypes.addressof(memory) + source.below(8), bool(source.below(2))) if source.byte() < 240 else None,
        }
        if source.byte() < 128:
            self.__array_interface__["strides"] = tuple(source.number() for _ in range(count)) if source.byte() < 240 else 3
        if source.byte() > 220:
            self.__array_interface__[["descr", "mask", "offset", "shape"][source.below(4)]] = source.number()


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


def inside(tensor):
    """Whether the CPU may read the elements, and there are few lists of them: an empty tensor may have 2^61 rows."""
    if not tensor.device.startswith("cpu") or tensor.size > 4096 or max(tensor.shape, default=0) > 4096:
        return False
    low = high = tensor.data_ptr - ctypes.addressof(memory)
    for size, stride in zip(tensor.shape, tensor.strides):
        step = (size - 1) * stride * (tensor.nbytes // max(tensor.size, 1) or 1)
        low, high = low + min(step, 0), high + max(step, 0)
    return tensor.size == 0 or (low >= 0 and high + 64 < SIZE)


def use(source, tensor):
    """Views and exports of a tensor that was accepted."""
    text = (tensor.shape, tensor.strides, tensor.dtype, tensor.device, tensor.nbytes, tensor.readonly)
    assert len(text[0]) == len(text[1]) == tensor.ndim
    views = [tensor]
    for _ in range(source.below(4)):
        view, choice = views[source.below(len(views))], source.below(5)
        try:
            if choice == 0:
                views.append(view.T)
            elif choice == 1:
                step = source.number()
                views.append(view[source.number() : source.number() : step or 1])
            elif choice == 2:
                views.append(view[source.number()])
            elif choice == 3:
                views.append(view[None, ..., None])
            else:
                views.append(tenon.from_dlpack(view))
        except ALLOWED:
            pass
    for view in views:
        if inside(tensor):
            try:
                view.tolist()
            except ALLOWED:
                pass


def produce(source):
    """Import a producer, and release it."""
    makers = [Capsules, Capsules, Interface, buffer]
    producer = makers[source.below(len(makers))](source)
    took = False
    try:
        tensor = tenon.from_dlpack(producer) if hasattr(producer, "__dlpack__") else tenon.to(producer, "tenon")
        took = True
        use(source, tensor)
        del tensor
    except ALLOWED:
        pass
    if isinstance(producer, Capsules):
        producer.check(took)


def value(source, depth=0):
    """Any argument."""
    choice = source.below(16)
    if choice < 5 and world.numpy:
        shape = [source.below(4) for _ in range(source.below(4))]
        dtype = ["float32", "float64", "int64", "uint8", "bool", "complex64", ">f4", "float16"][source.below(8)]
        array = world.numpy.zeros(shape, dtype)
        return array.T if source.byte() < 60 else array[::-1] if array.ndim and source.byte() < 60 else array
    if choice < 8 and depth < 3:
        items = [value(source, depth + 1) for _ in range(source.below(5))]
        return tuple(items) if choice == 7 else items
    numbers = [source.number(), float(source.number()), float("nan"), complex(1, source.below(3)), 2**64 - 1, -(2**70)]
    others = [None, True, "", "f32", "mean", "\ud800", b"bytes", bytearray(3), memoryview(b"x"), object, Ellipsis, {}, len]
    return (numbers + others)[source.below(len(numbers) + len(others))]


LIBRARIES = ("kernels", "kinds", "lists", "conversions", "batches", "overloads", "bags")
# They wait, write to any address, or are mistakes on purpose.
LEFT_OUT = {"handshake", "handshake_locked", "run", "run_locked", "scribble", "huge", "scratch", "count_up", "zeros", "into"}


def call(source):
    """Call some function with any arguments, by position and by keyword."""
    library = getattr(world, LIBRARIES[source.below(len(LIBRARIES))])
    names = sorted(name for name in vars(library) if callable(getattr(library, name)) and name[0] != "_" and name not in LEFT_OUT)
    function = getattr(library, names[source.below(len(names))])
    arguments = [value(source) for _ in range(source.below(5))]
    keywords = {["x", "y", "k", "n", "out", "like", "a", "xs"][source.below(8)]: value(source) for _ in range(source.below(3))}
    try:
        result = function(*arguments, **keywords)
        if not isinstance(result, (int, float, str)) and source.byte() < 100:
            for name in ("close", "values", "size"):
                member = getattr(result, name, None)
                if name == "close" and callable(member) and source.byte() < 50:
                    member()
    except ALLOWED:
        pass
    except StopIteration:
        pass


class Unpickler(pickle.Unpickler):
    """Finds what pickles of tensors need, and nothing else: a damaged name must not call anything."""

    def find_class(self, module, name):
        if (module, name) in {("tenon._reduce", "_from_bytes"), ("builtins", "bytearray"), ("_codecs", "encode")}:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


def pickled(source):
    """Read the pickle of a tensor in which some bytes were changed, and use what comes out."""
    shape = tuple(source.below(4) for _ in range(source.below(3)))
    tensor = tenon._native._tensor_on(bytearray(SIZE), 0, ["f32", "u8", "c64", "bool"][source.below(4)], shape, None)
    data = bytearray(pickle.dumps(tensor, source.below(pickle.HIGHEST_PROTOCOL + 1)))
    for _ in range(source.below(4)):
        data[source.below(len(data))] = source.byte()
    try:
        read = Unpickler(io.BytesIO(data)).load()
        if isinstance(read, tenon.Tensor) and read.size < 4096 and max(read.shape, default=0) < 4096:
            read.tolist()
    except (*ALLOWED, pickle.UnpicklingError, EOFError, KeyError):
        pass


def run(data):
    """One input of the fuzzer."""
    source = Bytes(data)
    while True:
        kind = source.byte()
        (produce if kind < 130 else call if kind < 240 else pickled)(source)
        if source.done():
            break
    if len(data) % 64 == 0:
        gc.collect()
