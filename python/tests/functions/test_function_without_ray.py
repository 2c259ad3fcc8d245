"""tenon.ray_ops without Ray. Its other tests are in python/tests/scaling."""

import sys

import pytest

import tenon


def test_without_ray(kernels, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"^tenon.ray_ops\(\) needs Ray, which is not installed; run: pip install ray$"):
        tenon.ray_ops(kernels)
