"""A library for other processes."""

import pytest


@pytest.fixture(scope="session")
def library_file():
    from building import HERE, build

    return build(HERE.parent / "scaling/remote.c")
