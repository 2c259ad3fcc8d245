"""The example of docs/adding-a-framework.md. tools/check-frameworks --example builds it into a package and runs it."""

import os
import re
import shlex
import subprocess
import sysconfig

import pytest
from scripts import ROOT, load

FOLDER = ROOT / "examples/framework"
SOURCES = sorted(FOLDER.rglob("*.c"))
FILES = [*SOURCES, *FOLDER.rglob("*.h")]
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name if path.parent == FOLDER else f"array/{path.name}")
def test_it_compiles(source):
    include = ["-isystem", sysconfig.get_path("include"), f"-I{ROOT / 'core/include'}", f"-I{ROOT / 'python/include'}"]
    command = [*shlex.split(os.environ.get("CC", "cc")), "-fsyntax-only", *STRICT, *include, str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_is_short():
    assert len(SOURCES) == 2 and sum(len(path.read_text().splitlines()) for path in FILES) < 150


def test_the_page_shows_the_files():
    page = (ROOT / "docs/adding-a-framework.md").read_text()
    blocks = re.findall(r"^```c\n(.*?)^```$", page, re.M | re.S)
    assert blocks == [(FOLDER / "array/tinyarray.h").read_text(), (FOLDER / "array/tinyarray.c").read_text()]


def test_it_is_added_to_a_copy(tmp_path):
    checker = load("tools/check-frameworks")
    checker.copy_with_example(tmp_path)
    names = re.findall(r"ARRAY\((\w+)\)", (tmp_path / "frameworks/list.h").read_text().partition("#define TENON__FRAMEWORKS")[2])
    assert names == ["tinyarray", *re.findall(r"ARRAY\((\w+)\)", (ROOT / "frameworks/list.h").read_text())]
    assert (tmp_path / "frameworks/tinyarray/array/tinyarray.c").is_file()
