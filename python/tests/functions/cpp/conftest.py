"""The libraries of the tests of function.hpp, loaded once for a session."""

import gc

import pytest
from building import build_cpp, tenon

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


@pytest.fixture(scope="session")
def library():
    return tenon.load(build_cpp("cpp/kinds.cpp", *WARNINGS))


@pytest.fixture(scope="session")
def checked():
    return tenon.load(build_cpp("cpp/kinds.cpp", "-DTENON_CHECK_INDICES"))


@pytest.fixture
def kinds(library):
    """The functions of kinds.cpp; all memory and all objects of a test are released at its end."""
    before = library.counts()
    yield library
    gc.collect()
    after = library.counts()
    assert after.made - before.made == after.released - before.released
    assert after.tables == before.tables
