"""Open a library of functions.

Every program that calls one imports this module. So it imports nothing that a call does not need: not `__future__`, which is
why annotations are quoted, nor typing, which would take longer than everything else.
"""

import os
import sys
from _weakref import ref

from tenon._native import open_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from types import ModuleType
    from typing import Any, Callable, Optional, TypeVar, Union

    AnyModule = TypeVar("AnyModule", bound=ModuleType)
else:
    ModuleType = type(sys)

alive: "dict[str, dict[int, ref[Origin]]]" = {}  # by path: the loads of which some part is still alive


class Origin:
    """One load of a library. Its module, functions and classes hold it; it does not hold them."""

    __slots__ = ("__weakref__", "_capsule", "_given", "_hash", "_library", "_number", "_parts", "_path")
    _capsule: object
    _library: "ref[ModuleType]"
    _number: int  # distinguishes the loads of a path that are alive
    _parts: "dict[str, ref[Any]]"

    def __init__(self, path: "Union[str, bytes, PathLike[str], PathLike[bytes]]") -> None:
        self._given = path
        self._hash: "Optional[str]" = None

    def open(self, make: "Callable[[str, Origin], AnyModule]") -> "AnyModule":
        """Load the library into the module that make(name, self) returns."""
        library, self._capsule = open_library(self._given, make, self)
        if any(isinstance(value, type) and issubclass(value, tuple) for value in vars(library).values()):
            from tenon._results import make_picklable

            make_picklable(library)
        self._path = os.path.abspath(os.fsdecode(self._given))
        self._library = ref(library)
        constants = vars(library).get("_tenon_constants", ())
        self._parts = {
            name: ref(part)
            for name, part in vars(library).items()
            if name[:2] != "__" and name not in constants and name != "_tenon_constants"
        }
        others, number = alive.setdefault(self._path, {}), 0
        mine = ref(self, lambda _: others.pop(number, None))
        while others.setdefault(number, mine) is not mine:
            number += 1
        self._number = number
        return library

    def reduce(self, name: str) -> "tuple[Any, ...]":
        """What __reduce__ returns for the attribute with this dotted name; "" is the library itself."""
        from tenon._pickle import reduce

        return reduce(self, name)

    def __reduce__(self) -> "tuple[Any, ...]":
        """Classes refer to it, so it is reached if something other than pickle stores a class with its attributes."""
        raise TypeError(f"the classes of {self._path} cannot be pickled by value, as cloudpickle does; pass the library instead")


class Library(ModuleType):
    """The functions and classes of a shared library, as tenon.load() returns them."""

    __module__ = "tenon"
    # Attributes of this class with usual names would be in the way of functions with such names.
    __slots__ = ("__origin",)

    def __init__(self, name: str, origin: Origin) -> None:
        super().__init__(name)
        self.__origin = origin

    def __reduce__(self) -> "tuple[Any, ...]":
        origin: "Optional[Origin]" = getattr(self, "_Library__origin", None)
        if origin is None:
            raise TypeError("a tenon.Library that tenon.load() did not return cannot be pickled")
        return origin.reduce("")

    def __copy__(self) -> "Library":
        return self

    def __deepcopy__(self, memo: "dict[int, Any]") -> "Library":
        return self


def load(path: "Union[str, bytes, PathLike[str], PathLike[bytes]]") -> Library:
    """Open a shared library that has a TENON_MODULE, and return its functions as a module.

    It is a library for this system: a .so, a .dylib or a .dll. The name of the file does not matter.

    Every call makes a new module with its own state. Nothing is added to sys.modules, and a library that was loaded is
    never closed.

    The file is opened in place. If a new build has replaced it since (linkers replace files), load() returns the new
    functions, and the old ones still work. Do not overwrite a file that is open (as `cp` does): that damages the old
    functions, and calling one may end the process. load() then raises OSError.

    The module, its functions and its classes can be pickled. Reading such a pickle loads the library from the same path,
    unless this process has it already, and so runs native code: read only pickles that you trust.

    Raises OSError if the file cannot be read, and ImportError if it does not have a usable TENON_MODULE.
    """
    return Origin(path).open(Library)
