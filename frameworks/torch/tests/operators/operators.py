"""What the tests of tenon.torch_ops share: torch, the package, and libraries that are compiled for a test.

The package is an installed `tenon`, or the one in the folder that TENON_PACKAGE names."""

import os
import pathlib
import shlex
import subprocess

import pytest
from programs import runs

torch = pytest.importorskip("torch")
tenon = pytest.importorskip("tenon", reason="the package is not installed; pip install .")
COMPILER = shlex.split(os.environ.get("CC", "cc"))
if not runs(COMPILER[0]):
    pytest.skip("there is no C compiler that runs", allow_module_level=True)

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]


def compiled_library(folder, source, *options):
    file = folder / "kernels.so"
    flags = ["-O1", "-shared", "-fPIC", f"-I{ROOT / 'core/include'}"]
    subprocess.run([*COMPILER, *flags, str(source), "-o", str(file), *options], check=True)
    return file
