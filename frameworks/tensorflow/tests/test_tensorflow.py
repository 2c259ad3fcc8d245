"""TensorFlow in a process of its own, as it clashes with other frameworks; in one, since its import takes seconds. The
tests are in tensorflow_cases.py and tensorflow_function_cases.py."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
CASES = [HERE / "tensorflow_cases.py", HERE / "tensorflow_function_cases.py"]


def test_in_its_own_process():
    if not importlib.util.find_spec("tensorflow"):
        pytest.skip("TensorFlow is not installed")
    # TensorFlow imports these if it can, and it takes half as long again.
    without = " ".join(["torch", "jax", "keras", os.environ.get("TENON_WITHOUT", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *map(str, CASES)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TENON_WITHOUT": without},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
