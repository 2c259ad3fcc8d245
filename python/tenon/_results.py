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
    made.__reduce__ = _reduce
    _types[made.__module__, made.__name__, made._fields] = made


def _reduce(self: Any) -> tuple[Any, ...]:
    return _Maker(type(self)), tuple(self)


class _Maker:
    """The type of results, for copies. In a pickle it is replaced by a call of find_type()."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def __call__(self, *values: Any) -> Any:
        return self.made(*values)

    def __reduce__(self) -> tuple[Any, ...]:
        return find_type, (self.made.__module__, self.made.__name__, self.made._fields)


# Pickles refer to the next two functions by name: do not move or rename them.


def find_type(module: str, name: str, fields: tuple[str, ...]) -> Any:
    """Return the type of results that were pickled."""
    made: Any = getattr(sys.modules.get(module), name, None)
    return made if getattr(made, "_fields", None) == fields else named_type(module, name, fields)


def rebuild(module: str, name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Return a result that was pickled by an older version."""
    return find_type(module, name, fields)(*values)


def named_type(module: str, name: str, fields: tuple[str, ...]) -> Any:
    """Return the type of such results. Make it if it does not exist yet."""
    if (module, name, fields) not in _types:
        import collections

        make: Any = collections.namedtuple
        _prepare(make(name, fields, module=module))
    return _types[module, name, fields]
