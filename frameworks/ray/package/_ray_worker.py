"""What runs on the nodes of Ray: it loads a library by its content, and calls its functions."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from types import ModuleType
from typing import Any, Callable, NamedTuple

from tenon import _cache
from tenon._load import load

_loaded: dict[str, ModuleType] = {}  # by the hash of the content: stay loaded, as imported modules do


class Source(NamedTuple):
    """A library that travels by content."""

    digest: str
    content: Any  # the reference to its bytes in the object store


class Actor:
    """One process that has loaded a library. make_actor() adds a method for each function."""

    def __init__(self, source: Source) -> None:
        self._library = _library(source)


def make_actor(name: str, functions: Mapping[str, int]) -> type[Actor]:
    """Return a class for the functions of a library and their numbers of results.

    A call costs what it costs with a class that is written by hand; one method for all functions would take a longer time,
    because it would need the name as an argument."""
    num_returns = import_module("ray").method
    methods = {method_name(function): num_returns(num_returns=count)(_method(function)) for function, count in functions.items()}
    return type(name, (Actor,), methods)


def method_name(function: str) -> str:
    """The prefix keeps it apart from names that Ray uses."""
    return f"call_{function}"


def _method(name: str) -> Callable[..., Any]:
    def call(self: Actor, /, *args: Any, **kwargs: Any) -> Any:
        return _call(self._library, name, args, kwargs)

    return call


def call(source: Source, name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function in any process. The body of a task."""
    return _call(_library(source), name, args, kwargs)


def _call(library: ModuleType, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return the result, or a tuple of several results. Fields have no names here, since each becomes an object of its own."""
    made = getattr(library, name)(*args, **kwargs)
    return made[0] if isinstance(made, tuple) and len(made) == 1 else made


def _library(source: Source) -> ModuleType:
    found = _loaded.get(source.digest)
    if found is None:
        found = _loaded.setdefault(source.digest, load(_file(source)))
    return found


def _file(source: Source) -> str:
    """Return the path of the library on this node. It has been compared with the hash."""
    name = source.digest + _cache.SUFFIX
    try:
        folder = _node_folder()
        path = os.path.join(folder, name)
        if _has_digest(path, source.digest):
            return path
        return _cache.put(folder, name, _content(source))
    except (_cache.Unusable, OSError):
        return _cache.put(_cache.make_private_folder(), name, _content(source))


def _node_folder() -> str:
    """Return the folder for the libraries of all processes of this user on this node. Only this user can enter it."""
    folder = _cache.make_entry(_cache.user_folder(), "ray")
    found = os.lstat(folder)
    if hasattr(os, "geteuid"):
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise _cache.Unusable(f"{folder} is not a folder of this user")
        if found.st_mode & 0o077:
            os.chmod(folder, 0o700)
    return folder


def _has_digest(path: str, digest: str) -> bool:
    content = _cache.read(path)
    return content is not None and sha256(content).hexdigest() == digest


def _content(source: Source) -> bytes:
    content: bytes = import_module("ray").get(source.content)
    if sha256(content).hexdigest() != source.digest:
        raise ImportError(f"the library in Ray's object store does not have the hash {source.digest}; call tenon.ray_ops() again")
    return content
