"""The soak itself (python/tests/soak): a short round of it, and that it notices what it is for."""

import os
import re
import subprocess
import sys

import pytest
from building import ROOT, run_python

SOAK = ROOT / "python/tests/soak"
PLANTED = f"""
import sys, time
sys.path.insert(0, {str(SOAK)!r})
import operations, soak
lost = []
def planted(world):
    time.sleep(0.0005)
    lost.append({{}})
operations.OPERATIONS[:] = [(planted, 1, ())]
soak.run_round(1, 1, 0, [])
"""


@pytest.fixture
def numpy_only(monkeypatch):
    monkeypatch.setenv("TENON_WITHOUT", "torch jax tensorflow")


def soak(*options):
    done = subprocess.run([sys.executable, str(SOAK / "soak.py"), *options], stdout=subprocess.PIPE, encoding="utf-8")
    return done.returncode, done.stdout


def test_a_short_round(numpy_only):
    code, output = soak("--seed", "7", "--steps", "400")
    assert (code, output.splitlines()[-1]) == (0, "1 rounds, 400 operations: nothing was lost")


@pytest.mark.slow
def test_a_loss_is_noticed(numpy_only):
    done = run_python(PLANTED.format("b'x' * 2000 + bytes(len(lost) % 7)"), check=False)
    assert "bytes lost with each" not in done


@pytest.mark.skipif(bool(os.environ.get("TENON_PRELOAD")), reason="a sanitizer keeps freed memory")
def test_no_loss_is_not(numpy_only):
    assert "bytes lost with each" in run_python(PLANTED.format("len(lost) % 7"))


@pytest.mark.skipif(bool(os.environ.get("TENON_PRELOAD")), reason="a sanitizer keeps freed memory")
def test_a_cache_that_fills_up_is_not_a_loss(numpy_only):
    """Not even if it grows for as long as a round: a loaded machine does little in one."""
    cache = "time.monotonic() < begin + 1 and b'x' * 20000 + bytes(len(lost) % 7)"
    program = "import time\nbegin = time.monotonic()\n" + PLANTED.format(cache)
    assert re.search("bytes lost with each", run_python(program))


def test_slow_operations_at_the_beginning_are_not_a_loss():
    """A framework that compiles fills its caches in few operations, which take half of the round."""
    grows = [(done, done * 10**5) for done in range(50)]
    settled = [(done, 50 * 10**5 + done % 3 * 4096) for done in range(1000, 10000, 300)]
    leaks = [(done, memory + done * 100) for done, memory in settled]
    code = f"import sys; sys.path.insert(0, {str(SOAK)!r}); import soak; print(*map(int, map(soak.growth, [{{}}, {{}}])))"
    assert run_python(code.format(grows + settled, grows + leaks)) == "0 100\n"


@pytest.mark.slow
def test_a_failure_names_its_seed(numpy_only, tmp_path):
    broken = PLANTED.format("1 / 0").replace("run_round(1,", "run_round(5,")
    assert "failed: planted, operation 1 of seed 5" in run_python(broken, check=False)
    code, output = soak("--seed", "5", "--steps", "3", "--only", "no_such_operation")
    assert code == 1 and re.search(r"replay: .*--seed 5 --only no_such_operation", output)
