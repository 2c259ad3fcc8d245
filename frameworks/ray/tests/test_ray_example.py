"""examples/ray_knn: built by the command in its first lines, and run in the cluster."""

import pathlib
import runpy

import pytest

pytest.importorskip("ray")
numpy = pytest.importorskip("numpy")

from building import ROOT, build  # noqa: E402

import tenon  # noqa: E402

EXAMPLE = pathlib.Path(ROOT) / "examples/ray_knn"


def build_kernels():
    return build(EXAMPLE / "kernels.c", "-O3", "-Wall", "-Wextra", "-Werror")


def test_rows_that_are_not_numbers():
    """They are no neighbours, and no index is left uninitialised."""
    rows = numpy.array([[numpy.nan], [3], [3e38], [1]], "float32")
    found = tenon.load(build_kernels()).nearest(rows, numpy.array([[0], [-3e38]], "float32"), k=3)
    assert found.index.tolist() == [[3, 1, -1], [-1, -1, -1]]
    assert found.distance.tolist() == [[1, 9, float("inf")], [float("inf")] * 3]


@pytest.mark.usefixtures("cluster")
def test_knn(capsys):
    library = build_kernels()
    runpy.run_path(str(EXAMPLE / "run.py"))["main"](str(library))
    assert "same neighbours as in one process: True" in capsys.readouterr().out
