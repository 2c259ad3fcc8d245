"""Shared tensors between the processes of multiprocessing: the descriptor of the memory is passed, not the elements."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import re
import select
import signal
import socket
import stat
import struct
import threading
import time
import weakref
from collections.abc import Iterable
from multiprocessing import parent_process, util
from multiprocessing.connection import Connection
from multiprocessing.context import get_spawning_popen
from multiprocessing.pool import Pool
from multiprocessing.reduction import ForkingPickler
from typing import Any, Callable, Optional, Union
from weakref import WeakValueDictionary

from tenon import _native
from tenon._native import Tensor
from tenon._reduce import reduce

# The place of a view in the memory: the offset in bytes, the dtype, the shape and the strides.
_Place = tuple[int, str, tuple[int, ...], tuple[int, ...]]

_KEY_SIZE = 16
_SECONDS_TO_ANSWER = 60.0
_GIVEN, _UNKNOWN = b"g", b"u"  # answers to a key


def _reduce_for_process(tensor: Tensor) -> tuple[Any, ...]:
    """Pickle for a process of multiprocessing: shared memory by its descriptor, everything else by its elements."""
    found = _native._shared_root(tensor)
    if found is None:
        return reduce(tensor, pickle.DEFAULT_PROTOCOL)
    root, offset = found
    whole = tensor.shared_fd is not None
    place = None if whole else (offset, tensor.dtype, tensor.shape, tensor.strides)
    fd: Any = root.shared_fd
    starting: Any = get_spawning_popen()
    if starting is None:
        return _from_descriptor, (_sender.offer(fd), place)
    if starting.method == "forkserver":  # its server takes 256 descriptors for a process at most
        return _from_descriptor, (_sender.offer(fd, _Child(starting)), place)
    return _from_descriptor, (starting.DupFd(starting.duplicate_for_child(fd)), place)


def _from_descriptor(sent: Any, place: Optional[_Place]) -> Tensor:
    fd = _fetch(*sent) if isinstance(sent, tuple) else sent.detach()
    try:
        tensor = _native._shared_attach(fd)
    finally:
        os.close(fd)
    return tensor if place is None else _native._tensor_on(tensor, *place)


def _fetch(address: str, key: bytes) -> int:
    """Ask the process that sent a message for the descriptor of its tensor. Whoever knows the key gets it, once."""
    answer, fds = b"", list[int]()
    end = time.monotonic() + _SECONDS_TO_ANSWER
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            _connect(client, address, end)
            if _is_allowed(client):
                client.send(key)
                _wait_for_answer(client, address, end)
                answer, fds, _, _ = socket.recv_fds(client, 1, 1, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        pass
    except OSError as error:
        raise _explained(error, "for a shared tensor that it received") from None
    if fds:
        return fds[0]
    if answer == _GIVEN:
        raise _explained(OSError(errno.EMFILE, ""), "for a shared tensor that it received")
    if answer == _UNKNOWN:
        reason = (
            "this shared tensor was received already, or its sender has released it; a message can be received once, "
            "so send the tensor again"
        )
    else:
        reason = (
            "the process that sent this shared tensor has ended, or it belongs to another user or runs on another "
            "machine; receive the tensor before that process ends, or create it in a process that outlives both"
        )
    raise FileNotFoundError(errno.ENOENT, f"tenon: {reason}")


def _explained(error: OSError, purpose: str) -> OSError:
    """The error to raise: if no descriptor is left, one that says what to do."""
    if error.errno != errno.EMFILE:
        return error
    reason = f"this process has no file descriptor left {purpose}; release some tensors, or raise the limit (`ulimit -n`)"
    return OSError(errno.EMFILE, f"tenon: {reason}")


def _connect(client: socket.socket, address: str, end: float) -> None:
    client.setblocking(False)
    while True:
        try:
            client.connect(address)
            return
        except BlockingIOError:  # many others wait for the sender
            _check_time(address, end)
            time.sleep(0.01)


def _check_time(address: str, end: float) -> None:
    if time.monotonic() > end:
        raise TimeoutError(
            errno.ETIMEDOUT,
            f"tenon: process {address.split('-')[1]}, which sent this shared tensor, has not answered for "
            f"{_SECONDS_TO_ANSWER:g} s; it is stopped, or it has no file descriptor left (`ulimit -n`); continue it, or raise "
            "its limit, and send the tensor again",
        )


def _wait_for_answer(client: socket.socket, address: str, end: float) -> None:
    """Raise ConnectionError if the sender has ended: a child that it forked in C still has the socket, and does not answer."""
    pid = _credentials(client)[0]  # of the process that listens, or 0 if this process cannot see it
    poll = select.poll()
    poll.register(client, select.POLLIN)
    while not poll.poll(min(1000.0, 1000 * _SECONDS_TO_ANSWER)):
        if pid and _has_ended(pid):
            raise ConnectionError
        _check_time(address, end)


def _has_ended(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")  # its parent has not waited for it yet
    except (FileNotFoundError, ProcessLookupError):
        return True


def _is_allowed(peer: socket.socket) -> bool:
    """Whether the other process belongs to this user: any user can use an abstract address."""
    return _credentials(peer)[1] == os.geteuid()


def _credentials(peer: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end."""
    pid, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return pid, user


class _Descriptor:
    """A descriptor that is closed with the last offer that needs it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self, close: Any = os.close) -> None:  # `os` may be gone when the interpreter ends
        close(self.fd)


# ------------------------------------------------------------------------------------------------------- destinations


class _Pipe(_Descriptor):
    """The pipe of a queue or a pool. The descriptor counts neither as its reader nor as its writer."""

    def __init__(self, fd: int) -> None:
        super().__init__(os.open(f"/proc/self/fd/{fd}", os.O_PATH | os.O_CLOEXEC))

    def is_gone(self) -> bool:
        writer = os.open(f"/proc/self/fd/{self.fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return bool(_events(writer) & select.POLLERR)  # no process has it open for reading
        finally:
            os.close(writer)


class _Socket:
    """The other end of a Unix socket, by its inode: our end may be closed while the other can still be read."""

    def __init__(self, fd: int) -> None:
        self._other = _other_end(os.fstat(fd).st_ino)
        if self._other != 0 and (self._other is None or _other_end(self._other) is None):
            raise OSError(errno.EOPNOTSUPP, "this kernel does not list this socket")

    def is_gone(self) -> bool:
        return not self._other or _other_end(self._other) is None


def _other_end(inode: int) -> Optional[int]:
    """Return the inode of the other end of a Unix socket, 0 if that end is closed, or None if there is no such socket."""
    by_family, request, show_other, any_, error = 20, 1, 4, 0xFFFFFFFF, 2  # linux/sock_diag.h, netlink.h, unix_diag.h
    message = struct.pack(
        "=IHHIIBBHIIIII", 40, by_family, request, 0, 0, socket.AF_UNIX, 0, 0, any_, inode, show_other, any_, any_
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as kernel:
        kernel.sendto(message, (0, 0))
        answer = kernel.recv(4096)
    if struct.unpack_from("=H", answer, 4)[0] == error:
        code = -struct.unpack_from("=i", answer, 16)[0]
        if code == errno.ENOENT:
            return None
        raise OSError(code, os.strerror(code))
    kind, other = struct.unpack_from("=2xHI", answer, 32) if len(answer) >= 40 else (0, 0)
    return int(other) if kind == 2 else 0


class _Child:
    """A process that is being started by the server of multiprocessing."""

    def __init__(self, popen: Any) -> None:
        self._popen = weakref.ref(popen)

    def is_gone(self) -> bool:
        popen = self._popen()
        if popen is None or popen.returncode is not None:
            return True
        if getattr(popen, "pid", None) is None:  # until then the sentinel can be read for another reason
            return False
        return bool(_events(popen.sentinel))


def _events(fd: int) -> int:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return sum(event for _, event in poll.poll(0))


_Destination = Union[_Pipe, _Socket, _Child]


# ------------------------------------------------------------------------------------------------------------- sender


class _Offer:
    """A descriptor that one message waits for, and where the message went, if that is known."""

    def __init__(self, memory: _Descriptor, destination: Optional[_Destination]) -> None:
        self.memory, self.destination = memory, destination


class _Sender:
    """A thread that gives descriptors to the processes that ask for them. Its address is in no file system."""

    _SECONDS = 5.0
    _SECONDS_TO_SPEAK = 30.0  # for a process that is connected
    _SECONDS_BETWEEN_CHECKS = 1.0  # of the destinations

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may send a tensor too
        self._address = ""
        self._prefix = b""  # of all keys
        self._keys_in: Callable[[Any], list[bytes]] = lambda message: []
        self._listener: Optional[socket.socket] = None
        self._spare: Optional[_Descriptor] = None  # so that this thread can work if the process has no other one left
        self._clients: dict[socket.socket, float] = {}  # and when each is closed at the latest
        self._waiting: dict[bytes, _Offer] = {}  # by the key of the message
        self._memories: WeakValueDictionary[tuple[int, ...], _Descriptor] = WeakValueDictionary()
        self._destinations: WeakValueDictionary[tuple[int, int], Any] = WeakValueDictionary()
        self._next_check = 0.0  # of the destinations
        self.undirected: set[bytes] = set()  # the keys of messages whose destination is unknown
        # No thread opens a descriptor during a fork that the child would not know about.
        os.register_at_fork(
            before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._forget
        )
        util.register_after_fork(self, _Sender._watch)
        self._watch()

    def offer(self, fd: int, destination: Optional[_Destination] = None) -> tuple[str, bytes]:
        file = os.fstat(fd)
        same = (file.st_dev, file.st_ino, fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE)
        with self._lock:
            try:
                if self._listener is None:
                    self._listen()
                memory = self._memories.get(same)
                if memory is None:
                    memory = self._memories[same] = _Descriptor(os.dup(fd))
            except OSError as error:
                raise _explained(error, "to send a shared tensor with, until it is received") from None
            key = self._prefix + os.urandom(_KEY_SIZE - len(self._prefix))
            self._waiting[key] = _Offer(memory, destination)
            if destination is None:
                self.undirected.add(key)
        if _message.keys is not None:
            _message.keys.append(key)
        return self._address, key

    def direct(self, message: Any, fd: int) -> None:
        """Note that a message is being written to a descriptor."""
        with self._lock:
            keys = self.undirected.intersection(self._keys_in(message))
            destination = self._destination(fd) if keys else None
            for key in keys if destination else ():
                self._waiting[key].destination = destination
                self.undirected.remove(key)

    def _destination(self, fd: int) -> Optional[_Destination]:
        try:
            file = os.fstat(fd)
            found = self._destinations.get((file.st_dev, file.st_ino))
            if found is None:
                found = _Pipe(fd) if stat.S_ISFIFO(file.st_mode) else _Socket(fd)
                self._destinations[file.st_dev, file.st_ino] = found
            return found
        except OSError:  # there is no /proc, or it is a socket of another kind
            return None

    def _listen(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._address, self._prefix = f"\0tenon-{os.getpid()}-{os.urandom(8).hex()}", os.urandom(_KEY_SIZE // 2)
            self._keys_in = re.compile(re.escape(self._prefix) + b"(?s:.{%d})" % (_KEY_SIZE - len(self._prefix))).findall
            listener.setblocking(False)
            listener.bind(self._address)
            listener.listen(128)
            self._spare = _Descriptor(os.dup(listener.fileno()))
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()
        except BaseException:
            listener.close()
            raise
        self._listener = listener

    def _serve(self, listener: socket.socket) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            try:
                poll = select.poll()
                for each in (listener, *self._clients):
                    poll.register(each, select.POLLIN)
                ready = {fd for fd, _ in poll.poll(1000 * self._SECONDS_BETWEEN_CHECKS)}
                with self._lock:
                    self._spare = None
                    self._serve_once(listener, ready)
                    self._spare = _Descriptor(os.dup(listener.fileno()))
            except Exception:  # no more descriptors or memory: wait until others have ended
                time.sleep(0.01)

    def _serve_once(self, listener: socket.socket, ready: set[int]) -> None:
        now = time.monotonic()
        for client, end in list(self._clients.items()):
            if client.fileno() in ready or end < now:
                del self._clients[client]
                self._answer(client)
        if self._next_check <= now:
            self._next_check = now + self._SECONDS_BETWEEN_CHECKS
            self._release_lost()
        if listener.fileno() in ready:
            client, _ = listener.accept()
            client.setblocking(False)
            if _is_allowed(client):
                self._clients[client] = now + self._SECONDS_TO_SPEAK
            else:
                client.close()

    def _answer(self, client: socket.socket) -> None:
        try:
            with client:
                offers = self._take([client.recv(_KEY_SIZE)])
                if offers:
                    socket.send_fds(client, [_GIVEN], [offers[0].memory.fd])
                else:
                    client.send(_UNKNOWN)
        except OSError:  # it has ended, or it has not said anything
            pass

    def _take(self, keys: Iterable[bytes]) -> list[_Offer]:
        with self._lock:
            self.undirected.difference_update(keys)
            return [self._waiting.pop(key) for key in keys if key in self._waiting]

    def _release_lost(self) -> None:
        """Release what was sent to a process or a queue that is gone."""
        offers = list(self._waiting.items())
        gone = {each for each in {offer.destination for _, offer in offers} if each and _is_gone(each)}
        self._take([key for key, offer in offers if offer.destination in gone])

    def release_to(self, fd: int) -> None:
        """Release what was written to a descriptor and has not been received."""
        with self._lock:
            file = os.fstat(fd)
            destination = self._destinations.get((file.st_dev, file.st_ino))
            if destination is not None:
                self._take([key for key, offer in self._waiting.items() if offer.destination is destination])

    def withdraw(self, keys: Optional[list[bytes]] = None) -> int:
        """Forget these offers, or all. Returns how many there were."""
        with self._lock:
            return len(self._take(list(self._waiting) if keys is None else keys))

    def _forget(self) -> None:
        """In a new process, which has neither the thread nor anything to give."""
        try:
            self._take(list(self._waiting))
            if self._listener is not None:  # otherwise others could connect although the parent has ended
                self._listener.close()
            self._listener = self._spare = None
            for client in self._clients:
                client.close()
            self._clients.clear()
        finally:
            self._lock.release()

    def _watch(self) -> None:
        util.Finalize(None, self._wait, exitpriority=-10)  # after the queues have written what they hold (-5)

    def _wait(self) -> None:
        """At the end of a worker: wait until its descriptors are fetched, but not for long, nor if its parent has ended."""
        parent, end = parent_process(), time.monotonic() + self._SECONDS
        while self._is_asked() and parent is not None and parent.is_alive() and time.monotonic() < end:
            time.sleep(0.001)

    def _is_asked(self) -> bool:
        with self._lock:  # the thread keeps it until it has sent a descriptor that is no longer waiting
            return bool(self._waiting)


def _is_gone(destination: _Destination) -> bool:
    try:
        return destination.is_gone()
    except (OSError, ValueError):  # no descriptor is left to find out
        return False


class _Message(threading.local):
    """The message that a thread is writing."""

    keys: Optional[list[bytes]] = None  # of its offers


def _dump(pickler: pickle.Pickler, content: Any) -> None:
    """ForkingPickler.dump; a message that cannot be pickled, because of something else in it, must not hold its tensors."""
    before, _message.keys = _message.keys, []
    try:
        _original_dump(pickler, content)
        if before is not None:  # it is part of another message
            before.extend(_message.keys)
    except BaseException:
        _sender.withdraw(_message.keys)
        raise
    finally:
        _message.keys = before


def _send_bytes(connection: Any, message: Any) -> Any:
    """Connection._send_bytes; the sender learns where the tensors of the message go."""
    if _sender.undirected:
        _sender.direct(message, connection.fileno())
    return _plain_send_bytes(connection, message)


def _terminate(pool: Any) -> None:
    """Pool.terminate; no worker receives anything afterwards, although the pool object still has both ends of the pipe."""
    try:
        _plain_terminate(pool)
    finally:
        writer = getattr(pool._inqueue, "_writer", None)  # a ThreadPool does not have one
        if isinstance(writer, Connection) and not writer.closed:
            _sender.release_to(writer.fileno())


def release_sent() -> int:
    return _sender.withdraw()


_sender, _message = _Sender(), _Message()
_original_dump = ForkingPickler.dump
ForkingPickler.dump = _dump  # type: ignore[method-assign]
_plain_send_bytes = Connection._send_bytes  # type: ignore[attr-defined]
Connection._send_bytes = _send_bytes  # type: ignore[attr-defined]
_plain_terminate = Pool.terminate
Pool.terminate = _terminate  # type: ignore[assignment,method-assign]
ForkingPickler.register(Tensor, _reduce_for_process)
