"""Results in the memory of an object ("of(self)"): they keep the native object alive, not the Python object."""

import ctypes
import gc
import os
import threading
import weakref

import pytest
from building import build, run_python, tenon

numpy = pytest.importorskip("numpy")


@pytest.fixture(scope="session")
def store():
    return tenon.load(build("memory/store.c"))


@pytest.fixture(autouse=True)
def all_destroyed(store):
    before = store.stores()
    yield
    gc.collect()
    assert store.stores() == before


def test_a_view_of_an_object(store):
    held = store.Store(4)
    shown = held.show()
    assert shown.tolist() == [0, 1, 2, 3] and not shown.flags.writeable
    again = held.show()
    assert again.ctypes.data == shown.ctypes.data


def test_outlives_the_object(store):
    before = store.stores()
    held = store.Store(4)
    gone = weakref.ref(held)
    shown = held.show()
    del held
    gc.collect()
    assert gone() is None  # only the native object is kept
    assert store.stores() == before + 1 and shown.tolist() == [0, 1, 2, 3]
    part = shown[1:]
    del shown
    assert store.stores() == before + 1 and part.tolist() == [1, 2, 3]
    del part
    assert store.stores() == before


def test_used_after_close(store):
    before = store.stores()
    with store.Store(4) as held:
        shown = held.show()
    assert held.closed and shown.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"Store.show\(\): this Store is closed"):
        held.show()
    del shown
    assert store.stores() == before


def test_writable(store):
    held = store.Store(3)
    shown = held.show_rw()
    assert shown.flags.writeable
    shown[1] = 10
    assert held.show().tolist() == [0, 10, 2]


def test_frameworks(store):
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    held = store.Store(3)
    with pytest.raises(BufferError, match=r"Store.show\(\): argument 'like': torch has no read-only tensors"):
        held.show(like=torch)
    assert held.show_rw(like=torch).tolist() == [0, 1, 2]
    assert held.show(like=jax).tolist() == [0, 1, 2]
    assert type(held.show(like="tenon")) is tenon.Tensor
    assert held.show(like="tenon").readonly


def test_tensorflow(store):
    pytest.importorskip("tensorflow")
    held = store.Store(3)
    with pytest.raises(BufferError, match=r"Store.show\(\): argument 'like': .*read-only"):
        held.show(like="tensorflow")
    assert held.show_rw(like="tensorflow").numpy().tolist() == [0, 1, 2]


def test_empty(store):
    assert store.Store(0).show().tolist() == []


def test_checked(store):
    before = tenon.check(True)
    assert store.Store(3).show().tolist() == [0, 1, 2]
    tenon.check(before)


def test_many(store):
    before = store.stores()
    for _ in range(20000):
        shown = store.Store(2).show()
    assert store.stores() == before + 1
    del shown


def test_dropped_by_other_threads(store):
    held = store.Store(8)
    arrays = [held.show() for _ in range(200)]
    del held

    def work():
        while True:
            try:
                arrays.pop()
            except IndexError:
                return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_released_without_the_lock(store):
    """A consumer in C releases the last share while it has no interpreter lock: the object is destroyed a little later."""
    before = store.stores()
    capsule = store.Store(3).show(like="tenon").__dlpack__(max_version=(1, 0))
    gc.collect()
    name = b"used_dltensor_versioned"
    ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
    managed = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), name[5:])
    ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), name)
    deleter = ctypes.c_void_p.from_address(managed + 16).value  # after the version and manager_ctx
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(managed)  # ctypes releases the lock
    assert store.stores() == before


def test_the_interpreter_ends(store):
    code = """
    import sys, tenon, numpy
    store = tenon.load(sys.argv[1])
    held = store.Store(3)
    shown = [held.show(), held.show_rw()]
    shown.append(shown)
    print("done")
    """
    assert run_python(code, store.__file__) == "done\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_fork(store):
    code = """
    import os, sys, tenon, numpy
    store = tenon.load(sys.argv[1])
    held = store.Store(3)
    shown = held.show()
    pid = os.fork()
    held.close()
    assert shown.tolist() == [0, 1, 2]
    del shown
    assert store.stores() == 0
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    print("done")
    """
    assert run_python(code, store.__file__) == "done\n"


def test_no_memory_for_it(store):
    pytest.importorskip("_testcapi")
    code = """
    import sys, _testcapi, tenon, numpy
    store = tenon.load(sys.argv[1])
    held = store.Store(3)
    held.show()
    failed = 0
    for n in range(40):
        _testcapi.set_nomemory(n, n + 1)
        try:
            shown = held.show()
        except MemoryError:
            failed += 1
        finally:
            _testcapi.remove_mem_hooks()
        shown = None
    assert failed
    del held
    assert store.stores() == 0
    print("done")
    """
    assert run_python(code, store.__file__) == "done\n"


@pytest.mark.parametrize(
    "code",
    [
        "kept = store.Store(4)",
        "builtins.kept = store.Store(4)",
        "kept = [store.Store(4)]; kept.append(kept)",
        "kept = store.Store(4).show()",
        "builtins.kept = store.Store(4).show()",
        "kept = [store.Store(4).show()]; kept.append(kept)",
        "kept = store.Store(4); shown = kept.show(); kept.close()",
    ],
)
def test_a_subinterpreter_destroys_what_is_left_when_it_ends(code):
    run_python(
        """
        import sys
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        import tenon
        path, code = sys.argv[1:]
        store = tenon.load(path)
        one = interpreters.create()
        failure = interpreters.run_string(one, f'''
        import sys
        sys.path[:0] = {sys.path!r}
        import builtins, tenon
        store = tenon.load({path!r})
        {code}
        assert store.stores() == 1
        ''')
        assert not failure, failure
        assert store.stores() == 1
        interpreters.destroy(one)
        assert store.stores() == 0
        """,
        build("memory/store.c"),
        code,
    )
