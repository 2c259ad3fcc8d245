"""Random producers, calls and modules from bytes, for the fuzzer of the Python bridge and for tests that replay its inputs.

`run(data)` reads what it needs from the bytes, as far as they go. Whatever they say, a call ends, raises one of ALLOWED, and each
producer's deleter runs exactly once. The memory that producers describe exists, but what they say about it is arbitrary, so that
elements are read only of tensors whose extent is inside it."""

import contextlib
import ctypes
import gc
import io
import math
import pathlib
import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "functions"), str(HERE.parent / "soak")]

from choices import ALLOWED, SIZE, Bytes, memory  # noqa: E402
from world import World, tenon  # noqa: E402

import made_modules  # noqa: E402
from made_producers import MORE, Capsules, Interface, buffer  # noqa: E402

world = World(0)


def is_small(tensor):
    """Whether it has few elements, in few lists: an empty tensor may have 2^61 rows."""
    return math.prod(max(size, 1) for size in tensor.shape) <= 4096


def inside(tensor):
    """Whether the CPU may read the elements, and there are few of them."""
    if not tensor.device.startswith("cpu") or not is_small(tensor):
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


DEVICES = [None, "cpu", "cuda", "cpu:1", (1, 0), (2, 0), (1,), (2**31, 0), (True, "0"), 1]


def export(source, tensor):
    """Give the tensor away, by every protocol and with any keywords."""
    values = [None, True, False, 0, 1, -1, 2**63, (1, 0), (1, 3), (0, 8), (2**40, 0), (2, 1), (1.0, 0), "", [1, 0]]
    names = ["stream", "max_version", "dl_device", "copy", "other"]
    copies = [None, False, True] if inside(tensor) else [None, False]
    choice = source.below(6)
    if choice < 3:
        keywords = {source.one_of(names): source.one_of(values) for _ in range(source.below(4))}
        if not inside(tensor):
            keywords.pop("copy", None)
        capsule = tensor.__dlpack__(**keywords)
        if source.byte() < 128:
            tenon.from_dlpack(capsule)
        if source.byte() < 128:
            tenon.from_dlpack(capsule)
    elif choice == 3:
        tenon.from_dlpack(tensor, device=source.one_of(DEVICES), copy=source.one_of([*copies, 1, "no"]))
    elif choice == 4:
        tenon.to(tensor, source.one_of(["numpy", "tenon", "memoryview", "other"]))
    else:
        memoryview(tensor).release()
        getattr(tensor, source.one_of(["__cuda_array_interface__", "__array_interface__", "shared_name", "__dlpack_device__"]))


def produce(source, makers=(Capsules, Capsules, Interface, buffer), more=False):
    """Import a producer, and release it."""
    producer = makers[source.below(len(makers))](source)
    took = False
    try:
        tensor = tenon.from_dlpack(producer) if hasattr(producer, "__dlpack__") else tenon.to(producer, "tenon")
        took = True
        use(source, tensor)
        if more:
            export(source, tensor)
    except ALLOWED:
        pass
    tensor = None
    if hasattr(producer, "check"):
        producer.check(took)


def value(source, depth=0, number=None):
    """Any argument."""
    number = number or source.number
    choice = source.below(16)
    if choice < 5 and world.numpy:
        shape = [source.below(4) for _ in range(source.below(4))]
        dtype = ["float32", "float64", "int64", "uint8", "bool", "complex64", ">f4", "float16"][source.below(8)]
        array = world.numpy.zeros(shape, dtype)
        return array.T if source.byte() < 60 else array[::-1] if array.ndim and source.byte() < 60 else array
    if choice < 8 and depth < 3:
        items = [value(source, depth + 1, number) for _ in range(source.below(5))]
        return tuple(items) if choice == 7 else items
    numbers = [number(), float(number()), float("nan"), complex(1, source.below(3)), 2**64 - 1, -(2**70)]
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


def few_bytes(source=b"", *others):
    """bytearray(), but not with a damaged number of gigabytes."""
    if isinstance(source, int) and source > SIZE:
        raise MemoryError
    return bytearray(source, *others)


class Unpickler(pickle.Unpickler):
    """Finds what pickles of tensors need, and nothing else: a damaged name must not call anything."""

    KNOWN = {
        ("tenon._reduce", "_from_bytes"),
        ("tenon._shared_multiprocessing", "_from_descriptor"),
        ("_codecs", "encode"),
    }

    def find_class(self, module, name):
        if (module, name) == ("builtins", "bytearray"):
            return few_bytes
        if (module, name) in self.KNOWN:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


@contextlib.contextmanager
def little_memory():
    """No more than 2 GB. The memo of the unpickler has a place for each index up to the largest, and an allocator that reserves
    nothing gives it dozens of gigabytes."""
    if sys.platform != "linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2**31
    resource.setrlimit(resource.RLIMIT_AS, (limit if soft == resource.RLIM_INFINITY else min(soft, limit), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def unpickle(data):
    with little_memory():
        return Unpickler(io.BytesIO(data)).load()


def read_damaged(source, data):
    """Read a pickle in which some bytes were changed, and use what comes out."""
    data = bytearray(data)
    for _ in range(source.below(4)):
        data[source.below(len(data))] = source.byte()
    try:
        read = unpickle(data)
        if isinstance(read, tenon.Tensor) and is_small(read):
            read.tolist()
    except (*ALLOWED, pickle.UnpicklingError, EOFError, LookupError):
        pass


def pickled(source):
    """The pickle of a tensor."""
    shape = tuple(source.below(4) for _ in range(source.below(3)))
    tensor = tenon._native._tensor_on(bytearray(SIZE), 0, ["f32", "u8", "c64", "bool"][source.below(4)], shape, None)
    read_damaged(source, pickle.dumps(tensor, source.below(pickle.HIGHEST_PROTOCOL + 1)))


def handed_over(source):
    """The message with which a process gets a shared tensor, or a view of one, from another."""
    shape = tuple(source.below(4) for _ in range(source.below(3)))
    tensor = tenon.shared_zeros(shape, ["f32", "u8", "c64", "bool"][source.below(4)])
    if shape and source.byte() < 128:
        tensor = tensor[: source.below(4)]
    with mock.patch("os.urandom", bytes):  # so that an input has the same message each time
        message = bytes(ForkingPickler.dumps(tensor))
    read_damaged(source, message)
    tenon.release_sent()


def run(data):
    """One input of the fuzzer."""
    source = Bytes(data)
    while True:
        kind = source.byte()
        if kind < 101:
            produce(source)
        elif kind < 130:
            produce(source, MORE, more=True)
        elif kind < 210:
            call(source)
        elif kind < 240:
            made_modules.run(source, lambda number: value(source, number=number))
        elif kind < 248 or sys.platform != "linux":
            pickled(source)
        else:
            handed_over(source)
        if source.done():
            break
    if len(data) % 64 == 0:
        gc.collect()
