"""Tensors and kernels under mpi4py, with two ranks."""

import os
import pathlib
import subprocess
import sys

import pytest
from programs import runs

pytest.importorskip("numpy")
pytest.importorskip("mpi4py")

# pip installs it beside the interpreter, which need not be on the PATH.
MPIEXEC = next(filter(runs, [os.path.join(os.path.dirname(sys.executable), "mpiexec"), "mpiexec"]), None)
PROGRAM = pathlib.Path(__file__).with_name("mpi_cases.py")
LIMIT = 120  # seconds: nothing may hang

pytestmark = pytest.mark.skipif(not MPIEXEC, reason="mpiexec is not installed")


@pytest.fixture
def run(library_file):
    from building import PACKAGE

    paths = [str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(case):
        command = [MPIEXEC, "-n", "2", sys.executable, "-m", "mpi4py", str(PROGRAM), str(library_file), case]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)

    return run


@pytest.mark.parametrize("case", ["messages", "reductions", "read_only", "frozen", "layouts", "windows", "names"])
def test_two_ranks(run, case):
    done = run(case)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr


def test_a_rank_that_fails_ends_the_others(run):
    done = run("failure")
    assert done.returncode != 0 and "done" not in done.stdout
    assert "ValueError: fail(): what the kernel says" in done.stderr


def test_a_rank_that_dies_ends_the_others(run):
    done = run("death")
    assert done.returncode != 0 and "done" not in done.stdout
