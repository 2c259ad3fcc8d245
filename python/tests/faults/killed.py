"""A shared tensor is handed over again and again, and one of the two processes is killed at each step of it.

    killed.py [STEP]        with faults.so preloaded

A step is a line of tenon._shared_multiprocessing, in any thread, or a system call of Tenon's own library. The other process must end,
with the elements, or with the error that says that its peer has ended; and it must hold no memory afterwards. With STEP only every
STEP-th step is the last one.
"""

import ctypes
import errno
import gc
import multiprocessing
import os
import select
import signal
import sys
import threading

sys.path.insert(0, os.environ["TENON_PACKAGE"]) if "TENON_PACKAGE" in os.environ else None
import tenon
from tenon import _shared_multiprocessing

SECONDS = 60
SYSTEM = 1
ELEMENTS = 5000
WENT_WELL, PEER_HAS_ENDED, HOLDS_MEMORY = 0, 7, 8


def die_at_line(n):
    """Kill this process in the n-th line; 0: never."""
    left = [n]
    file = _shared_multiprocessing.__file__

    def trace(frame, event, argument):
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    threading.settrace(trace)
    sys.settrace(trace)


def die_at_call(n):
    library = ctypes.CDLL(None)
    library.faults_arm.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int]
    assert library.faults_watch(b"/tenon/_native"), "Tenon's own library was not found"
    library.faults_arm(SYSTEM, n, -signal.SIGKILL)


def mappings():
    gc.collect()
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        return sum("memfd:tenon" in line for line in maps)


def send_message(connection, tensor):
    connection.send(tensor)


def send_name(connection, tensor):
    connection.send(tensor.shared_name)


def take_message(connection):
    return connection.recv()


def take_name(connection):
    return tenon.attach(connection.recv())


def sender(connection, send):
    tensor = tenon.shared_zeros(ELEMENTS, "u8")
    memoryview(tensor)[:3] = b"abc"
    send(connection, tensor)
    try:
        connection.recv()
    except (EOFError, ConnectionError):
        pass
    del tensor
    connection.close()
    end = select.poll()
    for _ in range(SECONDS * 10):  # what was sent to a process that is gone is released after a second
        if not _shared_multiprocessing._sender._waiting:
            break
        end.poll(100)
    return HOLDS_MEMORY if mappings() or _shared_multiprocessing._sender._waiting else WENT_WELL


def receiver(connection, take):
    try:
        tensor = take(connection)
        assert bytes(memoryview(tensor)[:4]) == b"abc\0" and tensor.shape == (ELEMENTS,)
        del tensor
        status = WENT_WELL
    except (EOFError, ConnectionError):
        status = PEER_HAS_ENDED  # before it had sent anything
    except FileNotFoundError as error:
        assert error.errno == errno.ENOENT and "has ended" in str(error), error
        status = PEER_HAS_ENDED
    return HOLDS_MEMORY if mappings() else status


def start(function, mine, others, hand_over, die):
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            others.close()
            signal.alarm(SECONDS)  # a process that hangs is killed by another signal
            die()
            status = function(mine, hand_over)
        except BaseException as error:
            print(f"{function.__name__}: {error!r}", flush=True)
        finally:
            os._exit(status)
    return pid


def exit_code(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def hand_over(send, take, killed, die):
    """The exit codes of the sender and the receiver."""
    mine, others = multiprocessing.Pipe()
    sent = start(sender, mine, others, send, die if killed == "sender" else int)
    received = start(receiver, others, mine, take, die if killed == "receiver" else int)
    mine.close()
    others.close()
    return exit_code(sent), exit_code(received)


def main():
    step, steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1, 0
    for send, take in (send_message, take_message), (send_name, take_name):
        for killed in "sender", "receiver":
            for die in die_at_line, die_at_call:
                n, codes = 1, (-signal.SIGKILL,) * 2
                while -signal.SIGKILL in codes:
                    codes = hand_over(send, take, killed, lambda die=die, n=n: die(n))
                    peer = codes[killed == "sender"]
                    where = f"{take.__name__}, the {killed} dies at {die.__name__}({n}): the exit codes are {codes}"
                    allowed = (WENT_WELL, PEER_HAS_ENDED) if killed == "sender" else (WENT_WELL,)
                    assert peer in allowed and codes[killed != "sender"] in (WENT_WELL, -signal.SIGKILL), where
                    n, steps = n + step, steps + 1
    print(f"{steps} steps: nothing was lost")


if __name__ == "__main__":
    main()
