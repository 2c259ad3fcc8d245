"""TensorFlow's tensors in and out of the bridge, and functions that are called with them."""

import importlib.util
import os

from suites import left_out, needs, pytest_terminal_summary  # noqa: F401

if "tensorflow" in os.environ.get("TENON_WITHOUT", "").split() or not importlib.util.find_spec("tensorflow"):
    collect_ignore_glob = ["*"]
    left_out.append("left out: frameworks/tensorflow/tests, since there is no tensorflow in this run")
elif needs("frameworks/tensorflow/tests", "TENON_PROBE"):
    from bridge_suite import nothing_left, pytest_sessionfinish, released  # noqa: F401
    from function_fixtures import kernels  # noqa: F401
else:
    collect_ignore_glob = ["*"]
