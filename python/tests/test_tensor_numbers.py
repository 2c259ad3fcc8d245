"""int(), float(), complex(), operator.index(), tolist() and item() of a tenon.Tensor: its values, never its bytes read as text."""

import ctypes
import math
import operator
import struct

import pytest
import tenon_probe as probe


def one(dtype, code, *numbers):
    """A tensor without dimensions of what the struct module packs."""
    data = struct.pack(f"={code}", *numbers)
    given = probe.export(probe.new(dtype, ()))
    ctypes.memmove(given.data_ptr, data, len(data))
    return given


@pytest.mark.parametrize(
    "dtype, code, number, value",
    [
        ("u8", "B", 0x36, 54),  # '6'
        ("u8", "B", 255, 255),
        ("i8", "b", -1, -1),
        ("i16", "h", -300, -300),
        ("u32", "I", 2**32 - 1, 2**32 - 1),
        ("i64", "q", -(2**63), -(2**63)),
        ("u64", "Q", 2**64 - 1, 2**64 - 1),
        ("i4", "B", 0x0F, -1),
        ("u4", "B", 0x0F, 15),
    ],
)
def test_integers(dtype, code, number, value):
    given = one(dtype, code, number)
    assert int(given) == operator.index(given) == value
    assert type(int(given)) is type(operator.index(given)) is int
    assert float(given) == float(value) and complex(given) == complex(value)


@pytest.mark.parametrize(
    "dtype, code, number, value",
    [
        ("f64", "d", -2.75, -2.75),
        ("f32", "f", 0.5, 0.5),
        ("f16", "e", 65504, 65504),
        ("bf16", "H", 0x4049, 3.140625),
        ("f8_e4m3fn", "B", 0x7E, 448),
        ("f8_e8m0fnu", "B", 130, 8),
    ],
)
def test_floats(dtype, code, number, value):
    given = one(dtype, code, number)
    assert float(given) == value and type(float(given)) is float
    assert int(given) == int(value) and complex(given) == value
    with pytest.raises(TypeError, match=f"tenon.Tensor: a number of dtype {dtype} cannot be used as an index"):
        operator.index(given)


def test_floats_without_an_int():
    assert math.isnan(float(one("f32", "f", math.nan)))
    with pytest.raises(ValueError, match="NaN"):
        int(one("f32", "f", math.nan))
    with pytest.raises(OverflowError, match="infinity"):
        int(one("f64", "d", math.inf))


def test_bools():
    for number in (0, 1, 2):
        given = one("bool", "B", number)
        assert bool(given) is bool(number)
        assert int(given) == float(given) == complex(given) == bool(number) and type(int(given)) is int
        with pytest.raises(TypeError, match="a number of dtype bool cannot be used as an index"):
            operator.index(given)


def test_complex():
    for dtype, code in (("c64", "ff"), ("c128", "dd")):
        given = one(dtype, code, 1, -2.5)
        assert complex(given) == 1 - 2.5j
        for convert, text in ((int, "an int"), (float, "a float"), (operator.index, "an index")):
            with pytest.raises(TypeError, match=f"tenon.Tensor: a number of dtype {dtype} cannot be used as {text}"):
                convert(given)


@pytest.mark.parametrize("convert", [int, float, complex, operator.index])
def test_what_is_not_one_number(convert):
    for shape in ((1,), (3,), (1, 1), (0,)):
        given = probe.export(probe.new("u8", shape))
        with pytest.raises(TypeError, match="only a tensor without dimensions can be converted to a number, and this one"):
            convert(given)
    for dtype in ("u8x4", "i128", "opaque64"):
        with pytest.raises(TypeError, match=f"tenon.Tensor: Python has no number type for {dtype}"):
            convert(probe.export(probe.new(dtype, ())))


@pytest.mark.parametrize("convert", [int, float, complex])
@pytest.mark.parametrize("device, name", [(2, "cuda:0"), (13, "cuda_managed:0"), (8, "metal:0")])
def test_memory_of_another_device_is_not_read(convert, device, name):
    given = probe.export(probe.new("f32", (), None, 0, 0, device))
    with pytest.raises(TypeError, match=f"tenon.Tensor: memory on {name} cannot be read as a number; copy it to the CPU"):
        convert(given)


def test_pinned_memory_is_read():
    assert int(probe.export(probe.new("u8", (), None, 7, 0, 3))) == 7


def test_truth_on_another_device():
    with pytest.raises(TypeError, match="tenon.Tensor: memory on cuda:0 cannot be read as a number"):
        bool(probe.export(probe.new("bool", (), None, 0, 0, 2)))


NUMBERS = ["b1", "u1", "i2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numpy_gets_the_values(dtype):
    """Digits and spaces as bytes, which are numbers as text too."""
    np = pytest.importorskip("numpy")
    array = np.array([54, 32, 0, 1, 7]).astype(dtype)
    given = probe.through(array, probe.TENSOR)
    assert np.array(list(given)).tolist() == array.tolist()
    assert np.array(list(given), dtype=dtype).tolist() == array.tolist()
    assert np.fromiter(given, dtype).tolist() == array.tolist()
    target = np.zeros(1, dtype)
    for i in range(len(array)):
        target[0] = given[i]
        assert target[0] == array[i]


# ------------------------------------------------------------------------------------------------------------- lists


def filled(dtype, shape, code, numbers):
    data = struct.pack(f"={len(numbers)}{code}", *numbers)
    given = probe.export(probe.new(dtype, shape))
    ctypes.memmove(given.data_ptr, data, len(data))
    return given


def test_lists():
    x = filled("i32", (2, 3), "i", range(-2, 4))
    assert x.tolist() == [[-2, -1, 0], [1, 2, 3]] and type(x.tolist()[0][0]) is int
    assert x.T.tolist() == [[-2, 1], [-1, 2], [0, 3]]
    assert x[:, ::-2].tolist() == [[0, -2], [3, 1]]
    assert x[1, 1].tolist() == 2
    assert filled("bf16", (2,), "H", [0x4049, 0xFF80]).tolist() == [3.140625, -math.inf]
    assert filled("bool", (3,), "B", [0, 1, 2]).tolist() == [False, True, True]
    assert filled("i4", (4,), "B", [0x2F, 0x81]).tolist() == [-1, 2, 1, -8]
    for shape, empty in (((0,), []), ((2, 0), [[], []]), ((0, 2), [])):
        assert probe.export(probe.new("f32", shape)).tolist() == empty


def test_lists_of_complex_numbers():
    given = filled("c64", (2,), "f", [1, 2, 3, -4])
    assert given.tolist() == [1 + 2j, 3 - 4j]


def test_items():
    for shape in ((), (1,), (1, 1)):
        given = filled("i16", shape, "h", [-7])
        assert given.item() == -7 and type(given.item()) is int
    for shape, count in (((3,), 3), ((0,), 0), ((2, 2), 4)):
        message = rf"^tenon\.Tensor\.item\(\): only a tensor with one element can be converted, and this one has {count}; "
        with pytest.raises(ValueError, match=message):
            probe.export(probe.new("u8", shape)).item()


@pytest.mark.parametrize("method", ["tolist", "item"])
def test_lists_of_what_cannot_be_read(method):
    with pytest.raises(TypeError, match="memory on cuda:0 cannot be read"):
        getattr(probe.export(probe.new("f32", (1,), None, 0, 0, 2)), method)()
    for dtype in ("u8x4", "i128", "opaque64"):
        with pytest.raises(TypeError, match=f"tenon.Tensor: Python has no number type for {dtype}"):
            getattr(probe.export(probe.new(dtype, (1,))), method)()
