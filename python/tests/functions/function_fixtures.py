"""Libraries of functions, loaded once for a session. building.py says how the package is found; where it is not, each
file is skipped."""

import pytest


@pytest.fixture(scope="session")
def kernels():
    from building import build, tenon

    return tenon.load(build("kernels.c"))


@pytest.fixture(scope="session")
def lies():
    from building import build, tenon

    return tenon.load(build("lies.c"))
