"""tenon.ray_ops without Ray. Its other tests are in python/tests/scaling."""

import os
import stat
import sys

import pytest

import tenon
from tenon import _cache, _ray_worker


def test_without_ray(kernels, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"^tenon.ray_ops\(\) needs Ray, which is not installed; run: pip install ray$"):
        tenon.ray_ops(kernels)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no modes")
def test_the_folder_of_a_node(tmp_path, monkeypatch):
    monkeypatch.setenv("TENON_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache/ray"
    assert _ray_worker._node_folder() == str(folder) and stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)
    assert _ray_worker._node_folder() == str(folder) and stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.rmdir()
    folder.symlink_to(tmp_path)  # it may lead to a folder of another user
    with pytest.raises(_cache.Unusable):
        _ray_worker._node_folder()
