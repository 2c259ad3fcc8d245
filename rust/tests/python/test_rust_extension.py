"""A PyO3 extension that takes and returns arrays with the feature `pyo3`."""

import gc
import importlib.util
import os
import sys
import sysconfig
import threading

import numpy
import pytest


@pytest.fixture(scope="session")
def extension():
    path = os.environ.get("TENON_RUST_EXTENSION")
    if not path:
        pytest.skip("TENON_RUST_EXTENSION is not set")
    spec = importlib.util.spec_from_file_location("rust_extension", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def f32(*values):
    return numpy.array(values, "float32")


def test_arrays(extension):
    x, y = f32(1, 2, 3), f32(4, 5, 6)
    before = sys.getrefcount(x)
    assert extension.dot(x, y) == 32
    assert extension.dot(x[::2], y[::-2]) == 6 + 12
    assert extension.dot(x, x) == 14
    assert sys.getrefcount(x) == before


def test_other_producers(extension):
    assert extension.dot(memoryview(f32(1, 2)), f32(3, 4)) == 11
    torch = pytest.importorskip("torch")
    assert extension.dot(torch.tensor([1.0, 2.0]), f32(3, 4)) == 11
    jax = pytest.importorskip("jax")
    assert extension.dot(jax.numpy.array([1.0, 2.0]), torch.tensor([3.0, 4.0])) == 11


def test_written_arrays(extension):
    x = numpy.ones((4, 6))
    extension.scale(x[::2, 1::2], 3.0)
    assert x.sum() == 24 + 6 * 2
    extension.add_to(y := f32(1, 2), f32(10, 20))
    assert y.tolist() == [11, 22]


def test_arrays_that_overlap(extension):
    x = f32(1, 2, 3, 4)
    message = "overlaps another array that is borrowed, and one of them is written to"
    for other in x, x[1:], x[::-1], memoryview(x):
        with pytest.raises((ValueError, TypeError), match=message):
            extension.add_to(x, other)
    extension.add_to(x[:2], x[2:])
    assert x.tolist() == [4, 6, 3, 4]
    # A borrow that failed is not alive.
    extension.add_to(x, f32(1, 1, 1, 1))


def on_a_thread(function, *arguments):
    """The exception of a call on another thread."""
    caught = []

    def run():
        try:
            function(*arguments)
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return caught


def test_borrows_of_other_threads(extension):
    x = f32(1, 2)
    caught = []
    extension.call_while_written(x, lambda: caught.extend(on_a_thread(extension.touch, x)))
    extension.call_while_read(x, lambda: caught.extend(on_a_thread(extension.add_to, x, f32(1, 1))))
    assert [type(error) for error in caught] == [ValueError, ValueError]
    extension.call_while_read(x, lambda: caught.extend(on_a_thread(extension.touch, x)))
    assert len(caught) == 2 and x.tolist() == [5, 2]


def test_borrows_of_many_threads(extension):
    shared, own = numpy.ones(6, "float32"), [numpy.zeros(6, "float32") for _ in range(4)]
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()

    def run(x):
        for _ in range(2000):
            extension.add_to(x, shared)
            extension.dot(shared, x)

    threads = [threading.Thread(target=run, args=(x,)) for x in own]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [x.tolist() for x in own] == [[2000] * 6] * 4
    extension.add_to(shared, own[0])  # none of them is borrowed any more
    # The extension runs without the interpreter lock where Python does.
    assert lock == (not sysconfig.get_config_var("Py_GIL_DISABLED"))


def test_many_borrows_in_any_order(extension):
    arrays = [numpy.ones(i % 3, "float32") for i in range(1001)]
    assert extension.lengths(arrays) == sum(map(len, arrays))
    assert extension.lengths([numpy.ones(2, "float32")] * 300) == 600
    extension.add_to(arrays[1], f32(1))  # none of them is borrowed any more


def test_a_tensor_beside_an_array_that_is_written_to(extension):
    x = f32(1, 2)
    with pytest.raises(ValueError, match="overlaps another array"):
        extension.read_then_write(x, x)
    assert extension.read_then_write(f32(1), x) == 2 and x.tolist() == [2, 2]
    assert extension.write_then_read(x, x) is None
    assert extension.write_then_read(x, f32(1)) == 5
    extension.add_to(x, f32(1, 1))


def test_a_producer_is_asked_once(extension):
    asked = []

    class Producer:
        def __dlpack__(self, **options):
            asked.append(options)
            return numpy.ones(3, "float32").__dlpack__(**options)

        def __dlpack_device__(self):
            return 1, 0

    assert extension.touch(Producer()) == 3 and len(asked) == 1
    capsule = numpy.ones(4, "float32").__dlpack__()
    assert extension.touch(capsule) == 4


def test_a_vec_is_released_with_its_array(extension):
    made = extension.make_numpy(3)
    assert made.flags.writeable and not made.flags.owndata and made.tolist() == [0, 1, 2]
    view = made[1:]
    del made
    assert view.tolist() == [1, 2]
    for _ in range(1000):
        extension.make_numpy(100_000)  # 400 MB if they were not released


def test_refusals(extension):
    with pytest.raises(TypeError, match="expected an array of f32, got one of f64"):
        extension.touch(numpy.zeros(2))
    with pytest.raises(ValueError, match=r"expected an array with 1 dimensions, got the shape \[2, 2\]"):
        extension.touch(numpy.zeros((2, 2), "float32"))
    with pytest.raises(TypeError):
        extension.touch([1.0, 2.0])
    x = f32(1, 2)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        extension.add_to(x, f32(1, 2))
    with pytest.raises(ValueError, match="not aligned"):
        extension.touch(numpy.zeros(9, "uint8")[1:].view("float32"))


def test_the_layout_of_a_tensor(extension):
    assert extension.layout(numpy.zeros((4, 6))[:, ::2]) == ([4, 3], [6, 2], "f64")
    assert extension.layout(numpy.int8(3).reshape(())) == ([], [], "i8")


def test_the_same_object(extension):
    x = f32(1, 2)
    assert extension.same(x) is x
    torch = pytest.importorskip("torch")
    t = torch.ones(2, requires_grad=True)
    assert extension.same(t) is t


def test_the_same_torch_tensor(extension):
    torch = pytest.importorskip("torch")
    if not hasattr(extension, "same_torch"):
        pytest.skip("the extension was built without the feature torch")
    t = torch.nn.Parameter(torch.ones(2))
    same, address = extension.same_torch(t)
    assert same is t and address
    with pytest.raises(TypeError, match="expected torch.Tensor"):
        extension.same_torch(numpy.ones(2))


def test_a_tensor_on_another_thread(extension):
    x = numpy.arange(5.0)
    before = sys.getrefcount(x)
    assert extension.sum_elsewhere(x) == 10
    gc.collect()
    extension.touch(f32(1))  # releases what another thread left
    assert sys.getrefcount(x) == before
    with pytest.raises(TypeError, match="expected a vector of f64"):
        extension.sum_elsewhere(f32(1))


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_a_vec(extension, framework):
    pytest.importorskip(framework)
    made = extension.make(4, framework)
    assert type(made).__module__.split(".")[0].startswith(framework[:3]) and made.tolist() == [0, 1, 2, 3]
    assert extension.make(0, framework).tolist() == []
