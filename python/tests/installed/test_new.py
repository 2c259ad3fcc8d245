"""python -m tenon new: a project that builds, installs and passes its own test."""

import importlib.metadata
import re
import subprocess
import sys
import zipfile

import pytest
from libraries import build, run
from tenon import _new

# What `pip install .` and `pip install -e .` run in the project, without pip and the network.
BUILD = "import sys, scikit_build_core.build as build; print(getattr(build, f'build_{sys.argv[1]}')(sys.argv[2]))"
# Python reads the .pth file of an editable install only in a folder of its own.
INSTALLED = "import site, sys; site.addsitedir(sys.argv[1]); "
TEST = INSTALLED + "import pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider']))"
SHOW = INSTALLED + """
import importlib, inspect, pkgutil, pydoc, demo_kernels as demo
print(demo.__version__, demo.__doc__, demo.saxpy.__module__)
print(inspect.getsourcefile(demo))
print([module.name for module in pkgutil.iter_modules(demo.__path__)])
print("PACKAGE CONTENTS" in pydoc.render_doc(demo), "saxpy(a" in pydoc.render_doc(demo))
try:
    importlib.import_module("demo_kernels.kernels")
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.fixture
def project(tmp_path):
    done = run("new", "demo_kernels", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip install ." in done.stdout and "pytest" in done.stdout and "NAME" not in done.stdout
    return tmp_path / "demo_kernels"


def test_files(project):
    files = sorted(str(file.relative_to(project)) for file in project.rglob("*") if file.is_file())
    assert files == [
        "CMakeLists.txt",
        "include/tenon/function.h",
        "kernels.c",
        "pyproject.toml",
        "src/demo_kernels/__init__.py",
        "src/demo_kernels/__init__.pyi",
        "src/demo_kernels/py.typed",
        "tests/test_demo_kernels.py",
    ]
    assert not any("NAME" in (project / file).read_text() for file in files if "include" not in file)


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_builds_and_passes(project, tmp_path, kind):
    pytest.importorskip("scikit_build_core")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    built = subprocess.run([sys.executable, "-c", BUILD, kind, tmp_path], cwd=project, **pipes)
    assert built.returncode == 0, built.stdout
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("demo_kernels-0.1.0-py3-none-")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        assert "Requires-Dist: libtenon" in archive.read("demo_kernels-0.1.0.dist-info/METADATA").decode()
        archive.extractall(site)
    tested = subprocess.run([sys.executable, "-c", TEST, site], cwd=project, **pipes)
    assert tested.returncode == 0 and "2 passed" in tested.stdout, tested.stdout
    shown = subprocess.run([sys.executable, "-c", SHOW, site], cwd=tmp_path, **pipes)
    source = project / "src" if kind == "editable" else site
    assert shown.stdout.splitlines() == [
        "0.1.0 Functions written once. demo_kernels",
        str(source / "demo_kernels/__init__.py"),
        "[]",
        "False True",
        "No module named 'demo_kernels.kernels'",
    ]


def test_stub_is_what_stubs_makes(project, tmp_path):
    file = build(tmp_path / "kernels.tenon", (project / "kernels.c").read_text())
    assert run("stubs", file).stdout == (project / "src/demo_kernels/__init__.pyi").read_text()


@pytest.mark.parametrize("name", ["", "2fast", "a-b", "a b", "../up", "class", "last_", "_first", "näme", "a\n", "__x__"])
def test_refuses_what_is_not_a_name(tmp_path, name):
    done = run("new", name, cwd=tmp_path)
    assert done.returncode == 1 and "cannot be the name of a package" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name, owner",
    [
        ("array", "standard library"),
        ("Json", "standard library"),
        ("sys", "standard library"),
        ("test", "standard library"),
        ("sitecustomize", "standard library"),
        ("usercustomize", "standard library"),
        ("pip", "installs packages"),
        ("setuptools", "installs packages"),
        ("wheel", "installs packages"),
        ("int", "builtins"),
        ("pytest", "pytest"),
        ("pluggy", "pytest"),
        ("tenon", "Tenon"),
        ("LibTenon", "Tenon"),
        ("numpy", "Tenon"),
        ("torch", "Tenon"),
    ],
)
def test_refuses_a_name_that_would_hide_another(tmp_path, name, owner):
    done = run("new", name, cwd=tmp_path)
    assert done.returncode == 1 and f"'{name}' is a name of" in done.stderr and owner in done.stderr
    assert "Traceback" not in done.stderr and list(tmp_path.iterdir()) == []


def test_refuses_whatever_pytest_imports():
    """A new pytest may need a package that the list does not have."""
    needed = importlib.metadata.requires("pytest") or []
    names = {re.match(r"[\w.-]+", line)[0].replace("-", "_").lower() for line in needed if "extra ==" not in line}
    assert names and names <= _new._PYTEST


def test_refuses_an_existing_folder(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("there", "file"):
        done = run("new", name, cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr == f"python -m tenon: '{name}' already exists in this folder; choose another name, or remove it first\n"
    assert list((tmp_path / "there").iterdir()) == []
