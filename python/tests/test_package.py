"""tenon.load and what else the installed package has. The functions themselves are other files' subject."""

import array
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import types

import pytest
from libraries import build, counting, tenon

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder in which load() makes its copies."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("TENON_DEBUG", raising=False)
    return folder


def mapped(folder):
    """The files of a folder that this process has mapped, those that are gone too."""
    with open("/proc/self/maps") as maps:
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
    assert type(module) is types.ModuleType
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


def test_overwritten_file(tmp_path):
    """As cp does it: into the same inode, under the feet of whoever had it mapped."""
    file, other = counting(tmp_path / "first.so", 1), counting(tmp_path / "second.so", 2)
    old = tenon.load(file)
    file.write_bytes(other.read_bytes())
    assert tenon.load(file).answer() == 2
    file.write_bytes(bytes(len(file.read_bytes())))
    assert old.answer() == 1


def test_same_content_is_opened_once(tmp_path, temporary):
    file = counting(tmp_path / "one.so", 3)
    (tmp_path / "two.so").write_bytes(file.read_bytes())
    first, second, third = tenon.load(file), tenon.load(tmp_path / "two.so"), tenon.load(file)
    assert [first.next(), second.next(), third.next()] == [1, 2, 3]
    assert len(mapped(temporary)) == 1
    assert first is not third and first.answer is not third.answer
    assert [first.mine(), first.mine(), second.mine(), third.mine()] == [1, 2, 1, 1]
    assert second.__file__ == str(tmp_path / "two.so")


def test_threads_open_once(tmp_path, temporary, monkeypatch):
    file = counting(tmp_path / "threads.so", 4)
    make = tempfile.mkdtemp

    def slowly(**options):
        time.sleep(0.2)  # long enough for the others to come here too
        return make(**options)

    monkeypatch.setattr(tempfile, "mkdtemp", slowly)
    modules, start = [], threading.Barrier(8)

    def work():
        start.wait()
        modules.append(tenon.load(file))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(module.next() for module in modules) == list(range(1, 9))
    assert len(mapped(temporary)) == 1


def test_copy_is_removed(tmp_path, temporary):
    assert tenon.load(counting(tmp_path / "removed.so", 5)).answer() == 5
    assert os.listdir(temporary) == []


def test_copy_stays_for_debuggers(tmp_path, temporary, monkeypatch):
    file = counting(tmp_path / "debug.so", 6)
    monkeypatch.setenv("TENON_DEBUG", "1")
    assert tenon.load(file).answer() == 6
    (folder,) = temporary.iterdir()
    (copy,) = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert copy.read_bytes() == file.read_bytes()
    assert mapped(temporary) == {str(copy)}


# -------------------------------------------------------------------------------------- where a copy cannot be opened


def test_origin_of_the_library(tmp_path, temporary):
    """A dependency that is found beside the library is not beside a copy."""
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
    assert os.listdir(temporary) == []



def test_same_reason_is_said_once(tmp_path):
    build(tmp_path / "libaway.so", "int away(void) { return 7; }")
    code = "extern int away(void); int lost(void) { return away(); }"
    file = build(tmp_path / "lost.so", code, f"-L{tmp_path}", "-laway")
    with pytest.raises(ImportError) as caught:
        tenon.load(file)
    assert str(caught.value) == f"{file}: libaway.so: cannot open shared object file: No such file or directory"


def test_without_a_temporary_folder(tmp_path, temporary, monkeypatch):
    file = counting(tmp_path / "in_place.so", 8)
    temporary.rmdir()
    monkeypatch.chdir(tmp_path)
    old = tenon.load("in_place.so")
    assert (old.answer(), tenon.load(file).answer()) == (8, 8)
    assert (old.next(), tenon.load(file).next()) == (1, 2)

    with pytest.raises(ImportError, match="an older build is open under its name, .*temporary.*; set TMPDIR"):
        tenon.load(counting(file, 9))
    temporary.mkdir()
    assert (tenon.load(file).answer(), old.answer()) == (9, 8)


def test_both_reasons(tmp_path, temporary):
    helper = build(tmp_path / "libgone.so", "int gone(void) { return 7; }")
    code = """
    #include <tenon/function.h>
    extern int gone(void);
    static tenon_status seven(tenon_call *call) { (void)gone(); (void)call; return TENON_OK; }
    TENON_MODULE(both, NULL, TENON_FUNCTION("seven()", seven, NULL))"""
    file = build(tmp_path / "both.so", code, f"-L{tmp_path}", "-lgone")
    helper.unlink()
    temporary.rmdir()
    reasons = r"both\.so: libgone\.so: cannot open .*; and of a copy: .*temporary"
    with pytest.raises(ImportError, match=reasons) as caught:
        tenon.load(file)
    assert (caught.value.name, caught.value.path) == ("both", str(file))


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
    assert str(caught.value).startswith(f"{file}: it is no shared library")
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
    assert len(mapped(temporary)) == 1
    assert not mapped(file.parent) - mapped(temporary)


def test_signature_that_does_not_parse(tmp_path, temporary):
    """Each build says its own mistake, and nobody tries the file itself."""
    file = tmp_path / "bad.so"
    for signature, mistake in (("f(x: f32[n)", "']'"), ("f(x: )", "dtype"), ("f(", "parameter")):
        code = f"""
        #include <tenon/function.h>
        static tenon_status f(tenon_call *call) {{ (void)call; return TENON_OK; }}
        TENON_MODULE(bad, NULL, TENON_FUNCTION("{signature}", f, NULL))"""
        with pytest.raises(ImportError) as caught:
            tenon.load(build(file, code))
        message = str(caught.value)
        assert message.startswith(f"{file}: ") and mistake in message and message.endswith("^")
        assert "copy" not in message
    assert not mapped(file.parent) - mapped(temporary)
