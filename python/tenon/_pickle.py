"""Pickling of libraries and their parts: by the absolute path of the file, the hash of its content, and a name."""

from __future__ import annotations

import os

from tenon._load import Library, Origin, alive
from tenon._native import library_hash

TYPE_CHECKING = False  # importing typing would take longer than everything else
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_unpickled: dict[tuple[str, str], tuple[Origin, ModuleType]] = {}  # by path and hash: stay loaded, as imported modules do


def reduce(origin: Origin, name: str) -> tuple[Any, ...]:
    """Return what Origin.reduce() returns."""
    return unpickle, (origin._path, hash_of(origin), origin._number, name)


def hash_of(origin: Origin) -> str:
    """Return the hash of the library's content."""
    if origin._hash is None:
        try:
            origin._hash = library_hash(origin._capsule)
        except ValueError as error:
            raise ValueError(f"{origin._path}: the library cannot be pickled: {error}") from None
    return origin._hash


def unpickle(path: str, hash: str, number: int, name: str) -> Any:
    """Return what was pickled. Do not move or rename this function: pickles refer to it by name."""
    _check_state(path, hash, number, name)
    others = dict(alive.get(path, ()))  # other threads may change it
    for reference in [others.pop(number, None), *others.values()]:
        origin = reference() if reference else None
        found = _find(origin, name) if origin and _is_build(origin, hash) else None
        if found is not None:
            return found
    origin, library = _load_again(path)
    if hash_of(origin) != hash:
        raise ImportError(
            f"{path}: the library was changed after it was pickled: the hash of its content was {hash}, and is {hash_of(origin)} "
            "now; restore that build, or load the library and pickle again",
            name=library.__name__,
            path=path,
        )
    origin, _ = _unpickled.setdefault((path, hash), (origin, library))
    return _find(origin, name)


def _is_build(origin: Origin, hash: str) -> bool:
    try:
        return hash_of(origin) == hash
    except ValueError:
        return False


def _find(origin: Origin, name: str) -> Any:
    """The attribute with this dotted name, or None if it is no longer alive."""
    first, *rest = name.split(".")
    part = origin._parts.get(first)
    found = part() if part else None
    if found is None:
        library = origin._library()
        found = getattr(library, first) if first and library is not None else library
    for attribute in rest if found is not None else ():
        found = getattr(found, attribute)
    return found


def _load_again(path: str) -> tuple[Origin, ModuleType]:
    origin = Origin(path)
    try:
        return origin, origin.open(Library)
    except FileNotFoundError as error:
        why = "the library was at this path when it was pickled; build or copy it to there, or pickle again"
        raise FileNotFoundError(error.errno, why, path) from None


def _check_state(path: object, hash: object, number: object, name: object) -> None:
    """A pickle can be made by hand."""
    is_path = isinstance(path, str) and os.path.isabs(path) and "\0" not in path
    is_hash = isinstance(hash, str) and len(hash) == 32 and set(hash) <= set("0123456789abcdef")
    if not (is_path and is_hash and isinstance(number, int) and isinstance(name, str)):
        raise ValueError(
            "the pickle of a library is damaged: expected an absolute path, 32 hexadecimal digits, a number and a name, "
            f"got {path!r}, {hash!r}, {number!r}, {name!r}"
        )
