"""tools/check-includes finds an #include that goes the wrong way, or past an internal header."""

import shutil
import subprocess
import sys

import pytest
from scripts import ROOT, load

checker = load("tools/check-includes")


@pytest.fixture
def tree(tmp_path):
    for folder in checker.TREES:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("tests", "templates"))
    return tmp_path


def include_in(tree, path, line):
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{line}\n{file.read_text() if file.exists() else ''}")
    return checker.mistakes_in_tree(tree)


def test_this_tree_is_clean():
    assert checker.mistakes_in_tree(ROOT) == []


def test_public_headers_and_own_headers_are_allowed(tree):
    assert include_in(tree, "core/src/system/posix.c", "#include <tenon/tensor.h>") == []
    assert include_in(tree, "core/src/call/driver.c", '#include "../tensor/internal.h"') == []
    assert include_in(tree, "core/src/tensor/one/two/deep.c", '#include "../../internal.h"') == []


@pytest.mark.parametrize("path, line, mistake", [
    ("core/src/tensor/views.c", '#include "../call/internal.h"', "core/src/tensor may not use core/src/call: "),
    ("core/src/system/posix.c", '  #  include "../tensor/internal.h"', "core/src/system may not use core/src/tensor: "),
    ("core/src/library/one/deep.c", '#include "../../shared/internal.h"', "core/src/library may not use core/src/shared: "),
    ("core/src/call/driver.c", '#include "../signature/parser.h"', "core/src/signature/parser.h is private to core/src/signature: "),
    ("core/src/call/driver.c", '#include "../../../python/src/internal.h"', "core/src/call may not use python/src: "),
    ("python/src/exchange/borrow.c", '#include "../../../frameworks/torch/array/internal.h"', "python/src may not use "),
    ("frameworks/torch/ops/schema.c", '#include "../../jax/host/internal.h"', "frameworks/torch/ops may not use frameworks/jax"),
    ("frameworks/jax/array/eager.c", '#include "../../../python/src/call/plan.h"', "python/src/call/plan.h is private to "),
    ("core/src/call/driver.c", '#include "../../include/tenon/tenon.h"', "core/include/tenon/tenon.h is not in a folder "),
])
def test_a_planted_include_is_found(tree, path, line, mistake):
    found = include_in(tree, path, line)
    assert len(found) == 1 and found[0].startswith(f"{path}:1: {mistake}"), found


def test_a_folder_without_a_row_or_a_header_is_found(tree):
    assert include_in(tree, "core/src/extra/new.c", "") == ["core/src/extra/new.c: its folder has no row in tools/check-includes"]
    (tree / "core/src/extra/new.c").unlink()
    (tree / "core/src/signature/internal.h").unlink()
    assert checker.mistakes_in_tree(tree) == ["core/src/signature: it has no internal.h"]


def test_a_circle_in_the_table_is_found():
    found = checker.mistakes_of_table({"a": (), "b": ("a", "c"), "c": ("b",)})
    assert found == ["tools/check-includes: c, which b uses, must be in a row above it"]


def test_the_tool_fails(tree):
    include_in(tree, "core/src/tensor/views.c", '#include "../call/internal.h"')
    done = subprocess.run([sys.executable, ROOT / "tools/check-includes", tree], capture_output=True, text=True)
    assert done.returncode == 1 and "core/src/tensor/views.c:1: " in done.stdout
