"""tenon.Tensor: what every consumer can do with it."""

import ctypes
import gc
import importlib.util
import pickle
import sys
import weakref

import pytest

import dlpack
import tenon_probe as probe
from arrays import IS_COPIED, PADDED, READ_ONLY, DLPack


def tensor(*arguments):
    return probe.export(probe.new(*arguments), probe.TENSOR)


def test_repr_and_type():
    given = tensor("u8", (2, 3), None, 0, READ_ONLY)
    assert repr(given) == "<tenon.Tensor u8[2, 3] on cpu, read-only: [[0, 1, 2], [3, 4, 5]]>"
    assert type(given) is probe.Tensor
    assert type(given).__name__ == "Tensor" and type(given).__module__ == "tenon"
    assert gc.is_tracked(given)


def test_not_made_by_calling():
    with pytest.raises(TypeError, match="tenon.Tensor cannot be called"):
        probe.Tensor()
    with pytest.raises(TypeError):
        type("Below", (probe.Tensor,), {})
    with pytest.raises(AttributeError):
        tensor("f32", (2,)).attribute = 1


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_need_the_package(protocol, monkeypatch):
    given = tensor("f32", (2,))
    if importlib.util.find_spec("tenon"):
        loaded = pickle.loads(pickle.dumps(given, protocol))
        assert (loaded.shape, loaded.dtype, bytes(loaded)) == ((2,), "float32", bytes(given))
    monkeypatch.setitem(sys.modules, "tenon._reduce", None)  # importing it is an ImportError
    with pytest.raises(TypeError, match="cannot pickle a tenon.Tensor without the Python package of Tenon"):
        pickle.dumps(given, protocol)


def test_weak_references(released):
    given = tensor("f32", (2,))
    called = []
    reference = weakref.ref(given, called.append)
    assert reference() is given
    del given
    assert reference() is None and called == [reference]
    assert released() == 1


def test_one_count_each(released):
    handle = probe.new("f32", (2,))
    first, second = probe.export(handle), probe.export(handle)
    assert probe.count(handle) == 3 and first is not second
    del first
    assert probe.count(handle) == 2
    del handle
    assert released() == 0
    view = probe.borrow(second)
    assert view["shape"] == (2,)
    del second
    assert released() == 1


def test_import_gives_the_same_tensor():
    handle = probe.new("f32", (2, 3))
    given = probe.export(handle)
    again = probe.import_(given)
    assert probe.count(handle) == 3
    assert probe.describe(again) == probe.describe(handle)
    del again, given
    assert probe.count(handle) == 1


class Node:
    """A producer that can be part of a cycle."""

    def __init__(self, inner):
        self.inner = inner

    def __dlpack__(self, **keywords):
        return self.inner.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()


def test_cycle_is_collected(released):
    node = Node(tensor("f32", (2,)))
    node.child = probe.through(node, probe.TENSOR)
    gone = weakref.ref(node)
    assert node in gc.get_referents(node.child)
    del node
    gc.collect()
    assert gone() is None
    assert released() == 1


def test_cycle_is_not_collected_while_others_hold_it(released):
    node = Node(tensor("f32", (2,)))
    handle = probe.import_(node)
    node.child = probe.export(handle, probe.TENSOR)
    assert node not in gc.get_referents(node.child)
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is not None and probe.describe(handle)["shape"] == (2,)
    del handle
    gc.collect()
    assert gone() is None
    assert released() == 1


# ---------------------------------------------------------------------------------------------------------- __dlpack__


@pytest.mark.parametrize("version, name", [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned")])
def test_versions(version, name, released):
    given = tensor("i16", (2, 3), (1, 2), 6)
    capsule = given.__dlpack__(max_version=version)
    assert dlpack.name_of(capsule) == name
    inside = dlpack.contents(capsule)
    assert dlpack.describe(inside.tensor) == ((2, 3), (1, 2), (0, 16, 1), (1, 0), 0)
    assert inside.tensor.data == probe.borrow(given)["data"]
    if name == "dltensor_versioned":
        assert (inside.major, inside.minor, inside.flags) == (1, 0, 0)  # no newer than what is in it
    del given
    assert released() == 0
    del capsule, inside
    assert released() == 1


def test_errors_of_arguments_are_kept():
    class Index:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            if self.value is None:
                raise KeyboardInterrupt
            return self.value

    given = tensor("f32", (2,))
    assert dlpack.name_of(given.__dlpack__(max_version=(Index(1), Index(0)))) == "dltensor_versioned"
    for keyword in ("max_version", "dl_device"):
        with pytest.raises(KeyboardInterrupt):
            given.__dlpack__(**{keyword: (Index(None), 0)})


def test_padded_values_need_a_version():
    given = probe.export(probe.new("i4", (2,), None, 0, PADDED))
    with pytest.raises(BufferError) as caught:
        given.__dlpack__()
    assert str(caught.value) == ("the values are smaller than a byte and padded to one, and DLPack before 1.0 has no flag "
                                 "for that; ask with max_version=(1, 1) or newer")  # fmt: skip
    assert dlpack.contents(given.__dlpack__(max_version=(1, 1))).flags == PADDED


def test_a_version_beyond_every_number():
    assert dlpack.name_of(tensor("f32", (2,)).__dlpack__(max_version=(2**70, 2**70))) == "dltensor_versioned"


def test_newer_version_gets_ours():
    inside = tensor("f32", (2,)).__dlpack__(max_version=(2, 7))
    assert dlpack.contents(inside).major == 1


def test_consumed_once(released):
    given = tensor("f32", (2,))
    capsule = given.__dlpack__(max_version=(1, 0))

    class Same:
        def __dlpack__(self, **keywords):
            return capsule

    handle = probe.import_(Same())
    assert dlpack.name_of(capsule) == "used_dltensor_versioned"
    with pytest.raises(BufferError, match="already been consumed"):
        probe.borrow(Same())
    del given, capsule
    assert released() == 0
    del handle
    assert released() == 1


def test_read_only_needs_a_version():
    given = tensor("f32", (2,), None, 0, READ_ONLY)
    with pytest.raises(BufferError, match=r"read-only.*max_version=\(1, 0\)"):
        given.__dlpack__()
    assert dlpack.contents(given.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
    assert probe.borrow(DLPack(given))["flags"] & READ_ONLY


def test_copy(released):
    given = tensor("u8", (3,), (2,), 4, READ_ONLY)
    capsule = given.__dlpack__(max_version=(1, 0), copy=True)
    inside = dlpack.contents(capsule)
    assert inside.flags == IS_COPIED
    assert inside.tensor.data != probe.borrow(given)["data"]
    assert ctypes.string_at(inside.tensor.data, 3) == bytes([4, 6, 8])
    del given
    assert released() == 1
    assert ctypes.string_at(inside.tensor.data, 3) == bytes([4, 6, 8])
    same = tensor("u8", (3,))
    for copy in (False, None):
        inside = dlpack.contents(same.__dlpack__(copy=copy))
        assert inside.tensor.data == probe.borrow(same)["data"]


@pytest.mark.parametrize("device", [2, 10, 4])
def test_no_copy_on_another_device(device):
    given = tensor("f32", (2,), None, 0, 0, device, 1)
    with pytest.raises(BufferError, match=r"Tenon cannot make a copy on \w+:1; copy it with the framework that made it$"):
        given.__dlpack__(copy=True, stream=-1)
    with pytest.raises(BufferError, match="not on the device that dl_device names"):
        given.__dlpack__(copy=True, dl_device=(1, 0), stream=-1)


@pytest.mark.parametrize("device", [3, 11, 13])
def test_the_capsule_is_where_it_was_asked_for(device, released):
    """Pinned and managed memory: a copy would not be there, and is made on the CPU only if that is asked for."""
    given = tensor("u8", (3,), None, 5, 0, device)
    data = probe.borrow(given)["data"]
    assert given.__dlpack_device__() == (device, 0)
    with pytest.raises(BufferError, match=r"cannot make a copy on \w+:0; .*, or ask for one .* dl_device=\(1, 0\)"):
        given.__dlpack__(copy=True)
    inside = dlpack.contents(given.__dlpack__())
    assert (inside.tensor.device_type, inside.tensor.data) == (device, data)
    copied = dlpack.contents(given.__dlpack__(copy=True, dl_device=(1, 0), max_version=(1, 0)))
    assert (copied.tensor.device_type, copied.flags) == (1, IS_COPIED) and copied.tensor.data != data
    assert ctypes.string_at(copied.tensor.data, 3) == bytes([5, 6, 7])
    shared = dlpack.contents(given.__dlpack__(dl_device=(1, 0), copy=False))
    assert (shared.tensor.device_type, shared.tensor.data) == (1, data)
    del given, inside, copied
    assert released() == 0 and ctypes.string_at(shared.tensor.data, 3) == bytes([5, 6, 7])
    del shared
    assert released() == 1


def test_devices_asked_for():
    given = tensor("f32", (2,))
    assert given.__dlpack_device__() == (1, 0)
    assert dlpack.name_of(given.__dlpack__(dl_device=(1, 0))) == "dltensor"
    with pytest.raises(BufferError, match="not on the device that dl_device names"):
        given.__dlpack__(dl_device=(2, 0))
    cuda = tensor("f32", (2,), None, 0, 0, 2, 1)
    assert cuda.__dlpack_device__() == (2, 1)
    assert dlpack.contents(cuda.__dlpack__(dl_device=(2, 1), stream=1)).tensor.device_id == 1
    for other in ((2, 0), (1, 0)):
        with pytest.raises(BufferError, match="not on the device that dl_device names"):
            cuda.__dlpack__(dl_device=other)


@pytest.mark.parametrize("keyword, value", [("max_version", 1), ("max_version", (1,)), ("max_version", ("a", 0)),
                                            ("max_version", (1.5, 0)), ("max_version", (1, "a")), ("max_version", (-1, 0)),
                                            ("max_version", (1, -(2**70))), ("max_version", [1, 0]),
                                            ("copy", "no"), ("copy", 1), ("copy", 0), ("copy", ()),
                                            ("dl_device", 1), ("dl_device", ("a", 1)), ("dl_device", (2**40, 0)),
                                            ("other", 1)])  # fmt: skip
def test_wrong_arguments(keyword, value):
    with pytest.raises(TypeError) as caught:
        tensor("f32", (2,)).__dlpack__(**{keyword: value})
    if keyword != "other":
        assert str(caught.value).startswith(f"tenon.Tensor.__dlpack__(): argument '{keyword}': expected ")
        assert str(caught.value).endswith(f", got {value!r}")
    with pytest.raises(TypeError):
        tensor("f32", (2,)).__dlpack__(None)


# ------------------------------------------------------------------------------------------------------ exchange table


def test_table_versions():
    table = dlpack.table_of(probe.Tensor)
    assert (table.major, table.minor, table.previous) == (1, 3, None)
    stream = ctypes.c_void_p(1)
    assert table.stream(1, 0, ctypes.byref(stream)) == 0 and stream.value is None


def test_table_has_no_flags_for_read_only():
    """Who borrows by the table would take the memory for writable: it is refused there, and told by the import."""
    table = dlpack.table_of(probe.Tensor)
    given = probe.export(probe.new("f32", (2,), None, 0, READ_ONLY))
    borrowed = dlpack.DLTensor()
    with pytest.raises(BufferError, match="read-only"):
        table.borrow(given, ctypes.byref(borrowed))
    managed = ctypes.POINTER(dlpack.Versioned)()
    assert table.from_object(given, ctypes.byref(managed)) == 0 and managed.contents.flags & READ_ONLY
    dlpack.DELETER(managed.contents.deleter)(managed)


def test_table_gives_and_takes(released):
    table = dlpack.table_of(probe.Tensor)
    given = tensor("f32", (2, 3), (1, 2), 0, READ_ONLY)
    data = probe.borrow(given)["data"]
    managed = ctypes.POINTER(dlpack.Versioned)()
    assert table.from_object(given, ctypes.byref(managed)) == 0
    inside = managed.contents
    assert (inside.major, inside.flags, inside.tensor.data) == (1, READ_ONLY, data)
    del given
    assert released() == 0
    out = ctypes.c_void_p()
    assert table.to_object(managed, ctypes.byref(out)) == 0
    back = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(back))
    view = probe.borrow(back)
    assert (view["data"], view["shape"], view["strides"]) == (data, (2, 3), (1, 2))
    assert view["flags"] & READ_ONLY and type(back) is probe.Tensor
    del back, view
    assert released() == 1


def test_table_borrows():
    table = dlpack.table_of(probe.Tensor)
    given = tensor("bf16", (3,))
    source = dlpack.DLTensor()
    assert table.borrow(given, ctypes.byref(source)) == 0
    assert dlpack.describe(source) == ((3,), (1,), (4, 16, 1), (1, 0), 0)
    assert source.data == probe.borrow(given)["data"]


def test_table_refuses_other_objects():
    table = dlpack.table_of(probe.Tensor)
    with pytest.raises(TypeError, match="called with an object of another type"):
        table.from_object(object(), ctypes.byref(ctypes.POINTER(dlpack.Versioned)()))
    with pytest.raises(TypeError, match="called with an object of another type"):
        table.borrow(b"bytes", ctypes.byref(dlpack.DLTensor()))


def allocate(device, code, bits, shape):
    errors = []
    handler = dlpack.SET_ERROR(lambda context, kind, message: errors.append((context, kind, message)))
    dims = (ctypes.c_int64 * len(shape))(*shape)
    prototype = dlpack.DLTensor(None, device, 0, len(shape), code, bits, 1, dims, None, 0)
    managed = ctypes.POINTER(dlpack.Versioned)()
    status = dlpack.table_of(probe.Tensor).allocate(ctypes.byref(prototype), ctypes.byref(managed), 42, handler)
    return status, managed, errors


def test_table_allocates():
    status, managed, errors = allocate(1, 2, 32, (2, 3))
    assert (status, errors) == (0, [])
    inside = managed.contents
    assert dlpack.describe(inside.tensor) == ((2, 3), (3, 1), (2, 32, 1), (1, 0), 0)
    assert inside.tensor.data % 64 == 0
    ctypes.memset(inside.tensor.data, 1, 24)
    dlpack.DELETER(inside.deleter)(ctypes.addressof(inside))


def test_table_allocator_without_a_place_for_errors():
    prototype = dlpack.DLTensor(None, 2, 0, 0, 2, 32, 1, None, None, 0)
    managed = ctypes.POINTER(dlpack.Versioned)()
    table = dlpack.table_of(probe.Tensor)
    assert table.allocate(ctypes.byref(prototype), ctypes.byref(managed), None, dlpack.SET_ERROR()) == -1
    assert not managed


@pytest.mark.parametrize("request_", [(2, 2, 32, (2,)), (1, 99, 32, (2,)), (1, 2, 32, (-1,)), (1, 2, 32, (2**62, 4))])
def test_table_cannot_allocate(request_):
    status, managed, errors = allocate(*request_)
    assert status == -1 and not managed
    assert len(errors) == 1 and errors[0][:2] == (42, b"ValueError") and errors[0][2]


# ------------------------------------------------------------------------------------------------------ buffer protocol


class PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


SIMPLE, WRITABLE, FORMAT, ND, STRIDES, C_ORDER, F_ORDER, ANY_ORDER = 0, 1, 4, 8, 24, 56, 88, 152


def get_buffer(given, flags):
    buffer = PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(given), ctypes.byref(buffer), flags)
    seen = {
        "ndim": buffer.ndim,
        "format": buffer.format,
        "shape": buffer.shape[: buffer.ndim] if buffer.shape else None,
        "strides": buffer.strides[: buffer.ndim] if buffer.strides else None,
        "len": buffer.len,
        "readonly": buffer.readonly,
        "data": buffer.buf,
    }
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return seen


def test_buffer_requests():
    given = tensor("f32", (2, 3))
    data = probe.borrow(given)["data"]
    plain = {"ndim": 1, "format": None, "shape": None, "strides": None, "len": 24, "readonly": 0, "data": data}
    assert get_buffer(given, SIMPLE) == plain
    assert get_buffer(given, SIMPLE | WRITABLE) == plain
    assert get_buffer(given, ND) == {**plain, "ndim": 2, "shape": [2, 3]}
    full = {**plain, "ndim": 2, "shape": [2, 3], "strides": [12, 4]}
    assert get_buffer(given, STRIDES) == full
    assert get_buffer(given, STRIDES | FORMAT) == {**full, "format": b"f"}
    assert get_buffer(given, C_ORDER) == full
    assert get_buffer(given, ANY_ORDER) == full
    with pytest.raises(BufferError, match="not in the requested order"):
        get_buffer(given, F_ORDER)


def test_buffer_orders():
    turned = tensor("f32", (2, 3), (1, 2))
    assert get_buffer(turned, F_ORDER)["strides"] == [4, 8]
    assert get_buffer(turned, ANY_ORDER)["strides"] == [4, 8]
    gaps = tensor("f32", (2, 3), (6, 2))
    assert get_buffer(gaps, STRIDES)["strides"] == [24, 8]
    for given, refused in ((turned, (SIMPLE, ND, C_ORDER)), (gaps, (SIMPLE, ND, C_ORDER, F_ORDER, ANY_ORDER))):
        for flags in refused:
            with pytest.raises(BufferError, match="not in the requested order"):
                get_buffer(given, flags)
    with pytest.raises(BufferError, match="read-only"):
        get_buffer(tensor("f32", (2,), None, 0, READ_ONLY), WRITABLE)


def test_buffer_without_dimensions():
    """PEP 3118: shape and strides are NULL then."""
    seen = get_buffer(tensor("f32", ()), STRIDES | FORMAT)
    assert (seen["ndim"], seen["shape"], seen["strides"], seen["len"], seen["format"]) == (0, None, None, 4, b"f")


def test_memoryview():
    given = tensor("u8", (2, 3), (-3, 1), 3)
    view = memoryview(given)
    assert view.tolist() == [[3, 4, 5], [0, 1, 2]]
    view[0, 0] = 9
    assert memoryview(given)[0, 0] == 9
    assert memoryview(tensor("u8", ()))[()] == 0
    assert memoryview(tensor("u8", (0, 3))).tolist() == []
    assert memoryview(tensor("u8", (2,) * 9)).ndim == 9
    assert bytes(tensor("u8", (4,))) == bytes(range(4))


def test_memory_lives_with_the_buffer(released):
    view = memoryview(tensor("u8", (4,)))
    part = view[1:]
    del view
    assert released() == 0 and part.tolist() == [1, 2, 3]
    del part
    assert released() == 1


# --------------------------------------------------------------------------------------------------------------- NumPy


def test_array_without_a_buffer_format(released):
    numpy = pytest.importorskip("numpy")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    given = tensor("bf16", (2, 3), (1, 2))
    array = numpy.asarray(given)
    assert (array.dtype, array.shape, array.strides) == (ml_dtypes.bfloat16, (2, 3), (2, 4))
    assert array.ctypes.data == probe.borrow(given)["data"]
    assert numpy.asarray(tensor("bf16", ())).dtype == ml_dtypes.bfloat16
    assert not numpy.asarray(tensor("f8_e4m3fn", (2,), None, 0, READ_ONLY)).flags.writeable
    wide = numpy.asarray(given, dtype="f4")
    assert wide.dtype == "f4" and (wide == array.astype("f4")).all()
    copied = given.__array__(copy=True)
    assert copied.dtype == array.dtype and copied.ctypes.data != array.ctypes.data
    assert given.__array__(array.dtype).ctypes.data == given.__array__(copy=False).ctypes.data == array.ctypes.data
    if numpy.lib.NumpyVersion(numpy.__version__) >= "2.0.0":
        with pytest.raises(ValueError, match="copy"):
            given.__array__("f4", copy=False)
    del given, copied
    assert released() == 2  # of the other two
    del array
    assert released() == 3


def test_array_of_what_numpy_cannot_read():
    """An error that says why, not an array with the tensor as its only element."""
    numpy = pytest.importorskip("numpy")
    with pytest.raises(ValueError, match="on cuda:0, which NumPy cannot read; copy it to the CPU with its own framework"):
        numpy.asarray(tensor("f32", (2,), None, 0, 0, 2))
    with pytest.raises(ValueError, match="^NumPy has no dtype for i4 values that share a byte; unpack them, one to a byte"):
        numpy.asarray(tensor("i4", (2,)))
    with pytest.raises(TypeError):
        tensor("f32", (2,)).__array__(None, None, None)


def test_array_without_ml_dtypes(monkeypatch):
    numpy = pytest.importorskip("numpy")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ImportError, match="NumPy has no dtype for bf16; install ml_dtypes, which has one"):
        numpy.asarray(tensor("bf16", (2,)))
    assert numpy.asarray(tensor("u8", (2,))).tolist() == [0, 1]
