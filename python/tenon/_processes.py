"""Shared tensors between the processes of multiprocessing: the descriptor of the memory is passed, not the elements."""

from __future__ import annotations

import errno
import os
import pickle
import time
from multiprocessing import parent_process, resource_sharer, util
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler, recv_handle, send_handle
from typing import Any, Optional

from tenon import _native
from tenon._native import Tensor
from tenon._reduce import reduce

# The place of a view in the memory: the offset in bytes, the dtype, the shape and the strides.
_Place = tuple[int, str, tuple[int, ...], tuple[int, ...]]

_SECONDS = 5.0

_waiting: set[int] = set()  # descriptors that no process has fetched yet
_watched: list[int] = []  # the process whose end is watched


def reduce_for_process(tensor: Tensor) -> tuple[Any, ...]:
    """Pickle for a process of multiprocessing: shared memory by its descriptor, everything else by its elements."""
    found = _native._shared_root(tensor)
    if found is None:
        return reduce(tensor, pickle.DEFAULT_PROTOCOL)
    root, offset = found
    whole = tensor.shared_name is not None
    place = None if whole else (offset, tensor.dtype, tensor.shape, tensor.strides)
    return _from_descriptor, (_send(_native._shared_fd(root)), place)


ForkingPickler.register(Tensor, reduce_for_process)


def _send(fd: int) -> Any:
    """Return what stands for a descriptor in a pickle: an object of a process that is being started, or an address."""
    starting: Any = get_spawning_popen()
    if starting is not None:
        return starting.DupFd(starting.duplicate_for_child(fd))
    copy = os.dup(fd)
    _waiting.add(copy)

    def send(connection: Any, process: int) -> None:
        send_handle(connection, copy, process)

    def close() -> None:
        os.close(copy)
        _waiting.discard(copy)

    _watch()
    sharer: Any = resource_sharer
    return sharer._resource_sharer.register(send, close)


def _from_descriptor(sent: Any, place: Optional[_Place]) -> Tensor:
    fd = _fetch(sent) if isinstance(sent, tuple) else sent.detach()
    try:
        tensor = _native._shared_attach(fd)
    finally:
        os.close(fd)
    return tensor if place is None else _native._tensor_on(tensor, *place)


def _fetch(address: tuple[Any, ...]) -> int:
    sharer: Any = resource_sharer
    try:
        with sharer._resource_sharer.get_connection(address) as connection:
            return recv_handle(connection)
    except (ConnectionError, EOFError, FileNotFoundError) as error:
        raise FileNotFoundError(
            errno.ENOENT,
            "tenon: the process that sent this shared tensor has ended; receive it before that process ends, or "
            "create it in a process that outlives both",
        ) from error


# A worker often ends right after it has put its result on a queue.


def _watch() -> None:
    if _watched != [os.getpid()]:
        _watched[:] = [os.getpid()]
        util.Finalize(None, _wait, exitpriority=-10)  # after the queues have written what they hold (-5)


def _wait() -> None:
    """Wait until the descriptors have been fetched, but not for long, and not if nobody is left to fetch them."""
    parent = parent_process()
    end = time.monotonic() + _SECONDS
    while _waiting and parent is not None and parent.is_alive() and time.monotonic() < end:
        time.sleep(0.001)
