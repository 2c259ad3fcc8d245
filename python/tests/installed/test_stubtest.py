"""mypy.stubtest: the stub of the package, and stubs of libraries, agree with the modules that they describe."""

import os
import shutil
import sysconfig

import pytest
from libraries import AWKWARD, TYPED, WIDE, build, command_line, run
from type_checkers import stubtest

# How a package has the functions of a library that is next to it.
PACKAGE = """\
from importlib.resources import as_file, files

import tenon

with as_file(files(__name__) / "library.tenon") as _file:
    _library = tenon.load(_file)
globals().update((name, value) for name, value in vars(_library).items() if not name.startswith("_"))
"""


def write_stub(library, file):
    done = run("stubs", library, "-o", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def check(folder, *modules):
    checked = stubtest(folder, *modules)
    assert checked.returncode == 0, checked.stdout


def test_package_itself(tmp_path):
    if os.environ.get("TENON_TYPES_LONG"):
        (tmp_path / "config").write_text("[mypy]\nexclude = /templates/\n")
        # Modules without a stub are compared with themselves: mypy and Python disagree about functions with a cache.
        (tmp_path / "allowed").write_text("tenon\\._(?!native|array)\\w+\\..*\n")
        options = ["--mypy-config-file", "config", "--allowlist", "allowed", "--ignore-unused-allowlist"]
        check(tmp_path, "tenon", *options)
    else:
        check(tmp_path, "tenon._native", "tenon._array_types")


@pytest.mark.parametrize("code", [TYPED, WIDE, AWKWARD], ids=["typed", "wide", "awkward"])
def test_loaded_library(tmp_path, code):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE)
    write_stub(build(package / "library.tenon", code), package / "__init__.pyi")
    (tmp_path / "torch.pyi").write_text("class Tensor: ...\n")  # reading torch takes mypy long
    # A name that begins with two underscores cannot be written in a stub.
    (tmp_path / "allowed").write_text("package\\.Literal\n")
    check(tmp_path, "package", "--allowlist", "allowed", "--ignore-unused-allowlist")


def test_a_stub_that_is_wrong(tmp_path):
    """It would be found."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE)
    write_stub(build(package / "library.tenon", TYPED), package / "__init__.pyi")
    stub = package / "__init__.pyi"
    stub.write_text(stub.read_text().replace("leaf: ", "leave: ").replace("search_result", "found_result"))
    checked = stubtest(tmp_path, "package", "--concise")
    assert checked.returncode == 1
    assert "package.Tree.__new__ is inconsistent" in checked.stdout and "package.found_result" in checked.stdout


def test_importable_extension(tmp_path):
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        pytest.skip("no Python.h")
    code = TYPED.replace("<tenon/function.h>", "<tenon/python.h>") + "TENON_PY_MODULE(typed)\n"
    headers = "-I" + sysconfig.get_path("include")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    file = build(tmp_path / "built.so", code, headers, *command_line("sources"), "-fvisibility=hidden", "-pthread")
    shutil.move(file, tmp_path / f"typed{suffix}")
    write_stub(tmp_path / f"typed{suffix}", tmp_path / "typed.pyi")
    check(tmp_path, "typed")
