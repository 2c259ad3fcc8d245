"""TensorFlow in a process of its own, as it clashes with other frameworks. The tests are in tensorflow_cases.py."""

import importlib.util
import os
import subprocess
import sys

import pytest


def test_in_its_own_process():
    if not importlib.util.find_spec("tensorflow"):
        pytest.skip("TensorFlow is not here")
    cases = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tensorflow_cases.py")
    command = [sys.executable, "-m", "pytest", "-q", cases]
    done = subprocess.run(
        command,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
