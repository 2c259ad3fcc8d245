"""examples/gallery: each source compiles without a warning. tools/check-docs runs the programs, and compares what they print."""

import pathlib
import subprocess

import pytest
from programs import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
GALLERY = ROOT / "examples/gallery"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
COMPILERS = {("gcc", ".c"): "-std=c11", ("clang", ".c"): "-std=c11", ("g++", ".cpp"): "-std=c++17", ("clang++", ".cpp"): "-std=c++17"}


@pytest.mark.parametrize("compiler, suffix", COMPILERS)
def test_compiles_without_a_warning(compiler, suffix):
    if not runs(compiler):
        pytest.skip(f"{compiler} is not installed, or does not run")
    command = [compiler, COMPILERS[compiler, suffix], *STRICT, "-fsyntax-only", f"-I{ROOT / 'core/include'}"]
    has_zstd = subprocess.run([compiler, "-E", "-"], input=b"#include <zstd.h>\n", capture_output=True).returncode == 0
    sources = [path for path in GALLERY.glob(f"*{suffix}") if has_zstd or path.name != "compress.c"]
    assert sources
    for source in sources:
        subprocess.run([*command, str(source)], check=True)


def test_the_page_runs_each_program():
    page = (ROOT / "docs/examples.md").read_text()
    for program in GALLERY.glob("*.py"):
        assert f"python3 examples/gallery/{program.name}\n" in page
