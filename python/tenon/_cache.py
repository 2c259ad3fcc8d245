"""The folder in which tenon.compile() keeps libraries.

Each key has a folder of its own: the source if it was text, the libraries that were built from it, each named by its
content, and a manifest. The manifest names the newest library and the files that it was built from. A file is written
beside its name and renamed, so that several processes can write at once without a lock.

Libraries are native code that is loaded later. So the cache must belong to this user, and no other user may write to it.
"""

from __future__ import annotations

import os
import sys
from hashlib import blake2b

TYPE_CHECKING = False  # importing typing would take longer than a call that finds its library
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Optional

SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
_MANIFEST = "manifest"
_private: dict[int, str] = {}  # a temporary folder for each process: a fork does not share that of its parent


# ------------------------------------------------------------------------------------------------------ which folder


class Unusable(Exception):
    """Why the cache folder is not used."""


def user_folder() -> str:
    """Return the cache folder of this user, which may not exist. Raise Unusable if it is not safe to load code from it."""
    folder = _chosen_folder()
    try:
        found = os.stat(folder)
    except FileNotFoundError:
        return folder
    except OSError as error:
        raise Unusable(f"{folder}: {error.strerror}") from None
    if hasattr(os, "geteuid"):
        if found.st_uid not in (os.geteuid(), 0):
            raise Unusable(f"{folder} belongs to another user")
        if found.st_mode & 0o022:
            raise Unusable(f"other users can write to {folder}")
    return folder


def _chosen_folder() -> str:
    chosen = os.environ.get("TENON_CACHE")
    if chosen:
        try:
            return os.path.abspath(os.path.expanduser(chosen))
        except FileNotFoundError:
            raise Unusable(f"TENON_CACHE is {chosen}, and the current folder was removed") from None
    if sys.platform == "win32":
        parent = os.environ.get("LOCALAPPDATA", "")
    elif os.path.isabs(os.environ.get("XDG_CACHE_HOME", "")):
        parent = os.environ["XDG_CACHE_HOME"]
    else:
        parent = os.path.expanduser("~/Library/Caches" if sys.platform == "darwin" else "~/.cache")
    if not os.path.isabs(parent):
        raise Unusable("there is no home folder")
    return os.path.join(parent, "tenon", "compiled")


def private_folder() -> Optional[str]:
    """Return the temporary folder of this process, if it has one."""
    return _private.get(os.getpid())


def make_private_folder() -> str:
    """Return the temporary folder of this process. It is removed when the process ends."""
    process = os.getpid()
    if process not in _private:
        import atexit
        import tempfile

        _private[process] = made = tempfile.mkdtemp(prefix="tenon-")
        atexit.register(_remove, made, process)
    return _private[process]


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------------------------------------------------- its files


def make_entry(folder: str, key: str) -> str:
    """Make the folder of a key, and return it."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    entry = os.path.join(folder, key)
    for made in (folder, entry):
        try:
            os.mkdir(made, 0o700)
        except FileExistsError:
            pass
    return entry


def put(entry: str, name: str, content: bytes) -> str:
    """Write a file of an entry unless it has this content already, and return its path."""
    path = os.path.join(entry, name)
    if read(path) == content:
        return path
    import tempfile

    number, beside = tempfile.mkstemp(prefix=".", dir=entry)
    try:
        with open(number, "wb") as file:
            file.write(content)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    return path


def read(path: str) -> Optional[bytes]:
    """Return the content of a file, or None if it cannot be read. Opening a pipe would wait for whoever writes to it."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def digest_of(content: bytes) -> str:
    """Return a hash in hexadecimal digits. The first SHA-256 of a process takes 0.1 ms, because OpenSSL begins with it."""
    return blake2b(content, digest_size=32).hexdigest()


def store(entry: str, name: str, content: bytes, used: Optional[Iterable[str]], started: int) -> str:
    """Store a library and the files that it was built from, and return its path.

    If `used` is None, find() will not find it, because there is nothing to compare. `started` is the time in
    nanoseconds before the first of these files was read: a file that has changed since may not be the one that was
    compiled, and is never up to date."""
    path = put(entry, f"{name}-{digest_of(content)[:16]}{SUFFIX}", content)
    if used is not None:
        rows = [_row(one, None if _changed(one, started) else read(one)) for one in used]
        put(entry, _MANIFEST, _manifest(os.path.basename(path), rows))
    return path


def drop(entry: str, library: str) -> None:
    """Forget a library that cannot be loaded."""
    _unlink(os.path.join(entry, _MANIFEST), library)


def discard(entry: str, source: str) -> None:
    """Remove the source and the folder of a key, unless there are libraries in it."""
    try:
        if not any(name.endswith(SUFFIX) for name in os.listdir(entry)):
            _unlink(source)
            os.rmdir(entry)
    except OSError:
        pass


def _unlink(*paths: str) -> None:
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            pass


def _changed(path: str, started: int) -> bool:
    import time

    try:
        found = os.stat(path)
        return any(started <= moment <= time.time_ns() for moment in (found.st_mtime_ns, found.st_ctime_ns))
    except OSError:
        return True


# ------------------------------------------------------------------------------------------------------- the manifest
# The name of the library; then, for each file that it was built from, its size, times, hash and path. The time of the last
# change of status (ctime) finds a file that was replaced by another one of the same size and time, as by `tar` or `rsync -t`.


def _row(path: str, content: Optional[bytes]) -> str:
    if content is None:
        return f"-1 0 0 - {path}"
    found = os.stat(path)
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {digest_of(content)} {path}"


def _manifest(name: str, rows: Iterable[str]) -> bytes:
    return "\n".join([name, *rows, ""]).encode("utf-8", "surrogateescape")


def find(folder: str, key: str) -> Optional[str]:
    """Return the library of a key if the files that it was built from have not changed."""
    entry = os.path.join(folder, key)
    written = read(os.path.join(entry, _MANIFEST))
    if written is None:
        return None
    try:
        name, *rows = written.decode("utf-8", "surrogateescape").split("\n")[:-1]
        current = [_current(row) for row in rows]
        if None in current:
            return None
    except (OSError, ValueError):
        return None  # a file is gone, or the manifest is damaged
    if current != rows:  # the files were touched: compare their times from now on
        try:
            put(entry, _MANIFEST, _manifest(name, [row for row in current if row]))
        except OSError:
            pass
    return os.path.join(entry, name)


def _current(row: str) -> Optional[str]:
    """Return the row of a file as it is now, or None if its content has changed. It is read only if a time differs."""
    size, modified, changed, digest, path = row.split(" ", 4)
    found = os.stat(path)
    if found.st_size != int(size):
        return None
    if found.st_mtime_ns == int(modified) and found.st_ctime_ns == int(changed):
        return row
    content = read(path)
    return _row(path, content) if content is not None and digest_of(content) == digest else None
