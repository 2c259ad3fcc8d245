"""The buffer protocol: bytes, bytearray, array, memoryview, mmap, ctypes, pyarrow, PIL."""

import array
import ctypes
import gc
import mmap
import struct
import sys

import pytest

import tenon_probe as probe
from arrays import CPU, READ_ONLY, layout_flags, memory


def address_of(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def check(view, dtype, shape, strides=None, read_only=False, data=None):
    expected, step = [], 1
    for size in reversed(shape):
        expected.insert(0, step)
        step *= size
    strides = tuple(expected) if strides is None else strides
    assert (view["dtype"], view["shape"], view["device"], view["byte_offset"]) == (dtype, shape, CPU, 0)
    assert view["strides"] == strides or 0 in shape
    assert view["flags"] == (READ_ONLY if read_only else 0) | layout_flags(shape, view["strides"])
    assert data is None or view["data"] == data


def test_bytes():
    given = b"some bytes"
    before = sys.getrefcount(given)
    view = probe.borrow(given)
    check(view, "u8", (10,), read_only=True)
    assert memory(view, 10) == given
    with pytest.raises(ValueError, match="bytes: the memory is read-only"):
        probe.borrow(given, probe.WRITE)
    assert probe.through(given, probe.MEMORYVIEW).tobytes() == given
    assert probe.through(given, probe.SAME) is given
    assert sys.getrefcount(given) == before
    check(probe.borrow(b""), "u8", (0,), read_only=True)


def test_bytearray():
    given = bytearray(b"abc")
    check(probe.borrow(given, probe.WRITE), "u8", (3,), data=address_of(given))
    probe.poke(given, 122)
    assert given == b"zbc"
    given.append(1)  # nothing is held any more
    handle = probe.import_(given)
    with pytest.raises(BufferError):
        given.append(2)
    out = probe.export(handle, probe.MEMORYVIEW)
    out[1] = 7
    assert given[1] == 7
    del handle
    with pytest.raises(BufferError):
        given.append(2)
    del out
    gc.collect()
    given.append(2)
    probe.release_elsewhere(probe.import_(given))
    probe.borrow(b"")
    given.append(3)


@pytest.mark.parametrize("code", "bBhHiIlLqQfd")
def test_array(code):
    given = array.array(code, [1, 2, 3])
    kind = "f" if code in "fd" else "i" if code.islower() else "u"
    check(probe.borrow(given, probe.WRITE), f"{kind}{8 * given.itemsize}", (3,), data=given.buffer_info()[0])
    out = probe.through(given, probe.MEMORYVIEW)
    out[2] = type(given[0])(9)
    assert given[2] == 9
    given[0] = 5
    assert out[0] == 5
    del out
    gc.collect()
    given.append(given[0])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("code", [code for code in "uw" if code in array.typecodes])
def test_array_of_text(code):
    with pytest.raises(TypeError, match="array.array: its buffer's format '.' has no DLPack dtype"):
        probe.borrow(array.array(code, "text"))


def test_memoryview():
    whole = bytearray(range(24))
    view = memoryview(whole).cast("h", (3, 4))
    check(probe.borrow(view), "i16", (3, 4), data=address_of(whole))
    check(probe.borrow(view.toreadonly()), "i16", (3, 4), read_only=True)
    line = memoryview(whole)[20:2:-3]
    check(probe.borrow(line), "u8", (6,), (-3,), data=address_of(whole) + 20)
    check(probe.borrow(memoryview(whole).cast("c")), "u8", (24,))
    with pytest.raises(TypeError, match="'P' has no DLPack dtype"):
        probe.borrow(memoryview(bytes(16)).cast("P"))
    scalar = memoryview(bytearray(4)).cast("f", ())
    check(probe.borrow(scalar), "f32", ())
    view.release()
    with pytest.raises((BufferError, ValueError), match="released"):
        probe.borrow(view)


def test_formats():
    """Every letter of the struct module that is a number, in native and standard size."""
    sizes = {"?": "bool", "b": "i8", "B": "u8", "h": "i16", "H": "u16", "i": "i32", "I": "u32", "q": "i64", "Q": "u64"}
    sizes.update({"f": "f32", "d": "f64", "c": "u8", "l": f"i{8 * struct.calcsize('l')}"})
    sizes.update({"L": f"u{8 * struct.calcsize('L')}", "n": f"i{8 * struct.calcsize('n')}"})
    sizes.update({"N": f"u{8 * struct.calcsize('N')}"})
    for letter, name in sizes.items():
        for prefix in ("", "@"):
            given = memoryview(bytearray(16)).cast(prefix + letter)
            check(probe.borrow(given), name, (16 // given.itemsize,))


def test_mmap(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(64)))
    with open(path, "r+b") as file:
        with mmap.mmap(file.fileno(), 0) as mapped:
            check(probe.borrow(mapped, probe.WRITE), "u8", (64,))
            probe.poke(mapped, 200)
            handle = probe.import_(mapped)
            with pytest.raises(BufferError):
                mapped.close()
            assert probe.export(handle, probe.MEMORYVIEW)[0] == 200
            del handle
            gc.collect()
        assert path.read_bytes()[0] == 200
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            check(probe.borrow(mapped), "u8", (64,), read_only=True)
            with pytest.raises(ValueError, match="read-only"):
                probe.borrow(mapped, probe.WRITE)


CTYPES = {
    ctypes.c_bool: "bool",
    ctypes.c_byte: "i8",
    ctypes.c_ubyte: "u8",
    ctypes.c_char: "u8",
    ctypes.c_short: "i16",
    ctypes.c_ushort: "u16",
    ctypes.c_int: "i32",
    ctypes.c_uint: "u32",
    ctypes.c_long: f"i{8 * ctypes.sizeof(ctypes.c_long)}",
    ctypes.c_ulong: f"u{8 * ctypes.sizeof(ctypes.c_ulong)}",
    ctypes.c_longlong: "i64",
    ctypes.c_ulonglong: "u64",
    ctypes.c_float: "f32",
    ctypes.c_double: "f64",
}


@pytest.mark.parametrize("kind", CTYPES, ids=lambda kind: kind.__name__)
def test_ctypes(kind):
    given = ((kind * 3) * 2)()
    check(probe.borrow(given, probe.WRITE), CTYPES[kind], (2, 3), data=ctypes.addressof(given))
    check(probe.borrow(kind()), CTYPES[kind], ())
    probe.poke(given, 1)
    assert bytes(given)[0] == 1


def test_ctypes_refused():
    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float)]

    class Either(ctypes.Union):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float)]

    swapped = ctypes.c_int.__ctype_be__ if sys.byteorder == "little" else ctypes.c_int.__ctype_le__
    with pytest.raises(TypeError, match="is a structure.*pass one of its fields"):
        probe.borrow((Pair * 2)())
    for union in (Either(), (Either * 2)()):
        with pytest.raises(TypeError, match="not for items of 4 bytes; of a ctypes union pass one of its members"):
            probe.borrow(union)
    with pytest.raises(TypeError, match="swapped bytes"):
        probe.borrow((swapped * 2)())
    if ctypes.sizeof(ctypes.c_longdouble) > 8:
        with pytest.raises(TypeError, match="is long double"):
            probe.borrow((ctypes.c_longdouble * 2)())
    with pytest.raises(TypeError, match="no DLPack dtype"):
        probe.borrow((ctypes.c_void_p * 2)())
    with pytest.raises(TypeError, match="no DLPack dtype"):
        probe.borrow((ctypes.py_object * 2)())


def test_no_arrays():
    with pytest.raises(TypeError, match="^type: this is a class, not an array"):
        probe.borrow(bytearray)
    for given in (None, 3, 2.5, "text", [1.0, 2.0], (1, 2), {}, object(), len):
        before = sys.getrefcount(given)
        with pytest.raises(TypeError, match=f"^{type(given).__name__}: expected an array: NumPy, PyTorch"):
            probe.borrow(given)
        shared = given is None or isinstance(given, (int, float, str, tuple))  # by the whole process, before 3.12
        assert shared or sys.getrefcount(given) == before


def test_numpy_formats_by_the_buffer_protocol():
    np = pytest.importorskip("numpy")
    for code in "?bhilqBHILQefdFD":
        given = np.ones((2, 3), code)[:, ::2]
        view = probe.borrow(memoryview(given))
        kind = given.dtype.kind
        name = "bool" if kind == "b" else f"{kind}{8 * given.itemsize}"
        check(view, name, (2, 2), (3, 2), data=given.ctypes.data)
    for code, message in (("g", "long double"), ("G", "long double"), (">f4", "swapped"), ("O", "no DLPack dtype")):
        with pytest.raises(TypeError, match=message):
            probe.borrow(memoryview(np.zeros(2, code)))
    with pytest.raises(TypeError, match="is a structure.*pass one of its fields"):
        probe.borrow(memoryview(np.zeros(2, [("a", "f4"), ("b", "i4")])))
    packed = np.zeros(3, [("a", "u1"), ("b", "f4")])["b"]
    with pytest.raises(ValueError, match="not multiples of the item size, 4 .*; pass a copy"):
        probe.borrow(memoryview(packed))


def test_pyarrow():
    pa = pytest.importorskip("pyarrow")
    given = pa.array([1.5, 2.5, 3.5])
    view = probe.borrow(given)
    check(view, "f64", (3,), read_only=True, data=given.buffers()[1].address)  # also where its capsule is a legacy one
    with pytest.raises(ValueError, match="read-only"):
        probe.borrow(given, probe.WRITE)
    assert memory(view, 24) == struct.pack("=3d", 1.5, 2.5, 3.5)
    part = given[1:]
    assert probe.borrow(part)["data"] == view["data"] + 8
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"):
        values = pa.array([1, 2], getattr(pa, name)())
        check(probe.borrow(values), name[0] + name.strip("uintfloa"), (2,), read_only=True)
    # DLPack's refusal is a TypeError of its own: there is a gap in the numbers, or they are bits. Arrow's interface says more.
    for refused, error, words in ((pa.array([1, None]), ValueError, "it has nulls"), (pa.array([True, False]), TypeError, "bits")):
        with pytest.raises(error, match=words) as caught:
            probe.borrow(refused)
        assert "the producer refused" in str(caught.value.__context__)
        assert type(caught.value.__context__.__cause__) is pa.ArrowTypeError
    handle = probe.import_(given)
    del given, part
    gc.collect()
    assert memory(probe.describe(handle), 8) == struct.pack("=d", 1.5)


def test_pyarrow_buffer_and_tensor():
    pa = pytest.importorskip("pyarrow")
    buffer = pa.py_buffer(b"abcd")
    check(probe.borrow(buffer), "i8", (4,), read_only=True, data=buffer.address)
    mutable = pa.allocate_buffer(8)
    check(probe.borrow(mutable, probe.WRITE), "i8", (8,), data=mutable.address)
    probe.poke(mutable, 9)
    assert mutable.to_pybytes()[0] == 9
    np = pytest.importorskip("numpy")
    source = np.arange(6.0).reshape(2, 3).T
    tensor = pa.Tensor.from_numpy(source)
    check(probe.borrow(tensor), "f64", (3, 2), (1, 3), data=source.ctypes.data)


IMAGES = [("L", "u8", ()), ("RGB", "u8", (3,)), ("RGBA", "u8", (4,)), ("F", "f32", ()), ("I", "i32", ())]


@pytest.mark.parametrize("mode, dtype, bands", IMAGES)
def test_pil(mode, dtype, bands):
    """An image offers its array interface, which is made of a copy: read-only, and right."""
    Image = pytest.importorskip("PIL.Image")
    image = Image.new(mode, (4, 3))
    image.putpixel((0, 0), 7 if not bands else (7,) * bands[0])
    view = probe.borrow(image)
    check(view, dtype, (3, 4) + bands, read_only=True)
    handle = probe.import_(image)
    del image
    gc.collect()
    out = probe.export(handle, probe.MEMORYVIEW)
    assert out.readonly and (out[0, 0] if not bands else out[0, 0, 0]) == 7
