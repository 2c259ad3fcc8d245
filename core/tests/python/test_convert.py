"""tenon_copy between dtypes: every value of the small floats, halfway cases in exact arithmetic, and random layouts
against NumPy. The model of a float is its definition, in fractions; ml_dtypes and NumPy are asked where they are exact."""

import bisect
import math
from fractions import Fraction

import model
import numpy as np
import pytest
import tenon_ctypes as T
from harness import run_cases

# name: bits, exponent bits, mantissa bits, bias, what it has beside numbers
FORMATS = {
    "f16": (16, 5, 10, 15, "ieee"), "bf16": (16, 8, 7, 127, "ieee"), "f8_e3m4": (8, 3, 4, 3, "ieee"),
    "f8_e4m3": (8, 4, 3, 7, "ieee"), "f8_e5m2": (8, 5, 2, 15, "ieee"), "f8_e4m3fn": (8, 4, 3, 7, "fn"),
    "f8_e4m3b11fnuz": (8, 4, 3, 11, "fnuz"), "f8_e4m3fnuz": (8, 4, 3, 8, "fnuz"), "f8_e5m2fnuz": (8, 5, 2, 16, "fnuz"),
    "f6_e2m3fn": (6, 2, 3, 1, "finite"), "f6_e3m2fn": (6, 3, 2, 3, "finite"), "f4_e2m1fn": (4, 2, 1, 1, "finite"),
}
LONG = {name: name.replace("f8", "float8").replace("f6", "float6").replace("f4", "float4").replace("bf16", "bfloat16")
        for name in FORMATS}
INTEGERS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
PLAIN = [*INTEGERS, "bool", "f16", "f32", "f64", "c64", "c128"]


def storage(name):
    """The NumPy dtype in which the test keeps values: their bits if NumPy does not have the dtype."""
    if name in model.NUMPY:
        return np.dtype(model.NUMPY[name])
    return np.dtype(np.uint16 if name == "bf16" else np.uint8)


def view(name, array):
    flags = T.SUBBYTE_PADDED if T.dtype(name).bits < 8 else 0
    strides = model.element_strides(array) if array.ndim else None
    return T.view_init(model.address(array), array.shape, strides, T.dtype(name), flags=flags)


def convert(values, source, target):
    """An array in the storage of `target`; `values` is in that of `source`."""
    values = np.ascontiguousarray(values, storage(source))
    out = np.zeros(values.shape, storage(target))
    T.call("copy", view(target, out), view(source, values))
    return out


class Format:
    """All numbers of a small float as fractions, by code, in the order of the codes without a sign."""

    def __init__(self, name):
        self.bits, exponent_bits, self.mantissa_bits, bias, self.kind = FORMATS[name]
        self.sign = 1 << (self.bits - 1)
        last = self.sign - {"ieee": 1 << self.mantissa_bits, "fn": 1, "fnuz": 0, "finite": 0}[self.kind]
        self.numbers = []
        for code in range(last):
            exponent, mantissa = divmod(code, 1 << self.mantissa_bits)
            significand = mantissa + ((1 << self.mantissa_bits) if exponent else 0)
            self.numbers.append(significand * Fraction(2) ** (max(exponent, 1) - bias - self.mantissa_bits))
        self.beyond = 2 * self.numbers[-1] - self.numbers[-2]  # the next number, if there were one
        self.and_beyond = self.numbers + [self.beyond]
        middles = [(a + b) / 2 for a, b in zip(self.numbers, self.and_beyond[1:])]
        self.middles = np.array([float(m) for m in middles])
        assert [Fraction(m) for m in self.middles.tolist()] == middles

    def value(self, code):
        """A fraction, or a float for infinity and NaN."""
        size, negative = code & (self.sign - 1), bool(code & self.sign)
        if self.kind == "fnuz" and code == self.sign:
            return math.nan
        if size >= len(self.numbers):
            return (-math.inf if negative else math.inf) if self.kind == "ieee" and size == len(self.numbers) else math.nan
        return -self.numbers[size] if negative else self.numbers[size]

    def encode(self, x):
        """The code of the nearest number; of two, the one that is even. x is a fraction other than 0."""
        size, sign = abs(x), self.sign if x < 0 else 0
        numbers = self.and_beyond
        at = bisect.bisect_left(numbers, size)
        if at == len(numbers) or (at and 2 * size < numbers[at - 1] + numbers[at]) or \
                (at and 2 * size == numbers[at - 1] + numbers[at] and at % 2):
            at -= 1
        if at == len(self.numbers) or size >= self.beyond:
            return {"ieee": sign | len(self.numbers), "fn": sign | (self.sign - 1), "fnuz": self.sign,
                    "finite": sign | (self.sign - 1)}[self.kind]
        return 0 if self.kind == "fnuz" and at == 0 else sign | at


    def encode_all(self, x):
        """The same for an array of f64 without NaN, with comparisons only, which are exact."""
        size, sign = np.abs(x), np.where(np.signbit(x), self.sign, 0)
        at = np.searchsorted(self.middles, size)
        tie = size == np.append(self.middles, np.inf)[at]
        at += np.where(tie & np.isfinite(size), at & 1, 0)
        codes = np.where((at == 0) & (self.kind == "fnuz"), 0, sign | at)
        return np.where(at < len(self.numbers), codes, {
            "ieee": sign | len(self.numbers), "fn": sign | (self.sign - 1), "fnuz": self.sign,
            "finite": sign | (self.sign - 1)}[self.kind])


ALL = {name: Format(name) for name in FORMATS}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("wide", ["f32", "f64"])
def test_every_code_has_its_value(name, wide):
    form = ALL[name]
    codes = np.arange(1 << form.bits).astype(storage(name).str.replace("f", "u")).view(storage(name))
    out = convert(codes, name, wide)
    for code, value in enumerate(out.tolist()):
        expected = form.value(code)
        if isinstance(expected, float) and math.isnan(expected):
            assert math.isnan(value), hex(code)
        else:
            assert value == expected, hex(code)
            assert math.copysign(1, value) == (-1 if code & form.sign else 1), hex(code)
    # And back: only NaN may have another code.
    back = convert(out, wide, name).view(f"u{codes.itemsize}")
    finite = ~np.isnan(out)
    assert (back == codes.view(back.dtype))[finite].all()
    if form.kind != "finite":
        assert np.isnan(convert(back.view(codes.dtype), name, wide))[~finite].all()


@pytest.mark.parametrize("name", FORMATS)
def test_halfway_from_f64(name):
    """Between any two neighbours, and just beside it: where a float between the two would lose the difference."""
    form = ALL[name]
    below, above = np.nextafter(form.middles, 0), np.nextafter(form.middles, np.inf)
    numbers = np.array([float(n) for n in form.numbers])
    for values in (form.middles, below, above, numbers, -form.middles, -below, -above, -numbers):
        codes = convert(values, "f64", name).view(storage(name).str.replace("f", "u"))
        expected = form.encode_all(values)
        wrong = np.flatnonzero(codes != expected)
        assert not wrong.size, f"{values[wrong[0]].hex()}: {codes[wrong[0]]:#x}, not {expected[wrong[0]]:#x}"
        for value, code in zip(values[1:40].tolist(), expected[1:40].tolist()):
            assert form.encode(Fraction(value)) == code


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("source", ["f64", "f32", "f16", "bf16", "f8_e5m2", "f8_e4m3fn", "i64", "u64", "i32", "u16", "i8"])
def test_every_source_is_rounded_once(name, source):
    """All values of the small sources, random bits of the others, in exact arithmetic."""
    form, dtype = ALL[name], storage(source)
    unsigned = f"u{dtype.itemsize}"
    rng = np.random.default_rng(1)
    if dtype.itemsize <= 2:
        codes = np.arange(1 << (8 * dtype.itemsize)).astype(unsigned)
    else:
        codes = rng.integers(0, 1 << 63, 3000, np.uint64, endpoint=True) >> rng.integers(0, 64, 3000, np.uint64)
        codes = np.concatenate([codes, ~codes]).astype(unsigned)
        if source == "f64":  # of sizes that the target has
            codes = np.concatenate([codes, np.ldexp(rng.normal(size=3000), rng.integers(-30, 20, 3000)).view(unsigned)])
    values = codes.view(dtype)
    out = convert(values, source, name).view(storage(name).str.replace("f", "u"))
    if source[0] in "iu":
        for value, code in zip(values.tolist(), out.tolist()):
            assert code == (form.encode(Fraction(value)) if value else 0), f"{value!r}: {code:#x}"
        return
    wide = values if source == "f64" else convert(values, source, "f64")
    numbers = ~np.isnan(wide)
    wrong = np.flatnonzero(out[numbers] != form.encode_all(wide[numbers]))
    assert not wrong.size, f"{wide[numbers][wrong[0]]!r}: {out[numbers][wrong[0]]:#x}"
    for code in out[~numbers].tolist():
        assert code & (form.sign - 1) == 0 if form.kind == "finite" else math.isnan(form.value(code))


@pytest.mark.parametrize("source", ["i64", "u64", "i32", "u32"])
def test_integers_to_f32(source):
    """Each halfway case of 25 to 64 bits. f64 in between would round 2^24 + 1 + a little to even."""
    info = np.iinfo(storage(source))
    values = []
    for bits in range(25, 65):
        for mantissa in (1 << 24 | 1, 1 << 24 | 3, (1 << 25) - 1, 0x155_5555):
            middle = mantissa << (bits - 25)
            values += [sign * (middle + d) for d in (-1, 0, 1) for sign in (1, -1)]
    values = [v for v in values if info.min <= v <= info.max]
    for target, mantissa_bits in (("f32", 24), ("f64", 53)):
        out = convert(np.array(values, storage(source)), source, target)
        for value, got in zip(values, out.tolist()):
            unit = max(abs(value).bit_length() - mantissa_bits, 0)
            quotient, rest = divmod(abs(value), 1 << unit)
            up = 2 * rest > 1 << unit or (2 * rest == 1 << unit and quotient & 1)
            assert abs(int(got)) == (quotient + up) << unit and (got < 0) == (value < 0), value


def test_f64_to_bf16_is_not_rounded_twice():
    """Rounded to f32 first, this is halfway between two numbers of bf16, and goes to the even one."""
    value = 1 + 2.0 ** -8 + 2.0 ** -40
    assert convert([value], "f64", "bf16")[0] == 0x3f81
    assert convert([1 + 2 ** 8 + (1 << 56) + (1 << 48)], "i64", "bf16")[0] == 0x5b81
    bits = convert([65520 - 2.0 ** -37], "f64", "f16").view(np.uint16)[0]
    assert bits == 0x7bff


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["f64", "f32", "f16"])
def test_floats_to_integers(source, target):
    info = np.iinfo(storage(target))
    with np.errstate(over="ignore"):
        values = np.array([0, -0.0, 0.5, -0.5, 0.999, 1.5, -1.5, -0.999, 126.5, 127.9, 128, -128.9, 255.9, 256, 32767.5, 65504,
                           2.0 ** 31, 2.0 ** 31 - 1, -2.0 ** 31, 2.0 ** 32, 2.0 ** 53 + 2, 2.0 ** 62, 2.0 ** 63, -2.0 ** 63,
                           2.0 ** 63 - 1024, 2.0 ** 64 - 2048, 2.0 ** 64, 1e30, -1e30, math.inf, -math.inf, math.nan,
                           -math.nan, 5e-324]).astype(storage(source))
    out = convert(values, source, target).tolist()
    for value, got in zip(values.tolist(), out):
        if math.isnan(value):
            assert got == 0
        elif math.isinf(value):
            assert got == (info.max if value > 0 else info.min)
        else:
            assert got == min(max(math.trunc(value), info.min), info.max), value


@pytest.mark.parametrize("source", [*INTEGERS, "bool"])
@pytest.mark.parametrize("target", [*INTEGERS, "bool", "i4", "u4", "i2", "u1"])
def test_integers_wrap(source, target):
    rng = np.random.default_rng(2)
    values = rng.integers(0, 256, 8 * 300, np.uint8).view(storage(source)) if source != "bool" else \
        np.array([0, 1] * 200, np.uint8).view(bool)
    out = convert(values, source, target)
    bits = T.dtype(target).bits
    for value, got in zip(values.tolist(), out.tolist()):
        if target == "bool":
            assert got is (value != 0)
        else:
            assert int(got) % (1 << bits) == int(value) % (1 << bits)


def test_small_integers():
    """In a byte each, of which the upper bits are not read and are written as 0."""
    codes = np.arange(256).astype(np.uint8)
    assert convert(codes, "i4", "f32").tolist() == [(c % 16) - 16 * (c % 16 > 7) for c in range(256)]
    assert convert(codes, "u2", "i64").tolist() == [c % 4 for c in range(256)]
    assert convert(codes, "i1", "i8").tolist() == [-(c % 2) for c in range(256)]
    assert convert(np.array([-9.5, 7.9, 100, -100, math.nan]), "f64", "i4").tolist() == [8, 7, 7, 8, 0]
    assert convert(np.array([-9.5, 3.9, 1.5]), "f64", "u2").tolist() == [0, 3, 1]


def test_bool():
    assert convert([0.0, -0.0, 0.5, 5e-324, math.nan, -math.inf], "f64", "bool").tolist() == [False] * 2 + [True] * 4
    assert convert([0, 256, -1], "i64", "bool").tolist() == [False, True, True]
    # A byte other than 0 and 1 is true, and becomes 1.
    codes = np.array([0, 1, 2, 255], np.uint8).view(bool)
    for target in ("u8", "i64", "f16", "f32", "f64", "c64"):
        assert convert(codes, "bool", target).tolist() == [0, 1, 1, 1]


def test_powers_of_two():
    codes = np.arange(256).astype(np.uint8)
    values = convert(codes, "f8_e8m0fnu", "f64")
    assert values[:255].tolist() == [2.0 ** (c - 127) for c in range(255)] and math.isnan(values[255])
    assert (convert(values, "f64", "f8_e8m0fnu") == codes).all()
    half = [1.5, 3, 1.5 - 2.0 ** -52, 0, -0.0, -1, math.inf, math.nan, 1e-300, 5e-324, 1.5 * 2.0 ** 127, 2.0 ** 127]
    assert convert(half, "f64", "f8_e8m0fnu").tolist() == [128, 129, 127, 255, 255, 255, 255, 255, 0, 0, 255, 254]


@pytest.mark.parametrize("name", FORMATS)
def test_as_ml_dtypes(name):
    """All values of f16, which f32 has: ml_dtypes rounds them once."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(np.float16 if name == "f16" else getattr(ml_dtypes, LONG[name]))
    halves = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        expected = halves.astype(np.float32).astype(dtype).view(f"u{storage(name).itemsize}")
    numbers = ~np.isnan(halves)
    for source, values in (("f16", halves), ("f32", halves.astype(np.float32)), ("f64", halves.astype(np.float64))):
        codes = convert(values, source, name).view(expected.dtype)
        assert (codes == expected)[numbers].all(), source


def bits_of_every_layout(rng):
    """Packed values on one side or both, at any bit, between a plain loop's."""
    source, target = rng.choice(["i4", "u4", "u1", "i2", "f4_e2m1fn", "f6_e2m3fn", "i8", "f32"]), \
        rng.choice(["i4", "u4", "u2", "f4_e2m1fn", "f6_e3m2fn", "i16", "f64"])
    shape = model.random_shape(rng, 3, 200)
    sides = []
    for name, overlapping in ((target, False), (source, True)):
        strides = model.random_strides(rng, shape, overlapping)
        item = T.dtype(name).bits
        index = model.bit_index(shape, strides, 0, item)
        low, high = (int(index.min()) // 8, int(index.max()) // 8 + 1) if index.size else (0, 0)
        buffer = np.frombuffer(bytearray(rng.randbytes(high - low + 8)), np.uint8)
        sides.append((T.view_init(model.address(buffer) - low, shape, strides, T.dtype(name)), buffer, index - 8 * low, item))
    (dst, out, to, to_bits), (src, data, frm, from_bits) = sides

    def codes(buffer, index, bits):
        return (np.unpackbits(buffer, bitorder="little")[index].astype(np.uint64) << np.arange(bits, dtype=np.uint64)).sum(
            1, dtype=np.uint64)
    given = codes(data, frm, from_bits).astype(f"u{max(from_bits // 8, 1)}").view(storage(source))
    expected = convert(given, source, target).view(f"u{max(to_bits // 8, 1)}").astype(np.uint64)
    before = np.unpackbits(out, bitorder="little")
    T.call("copy", dst, src)
    before[to] = expected[:, None] >> np.arange(to_bits, dtype=np.uint64) & np.uint64(1)
    assert (np.packbits(before, bitorder="little") == out).all(), f"{source} {target} {shape}"


def plain_layouts(rng):
    """Against NumPy's astype, for conversions that NumPy defines; what lies between the elements stays."""
    target, source = rng.choice(PLAIN), rng.choice(PLAIN)
    if (source[0] == "c" and target[0] != "c") or (source[0] in "fc" and target[0] in "iu"):
        source = "i16"
    shape = rng.choice([model.random_shape(rng), (rng.randrange(1, 400),), (rng.randrange(1, 40), rng.randrange(1, 200)),
                        (rng.randrange(1, 2000), rng.randrange(1, 4)), (3, rng.randrange(1, 70), 3)])
    arrays = []
    for name, overlapping in ((target, False), (source, True)):
        strides, dtype = model.random_strides(rng, shape, overlapping), storage(name)
        places = [s * (n - 1) for n, s in zip(shape, strides)] if 0 not in shape else []
        low = sum(min(0, p) for p in places) * dtype.itemsize
        size = (sum(abs(p) for p in places) + 1) * dtype.itemsize
        before = rng.choice((0, 0, 1, 3, 8))  # not aligned, too
        random = np.random.default_rng(rng.randrange(1 << 30))
        buffer = random.integers(0, 2 if name == "bool" else 256, before + size + 9, np.uint8)
        array = np.ndarray(shape, dtype, buffer.data, before - low, [s * dtype.itemsize for s in strides])
        arrays.append((buffer, array, T.view_init(model.address(array), shape, strides, T.dtype(name))))
    (out, array, dst), (_, values, src) = arrays
    before = out.copy()
    T.call("copy", dst, src)
    ours = array.copy()
    with np.errstate(all="ignore"):
        expected = values.astype(array.dtype)
    np.testing.assert_array_equal(ours, expected, f"{source} to {target} {shape}")
    array[...] = 0
    after, out[:] = out.copy(), before
    array[...] = 0
    assert (after == out).all(), f"{source} to {target} {shape}: bytes between the elements have changed"


@pytest.mark.parametrize("case, count", [(plain_layouts, 4000), (bits_of_every_layout, 2000)])
def test_layouts(case, count):
    run_cases(case, count)


@pytest.mark.parametrize("shape", [(3000, 2), (2, 3000), (1030, 1030), (5, 1025, 3)])
def test_other_order(shape):
    values = np.arange(math.prod(shape), dtype=np.float64).reshape(shape[::-1]).T
    out = np.zeros(shape, np.float32)
    T.call("copy", view("f32", out), view("f64", values))
    assert (out == values).all()


def test_lanes_and_parts():
    values = np.arange(12, dtype=np.float32)
    out = np.zeros(12, np.float64)
    T.call("copy", T.view_init(model.address(out), [2, 2], [1, 2], T.dtype("f64x3")),
           T.view_init(model.address(values), [2, 2], None, T.dtype("f32x3")))
    assert out.reshape(2, 2, 3).transpose(1, 0, 2).reshape(-1).tolist() == values.tolist()
    pairs = np.zeros(6, np.complex64)
    T.call("copy", T.view_init(model.address(pairs), [2], None, T.dtype("c64x3")),
           T.view_init(model.address(values), [2], None, T.dtype("f32x3")))
    assert pairs.tolist() == values[:6].tolist()
    halves = convert(pairs * (1 + 2j), "c64", "c128")
    assert halves.tolist() == (pairs * (1 + 2j)).tolist()


@pytest.mark.parametrize("target, source, reason", [
    ("f32", "c64", "the imaginary parts would be lost"), ("bool", "c128", "the imaginary parts would be lost"),
    ("f64", "f128", "numbers of 128 bits"), ("i128", "i64", "numbers of 128 bits"), ("f32", "opaque32", "opaque values"),
    ("f32x2", "f64", "the same number of lanes")])
def test_refused(target, source, reason):
    data = np.zeros(64, np.uint8)
    for shape in ([1], [0]):
        with pytest.raises(T.Error, match=f"tenon_copy\\(\\): argument 'src': expected {target}.*, got {source}.*{reason}") as e:
            T.call("copy", T.view_init(model.address(data), shape, None, T.dtype(target)),
                   T.view_init(model.address(data) + 32, shape, None, T.dtype(source)))
        assert e.value.status == T.EDTYPE
