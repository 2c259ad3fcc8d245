"""Opening a library of functions."""

import os
from types import ModuleType
from typing import Union

from tenon._native import open_library
from tenon._results import make_picklable


def load(path: Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]) -> ModuleType:
    """Open a shared library that has a TENON_MODULE, and return its functions as a module.

    Every call makes a new module with its own state. Nothing is put into sys.modules, and no library is ever closed.

    The file is opened in place. If it has been replaced by a new build since, as linkers do it, load() gives the new
    functions, and the old ones still work. Do not write into a file that is open, as `cp` does it: that damages the old
    functions, and calling one may end the process. load() then opens the new build through a copy.

    Raises OSError if the file cannot be read, and ImportError if it is not such a library.
    """
    return make_picklable(open_library(path))
