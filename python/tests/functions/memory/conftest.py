import gc

import pytest
from building import build, tenon


@pytest.fixture(scope="session")
def library():
    return tenon.load(build("memory/memory.c", "-pthread"))


@pytest.fixture
def memory(library):
    """The functions of memory.c; what a test was given is released exactly once."""
    before = library.counts()
    yield library
    gc.collect()
    made, released = (after - earlier for after, earlier in zip(library.counts(), before))
    assert made == released
