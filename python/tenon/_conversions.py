"""How many arguments were converted because their parameter is "convert"."""

from __future__ import annotations

from typing import Any, Optional


def conversions(function: Any, /) -> int:
    """Return how many arguments the calls of a function have converted so far.

    `function` is a function of a library, a method, or a class, which stands for its constructor."""
    found = getattr(function, "__func__", function)
    if isinstance(found, type):
        found = found.__new__
    found = getattr(found, "function", None) or getattr(found, "__self__", None)
    count: Optional[int] = getattr(found, "conversions", None)
    if count is None:
        raise TypeError(f"tenon.conversions(): expected a function of a library, got {type(function)}")
    return count
