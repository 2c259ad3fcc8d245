"""What a case is, and how a check says what it found."""

from __future__ import annotations

import unittest
from typing import Any, Callable, Optional

# Where the rules come from.
HEADER = "DLPack header"
PAGE = "DLPack Python specification"
STANDARD = "array API standard"
EXCHANGE = "DLPack C exchange API"

KINDS = ("producer", "consumer", "round-trip")


class Failure(AssertionError):
    """The target breaks the rule."""

    outcome = "fail"

    def __init__(self, expected: object, came: object) -> None:
        self.expected, self.came = str(expected), str(came)
        super().__init__(f"expected {self.expected}; got {self.came}")


class Leak(Failure):
    """Memory was not released."""

    outcome = "leak"


class Refused(unittest.SkipTest):
    """The target does not do what the rule describes, and the source of the rule permits that."""

    outcome = "refused"


class NotApplicable(unittest.SkipTest):
    """The target cannot make what the rule is about."""

    outcome = "n/a"


class Case:
    """A rule, and a function that checks it.

    `check` raises an AssertionError if the rule is broken, and a unittest.SkipTest, which pytest shows as a skip, if it does not
    apply or if the target does without something that is optional.
    """

    def __init__(self, id: str, kind: str, rule: str, source: str, function: Callable[..., None]) -> None:
        self.id, self.kind, self.rule, self.source = id, kind, rule, source
        self._function = function

    def __repr__(self) -> str:
        return f"<Case {self.id}>"

    def check(
        self,
        make: Callable[..., Any],
        consume: Optional[Callable[..., Any]] = None,
        *,
        device: str = "cpu",
        pointer: Optional[Callable[[Any], int]] = None,
    ) -> None:
        """Check a factory of arrays, for a case of the kind "producer"; a function from_dlpack, for "consumer"; a factory and
        the from_dlpack of another package, for "round-trip"."""
        from .parties import Consumer, Producer

        if self.kind == "producer":
            self._function(Producer(make, device))
        elif self.kind == "consumer":
            self._function(Consumer(make, device, pointer))
        else:
            if consume is None:
                raise TypeError(f"{self.id}: check() needs a factory and a function from_dlpack")
            self._function(Producer(make, device), Consumer(consume, device, pointer))


class Registry:
    """The cases of a module, in the order in which they are written."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.cases: list[Case] = []

    def __call__(self, id: str, rule: str, source: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        def add(function: Callable[..., None]) -> Callable[..., None]:
            self.cases.append(Case(id, self.kind, rule, source, function))
            return function

        return add
