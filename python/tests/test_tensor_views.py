"""What a tenon.Tensor says of itself, its views by tensor[...], and its repr."""

import ctypes
import gc
import struct
import weakref

import pytest
import tenon_probe as probe

from arrays import READ_ONLY
from producers import Producer, through


def tensor(*arguments):
    return probe.export(probe.new(*arguments))


def view(given):
    return probe.borrow(given, probe.ANY_DEVICE)


# ---------------------------------------------------------------------------------------------------------- attributes


def test_attributes():
    given = tensor("f32", (2, 3), (1, 2), 8, READ_ONLY)
    assert given.shape == (2, 3) and type(given.shape) is tuple
    assert given.strides == (1, 2)  # in elements
    assert (given.dtype, given.device, given.ndim, given.size, given.nbytes) == ("float32", "cpu", 2, 6, 24)
    assert given.readonly is True and tensor("f32", ()).readonly is False
    assert given.data_ptr == view(given)["data"]
    assert len(given) == 2
    for name in ("shape", "strides", "dtype", "device", "ndim", "size", "nbytes", "readonly", "data_ptr", "T"):
        with pytest.raises(AttributeError):
            setattr(given, name, 1)
        assert getattr(type(given), name).__doc__
    scalar = tensor("u8", ())
    assert (scalar.shape, scalar.strides, scalar.ndim, scalar.size, scalar.nbytes) == ((), (), 0, 1, 1)
    empty = tensor("f64", (3, 0))
    assert (empty.size, empty.nbytes, len(empty)) == (0, 0, 3)


@pytest.mark.parametrize("ours, name", [("bool", "bool"), ("i8", "int8"), ("u64", "uint64"), ("f16", "float16"),
                                        ("bf16", "bfloat16"), ("c128", "complex128"), ("f8_e4m3fn", "float8_e4m3fn"),
                                        ("i4", "int4"), ("f32x4", "float32_x4"), ("opaque64", "opaque64")])  # fmt: skip
def test_names_of_dtypes(ours, name):
    """Those of NumPy and torch."""
    assert tensor(ours, (2,)).dtype == name


@pytest.mark.parametrize("ours", ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "c64",
                                  "c128"])  # fmt: skip
def test_names_that_frameworks_know(ours):
    np = pytest.importorskip("numpy")
    given = tensor(ours, (2,))
    assert np.dtype(given.dtype) == np.asarray(given).dtype
    torch = pytest.importorskip("torch")
    assert getattr(torch, given.dtype) is torch.from_dlpack(given).dtype
    for other in ("bf16", "f8_e4m3fn", "f8_e5m2"):
        given = tensor(other, (2,))
        assert getattr(torch, given.dtype) is torch.from_dlpack(given).dtype
    for unknown in ("f32x4", "opaque64", "i128"):
        name = tensor(unknown, (2,)).dtype
        assert not hasattr(torch, name)
        with pytest.raises(TypeError):
            np.dtype(name)
    pytest.importorskip("ml_dtypes")
    for other in ("bf16", "f8_e4m3fn", "f8_e5m2"):
        given = tensor(other, (2,))
        assert np.dtype(given.dtype) == np.asarray(given).dtype


@pytest.mark.parametrize("device, name", [((1, 0), "cpu"), ((1, 2), "cpu:2"), ((2, 0), "cuda:0"), ((10, 1), "rocm:1"),
                                          ((3, 0), "cuda_host:0"), ((8, 0), "metal:0")])  # fmt: skip
def test_names_of_devices(device, name):
    assert tensor("f32", (2,), None, 0, 0, *device).device == name


def test_no_dimensions():
    scalar = tensor("f32", ())
    with pytest.raises(TypeError, match=r"tenon.Tensor: a tensor with 0 dimensions has no len\(\)"):
        len(scalar)
    with pytest.raises(TypeError, match="a tensor with 0 dimensions cannot be iterated over"):
        iter(scalar)
    with pytest.raises(IndexError, match="too many indices: 2 for 1 dimension$"):
        tensor("f32", (2,))[0, 0]
    with pytest.raises(IndexError, match="too many indices: 1 for 0 dimensions"):
        scalar[0]
    assert scalar[()].shape == scalar[...].shape == () and scalar[None].shape == (1,)


def test_no_truth_value():
    for given in (tensor("f32", ()), tensor("f32", (2,)), tensor("f32", (0,))):
        with pytest.raises(TypeError, match="tenon.Tensor has no truth value; use `x is not None` or `x.size > 0`"):
            bool(given)


def test_no_comparison():
    with pytest.raises(TypeError, match="tenon.Tensor does not compare elements, so it cannot answer `value in x`"):
        1 in tensor("u8", (3,))


# --------------------------------------------------------------------------------------------------------------- views


def test_a_view_is_the_same_memory(released):
    given = tensor("u8", (3, 4))
    part = given[1:, ::-2]
    assert type(part) is probe.Tensor and part.data_ptr == given.data_ptr + 7
    assert memoryview(part).tolist() == [[7, 5], [11, 9]]
    memoryview(given)[1, 3] = 99
    assert memoryview(part)[0, 0] == 99
    one = given[2, -1]
    assert (one.shape, memoryview(one)[()]) == ((), 11)
    del given, one
    assert released() == 0
    again = part[0]
    del part
    assert released() == 0 and memoryview(again).tolist() == [99, 5]
    del again
    assert released() == 1


def test_read_only_stays(released):
    given = tensor("u8", (3, 4), None, 0, READ_ONLY)
    assert given[0].readonly and given[::2, None].readonly and given.T.readonly


def test_transposed():
    given = tensor("u8", (2, 3, 4))
    assert (given.T.shape, given.T.strides, given.T.data_ptr) == ((4, 3, 2), (1, 4, 12), given.data_ptr)
    assert tensor("u8", ()).T.shape == ()


def test_iteration_ends():
    rows = list(tensor("u8", (3, 2)))
    assert [memoryview(row).tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]
    first, second = tensor("u8", (2, 1))
    assert memoryview(second).tolist() == [1] and first.shape == (1,)
    assert list(tensor("u8", (0, 2))) == []
    assert [len(row) for row in reversed(tensor("u8", (2, 3)))] == [3, 3]


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value() if callable(self.value) else self.value


def test_indices():
    given = tensor("u8", (3, 4))
    assert memoryview(given[Index(1), Index(2) :]).tolist() == [6, 7]
    assert given[..., None, 0].shape == (3, 1) and given[None, ..., None].shape == (1, 3, 4, 1)
    assert given[:, 10:].shape == (3, 0) and given[2:1].shape == (0, 4)
    assert given[2**80 :].shape == (0, 4) and given[-(2**80) :: 2**70].shape == (1, 4)
    assert given[:: -(2**80)].shape == (1, 4) and memoryview(given[::-1, 0]).tolist() == [8, 4, 0]
    assert given[(None,) * 62].ndim == 64
    with pytest.raises(ValueError, match="^tenon.Tensor: with this None, the view would have more than 64 dimensions$"):
        given[(None,) * 63]


@pytest.mark.parametrize(
    "key, error, text",
    [
        (3, IndexError, "index 3 is out of range for dimension 0 of size 3"),
        (-4, IndexError, "index -4 is out of range for dimension 0 of size 3"),
        ((0, 4), IndexError, "index 4 is out of range for dimension 0 of size 4"),
        ((slice(None), 9), IndexError, "index 9 is out of range for dimension 1 of size 4"),
        ((0, 0, 0), IndexError, "too many indices: 3 for 2 dimensions"),
        ((0, 0, Ellipsis, 0), IndexError, "too many indices: 3 for 2 dimensions"),
        ((Ellipsis, Ellipsis), IndexError, "an index can contain only one '...'"),
        (2**80, IndexError, "index-sized"),
        ([0, 1], TypeError, "expected ints, slices, '...' and None as indices, got <class 'list'>"),
        (True, TypeError, "got <class 'bool'>; indexing with a list, an array or a mask would need a copy"),
        ((0, 1.5), TypeError, "got <class 'float'>"),
        ("x", TypeError, "got <class 'str'>"),
        (slice(None, None, 0), ValueError, "zero"),
        (slice("a"), TypeError, "slice"),
        (slice(Index(lambda: 1 / 0)), ZeroDivisionError, ""),
        (Index(lambda: 1 / 0), ZeroDivisionError, ""),
    ],
)
def test_wrong_indices(key, error, text, released):
    given = tensor("u8", (3, 4))
    with pytest.raises(error) as caught:
        given[key]
    assert text in str(caught.value)
    del caught
    with pytest.raises(TypeError, match="item assignment"):
        given[0] = 1
    del given
    assert released() == 1


def test_packed_values_are_cut_at_whole_bytes():
    given = tensor("i4", (4, 4))
    assert given[1:].data_ptr == given.data_ptr + 2
    for key in ((0, 1), (0, slice(1, None))):
        with pytest.raises(ValueError, match="^tenon.Tensor: the view would start inside a byte of packed i4 values; start"):
            given[key]


def test_as_numpy_indexes():
    np = pytest.importorskip("numpy")
    hypothesis = pytest.importorskip("hypothesis")
    strategies = hypothesis.strategies
    from hypothesis.extra import numpy as arrays

    @hypothesis.given(strategies.data())
    @hypothesis.settings(deadline=None, max_examples=300)
    def check(data):
        shape = data.draw(arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4))
        array = np.arange(int(np.prod(shape, dtype=int)), dtype="i4").reshape(shape)
        key = data.draw(arrays.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
        given = probe.through(array, probe.TENSOR)
        expected, found = array[key], given[key]
        expected = np.asarray(expected)
        assert found.shape == expected.shape and found.size == expected.size
        assert np.asarray(found).tolist() == expected.tolist()
        if isinstance(array[key], np.ndarray) and expected.size:
            assert found.data_ptr == expected.ctypes.data

    check()
    gc.collect()


FAR = [None, 0, 1, -1, 3, -6, 2**31, 2**63 - 2, 2**63 - 1, 2**63, 2**70, -(2**63) + 1, -(2**63), -(2**63) - 1, -(2**70)]


@pytest.mark.parametrize("size", [0, 1, 5])
def test_bounds_beyond_every_size(size):
    """As a list cuts them: a bound that is too small is not one that was left out."""
    given, numbers = tensor("u8", (size,)), list(range(size))
    for start in FAR:
        for stop in FAR:
            for step in FAR:
                if step != 0:
                    key = slice(start, stop, step)
                    assert memoryview(given[key]).tolist() == numbers[key], key


def test_numbers_of_numpy():
    np = pytest.importorskip("numpy")
    given = tensor("u8", (3, 4))
    for number in (np.int64(1), np.uint8(1), np.int16(-2)):
        assert given[number].data_ptr == given[int(number)].data_ptr


@pytest.mark.parametrize("library, name", [("numpy", "array"), ("torch", "tensor"), ("jax.numpy", "array"), (None, None)])
def test_arrays_are_not_numbers(library, name):
    """Even if they have an __index__."""
    given = tensor("u8", (3, 4))
    if library:
        make = getattr(pytest.importorskip(library), name)
        arrays = [make(1), make([1]), make([[1]]), make(True), make([True]), make([0, 1])]
    else:
        arrays = [tensor("u8", ()), tensor("u8", (1,))]
    if library == "numpy":
        arrays.append(make([True])[0])
    for array in arrays:
        for key in (array, (0, array), (array, ...)):
            with pytest.raises(TypeError, match="tenon.Tensor: expected ints, slices, '...' and None as indices, got"):
                given[key]


def test_a_type_that_cannot_be_asked_for_its_length():
    class Meta(type):
        def __getattribute__(cls, name):
            if name == "__len__":
                raise KeyboardInterrupt
            return super().__getattribute__(name)

    with pytest.raises(KeyboardInterrupt):
        tensor("u8", (3,))[Meta("Interrupted", (Index,), {})(1)]


def test_views_have_the_producer():
    """It is asked to order streams for them too; and a cycle through a view is found."""
    producer = Producer()
    whole = through(producer)
    for part in (whole[1:], whole[0], whole[1:][0, None], whole.T):
        part.__dlpack__(stream=4096)
        assert producer.since() == [4096]
        assert probe.stream(part) == 0 and producer.since() == [1]
    del whole, part
    producer.error = None
    node = Producer(1)
    node.child = probe.through(node, probe.TENSOR)[1:]
    gone = weakref.ref(node)
    assert node in gc.get_referents(node.child)
    kept = node.child[0]
    assert node not in gc.get_referents(node.child)  # another view holds it, too
    del kept
    del node
    gc.collect()
    assert gone() is None


# ---------------------------------------------------------------------------------------------------------------- repr


def filled(dtype, code, *numbers, shape=None):
    """A tensor of these numbers, packed by the struct module."""
    data = bytearray(struct.pack(f"={len(numbers)}{code}", *numbers))
    handle = probe.new(dtype, shape or (len(numbers),))
    given = probe.export(handle)
    address = view(given)["data"]
    ctypes.memmove(address, bytes(data), len(data))
    return given


def values(given):
    text = repr(given)
    assert text.startswith("<tenon.Tensor ") and text.endswith(">")
    return text[:-1].partition(": ")[2]


@pytest.mark.parametrize(
    "dtype, code, numbers, text",
    [
        ("i8", "b", (-1, 0, 127), "[-1, 0, 127]"),
        ("u64", "Q", (0, 2**64 - 1), "[0, 18446744073709551615]"),
        ("i64", "q", (-(2**63), 1), "[-9223372036854775808, 1]"),
        ("bool", "B", (0, 1, 2), "[False, True, True]"),
        ("f32", "f", (0.1, 1, -2.5, 1e20, 16777216, float("nan"), float("-inf"), 1e-45),
         "[0.1, 1.0, -2.5, 1e+20, 16777216.0, nan, -inf, 1.4012985e-45]"),
        ("f32", "I", (1065353217, 0x80000000), "[1.0000001, -0.0]"),
        ("f64", "d", (0.1, 1 / 3), "[0.1, 0.3333333333333333]"),
        ("f16", "e", (0.1, 65504, 1 / 3, 6e-8), "[0.1, 65504.0, 0.3333, 5.96e-08]"),
        ("bf16", "H", (0x3F80, 0x3DCD, 0x7F80, 0xFFC0, 0x4049), "[1.0, 0.1, inf, nan, 3.14]"),
        ("f8_e4m3fn", "B", (0x38, 0x7E, 0x7F, 0x80, 0x01), "[1.0, 448.0, nan, -0.0, 0.002]"),
        ("f8_e5m2", "B", (0x3C, 0x7B, 0x7C, 0x7D), "[1.0, 57344.0, inf, nan]"),
        ("f8_e4m3fnuz", "B", (0x40, 0x7F, 0x80), "[1.0, 240.0, nan]"),
        ("f8_e5m2fnuz", "B", (0x40, 0x80), "[1.0, nan]"),
        ("f8_e4m3b11fnuz", "B", (0x58, 0x80), "[1.0, nan]"),
        ("f8_e4m3", "B", (0x38, 0x78, 0x79), "[1.0, inf, nan]"),
        ("f8_e3m4", "B", (0x30, 0x70), "[1.0, inf]"),
        ("f8_e8m0fnu", "B", (127, 130, 255), "[1.0, 8.0, nan]"),
        ("c64", "f", (1, -2.5), "[(1.0-2.5j)]"),
        ("c128", "d", (0.1, 0), "[(0.1+0.0j)]"),
        ("i4", "B", (0x21, 0xF8), "[1, 2, -8, -1]"),
        ("u1", "B", (0b10110,), "[0, 1, 1, 0, 1, 0, 0, 0]"),
        ("f4_e2m1fn", "B", (0x21, 0xF7), "[0.5, 1.0, 6.0, -6.0]"),
        ("f6_e2m3fn", "B", (0x48, 0x20, 0xFE), "[1.0, 0.125, -0.25, -7.5]"),
        ("f32x2", "f", (1, 2, 3, 4), "[(1.0, 2.0), (3.0, 4.0)]"),
        ("opaque16", "H", (255,), "[0xff]"),
        ("i128", "Q", (1, 2), "[0x00000000000000020000000000000001]"),
    ],
)
def test_values(dtype, code, numbers, text):
    given = filled(dtype, code, *numbers, shape=(text.count(", ") + 1 if "(1.0, 2.0)" not in text else 2,))
    assert values(given) == text


def test_every_number_of_the_small_formats():
    """As ml_dtypes reads them, and short: each is nearer to what is shown than to the next number."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    np = pytest.importorskip("numpy")
    for name in ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
                 "float8_e5m2fnuz", "float8_e8m0fnu", "bfloat16", "float16"):  # fmt: skip
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        bits = np.arange(256, dtype="u1") if dtype.itemsize == 1 else np.arange(0, 65536, 251, dtype="u2")
        for start in range(0, len(bits), 64):
            numbers = bits[start : start + 64].view(dtype)
            shown = values(probe.through(numbers, probe.TENSOR))[1:-1].split(", ")
            assert len(shown) == len(numbers)
            for text, number in zip(shown, numbers):
                read, number = np.asarray(float(text)).astype(dtype), np.asarray(number)
                same = read.tobytes() == number.tobytes()
                assert same or (np.isnan(float(number)) and text == "nan"), (name, text, number)
                assert len(text.lstrip("-")) <= 18, (name, text)


def test_what_it_is():
    assert repr(tensor("u8", (2, 3))) == "<tenon.Tensor u8[2, 3] on cpu: [[0, 1, 2], [3, 4, 5]]>"
    assert repr(tensor("u8", (3,), None, 4, READ_ONLY)) == "<tenon.Tensor u8[3] on cpu, read-only: [4, 5, 6]>"
    assert repr(tensor("u8", ())) == "<tenon.Tensor u8[] on cpu: 0>"
    assert repr(tensor("u8", (3,), (-2,), 4)) == "<tenon.Tensor u8[3] on cpu: [4, 2, 0]>"
    assert repr(tensor("f32", (0, 3))) == "<tenon.Tensor f32[0, 3] on cpu: []>"


@pytest.mark.parametrize("device, name", [(2, "cuda"), (10, "rocm"), (13, "cuda_managed"), (8, "metal")])
def test_memory_of_another_device_is_not_read(device, name):
    """Whatever is at that address."""
    given = probe.export(probe.blob(16, 1 << 40, device, 0, 0))
    assert repr(given) == f"<tenon.Tensor f32[{1 << 40}] on {name}:0>"


def test_pinned_memory_is_shown():
    assert values(tensor("u8", (2,), None, 0, 0, 3)) == "[0, 1]"


def test_large_tensors():
    assert values(tensor("u8", (1000,))) == f"[0, 1, 2, ..., {997 % 256}, {998 % 256}, {999 % 256}]"
    assert values(tensor("u8", (100,))).count(",") == 99
    shown = values(tensor("u8", (20, 3, 20)))
    assert shown.startswith("[[[0, 1, 2, ..., 17, 18, 19], [20, ") and shown.count("...") == 6 * 3 + 1
    huge = tensor("u8", (2**40, 2**20), (0, 0))
    assert values(huge).startswith("[[0, 0, 0, ..., 0, 0, 0], ")
    deep = tensor("u8", (2,) * 60, (0,) * 60)
    assert len(repr(deep)) < 4000 and "..." in repr(deep) and repr(deep).endswith("]" * 30 + ">")
    many = tensor("u8", (9,) * 19, (0,) * 19)
    assert len(repr(many)) < 4000 and values(many).startswith("[" * 19 + "0, 0, 0, ..., 0, 0, 0]")
    assert values(many).count("[") == values(many).count("]")


# ------------------------------------------------------------------------------------- functions of other frameworks


@pytest.mark.parametrize("dtype, expected", [("f32", "float32"), ("bf16", "bfloat16"), ("u8", "uint8")])
def test_frameworks_that_look_at_attributes(dtype, expected):
    """They meet `dtype` and `shape`, a length and items, and must not take it for a list, or for a dtype."""
    np = pytest.importorskip("numpy")
    given = tensor(dtype, (2, 3))
    if dtype == "bf16":
        pytest.importorskip("ml_dtypes")
    assert str(np.asarray(given).dtype) == str(np.stack([given, given]).dtype) == expected
    assert np.asarray(given).shape == np.zeros_like(given).shape == (2, 3)
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        assert str(np.result_type(given)) == str(np.dtype(given)) == expected
    jnp = pytest.importorskip("jax.numpy")
    assert (jnp.asarray(given).shape, str(jnp.asarray(given).dtype)) == ((2, 3), expected)
    torch = pytest.importorskip("torch")
    assert torch.from_dlpack(given).data_ptr() == given.data_ptr
    if dtype != "bf16":
        assert (torch.as_tensor(given).shape, str(torch.tensor(given).dtype)) == ((2, 3), f"torch.{expected}")


REVERSED, GAPS, FIXED = ((3,), (-1,), 8), ((3,), (2,)), ((3,), None, 0, READ_ONLY)


@pytest.mark.parametrize(
    "library, kind, layouts", [("torch", probe.TORCH, [REVERSED, FIXED]), ("jax", probe.JAX, [REVERSED, GAPS])]
)
def test_what_frameworks_cannot_take(library, kind, layouts):
    pytest.importorskip(library)
    for layout in layouts:
        given = tensor("f32", *layout)
        with pytest.raises(BufferError):
            probe.export(probe.import_(given), kind)
        assert memoryview(given).shape == layout[0]
