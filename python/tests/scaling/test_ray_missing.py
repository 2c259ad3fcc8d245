"""tenon.ray_ops without Ray."""

import sys

import pytest

import tenon


def test_without_ray(remote, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="pip install ray"):
        tenon.ray_ops(remote)
