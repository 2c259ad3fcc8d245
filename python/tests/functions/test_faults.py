"""The n-th allocation and the n-th system call of ours fail, for every n, in everything that the soak can do (python/tests/faults)."""

import os
import platform
import subprocess
import sys

import pytest
from building import COMPILER, FOLDER, ROOT

FAULTS = ROOT / "python/tests/faults"
pytestmark = [
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the interposed functions are those of glibc"),
    pytest.mark.skipif(bool(os.environ.get("TENON_PRELOAD")), reason="a sanitizer has its own allocator"),
]


@pytest.fixture(scope="module")
def faults():
    library = FOLDER / "faults.so"
    subprocess.run([*COMPILER, "-std=c11", "-O1", "-shared", "-fPIC", FAULTS / "faults.c", "-o", library, "-ldl"], check=True)
    return library


def words_of(faults, script, *arguments):
    """The words of the last line that a script prints with the interposed functions."""
    env = {**os.environ, "LD_PRELOAD": str(faults), "TENON_WITHOUT": "torch jax tensorflow", "TENON_DEBUG": "1"}
    command = [sys.executable, "-X", "faulthandler", FAULTS / script, *arguments]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-4000:]
    assert "still alive" not in done.stderr
    return done.stdout.splitlines()[-1].split()


def sweep(faults, kind, *operations):
    words = words_of(faults, "faulty.py", kind, *operations)
    return int(words[0]), int(words[2])


def test_memory(faults):
    operations, failures = sweep(faults, "memory")
    assert operations > 20 and failures > 100


def test_system_calls(faults):
    operations, failures = sweep(faults, "system", "shared_tensors", "load", "reload")
    assert operations == 3 and failures > 60


def test_killed_in_a_hand_over(faults):
    """Either process, at each line and at each system call; at every fourth unless it is the part `faults`."""
    step = 1 if "TENON_FAULTS" in os.environ else 4
    assert int(words_of(faults, "killed.py", str(step))[0]) >= 200 / step


@pytest.mark.skipif("TENON_FAULTS" not in os.environ, reason="the part `faults` of make test-more does this")
def test_memory_of_python(faults):
    pytest.importorskip("_testcapi")
    operations, failures = sweep(faults, "python")
    assert operations > 20 and failures > 200
