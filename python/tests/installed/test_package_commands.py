"""python -m tenon: cflags, include, sources, and how it fails."""

import importlib
import importlib.util
import os
import pathlib
import pickle
import subprocess
import sys
import sysconfig
import types

import pytest
from libraries import COMPILER, WIDE, build, command_line, counting, run, tenon


def test_headers():
    (include,) = command_line("include")
    assert command_line("cflags") == [f"-I{include}"]
    root = pathlib.Path(__file__).parents[3]
    wanted = {str(header.relative_to(folder)) for name in ("core", "python", "frameworks/torch")
              for folder in [root / name / "include"] for header in folder.rglob("*.h*")}
    assert {str(header.relative_to(include)) for header in pathlib.Path(include).rglob("*.*")} == wanted


def test_function_header_is_enough(tmp_path):
    file = counting(tmp_path / "alone.so", 1)
    undefined = subprocess.run(["nm", "-u", file], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "tenon" not in undefined
    assert tenon.load(file).answer() == 1


needs_headers = pytest.mark.skipif(
    not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")), reason="no Python.h"
)


@needs_headers
def test_sources_make_an_extension(tmp_path):
    code = """
    #include <tenon/python.h>
    static tenon_status answer(tenon_call *call) { tenon_return_int(call, 0, 42); return TENON_OK; }
    TENON_MODULE(extended, "Extended.", TENON_FUNCTION("answer() -> int", answer, NULL))
    TENON_PY_MODULE(extended)"""
    headers = "-I" + sysconfig.get_path("include")
    file = build(tmp_path / "extended.so", code, headers, *command_line("sources"), "-fvisibility=hidden", "-pthread")
    spec = importlib.util.spec_from_file_location("extended", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (module.answer(), module.__doc__) == (42, "Extended.")


@needs_headers
def test_extension_inside_a_package(tmp_path, monkeypatch):
    code = """
    #include <tenon/python.h>
    static tenon_status name(tenon_call *call) { (void)call; return TENON_OK; }
    static tenon_status size(tenon_call *call)
    {
        tenon_return_int(call, 0, 3);
        tenon_return_double(call, 1, 0.5);
        return TENON_OK;
    }
    TENON_MODULE(inner, "Inner.", TENON_FUNCTION("size() -> count: int, mean: float", size, NULL),
        TENON_FUNCTION("name()", name, NULL), TENON_CLASS("Thing", NULL), TENON_FUNCTION("Thing.use(self)", name, NULL))
    TENON_PY_MODULE(inner)"""
    package = tmp_path / "outer_package"
    package.mkdir()
    (package / "__init__.py").touch()
    headers = "-I" + sysconfig.get_path("include")
    build(package / "inner.so", code, headers, *command_line("sources"), "-fvisibility=hidden", "-pthread")
    monkeypatch.syspath_prepend(str(tmp_path))
    inner = importlib.import_module("outer_package.inner")
    try:
        assert inner.__name__ == inner.__spec__.name == inner.size.__module__ == "outer_package.inner"
        assert "outer_package.inner" in repr(inner.size.__self__)
        result = inner.size()
        assert type(result).__module__ == "outer_package.inner"
        again = pickle.loads(pickle.dumps(result))
        assert again == result == (3, 0.5) and type(again) is type(result) is inner.size_result
        for part in (inner.size, inner.size.__self__, inner.name, inner.Thing, inner.Thing.use, inner.Thing.use.function):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                stored = pickle.dumps(part, protocol)
                assert pickle.loads(stored) is part and b"outer_package.inner" in stored and b"tenon" not in stored
        sys.modules["outer_package.inner"] = types.ModuleType("inner")
        for part, error in ((inner.size, AttributeError), (inner.Thing, pickle.PicklingError)):
            with pytest.raises(error):
                pickle.dumps(part)
        sys.modules["outer_package.inner"] = types.SimpleNamespace(size=types.SimpleNamespace(__self__=None))
        with pytest.raises(TypeError, match=r"^size\(\) cannot be pickled: another object is found as outer_package.inner.size$"):
            pickle.dumps(inner.size)
    finally:
        del sys.modules["outer_package.inner"], sys.modules["outer_package"]


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"tenon {tenon.__version__}\n")


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["stubs"], ["describe"], ["new"], ["cflags", "more"]], ids=str)
def test_usage(arguments):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: python -m tenon")


@pytest.mark.parametrize("command", ["stubs", "describe"])
def test_no_library(tmp_path, command):
    (tmp_path / "text.so").write_text("text")
    wrong = {"missing.so": "No such file", "text.so": "it is not a shared library", ".": "Is a directory"}
    for name, reason in wrong.items():
        done = run(command, name, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("python -m tenon: ") and reason in done.stderr and done.stderr.count("\n") == 1


def test_library_that_does_not_load(tmp_path):
    code = """
    #include <tenon/function.h>
    static tenon_status f(tenon_call *call) { (void)call; return TENON_OK; }
    static tenon_status load(tenon_call *call, void **state)
    {
        (void)state;
        return tenon_fail(call, TENON_EFAILED, "no licence");
    }
    TENON_MODULE_STATE(closed, NULL, load, NULL, TENON_FUNCTION("f()", f, NULL))"""
    done = run("describe", build(tmp_path / "closed.so", code))
    assert done.returncode == 1 and "no licence" in done.stderr and "Traceback" not in done.stderr


def test_output_that_cannot_be_written(tmp_path):
    done = run("stubs", counting(tmp_path / "fine.so", 1), "-o", tmp_path / "missing" / "fine.pyi")
    assert done.returncode == 1 and "missing" in done.stderr and "Traceback" not in done.stderr


def test_reader_that_has_seen_enough(tmp_path):
    file = counting(tmp_path / "unread.so", 1)
    reader, writer = os.pipe()
    os.close(reader)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = run("describe", file, stdout=writer, env=environment)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("command", ["stubs", "describe"])
def test_output_is_utf8(tmp_path, command):
    file = build(tmp_path / "wide.so", WIDE)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert "Café" in run(command, file, env=environment).stdout


def test_paths_with_spaces_are_quoted(tmp_path):
    """The words are the shell's."""
    copy = tmp_path / "with space"
    copy.mkdir()
    for folder in tenon.__path__:
        for item in pathlib.Path(folder).iterdir():
            (copy / "tenon").mkdir(exist_ok=True)
            if item.name != "__pycache__" and not (copy / "tenon" / item.name).exists():
                (copy / "tenon" / item.name).symlink_to(item)
    (tmp_path / "empty.c").write_text("#include <tenon/function.h>\n")
    command = f'eval {COMPILER} -c empty.c "$({sys.executable} -S -m tenon cflags)"'
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "empty.o").exists()
