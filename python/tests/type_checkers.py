"""Runs mypy and pyright. A test is skipped if the checker is not installed."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

PYRIGHT = os.path.join(os.path.dirname(sys.executable), "pyright")


def mypy(folder, *arguments):
    if not importlib.util.find_spec("mypy"):
        pytest.skip("mypy is not installed")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "--config-file", "", *arguments]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def pyright(folder, *arguments):
    # What PyPI has fetches the checker itself when it runs for the first time.
    if not os.path.exists(PYRIGHT) or subprocess.run([PYRIGHT, "--version"], stdout=subprocess.PIPE).returncode:
        pytest.skip("pyright is not installed")
    command = [PYRIGHT, "--pythonpath", sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def stubtest(folder, *arguments):
    """Compare stubs with the modules that they describe. The folder is where both are."""
    if not importlib.util.find_spec("mypy"):
        pytest.skip("mypy is not installed")
    command = [sys.executable, "-m", "mypy.stubtest", *arguments]
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MYPYPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def check_lines(texts, checked):
    """Compare the lines that end with "# error" with those that a checker complains about; no other file may have any.
    `texts` has the contents of the files by name."""
    wanted = [(file, number) for file, text in texts.items() for number, line in enumerate(text.splitlines(), 1)
              if line.endswith("# error")]
    found = re.findall(r"([^\s/:]+):(\d+).* error", checked.stdout)
    errors = "\n".join(line for line in checked.stdout.splitlines() if "error" in line)
    assert sorted({(file, int(number)) for file, number in found}) == sorted(wanted), errors
