"""tools/report counts what CTest really writes: passed, failed, skipped, and what a failed fixture kept from running."""

import pathlib
import subprocess
import sys

import pytest
from programs import runs

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = """
cmake_minimum_required(VERSION 3.21)
project(Report NONE)
enable_testing()
function(add name code)
    add_test(NAME ${name} COMMAND sh -c "echo 'left out: something'; exit ${code}")
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 COST 50 ${ARGN})
endfunction()
"""


def report(folder, tests, listed=""):
    """The lines that tools/report prints, and its exit status."""
    (folder / "CMakeLists.txt").write_text(PROJECT + tests)
    (folder / "results").mkdir()
    (folder / "results/parts").write_text(listed)
    for command in (
        "cmake -S . -B build >/dev/null",
        "ctest --test-dir build --show-only=json-v1 >results/dev.json",
        "ctest --test-dir build --output-junit ../results/dev.xml -j 2 >/dev/null || true",
    ):
        subprocess.run(["sh", "-c", command], cwd=folder, check=True)
    command = [sys.executable, ROOT / "tools/report", folder / "results", "7"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines(), done.returncode


needs_cmake = pytest.mark.skipif(not runs("cmake"), reason="cmake does not run")


@needs_cmake
def test_all_passed(tmp_path):
    lines, status = report(tmp_path, "add(one 0)\nadd(test_a 0)\nadd(test_b 0)\nadd(replay_c 0)\nadd(two 77)\n",
                           "setup 0 95 90\n")
    assert status == 0
    assert lines[-3:] == ["skipped: two", "parts, in 7 s:", "3 passed, 0 failed, 1 skipped"]
    assert "one: left out: something" in lines and "two: left out: something" in lines
    assert [line.split() for line in lines if line.startswith(("setup", "gcc"))] == [
        ["setup", "95", "90", "over", "its", "budget"], ["gcc", "0", "10"]]


@needs_cmake
@pytest.mark.parametrize("tests, names", [
    ("add(one 0)\nadd(two 3)\n", "two"),
    ("add(test_a 0)\nadd(test_b 3)\n", "gcc"),
    ("add(one 3 FIXTURES_SETUP f)\nadd(two 0 FIXTURES_REQUIRED f)\n", "one two"),
    ("add_test(NAME one COMMAND tenon-has-no-such-program)\n", "one"),
    ("", "ctest_dev"),
])
def test_failures_are_counted(tmp_path, tests, names):
    lines, status = report(tmp_path, tests)
    assert status == 1
    assert f"FAILED: {names}" in lines and f", {len(names.split())} failed, 0 skipped" in lines[-1]


@needs_cmake
def test_a_failed_set_up_is_counted(tmp_path):
    lines, status = report(tmp_path, "add(one 0)\n", "setup 1 3 90\n")
    assert (lines[-1], status) == ("1 passed, 1 failed, 0 skipped", 1)
