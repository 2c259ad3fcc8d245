"""python -m tenon new: a project that builds, installs and passes its own test."""

import os
import subprocess
import sys
import zipfile

import pytest
from libraries import build, run

# What `pip install .` runs in the project, without pip and the network.
BUILD = "import sys; from scikit_build_core.build import build_wheel; print(build_wheel(sys.argv[1]))"


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


def test_builds_and_passes(project, tmp_path):
    pytest.importorskip("scikit_build_core")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    built = subprocess.run([sys.executable, "-c", BUILD, tmp_path], cwd=project, text=True, **pipes)
    assert built.returncode == 0, built.stdout
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("demo_kernels-0.1.0-py3-none-")
    with zipfile.ZipFile(wheel) as archive:
        assert "Requires-Dist: libtenon" in archive.read("demo_kernels-0.1.0.dist-info/METADATA").decode()
        archive.extractall(tmp_path / "site")
    paths = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tested = subprocess.run(command, cwd=project, env=environment, stdout=subprocess.PIPE, text=True)
    assert tested.returncode == 0 and "2 passed" in tested.stdout, tested.stdout
    code = "import demo_kernels as d; print(d.__version__, d.__doc__, d.saxpy.__module__)"
    shown = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True).stdout
    assert shown == "0.1.0 Functions written once. demo_kernels\n"


def test_stub_is_what_stubs_makes(project, tmp_path):
    file = build(tmp_path / "kernels.so", (project / "kernels.c").read_text())
    assert run("stubs", file).stdout == (project / "src/demo_kernels/__init__.pyi").read_text()


@pytest.mark.parametrize("name", ["", "2fast", "a-b", "a b", "../up", "class", "last_", "_first", "näme", "a\n"])
def test_refuses_what_is_no_name(tmp_path, name):
    done = run("new", name, cwd=tmp_path)
    assert done.returncode == 1 and "is no name for a package" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["tenon", "LibTenon"])
def test_refuses_its_own_name(tmp_path, name):
    done = run("new", name, cwd=tmp_path)
    assert done.returncode == 1 and "is taken by Tenon itself" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_refuses_an_existing_folder(tmp_path):
    (tmp_path / "there").mkdir()
    done = run("new", "there", cwd=tmp_path)
    assert done.returncode == 1 and "File exists: 'there'" in done.stderr
    assert list((tmp_path / "there").iterdir()) == []
