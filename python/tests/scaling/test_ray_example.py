"""examples/ray_knn: built by the command in its first lines, and run in the cluster."""

import pathlib
import runpy

import pytest

pytest.importorskip("ray")
pytest.importorskip("numpy")

from building import ROOT, build  # noqa: E402

EXAMPLE = pathlib.Path(ROOT) / "examples/ray_knn"


@pytest.mark.usefixtures("cluster")
def test_knn(capsys):
    library = build(EXAMPLE / "kernels.c", "-O3", "-Wall", "-Wextra", "-Werror")
    runpy.run_path(str(EXAMPLE / "run.py"))["main"](str(library))
    assert "same neighbours as in one process: True" in capsys.readouterr().out
