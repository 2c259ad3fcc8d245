"""Arrow's C data interface: what has no nulls and one chunk is taken in place; the rest is refused, and says what to do."""

import gc
import sys

import numpy as np
import pytest
import tenon_probe as probe

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
    with pytest.raises(BufferError, match="consumed before"):
        probe.borrow(Array(lambda: pair))
    stream = pa.chunked_array([[1]]).__arrow_c_stream__()
    pa.ChunkedArray._import_from_c_capsule(stream)
    with pytest.raises(BufferError, match="consumed before"):
        probe.borrow(Stream(lambda: stream))


@pytest.mark.parametrize("error, raised", [(ValueError, BufferError), (KeyboardInterrupt, KeyboardInterrupt), (KeyError, KeyError)])
def test_exceptions_are_the_producers(error, raised):
    def give():
        raise error("mine")
    for x in (Array(give), Stream(give)):
        with pytest.raises(raised, match="mine"):
            probe.borrow(x)


def test_a_stream_that_fails_says_why():
    def batches():
        raise OSError("the disk is gone")
        yield
    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int32()}), batches())
    with pytest.raises(BufferError, match="stream failed.*the disk is gone"):
        probe.borrow(Stream(reader.__arrow_c_stream__))


def test_the_same_object_comes_back():
    x = pa.chunked_array([[1, 2]])
    assert probe.through(x, probe.SAME) is x
