"""What the Python files of the frameworks do for the rest of the package.

A framework may have a module tenon._NAME_arrays with these functions, all of which are optional:

    reducer() -> (type, function)   the type of its arrays, and how one is pickled (see tenon._reduce)
    dtype_name(dtype) -> str        the name of a dtype of its own; None if it is not one
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from tenon._native import frameworks


def loaded() -> Iterator[ModuleType]:
    """The modules of the frameworks that this process has imported."""
    for name in frameworks:
        if name in sys.modules:
            module = f"tenon._{name}_arrays"
            try:
                yield import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module:
                    raise
