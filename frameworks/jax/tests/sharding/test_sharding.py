"""jax_ops on arrays that are split over several devices: runs cases/ in a process with four virtual devices."""

import os
import pathlib
import subprocess
import sys

import jax
import pytest

CASES = pathlib.Path(__file__).resolve().parent / "cases"


def run(cases, partitioner, **environment):
    flags = "--xla_force_host_platform_device_count=4"
    environment = {**os.environ, "XLA_FLAGS": flags, "TENON_PARTITIONER": partitioner, **environment}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", str(cases)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0 and " passed" in done.stdout


@pytest.mark.parametrize("partitioner", ["shardy", "gspmd"])
def test_with_four_devices(partitioner):
    if partitioner == "shardy" and jax.__version_info__ < (0, 6):
        pytest.skip("Shardy was experimental")
    if partitioner == "gspmd" and jax.__version_info__ >= (0, 7) and "TENON_CHANCE" not in os.environ:
        pytest.skip("GSPMD is deprecated; only `make test-all` runs it")
    run(CASES, partitioner)


@pytest.mark.slow
def test_many_compositions():
    if jax.__version_info__ < (0, 6):
        pytest.skip("Shardy was experimental")
    run(CASES / "test_compositions.py", "shardy", TENON_COMPOSITIONS="200")
