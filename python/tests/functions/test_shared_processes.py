"""Shared tensors between processes: multiprocessing, concurrent.futures, and processes that die."""

import concurrent.futures
import contextlib
import ctypes
import errno
import gc
import multiprocessing
import os
import signal
import socket
import sys
import subprocess
import tempfile
import time
from multiprocessing.connection import Listener
from multiprocessing.reduction import ForkingPickler

import numpy
import pytest
import shared_workers as workers
from building import tenon

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="shared tensors need Linux"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:os.fork.. was called"),
]
METHODS = ["spawn", "fork", "forkserver"]
SECONDS = 60


@pytest.fixture(params=METHODS)
def context(request):
    return multiprocessing.get_context(request.param)


def mappings():
    gc.collect()
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        return sum("memfd:tenon" in line for line in maps)


@pytest.fixture(autouse=True)
def nothing_left_anywhere():
    def files():
        return {name for folder in ("/dev/shm", tempfile.gettempdir()) for name in os.listdir(folder) if "tenon-shared" in name}

    before = mappings(), files()
    yield
    for process in multiprocessing.active_children():  # of a test that failed; one may be stopped
        process.kill()
        process.join()
    wait_until(lambda: (mappings(), files()) == before)  # a thread unmaps large memory


def started(context, function, *arguments):
    process = context.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def end(process):
    process.join(SECONDS)
    assert process.exitcode is not None, "it hangs"
    return process.exitcode


def test_as_an_argument(context):
    tensor = workers.create(4)
    process = started(context, workers.add_to_all, tensor, 10)
    assert end(process) == 0
    assert workers.values(tensor) == [10, 11, 12, 13]


def test_many_arguments(context):
    """The server of forkserver passes 256 descriptors at most."""
    tensors = [workers.create(2) for _ in range(300)]
    process = started(context, workers.add_to_each, *tensors)
    assert end(process) == 0
    assert [workers.values(tensor) for tensor in tensors] == [[1, 2]] * 300
    wait_until(lambda: descriptors() == 300)


def test_through_queues(context):
    forth, back = context.Queue(), context.Queue()
    process = started(context, workers.echo, forth, back)
    whole = workers.create(6)
    for tensor, expected in ((whole, [1, 2, 3, 4, 5, 6]), (whole[2:4], [1, 2, 4, 5, 5, 6]), (whole[::3], [2, 2, 4, 6, 5, 6])):
        forth.put(tensor)
        again = back.get(timeout=SECONDS)
        assert workers.values(whole) == expected and workers.values(again) == workers.values(tensor)
        assert again.strides == tensor.strides and (again.shared_name is None) == (tensor.shared_name is None)
        numpy.asarray(again)[0] += 100
        assert workers.values(tensor)[0] == workers.values(again)[0] >= 100
        numpy.asarray(again)[0] -= 100
    private = tenon.from_dlpack(numpy.ones(3, "f4"))
    forth.put(private)
    again = back.get(timeout=SECONDS)
    assert workers.values(again) == [2, 2, 2] and workers.values(private) == [1, 1, 1]
    forth.put(None)
    assert end(process) == 0


def test_pool(context):
    whole = workers.create(4)
    with context.Pool(2) as pool:
        assert pool.map(workers.describe, [whole, whole[1:3]]) == [
            ((4,), "float32", False, [0, 1, 2, 3], True),
            ((2,), "float32", False, [1, 2], False),
        ]
        assert pool.apply(workers.describe, (tenon.share(numpy.ones(2, "f4")),)) == ((2,), "float32", True, [1, 1], True)
        again = pool.apply(workers.give_back, (whole,))
        numpy.asarray(again)[0] = 50
        assert workers.values(whole) == [50, 1, 2, 3]
        created = pool.starmap(workers.create, [(3, start) for start in range(20)])
        assert [workers.values(tensor)[0] for tensor in created] == list(range(20))


def test_workers_that_end_after_one_task():
    """The descriptor of a result is fetched although its process has nothing left to do."""
    with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
        created = pool.map(workers.create, [3] * 6, chunksize=1)
    assert [workers.values(tensor) for tensor in created] == [[0, 1, 2]] * 6


def test_executor(context):
    whole = workers.create(4)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(workers.add_to_all, whole, 1).result(SECONDS) == [1, 2, 3, 4]
        assert workers.values(whole) == [1, 2, 3, 4]
        created = pool.submit(workers.create, 3).result(SECONDS)
    assert workers.values(created) == [0, 1, 2]


def test_torch_moves_its_own_tensors():
    """torch.multiprocessing passes a tenon.Tensor by reference, and moves a torch tensor to memory of its own."""
    torch = pytest.importorskip("torch")
    import torch.multiprocessing

    whole = workers.create(4)
    array, queue = torch.from_dlpack(whole), torch.multiprocessing.get_context("spawn").SimpleQueue()
    assert array.data_ptr() == whole.data_ptr
    queue.put(whole)
    received = torch.from_dlpack(queue.get())
    received[0] = 9
    assert workers.values(whole) == [9, 1, 2, 3] and array.data_ptr() == whole.data_ptr
    queue.put(array)
    assert array.data_ptr() != whole.data_ptr
    queue.get()


def test_a_tensor_that_waits_often_has_one_descriptor():
    here, there = multiprocessing.get_context("spawn").Pipe()
    tensor, other = workers.create(3), workers.create(3)
    reader = os.open(f"/proc/self/fd/{tensor.shared_fd}", os.O_RDONLY)
    read_only = tenon.attach(reader)
    os.close(reader)
    here.send(tensor)
    there.recv()
    wait_until(lambda: descriptors() == 3)
    sent = [tensor] * 20 + [tensor[1:]] * 20 + [other] * 20 + [read_only] * 20
    for each in sent:
        here.send(each)
    assert descriptors() == 6
    received = [there.recv() for _ in sent]
    assert [workers.values(each) for each in received] == [workers.values(each) for each in sent]
    assert [each.readonly for each in received] == [each.readonly for each in sent]
    del received
    wait_until(lambda: descriptors() == 3)


def descriptors():
    """The number of descriptors of shared tensors in this process."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the folder itself, or one that another thread has closed
            found += "memfd:tenon" in os.readlink(f"/proc/self/fd/{name}")
    return found


class Unpicklable:
    def __reduce__(self):
        raise TypeError("not this one")


def refuse():
    raise SystemExit(1)


class Unreceivable:
    def __reduce__(self):
        return refuse, ()


class Nested:
    """An object whose pickle contains another pickle."""

    def __init__(self, content):
        self.content = content

    def __reduce__(self):
        return ForkingPickler.loads, (bytes(ForkingPickler.dumps(self.content)),)


def test_a_message_that_cannot_be_pickled_holds_nothing():
    here, there = multiprocessing.get_context("spawn").Pipe()
    queue = multiprocessing.get_context("spawn").Queue()
    tensor, other = workers.create(3), workers.create(2)
    here.send(other)
    for _ in range(10):
        with pytest.raises(TypeError, match="not this one"):
            here.send([tensor, tensor[1:], other, Nested(tensor), Unpicklable()])
        queue.put([tensor, Unpicklable()])  # its thread prints the exception
    queue.close()
    queue.join_thread()
    assert descriptors() == 3
    del tensor
    assert descriptors() == 2
    assert workers.values(there.recv()) == [0, 1]
    here.send([Nested(other), other])
    assert [workers.values(each) for each in there.recv()] == [[0, 1], [0, 1]]
    wait_until(lambda: descriptors() == 1)


def test_a_name_that_waits_holds_nothing():
    here, there = multiprocessing.get_context("spawn").Pipe()
    tensor = workers.create(3)
    here.send(tensor.shared_name)
    del tensor
    assert mappings() == 0
    with pytest.raises(FileNotFoundError):
        tenon.attach(there.recv())


def wait_until(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


# ------------------------------------------------------------------------------------------ messages nobody receives


@pytest.fixture
def checks(monkeypatch):
    """The sender looks often whether destinations are gone; returns a function that waits until it has looked."""
    from tenon import _shared_multiprocessing

    done = []
    release_lost = _shared_multiprocessing._Sender._release_lost

    def counting(self):
        release_lost(self)
        done.append(None)

    monkeypatch.setattr(_shared_multiprocessing._Sender, "_SECONDS_BETWEEN_CHECKS", 0.05)
    monkeypatch.setattr(_shared_multiprocessing._Sender, "_release_lost", counting)

    def wait():
        before = len(done)
        wait_until(lambda: len(done) >= before + 2)

    return wait


def held():
    """The bytes of the shared memory of which this process has a descriptor."""
    files = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            if "memfd:tenon" in os.readlink(f"/proc/self/fd/{name}"):
                file = os.stat(f"/proc/self/fd/{name}")
                files[file.st_ino] = 512 * file.st_blocks
    return sum(files.values())


def test_a_pool_that_is_left_early(context, checks):
    before = held()
    for _ in range(2):
        tensors = (tenon.share(numpy.full(1 << 18, i, "f4")) for i in range(40))
        with context.Pool(2) as pool:
            for shape in pool.imap_unordered(workers.return_if_first, tensors):
                assert shape == (1 << 18,)
                wait_until(lambda: held() > before + (30 << 20))
                break
        wait_until(lambda: held() <= before)  # the pool object exists, and has both ends of its pipe
    assert not pool._inqueue._reader.closed


def test_a_pool_of_threads():
    from multiprocessing.pool import ThreadPool

    with ThreadPool(1) as pool:  # it has no pipe
        assert pool.map(workers.values, [workers.create(3)]) == [[0, 1, 2]]


def test_a_broken_executor(context, checks):
    before = held()
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        tasks = [pool.submit(workers.die_with, tenon.share(numpy.ones(1 << 18, "f4"))) for _ in range(3)]
        with pytest.raises(concurrent.futures.process.BrokenProcessPool):
            tasks[0].result(SECONDS)
    del pool, tasks
    gc.collect()
    wait_until(lambda: held() <= before)


def test_a_queue_that_is_gone(context, checks):
    from tenon import _shared_multiprocessing

    for kind in (context.Queue, context.SimpleQueue, context.JoinableQueue):
        before = held()
        queue = kind()
        queue.put(workers.create(1 << 10))
        wait_until(lambda: _shared_multiprocessing._sender._waiting and not _shared_multiprocessing._sender.undirected)
        checks()
        assert held() > before  # it could still be received
        del queue
        gc.collect()
        wait_until(lambda: held() <= before)


@pytest.mark.parametrize("duplex", [True, False])
def test_a_pipe_that_is_gone(context, duplex, checks):
    before = held()
    there, here = context.Pipe(duplex)
    here.send(workers.create(1 << 10))
    here.close()
    checks()
    assert held() > before
    there.close()
    wait_until(lambda: held() <= before)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_process_that_ends_before_it_has_its_arguments(method, checks):
    before = held()
    process = started(multiprocessing.get_context(method), print, Unreceivable(), workers.create(1 << 10))
    assert end(process) == 1
    wait_until(lambda: held() <= before)


@pytest.mark.parametrize("duplex", [True, False])
def test_a_receiver_that_is_killed(context, duplex, checks):
    before = held()
    there, here = context.Pipe(duplex)
    process = started(context, workers.hold_connection, there)
    there.close()
    here.send(workers.create(1 << 10))
    checks()
    assert held() > before
    process.kill()
    assert end(process) == -signal.SIGKILL
    wait_until(lambda: held() <= before)


@pytest.mark.parametrize("duplex", [True, False])
def test_a_message_that_waits_does_not_hide_the_end_of_the_file(duplex, checks):
    there, here = multiprocessing.get_context("spawn").Pipe(duplex)
    here.send(workers.create(3))
    here.close()
    checks()
    message = there.recv_bytes()
    with pytest.raises(EOFError):
        there.recv_bytes()
    assert workers.values(ForkingPickler.loads(message)) == [0, 1, 2]


def test_release_sent():
    tenon.release_sent()
    here, there = multiprocessing.get_context("spawn").Pipe()
    before = held()
    tensor = workers.create(3)
    for sent in (tensor, tensor[1:], workers.create(1 << 18)):
        here.send(sent)
    del sent, tensor
    assert held() > before + (1 << 20)
    assert tenon.release_sent() == 3 and held() == before
    assert tenon.release_sent() == 0
    with pytest.raises(FileNotFoundError, match="its sender has released it"):
        there.recv()


# ------------------------------------------------------------------------------------------------- processes that end


def test_a_worker_that_ends_at_once(context):
    """It waits until its tensor has been received."""
    for _ in range(5 if context.get_start_method() == "fork" else 1):
        queue = context.Queue()
        process = started(context, workers.put_and_wait, queue, 4)
        assert workers.values(queue.get(timeout=SECONDS)) == [0, 1, 2, 3]
        assert end(process) == 0


def test_a_worker_that_ends_while_its_tensor_is_sent():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = started(context, workers.put_and_end_slowly, queue, 4)
    assert workers.values(queue.get(timeout=SECONDS)) == [0, 1, 2, 3]
    assert end(process) == 0


def test_a_worker_that_ends_before_its_tensor_is_received():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = started(context, workers.put_and_die, queue, 4)
    assert end(process) == 0
    with pytest.raises(FileNotFoundError, match="the process that sent this shared tensor has ended"):
        queue.get(timeout=SECONDS)


def test_nobody_receives(monkeypatch):
    """The worker does not wait forever."""
    from tenon import _shared_multiprocessing

    monkeypatch.setattr(_shared_multiprocessing._Sender, "_SECONDS", 0.1)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = started(context, workers.put_and_end, queue, 4)
    assert end(process) == 0
    with pytest.raises(FileNotFoundError):
        queue.get(timeout=SECONDS)


def put_and_fork(queue, connection, fork):
    queue.put(workers.create(4))
    queue.close()
    queue.join_thread()
    child = fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    connection.send(child)
    signal.pause()


@pytest.mark.parametrize("fork", [os.fork, ctypes.CDLL(None).fork], ids=["Python", "C"])
@pytest.mark.parametrize("reaped", [True, False])
def test_a_worker_is_killed_but_its_child_lives(fork, reaped):
    """The child has nothing to give, so nobody may wait for it; one that C forked has the socket of the worker."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    here, there = context.Pipe()
    process = started(context, put_and_fork, queue, there, fork)
    child = here.recv()
    os.kill(process.pid, signal.SIGKILL)
    if reaped:
        process.join()  # with a time limit it would wait for the child too
    receiver = started(context, workers.expect_nothing, queue)
    try:
        assert end(receiver) == 0
    finally:
        os.kill(child, signal.SIGKILL)
        process.join()


def test_programs_that_did_not_start_each_other(tmp_path):
    """They agree on an authkey for their connection; the authkeys of multiprocessing itself differ."""
    script, address = tmp_path / "program.py", str(tmp_path / "socket")
    script.write_text(
        "import sys, tenon, numpy\n"
        "from multiprocessing.connection import Client\n"
        "with Client(sys.argv[1], authkey=b'secret') as connection:\n"
        "    array = numpy.asarray(connection.recv())\n"
        "    array += 1\n"
        "    connection.send(tenon.share(array[1:]))\n"
        "    connection.recv()\n"
    )
    tensor = workers.create(3)
    with Listener(address, authkey=b"secret") as listener:
        program = subprocess.Popen([sys.executable, script, address], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        with listener.accept() as connection:
            connection.send(tensor)
            assert workers.values(connection.recv()) == [2, 3]
            connection.send("end")
    assert program.wait(SECONDS) == 0
    assert workers.values(tensor) == [1, 2, 3]


def test_a_message_is_received_once():
    tensor = workers.create(3)
    message = ForkingPickler.dumps(tensor)
    assert workers.values(ForkingPickler.loads(message)) == [0, 1, 2]
    with pytest.raises(FileNotFoundError, match="received already"):
        ForkingPickler.loads(message)


def receive_without_descriptors(message):
    import resource

    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, free + 1))  # one is left, for the connection
    with pytest.raises(OSError) as caught:
        ForkingPickler.loads(message)
    assert caught.value.errno == errno.EMFILE


def test_no_descriptor_is_left_for_what_arrives():
    message = bytes(ForkingPickler.dumps(workers.create(3)))
    assert end(started(multiprocessing.get_context("fork"), receive_without_descriptors, message)) == 0


def receive_from_one_that_does_not_answer(message):
    from tenon import _shared_multiprocessing

    _shared_multiprocessing._SECONDS_TO_ANSWER = 0.1
    with pytest.raises(TimeoutError, match=f"process {os.getppid()}, which sent this shared tensor, has not answered for 0.1 s"):
        ForkingPickler.loads(message)


def test_the_sender_does_not_answer():
    """It is stopped, or it has no descriptor left for the connection: here its lock is held."""
    from tenon import _shared_multiprocessing

    context = multiprocessing.get_context("spawn")
    tensor = workers.create(3)
    messages = [bytes(ForkingPickler.dumps(tensor)) for _ in range(2)]
    receiver = context.Process(target=receive_from_one_that_does_not_answer, args=(messages[0],), daemon=True)
    receiver.start()
    with _shared_multiprocessing._sender._lock:
        assert end(receiver) == 0
    assert workers.values(ForkingPickler.loads(messages[1])) == [0, 1, 2]
    tenon.release_sent()


@contextlib.contextmanager
def no_descriptor():
    """All descriptors that this process may have are open."""
    import resource

    limits, opened = resource.getrlimit(resource.RLIMIT_NOFILE), []
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, limits[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                opened.append(os.dup(0))
        yield
    finally:
        for fd in opened:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("duplex", [True, False])
def test_the_sender_has_no_descriptor(duplex, checks):
    from tenon import _shared_multiprocessing

    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex) for _ in range(2)]
    processes = [started(context, workers.add_to_one, there) for there, _ in pipes]
    tensor = workers.create(3)
    for process, (there, here) in zip(processes, pipes):
        there.close()
        os.kill(process.pid, signal.SIGSTOP)
        here.send(tensor)
    with no_descriptor():
        os.kill(processes[0].pid, signal.SIGCONT)
        assert end(processes[0]) == 0
        assert len(_shared_multiprocessing._sender._waiting) == 1
        processes[1].kill()
        assert end(processes[1]) == -signal.SIGKILL
        wait_until(lambda: not _shared_multiprocessing._sender._waiting)
    assert workers.values(tensor) == [1, 2, 3]


def test_no_descriptor_to_send_or_receive():
    here, there = multiprocessing.Pipe()
    tensor = workers.create(3)
    here.send(tensor)
    other = workers.create(3)
    with no_descriptor():
        with pytest.raises(OSError, match=r"^.Errno 24. tenon: this process has no file descriptor left to send .*`ulimit -n`") as caught:
            here.send(other)
        assert caught.value.errno == errno.EMFILE
        with pytest.raises(OSError, match=r"^.Errno 24. tenon: this process has no file descriptor left for .*`ulimit -n`") as caught:
            there.recv()
        assert caught.value.errno == errno.EMFILE
    assert tenon.release_sent() == 1


def test_many_wait_for_a_sender_that_does_not_answer():
    """No more connections are accepted."""
    from tenon import _shared_multiprocessing

    message = bytes(ForkingPickler.dumps(workers.create(3)))
    with contextlib.ExitStack() as stack, _shared_multiprocessing._sender._lock:
        with pytest.raises(BlockingIOError):
            while True:
                stack.enter_context(silent_connection(blocking=False))
        context = multiprocessing.get_context("spawn")
        assert end(started(context, receive_from_one_that_does_not_answer, message)) == 0
    tenon.release_sent()


def silent_connection(blocking=True):
    """A connection to the sender of this process."""
    from tenon import _shared_multiprocessing

    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.setblocking(blocking)
    client.connect(_shared_multiprocessing._sender._address)
    return client


def test_a_connection_that_says_nothing_does_not_stop_others():
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    tensor = workers.create(3)
    here.send(tensor)
    with silent_connection():
        assert end(started(context, workers.add_to_one, there)) == 0
    assert workers.values(tensor) == [1, 2, 3]


def test_a_connection_that_says_nothing_is_closed(monkeypatch):
    from tenon import _shared_multiprocessing

    monkeypatch.setattr(_shared_multiprocessing._Sender, "_SECONDS_TO_SPEAK", 1)
    here, there = multiprocessing.get_context("spawn").Pipe()
    here.send(workers.create(3))
    with silent_connection() as client:
        client.settimeout(SECONDS)
        assert client.recv(1000) == b""
    there.recv()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_told_nothing():
    from tenon import _shared_multiprocessing

    here, there = multiprocessing.get_context("spawn").Pipe()
    here.send(workers.create(3))
    address, (key,) = _shared_multiprocessing._sender._address, _shared_multiprocessing._sender._waiting
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.seteuid(65534)
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            client.connect(address)
            client.settimeout(SECONDS)
            told = b""
            with contextlib.suppress(ConnectionError):
                client.send(key)
                told = client.recv(1000)
            os.write(writer, b"told %d bytes" % len(told))
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"told 0 bytes"
    os.close(reader)
    there.recv()


def test_a_worker_is_killed_in_the_middle():
    context = multiprocessing.get_context("fork")
    tensor = workers.create(1 << 20)
    name = tensor.shared_name
    here, there = context.Pipe()
    process = started(context, workers.hold, name, there)
    assert here.poll(SECONDS) and here.recv() == "attached"
    os.kill(process.pid, signal.SIGKILL)
    assert end(process) == -signal.SIGKILL
    assert workers.values(tensor)[-1] == (1 << 20) - 1
    del tensor
    with pytest.raises(FileNotFoundError):
        tenon.attach(name)


def test_the_owner_is_killed():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    here, there = context.Pipe()
    process = started(context, own, there)
    name = here.recv()
    tensor = tenon.attach(name)
    os.kill(process.pid, signal.SIGKILL)
    assert end(process) == -signal.SIGKILL
    with pytest.raises(FileNotFoundError, match="process"):
        tenon.attach(name)
    assert workers.values(tensor) == [0, 1, 2]
    again = tenon.attach(tensor.shared_name)
    assert workers.values(again) == [0, 1, 2]
    queue.close()


def own(connection):
    tensor = workers.create(3)
    connection.send(tensor.shared_name)
    signal.pause()
    del tensor


def test_eight_processes_attach_at_once():
    tensor = workers.create(1000)
    with multiprocessing.get_context("fork").Pool(8) as pool:
        results = pool.starmap(workers.attach_often, [(tensor.shared_name, 200, 499500)] * 8, chunksize=1)
    assert results == [(0, 0)] * 8


def test_after_a_fork_both_have_a_name():
    tensor = workers.create(3)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, tensor.shared_name.encode())
            signal.pause()
        finally:
            os._exit(1)
    name = os.read(reader, 200).decode()
    assert name.split(":")[2] == str(child) != tensor.shared_name.split(":")[2]
    again = tenon.attach(name)
    numpy.asarray(again)[0] = 9
    assert workers.values(tensor) == [9, 1, 2]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)


def available():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))


@pytest.mark.skipif(sys.platform != "linux" or available() < 2 << 30, reason="needs memory")
def test_the_memory_is_counted_once():
    size = 400 << 20
    tensor = tenon.shared_zeros(size, "u8")
    numpy.asarray(tensor)[...] = 1
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(2), context.Queue()
    process = started(context, workers.touch_into, tensor, barrier, queue)
    _, ours = workers.touch(tensor, barrier)
    total, theirs = queue.get(timeout=SECONDS)
    assert end(process) == 0 and total == size // 1024
    assert size <= ours + theirs < 1.1 * size
