"""Pickling of named results. Their types cannot be imported, so a pickle has the names of the fields."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would take longer than everything else
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_types: dict[tuple[str, str, tuple[str, ...]], type] = {}  # the types that were loaded or unpickled last


def make_picklable(module: ModuleType) -> ModuleType:
    """Make the named results of a loaded module picklable. Return the module."""
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, tuple):
            _prepare(value)
    return module


def _prepare(made: Any) -> None:
    made.__reduce__, made.__copy__, made.__deepcopy__ = _reduce, _copy, _deepcopy
    _types[made.__module__, made.__name__, made._fields] = made


def _reduce(self: Any) -> tuple[Any, ...]:
    made = type(self)
    return rebuild, (made.__module__, made.__name__, made._fields, tuple(self))


def _copy(self: Any) -> Any:
    return self


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    from copy import deepcopy

    return type(self)(*deepcopy(tuple(self), memo))


def rebuild(module: str, name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Return the result that was pickled. Do not move or rename this function: pickles refer to it by name."""
    made: Any = getattr(sys.modules.get(module), name, None)
    if getattr(made, "_fields", None) != fields:
        made = named_type(module, name, fields)
    return made(*values)


def named_type(module: str, name: str, fields: tuple[str, ...]) -> Any:
    """Return the type of such results. Make it if it does not exist yet."""
    if (module, name, fields) not in _types:
        import collections

        make: Any = collections.namedtuple
        _prepare(make(name, fields, module=module))
    return _types[module, name, fields]
