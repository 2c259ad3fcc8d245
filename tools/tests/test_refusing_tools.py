"""A tool on the PATH that refuses to run, as a version manager's shim does: it is done without, and the reason is
printed."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from programs import runs

ROOT = pathlib.Path(__file__).parents[2]
TOOLS = ["uv", "rustc", "cargo", "mix", "elixir", "erl", "clang", "clang++", "clang-format", "clang-tidy", "cppcheck",
         "valgrind", "pkg-config", "gfortran", "nvcc", "nvidia-smi", "strip"]
SHIM = "#!/bin/sh\necho \"no version is set for command ${0##*/}\" >&2\nexit 126\n"


@pytest.fixture
def shims(tmp_path, monkeypatch):
    """The PATH begins with a folder in which each of the tools refuses."""
    folder = tmp_path / "shims"
    folder.mkdir()
    for name in TOOLS:
        (folder / name).write_text(SHIM)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def bash(code, *arguments, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": ROOT, **options}
    return subprocess.run(["bash", "-c", code, "bash", *map(str, arguments)], **options)


@pytest.mark.parametrize("tool", TOOLS)
def test_scripts_skip(shims, tool):
    done = bash('. tools/common.sh; has "$1" && echo found; need "$1"', tool)
    assert (done.returncode, done.stdout) == (
        77,
        f"skipped: {tool} is on the PATH, but does not run: no version is set for command {tool}\n",
    )


def test_scripts_use_what_runs():
    assert bash(". tools/common.sh; has bash && need bash").returncode == 0
    done = bash(". tools/common.sh; need tenon-has-no-such-tool some-package")
    assert (done.returncode, done.stdout) == (
        77, "skipped: tenon-has-no-such-tool is not installed; install some-package\n")


def test_parts_are_skipped(shims, tmp_path):
    """What `make test` runs."""
    done = bash('tools/test "$1" format tidy cppcheck elixir_asan', sys.executable,
                env={**os.environ, "TENON_BUILD": str(tmp_path)})
    assert done.returncode == 0 and "0 passed, 0 failed, 4 skipped" in done.stdout, done.stdout


@pytest.mark.parametrize("script", ["check-rust", "package-rust"])
def test_crates_that_cannot_be_downloaded(shims, tmp_path, script):
    (shims / "cargo").write_text('#!/bin/sh\n[ "$1" = --version ]\n')
    done = bash(f'tools/{script} "$1"', sys.executable, env={**os.environ, "CARGO_TARGET_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (77, "skipped: the crates that are used cannot be downloaded\n")


def test_documentation_is_skipped_without_git(shims, tmp_path):
    """And in a folder that git does not know, as an unpacked archive."""
    script = "tools/check-docs"
    (shims / "git").write_text(SHIM)
    (shims / "git").chmod(0o755)
    done = bash('"$1" "$2"', sys.executable, script)
    assert (done.returncode, done.stdout) == (
        77, "skipped: git does not list the files of this folder: no version is set for command git\n")
    done = bash('PATH="$3" "$1" "$2"', sys.executable, script, tmp_path / "nothing")
    assert (done.returncode, done.stdout) == (
        77, "skipped: git does not list the files of this folder: No such file or directory\n")
    (shims / "git").unlink()
    done = bash('"$1" "$2"', sys.executable, ROOT / script, cwd=tmp_path)
    assert done.returncode == 77 and "not a git repository" in done.stdout, done.stdout


def test_headers_are_checked_without_clang(shims, tmp_path):
    """By compilers that only count here: `make check` has them compile."""
    for name in ("gcc", "g++"):
        (shims / name).write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/{name}\n')
        (shims / name).chmod(0o755)
    done = bash("tools/check-headers", env={**os.environ, "PYTHON": sys.executable})
    assert done.returncode == 0 and "left out: clang++" in done.stdout and "left out: nvcc" in done.stdout, done.stdout
    for name in ("gcc", "g++"):
        assert "-fsyntax-only" in (tmp_path / name).read_text()


# What `python -m venv` and pip would do: an environment with a uv, which makes another.
PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] || exec {python} "$@"
mkdir -p "$3/bin"
printf '#!/bin/sh\\nexit 0\\n' >"$3/bin/python"
printf '#!/bin/sh\\n[ "$1" != venv ] || {{ mkdir -p "$5/bin" && ln -s {python} "$5/bin/python"; }}\\n' >"$3/bin/uv"
chmod +x "$3/bin/python" "$3/bin/uv"
"""


def test_environment_is_made_without_uv(shims, tmp_path):
    """What `make demo` and `make bench` begin with."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    (tmp_path / "python").write_text(PYTHON.format(python=sys.executable))
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "requirements.txt").write_text("numpy\n")
    done = bash('tools/setup "$PWD/python" venv made requirements.txt', cwd=tmp_path)
    assert done.returncode == 0 and "in made" in done.stdout, done.stdout
    assert (tmp_path / ".venv-boot/bin/uv").exists()
    # An environment that has a uv of its own, which is on the PATH, is made again by another one.
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/uv").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / ".venv/bin/uv").chmod(0o755)
    (shims / "uv").unlink()
    done = bash('tools/setup "$PWD/python" venv .venv requirements.txt', cwd=tmp_path)
    assert done.returncode == 0 and "in .venv" in done.stdout, done.stdout


BENCH = """
import sys
sys.path.insert(0, "bench")
import peer_builds, instructions, machine
for tool in ["cargo", "tenon-has-no-such-tool", "bash"]:
    try:
        peer_builds.need(tool)
    except peer_builds.NotHere as reason:
        print(reason)
print(instructions.count(sys.executable, None, print)[2])
described = machine.describe(sys.executable)
print([described[name] for name in ("rust", "gpu", "erlang")])
"""


def test_benchmarks_do_without(shims):
    done = subprocess.run([sys.executable, "-B", "-c", BENCH], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.splitlines() == [
        "cargo is on the PATH, but does not run: no version is set for command cargo",
        "tenon-has-no-such-tool is not installed",
        "valgrind is on the PATH, but does not run: no version is set for command valgrind",
        "['', '', '']",
    ]


def test_tests_do_without(shims):
    assert not any(map(runs, TOOLS)) and not runs("tenon-has-no-such-tool")
    assert runs("bash")


def test_nothing_only_looks_a_tool_up():
    """`command -v` and shutil.which find a shim that refuses. What asks a tool afterwards is named here."""
    asks = {"tools/common.sh", "tools/setup", "examples/torch_ops/run.py", str(pathlib.Path(__file__).relative_to(ROOT))}
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
    looks = {name for name in files if (ROOT / name).is_file() and name.startswith(("tools", "bench", "python", "frameworks", "examples", "noxfile"))
             and re.search(rb"command -v|shutil\.which|\bwhich\(", (ROOT / name).read_bytes())}
    assert looks <= asks


def test_the_set_up_without_a_network(tmp_path, shims, monkeypatch):
    """One line with the cause, and not pip's own."""
    shutil.copytree(ROOT / "tools", tmp_path / "clone/tools", ignore=shutil.ignore_patterns("tests", "__pycache__"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    done = subprocess.run(["tools/setup", sys.executable, "venv", ".venv-x", "tools/requirements-lite.txt"],
                          cwd=tmp_path / "clone", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 1, done.stdout
    assert "(pip could not download uv: ERROR: " in done.stdout and "needs the network" in done.stdout
