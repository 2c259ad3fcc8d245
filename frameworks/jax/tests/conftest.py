"""JAX's tests, by what they use. They need TENON_PROBE, the folder of what CMake built, and the package.

eager/      calls of kernels.f on JAX arrays
exchange/   arrays in and out of the bridge
host/       the host of XLA's programs: calls of the target tenon1 that are written by hand
operators/  tenon.jax_ops, except for arrays on several devices
sharding/   the same on four devices

JAX is the one of this interpreter. Tests that compare several frameworks are in python/tests."""

import importlib.util
import os

from suites import left_out, needs, pytest_terminal_summary  # noqa: F401

if "jax" in os.environ.get("TENON_WITHOUT", "").split() or not importlib.util.find_spec("jax"):
    collect_ignore_glob = ["*"]
    left_out.append("left out: frameworks/jax/tests, since there is no JAX in this run")
elif not needs("frameworks/jax/tests", "TENON_PROBE"):
    collect_ignore_glob = ["*"]
