"""Arguments that a function keeps beyond the call."""

import array
import gc
import os
import threading
import weakref

import pytest
from building import run_python, same_counts, tenon

numpy = pytest.importorskip("numpy")


def numbers(count=6):
    return numpy.arange(count, dtype="float32")


def test_kept_until_released(memory):
    x = numbers()
    with same_counts(x):
        slot = memory.keep(x)
        assert memory.kept_address(slot) == x.ctypes.data  # no copy
        x[0] = 10
        assert memory.kept_sum(slot) == 25
        memory.drop(slot)


def test_outlives_the_array(memory):
    x = numbers()
    gone = weakref.ref(x)
    slot = memory.keep(x)
    del x
    assert gone() is not None
    assert memory.kept_sum(slot) == 15
    memory.drop(slot)
    assert gone() is None


def test_each_keep_is_a_share_of_its_own(memory):
    x = numbers()
    gone = weakref.ref(x)
    first, second = memory.keep_twice(x)
    third = memory.keep(x)
    del x
    for slot in (first, third, second):
        assert gone() is not None
        memory.drop(slot)
    assert gone() is None


@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow", "tenon", "memoryview", "array", "strided", "empty"])
def test_any_array(memory, framework):
    if framework in ("torch", "jax", "tensorflow"):
        module = pytest.importorskip(framework)
    x = {
        "torch": lambda: module.arange(6, dtype=module.float32),
        "jax": lambda: module.numpy.arange(6, dtype="float32"),
        "tensorflow": lambda: module.range(6, dtype="float32"),
        "tenon": lambda: tenon.from_dlpack(numbers()),
        "memoryview": lambda: memoryview(numbers()),
        "array": lambda: array.array("f", range(6)),
        "strided": lambda: numbers(12)[:6],
        "empty": lambda: numbers(0),
    }[framework]()
    slot = memory.keep_unlocked(x)
    del x
    gc.collect()
    other = [numbers() + 1 for _ in range(20)]  # reuses the memory, if it was freed
    assert memory.kept_sum(slot) == (0 if framework == "empty" else 15)
    memory.drop(slot)
    del other


def test_many_dimensions(memory):
    x = numpy.zeros([1] * 20, "float32")
    slot = memory.keep(x)
    assert memory.kept_ndim(slot) == 20
    memory.drop(slot)
    if hasattr(x, "__dlpack__"):
        slot = memory.keep(tenon.from_dlpack(x).__dlpack__(max_version=(1, 0)))
        assert memory.kept_ndim(slot) == 20
        memory.drop(slot)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_is_read_once(memory, version):
    x = numbers()
    with same_counts(x):
        capsule = tenon.from_dlpack(x).__dlpack__(max_version=version)
        slots = memory.keep_twice(capsule)
        del capsule
        for slot in slots:
            assert memory.kept_address(slot) == x.ctypes.data
            memory.drop(slot)


class Producer:
    """Makes another array each time it is asked."""

    def __init__(self):
        self.asked = 0

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **keywords):
        self.asked += 1
        return tenon.from_dlpack(numbers() + self.asked).__dlpack__(**keywords)


def test_a_producer_is_asked_once(memory):
    producer = Producer()
    slot = memory.keep(producer)
    assert producer.asked == 1
    assert memory.kept_sum(slot) == 21
    memory.drop(slot)


def test_not_given(memory):
    assert memory.keep_optional() == -1
    assert memory.keep_optional(None) == -1
    slot = memory.keep_optional(numbers())
    assert slot >= 0
    memory.drop(slot)


def test_an_argument_that_is_not_keep(memory):
    with pytest.raises(RuntimeError, match=r"keep_other\(\): its code keeps argument 'y', which is not 'keep'"):
        memory.keep_other(numbers(), numbers(), 1)
    with pytest.raises(RuntimeError, match=r"tenon_arg_keep\(\) for index 2, which is an int"):
        memory.keep_other(numbers(), numbers(), 2)


def test_the_call_fails_afterwards(memory):
    x = numbers()
    with same_counts(x), pytest.raises(ValueError, match="after keeping"):
        memory.keep_and_fail(x)


# ------------------------------------------------------------------------------------------------------- other threads


def test_released_by_a_thread_without_the_lock(memory):
    x = numbers()
    gone = weakref.ref(x)
    slot = memory.keep(x)
    memory.drop(slot, True)
    del x
    memory.keep_often(numbers(), 1)  # the next call runs what other threads have left
    gc.collect()
    assert gone() is None


def test_released_while_the_lock_is_released(memory):
    x = numbers()
    with same_counts(x):
        memory.drop_unlocked(memory.keep(x))
        memory.drop_unlocked(memory.keep(x), on_thread=True)
        memory.keep_often(numbers(), 1)


def test_from_many_threads(memory):
    x = numbers()
    mistakes = []

    def work():
        try:
            for _ in range(200):
                memory.keep_often(x, 5)
        except BaseException as error:
            mistakes.append(error)

    with same_counts(x):
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        del threads
    assert not mistakes


# ------------------------------------------------------------------------------------------------------ other memory


def test_numpy_refuses_to_resize(memory):
    x = numbers()
    slot = memory.keep(x)
    with pytest.raises(ValueError, match="resize"):
        x.resize(10000)
    assert memory.kept_sum(slot) == 15
    memory.drop(slot)
    x.resize(10)


def test_bytearrays_refuse_to_be_resized(memory):
    x = bytearray(numbers().tobytes())
    slot = memory.keep(memoryview(x).cast("f"))
    with pytest.raises(BufferError):
        x.extend(b"more")
    assert memory.kept_sum(slot) == 15
    memory.drop(slot)
    x.extend(b"more")


@pytest.mark.parametrize("how", ["set_", "data"])
def test_torch_gets_other_memory(memory, how):
    torch = pytest.importorskip("torch")
    x = torch.arange(6, dtype=torch.float32)
    slot = memory.keep(x)
    if how == "set_":
        x.set_()
    else:
        x.data = torch.zeros(6)
    other = [torch.ones(6) for _ in range(50)]
    assert memory.kept_sum(slot) == 15
    memory.drop(slot)
    del other


def test_torch_copies_on_write(memory):
    """The memory of a lazy clone moves at the next write, unless it has been moved before."""
    torch = pytest.importorskip("torch")
    clone = getattr(torch, "_lazy_clone", None)
    if not clone:
        pytest.skip("this torch has no lazy clones")
    x = torch.arange(6, dtype=torch.float32)
    lazy = clone(x)
    slot = memory.keep(lazy)
    lazy += 1
    assert memory.kept_sum(slot) == 21
    memory.drop(slot)


def test_a_jax_array_is_deleted(memory):
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(6, dtype="float32")
    slot = memory.keep(x)
    x.delete()
    assert memory.kept_sum(slot) == 15
    memory.drop(slot)


class Labelled(numpy.ndarray):
    """Can have attributes."""


def test_a_cycle_through_an_attribute_is_not_seen(memory):
    """The collector cannot see native shares. Releasing the share ends the cycle."""
    x = numbers().view(Labelled)
    x.slot = memory.keep(x)
    slot, gone = x.slot, weakref.ref(x)
    del x
    gc.collect()
    assert gone() is not None
    memory.drop(slot)
    gc.collect()
    assert gone() is None


# ------------------------------------------------------------------------------------------------------- at the end

LOAD = """
import sys, numpy, tenon
memory = tenon.load(sys.argv[1])
x = numpy.arange(6, dtype="float32")
slot = memory.keep(x)
"""


def test_the_interpreter_ends_first(library):
    """What is kept is released by the destructor of the library, when there is no interpreter any more."""
    assert run_python(LOAD + "print('done')", library.__file__) == "done\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_fork(library):
    code = LOAD + """
import os
pid = os.fork()
assert memory.kept_sum(slot) == 15
memory.drop(slot, pid == 0)
assert memory.keep(x) == slot
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print("done")
"""
    assert run_python(code, library.__file__) == "done\n"


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer keeps memory that was freed")
def test_no_memory_is_lost(library):
    code = LOAD + """
def rss():
    return int(open("/proc/self/statm").read().split()[1])
big = numpy.zeros(1 << 18, "float32")
memory.keep_often(big, 1000)
before = rss()
memory.keep_often(big, 100000)
for i in range(2000):
    memory.drop(memory.keep(numpy.ones(1 << 18, "float32")))
assert rss() - before < 2000, rss() - before
print("done")
"""
    assert run_python(code, library.__file__) == "done\n"


def test_no_memory_for_it(library):
    """The n-th allocation fails, for every n: a MemoryError, and nothing is lost."""
    pytest.importorskip("_testcapi")
    code = LOAD + """
import _testcapi, array
memory.drop(slot)
def sweep(what, x):
    failed = 0
    memory.drop(memory.keep(x))
    for n in range(60):
        count = sys.getrefcount(x)
        _testcapi.set_nomemory(n, n + 1)
        try:
            kept = memory.keep(x)
        except MemoryError:
            failed += 1
        else:
            _testcapi.remove_mem_hooks()
            memory.drop(kept)
        finally:
            _testcapi.remove_mem_hooks()
        assert sys.getrefcount(x) == count, (what, n)
    return failed
sweep("numpy", x)
assert sweep("dims", numpy.zeros([1] * 20, "float32"))
assert sweep("array", array.array("f", [1, 2])) >= 0
assert sweep("tensor", tenon.from_dlpack(x)) >= 0
print("done")
"""
    assert run_python(code, library.__file__) == "done\n"
