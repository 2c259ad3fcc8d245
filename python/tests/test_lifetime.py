"""Who keeps the memory alive, through garbage collection, forks and the interpreter's end."""

import array
import gc
import os
import subprocess
import sys
import textwrap
import weakref

import pytest
import tenon_hostile as hostile
import tenon_probe as probe
from hostility import outstanding, producer

PROGRAM = os.path.join(os.path.dirname(probe.__file__), "tenon_embed")


def run(code, *, expect=0):
    """Run it in a process of its own, with the same modules. What it printed."""
    code = "import sys; sys.path[:0] = {!r}\n".format(sys.path) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == expect, done.stderr
    assert "Fatal" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    return done.stdout.strip()


# ------------------------------------------------------------------------------------------------- who holds whom


class Memory(bytearray):
    """A buffer that can be watched."""


def test_an_import_outlives_every_reference():
    memory = Memory(b"0123456789abcdef")
    watched = weakref.ref(memory)
    handle = probe.import_(memory)
    del memory
    gc.collect()
    assert watched() is not None
    ours = probe.export(handle)
    del handle
    view = memoryview(ours)
    del ours
    assert bytes(view) == b"0123456789abcdef"
    del view
    assert watched() is None


def test_a_capsules_struct_lives_as_long_as_any_array_on_it():
    before = outstanding()
    handle = probe.import_(producer(lambda self, **keywords: hostile.capsule()))
    views = [probe.export(handle, kind) for kind in (probe.TENSOR, probe.MEMORYVIEW, probe.CAPSULE,
                                                     probe.CAPSULE_LEGACY)]
    del handle
    while views:
        assert outstanding() == before + 1
        views.pop()
    assert outstanding() == before


def test_a_chain_of_imports_and_exports():
    released = probe.released()
    handle = probe.new("f32", (4,))
    for _ in range(100):
        handle = probe.import_(probe.export(handle, probe.MEMORYVIEW))
    assert probe.released() == released
    del handle
    gc.collect()
    assert probe.released() == released + 1


def test_weak_references_to_ours():
    ours = probe.export(probe.new("f32", (4,)))
    gone = []
    watched = weakref.ref(ours, gone.append)
    assert watched() is ours
    del ours
    assert watched() is None and gone == [watched]


# ----------------------------------------------------------------------------------------------------------- cycles


class Buffered(bytearray):
    pass


class Numbers(array.array):
    pass


class HostileBuffer(hostile.Buffer):
    pass


def cycle_through(memory):
    """memory.ours -> tenon.Tensor -> memory"""
    memory.ours = probe.export(probe.import_(memory))
    return weakref.ref(memory)


def cyclic():
    yield "bytearray", lambda: Buffered(16)
    yield "array", lambda: Numbers("d", [1.0, 2.0])
    yield "buffer", HostileBuffer
    interface = type("Interface", (), {"__array_interface__": property(lambda self: {
        "shape": (2,), "typestr": "=f4", "data": (4096, False)})})
    yield "interface", interface
    try:
        import numpy
    except ImportError:
        return
    array_type = type("Array", (numpy.ndarray,), {})
    yield "numpy", lambda: numpy.zeros(3).view(array_type)


@pytest.mark.parametrize("make", [make for _, make in cyclic()], ids=[name for name, _ in cyclic()])
def test_a_cycle_through_ours_is_collected(make):
    hostile.plan()
    before = outstanding()
    tensors = probe.stats()[0]
    gc.collect()
    watched = cycle_through(make())
    assert watched() is not None
    assert probe.stats()[0] == tensors + 1
    gc.collect()
    assert watched() is None
    assert probe.stats()[0] == tensors
    assert outstanding() == before


def test_a_cycle_that_somebody_in_c_holds_is_not_collected():
    memory = Buffered(b"0123456789abcdef")
    handle = probe.import_(memory)
    memory.ours = probe.export(handle)
    watched = weakref.ref(memory)
    del memory
    gc.collect()
    assert watched() is not None and watched().ours is not None
    assert bytes(watched().ours) == b"0123456789abcdef"
    del handle
    gc.collect()
    assert watched() is None


def test_a_cycle_that_was_cleared_can_still_be_looked_at():
    seen = []

    class Watcher:
        def __del__(self):
            seen.append(repr(self.memory.ours))

    memory = Buffered(16)
    memory.ours = probe.export(probe.import_(memory))
    memory.watcher = Watcher()
    memory.watcher.memory = memory
    del memory
    gc.collect()
    assert len(seen) == 1 and seen[0].startswith("<tenon.Tensor")


# ------------------------------------------------------------------------------------------------------------- fork


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_may_use_and_drop_what_its_parent_had():
    out = run("""
        import os, threading
        import tenon_probe as probe
        handle = probe.import_(bytearray(b"0123456789abcdef"))
        other = probe.import_(bytearray(16))
        ours = probe.export(handle)
        child = os.fork()
        if child == 0:
            assert bytes(ours) == b"0123456789abcdef"
            probe.release_elsewhere(other)
            del ours, handle
            probe.borrow(b"")
            assert probe.stats() == (0, 0, 0, 0, 0), probe.stats()
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert bytes(ours) == b"0123456789abcdef"
        probe.release_elsewhere(other)
        del ours, handle
        probe.borrow(b"")
        print(probe.stats())
    """)
    assert out == "(0, 0, 0, 0, 0)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_while_other_threads_release():
    out = run("""
        import os, threading
        import tenon_probe as probe
        stop = threading.Event()
        def work():
            while not stop.is_set():
                probe.release_elsewhere(probe.import_(bytearray(16)))
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(30):
            child = os.fork()
            if child == 0:
                probe.import_release(bytearray(8))
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        stop.set()
        for thread in threads:
            thread.join()
        probe.borrow(b"")
        print(probe.stats())
    """)
    assert out == "(0, 0, 0, 0, 0)"


# -------------------------------------------------------------------------------------------------------------- end


def test_released_by_the_process_after_the_interpreter():
    run("""
        import tenon_probe as probe
        probe.release_at_exit(probe.import_(bytearray(16)))
    """)


def test_released_by_functions_at_exit():
    out = run("""
        import atexit
        def early():  # registered before tenon is there, and so called after tenon's own
            assert bytes(ours) == b"0123456789abcdef"
            assert probe.borrow(ours)["shape"] == (16,)
            kept.clear()
            print(probe.stats()[0])
        atexit.register(early)
        import tenon_probe as probe
        ours = probe.export(probe.import_(bytearray(b"0123456789abcdef")))
        kept = [probe.import_(bytearray(16)) for _ in range(3)]
        atexit.register(lambda: probe.release_elsewhere(kept.pop()))
    """)
    assert out == "1"


def test_objects_that_die_with_the_interpreter():
    run("""
        import builtins
        import tenon_probe as probe
        class Memory(bytearray):
            def __del__(self):
                probe_borrow(self)
        probe_borrow = probe.borrow
        memory = Memory(16)
        memory.ours = probe.export(probe.import_(memory))
        builtins.kept = [memory.ours, probe.import_(Memory(16)), probe.export(probe.new("f32", (4,)), probe.CAPSULE)]
        sys.kept = probe.export(probe.import_(b"abc"), probe.MEMORYVIEW)
    """)


def test_a_daemon_thread_that_still_works():
    run("""
        import threading
        import tenon_probe as probe
        started = threading.Event()
        def work():
            while True:
                handle = probe.import_(bytearray(16))
                probe.release_elsewhere(handle)
                started.set()
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        started.wait()
    """)


@pytest.mark.skipif(not os.path.exists(PROGRAM), reason="tenon_embed was not built")
@pytest.mark.parametrize("scenario", ["after", "again", "during", "race"])
def test_in_an_embedded_interpreter(scenario):
    done = subprocess.run([PROGRAM, scenario], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONHOME": sys.base_prefix})
    assert (done.returncode, done.stderr) == (0, "")
