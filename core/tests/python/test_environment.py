"""No folder of the repository stands in for a package: its suites are imported by file, all with the same options."""

import importlib.machinery
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]


def test_torch_is_the_package_or_missing():
    found = importlib.machinery.PathFinder.find_spec("torch")
    assert found is None or found.origin is not None, "a namespace package, made of a folder"


@pytest.mark.parametrize("suite", ["core/tests/python", "python/tests", "frameworks/torch/tests"])
def test_each_suite_imports_by_file(tmp_path, suite):
    """The option is read from the suite's configuration, with no option on the command line."""
    plugin = tmp_path / "show_importmode.py"
    plugin.write_text("def pytest_configure(config):\n    print('mode', config.getoption('importmode'), config.rootpath)\n")
    command = [sys.executable, "-m", "pytest", "-p", plugin.stem, "--noconftest", "--markers", suite]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    shown = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert f"mode importlib {ROOT}\n" in shown
