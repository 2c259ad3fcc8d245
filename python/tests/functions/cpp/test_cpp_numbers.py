"""The small floats of tenon/function.hpp convert bit by bit as NumPy and ml_dtypes do: every pattern to float, and random
floats and doubles, the ties between two values and their neighbours, back."""

import ctypes

import pytest
from building import build_cpp

np = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")

DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}


@pytest.fixture(scope="module")
def convert():
    """A function that calls one of the library's: it returns the array of results."""
    library = ctypes.CDLL(str(build_cpp("cpp/numbers.cpp", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")))

    def call(name, *arguments, dtype):
        numbers = [a for a in arguments if not isinstance(a, np.ndarray)]
        out = np.empty(arguments[-1].size, dtype)
        arrays = [a.ctypes.data_as(ctypes.c_void_p) for a in arguments if isinstance(a, np.ndarray)]
        function = getattr(library, name)
        function(*map(ctypes.c_double, numbers), *arrays, out.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(out.size))
        return out

    return call


def patterns(dtype):
    bits = np.arange(256**dtype.itemsize, dtype=np.uint32)
    return bits.astype(f"u{dtype.itemsize}").view(dtype)


def same_bits(a, b):
    """Both NaN with the same sign, or the same bits."""
    integers = f"u{a.dtype.itemsize}"
    nan = np.isnan(a.astype(np.float32))
    assert np.array_equal(nan, np.isnan(b.astype(np.float32)))
    assert np.array_equal(a.view(integers)[~nan], b.view(integers)[~nan])


def candidates(dtype, wide):
    """Each value of the dtype, each tie between two neighbours, what is next to those, and random bits."""
    random = np.random.default_rng(0)
    values = patterns(dtype).astype(wide)
    values = np.sort(values[np.isfinite(values)])
    ties = values[:-1] / 2 + values[1:] / 2
    largest = values[-1] + (values[-1] - values[-2]) / 2  # what is larger is infinity or NaN
    exact = np.concatenate([values, ties, [largest, -largest, np.inf, -np.inf, np.nan, 0.0, -0.0]]).astype(wide)
    near = np.concatenate([exact, np.nextafter(exact, wide(np.inf)), np.nextafter(exact, wide(-np.inf))])
    size = np.dtype(wide).itemsize
    integers = random.integers(0, 2**64, 200_000, dtype=np.uint64) >> np.uint64(64 - 8 * size)
    anything = integers.astype(f"u{size}").view(wide)
    around = random.normal(0, 1, 200_000) * np.exp2(random.uniform(-30, 20, 200_000))
    return np.concatenate([near, anything, around.astype(wide)])


def nearest(dtype, x):
    """The reference: the nearest value, of two the one with an even pattern."""
    half = patterns(dtype)[: 128 * 256 ** (dtype.itemsize - 1)]  # those without the sign; the pattern is the index
    values = half.astype(np.float64)
    finite = int(np.isfinite(values).sum())
    next_up = values[finite - 1] + (values[finite - 1] - values[finite - 2])
    steps = np.append(values[:finite], next_up)
    magnitude = np.abs(x.astype(np.float64))
    below = np.clip(np.searchsorted(steps, magnitude, side="right") - 1, 0, finite - 1)
    tie = steps[below] / 2 + steps[below + 1] / 2
    index = np.where((magnitude > tie) | ((magnitude == tie) & (below % 2 == 1)), below + 1, below)
    index = np.where(np.isnan(magnitude), half.size - 1, index)
    return (index | (np.signbit(x) * half.size)).astype(f"u{dtype.itemsize}").view(dtype)


@pytest.mark.parametrize("name", DTYPES)
def test_every_pattern(convert, name):
    values = patterns(DTYPES[name])
    same_bits(convert(f"{name}_to_float", values, dtype=np.float32), values.astype(np.float32))
    same_bits(convert(f"{name}_from_float", values.astype(np.float32), dtype=DTYPES[name]), values)
    same_bits(convert(f"{name}_from_double", values.astype(np.float64), dtype=DTYPES[name]), values)


@pytest.mark.parametrize("name", DTYPES)
def test_floats(convert, name):
    x = candidates(DTYPES[name], np.float32)
    found = convert(f"{name}_from_float", x, dtype=DTYPES[name])
    same_bits(found, x.astype(DTYPES[name]))
    same_bits(found, nearest(DTYPES[name], x))


@pytest.mark.parametrize("name", DTYPES)
def test_doubles(convert, name):
    """They are rounded once, not to float first."""
    x = candidates(DTYPES[name], np.float64)
    found = convert(f"{name}_from_double", x, dtype=DTYPES[name])
    same_bits(found, nearest(DTYPES[name], x))
    if name == "f16":
        same_bits(found, x.astype(np.float16))


@pytest.mark.parametrize("name", DTYPES)
def test_calculations(convert, name):
    dtype = DTYPES[name]
    random = np.random.default_rng(1)
    x, y = (random.normal(0, 1, 10_000).astype(dtype) for _ in range(2))
    found = convert(f"{name}_calculate", 1.5, x, y, dtype=dtype)
    wanted = nearest(dtype, 1.5 * x.astype(np.float64) + y.astype(np.float64))
    wanted = nearest(dtype, wanted.astype(np.float64) + x.astype(np.float64))
    wanted = nearest(dtype, wanted.astype(np.float64) - 1)
    wanted = nearest(dtype, wanted.astype(np.float32) * np.float32(2))
    same_bits(found, nearest(dtype, wanted.astype(np.float64) / 1.5))
