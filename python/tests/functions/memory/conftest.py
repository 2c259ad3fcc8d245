import gc
import time

import pytest
from building import build, tenon

SECONDS = 60  # JAX releases what a computation reads on another thread, a moment later


@pytest.fixture(scope="session")
def library():
    return tenon.load(build("memory/memory.c", "-pthread"))


@pytest.fixture
def memory(library):
    """The functions of memory.c; what a test was given is released exactly once."""
    before = library.counts()
    yield library
    end = time.monotonic() + SECONDS
    while True:
        gc.collect()
        made, released = (after - earlier for after, earlier in zip(library.counts(), before))
        if made == released or time.monotonic() > end:
            break
        time.sleep(0.01)
    assert made == released
