"""find_package(Tenon) and tenon_add_module of the installed package, with CMake; tenon.pc, with make and Meson."""

import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
import sysconfig

import pytest
from libraries import COMPILER, command_line, run, tenon
from programs import runs

needs_cmake = pytest.mark.skipif(not runs("cmake"), reason="cmake does not run")
HEADERS = sysconfig.get_path("include")
needs_headers = pytest.mark.skipif(not os.path.exists(os.path.join(HEADERS, "Python.h")), reason="no Python.h")
GENERATORS = {"Ninja": "ninja", "Unix Makefiles": "make"}

ANSWER = """
#include <tenon/function.h>
static tenon_status answer(tenon_call *call) { tenon_return_int(call, 0, 42); return TENON_OK; }
int visible_unless_hidden(void) { return 1; }
TENON_MODULE(NAME, "Answers.", TENON_FUNCTION("answer() -> int", answer, "The answer."))
"""
EXTENSION = ANSWER.replace("function.h", "python.h") + "TENON_PY_MODULE(NAME)\n"
CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(Use LANGUAGES LANGUAGE)
find_package(Tenon REQUIRED CONFIG)
"""


def output(*command, **options):
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    return done.returncode, done.stdout


def check(*command, **options):
    status, text = output(*command, **options)
    assert status == 0, text
    return text


def project(folder, commands, languages="C", **sources):
    """A project that finds the installed package; its configure command."""
    folder.mkdir(exist_ok=True)
    (folder / "CMakeLists.txt").write_text(CMAKE.replace("LANGUAGE)", f"{languages})") + commands)
    for name, code in sources.items():
        (folder / name.replace("_dot_", ".")).write_text(code)
    (tenon_dir,) = command_line("cmakedir")
    return ["cmake", "-S", folder, "-B", folder / "build", f"-DTenon_DIR={tenon_dir}",
            f"-DPython_EXECUTABLE={sys.executable}"]


def exported(file):
    lines = check("nm", "-D", "--defined-only", file).splitlines()
    return sorted(line.split()[-1] for line in lines)


# ------------------------------------------------------------------------------------------------------------- builds


@needs_cmake
@pytest.mark.parametrize("generator", GENERATORS)
def test_library(tmp_path, generator):
    if not runs(GENERATORS[generator]):
        pytest.skip(f"{GENERATORS[generator]} does not run")
    commands = "tenon_add_module(plain plain.c)\nadd_subdirectory(sub)\n"
    configure = project(tmp_path / "with space", commands, "C CXX", plain_dot_c=ANSWER.replace("NAME", "plain"))
    sub = tmp_path / "with space/sub"
    sub.mkdir()
    (sub / "CMakeLists.txt").write_text("tenon_add_module(typed typed.cpp)\n")
    (sub / "typed.cpp").write_text(ANSWER.replace("NAME", "typed"))
    check(*configure, "-G", generator)
    check("cmake", "--build", tmp_path / "with space/build")
    for file in ("plain.tenon", "sub/typed.tenon"):
        built = tmp_path / "with space/build" / file
        assert tenon.load(built).answer() == 42
        assert exported(built) == ["tenon_module_v1"]
        assert "tenon" not in check("nm", "-D", "-u", built)


@needs_cmake
@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform == "win32", reason="the variants are of x86-64")
def test_variants(tmp_path):
    """They have the settings of the module, are installed with it, and are loaded. Those of other processors are left out."""
    commands = (
        "tenon_add_module(plain plain.c VARIANTS x86-64-v2 sve)\n"
        "target_compile_definitions(plain PRIVATE ANSWER=7)\n"
        "tenon_install_module(plain DESTINATION there)\n"
    )
    code = ANSWER.replace("NAME", "plain").replace("42", "ANSWER")
    check(*project(tmp_path, commands, plain_dot_c=code), f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'installed'}")
    check("cmake", "--build", tmp_path / "build", "--target", "plain")
    check("cmake", "--install", tmp_path / "build")
    files = sorted(file.name for file in (tmp_path / "installed/there").iterdir())
    assert files == ["plain.tenon", "plain.x86-64-v2.tenon"]
    plain = tenon.load(tmp_path / "installed/there/plain.tenon")
    assert (plain.answer(), plain.__variant__) == (7, "x86-64-v2")
    assert exported(tmp_path / "installed/there/plain.x86-64-v2.tenon") == ["tenon_module_v1"]


@needs_cmake
@needs_headers
def test_extensions_share_one_bridge(tmp_path):
    commands = "tenon_add_module(first first.c PYTHON)\ntenon_add_module(second second.cpp PYTHON)\n"
    sources = {f"{name}_dot_{suffix}": EXTENSION.replace("NAME", name) for name, suffix in (("first", "c"), ("second", "cpp"))}
    check(*project(tmp_path, commands, "C CXX", **sources), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    compiled = [pathlib.Path(entry["file"]).name for entry in json.loads((tmp_path / "build/compile_commands.json").read_text())]
    assert sorted(compiled) == ["first.c", "second.cpp", "tenon.c", "tenon_python.c"]
    check(*project(tmp_path, commands, "C CXX"), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DCMAKE_UNITY_BUILD=ON")
    entries = json.loads((tmp_path / "build/compile_commands.json").read_text())
    assert {"tenon.c", "tenon_python.c"} <= {pathlib.Path(entry["file"]).name for entry in entries}
    check("cmake", "--build", tmp_path / "build", "-j", "2")
    stable = sys.version_info >= (3, 12) and not sysconfig.get_config_var("Py_GIL_DISABLED")
    suffix = ".abi3.so" if stable else sysconfig.get_config_var("EXT_SUFFIX")
    for name in ("first", "second"):
        assert exported(tmp_path / f"build/{name}{suffix}") == [f"PyInit_{name}", "tenon_module_v1"]
    # It contains all that it needs: the package of Tenon is not imported.
    code = "import sys, first, second; print(first.answer(), second.__doc__, 'tenon' in sys.modules)"
    assert check(sys.executable, "-c", code, cwd=tmp_path / "build") == "42 Answers. False\n"


@needs_cmake
@needs_headers
def test_cross_compiling_does_not_run_python(tmp_path):
    refusing = tmp_path / "python"
    refusing.write_text(f"#!/bin/sh\ntouch {tmp_path}/has-run\nexit 1\n")
    refusing.chmod(0o755)
    configure = project(tmp_path, "tenon_add_module(far far.c PYTHON)", far_dot_c=EXTENSION.replace("NAME", "far"))
    check(*configure, f"-DPython_EXECUTABLE={refusing}", f"-DPython_INCLUDE_DIR={HEADERS}", "-DCMAKE_SYSTEM_NAME=Linux",
          "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_C_COMPILER={COMPILER}")
    check("cmake", "--build", tmp_path / "build")
    (built,) = (tmp_path / "build").glob("far*.so")
    assert exported(built) == ["PyInit_far", "tenon_module_v1"]
    assert not (tmp_path / "has-run").exists()


def test_entry_point():
    """scikit-build-core finds the folder by it. Python 3.9 cannot find resources of a folder without __init__.py."""
    points = importlib.metadata.entry_points()
    group = points.select(group="cmake.root") if hasattr(points, "select") else points["cmake.root"]
    (module,) = [point.load() for point in group if point.name == "Tenon"]
    (folder,) = command_line("cmakedir")
    assert os.path.samefile(os.path.dirname(module.__file__), folder)


# ----------------------------------------------------------------------------------------------------------- mistakes


@needs_cmake
@pytest.mark.parametrize(
    "commands, languages, message",
    [
        ("tenon_add_module()", "NONE", "expected a name and sources, got the name ''"),
        ("tenon_add_module(two-words a.c)", "NONE", "got the name 'two-words'. Use letters"),
        ("tenon_add_module(alone)", "NONE", "(alone): expected at least one source, as in tenon_add_module(alone alone.c)"),
        ("add_custom_target(twice)\ntenon_add_module(twice a.c)", "NONE", "(twice): there is already a target of this name"),
        ("tenon_add_module(k a.c VARIANTS avx2)", "C", "(k): 'avx2' is not a variant. The variants are x86-64-v2"),
        ("tenon_install_module(k DESTINATION a)", "C", "there is no target k. Call tenon_add_module(k"),
        ("tenon_add_module(k a.c)\ntenon_install_module(k)", "C", "(k): expected DESTINATION and a folder"),
        ("tenon_add_module(k a.c PYHTON)", "C", "(k): 'PYHTON' is not an option. The options are PYTHON, CUDA and VARIANTS"),
        ("tenon_add_module(k a.cu)", "NONE", "(k): 'a.cu' is CUDA source. Add the option CUDA"),
        ("tenon_add_module(k a.cu CUDA)", "NONE", "no CUDA compiler was found. Install the CUDA toolkit, or set"),
        ("tenon_add_module(k a.cpp)", "NONE", "(k): 'a.cpp' is C++ source, and the project does not use C++. Add CXX to"),
        ("tenon_add_module(k a.c)", "NONE", "(k): 'a.c' is C source, and the project does not use C. Add C to"),
        ("tenon_add_module(k a.cpp PYTHON)", "CXX", "(k PYTHON): the bridge to Python is written in C. Add C to"),
        ("set(Python_INCLUDE_DIR /none)\ntenon_add_module(k a.c PYTHON)", "C", "development files of Python 3.9 or newer were"),
        ("set(SKBUILD_SABI_VERSION 3.9)\ntenon_add_module(k a.c PYTHON)", "C", 'wheel.py-api = "cp312" in the table'),
        ("find_package(Tenon 99.0 REQUIRED CONFIG)", "NONE", "99.0"),
        ("find_package(Tenon REQUIRED CONFIG COMPONENTS fast)", "NONE", "has no component 'fast', only 'python'"),
    ],
)
def test_mistakes(tmp_path, commands, languages, message):
    if "CUDA)" in commands and runs("nvcc"):
        pytest.skip("there is a CUDA compiler")
    if "SABI" in commands and not os.path.exists(os.path.join(HEADERS, "Python.h")):
        pytest.skip("no Python.h")
    configure = project(tmp_path, commands, languages, a_dot_c=ANSWER, a_dot_cpp=ANSWER, a_dot_cu=ANSWER)
    status, text = output(*configure)
    assert status == 1 and message in " ".join(text.split()), text


# --------------------------------------------------------------------------------------------------------- pkg-config


@pytest.fixture
def with_tenon_pc():
    if not runs("pkg-config"):
        pytest.skip("pkg-config does not run")
    (folder,) = command_line("pkgconfigdir")
    environment = {**os.environ, "PKG_CONFIG_PATH": folder}
    assert check("pkg-config", "--modversion", "tenon", env=environment).strip() == tenon.__version__
    return environment


def test_make(tmp_path, with_tenon_pc):
    if not runs("make"):
        pytest.skip("make does not run")
    (tmp_path / "kernels.c").write_text(ANSWER.replace("NAME", "kernels"))
    (tmp_path / "Makefile").write_text(
        "%.so: %.c\n\t$(CC) -O2 -shared -fPIC $$(pkg-config --cflags tenon) $< -o $@\n"
    )
    check("make", "kernels.so", cwd=tmp_path, env=with_tenon_pc)
    assert tenon.load(tmp_path / "kernels.so").answer() == 42


@needs_headers
def test_sources_of_pkg_config(tmp_path, with_tenon_pc):
    sources = check("pkg-config", "--variable=sources", "tenon", env=with_tenon_pc).split()
    assert [os.path.realpath(file) for file in sources] == [os.path.realpath(file) for file in command_line("sources")]


def test_meson(tmp_path, with_tenon_pc):
    if not runs("meson") or not runs("ninja"):
        pytest.skip("meson or ninja does not run")
    (tmp_path / "kernels.c").write_text(ANSWER.replace("NAME", "kernels"))
    (tmp_path / "meson.build").write_text("""
project('use', 'c', default_options: ['c_std=c99'])
shared_module('kernels', 'kernels.c', dependencies: dependency('tenon'), name_prefix: '', name_suffix: 'tenon',
              gnu_symbol_visibility: 'hidden')
""")
    check("meson", "setup", tmp_path / "build", tmp_path, env=with_tenon_pc)
    check("meson", "compile", "-C", tmp_path / "build", env=with_tenon_pc)
    assert tenon.load(tmp_path / "build/kernels.tenon").answer() == 42
    assert exported(tmp_path / "build/kernels.tenon") == ["tenon_module_v1"]


# --------------------------------------------------------------------------------------------------------------- docs


def test_docs():
    (folder,) = command_line("docs")
    page = pathlib.Path(folder, "signatures.md").read_text(encoding="utf-8")
    assert page == (pathlib.Path(__file__).parents[3] / "docs/signatures.md").read_text(encoding="utf-8")


def test_folder_that_is_missing(tmp_path):
    """A package that was not installed by its wheel has the .py files only."""
    copy = tmp_path / "tenon"
    copy.mkdir()
    for folder in tenon.__path__:
        for file in pathlib.Path(folder).iterdir():
            if file.is_file() or file.name == "conformance":
                (copy / file.name).symlink_to(file)
    done = run("cmakedir", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "") and "has no folder 'cmake'" in done.stderr
