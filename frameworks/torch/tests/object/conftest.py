import os
import sys

import pytest

sys.path.insert(0, os.environ["TENON_TORCH_PROBE"])

import tenon_torch_probe  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_leaked():
    before = tenon_torch_probe.leaked()
    yield
    assert tenon_torch_probe.leaked() == before
