"""tools/mutants: what it changes, and that it tells noticed mutants from survivors."""
import pathlib
import subprocess
import sys

TOOL = pathlib.Path(__file__).resolve().parents[1] / "mutants"


def mutants(*options):
    done = subprocess.run([sys.executable, TOOL, *options], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return done.stdout


def test_each_is_noticed_by_a_test_that_compares_the_sources():
    same = "test -z \"$(git status --porcelain)\""
    assert mutants("--count", "5", "--test", same) == "5 of 5 mutants noticed (100 %), seed 1\n"


def test_survivors_are_named():
    output = mutants("--count", "3", "--test", "true", "--folder", "core/src/tensor")
    assert output.count("survived: core/src/tensor/") == 3
    assert output.splitlines()[-1] == "0 of 3 mutants noticed (0 %), seed 1"


def test_those_that_do_not_compile_do_not_count():
    broken = "test -z \"$(git status --porcelain)\" || exit 99"
    assert mutants("--count", "2", "--test", broken, "--folder", "core/src/system").startswith("0 of 0 mutants")
