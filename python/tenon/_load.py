"""Opening a library of functions."""

import errno
import hashlib
import os
import shutil
import stat
import tempfile
import threading
from types import ModuleType
from typing import Union

from tenon._native import check_library, open_library
from tenon._results import make_picklable

_lock = threading.RLock()
_opened: dict[str, str] = {}  # the file that each content was opened from, which may be gone


def _before_fork() -> None:
    """No other thread may be opening a library meanwhile: the child would find locks that nobody gives back, such as
    the one inside tempfile."""
    _lock.acquire()


def _after_fork() -> None:
    _lock.release()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


def load(path: Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]) -> ModuleType:
    """Open a shared library that has a TENON_MODULE, and return its functions as a module.

    Every call makes a new module with its own state. Nothing is put into sys.modules, and nothing is ever closed: after
    the file was built again, load() gives the new functions, while the old ones go on working. For this a private copy
    is opened, which is removed at once; with TENON_DEBUG=1 it stays, so that a debugger finds it. A fork in another
    thread waits meanwhile.

    Raises OSError where the file cannot be read, and ImportError where it is no such library.
    """
    origin = os.fsdecode(path)
    if not stat.S_ISREG(os.stat(origin).st_mode) and not os.path.isdir(origin):  # a pipe would never end
        raise OSError(errno.EINVAL, "not a regular file", origin)
    name = os.path.basename(origin).partition(".")[0]
    with open(origin, "rb") as file:
        data = file.read()
    try:
        check_library(data)
    except ImportError as error:
        raise ImportError(f"{origin}: {error}", name=name, path=origin) from None
    try:
        with _lock:
            return make_picklable(_open(data, origin))
    except ImportError as error:
        error.name, error.path = name, origin
        raise


def _open(data: bytes, origin: str) -> ModuleType:
    digest = hashlib.sha256(data).hexdigest()
    if digest in _opened:
        try:
            return _open_file(_opened[digest], digest, origin)
        except OSError:
            pass  # not every loader knows a library by a name that is gone
    try:
        return _open_copy(data, digest, origin)
    except OSError as error:
        return _open_in_place(digest, origin, str(error))


def _open_copy(data: bytes, digest: str, origin: str) -> ModuleType:
    folder = tempfile.mkdtemp(prefix="tenon-")
    try:
        copy = os.path.join(folder, f"{digest[:16]}.so")
        with open(copy, "xb") as file:
            file.write(data)
        return _open_file(copy, digest, origin)
    finally:
        if os.name == "posix" and os.environ.get("TENON_DEBUG", "") in ("", "0"):
            shutil.rmtree(folder, ignore_errors=True)


def _open_in_place(digest: str, origin: str, reason: str) -> ModuleType:
    """Where a copy does not open: a folder for temporary files without programs, or a library with $ORIGIN."""
    file = os.path.abspath(origin)
    if _is_open(file):  # the loader would give that one again
        raise ImportError(
            f"{origin}: an older build is open under its name, and a copy of the new one cannot be opened: {reason}; "
            "set TMPDIR to a folder whose files may be executed, or start again"
        )
    try:
        return _open_file(file, digest, origin)
    except OSError as error:
        both = f"{error}" if str(error) == reason else f"{error}; and of a copy: {reason}"
        raise ImportError(f"{origin}: {both}") from None


def _open_file(file: str, digest: str, origin: str) -> ModuleType:
    """OSError where the loader does not take the file, ImportError where the library in it is wrong."""
    _opened[digest] = file
    try:
        return open_library(file, origin)
    except ImportError as error:
        if _is_open(file):
            raise
        del _opened[digest]
        raise OSError(str(error).replace(f"{origin}: ", "", 1)) from None


def _is_open(file: str) -> bool:
    import ctypes  # slow to import, and needed by no library that opens

    try:
        ctypes.CDLL(file, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return False
    return True
