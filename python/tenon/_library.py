"""The contents of a loaded library, for those who make operators of its functions."""

from __future__ import annotations

from types import BuiltinFunctionType, ModuleType
from typing import Union

WHY_NO_CLASS = "it makes an object, which operators do not return"


def is_function(value: object) -> bool:
    return isinstance(value, BuiltinFunctionType) and hasattr(value.__self__, "signature")


def functions_of(library: ModuleType) -> list[BuiltinFunctionType]:
    return [value for value in vars(library).values() if is_function(value)]


def entries_of(library: ModuleType) -> list[Union[BuiltinFunctionType, type]]:
    """Its functions, then its classes. Named results are types too, but cannot be closed."""
    types = [value for value in vars(library).values() if isinstance(value, type)]
    classes = [value for value in types if hasattr(value, "closed") and not issubclass(value, tuple)]
    return [*functions_of(library), *classes]
