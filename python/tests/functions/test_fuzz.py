"""Random producers and calls from bytes (python/tests/fuzz): saved inputs, and some thousands from fixed seeds."""

import os
import sys

import pytest
from building import ROOT, run_python

FUZZ = ROOT / "python/tests/fuzz"
CODE = f"""
import pathlib, random, sys
sys.path.insert(0, {str(FUZZ)!r})
import structured
inputs = [file.read_bytes() for file in sorted(pathlib.Path({str(FUZZ / "corpus")!r}).iterdir())]
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    source = random.Random(seed)
    inputs.append(bytes(source.randrange(256) for _ in range(source.randrange(400))))
for data in inputs:
    try:
        structured.run(data)
    except BaseException:
        print("input:", data.hex())
        raise
print(len(inputs))
"""


def run(first, last):
    return int(run_python(CODE, first, last, env={**os.environ, "TENON_WITHOUT": "torch jax tensorflow", "TENON_DEBUG": "0"}))


@pytest.mark.skipif(not (FUZZ / "corpus").is_dir(), reason="the saved inputs are not here")
def test_saved_inputs_and_random_ones():
    count = 3000 * int(os.environ.get("TENON_LONGER", "1"))
    assert run(0, count) == count + len(list((FUZZ / "corpus").iterdir()))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits it")
def test_a_damaged_pickle_gets_little_memory():
    """This one has an object with the number 2^28."""
    code = f"""
    import sys
    sys.path.insert(0, {str(FUZZ)!r})
    import structured
    try:
        structured.unpickle(b"\\x80\\x04Nr\\0\\0\\0\\x10.")
    except MemoryError:
        print("refused")
    """
    assert run_python(code, env={**os.environ, "TENON_WITHOUT": "torch jax tensorflow"}) == "refused\n"


@pytest.mark.slow
def test_what_it_checks_is_checked():
    """A deleter that runs twice, and an exception that is not allowed, end the run."""
    twice = CODE.replace("for data in inputs:", "structured.Capsules.check = lambda self, took: 1 / 0\nfor data in inputs:")
    assert run_python(twice, 0, 50, check=False).startswith("input:")
