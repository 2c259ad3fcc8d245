"""The setup of the suites."""

import os
import pathlib
import subprocess
import sys

import pytest


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_a_process_of_a_test_can_be_interrupted_in_a_job_that_ignores_it():
    child = "import signal; signal.raise_signal(signal.SIGINT); print('was not interrupted')"
    code = f"import bridge_suite, subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", code]
    paths = [str(pathlib.Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "" and "KeyboardInterrupt" in done.stderr
