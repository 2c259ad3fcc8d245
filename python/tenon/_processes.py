"""Shared tensors between the processes of multiprocessing: the descriptor of the memory is passed, not the elements."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import select
import signal
import socket
import struct
import threading
import time
from multiprocessing import parent_process, util
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from typing import Any, Optional

from tenon import _native
from tenon._native import Tensor
from tenon._reduce import reduce

# The place of a view in the memory: the offset in bytes, the dtype, the shape and the strides.
_Place = tuple[int, str, tuple[int, ...], tuple[int, ...]]

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
    sent = _sender.offer(fd) if starting is None else starting.DupFd(starting.duplicate_for_child(fd))
    return _from_descriptor, (sent, place)


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
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(address)
            if _is_allowed(client):
                client.send(key)
                _wait_for_answer(client)
                answer, fds, _, _ = socket.recv_fds(client, 1, 1, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        pass
    if fds:
        return fds[0]
    if answer == _GIVEN:
        raise OSError(errno.EMFILE, "tenon: this process has no descriptor left for a shared tensor that it received")
    if answer == _UNKNOWN:
        reason = "this shared tensor was received already; a message can be received once, so send the tensor again"
    else:
        reason = (
            "the process that sent this shared tensor has ended, or it belongs to another user or runs on another "
            "machine; receive the tensor before that process ends, or create it in a process that outlives both"
        )
    raise FileNotFoundError(errno.ENOENT, f"tenon: {reason}")


def _wait_for_answer(client: socket.socket) -> None:
    """Raise ConnectionError if the sender has ended: a child that it forked in C still has the socket, and does not answer."""
    pid = _credentials(client)[0]  # of the process that listens, or 0 if this process cannot see it
    poll = select.poll()
    poll.register(client, select.POLLIN)
    while not poll.poll(1000):
        if pid and _has_ended(pid):
            raise ConnectionError


def _has_ended(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")  # its parent has not waited for it yet
    except (FileNotFoundError, ProcessLookupError):
        return True


def _is_allowed(peer: socket.socket) -> bool:
    """Whether the other process belongs to this user, or to root: any user can use an abstract address."""
    return _credentials(peer)[1] in (0, os.geteuid())


def _credentials(peer: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end."""
    pid, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return pid, user


class _Copy:
    """A descriptor for all messages with the same memory that have not been received yet."""

    def __init__(self, same: tuple[int, ...], fd: int) -> None:
        self.same, self.fd, self.count = same, os.dup(fd), 0


class _Sender:
    """Threads that give descriptors to the processes that ask for them. Their address is in no file system."""

    _KEY_SIZE = 16
    _SECONDS = 5.0
    _SECONDS_TO_SPEAK = 30  # for each message of a process that is connected

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._address = ""
        self._listener: Optional[socket.socket] = None
        self._connected: set[socket.socket] = set()
        self._waiting: dict[bytes, _Copy] = {}  # by the key of the message
        self._copies: dict[tuple[int, ...], _Copy] = {}
        os.register_at_fork(after_in_child=self._forget)
        util.register_after_fork(self, _Sender._watch)
        self._watch()

    def offer(self, fd: int) -> tuple[Any, bytes]:
        key, file = os.urandom(self._KEY_SIZE), os.fstat(fd)
        same = (file.st_dev, file.st_ino, fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE)
        with self._lock:
            if self._listener is None:
                self._listen()
            copy = self._copies.get(same) or _Copy(same, fd)
            copy.count += 1
            self._copies[same] = self._waiting[key] = copy
        if _message.keys is not None:
            _message.keys.append(key)
        return self._address, key

    def _listen(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._address = f"\0tenon-{os.getpid()}-{os.urandom(8).hex()}"
            listener.bind(self._address)
            listener.listen(128)
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()
        except BaseException:
            listener.close()
            raise
        self._listener = listener

    def _serve(self, listener: socket.socket) -> None:
        """Accept connections; a thread for each, so that one that says nothing does not stop the others."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            try:
                with listener.accept()[0] as client:
                    if _is_allowed(client):
                        own = socket.socket(fileno=client.detach())
                        threading.Thread(target=self._answer, args=(own,), daemon=True).start()
            except Exception:  # no more descriptors or threads: wait until others have ended
                time.sleep(0.01)

    def _answer(self, client: socket.socket) -> None:
        self._connected.add(client)
        try:
            with client:
                client.settimeout(self._SECONDS_TO_SPEAK)
                self._give(client, client.recv(self._KEY_SIZE))
        except Exception:  # the other process reports it: it has ended, or it is not ours
            pass
        finally:
            self._connected.discard(client)

    def _give(self, client: socket.socket, key: bytes) -> None:
        with self._lock:
            copy = self._waiting.pop(key, None)
        if copy is None:
            client.send(_UNKNOWN)
            return
        try:
            socket.send_fds(client, [_GIVEN], [copy.fd])
        finally:
            self._drop(copy)

    def _drop(self, copy: _Copy) -> None:
        with self._lock:
            copy.count -= 1
            if copy.count == 0:
                del self._copies[copy.same]
                os.close(copy.fd)

    def withdraw(self, keys: list[bytes]) -> None:
        """Forget the offers of a message that was not written."""
        for key in keys:
            with self._lock:
                copy = self._waiting.pop(key, None)
            if copy is not None:
                self._drop(copy)

    def _forget(self) -> None:
        """In a new process, which has neither the thread nor anything to give."""
        for copy in self._copies.values():
            os.close(copy.fd)
        self._copies.clear()
        self._waiting.clear()
        self._lock = threading.Lock()
        if self._listener is not None:  # otherwise others could connect although the parent has ended
            self._listener.close()
        self._listener = None
        for client in self._connected:
            client.close()
        self._connected.clear()

    def _watch(self) -> None:
        util.Finalize(None, self._wait, exitpriority=-10)  # after the queues have written what they hold (-5)

    def _wait(self) -> None:
        """At the end of a worker: wait until its descriptors are fetched, but not for long, nor if its parent has ended."""
        parent, end = parent_process(), time.monotonic() + self._SECONDS
        while self._copies and parent is not None and parent.is_alive() and time.monotonic() < end:
            time.sleep(0.001)


class _Message(threading.local):
    """The message that a thread is writing."""

    keys: Optional[list[bytes]] = None  # of its offers


def _dump(pickler: pickle.Pickler, content: Any) -> None:
    """ForkingPickler.dump; a message that cannot be pickled, because of something else in it, must not hold its tensors."""
    before, _message.keys = _message.keys, []
    try:
        _plain_dump(pickler, content)
    except BaseException:
        _sender.withdraw(_message.keys)
        raise
    finally:
        _message.keys = before


_sender, _message = _Sender(), _Message()
_plain_dump = ForkingPickler.dump
ForkingPickler.dump = _dump  # type: ignore[method-assign]
ForkingPickler.register(Tensor, _reduce_for_process)
