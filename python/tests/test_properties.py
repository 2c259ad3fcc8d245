"""Random arrays through every way in, compared with NumPy's own view of them."""

import importlib

import pytest

np = pytest.importorskip("numpy")
hypothesis = pytest.importorskip("hypothesis")

from hypothesis import strategies as st  # noqa: E402

import tenon_probe as probe  # noqa: E402
from arrays import READ_ONLY, DLPack, Interface, Struct, check_numpy, element_strides, numpy_name  # noqa: E402

try:
    torch = importlib.import_module("torch")
except ImportError:
    torch = None

NUMPY_HAS_READ_ONLY_DLPACK = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
MEMORY = 1 << 14


@st.composite
def arrays(draw, most_dims=10):
    """Any view in a block of memory: strides of any sign, also 0, any offset that is a multiple of the item size."""
    dtype = np.dtype(draw(st.sampled_from("?bhilqBHILQefdFD")))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=most_dims)))
    while np.prod(shape, dtype=object) > 256:
        shape = shape[1:]
    strides, low, high = [], 0, 0
    for size in shape:
        step = draw(st.integers(-9, 9))
        strides.append(step * dtype.itemsize)
        reach = step * max(size - 1, 0)
        low, high = low + min(reach, 0), high + max(reach, 0)
    room = MEMORY // dtype.itemsize
    hypothesis.assume(high - low < room)
    offset = draw(st.integers(-low, min(-low + 40, room - 1 - high)))
    base = np.arange(MEMORY, dtype="u4").astype("u1")  # any bytes will do
    array = np.ndarray(shape, dtype, base.data, offset * dtype.itemsize, tuple(strides))
    if draw(st.booleans()):
        array.setflags(write=False)
    return array


def that_matter(shape, strides):
    """The strides of dimensions larger than 1. NumPy's own protocols make others of those that mean nothing."""
    return [stride for size, stride in zip(shape, strides) if size > 1]


def compare(given, array):
    view = probe.borrow(given)
    if array.size:
        assert that_matter(view["shape"], view["strides"]) == that_matter(array.shape, element_strides(array))
        check_numpy({**view, "strides": element_strides(array)}, array)
    else:  # what an empty array's strides and address are is each way's own business
        assert (view["shape"], view["dtype"], view["numel"]) == (array.shape, numpy_name(array.dtype), 0)
        assert bool(view["flags"] & READ_ONLY) == (not array.flags.writeable)
    if array.flags.writeable:
        assert probe.borrow(given, probe.WRITE)["data"] == view["data"]
    else:
        with pytest.raises(ValueError, match="read-only"):
            probe.borrow(given, probe.WRITE)
    return view


@hypothesis.given(arrays())
def test_numpy_struct(array):
    compare(array, array)
    assert probe.through(array, probe.SAME) is array


@hypothesis.given(arrays())
def test_buffer(array):
    compare(memoryview(array), array)


@hypothesis.given(arrays())
def test_dlpack(array):
    if not array.flags.writeable and not NUMPY_HAS_READ_ONLY_DLPACK:
        array = array.view()
        hypothesis.assume(array.flags.writeable)
    compare(DLPack(array), array)


@hypothesis.given(arrays())
def test_array_interface(array):
    compare(Interface(array), array)


@hypothesis.given(arrays())
def test_array_struct(array):
    compare(Struct(array), array)


@hypothesis.given(arrays())
def test_ours(array):
    compare(probe.through(array, probe.TENSOR), array)


@hypothesis.given(arrays())
def test_ours_by_dlpack(array):
    compare(DLPack(probe.through(array, probe.TENSOR)), array)


@hypothesis.given(arrays())
def test_ours_by_the_buffer_protocol(array):
    compare(probe.through(array, probe.MEMORYVIEW), array)


@pytest.mark.skipif(torch is None, reason="torch is not here")
@hypothesis.given(arrays())
def test_torch_table(array):
    """Into torch and back through its table; torch has neither read-only memory nor negative strides."""
    negative = any(size > 1 and stride < 0 for size, stride in zip(array.shape, array.strides))
    if negative or not array.flags.writeable:
        with pytest.raises(BufferError, match="negative strides|read-only"):
            probe.through(array, probe.TORCH)
        return
    tensor = probe.through(array, probe.TORCH)
    view = probe.borrow(tensor)
    assert (view["shape"], view["dtype"]) == (array.shape, numpy_name(array.dtype))
    assert that_matter(array.shape, tensor.stride()) == that_matter(array.shape, view["strides"])
    if array.size:
        assert view["data"] == array.ctypes.data
        assert that_matter(array.shape, view["strides"]) == that_matter(array.shape, element_strides(array))


@hypothesis.given(arrays())
def test_out_again(array):
    """What comes back is the same view of the same memory, whichever way it went in."""
    ways = [lambda x: x, memoryview, Interface, Struct, lambda x: probe.through(x, probe.TENSOR)]
    for wrap in ways:
        out = probe.through(wrap(array), probe.NUMPY)
        assert out.shape == array.shape and numpy_name(out.dtype) == numpy_name(array.dtype)
        assert out.flags.writeable == array.flags.writeable
        assert out.tobytes() == array.tobytes()
        if array.size:
            assert out.ctypes.data == array.ctypes.data
            assert that_matter(out.shape, out.strides) == that_matter(array.shape, array.strides)


@hypothesis.given(arrays(), st.sampled_from([probe.C_CONTIGUOUS, probe.F_CONTIGUOUS]))
def test_wanted_order(array, order):
    wanted = array.flags.c_contiguous if order == probe.C_CONTIGUOUS else array.flags.f_contiguous
    for given in (array, probe.through(array, probe.TENSOR)):
        if wanted:
            probe.borrow(given, order)
        else:
            with pytest.raises(ValueError, match="order without gaps"):
                probe.borrow(given, order)


@hypothesis.given(arrays(), st.data())
def test_a_write_is_seen(array, data):
    hypothesis.assume(array.size and array.flags.writeable)
    where = tuple(data.draw(st.integers(0, size - 1)) for size in array.shape)
    out = probe.through(array, probe.NUMPY)
    out[where] = 1
    assert array[where] == 1
    array[where] = 0
    assert out[where] == 0
