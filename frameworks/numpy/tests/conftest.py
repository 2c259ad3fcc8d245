"""NumPy's arrays in and out of the bridge, by tenon_probe. Tests that compare several frameworks are in python/tests."""

import importlib.util
import os

from suites import left_out, needs, pytest_terminal_summary  # noqa: F401

if "numpy" in os.environ.get("TENON_WITHOUT", "").split() or not importlib.util.find_spec("numpy"):
    collect_ignore_glob = ["*"]
    left_out.append("left out: frameworks/numpy/tests, since there is no numpy in this run")
elif needs("frameworks/numpy/tests", "TENON_PROBE"):
    from bridge_suite import nothing_left, pytest_sessionfinish, released  # noqa: F401
else:
    collect_ignore_glob = ["*"]
