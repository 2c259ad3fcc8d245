"""Open a library of functions."""

from __future__ import annotations

from tenon._native import open_library
from tenon._results import make_picklable

TYPE_CHECKING = False  # importing typing would take longer than everything else
if TYPE_CHECKING:
    from os import PathLike
    from types import ModuleType
    from typing import Union


def load(path: Union[str, bytes, PathLike[str], PathLike[bytes]]) -> ModuleType:
    """Open a shared library that has a TENON_MODULE, and return its functions as a module.

    Every call makes a new module with its own state. Nothing is added to sys.modules, and no library is ever closed.

    The file is opened in place. If a new build has replaced it since (linkers replace files), load() returns the new
    functions, and the old ones still work. Do not overwrite a file that is open (as `cp` does): that damages the old
    functions, and calling one may end the process. load() then opens the new build through a copy.

    Raises OSError if the file cannot be read, and ImportError if it does not have a usable TENON_MODULE.
    """
    return make_picklable(open_library(path))
