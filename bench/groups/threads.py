"""1, 2 and 4 threads that call at the same time: nanoseconds of wall-clock time for each call.

On six elements each contender runs its dot with default settings. On long vectors each releases the interpreter lock, in
the way that its documentation shows if it does not do so by default.
"""
import statistics
import sys
import threading
import time

from groups.arrays import make, pick

SHOWN = ("tenon", "limit", "C by hand", "nanobind", "pybind11", "tvm-ffi", "pyo3-dlpack", "dlpark", "Cython", "cffi",
         "ctypes")
PEERS = ("tenon", "c", "nanobind", "pybind11", "tvm_ffi", "pyo3_dlpack", "dlpark", "cython", "cffi", "ctypes")
RELEASED = "dot, lock released"  # if that is another function than "dot"
LONG = 1 << 22  # elements: enough work that releasing the lock pays


def rush(function, arguments, count, calls):
    """`count` threads, `calls` calls in all."""
    ready, go = threading.Barrier(count + 1), threading.Event()

    def work():
        ready.wait()
        go.wait()
        for _ in range(calls // count):
            function(*arguments)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.perf_counter()
    go.set()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - start) / (calls // count * count) * 1e9


def takes(function, arguments):
    try:
        function(*arguments)
        return True
    except TypeError:
        return False


def threads_group(session):
    contenders = [(name, operations) for name, operations in session.contenders(only=PEERS) if name in SHOWN]
    free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    producer = "numpy, free-threaded" if free else "numpy"
    rounds = 5 if session.plan.quick else 9
    calls = 10_000 if session.plan.quick else 100_000
    plans = (("borrow", "borrow", make("numpy", 1), calls),
             ("dot of 6", "dot", make("numpy", 2, (6,)), calls),
             ("dot of 4,194,304, lock released", RELEASED, make("numpy", 2, (LONG,)), 4))
    session.say(total=3 * len(plans))
    for title, key, arguments, count_of_calls in plans:
        rows = {name: function for name, operations in contenders
                if (function := pick(operations, key, "numpy") or key == RELEASED and pick(operations, "dot", "numpy"))
                and takes(function, arguments)}
        for count in (1, 2, 4):
            samples, names = {name: [] for name in rows}, list(rows)
            for turn in range(rounds):
                first = turn % max(1, len(names))
                for name in names[first:] + names[:first]:
                    samples[name].append(rush(rows[name], arguments, count, count_of_calls))
            for name, values in samples.items():
                session.row(f"{title}, {count} threads", producer, name, ns=min(values),
                            median=statistics.median(values),
                            spread=round(100 * (statistics.median(values) / min(values) - 1), 1))
            session.step(f"{title}, {count} threads")
