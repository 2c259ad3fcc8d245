"""Open a library of functions."""

from __future__ import annotations

import sys

from tenon._pickle import Origin

TYPE_CHECKING = False  # importing typing would take longer than everything else
if TYPE_CHECKING:
    from os import PathLike
    from types import ModuleType
    from typing import Any, Optional, Union
else:
    ModuleType = type(sys)


class Library(ModuleType):
    """The functions and classes of a shared library, as tenon.load() returns them."""

    __module__ = "tenon"
    # Attributes of this class with usual names would be in the way of functions with such names.
    __slots__ = ("__origin",)

    def __init__(self, name: str, origin: Origin) -> None:
        super().__init__(name)
        self.__origin = origin

    def __reduce__(self) -> tuple[Any, ...]:
        origin: Optional[Origin] = getattr(self, "_Library__origin", None)
        if origin is None:
            raise TypeError("a tenon.Library that tenon.load() did not return cannot be pickled")
        return origin.reduce("")

    def __copy__(self) -> Library:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Library:
        return self


def load(path: Union[str, bytes, PathLike[str], PathLike[bytes]]) -> Library:
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
