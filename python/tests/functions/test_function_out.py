"""out=: the caller's own array as the result, and what it must be."""

import array

import pytest
from building import same_counts, tenon
from handmade import Echo

numpy = pytest.importorskip("numpy")

X = numpy.array([1, 2, 3], "float32")


def refused(function, exception, message, *args, **kwargs):
    out = kwargs["out"]
    with same_counts(out, *args):
        with pytest.raises(exception) as caught:
            function(*args, **kwargs)
        assert type(caught.value) is exception
        assert str(caught.value) == message
        del caught


@pytest.mark.parametrize(
    "make",
    [
        lambda: numpy.zeros(3, "float32"),
        lambda: array.array("f", [0, 0, 0]),
        lambda: memoryview(bytearray(12)).cast("f"),
        lambda: tenon.to(bytearray(12), "tenon"),
        lambda: numpy.zeros((2, 3), "float32")[1],
        lambda: numpy.zeros(20, "float32")[5:8],
    ],
    ids=["numpy", "array", "memoryview", "Tensor of u8", "row", "slice"],
)
def test_is_returned_itself(kernels, make):
    out = make()
    if isinstance(out, tenon.Tensor):
        out = kernels.count_up(3, like="tenon")
    with same_counts(out):
        got = kernels.saxpy(2, X, X, out=out)
        assert got is out
        del got
    assert numpy.asarray(out).tolist() == [3, 6, 9]


def test_torch_is_returned_itself(kernels):
    torch = pytest.importorskip("torch")
    out = torch.zeros(3)
    with same_counts(out):
        assert kernels.saxpy(2, X, X, out=out) is out
    assert out.tolist() == [3, 6, 9]
    half = torch.zeros(6)[3:]
    assert kernels.saxpy(2, X, X, out=half) is half and half.tolist() == [3, 6, 9]


def test_with_a_named_result():
    out = numpy.ones(3, "float32")
    got = Echo("f(x: f32[n]) -> y: f32[n]")(X, out=out)
    assert got.y is out and not out.any()


def test_without_arguments(kernels):
    out = numpy.zeros(4, "float32")
    assert kernels.count_up(4, out=out) is out and out.tolist() == [0, 1, 2, 3]
    assert kernels.count_up(0, out=out[:0]).shape == (0,)
    point = numpy.ones((), "float32")
    assert Echo("f() -> f32[]")(out=point) is point and point == 0


def test_wrong_dtype(kernels):
    message = "saxpy(): argument 'out': expected f32[n], got f64[3] (numpy.ndarray)\n  dtype is f64, not f32"
    refused(kernels.saxpy, TypeError, message, 2, X, X, out=numpy.zeros(3))


def test_wrong_shape(kernels):
    message = "saxpy(): argument 'out': dimension 0 is 4, but n = 3 from argument 'x'"
    refused(kernels.saxpy, ValueError, message, 2, X, X, out=numpy.zeros(4, "float32"))
    message = "saxpy(): argument 'out': expected f32[n], got f32[1, 3] (numpy.ndarray)\n  2 dimensions, not 1"
    refused(kernels.saxpy, ValueError, message, 2, X, X, out=numpy.zeros((1, 3), "float32"))


def test_wrong_layout(kernels):
    with pytest.raises(ValueError, match=r"argument 'out'.*\n  strides \[2\] are not in C order without gaps"):
        kernels.saxpy(2, X, X, out=numpy.zeros(6, "float32")[::2])
    with pytest.raises(ValueError, match=r"strides \[-1\] are not in C order without gaps"):
        kernels.saxpy(2, X, X, out=numpy.zeros(3, "float32")[::-1])
    grid = numpy.zeros((2, 3), "float32")
    with pytest.raises(ValueError, match="in C order without gaps"):
        kernels.copy(grid, out=numpy.asfortranarray(grid))
    with pytest.raises(ValueError, match="in C order without gaps"):
        kernels.saxpy(2, X, X, out=numpy.broadcast_to(numpy.zeros(1, "float32"), 3))


def test_read_only(kernels):
    out = numpy.zeros(3, "float32")
    out.flags.writeable = False
    refused(
        kernels.saxpy,
        ValueError,
        "saxpy(): argument 'out' is read-only, but must be writable; pass a copy",
        2,
        X,
        X,
        out=out,
    )
    with pytest.raises(ValueError, match=r"saxpy\(\): argument 'out' is read-only"):
        kernels.saxpy(2, X, X, out=memoryview(bytes(12)).cast("f"))


def test_immutable(kernels):
    jax = pytest.importorskip("jax")
    with pytest.raises(ValueError, match=r"saxpy\(\): argument 'out' is read-only"):
        kernels.saxpy(2, X, X, out=jax.numpy.zeros(3, "float32"))


@pytest.mark.parametrize("out", [3, "text", [0.0, 0.0, 0.0], object()])
def test_no_array(kernels, out):
    with pytest.raises(TypeError, match=r"^saxpy\(\): argument 'out': "):
        kernels.saxpy(2, X, X, out=out)


def test_on_a_device(kernels):
    class OnCuda:
        def __dlpack_device__(self):
            return 2, 0

        def __dlpack__(self, **keywords):
            raise BufferError("it is on a GPU")

    with pytest.raises((ValueError, BufferError)):
        kernels.saxpy(2, X, X, out=OnCuda())


def test_overlap(kernels):
    memory = numpy.zeros(10, "float32")
    x, near = memory[:3], memory[2:5]
    message = "saxpy(): argument 'out' shares memory with argument 'x' and is written to; pass a copy of one of them"
    refused(kernels.saxpy, ValueError, message, 2, x, X, out=x)
    refused(kernels.saxpy, ValueError, message, 2, x, X, out=near)
    message = message.replace("'x'", "'y'")
    refused(kernels.saxpy, ValueError, message, 2, X, x, out=near)
    beside = memory[3:6]
    assert kernels.saxpy(2, x, X, out=beside) is beside


def test_in_place(kernels):
    memory = numpy.arange(6, dtype="float32")
    x = memory[:3]
    assert kernels.copy_in_place(x, out=x) is x
    same = memory[:3]  # another object, the same view
    assert kernels.copy_in_place(x, out=same) is same
    for other in (memory[1:4], memory[:3].reshape(3, 1)[:, 0][:2]):
        with pytest.raises(ValueError):
            kernels.copy_in_place(x, out=other)
    with pytest.raises(ValueError, match="argument 'out' shares memory with argument 'x'"):
        kernels.copy_in_place(x, out=memory[1:4])


def test_alias(kernels):
    memory = numpy.arange(6, dtype="float32")
    kernels.copy_alias(memory[:4], out=memory[1:5])
    assert memory.tolist() == [0, 0, 1, 2, 3, 5]
    assert kernels.copy_alias(memory, out=memory) is memory


def test_failing_function_leaves_it_to_the_caller(lies):
    out = numpy.ones(3, "float32")
    with same_counts(out):
        with pytest.raises(RuntimeError):
            lies.ask(0, X, out=out)
    assert out.tolist() == [1, 1, 1]


def test_gradient(kernels):
    torch = pytest.importorskip("torch")
    out = torch.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"saxpy\(\): argument 'out': it requires grad"):
        kernels.saxpy(2, X, X, out=out)
    with torch.no_grad():
        assert kernels.saxpy(2, X, X, out=out) is out
