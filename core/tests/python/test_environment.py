"""The suites run without the root of the repository on the path: its folder torch/ is not the package torch."""

import importlib.machinery
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]


def test_root_is_not_on_the_path(request):
    assert ROOT not in [pathlib.Path(folder).resolve() for folder in sys.path]
    assert request.config.getoption("importmode") == "importlib"


def test_torch_is_the_package_or_missing():
    found = importlib.machinery.PathFinder.find_spec("torch")
    assert found is None or found.origin is not None, "a namespace package, made of a folder"


@pytest.mark.parametrize("suite", ["core/tests/python", "python/tests", "torch/tests"])
def test_each_suite_imports_by_file(tmp_path, suite):
    """The option is read from the suite's configuration, with no option on the command line."""
    plugin = tmp_path / "show_importmode.py"
    plugin.write_text("def pytest_configure(config):\n    print('mode', config.getoption('importmode'), config.rootpath)\n")
    command = [sys.executable, "-m", "pytest", "-p", plugin.stem, "--noconftest", "--markers", suite]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    shown = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert f"mode importlib {ROOT / suite if suite.startswith('torch') else ROOT}\n" in shown
