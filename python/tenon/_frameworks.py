"""What the Python files of the frameworks do for the rest of the package.

A framework may have a module tenon._NAME_arrays with these functions, all of which are optional:

    reducer() -> (type, function)   the type of its arrays, and how one is pickled (see tenon._reduce)
    dtype_name(dtype) -> str        the name of a dtype of its own; None if it is not one
    why_no_struct() -> str          for doctor: why the struct of its arrays is not read
    operators() -> str              for doctor: the state of its operators
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Callable, Optional

from tenon._native import frameworks


def part_of(name: str, function: str) -> Optional[Callable[..., Any]]:
    """That function of a framework, or None if it does not have one, or this build does not have the framework."""
    module = f"tenon._{name}_arrays"
    try:
        return getattr(import_module(module), function, None) if name in frameworks else None
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None


def parts(function: str) -> Iterator[Callable[..., Any]]:
    """That function of each framework which this process has imported."""
    for name in frameworks:
        found = part_of(name, function) if sys.modules.get(name) else None  # None: it must not be imported
        if found:
            yield found
