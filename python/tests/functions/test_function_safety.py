"""What is written may be written, and is there once; what is no tensor of the CPU's never reaches a function."""

import array
import sys
import types

import pytest
from building import refused, same_counts
from dlpack import contents
from handmade import Echo

numpy = pytest.importorskip("numpy")


def floats(count=6):
    return numpy.arange(count, dtype="float32")


# ------------------------------------------------------------------------------------------------------------- overlap


def test_written_twice(kernels):
    x = floats()
    message = "swap(): argument 'x' shares memory with argument 'y' and is written to; pass a copy of one of them"
    refused(kernels.swap, ValueError, message, x, x)
    refused(kernels.swap, ValueError, message, x[:4], x[2:])
    kernels.swap(x[:3], x[3:])
    assert x.tolist() == [3, 4, 5, 0, 1, 2]


def test_written_and_read():
    echo = Echo("f(x: f32[_], y: f32[_] rw)")
    x = floats()
    message = "f(): argument 'y' shares memory with argument 'x' and is written to; pass a copy of one of them"
    refused(echo, ValueError, message, x, x)
    refused(echo, ValueError, message, x[3:], x[:4])
    refused(echo, ValueError, message, x[::-1], x)
    echo(x[::2], x[1::2])  # the same extent, no element in common
    echo(x[:0], x)
    Echo("f(x: f32[_], y: f32[_])")(x, x)  # who only reads may share


def test_overlap_across_dtypes():
    memory = numpy.zeros(16, "u1")
    echo = Echo("f(x: f32[_] rw, y: u8[_])")
    with pytest.raises(ValueError, match="shares memory"):
        echo(memory[:8].view("float32"), memory[7:])
    echo(memory[:8].view("float32"), memory[8:])


def test_overlap_across_frameworks(kernels):
    torch = pytest.importorskip("torch")
    x = floats()
    with pytest.raises(ValueError, match="shares memory"):
        kernels.swap(x, torch.from_numpy(x))
    memory = bytearray(24)
    with pytest.raises(ValueError, match="shares memory"):
        kernels.swap(numpy.frombuffer(memory, "float32"), memoryview(memory).cast("f"))


def test_alias_and_in_place(kernels):
    x = floats()
    Echo("f(x: f32[_] rw alias, y: f32[_])")(x, x)
    Echo("f(x: f32[_], y: f32[_] rw alias)")(x[1:], x[:-1])
    kernels.swap_in_place(x, x)
    with pytest.raises(ValueError, match="shares memory"):
        kernels.swap_in_place(x[:4], x[2:])


@pytest.mark.parametrize(
    "make",
    [
        lambda: numpy.lib.stride_tricks.as_strided(numpy.zeros(1, "float32"), (5,), (0,)),
        lambda: numpy.lib.stride_tricks.as_strided(numpy.zeros(6, "float32"), (3, 3), (4, 4))[:, 0:3].reshape(-1)[:0],
        lambda: numpy.lib.stride_tricks.as_strided(floats(), (5,), (4,)),
    ],
    ids=["stride of 0", "empty", "none"],
)
def test_self_overlap(kernels, make):
    x = make()
    if x.size and x.strides == (0,):
        refused(
            kernels.add_to,
            ValueError,
            "add_to(): argument 'x' overlaps itself (strides [0]), so it cannot be written to; pass a copy",
            x,
            1.0,
        )
        kernels.add_to_unchecked(x, 1.0)
        assert x[0] == 5
    else:
        kernels.add_to(x, 1.0)


def test_folded_strides():
    x = numpy.lib.stride_tricks.as_strided(floats(), (3, 3), (4, 4))
    with pytest.raises(ValueError, match=r"argument 'x' overlaps itself \(strides \[1, 1\]\)"):
        Echo("f(x: f32[_, _] rw)")(x)
    Echo("f(x: f32[_, _])")(x)
    Echo("f(x: f32[_, _] rw alias)")(x)


def test_broadcast_is_read(kernels):
    x = numpy.broadcast_to(numpy.float32(2), (3,))
    assert Echo("f(x: f32[n]) -> f32[n]")(x).shape == (3,)
    with pytest.raises(ValueError, match="read-only|overlaps itself"):
        kernels.add_to(x, 1.0)


def test_negative_and_odd_strides(kernels):
    memory = floats()
    kernels.add_to(memory[::-2], 10.0)
    assert memory.tolist() == [0, 11, 2, 13, 4, 15]


# ----------------------------------------------------------------------------------------------------------- read-only


def test_read_only(kernels):
    x = floats()
    x.flags.writeable = False
    refused(kernels.add_to, ValueError, "add_to(): argument 'x' is read-only, but must be writable; pass a copy", x, 1.0)
    for buffer in (memoryview(bytes(8)).cast("f"), memoryview(array.array("f", [1])).toreadonly()):
        refused(
            kernels.add_to,
            ValueError,
            "add_to(): argument 'x' is read-only, but must be writable; pass a NumPy copy, numpy.array(x)",
            buffer,
            1.0,
        )
    # What may overlap is still not to be written.
    with pytest.raises(ValueError, match="is read-only"):
        kernels.add_to_unchecked(x, 1.0)


def test_immutable_jax(kernels):
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(3, dtype="float32")
    message = (
        "add_to(): argument 'x' is read-only (a JAX array is immutable), but must be writable; "
        "pass a NumPy copy, numpy.array(x)"
    )
    refused(kernels.add_to, ValueError, message, x, 1.0)
    assert x.tolist() == [0, 1, 2]
    kernels.add_to(numpy.array(x), 1.0)  # as it says
    with pytest.raises(ValueError) as caught:
        kernels.saxpy(1.0, x, x, out=x)
    assert str(caught.value) == message.replace("add_to", "saxpy").replace("'x'", "'out'")


def test_written(kernels):
    x, buffer = floats(3), array.array("f", [1, 2, 3])
    assert kernels.add_to(x, 1.0) is None and kernels.add_to(buffer, 1.0) is None
    assert x.tolist() == [1, 2, 3] and buffer.tolist() == [2, 3, 4]


# ----------------------------------------------------------------------------------------------------- what is no array


@pytest.mark.parametrize(
    "value, name",
    [(3, "int"), ("text", "str"), ([1.0], "list"), (None, "NoneType"), (object(), "object"), (float, "type")],
)
def test_no_array(kernels, value, name):
    refused(kernels.saxpy, TypeError, f"saxpy(): argument 'x': expected f32[n] c, got {name}", 2, value, floats())


@pytest.mark.parametrize(
    "array_, word",
    [
        (numpy.array(["text"]), "numpy.ndarray"),
        (numpy.array([None]), "numpy.ndarray"),
        (numpy.zeros(2, "datetime64[s]"), "numpy.ndarray"),
        (numpy.zeros(2, ">f4"), "numpy.ndarray"),
        (numpy.ma.masked_array([1.0]), "numpy.ma"),
        (numpy.zeros(2, [("a", "f4")]), "numpy.ndarray"),
    ],
    ids=["text", "object", "datetime", "swapped", "masked", "structured"],
)
def test_array_without_a_dtype_of_ours(kernels, array_, word):
    with same_counts(array_):
        with pytest.raises((TypeError, ValueError, BufferError), match=rf"^saxpy\(\): argument 'x': {word}"):
            kernels.saxpy(2, array_, floats())


class Frame:
    """As pandas has it: no memory to share, but __array__, and names that are looked up in Python."""

    def __array__(self, dtype=None, copy=None):
        return numpy.zeros(3)

    def __getattr__(self, name):
        raise AttributeError(name)


class Made:
    def __array__(self, dtype=None, copy=None):
        return numpy.zeros(3)


@pytest.mark.parametrize("kind", [Frame, Made])
def test_what_could_be_made_an_array(kernels, kind):
    """Making one would be a copy, which nobody asked for."""
    with pytest.raises(TypeError, match=rf"^saxpy\(\): argument 'x': {__name__}\.{kind.__name__}: "):
        kernels.saxpy(2, kind(), floats())


class Producer:
    """A tensor by DLPack alone."""

    def __init__(self, answer, device=(1, 0)):
        self.answer, self.device = answer, device

    def __dlpack__(self, **keywords):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer.__dlpack__()

    def __dlpack_device__(self):
        return self.device


def test_producer(kernels):
    x = Producer(floats(3))
    with same_counts(x, x.answer):
        assert numpy.asarray(kernels.saxpy(2, x, x)).tolist() == [0, 3, 6]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), KeyError("mine"), SystemExit(2), MemoryError()])
def test_exception_of_a_producer(kernels, error):
    """It stays what it is, with a note of whose it was."""
    x = Producer(error)
    with same_counts(x):
        with pytest.raises(type(error)) as caught:
            kernels.saxpy(2, floats(3), x)
        assert caught.value is error
        error.__traceback__ = None
        del caught
    if sys.version_info >= (3, 11):
        assert error.__notes__ == ["saxpy(): argument 'y'"]


def test_refusal_of_a_producer(kernels):
    error = BufferError("not today")
    with pytest.raises(
        BufferError, match=r"^saxpy\(\): argument 'x': .*Producer: the producer refused: not today"
    ) as caught:
        kernels.saxpy(2, Producer(error), floats())
    assert caught.value.__cause__ is error


class OnDevice:
    """A tensor whose struct says that it is elsewhere."""

    def __init__(self, *device):
        self.device = device

    def __dlpack__(self, **keywords):
        capsule = floats(3).__dlpack__()
        tensor = contents(capsule).tensor
        tensor.device_type, tensor.device_id = self.device
        return capsule

    def __dlpack_device__(self):
        return self.device


@pytest.mark.parametrize(
    "device, name", [((2, 0), "cuda:0"), ((10, 1), "rocm:1"), ((8, 0), "metal:0"), ((12, 3), "ext_dev:3")]
)
def test_tensor_on_a_device(kernels, device, name):
    """Device pointers never reach a function of the CPU's."""
    x = OnDevice(*device)
    message = (
        f"saxpy(): argument 'x': expected f32[n] c, got f32[3] ({__name__}.OnDevice)\n"
        f"  the memory is on {name}, which the CPU cannot read; move it to the CPU"
    )
    refused(kernels.saxpy, ValueError, message, 2, x, floats(3))
    with pytest.raises(ValueError, match="argument 'y'"):
        kernels.saxpy(2, floats(3), x)
    with pytest.raises(ValueError, match="argument 'out'"):
        kernels.saxpy(2, floats(3), floats(3), out=x)


def advice(function, *arguments):
    """The end of the message: what to do."""
    with pytest.raises(ValueError) as caught:
        function(*arguments)
    return str(caught.value).partition("\n  ")[2]


def test_how_to_move_an_array_to_a_device(monkeypatch):
    cuda, metal = Echo("f(one: f32[n] cuda)"), Echo("f(one: f32[n] metal)")
    on_cpu = "the memory is on cpu; move it to"
    assert advice(cuda, floats(3)) == f"{on_cpu} cuda, for example with cupy.asarray(one)"
    assert advice(Echo("f(one: f32[n] rocm)"), floats(3)) == f"{on_cpu} rocm, for example with cupy.asarray(one)"
    assert advice(metal, floats(3)) == f"{on_cpu} metal"
    assert advice(cuda, array.array("f", [1])) == f"{on_cpu} cuda"
    cpu = Echo("f(one: f32[n] cpu)")
    assert advice(cpu, OnDevice(2, 0)) == "the memory is on cuda:0; move it to the CPU"
    stream = types.SimpleNamespace(ptr=0)
    cuda = types.SimpleNamespace(get_current_stream=lambda: stream)
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    cupy = type("ndarray", (OnDevice,), {"__module__": "cupy"})
    assert advice(cpu, cupy(2, 0)) == "the memory is on cuda:0; move it to the CPU, for example with one.get()"


def test_how_to_move_tensors_of_torch_and_jax():
    echo = Echo("f(x: f32[n] cuda)")
    on_cpu = "the memory is on cpu; move it to cuda, for example with"
    jax = pytest.importorskip("jax")
    assert advice(echo, jax.numpy.ones(3, "float32")) == f"{on_cpu} jax.device_put(x, jax.devices('gpu')[0])"
    torch = pytest.importorskip("torch")
    assert advice(echo, torch.ones(3)) == f"{on_cpu} x.cuda()"


def test_memory_that_both_can_read(kernels):
    assert numpy.asarray(kernels.saxpy(2, OnDevice(3, 0), floats(3))).tolist() == [0, 3, 6]  # pinned by CUDA


# --------------------------------------------------------------------------------------------------------------- advice


def test_jax_advice(kernels):
    jax = pytest.importorskip("jax")
    x = jax.numpy.zeros(2, "int32")
    with pytest.raises(TypeError, match=r"dtype is i32, not f32; try x\.astype\('float32'\)$"):
        kernels.saxpy(2, x, x)


def test_read_only_buffers_say_what_helps():
    """A copy of bytes is read-only too."""
    for x in (b"abcd", memoryview(b"abcd")):
        with pytest.raises(ValueError, match=r"^f\(\): argument 'x' is read-only, but must be writable; pass a NumPy copy, numpy"):
            Echo("f(x: u8[n] rw)")(x)
