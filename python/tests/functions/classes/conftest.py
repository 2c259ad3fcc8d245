"""The library of the tests of classes, loaded once for a session."""

import pytest


@pytest.fixture(scope="session")
def boxes():
    from building import build, tenon

    return tenon.load(build("classes/boxes.c"))


@pytest.fixture(scope="session")
def bags():
    from building import build, tenon

    return tenon.load(build("classes/bags.c"))
