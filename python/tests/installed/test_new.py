"""python -m tenon new: a project that builds, installs and passes its own test."""

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from libraries import build, run
from tenon import _new_project

# What `pip install .` and `pip install -e .` run in the project, without pip and the network; the bridge of an extension
# compiles faster without optimisation.
BUILD = """
import sys, scikit_build_core.build as build
getattr(build, f"build_{sys.argv[1]}")(sys.argv[2], {"cmake.build-type": "Debug"})
"""
# Python reads the .pth file of an editable install only in a folder of its own.
INSTALLED = "import site, sys; site.addsitedir(sys.argv[1]); "
TEST = INSTALLED + "import pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider']))"
SHOW = INSTALLED + """
import inspect, pkgutil, pydoc, demo_kernels as demo
print(demo.__version__, demo.__doc__)
print(inspect.getsourcefile(demo))
print([module.name for module in pkgutil.iter_modules(demo.__path__)])
print(demo.saxpy.__module__)
print("saxpy(a" in pydoc.render_doc(demo))
"""
KINDS = {"c": [], "cpp": ["--cpp"], "cuda": ["--cuda"], "rust": ["--rust"], "extension": ["--extension"]}


def create(folder, kind):
    done = run("new", "demo_kernels", *KINDS[kind], cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip install -e" in done.stdout and "pytest" in done.stdout and "PIP_FIND_LINKS" in done.stdout
    return folder / "demo_kernels"


def finish(*command, **options):
    """The output of a command that succeeds."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_files(tmp_path, kind):
    project = create(tmp_path, kind)
    source = {"cpp": "kernels.cpp", "cuda": "kernels.cu", "rust": "kernels.rs"}.get(kind, "kernels.c")
    files = sorted(str(file.relative_to(project)) for file in project.rglob("*") if file.is_file())
    assert files == [
        ".github/workflows/ci.yml",
        ".gitignore",
        "CMakeLists.txt",
        *(["Cargo.toml"] if kind == "rust" else []),
        "README.md",
        source,
        "pyproject.toml",
        "src/demo_kernels/__init__.py",
        *(["src/demo_kernels/_kernels.pyi"] if kind == "extension" else ["src/demo_kernels/__init__.pyi"]),
        "src/demo_kernels/py.typed",
        "tests/test_demo_kernels.py",
        "tests/test_stub.py",
    ]
    text = "".join((project / file).read_text() for file in files)
    assert not re.search(r"\bNAME\b|SOURCE_FILE|STUB_FILE", text)
    settings = (project / "pyproject.toml").read_text()
    version = "Cargo.toml" if kind == "rust" else source
    assert version in settings and source in (project / "README.md").read_text()
    # mypy needs packages that a free-threaded Python 3.13 cannot install, and the tests do not need it.
    assert "mypy" not in re.search("^test = .*", settings, re.M)[0] and re.search(r'^types = \["mypy"\]', settings, re.M)


@pytest.mark.parametrize("kind, form", [("c", "wheel"), ("c", "editable"), ("cpp", "wheel"), ("extension", "wheel"),
                                        ("extension", "editable")])
def test_builds_and_passes(tmp_path, kind, form):
    pytest.importorskip("scikit_build_core")
    project = create(tmp_path, kind)
    finish(sys.executable, "-c", BUILD, form, tmp_path, cwd=project)
    (wheel,) = tmp_path.glob("*.whl")
    stable = sys.version_info >= (3, 12) and not sysconfig.get_config_var("Py_GIL_DISABLED")
    version = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    tag = "py3-none" if kind != "extension" else "cp312-abi3" if stable else f"{version}-{version}{sys.abiflags}"
    assert wheel.name.startswith(f"demo_kernels-0.1.0-{tag}-")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("demo_kernels-0.1.0.dist-info/METADATA").decode()
        archive.extractall(site)
    needs_tenon = re.search("^Requires-Dist: libtenon$", metadata, re.M)
    assert bool(needs_tenon) == (kind != "extension")
    assert "3 passed" in finish(sys.executable, "-c", TEST, site, cwd=project)
    source = project / "src" if form == "editable" else site
    shown = finish(sys.executable, "-c", SHOW, site, cwd=tmp_path).splitlines()
    assert shown[:2] == ["0.1.0 Functions written once.", str(source / "demo_kernels/__init__.py")]
    # The library is not mistaken for a module; the extension is one.
    modules = {"c": "[]", "cpp": "[]", "extension": "['_kernels']"}
    assert form == "editable" or shown[2] == modules[kind]
    assert shown[3:] == ["demo_kernels" if kind != "extension" else "demo_kernels._kernels", "True"]


def test_types(tmp_path):
    pytest.importorskip("mypy")
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        project = create(tmp_path / kind, kind)
        assert "Success" in finish(sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", cwd=project)


def test_stub_is_what_stubs_makes(tmp_path):
    """To update the templates, write this output into library/src/NAME/__init__.pyi.in, and the same into those of the
    other kinds, which differ as the next tests say."""
    project = create(tmp_path, "c")
    file = build(tmp_path / "kernels.tenon", (project / "kernels.c").read_text())
    assert run("stubs", file).stdout == (project / "src/demo_kernels/__init__.pyi").read_text()


def test_stub_of_an_extension(tmp_path):
    """It differs from that of a library only in the first line, which has the name of the file."""
    stubs = {}
    for kind, name in (("c", "__init__.pyi"), ("extension", "_kernels.pyi")):
        (tmp_path / kind).mkdir()
        stubs[kind] = (create(tmp_path / kind, kind) / "src/demo_kernels" / name).read_text()
    assert stubs["extension"] == stubs["c"].replace("kernels.tenon", "_kernels.abi3.so")


def test_stub_that_is_out_of_date(tmp_path):
    """The project's own test finds a signature that has changed."""
    project = create(tmp_path, "c")
    stub = project / "src/demo_kernels/__init__.pyi"
    stub.write_text(stub.read_text().replace("y: f32[n] c", "y: f32[n]"))
    build(project / "src/demo_kernels/kernels.tenon", (project / "kernels.c").read_text())
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=project,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(project / "src"), *sys.path])},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 1 and "1 failed, 2 passed" in done.stdout and "how to update the stub" in done.stdout


def test_stub_of_cuda(tmp_path):
    """It differs from that of C only in the signature."""
    stubs = {}
    for kind in ("c", "cuda"):
        (tmp_path / kind).mkdir()
        stubs[kind] = (create(tmp_path / kind, kind) / "src/demo_kernels/__init__.pyi").read_text()
    signature = re.search(r'"(saxpy\(.*)", saxpy', (tmp_path / "cuda/demo_kernels/kernels.cu").read_text())[1]
    assert stubs["cuda"] == stubs["c"].replace("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", signature)


def test_two_kinds(tmp_path):
    done = run("new", "demo_kernels", "--cpp", "--extension", cwd=tmp_path)
    assert done.returncode == 2 and "not allowed with argument" in done.stderr and list(tmp_path.iterdir()) == []


def test_failure_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_new_project, "_files", lambda kind: {"one": __file__, "two": str(tmp_path / "missing")})
    with pytest.raises(FileNotFoundError, match="missing"):
        _new_project.new("demo_kernels")
    assert list(tmp_path.iterdir()) == []


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
        ("mypy", "builds or checks"),
        ("build", "builds or checks"),
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
    assert names and names <= _new_project._PYTEST


def test_refuses_an_existing_folder(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("there", "file"):
        done = run("new", name, cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr == f"python -m tenon: '{name}' already exists in this folder; choose another name, or remove it first\n"
    assert list((tmp_path / "there").iterdir()) == []
