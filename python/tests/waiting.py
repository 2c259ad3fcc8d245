"""Wait for what other threads and processes do, however busy the machine is."""

import os
import threading
import time

LONG = 120  # seconds, after which something hangs


def together(work, count=8):
    """Run work(number) in that many threads at once. Raises what the first of them raised."""
    failures, barrier = [], threading.Barrier(count)

    def run(number):
        try:
            barrier.wait()
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def wait_until(condition, what="it does not happen"):
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.001)


def until_asleep(thread):
    """Wait until a thread of Python's waits in C code: it sleeps for a while in which the interpreter lock is free."""
    path, times = f"/proc/self/task/{thread.native_id}/stat", 0
    if not os.path.exists(path):
        time.sleep(0.2)
        return
    while times < 20:
        time.sleep(0.001)
        with open(path, encoding="ascii") as file:
            times = times + 1 if file.read().rpartition(")")[2].split()[0] == "S" else 0


def until_ended(process):
    """Wait until the process of this number has ended, even if no parent has asked for its status."""

    def has_ended():
        try:
            with open(f"/proc/{process}/stat", encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    wait_until(has_ended, f"process {process} still runs")
