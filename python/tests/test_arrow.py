"""Arrow's C data interface: what has no nulls and one chunk is taken in place; the rest is refused, and says what to do."""

import ctypes
import gc
import struct
import sys

import numpy as np
import pytest
import tenon_probe as probe
from arrow_structs import GivesArray, GivesStream, Schema, array, keep, pointers, released, schema

pa = pytest.importorskip("pyarrow")

NUMBERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def series(library, values):
    return pytest.importorskip(library).Series(values)


class Array:
    """Only the method that is asked for; what it gives is a test's."""

    def __init__(self, give):
        self.give = give

    def __arrow_c_array__(self, requested_schema=None):
        return self.give()


class Stream:
    def __init__(self, give):
        self.give = give

    def __arrow_c_stream__(self, requested_schema=None):
        return self.give()


def plain(array):
    return Array(array.__arrow_c_array__)


def seen(x):
    return np.asarray(probe.through(x, probe.NUMPY))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("wrap", [plain, lambda array: pa.chunked_array([array])])
def test_numbers_are_taken_in_place(dtype, wrap):
    data = np.arange(6).astype(dtype)
    array = seen(wrap(pa.array(data)))
    assert (array.dtype, array.shape, array.ctypes.data) == (data.dtype, (6,), data.ctypes.data)
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, data)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_series_are_taken_in_place(library):
    data = np.arange(1000.0)
    x = series(library, data)
    first, second = seen(x), seen(x)
    np.testing.assert_array_equal(first, data)
    assert first.ctypes.data == second.ctypes.data == x.to_numpy().ctypes.data


def test_slices_begin_where_they_should():
    data = np.arange(10, dtype="int32")
    for array in (plain(pa.array(data)[3:7]), pa.chunked_array([pa.array(data)])[3:7]):
        assert seen(array).tolist() == [3, 4, 5, 6] and seen(array).ctypes.data == data.ctypes.data + 12


def test_lists_of_one_length_are_more_dimensions():
    data = np.arange(24, dtype="float32")
    rows = pa.FixedSizeListArray.from_arrays(pa.array(data), 3)
    blocks = pa.FixedSizeListArray.from_arrays(rows, 2)
    assert seen(plain(rows[2:5])).tolist() == data.reshape(8, 3)[2:5].tolist()
    assert seen(plain(blocks[1:])).tolist() == data.reshape(4, 2, 3)[1:].tolist()
    assert seen(plain(blocks[1:])).ctypes.data == data.ctypes.data + 24


def test_memory_lives_as_long_as_the_last_view():
    data = np.arange(100.0)
    before = sys.getrefcount(data)
    for wrap in (plain, lambda array: pa.chunked_array([array])):
        array = seen(wrap(pa.array(data)))
        assert sys.getrefcount(data) == before + 1 and array[99] == 99
        del array
        gc.collect()
        assert sys.getrefcount(data) == before


def test_nothing_is_kept_of_what_is_refused():
    data = np.arange(4.0)
    before = sys.getrefcount(data)
    two = pa.chunked_array([pa.array(data), pa.array(data)])
    for _ in range(50):
        with pytest.raises(ValueError, match="more than one chunk.*combine_chunks"):
            probe.borrow(two)
    del two
    assert sys.getrefcount(data) == before


@pytest.mark.parametrize("array", [pa.array([1, None, 3]), pa.array([None], pa.float64())])
def test_nulls_are_refused(array):
    for x in (plain(array), pa.chunked_array([array])):
        with pytest.raises(ValueError, match="it has nulls.*fill_null"):
            probe.borrow(x)


def test_nulls_outside_of_a_slice_do_not_matter():
    assert seen(plain(pa.array([None, 1, 2, None])[1:3])).tolist() == [1, 2]


def test_nulls_in_the_lists_are_refused():
    rows = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))
    items = pa.array([[1, 2], [3, None]], pa.list_(pa.int64(), 2))
    for array in (rows, items):
        with pytest.raises(ValueError, match="it has nulls"):
            probe.borrow(plain(array))


@pytest.mark.parametrize("array, words", [
    (pa.array([True, False]), "single bits"),
    (pa.array(["a", "b"]), "format 'u' has no DLPack dtype"),
    (pa.array([1, 2], pa.timestamp("s")), "dates and times"),
    (pa.array(["a"]).dictionary_encode(), "dictionary array"),
    (pa.array([[1], [2, 3]]), r"format '\+l' has no DLPack dtype"),
    (pa.record_batch({"a": [1]}), "pass one of its columns"),
])
def test_what_is_not_numbers_is_refused(array, words):
    with pytest.raises(TypeError, match=words):
        probe.borrow(plain(array))


def test_nothing_to_write():
    with pytest.raises(ValueError, match=r"read-only.*numpy\.array\(x\)"):
        probe.borrow(plain(pa.array([1.0])), probe.WRITE)


@pytest.mark.parametrize("empty", [pa.array([], pa.int32()), pa.chunked_array([], pa.int32()), pa.chunked_array([[]], pa.int32())])
def test_empty(empty):
    array = seen(empty)
    assert array.shape == (0,) and array.dtype == "int32"


@pytest.mark.parametrize("give", [lambda: None, lambda: (), lambda: (1, 2), lambda: pa.array([1]).__arrow_c_array__()[::-1]])
def test_what_is_no_pair_of_capsules_is_refused(give):
    with pytest.raises(TypeError, match="Arrow|__arrow_c_array__"):
        probe.borrow(Array(give))
    with pytest.raises(TypeError, match="not a capsule named 'arrow_array_stream'"):
        probe.borrow(Stream(give))


def test_what_was_consumed_is_refused():
    pair = pa.array([1]).__arrow_c_array__()
    pa.Array._import_from_c_capsule(*pair)
    with pytest.raises(BufferError, match="already been consumed"):
        probe.borrow(Array(lambda: pair))
    stream = pa.chunked_array([[1]]).__arrow_c_stream__()
    pa.ChunkedArray._import_from_c_capsule(stream)
    with pytest.raises(BufferError, match="already been consumed"):
        probe.borrow(Stream(lambda: stream))


@pytest.mark.parametrize("error, raised", [(ValueError, BufferError), (KeyboardInterrupt, KeyboardInterrupt), (KeyError, KeyError)])
def test_exceptions_are_the_producers(error, raised):
    def give():
        raise error("mine")
    for x in (Array(give), Stream(give)):
        with pytest.raises(raised, match="mine"):
            probe.borrow(x)


def test_the_same_object_comes_back():
    x = pa.chunked_array([[1, 2]])
    assert probe.through(x, probe.SAME) is x


# --------------------------------------------------------------------------------------------- what no library would give


def both(type_, *arrays, **fields):
    """The same array by each method."""
    return [GivesArray(type_, *arrays), GivesStream(type_, *arrays, **fields)]


def lists(size=2, length=3, items=6, **child):
    return schema(b"+w:%d" % size, child=schema()), array(length, child=array(items, **child))


def test_arrays_by_hand_are_right():
    for x in both(schema(), array(4, offset=2)):
        assert seen(x).tolist() == [2, 3, 4, 5]
    for x in both(*lists(offset=1)):
        assert seen(x).tolist() == [[1, 2], [3, 4], [5, 6]]
    for x in both(schema(b"+w:0", child=schema()), array(3, child=array(0))):
        assert seen(x).shape == (3, 0)


@pytest.mark.parametrize("change", [{"n_children": 1, "children": None}, {"n_children": 0}, {"n_children": 2}])
def test_lists_without_their_child(change):
    type_, given = lists()
    for x in both(schema(b"+w:2", child=schema(), **change), given) + both(type_, array(3, child=array(6), **change)):
        with pytest.raises(BufferError, match="not valid"):
            probe.borrow(x)


def test_children_that_are_null():
    from arrow_structs import pointers
    type_, given = lists()
    type_.children = pointers(None)
    for x in both(type_, given):
        with pytest.raises(BufferError, match="not valid"):
            probe.borrow(x)
    type_, given = lists()
    given.children = pointers(None)
    for x in both(type_, given):
        with pytest.raises(BufferError, match="not valid"):
            probe.borrow(x)


@pytest.mark.parametrize("given", [lists(items=5), lists(length=-1), lists(offset=-1), lists(items=2**62, length=2**61)])
def test_lists_that_are_longer_than_their_child(given):
    for x in both(*given):
        with pytest.raises(BufferError, match="not valid"):
            probe.borrow(x)
    type_, outer = lists()
    outer.offset = 1
    with pytest.raises(BufferError, match="not valid"):
        probe.borrow(GivesArray(type_, outer))


def test_offsets_that_are_too_large_together():
    """Each of them is valid, and so are the lengths."""
    most = (2**63 - 1) // 8
    nested = schema(b"+w:1", child=schema(b"g")), array(most // 2, child=array(most, offset=most), offset=most // 2)
    at_the_end = array(1, offset=most, n_buffers=2, buffers=pointers(None, 2**64 - 8))
    for x in (*both(*nested), *both(schema(b"g"), at_the_end)):
        with pytest.raises(BufferError, match="not valid"):
            probe.borrow(x)


@pytest.mark.parametrize("fields", [{"null_count": 2}, {"null_count": -2}, {"n_buffers": 1}, {"n_buffers": 3}, {"buffers": None},
                                    {"length": 2**62}])
def test_arrays_that_are_not_valid(fields):
    for x in both(schema(), array(**fields)):
        with pytest.raises(BufferError, match="not valid|data is NULL"):
            probe.borrow(x)


def test_only_the_nulls_of_a_slice_count():
    for rows in ([[1, 2], [1, None]], [[1, 2], None]):
        x = pa.chunked_array([pa.array(rows, pa.list_(pa.int32(), 2))[:1]])
        assert seen(x).tolist() == [[1, 2]]


def pairs(**values):
    """The metadata of a schema."""
    data = struct.pack("=i", len(values))
    for key, value in values.items():
        for text in (key.replace("_", ":").encode(), value.encode()):
            data += struct.pack("=i", len(text)) + text
    return ctypes.addressof(keep(ctypes.create_string_buffer(data)))


def test_metadata_that_names_an_extension_type_anywhere():
    def borrow(**values):
        given = schema()
        ctypes.c_void_p.from_buffer(given, Schema.metadata.offset).value = pairs(**values)
        return probe.borrow(GivesArray(given, array()))

    assert borrow(unit="ARROW:extension:name", longer_key="", x="y")["shape"] == (4,)
    with pytest.raises(TypeError, match="extension type.*storage"):
        borrow(unit="m", ARROW_extension_name="mine", x="y")


def test_lists_that_are_too_deep():
    types, values = schema(), array()
    for _ in range(63):
        types, values = schema(b"+w:1", types), array(4, values)
    assert len(probe.borrow(GivesArray(types, values))["shape"]) == 64
    with pytest.raises(TypeError, match="its lists have more than 63 levels"):
        probe.borrow(GivesArray(schema(b"+w:1", types), array(4, values)))


def test_extension_types_are_refused():
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12).reshape(2, 3, 2))
    with pytest.raises(TypeError, match="extension type.*storage"):
        probe.borrow(pa.chunked_array([tensors]))
    assert seen(pa.chunked_array([tensors.storage])).shape == (2, 6)


def test_lists_of_pyarrow_are_taken_though_its_dlpack_refuses():
    assert seen(pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))).tolist() == [[1, 2], [3, 4]]


def test_streams_without_an_array_have_a_type():
    assert seen(pa.chunked_array([], pa.list_(pa.int32(), 2))).shape == (0, 2)
    assert seen(GivesStream(schema())).shape == (0,)
    assert seen(GivesStream(schema(), array(release=None))).shape == (0,)  # it was released: the end of the stream


@pytest.mark.parametrize("name", ["get_schema", "get_next"])
def test_streams_without_a_function(name):
    with pytest.raises(BufferError, match="not valid"):
        probe.borrow(GivesStream(schema(), array(), **{name: None}))


@pytest.mark.parametrize("where", ["schema_error", "next_error"])
@pytest.mark.parametrize("fields, words", [({}, "the disk is gone"), ({"get_last_error": None}, "no reason given")])
def test_streams_that_fail(where, fields, words):
    released.clear()
    with pytest.raises(BufferError, match=f"stream failed: {words}"):
        probe.borrow(GivesStream(schema(), array(), **{where: 5}, **fields))
    assert released == ([] if where == "schema_error" else ["Schema"])  # a function that failed gave nothing


def test_releases_are_counted():
    released.clear()
    assert seen(GivesStream(schema(), array())).tolist() == [0, 1, 2, 3]
    gc.collect()
    assert sorted(released) == ["Array"] * 2 + ["Schema"] * 2  # it was asked twice, to see that it gives no copy
    released.clear()
    with pytest.raises(TypeError, match="format 'zz'"):  # the release runs Python code, and does not meet the exception
        probe.borrow(GivesStream(schema(b"zz"), array()))
    assert released == ["Schema"]


def test_what_is_refused_for_its_type_is_not_read():
    x = GivesStream(schema(b"zz"), array())
    with pytest.raises(TypeError):
        probe.borrow(x)
    assert x.nexts == 0


def test_copies_are_refused():
    pandas = pytest.importorskip("pandas")
    for x in (pandas.Series(np.arange(6.0))[::2], pandas.Series([1, 2], dtype=object)):
        with pytest.raises(BufferError, match=r"a copy.*x\.to_numpy\(\)"):
            probe.borrow(x)


def test_methods_that_are_none():
    class Neither:
        __arrow_c_array__ = None
    class Second(Stream):
        __arrow_c_array__ = None
        __array_interface__ = None
    with pytest.raises(TypeError, match="expected an array"):
        probe.borrow(Neither())
    assert seen(Second(pa.chunked_array([[1, 2]]).__arrow_c_stream__)).tolist() == [1, 2]


def test_what_is_wrong_with_an_argument_is_said():
    functions = pytest.importorskip("handmade")
    echo = functions.Echo("f(x: i64[n])")
    with pytest.raises(TypeError, match=r"f\(\): argument 'x': .*format 'zz' has no DLPack dtype"):
        echo(GivesArray(schema(b"zz"), array()))


def test_the_first_refusal_is_the_context():
    class Refuses:
        def __dlpack__(self, **options):
            raise BufferError("no DLPack")
        def __dlpack_device__(self):
            return (1, 0)
        @property
        def __arrow_c_array__(self):
            raise AttributeError
    with pytest.raises(TypeError, match="expected an array") as caught:
        probe.borrow(Refuses())
    assert "no DLPack" in str(caught.value.__context__)
