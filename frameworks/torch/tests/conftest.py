"""TENON_TORCH_PROBE names the folder with the built tenon_torch_probe. torch is the one of this interpreter."""

import os
import sys

import pytest

if os.environ.get("TENON_TORCH_PROBE"):
    sys.path.insert(0, os.environ["TENON_TORCH_PROBE"])

import tenon_torch_probe  # noqa: E402

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def nothing_leaked():
    before = tenon_torch_probe.leaked()
    yield
    assert tenon_torch_probe.leaked() == before
