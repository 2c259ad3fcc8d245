import gc
import sys
import weakref

import pytest

np = pytest.importorskip("numpy")

import tenon_probe as probe  # noqa: E402
from arrays import (  # noqa: E402
    READ_ONLY,
    DLPack,
    Interface,
    Struct,
    check_counts,
    check_numpy,
    element_strides,
    numpy_name,
)

DTYPES = "?bhilqBHILQefdFD"


def needs_read_only_dlpack():
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("this NumPy exports no read-only arrays")


def some_layouts():
    base = np.arange(24, dtype="f4").reshape(2, 3, 4)
    cube = np.arange(120, dtype="i2").reshape(4, 5, 6)
    wide = np.zeros((2,) * 10, "u1")
    return {
        "C": base,
        "F": np.asfortranarray(base),
        "transposed": base.T,
        "permuted": base.transpose(1, 0, 2),
        "stepped": cube[::2, 1:, ::3],
        "negative": cube[::-1, :, ::-2],
        "broadcast": np.broadcast_to(base, (5, 2, 3, 4)),
        "column": cube[:, 2, :],
        "0-d": np.array(3.5),
        "0-d of an array": base[1, 2, 3:4].reshape(()),
        "size 1": base[:1, 1:2, ::3],
        "empty": base[:, :0],
        "empty, all": np.empty((0, 0)),
        "nine dimensions": wide[0],
        "ten dimensions, strided": wide[..., ::-1],
        "eight dimensions": wide[0, 0],
        "read-only": np.frombuffer(bytes(range(32)), "u4"),
        "window": np.lib.stride_tricks.sliding_window_view(np.arange(9.0), 3),
        "field": np.zeros(3, [("a", "f4"), ("b", "f4")])["b"],
    }


LAYOUTS = some_layouts()


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_in_and_out(name):
    array = LAYOUTS[name]
    check_numpy(probe.borrow(array), array)
    handle = probe.import_(array)
    check_numpy(probe.describe(handle), array)
    out = probe.export(handle, probe.NUMPY)
    assert out is not array
    assert type(out) is np.ndarray
    assert (out.shape, out.dtype) == (array.shape, array.dtype)
    assert out.strides == array.strides
    assert out.ctypes.data == array.ctypes.data
    assert out.flags.writeable == array.flags.writeable
    np.testing.assert_array_equal(out, array)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the setters
def test_what_is_changed_in_place():
    """The order is taken from NumPy's flags, which must follow each of its ways to change an array."""
    changes = [lambda a: setattr(a, "shape", (4, 3)), lambda a: setattr(a, "strides", (8, 32)),
               lambda a: setattr(a, "strides", (0, 0)), lambda a: setattr(a, "dtype", "f4"),
               lambda a: a.resize((2, 2), refcheck=False), lambda a: a.sort(axis=0),
               lambda a: a.__setstate__((1, (2, 2), a.dtype, True, bytes(32)))]
    for first in changes:
        for second in changes:
            array = np.arange(12.0).reshape(3, 4).copy()
            for change in (first, second):
                try:
                    change(array)
                except (ValueError, AttributeError, TypeError):
                    continue  # not possible in this order, or not any more in this NumPy
                check_numpy(probe.borrow(array), array)


@pytest.mark.parametrize("order", [probe.C_CONTIGUOUS, probe.F_CONTIGUOUS])
@pytest.mark.parametrize("name", LAYOUTS)
def test_wanted_order(name, order):
    array = LAYOUTS[name]
    if array.flags.c_contiguous if order == probe.C_CONTIGUOUS else array.flags.f_contiguous:
        check_numpy(probe.borrow(array, order), array)
    else:
        with pytest.raises(ValueError, match="contiguous copy|such a copy"):
            probe.borrow(array, order)


def test_most_dimensions():
    most = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
    array = np.zeros((1,) * (most - 1) + (3,))
    check_numpy(probe.borrow(array), array)


@pytest.mark.parametrize("code", DTYPES)
def test_dtype(code):
    array = np.array([[1, 0, 1], [0, 1, 1]], dtype=code)
    check_numpy(probe.borrow(array), array)
    out = probe.through(array, probe.NUMPY)
    assert numpy_name(out.dtype) == numpy_name(array.dtype)
    assert out.ctypes.data == array.ctypes.data
    # A write on one side is seen on the other, both ways.
    out[0, 1] = 1
    assert array[0, 1] == 1
    array[1, 0] = 1
    assert out[1, 0] == 1
    array[0, 0] = 0
    probe.poke(array, 1)
    assert out.view("u1").flat[0] == 1


@pytest.mark.parametrize("code", ["=f4", "<f4" if sys.byteorder == "little" else ">f4", ">i1", "<u1", "|b1"])
def test_byte_order_of_this_machine(code):
    array = np.ones(3, code)
    check_numpy(probe.borrow(array), array)


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros(2, "g"), "long double.*astype"),
        (np.zeros(2, "G"), "long double.*astype"),
        (np.array([None]), "Python objects.*astype"),
        (np.array(["text"]), "strings"),
        (np.array([b"text"]), "strings"),
        (np.zeros(2, "M8[s]"), "dates and times.*view"),
        (np.zeros(2, "m8[s]"), "dates and times.*view"),
        (np.zeros(2, [("a", "f4"), ("b", "i4")]), "structured.*fields"),
        (np.zeros(2, "V8"), "structured"),
        (np.zeros(2, ">f4" if sys.byteorder == "little" else "<f4"), "swapped.*newbyteorder"),
        (np.zeros(2, ">c8" if sys.byteorder == "little" else "<c8"), "swapped.*newbyteorder"),
        (np.zeros(0, "M8[s]"), "dates and times"),
    ],
)
def test_dtype_refused(array, message):
    before = sys.getrefcount(array)
    for call in (probe.borrow, probe.import_):
        with pytest.raises(TypeError, match=f"numpy.ndarray: .*{message}"):
            call(array)
    assert sys.getrefcount(array) == before


def test_text_of_any_length_refused():
    if not hasattr(np, "dtypes") or not hasattr(np.dtypes, "StringDType"):
        pytest.skip("this NumPy has no StringDType")
    with pytest.raises(TypeError, match="dtype has no DLPack name"):
        probe.borrow(np.array(["a"], dtype=np.dtypes.StringDType()))


def test_strides_that_are_no_elements():
    packed = np.zeros(3, np.dtype([("a", "u1"), ("b", "f4")]))
    with pytest.raises(ValueError, match=r"strides of \[5\] bytes are not multiples of the item size, 4 .*; pass a copy"):
        probe.borrow(packed["b"])
    # A single element has no stride to speak of.
    assert probe.borrow(packed[:1]["b"])["data"] == packed[:1]["b"].ctypes.data
    probe.borrow(packed["b"].copy())


@pytest.mark.parametrize("wrap", [lambda x: x, DLPack, Interface, Struct, memoryview], ids=lambda wrap: wrap.__name__)
def test_read_only(wrap):
    array = np.arange(3.0)
    array.setflags(write=False)
    if wrap is DLPack:
        needs_read_only_dlpack()
    given = wrap(array)
    check_numpy(probe.borrow(given), array)
    for call in (probe.borrow, probe.import_):
        with pytest.raises(ValueError, match="read-only.*pass a (NumPy )?copy"):
            call(given, probe.WRITE)
    out = probe.through(given, probe.NUMPY)
    assert not out.flags.writeable
    with pytest.raises(ValueError):
        out.setflags(write=True)
    assert probe.through(given, probe.MEMORYVIEW).readonly
    assert not out[::2].flags.writeable


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_subclasses_taken(tmp_path):
    class Plain(np.ndarray):
        pass

    matrix = np.asmatrix([[1.0, 2.0], [3.0, 4.0]])
    plain = np.arange(6.0).reshape(2, 3)[:, ::2].view(Plain)
    mapped = np.memmap(tmp_path / "file", "f4", "w+", shape=(4,))
    records = np.rec.array(np.zeros(3, [("a", "f4"), ("b", "f4")]))
    for array in (matrix, plain, mapped, records.b):
        check_numpy(probe.borrow(array), array)
        assert probe.through(array, probe.SAME) is array
        assert type(probe.through(array, probe.NUMPY)) is np.ndarray
    probe.poke(mapped, 7)
    assert mapped.view("u1")[0] == 7
    mapped.flush()
    again = np.memmap(tmp_path / "file", "f4", "r")
    assert again.view("u1")[0] == 7
    with pytest.raises(ValueError, match="read-only"):
        probe.borrow(again, probe.WRITE)


class Unwrapping(np.ndarray):
    """Computes with plain arrays, and returns them, as the arrays of newer versions of JAX do."""

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return getattr(ufunc, method)(*(np.asarray(x) for x in inputs), **keywords)


class Doubled(Unwrapping):
    """Means twice the numbers in its memory."""

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return getattr(ufunc, method)(*(np.asarray(x) * 2 for x in inputs), **keywords)


class Metres(np.ndarray):
    """The sums have the unit too."""

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return getattr(ufunc, method)(*(np.asarray(x) for x in inputs), **keywords).view(Metres)


class OldMetres(np.ndarray):
    """The same by the operators alone."""

    unit = "m"

    def __add__(self, other):
        return (np.asarray(self) + np.asarray(other)).view(OldMetres)


class PerhapsUnit(np.ndarray):
    """Its sums are plain if this array has no unit."""

    label = None

    def __array_finalize__(self, source):
        self.label = getattr(source, "label", None)

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        result = getattr(ufunc, method)(*(np.asarray(x) for x in inputs), **keywords)
        return result if self.label is None else result.view(PerhapsUnit)


class OwnOperators(np.ndarray):
    """Adds in its own way, but says nothing of a unit."""

    def __add__(self, other):
        return np.add(self, other)


@pytest.mark.parametrize("dtype", ["bool", "i1", "u8", "f2", "f8", "c8"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (1,) * 20])
def test_subclasses_with_plain_sums_are_taken(dtype, shape):
    for kind in (Unwrapping, OwnOperators):
        array = np.ones(shape, dtype).view(kind)
        check_numpy(probe.borrow(array), array)
        array.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            probe.borrow(array, probe.WRITE)


def test_subclass_of_jax_is_taken():
    pytest.importorskip("jax")
    literals = pytest.importorskip("jax._src.literals")
    kind = getattr(literals, "TypedNdArray", None)
    if kind is None or not issubclass(kind, np.ndarray):
        pytest.skip("this JAX has no such subclass")
    given = kind(np.arange(3.0))
    check_numpy(probe.borrow(given), given)


@pytest.mark.parametrize("kind", [Doubled, Metres, OldMetres])
def test_subclasses_with_another_meaning(kind):
    for array in (np.ones(3).view(kind), np.ones((), "f4").view(kind), np.zeros((0, 2), "i8").view(kind)):
        with pytest.raises(TypeError, match=r"(gives the numbers).*x.view\(numpy.ndarray\)"):
            probe.borrow(array)
        probe.borrow(array.view(np.ndarray))


def test_meaning_of_each_object():
    """One array without a unit does not let the next one of its class through."""
    plain, metres = np.ones(3).view(PerhapsUnit), np.ones(3).view(PerhapsUnit)
    metres.label = "m"
    for _ in range(2):
        assert probe.borrow(plain)["data"] == plain.ctypes.data
        with pytest.raises(TypeError, match="its sums are not plain arrays"):
            probe.borrow(metres)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RecursionError])
def test_sum_that_is_interrupted(error):
    class Interrupted(np.ndarray):
        def __array_ufunc__(self, *arguments, **keywords):
            raise error

    with pytest.raises(error):
        probe.borrow(np.ones(3).view(Interrupted))


@pytest.mark.parametrize("module, make", [
    ("astropy.units", lambda m: m.Quantity([1.0, 2.0], "m")),
    ("unyt", lambda m: m.unyt_array([1.0, 2.0], "m")),
    ("quantities", lambda m: m.Quantity([1.0, 2.0], "m")),
    ("pint", lambda m: m.UnitRegistry().Quantity(np.ones(2), "m")),
    ("galois", lambda m: m.GF(7)([1, 2])),
])
def test_units_of_packages(module, make):
    given = make(pytest.importorskip(module))
    with pytest.raises(TypeError):
        probe.borrow(given)


def test_subclasses_refused():
    class Unit(np.ndarray):
        def __array_ufunc__(self, *arguments, **keywords):
            raise AssertionError("must not be called")

    class Masked(np.ma.MaskedArray):
        pass

    with pytest.raises(TypeError, match=r"__array_ufunc__.*x.view\(numpy.ndarray\)"):
        probe.borrow(np.zeros(3).view(Unit))
    masked = np.ma.masked_array([1.0, 2.0], mask=[True, False])
    for array in (masked, masked.view(Masked)):
        with pytest.raises(TypeError, match=r"mask would be lost.*x.filled\(\)"):
            probe.borrow(array)
    with pytest.raises(TypeError, match="structured"):
        probe.borrow(np.rec.array(np.zeros(3, [("a", "f4"), ("b", "f4")])))
    probe.borrow(masked.filled(0))
    probe.borrow(masked.data)


def test_scalar():
    view = probe.borrow(np.float32(2.5))
    assert (view["shape"], view["dtype"], view["flags"] & 1) == ((), "f32", 1)


def test_counts():
    check_counts(lambda: np.zeros((2, 3)))
    check_counts(lambda: np.zeros((2,) * 10))


def test_import_outlives_the_array():
    array = np.arange(1000.0)
    gone = weakref.ref(array)
    handle = probe.import_(array)
    del array
    gc.collect()
    assert gone() is not None
    out = probe.export(handle, probe.NUMPY)
    del handle
    gc.collect()
    assert out.sum() == 499500
    view = out[::3]
    del out
    gc.collect()
    assert view[-1] == 999 and gone() is not None
    del view
    gc.collect()
    assert gone() is None


def test_release_on_another_thread():
    array = np.arange(10.0)
    before = sys.getrefcount(array)
    probe.release_elsewhere(probe.import_(array))
    probe.borrow(b"")  # any call of the bridge gives back what waits
    assert sys.getrefcount(array) == before


def test_same():
    for array in (np.arange(6.0), np.arange(6.0)[::-2], np.zeros(()), np.zeros((0, 3)), np.zeros((2,) * 9)):
        handle = probe.import_(array)
        assert probe.export(handle, probe.SAME) is array
        assert probe.export(handle, probe.SAME) is array


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("change", ["shape", "dtype", "strides"])
def test_same_after_a_change(change):
    array = np.arange(6, dtype="i8")
    handle = probe.import_(array)
    try:
        setattr(array, change, {"shape": (2, 3), "dtype": "f8", "strides": (-8,)}[change])
    except (AttributeError, ValueError) as refused:
        pytest.skip(f"this NumPy: {refused}")
    out = probe.export(handle, probe.SAME)
    assert type(out) is probe.Tensor
    view = probe.borrow(out)
    assert (view["shape"], view["strides"], view["dtype"]) == ((6,), (1,), "i64")
    assert view["data"] == probe.describe(handle)["data"]


def test_borrow_many_and_converters():
    arrays = [np.arange(float(n)) for n in range(1, 5)]
    before = [sys.getrefcount(array) for array in arrays]
    for view, array in zip(probe.borrow_many(*arrays), arrays):
        check_numpy(view, array)
    del array
    with pytest.raises(TypeError, match="expected an array"):
        probe.borrow_many(*arrays, "no array")
    assert probe.parse(arrays[0], arrays[1], 3) == 3
    with pytest.raises(TypeError):
        probe.parse(arrays[0], arrays[1], "no number")
    frozen = np.arange(3)
    frozen.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        probe.parse(frozen, frozen, 1)
    assert probe.parse(frozen, arrays[0], 1) == 1
    assert [sys.getrefcount(array) for array in arrays] == before


@pytest.mark.parametrize("wrap", [DLPack, Interface, Struct, memoryview], ids=lambda wrap: wrap.__name__)
@pytest.mark.parametrize("name", LAYOUTS)
def test_other_ways_agree(name, wrap):
    array = LAYOUTS[name]
    if wrap is DLPack and not array.flags.writeable:
        needs_read_only_dlpack()
    given = wrap(array)
    view = probe.borrow(given)
    assert view["shape"] == array.shape
    if array.size:
        check_numpy(view, array)
        np.testing.assert_array_equal(probe.through(given, probe.NUMPY), array)
    handle = probe.import_(given)
    assert probe.export(handle, probe.SAME) is given


def test_the_wrapped_array_lives():
    """What is held is the memory, not only the object that was asked."""

    class Once:
        def __dlpack__(self, **keywords):
            return np.arange(100.0).__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    handle = probe.import_(Once())
    gc.collect()
    assert probe.export(handle, probe.NUMPY).sum() == 4950


def test_element_strides_of_numpy():
    array = LAYOUTS["stepped"]
    assert element_strides(array) == (60, 6, 3)
    assert probe.borrow(array)["strides"] == (60, 6, 3)


def test_broadcast_arrays_are_not_written():
    """NumPy marks what it will one day make read-only, and its own buffer says read-only already."""
    given = np.broadcast_arrays(np.zeros(3), np.zeros((2, 3)))[0]
    assert probe.borrow(given)["flags"] & READ_ONLY
    with pytest.raises(ValueError, match="read-only"):
        probe.borrow(given, probe.WRITE)


def test_strides_of_empty_arrays_mean_nothing():
    given = np.lib.stride_tricks.as_strided(np.zeros(1), (0, 4), (3, 5))
    assert probe.borrow(given)["shape"] == (0, 4)
    assert probe.borrow(memoryview(given))["shape"] == (0, 4)


def test_dates_are_refused_as_scalars_too():
    for given in (np.datetime64("2020-01-01"), np.timedelta64(3, "s")):
        with pytest.raises(TypeError, match="dates and times"):
            probe.borrow(given)


def test_flags_without_a_meaning():
    for flags in (1 << 30, probe.PIN):
        with pytest.raises(ValueError, match="flags"):
            probe.borrow(np.zeros(2), flags)


def test_a_class_that_calls_the_bridge_when_it_adds():
    """It is asked for a sum to find out what its numbers mean, and would be asked again and again."""
    asked = []

    class Calling(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            asked.append(ufunc)
            probe.borrow(self)

    with pytest.raises(TypeError, match="gives the numbers another meaning"):
        probe.borrow(np.zeros(3).view(Calling))
    assert asked == [np.add]
