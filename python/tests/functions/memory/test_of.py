"""Results in the memory of an argument ("of(x)"): views that keep the argument alive."""

import array
import gc
import weakref

import pytest
from building import run_python, same_counts, tenon

numpy = pytest.importorskip("numpy")


def numbers(count=6):
    return numpy.arange(count, dtype="float32")


def test_a_view(memory):
    x = numbers()
    with same_counts(x):
        view = memory.part(x, 1, 6, 2)
        assert view.tolist() == [1, 3, 5]
        view[0] = 10
        assert x[1] == 10
        del view


def test_keeps_the_argument_alive(memory):
    x = numbers()
    gone = weakref.ref(x)
    view = memory.part(x, 2, 4)
    del x
    gc.collect()
    assert gone() is not None and view.tolist() == [2, 3]
    del view
    assert gone() is None


def test_several(memory):
    x = numbers()
    first, everything = memory.halves(x)
    assert first.tolist() == [0, 1, 2] and everything.tolist() == x.tolist()
    first[0] = 9
    assert everything[0] == 9 == x[0]


def test_read_only_as_the_argument(memory):
    x = numbers()
    assert memory.part(x, 0, 3).flags.writeable
    x.flags.writeable = False
    view = memory.part(x, 0, 3)
    assert not view.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


@pytest.mark.parametrize("like", ["torch", "tensorflow"])
def test_frameworks_without_read_only_arrays(memory, like):
    pytest.importorskip(like)
    x = numbers()
    x.flags.writeable = False
    with same_counts(x), pytest.raises(BufferError, match=r"part\(\): argument 'like': .*read-only"):
        memory.part(x, 0, 3, like=like)


def test_array_of_a_framework_without_read_only_arrays(memory):
    """The advice is one that a caller can follow: nobody can pass a copy of a result."""
    torch = pytest.importorskip("torch")
    x = numbers()
    x.flags.writeable = False
    with same_counts(x), pytest.raises(BufferError) as caught:
        memory.part(x, 0, 3, like=torch.ones(1))
    message = 'torch has no read-only tensors; pass like="numpy", and copy the result'
    assert str(caught.value) == f"part(): argument 'like': {message}"
    assert memory.part(x, 0, 3, like="numpy").ctypes.data == x.ctypes.data


def test_torch(memory):
    torch = pytest.importorskip("torch")
    x = torch.arange(6, dtype=torch.float32)
    view = memory.part_unlocked(x, 1, 4)
    assert type(view) is torch.Tensor and view.data_ptr() == x.data_ptr() + 4
    view[0] = 10
    assert x[1] == 10
    x.set_()
    other = [torch.ones(6) for _ in range(50)]
    assert view.tolist() == [10, 2, 3]
    del other


def test_torch_without_memory(library):
    """torch fails after it has taken the struct, and before: it is deleted once."""
    pytest.importorskip("torch")
    pytest.importorskip("_testcapi")
    code = """
    import sys, _testcapi, torch, tenon
    memory = tenon.load(sys.argv[1])
    x = torch.arange(6, dtype=torch.float32)
    memory.part(x, 0, 3)
    count, failed = sys.getrefcount(x), 0
    for n in range(40):
        view = None
        _testcapi.set_nomemory(n, n + 1)
        try:
            view = memory.part(x, 0, 3)
        except (MemoryError, RuntimeError, BufferError):  # torch gives a RuntimeError of its own
            failed += 1
        finally:
            _testcapi.remove_mem_hooks()
        assert view is None or view.tolist() == [0, 1, 2]
    view = None
    assert failed >= 3 and sys.getrefcount(x) == count
    print("done")
    """
    assert run_python(code, library.__file__) == "done\n"


MAKERS = {
    "numpy": lambda numpy: numpy.arange(6, dtype="float32"),
    "torch": lambda torch: torch.arange(6, dtype=torch.float32),
    "jax": lambda jax: jax.numpy.arange(6, dtype="float32"),
    "tensorflow": lambda tensorflow: tensorflow.range(6, dtype="float32"),
    "tenon": lambda tenon: tenon.from_dlpack(numbers()),
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_whole_argument_is_the_object_itself(memory, name):
    """Whatever the framework; a part of it, another framework by like=, or of another first argument is not."""
    x = MAKERS[name](pytest.importorskip(name))
    with same_counts(x):
        assert memory.part(x, 0, 6) is x and memory.whole(x) is x
    if name != "tensorflow":  # its memory is read-only, and it has no read-only tensors
        assert memory.halves(x).all is x and memory.part(x, 0, 5) is not x
    assert memory.part(x, 0, 6, like="numpy") is not x or name == "numpy"


def test_a_subclass_is_the_object_itself(memory):
    class Named(numpy.ndarray):
        pass

    x = numbers().view(Named)
    assert memory.part(x, 0, 6) is x


def test_an_argument_that_requires_grad(memory):
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        memory.part(x, 0, 6)
    with torch.no_grad():
        assert memory.part(x, 0, 6) is x
        assert not memory.part(x, 0, 5).requires_grad


def test_jax(memory):
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(64, dtype="float32")
    view = memory.part(x, 0, 32)
    assert isinstance(view, jax.Array) and view.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert memory.part(x, 1, 9, 2).tolist() == [1, 3, 5, 7]
    x.delete()
    assert view[3] == 3


def test_tensorflow(memory):
    """Its tensors are immutable, and its functions do not accept read-only memory."""
    tensorflow = pytest.importorskip("tensorflow")
    x = tensorflow.range(6, dtype="float32")
    with pytest.raises(BufferError, match=r"part\(\): result 0: .*read-only"):
        memory.part(x, 1, 4)
    view = memory.part(x, 1, 4, like="numpy")
    assert view.tolist() == [1, 2, 3] and not view.flags.writeable


def test_tensors_of_ours(memory):
    x = numbers()
    view = memory.part(tenon.from_dlpack(x), 1, 4)
    assert type(view) is tenon.Tensor
    assert numpy.from_dlpack(view).ctypes.data == x.ctypes.data + 4


def test_of_a_capsule(memory):
    x = numbers()
    with same_counts(x):
        view = memory.part(tenon.from_dlpack(x).__dlpack__(max_version=(1, 0)), 1, 4)
        assert view.tolist() == [1, 2, 3] and view.ctypes.data == x.ctypes.data + 4
        del view


@pytest.mark.parametrize("make", [lambda x: memoryview(x.tobytes()).cast("f"), lambda x: array.array("f", x.tolist()), memoryview,
                                  lambda x: tenon.from_dlpack(x).__dlpack__(max_version=(1, 0))])
def test_the_whole_of_a_buffer_is_a_new_array(memory, make):
    """A buffer and a capsule have no framework."""
    x = make(numbers())
    view = memory.part(x, 0, 6)
    assert type(view) is numpy.ndarray and view.tolist() == [0, 1, 2, 3, 4, 5]
    assert view.flags.writeable == (not getattr(x, "readonly", False))


def test_empty(memory):
    assert memory.part(numbers(), 3, 3).tolist() == []
    assert memory.part(numbers(0), 0, 0).tolist() == []


@pytest.mark.parametrize("start, stop, step", [(3, 7, 1), (-1, 2, 1), (0, 8, 2), (6, 7, 1)])
def test_outside(memory, start, stop, step):
    x = numbers()
    with same_counts(x), pytest.raises(RuntimeError) as caught:
        memory.part(x, start, stop, step)
    assert str(caught.value) == "part(): result 0 is not inside the memory of argument 'x'"


def test_of_an_argument_that_was_not_given(memory):
    with pytest.raises(RuntimeError, match=r"whole\(\): result 0 is memory of argument 'x', which was not passed"):
        memory.whole()
    assert memory.whole(numbers()[::-2]).tolist() == [5, 3, 1]


class Fickle:
    """Whose memory is replaced as soon as something is made of it."""

    def __init__(self):
        self.array = numbers()

    @property
    def __array_interface__(self):
        described = self.array.__array_interface__
        self.array = numbers()
        self.old = getattr(self, "old", []) + [self.array]
        return described


def test_of_memory_that_has_changed(memory):
    """What cannot be held is refused, not shown."""
    x = Fickle()
    with pytest.raises(RuntimeError, match=r"part\(\): argument 'x': its memory, shape or dtype changed during the call"):
        memory.part(x, 0, 3)
