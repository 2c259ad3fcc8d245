"""A source of the core is built wherever it is below core/src."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path):
    """A copy of what is compiled, with a source in a folder that is new and two levels deeper than the others."""
    for name in ("core/include", "core/src", "python/include", "python/src", "tools", "frameworks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    for name in ("CMakeLists.txt", "LICENSE", *(str(p.relative_to(ROOT)) for p in (ROOT / "core").glob("*.*") if p.is_file())):
        shutil.copy(ROOT / name, tmp_path / name)
    source = tmp_path / "core/src/tensor/new/deep/found.c"
    source.parent.mkdir(parents=True)
    source.write_text('#include "../../internal.h"\n\nbool tenon__found_deep(void);\n\n'
                      'bool tenon__found_deep(void)\n{\n    return true;\n}\n')
    return tmp_path


def test_the_bundle_finds_it(tree):
    subprocess.run([sys.executable, tree / "tools/bundle", "--output", tree / "bundle"], check=True, capture_output=True)
    assert "bool tenon__found_deep(void)\n{" in (tree / "bundle/tenon.c").read_text()


def test_cmake_finds_it(tree):
    if subprocess.run(["bash", "-c", ". tools/common.sh && has cmake"], cwd=ROOT).returncode:
        pytest.skip("cmake does not run")
    done = subprocess.run(["cmake", "-S", tree, "-B", tree / "build", "-DTENON_PYTHON=OFF"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    compiled = [entry["file"] for entry in json.loads((tree / "build/compile_commands.json").read_text())]
    assert any(file.endswith("tensor/new/deep/found.c") for file in compiled), compiled
