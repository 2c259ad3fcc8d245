"""Type checkers read the stub, so it must describe the functions as they were compiled."""

import pathlib
import subprocess
import sys

import NAME

STUB = pathlib.Path(__file__).parents[1] / "src/NAME/STUB_FILE"


def test_stub_is_up_to_date() -> None:
    file = vars(NAME)["_kernels"].__file__
    made = subprocess.check_output([sys.executable, "-m", "tenon", "stubs", file], text=True, encoding="utf-8")
    # The first line has the name of the file, which may contain the version of Python.
    assert made.splitlines()[1:] == STUB.read_text(encoding="utf-8").splitlines()[1:], "README.md says how to update it"
