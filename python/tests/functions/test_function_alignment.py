"""Natural alignment: what a function in C reads as a T lies where a T may lie, unless its signature says `unaligned`."""

import pytest
from building import same_counts, tenon
from handmade import Echo

numpy = pytest.importorskip("numpy")

MEMORY = numpy.zeros(256, "u1")
START = int(-MEMORY.ctypes.data % 64)
NATURAL = {"bool": 1, "u1": 1, "i2": 2, "f2": 2, "i4": 4, "f4": 4, "i8": 8, "f8": 8, "c8": 4, "c16": 8}
SHORT = {"bool": "bool", "u1": "u8", "i2": "i16", "f2": "f16", "i4": "i32", "f4": "f32", "i8": "i64", "f8": "f64"}
SHORT.update({"c8": "c64", "c16": "c128"})


def askew(offset, dtype="f4", count=3):
    """An array so many bytes behind an aligned address."""
    size = numpy.dtype(dtype).itemsize
    return MEMORY[START + offset : START + offset + count * size].view(dtype)


def words(bytes_, argument="x"):
    return f"f(): argument '{argument}': its memory is not aligned to {bytes_} bytes; pass a copy"


def refused(echo, message, *args, **kwargs):
    with same_counts(*args, *kwargs.values()):
        with pytest.raises(ValueError) as caught:
            echo(*args, **kwargs)
        assert type(caught.value) is ValueError and str(caught.value) == message and echo.seen is None
        del caught


@pytest.mark.parametrize("dtype", NATURAL)
@pytest.mark.parametrize("shape", ["{}[n]", "{}[n] c", "{}[n] rw", "{}|f8_e4m3fn[*b]", "T[n]", "any[n]"])
def test_every_dtype(dtype, shape):
    where = " where T = any" if shape.startswith("T") else ""
    text = shape.format(SHORT[dtype])
    echo, loose = Echo(f"f(x: {text}){where}"), Echo(f"f(x: {text} unaligned){where}")
    for offset in range(9):
        if offset % NATURAL[dtype]:
            refused(echo, words(NATURAL[dtype]), askew(offset, dtype))
        else:
            echo(askew(offset, dtype))
        loose(askew(offset, dtype))
        echo(askew(offset, dtype, 0))  # no element is read


def test_a_copy_helps():
    x = askew(1)
    Echo("f(x: f32[n] c)")(x.copy())
    Echo("f(x: f32[n] c)")(x.astype("f4"))


def test_the_second_argument_and_optional_ones():
    echo = Echo("f(x: f32[n], y: f32[n]?)")
    refused(echo, words(4, "y"), askew(0), askew(2))
    refused(echo, words(4), askew(2), askew(1))
    echo(askew(0), None)


def test_more_than_natural():
    echo = Echo("f(x: f64[n] aligned(4))")  # aligned(N) never allows less
    refused(echo, words(8), askew(4, "f8"))
    echo(askew(8, "f8"))
    with pytest.raises(ValueError, match="the memory is aligned to 16 bytes, not 32"):
        Echo("f(x: f64[n] aligned(32))")(askew(16, "f8"))


def test_out():
    x = numpy.ones(3, "f4")
    echo = Echo("f(x: f32[n]) -> f32[n]")
    refused(echo, words(4, "out"), x, out=askew(2))
    assert echo(x, out=askew(4)).tolist() == [0, 0, 0]
    out = askew(2)
    assert Echo("f(x: f32[n]) -> f32[n] unaligned")(x, out=out) is out


def test_fields_of_a_record():
    """The offset 1 of a packed record: the strides fit, the address does not."""
    records = numpy.zeros(4, numpy.dtype([("a", "u1"), ("b", "<f4"), ("c", "u1", (3,))]))
    assert records["b"].strides == (8,)
    refused(Echo("f(x: f32[n])"), words(4), records["b"])
    Echo("f(x: f32[n] unaligned)")(records["b"])


class Producer:
    """A NumPy array that shows nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("make", [memoryview, Producer, lambda x: tenon.to(x, "tenon")], ids=["buffer", "DLPack", "ours"])
def test_other_producers(make):
    refused(Echo("f(x: f32[n])"), words(4), make(askew(1)))
    Echo("f(x: f32[n])")(make(askew(4)))
    Echo("f(x: f32[n] unaligned)")(make(askew(1)))


def test_torch():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(MEMORY)[START:]
    odd = torch.frombuffer(MEMORY.data, dtype=torch.float32, offset=START + 1, count=3)
    assert odd.data_ptr() == x.data_ptr() + 1
    echo = Echo("f(x: f32[n]) -> f32[n]")
    refused(echo, words(4), odd)
    refused(echo, words(4, "out"), torch.zeros(3), out=odd)
    echo(odd.clone())
    Echo("f(x: f32[n] unaligned)")(odd)
