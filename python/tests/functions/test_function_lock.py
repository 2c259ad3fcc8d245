"""Python's lock during a call, Ctrl-C, and many threads at once."""

import array
import mmap
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import pytest
from building import PACKAGE, build, run_python, tenon
from handmade import Echo
from waiting import together

LONG = 10**12  # turns that no test waits for
HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()


# ------------------------------------------------------------------------------------------------------------ the lock


def test_other_threads_go_on(kernels):
    """The function waits for an answer that only another thread of Python's can give."""
    flags = array.array("B", [0, 0])
    answers = queue.Queue()

    def answer():
        while not flags[0]:
            time.sleep(0.001)
        flags[1] = 1
        answers.put(True)

    thread = threading.Thread(target=answer)
    thread.start()
    assert kernels.handshake(flags, LONG) is True
    thread.join()
    assert answers.get_nowait()


@pytest.mark.skipif(not HAS_LOCK, reason="this Python has no lock to keep")
def test_other_threads_wait(kernels):
    """With the lock kept nobody answers, however long it takes."""
    flags = array.array("B", [0, 0])
    started = threading.Event()

    def answer():
        started.set()
        while not flags[0]:
            time.sleep(0)
        flags[1] = 1

    thread = threading.Thread(target=answer)
    thread.start()
    started.wait()
    assert kernels.handshake_locked(flags, 10**8) is False
    thread.join()
    assert flags[1] == 1


def test_by_size(kernels):
    """From some megabytes on it pays to let the lock go; the flags know better."""
    small, large = bytes(1000), bytes(64 << 20)
    assert (kernels.unlocked(small), kernels.unlocked(large)) == (False, True)
    assert (kernels.unlocked_never(large), kernels.unlocked_always(small)) == (False, True)


def test_a_handle_keeps_the_lock():
    """Calls on one handle do not overlap, whatever the size of their arrays, unless the function says so."""
    numpy = pytest.importorskip("numpy")
    large = numpy.zeros(64 << 20, "u1")
    for parameters, flags, unlocked in [("x: u8[n], h: handle('H')?", 0, False), ("x: u8[n]", 0, True),
                                        ("x: u8[n], h: handle('H')?", 1, True)]:
        echo = Echo(f"f({parameters}) -> handle('H')", flags=flags)
        handle = echo(large)
        assert echo.seen["unlocked"] is unlocked, (parameters, flags)
        if "handle" in parameters:
            echo(large, handle)
            assert echo.seen["unlocked"] is unlocked, (parameters, flags)


def test_size_counts_all_arrays_and_results():
    numpy = pytest.importorskip("numpy")
    echo = Echo("f(x: u8[_], y: u8[_]?) -> u8[1024, 1024, 64]")
    echo(numpy.zeros(1, "u1"))
    assert echo.seen["unlocked"] is True
    echo = Echo("f(x: u8[_], y: u8[_]?)")
    echo(numpy.zeros(1 << 20, "u1"), numpy.zeros(1, "u1"))
    assert echo.seen["unlocked"] is False
    echo(numpy.zeros(1, "u1"), numpy.zeros(64 << 20, "u1"))
    assert echo.seen["unlocked"] is True
    echo(numpy.broadcast_to(numpy.uint8(0), (1 << 40,)))
    assert echo.seen["unlocked"] is True


def test_host_without_the_lock():
    """Whatever the host does for a function works with the lock let go, failures too."""
    numpy = pytest.importorskip("numpy")
    echo = Echo("f(x: f32[n]) -> f32[?], str, handle('H'), int", flags=1)
    echo.leave_open(5)
    first, text, handle, number = echo(numpy.zeros(3, "float32"))
    assert echo.seen["unlocked"] and first.shape == (5,) and (text, number) == ("echo", 7) and handle
    echo.leave_open(5, 5)
    with pytest.raises(RuntimeError, match=r"f\(\): result 0: expected f32\[\?\]"):
        echo(numpy.zeros(3, "float32"))
    echo = Echo("f(x: f32[n]) -> f32[?]", flags=1)
    echo.leave_open(2**60)
    with pytest.raises((MemoryError, OverflowError)):
        echo(numpy.zeros(3, "float32"))


# -------------------------------------------------------------------------------------------------------------- Ctrl-C

INTERRUPTED = """
import mmap, sys
import tenon
kernels = tenon.load(sys.argv[1])
with open(sys.argv[2], "r+b") as file:
    flags = mmap.mmap(file.fileno(), 2)
try:
    getattr(kernels, sys.argv[3])(flags, int(sys.argv[4]))
except KeyboardInterrupt:
    print("interrupted")
else:
    print("went on")
kernels.count_up(2)
"""


@pytest.mark.parametrize("name", ["run", "run_locked"])
@pytest.mark.parametrize("status", [0, 13])
def test_interrupt(tmp_path, name, status):
    """A function that asks whether it is cancelled hears of Ctrl-C, with the lock or without, whatever it returns."""
    file = tmp_path / "flags"
    file.write_bytes(bytes(2))
    command = [sys.executable, "-c", INTERRUPTED, str(build("kernels.c")), str(file), name, str(status)]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 2, access=mmap.ACCESS_READ) as flags:
            while flags[0] == 0 and process.poll() is None:  # until the function runs
                time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (output, process.returncode) == ("interrupted\n", 0), errors


def test_signal_handler_that_raises():
    """What a handler raises is what the caller gets."""
    code = """
    import array, signal, sys, threading, time, os
    import tenon
    class Mine(Exception):
        pass
    def handler(number, frame):
        raise Mine("from a handler")
    signal.signal(signal.SIGUSR1, handler)
    kernels = tenon.load(sys.argv[1])
    flags = array.array("B", [0, 0])
    def kill():
        while not flags[0]:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)
    threading.Thread(target=kill).start()
    try:
        kernels.run(flags)
    except Mine as error:
        print(error)
    print(sys.getrefcount(flags) < 6)
    """
    assert run_python(code, build("kernels.c")) == "from a handler\nTrue\n"


# ------------------------------------------------------------------------------------------------------------- threads


def test_calls_at_once(kernels):
    numpy = pytest.importorskip("numpy")

    def work(number):
        x = numpy.full(100, number, "float32")
        for i in range(300):
            assert kernels.saxpy(i, x, x)[99] == number * (i + 1)
            named = kernels.moments(x)
            assert (named.mean, named.count) == (pytest.approx(number), 100)
            assert kernels.positive(x).shape == ((100,) if number else (0,))
            with pytest.raises(ValueError, match="dimension 0 is 99"):
                kernels.saxpy(i, x, x[:99])
            with pytest.raises(TypeError, match=r"takes 3 positional arguments"):
                kernels.saxpy(i, x, x, x)

    together(work)


def test_calls_at_once_without_the_lock():
    numpy = pytest.importorskip("numpy")
    echo = [Echo("f(x: f32[n], a: int) -> f32[?], str", flags=1) for _ in range(8)]

    def work(number):
        echo[number].leave_open(number)
        for _ in range(300):
            first, text = echo[number](numpy.zeros(number, "float32"), number)
            assert first.shape == (number,) and text == "echo" and echo[number].values()[1] == number

    together(work)


def test_handles_at_once(kernels):
    """One handle of all threads, and many of each."""
    shared, seen = kernels.counter_new(), [[] for _ in range(8)]
    alive = kernels.counts().alive

    def work(number):
        for i in range(300):
            seen[number].append(kernels.counter_next(shared))
            own = kernels.counter_new(i)
            assert kernels.counter_next(own) == i

    together(work)
    assert sorted(sum(seen, [])) == list(range(2400))
    assert kernels.counts().alive == alive


def test_loading_at_once():
    file = build("kernels.c")

    def work(number):
        for _ in range(20):
            loaded = tenon.load(file)
            assert loaded.counts().calls == 1 and loaded.counts().calls == 2

    together(work)


def test_torch_at_once(kernels):
    torch = pytest.importorskip("torch")

    def work(number):
        x = torch.full((50,), float(number))
        tracked = torch.ones(3, requires_grad=True)
        for i in range(200):
            assert float(kernels.saxpy(i, x, x)[0]) == number * (i + 1)
            with pytest.raises(RuntimeError, match="requires grad"):
                kernels.copy(tracked)

    together(work)


# ---------------------------------------------------------------------------------------------------- sub-interpreters

SUB = """
import os, sys, threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import tenon
library = sys.argv[1]
kernels = tenon.load(library)
code = f'''
import sys
sys.path[:0] = {sys.path!r}
import array, gc
import tenon
kernels = tenon.load({library!r})
x = array.array("f", [1, 2, 3])
for i in range(200):
    z = kernels.saxpy(i, x, x)
    assert type(z) is tenon.Tensor and memoryview(z).tolist() == [(i + 1) * n for n in (1, 2, 3)]
    assert kernels.moments(x).count == 3
    counter = kernels.counter_new(i)
    assert kernels.counter_next(counter) == i
    assert kernels.counts().calls == i + 1
    try:
        kernels.saxpy(1, x, "text")
    except TypeError as error:
        assert str(error) == "saxpy(): argument 'y': expected f32[n] c, got str", error
    else:
        assert False
again = tenon.load({library!r})
del kernels, counter, z
gc.collect()
assert again.counts().calls == 1, again.counts()
'''
failures = []

def work():
    interpreter = interpreters.create()
    try:
        failure = interpreters.run_string(interpreter, code)
        if failure:
            failures.append(failure.formatted)
    except BaseException as error:
        failures.append(repr(error))
    interpreters.destroy(interpreter)

for count in (1, 3):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
named = kernels.counts()
print(failures, named.alive, named.unloads, named.calls)
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sub-interpreters have their own lock from Python 3.12 on")
def test_subinterpreters():
    """Each has its own state of the library and its own types, and unloads what it loaded; the library's own static
    variables are one for the process, as in any shared library."""
    assert run_python(SUB, build("kernels.c")) == "[] 0 8 1\n"
