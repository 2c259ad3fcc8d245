"""tenon.load and what else the installed package has. The functions themselves are other files' subject."""

import array
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest
from libraries import build, counting, tenon

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def mapped(folder):
    """The files of a folder that this process has mapped, those that are gone too."""
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        return {found[0] for line in maps if (found := re.search(re.escape(str(folder)) + r"/\S+", line))}


# ------------------------------------------------------------------------------------------------------- the package


def test_version_is_the_header_s():
    header = (ROOT / "core/include/tenon/tenon.h").read_text()
    assert f'#define TENON_VERSION "{tenon.__version__}"' in header
    assert importlib.metadata.version("libtenon") == tenon.__version__


def test_needs_nothing():
    assert importlib.metadata.requires("libtenon") is None
    code = "import sys; sys.modules['numpy'] = None; before = set(sys.modules); import tenon; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    assert "tenon._native" in loaded and "ctypes" not in loaded and "torch" not in loaded
    # Each takes longer than all of tenon.
    slow = {"typing", "re", "inspect", "hashlib", "tempfile", "tenon._array_types", "tenon._torch_ops", "tenon._jax_ops"}
    plain = subprocess.run([sys.executable, "-c", "import sys; print(*sys.modules)"], stdout=subprocess.PIPE, text=True)
    assert not slow & (set(loaded) - set(plain.stdout.split()))
    assert callable(tenon.torch_ops) and "torch_ops" in dir(tenon) and not hasattr(tenon, "nothing")


def test_native_module_exports_one_symbol():
    done = subprocess.run(["nm", "-D", "--defined-only", tenon._native.__file__], stdout=subprocess.PIPE, text=True)
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["PyInit__native"]


def test_to_keeps_the_memory():
    numbers = array.array("f", [1, 2, 3])
    tensor = tenon.to(numbers, "tenon")
    assert isinstance(tensor, tenon.Tensor)
    view = tenon.to(tensor, "memoryview")
    view[1] = 20
    assert numbers.tolist() == [1, 20, 3]
    with pytest.raises(ValueError, match="'memoryview', 'tenon', got 'nummpy'"):
        tenon.to(numbers, "nummpy")


# ------------------------------------------------------------------------------------------------------------ load()


@pytest.mark.parametrize("form", [str, os.fsencode, pathlib.Path], ids=["str", "bytes", "path"])
def test_load(tmp_path, form):
    file = counting(tmp_path / "kérnels.so", 42)
    module = tenon.load(form(file))
    assert type(module) is tenon.Library and isinstance(module, types.ModuleType)
    assert (module.__name__, module.__doc__, module.__file__) == ("counting", "Counts.", str(file))
    assert not hasattr(module, "__version__")
    assert "counting" not in sys.modules
    assert module.answer() == 42


def test_load_of_a_bare_name(tmp_path, monkeypatch):
    counting(tmp_path / "bare.so", 1)
    monkeypatch.chdir(tmp_path)
    assert tenon.load("bare.so").answer() == 1


def test_load_of_what_is_no_path():
    with pytest.raises(TypeError):
        tenon.load(3)


def test_rebuilt_file(tmp_path):
    file = counting(tmp_path / "rebuilt.so", 1)
    old = tenon.load(file)
    new = tenon.load(counting(file, 2))
    assert (old.answer(), new.answer()) == (1, 2)
    file.unlink()
    assert (old.answer(), new.answer()) == (1, 2)
    again = tenon.load(counting(file, 1))
    assert (old.next(), again.next(), new.next()) == (1, 2, 1)


def test_opened_in_place(tmp_path, temporary):
    file = counting(tmp_path / "one.so", 3)
    first, second = tenon.load(file), tenon.load(file)
    assert [first.next(), second.next()] == [1, 2]
    assert first is not second and first.answer is not second.answer
    assert [first.mine(), first.mine(), second.mine()] == [1, 2, 1]
    assert mapped(tmp_path) == {str(file)} and os.listdir(temporary) == []


def test_origin_of_the_library(tmp_path):
    """A dependency that is found beside the library."""
    build(tmp_path / "libhelper.so", "int helper(void) { return 7; }")
    code = """
    #include <tenon/function.h>
    extern int helper(void);
    static tenon_status seven(tenon_call *call) { tenon_return_int(call, 0, helper()); return TENON_OK; }
    TENON_MODULE(dependent, NULL, TENON_FUNCTION("seven() -> int", seven, NULL))"""
    options = [f"-L{tmp_path}", "-lhelper", "-Wl,-rpath,$ORIGIN"]
    file = build(tmp_path / "dependent.so", code, *options)
    assert tenon.load(file).seven() == 7
    assert tenon.load(file).seven() == 7


def test_dependency_that_is_missing(tmp_path):
    build(tmp_path / "libaway.so", "int away(void) { return 7; }")
    code = "extern int away(void); int lost(void) { return away(); }"
    file = build(tmp_path / "lost.so", code, f"-L{tmp_path}", "-laway")
    with pytest.raises(ImportError) as caught:
        tenon.load(file)
    assert str(caught.value) == f"{file}: libaway.so: cannot open shared object file: No such file or directory"
    assert (caught.value.name, caught.value.path) == ("lost", str(file))


# ------------------------------------------------------------------------------------------------------- what is wrong


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        tenon.load(tmp_path / "nothing.so")
    with pytest.raises(IsADirectoryError):
        tenon.load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path):
    file = tmp_path / "secret.so"
    file.write_bytes(b"")
    file.chmod(0)
    with pytest.raises(PermissionError):
        tenon.load(file)


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF" + bytes(500)], ids=["empty", "text", "rubbish"])
def test_no_library(tmp_path, content):
    file = tmp_path / "wrong.so"
    file.write_bytes(content)
    with pytest.raises(ImportError) as caught:
        tenon.load(file)
    assert str(caught.value).startswith(f"{file}: it is not a shared library")
    assert (caught.value.name, caught.value.path) == ("wrong", str(file))


def test_truncated_library(tmp_path):
    whole = counting(tmp_path / "whole.so", 1).read_bytes()
    for length in (64, 1000, len(whole) // 2):
        (tmp_path / "cut.so").write_bytes(whole[:length])
        with pytest.raises(ImportError, match=r"cut\.so: "):
            tenon.load(tmp_path / "cut.so")


def test_library_of_others(tmp_path, temporary):
    file = build(tmp_path / "others.so", "int nothing(void) { return 0; }")
    for _ in range(2):
        with pytest.raises(ImportError, match="tenon_module_v1") as caught:
            tenon.load(file)
        assert str(caught.value).count("tenon_module_v1") == 1
        assert (caught.value.name, caught.value.path) == ("others", str(file))
    assert mapped(file.parent) == set() and os.listdir(temporary) == []  # it was closed


def test_signature_that_does_not_parse(tmp_path, temporary):
    """Each build says its own mistake."""
    file = tmp_path / "bad.so"
    for signature, mistake in (("f(x: f32[n)", "']'"), ("f(x: )", "a type such as"), ("f(", "parameter")):
        code = f"""
        #include <tenon/function.h>
        static tenon_status f(tenon_call *call) {{ (void)call; return TENON_OK; }}
        TENON_MODULE(bad, NULL, TENON_FUNCTION("{signature}", f, NULL))"""
        with pytest.raises(ImportError) as caught:
            tenon.load(build(file, code))
        message = str(caught.value)
        assert message.startswith(f"{file}: ") and mistake in message and message.endswith("^")
    assert os.listdir(temporary) == []
