"""Helpers for the tests of hostile producers. Each outcome is checked twice, for a borrow and for an import."""

import gc
import sys

import pytest
import tenon_hostile as hostile
import tenon_probe as probe


class Surprise(Exception):
    """An exception that no other code raises."""


EXCEPTIONS = [Surprise, TypeError, AttributeError, ZeroDivisionError, KeyboardInterrupt, SystemExit, MemoryError,
              GeneratorExit, StopIteration]
"""Each reaches the user unchanged."""

REFUSALS = [BufferError, RuntimeError, ValueError]
"""Exceptions by which producers refuse: each becomes the cause of a BufferError."""


def outstanding():
    made, deleted = hostile.counts()
    return made - deleted


def settled(before):
    """Assert that everything made since then is deleted, if necessary by a garbage collection."""
    if outstanding() != before:
        gc.collect()
    assert outstanding() == before


def taken(make, flags=0):
    """Assert that borrow and import accept it, and that each struct is deleted exactly once, at the end. Return the
    description of the borrow."""
    before = outstanding()
    thing = make()
    references = sys.getrefcount(thing)
    view = probe.borrow(thing, flags)
    assert sys.getrefcount(thing) == references
    del thing
    thing = make()
    handle = probe.import_(thing, flags)
    same = {key: value for key, value in probe.describe(handle).items() if key != "data"}
    assert same == {key: value for key, value in view.items() if key != "data"}
    del handle
    assert sys.getrefcount(thing) == references
    del thing
    settled(before)
    return view


def refused(make, kind, text="", flags=0, cause=None):
    """Assert that borrow and import refuse it with exactly this exception, keep nothing, and delete nothing twice.
    Return the exception."""
    before = outstanding()
    for way in (probe.borrow, probe.import_):
        thing = make()
        references = sys.getrefcount(thing)
        with pytest.raises(BaseException) as caught:
            way(thing, flags)
        error = caught.value
        assert type(error) is kind, repr(error)
        assert text in str(error)
        assert type(error.__cause__) is (cause or type(None)), repr(error.__cause__)
        error.__traceback__ = None
        if error.__cause__ is not None:
            error.__cause__.__traceback__ = None
        caught = None
        assert sys.getrefcount(thing) == references
        del thing
    settled(before)
    return error


def producer(method, **attributes):
    """An object of a new class whose __dlpack__ is `method`."""
    return type("Producer", (), {"__dlpack__": method, **attributes})()


def answering(**plan):
    """An object whose __dlpack__ returns a capsule made by the plan."""
    return lambda: producer(lambda self, **keywords: hostile.capsule(**plan))
