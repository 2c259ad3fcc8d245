"""Which suites run. Each needs something that was built, and a variable says where that is. A folder of tests whose variable
is not set is left out of the run, and the end of the run says so.

TENON_LIBRARY       core/tests/python: the file libtenon.so, which CMake builds
TENON_PROBE         python/tests and frameworks/torch/tests/{exchange,functions,operators}: the folder of the probes, which CMake builds
TENON_PACKAGE       with it: the folder with the package `tenon`, if that is not the installed one
TENON_TORCH_PROBE   frameworks/torch/tests/object: the folder of tenon_torch_probe, which CMake builds"""

import os

left_out = []


def needs(folder, variable):
    """Whether the variable is set. If not, the run will say that the folder is left out."""
    if os.environ.get(variable):
        return True
    left_out.append(f"left out: {folder}, since {variable} is not set")
    return False


def pytest_terminal_summary(terminalreporter):
    """For each conftest.py; every line is printed once."""
    while left_out:
        terminalreporter.write_line(left_out.pop(0))
