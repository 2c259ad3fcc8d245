"""Pickling of libraries and their parts: by the absolute path of the file, the hash of its content, and a name."""

from __future__ import annotations

import os
from _weakref import ref  # importing weakref would take longer than everything else

from tenon._native import library_hash, open_library
from tenon._results import make_picklable

TYPE_CHECKING = False  # and so would typing
if TYPE_CHECKING:
    from os import PathLike
    from types import ModuleType
    from typing import Any, Callable, Optional, TypeVar, Union

    AnyModule = TypeVar("AnyModule", bound=ModuleType)

_alive: dict[str, dict[int, ref[Origin]]] = {}  # by path: the loads of which some part is still alive
_unpickled: dict[tuple[str, str], tuple[Origin, ModuleType]] = {}  # by path and hash: stay loaded, as imported modules do


class Origin:
    """One load of a library. Its module, functions and classes hold it; it does not hold them."""

    __slots__ = ("__weakref__", "_capsule", "_given", "_hash", "_library", "_number", "_parts", "_path")
    _capsule: object
    _library: ref[ModuleType]
    _number: int  # distinguishes the loads of a path that are alive
    _parts: dict[str, ref[Any]]

    def __init__(self, path: Union[str, bytes, PathLike[str], PathLike[bytes]]) -> None:
        self._given = path
        self._hash: Optional[str] = None

    def open(self, make: Callable[[str, Origin], AnyModule]) -> AnyModule:
        """Load the library into the module that make(name, self) returns."""
        library, self._capsule = open_library(self._given, make, self)
        make_picklable(library)
        self._path = os.path.abspath(os.fsdecode(self._given))
        self._library = ref(library)
        constants = vars(library).get("_tenon_constants", ())
        self._parts = {
            name: ref(part)
            for name, part in vars(library).items()
            if name[:2] != "__" and name not in constants and name != "_tenon_constants"
        }
        alive, number = _alive.setdefault(self._path, {}), 0
        mine = ref(self, lambda _: alive.pop(number, None))
        while alive.setdefault(number, mine) is not mine:
            number += 1
        self._number = number
        return library

    @property
    def hash(self) -> str:
        if self._hash is None:
            try:
                self._hash = library_hash(self._capsule)
            except ValueError as error:
                raise ValueError(f"{self._path}: the library cannot be pickled: {error}") from None
        return self._hash

    def reduce(self, name: str) -> tuple[Any, ...]:
        """What __reduce__ returns for the attribute with this dotted name; "" is the library itself."""
        return unpickle, (self._path, self.hash, self._number, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Classes refer to it, so it is reached if something other than pickle stores a class with its attributes."""
        raise TypeError(f"the classes of {self._path} cannot be pickled by value, as cloudpickle does; pass the library instead")

    def is_build(self, hash: str) -> bool:
        try:
            return self.hash == hash
        except ValueError:
            return False

    def find(self, name: str) -> Any:
        """The attribute with this dotted name, or None if it is no longer alive."""
        first, *rest = name.split(".")
        part = self._parts.get(first)
        found = part() if part else None
        if found is None:
            library = self._library()
            found = getattr(library, first) if first and library is not None else library
        for attribute in rest if found is not None else ():
            found = getattr(found, attribute)
        return found


def unpickle(path: str, hash: str, number: int, name: str) -> Any:
    """Return what was pickled. Do not move or rename this function: pickles refer to it by name."""
    _check_state(path, hash, number, name)
    alive = dict(_alive.get(path, ()))  # other threads may change it
    for reference in [alive.pop(number, None), *alive.values()]:
        origin = reference() if reference else None
        found = origin.find(name) if origin and origin.is_build(hash) else None
        if found is not None:
            return found
    origin, library = _load_again(path)
    if origin.hash != hash:
        raise ImportError(
            f"{path}: the library was changed after it was pickled: the hash of its content was {hash}, and is {origin.hash} "
            "now; restore that build, or load the library and pickle again",
            name=library.__name__,
            path=path,
        )
    origin, _ = _unpickled.setdefault((path, hash), (origin, library))
    return origin.find(name)


def _load_again(path: str) -> tuple[Origin, ModuleType]:
    from tenon._load import Library

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
