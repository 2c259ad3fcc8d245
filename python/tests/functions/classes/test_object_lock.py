"""Calls on one object run one after the other, whatever threads do, and nothing waits without end."""

import ctypes
import os
import sys
import threading
import time
from functools import partial

import pytest
from building import build, refused, run_python
from waiting import until_asleep, wait_until

numpy = pytest.importorskip("numpy")

INSIDE = "this {} is in use by the call that this code was called from; use or close it after that call"


def floats(*values):
    return numpy.array(values, dtype="float32")


def at_once(*functions):
    """Run the functions in a thread each, at the same time: what they returned, or their exceptions."""
    results = [None] * len(functions)
    start = threading.Barrier(len(functions))

    def run(i):
        start.wait()
        try:
            results[i] = functions[i]()
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return results


def in_kernel(method, function):
    """Call the function from inside a kernel: what it returned, or its exception."""
    result = []

    @ctypes.CFUNCTYPE(None)
    def callback():
        try:
            result.append(function())
        except Exception as error:
            result.append(error)

    method(ctypes.cast(callback, ctypes.c_void_p).value)
    return result[0]


def started(function, *arguments):
    """A thread that calls the function, and the list in which its result will be, or its exception."""
    results = []

    def run():
        try:
            results.append(function(*arguments))
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


def waiting(boxes, box):
    """A thread that is in a call on the object until boxes.end_waits()."""
    count = boxes.waits()
    thread = threading.Thread(target=box.wait)
    thread.start()
    wait_until(lambda: boxes.waits() > count)
    return thread


# -------------------------------------------------------------------------------------------------- one after the other


def test_calls_do_not_overlap(boxes):
    box = boxes.Box(floats(1, 2))
    assert at_once(*[lambda: box.work(5000)] * 16) == [1] * 16
    assert box.calls() == 17


def test_many_short_calls(boxes):
    box = boxes.Box(floats(1, 2))
    x = floats(1, 1)

    def calls():
        return sum(box.dot(x) for _ in range(500)) + box.work(1) - 1

    assert at_once(*[calls] * 16) == [1500] * 16
    assert box.calls() == 16 * 501 + 1


def test_calls_with_and_without_the_interpreter_lock(boxes):
    """Calls that keep the lock enter and leave an object without its guard, but not while others may use that."""
    box, x = boxes.Box(floats(1, 2)), floats(1, 1)
    nothing, count = ctypes.cast(ctypes.CDLL(None).getppid, ctypes.c_void_p).value, 300_000
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        at_once(*[lambda: [box.call_unlocked(nothing) for _ in range(count)]] * 2, lambda: [box.dot(x) for _ in range(count)])
    finally:
        sys.setswitchinterval(interval)
    assert box.calls() == 3 * count + 1


def test_two_objects_in_opposite_order(boxes):
    a, b = boxes.Box(floats(1)), boxes.Box(floats(2))

    def calls(first, second):
        return max(boxes.work_both(first, second, 20) for _ in range(200))

    assert at_once(lambda: calls(a, b), lambda: calls(b, a), lambda: calls(a, a), lambda: calls(b, b)) == [1] * 4


def test_one_object_twice(boxes):
    box = boxes.Box(floats(1))
    assert boxes.work_both(box, box, 1) == 1
    assert list(boxes.join(box, box, box, box)) == [1, 1, 1, 1]


def test_other_threads_go_on_while_one_waits(boxes):
    box = boxes.Box(floats(1))
    first, second = waiting(boxes, box), threading.Thread(target=box.work, args=(1,))
    second.start()
    for _ in range(100):
        time.sleep(0.001)
        assert second.is_alive()
    boxes.end_waits()
    first.join()
    second.join()


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="needs an interpreter lock")
def test_a_waiter_enters_without_the_interpreter_lock(boxes):
    """A waiter that needed that lock first would come after every call of the thread that has it."""
    # A busy machine lets the waiter run later. Every 50 ms it needs the lock, to look at signals, and does not enter then.
    for microseconds in [60_000] * 40 + [600_000] * 10 + [6_000_000] * 3:
        box = boxes.Box(floats(1))
        first, (second, results) = waiting(boxes, box), started(box.work, 1)
        until_asleep(second)
        # No other thread gets the interpreter lock between the two. The call that was running ends in the first one.
        _, calls = map(partial.__call__, [partial(boxes.end_waits_locked, microseconds), partial(box.calls)])
        first.join()
        second.join()
        assert results == [1]
        if calls == 3:
            return
    raise AssertionError("the thread that waited was last each time")


@pytest.mark.parametrize("name", ["x", "out"])
def test_an_argument_changed_while_waiting(boxes, name):
    box = boxes.Box(floats(1, 2, 3))
    given = {"x": floats(1, 2, 3), "out": floats(1, 2, 3)}
    first, (second, results) = waiting(boxes, box), started(lambda: box.scaled(**given))
    until_asleep(second)
    given[name].resize(1, refcheck=False)
    boxes.end_waits()
    second.join()
    first.join()
    assert isinstance(results[0], RuntimeError) and f"argument '{name}': its memory" in str(results[0])


def test_concurrent_class(boxes):
    box = boxes.Free(floats(1))
    threads = [waiting(boxes, box), waiting(boxes, box)]
    boxes.end_waits()
    for thread in threads:
        thread.join()


# -------------------------------------------------------------------------------------------------------------- closing


@pytest.mark.parametrize("kind", ["Box", "Free"])
def test_close_waits(boxes, kind):
    before = boxes.counts().destroyed
    box = getattr(boxes, kind)(floats(1))
    first, closing = waiting(boxes, box), threading.Thread(target=box.close)
    closing.start()
    until_asleep(closing)
    assert closing.is_alive() and not box.closed and boxes.counts().destroyed == before
    boxes.end_waits()
    closing.join()
    assert box.closed and boxes.counts().destroyed == before + 1
    assert box.close() is None
    first.join()


def test_closed_while_others_wait(boxes):
    box = boxes.Box(floats(1))
    first, others = waiting(boxes, box), [started(box.close), *[started(box.work, 1) for _ in range(8)], started(box.close)]
    for thread, _ in others:
        until_asleep(thread)
    boxes.end_waits()
    for thread in (first, *(thread for thread, _ in others)):
        thread.join()
    results = [result for _, (result,) in others]
    assert results[0] is None and results[-1] is None and box.closed
    for result in results[1:-1]:
        assert result == 1 or (type(result) is ValueError and str(result) == "Box.work(): this Box is closed")


@pytest.mark.parametrize("kind", ["Box", "Free"])
def test_a_call_while_close_waits(boxes, kind):
    """It is refused once the object is closed, not before."""
    box = getattr(boxes, kind)(floats(1))
    first, (closing, _) = waiting(boxes, box), started(box.close)
    until_asleep(closing)
    second, results = started(box.work, 1)
    until_asleep(second)
    assert not box.closed and first.is_alive() and not results
    boxes.end_waits()
    for thread in (first, closing, second):
        thread.join()
    assert box.closed and repr(box) == f"<closed boxes.{kind}>"
    assert type(results[0]) is ValueError and str(results[0]) == f"{kind}.work(): this {kind} is closed"


def test_inside_a_concurrent_kernel_while_close_waits(boxes):
    box = boxes.Free(floats(1))
    closing = threading.Thread(target=box.close)

    def use():
        closing.start()
        until_asleep(closing)
        return box.sum()

    assert in_kernel(box.call, use) == 1
    closing.join(60)
    assert box.closed


def test_closed_from_16_threads(boxes):
    before = boxes.counts().destroyed
    for _ in range(100):
        box = boxes.Box(floats(1))
        assert at_once(*[box.close] * 16) == [None] * 16
    assert boxes.counts().destroyed == before + 100


def test_dropped_by_a_thread_while_others_call(boxes):
    before = boxes.counts().destroyed
    held = [boxes.Box(floats(1))]
    work, drop = held[0].work, held.clear
    assert at_once(lambda: work(10_000), drop) == [1, None]
    del work
    assert boxes.counts().destroyed == before + 1


# ---------------------------------------------------------------------------------------------------------- inside a call


@pytest.mark.parametrize("name", ["call", "call_unlocked"])
def test_inside_its_own_kernel(boxes, name):
    box = boxes.Box(floats(1))
    call = getattr(box, name)
    for function, use in [
        ("Box.dot", lambda: box.dot(floats(1))),
        ("Box.__len__", lambda: len(box)),
        ("Box.close", box.close),
        ("sum_of", lambda: boxes.sum_of(box)),
    ]:
        error = in_kernel(call, use)
        argument = "argument 'box': " if function == "sum_of" else ""
        assert type(error) is RuntimeError and str(error) == f"{function}(): {argument}{INSIDE.format('Box')}"
    assert not box.closed and box.dot(floats(1)) == 1


def test_other_objects_inside_a_kernel(boxes):
    box, other = boxes.Box(floats(1)), boxes.Box(floats(2))
    assert in_kernel(box.call, lambda: other.dot(floats(1))) == 2
    assert in_kernel(box.call, other.close) is None and other.closed
    assert in_kernel(box.call, lambda: box.closed) is False


def test_inside_a_concurrent_kernel(boxes):
    box = boxes.Free(floats(1))
    assert in_kernel(box.call, box.sum) == 1
    error = in_kernel(box.call, box.close)
    assert type(error) is RuntimeError and str(error) == f"Free.close(): {INSIDE.format('Free')}"
    assert box.close() is None


def test_dropped_inside_its_own_kernel(boxes):
    before = boxes.counts().destroyed
    held = [boxes.Box(floats(1))]
    assert in_kernel(held[0].call, held.clear) is None
    assert boxes.counts().destroyed == before + 1


def test_failing_calls_leave_the_object(boxes):
    box = boxes.Box(floats(1))
    refused(lambda: box[7], IndexError, "Box.__getitem__(): there is no item 7")
    assert at_once(lambda: box[0]) == [1]


# ------------------------------------------------------------------------------------------------- signals, forks, exits


def test_an_interrupt_ends_the_wait():
    run_python(
        """
        import os, signal, sys, threading, time
        import numpy, tenon
        boxes = tenon.load(sys.argv[1])
        box = boxes.Box(numpy.ones(1, "float32"))
        thread = threading.Thread(target=box.wait)
        thread.start()
        while not boxes.waits():
            time.sleep(0.001)
        for wait in (lambda: box.work(1), box.close):
            try:
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
                wait()
            except KeyboardInterrupt:
                assert thread.is_alive()
            else:
                raise SystemExit("no interrupt")
        assert not box.closed
        boxes.end_waits()
        thread.join()
        assert box.work(1) == 1
        box.close()
        """,
        build("classes/boxes.c"),
    )


@pytest.mark.parametrize("kind", ["Box", "Free"])
def test_an_interrupted_close_refuses_no_call(kind):
    run_python(
        """
        import os, signal, sys, threading, time
        import numpy, tenon
        boxes = tenon.load(sys.argv[1])
        box = getattr(boxes, sys.argv[2])(numpy.ones(1, "float32"))
        results = []
        def call():
            try:
                results.append(box.work(1) > 0)
            except ValueError as error:
                results.append(error)
        threads = [threading.Thread(target=box.wait), threading.Thread(target=call), threading.Timer(0.1, call)]
        threads[0].start()
        while not boxes.waits():
            time.sleep(0.001)
        try:
            for thread in threads[1:]:
                thread.start()
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            box.close()
        except KeyboardInterrupt:
            assert threads[0].is_alive() and not box.closed
        else:
            raise SystemExit("no interrupt")
        boxes.end_waits()
        for thread in threads:
            thread.join()
        assert results == [True, True], results
        assert box.work(1) and not box.closed
        box.close()
        """,
        build("classes/boxes.c"),
        kind,
    )


def test_a_signal_handler_while_close_waits():
    """Its call on the object waits for the running call, but not for the `close` that it interrupts."""
    run_python(
        """
        import os, signal, sys, threading, time
        import numpy, tenon
        boxes = tenon.load(sys.argv[1])
        box = boxes.Box(numpy.ones(1, "float32"))
        results = []
        def handle(*_):
            threading.Timer(0.1, boxes.end_waits).start()
            results.append(box.work(1))
        signal.signal(signal.SIGINT, handle)
        thread = threading.Thread(target=box.wait)
        thread.start()
        while not boxes.waits():
            time.sleep(0.001)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        box.close()
        assert results == [1] and box.closed
        thread.join()
        """,
        build("classes/boxes.c"),
        timeout=60,
    )


FORK = """
import os, sys, threading, time, warnings
import numpy, tenon
warnings.simplefilter("ignore")
boxes = tenon.load(sys.argv[1])
def fork():
    pid = os.fork()
    if pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return pid
def refused(function, message):
    try:
        function()
    except RuntimeError as error:
        assert str(error).endswith(message), error
    else:
        raise SystemExit("not refused")
"""


@pytest.mark.skipif(not hasattr(os, "waitstatus_to_exitcode"), reason="Python 3.9 and later")
@pytest.mark.parametrize("kind", ["Box", "Free"])
def test_fork_while_another_thread_calls(kind):
    run_python(
        FORK
        + """
box, free = getattr(boxes, sys.argv[2])(numpy.ones(1, "float32")), boxes.Box(numpy.ones(1, "float32"))
thread = threading.Thread(target=box.wait)
thread.start()
while not boxes.waits():
    time.sleep(0.001)
if not fork():
    refused(lambda: box.work(1), "was in use by another thread when the process forked; make a new one in this process")
    assert not box.closed
    box.close()
    assert box.closed and boxes.counts().destroyed == 0  # nobody knows what the thread has left
    assert free.work(1) == 1
    free.close()
    assert boxes.counts().destroyed == 1
    sys.exit(0)
boxes.end_waits()
thread.join()
assert box.work(1) >= 1
box.close()
""",
        build("classes/boxes.c"),
        kind,
    )


@pytest.mark.skipif(not hasattr(os, "waitstatus_to_exitcode"), reason="Python 3.9 and later")
def test_fork_inside_a_kernel():
    run_python(
        FORK
        + """
import ctypes
box = boxes.Box(numpy.ones(1, "float32"))
child = []
@ctypes.CFUNCTYPE(None)
def callback():
    child.append(not fork())
    refused(lambda: box.work(1), "use or close it after that call")
    refused(box.close, "use or close it after that call")
box.call(ctypes.cast(callback, ctypes.c_void_p).value)
assert box.work(1) == 1
box.close()
assert boxes.counts().destroyed == 1
""",
        build("classes/boxes.c"),
    )


@pytest.mark.parametrize("where", ["in a call", "waiting"])
def test_exit_while_daemon_threads_call(where):
    """A thread that ends with the interpreter never leaves its object; what runs at exit must not wait for it."""
    run_python(
        """
        import sys, threading, time
        import numpy, tenon
        boxes = tenon.load(sys.argv[1])
        box = boxes.Box(numpy.ones(1, "float32"))
        count = 1 if sys.argv[2] == "in a call" else 4
        def work():
            while True:
                box.work(20_000)
        for _ in range(count):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1)
        class AtExit:
            def __init__(self):
                self.box = box
            def __del__(self):
                try:
                    self.box.close()
                except (RuntimeError, ValueError):
                    pass
        sys.keep = AtExit()
        """,
        build("classes/boxes.c"),
        where,
        timeout=60,
    )


# Without named results, whose types Python code makes: for that, CPython 3.11 may fail without an exception.
PLAIN = """
#include <tenon/function.h>
static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
TENON_MODULE(plain, "Plain.", TENON_CLASS("A", "One."), TENON_FUNCTION("A(x: int = 1)", none, "Makes one."),
    TENON_FUNCTION("A.f(self, other: handle('A')?) -> f32[2]", none, "Does nothing."),
    TENON_FUNCTION("A.__len__(self) -> int", none, NULL),
    TENON_FUNCTION("g(a: handle('A')) -> handle('B')", none, NULL), TENON_CLASS("B", NULL))
"""


def test_every_allocation_may_fail():
    """Each allocation of Python's in turn fails: an exception, and nothing is lost or destroyed twice."""
    pytest.importorskip("_testcapi")
    run_python(
        """
        import _testcapi, gc, sys
        import numpy, tenon
        x = numpy.ones(3, "float32")
        path = sys.argv[1]
        counts = tenon.load(path).counts

        def load():
            tenon.load(sys.argv[2]).A

        module = tenon.load(path)

        def make():
            with module.Box(x, scale=2) as box:
                box.dot(x)

        kept = module.Box(x)

        def use():
            kept.dot(x)
            kept.mix(b=1.5)
            kept.nearest(x)
            module.sum_of(kept)
            module.join(kept, kept, kept, kept).close()
            repr(kept), len(kept), kept[1], list(kept), kept.dot

        def refuse():
            for wrong, *arguments in (kept.dot, 5), (module.Box.dot, 5, x), (module.Bare,), (kept.__getitem__, 9):
                try:
                    wrong(*arguments)
                except (TypeError, IndexError):
                    pass

        # From 3.13 on, CPython's dicts read NULL when a type's own dict cannot grow.
        can_load = sys.version_info < (3, 13)
        for function in (make, use, refuse, *[load] * can_load):
            function()
            misses = 0
            for n in range(3000):
                _testcapi.set_nomemory(n, n + 1)
                try:
                    function()
                except MemoryError:
                    misses += 1
                except (ImportError, SystemError) as error:
                    raise SystemExit(f"{function.__name__}, allocation {n}: {error!r}")
                finally:
                    _testcapi.remove_mem_hooks()
            print(function.__name__, misses)
            assert misses > 0
        del module, kept
        gc.collect()
        made, destroyed = counts()
        assert made == destroyed, (made, destroyed)
        """,
        build("classes/boxes.c"),
        build(PLAIN),
    )
