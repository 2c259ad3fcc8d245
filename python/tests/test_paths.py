"""Every fast path against the general one, on random arrays: same exception, same message, same bytes of the view."""

import collections
import importlib
import random

import pytest

np = pytest.importorskip("numpy")

import tenon_paths as paths  # noqa: E402
import tenon_probe as probe  # noqa: E402
from paths import CASES, is_view, outcome, read, that_matters  # noqa: E402

try:
    ml_dtypes = importlib.import_module("ml_dtypes")
except ImportError:
    ml_dtypes = None

PLAIN = "?bhilqBHILQefdFD"
REFUSED = [">f4", ">i2", ">c8", "g", "G", "O", "S3", "U2", "M8[s]", "m8[s]", [("a", "u1"), ("b", "f4")]]
EXTRA = [getattr(ml_dtypes, name) for name in ("bfloat16", "float8_e4m3fn", "int4") if hasattr(ml_dtypes, name)]
FLAGS = [0, probe.WRITE, probe.C_CONTIGUOUS, probe.F_CONTIGUOUS, probe.ANY_DEVICE, probe.WRITE | probe.C_CONTIGUOUS,
         probe.C_CONTIGUOUS | probe.ANY_DEVICE]
NUMPY_HAS_READ_ONLY_DLPACK = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
MEMORY = np.zeros(1 << 14, "u1")


@pytest.fixture(autouse=True)
def met():
    """The fast path is for a type that has been met."""
    paths.read("borrow", np.zeros(1))


def random_dtype(rng):
    chance = rng.random()
    if chance < 0.08:
        return np.dtype(rng.choice(REFUSED))
    if EXTRA and chance < 0.13:
        return np.dtype(rng.choice(EXTRA))
    return np.dtype(rng.choice(PLAIN))


def random_strides(rng, shape, item):
    """Of any sign, also 0; a few are not whole elements."""
    odd = rng.random() < 0.15
    return tuple(rng.randint(-5, 5) * item + (rng.randint(-1, 1) if odd else 0) for _ in shape)


def random_array(rng, broadcast):
    """An array in MEMORY, or a new one if it holds objects. NumPy warns of writing to those that it broadcasts."""
    dtype, item = (dtype := random_dtype(rng)), dtype.itemsize
    shape = tuple(rng.choice((0, 1, 1, 2, 3) if rng.random() < 0.2 else (1, 2, 3)) for _ in range(rng.randint(0, 5)))
    if rng.random() < 0.05:
        shape += (1,) * rng.randint(1, 20)
    if dtype.hasobject:
        return np.empty(shape, dtype)
    if rng.random() < 0.5:
        array = np.ndarray(shape, dtype, MEMORY.data, rng.randint(0, 64), order=rng.choice("CCCF"))
        if shape and rng.random() < 0.3:  # some of these still are in C order
            array = array[tuple(slice(None, None, rng.choice((1, 1, 2, -1))) for _ in shape)]
    else:
        array = np.ndarray(shape, dtype, MEMORY.data, 1 << 13, random_strides(rng, shape, item))
    if broadcast and rng.random() < 0.05:
        return np.broadcast_arrays(array, np.empty((2, *array.shape), "u1"))[0]
    if rng.random() < 0.2:
        array.setflags(write=False)
    return array


def random_arrays(seed, broadcast=True):
    rng = random.Random(seed)
    for _ in range(CASES):
        yield rng, random_array(rng, broadcast)


def test_borrow_and_peek():
    """tenon__py_peek, which calls begin with, and tenon_py_borrow, which begins with it, against a borrow without it."""
    seen = collections.Counter()
    for rng, array in random_arrays(17):
        general, peeked = read("general", array), read("peek", array)
        assert peeked is None or peeked == general
        flags = rng.choice(FLAGS)
        assert read("borrow", array, flags) == read("general", array, flags), (array.dtype, array.strides, flags)
        seen["view" if is_view(general) else general[0]] += 1
        seen["peeked"] += peeked is not None
    assert min(seen["peeked"], seen["view"]) > CASES // 5 and min(seen[TypeError], seen[ValueError]) > 100


def test_numpy_struct_and_protocols():
    """The array struct against NumPy's own description of the array, by the buffer protocol, __dlpack__ and
    __array_struct__. The messages name the way in, so only what is refused must be the same. What NumPy broadcasts is
    read-only here, and not for all of its protocols."""
    seen = collections.Counter()
    for _, array in random_arrays(18, broadcast=False):
        struct = read("numpy", array)
        results = {way: read(way, array) for way in ("buffer", "dlpack", "interface")}
        if not is_view(struct):
            seen[struct[0]] += 1
            assert not any(map(is_view, results.values())), (array.dtype, array.strides, results)
            if "multiples of the item size" in struct[1] and array.dtype.type not in EXTRA:  # one place says it
                assert results["buffer"] == results["interface"] == struct
            continue
        seen["view"] += 1
        for way, result in results.items():
            if array.dtype.type in EXTRA:  # no protocol has a name for these
                assert not is_view(result)
            elif way == "dlpack" and not is_view(result) and not NUMPY_HAS_READ_ONLY_DLPACK:
                assert not array.flags.writeable
            else:
                assert is_view(result) and that_matters(result) == that_matters(struct), (way, array.strides)
    assert seen["view"] > CASES // 2 and min(seen[TypeError], seen[ValueError]) > 100


def test_buffer():
    """The fast case that JAX's arrays are read by against the buffer protocol."""
    fast_ones = 0
    for _, array in random_arrays(19):
        fast, general = read("buffer fast", array), read("buffer", array)
        if fast is not None and is_view(fast):
            assert fast == general
            fast_ones += 1
        elif fast is not None:  # NumPy itself refused
            assert general[0] is BufferError and fast[1] in general[1]
    assert fast_ones > CASES // 5


def test_new_arrays():
    """Results of functions against numpy.empty and a borrow of what it made."""
    rng = random.Random(20)
    like = np.zeros(1)
    names = [*"i8 u16 i32 i64 f16 f32 f64 c64 c128 bool".split(), "f128", "opaque8", "f32x2", "i2"]
    names += ["bf16", "f8_e4m3fn", "i4"] if EXTRA else []
    seen = collections.Counter()
    for _ in range(CASES):
        shape = tuple(rng.choice((0, 1, 2, 3)) if rng.random() < 0.2 else rng.randint(1, 3) for _ in range(rng.randint(0, 6)))
        shape += (1,) * (rng.randint(1, 12) if rng.random() < 0.05 else 0)
        name = rng.choice(names)
        fast, general = (outcome(paths.empty, way, like, name, shape) for way in (True, False))
        if isinstance(fast[0], type):
            assert fast == general
            seen["refused"] += 1
            continue
        arrays, views = zip(fast, general)
        assert {**views[0], "data": 0} == {**views[1], "data": 0}
        for array, view in zip(arrays, views):
            assert type(array) is np.ndarray and array.ctypes.data == view["data"] and array.shape == view["shape"]
            assert array.flags.c_contiguous and array.flags.writeable and array.flags.owndata
        assert arrays[0].dtype == arrays[1].dtype and arrays[0].strides == arrays[1].strides
        seen["made"] += 1
    assert seen["made"] > CASES // 2 and seen["refused"] > 100
