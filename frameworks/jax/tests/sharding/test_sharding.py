"""jax_ops on arrays that are split over several devices: runs each file of cases/ with four virtual devices."""

import os
import pathlib
import subprocess
import sys

import jax
import pytest

CASES = pathlib.Path(__file__).resolve().parent / "cases"


@pytest.mark.parametrize("partitioner", ["shardy", "gspmd"])
@pytest.mark.parametrize("file", sorted(path.name for path in CASES.glob("test_*.py")))
def test_with_four_devices(file, partitioner):
    if partitioner == "shardy" and jax.__version_info__ < (0, 6):
        pytest.skip("Shardy was experimental")
    flags = "--xla_force_host_platform_device_count=4"
    environment = {**os.environ, "XLA_FLAGS": flags, "TENON_PARTITIONER": partitioner}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", str(CASES / file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    assert " passed" in done.stdout or "every test is skipped" in done.stdout
