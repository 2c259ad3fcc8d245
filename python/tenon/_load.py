"""Opening a library of functions."""

from __future__ import annotations

from tenon._native import open_library
from tenon._results import make_picklable

TYPE_CHECKING = False  # importing typing would take longer than all the rest
if TYPE_CHECKING:
    from os import PathLike
    from types import ModuleType
    from typing import Union


def load(path: Union[str, bytes, PathLike[str], PathLike[bytes]]) -> ModuleType:
    """Open a shared library that has a TENON_MODULE, and return its functions as a module.

    Every call makes a new module with its own state. Nothing is put into sys.modules, and no library is ever closed.

    The file is opened in place. If it has been replaced by a new build since, as linkers do it, load() gives the new
    functions, and the old ones still work. Do not write into a file that is open, as `cp` does it: that damages the old
    functions, and calling one may end the process. load() then opens the new build through a copy.

    Raises OSError if the file cannot be read, and ImportError if it is not such a library.
    """
    return make_picklable(open_library(path))
