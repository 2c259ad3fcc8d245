"""The cache of tenon.compile: when the compiler runs again, who may write to the folder, and several processes at once."""

import concurrent.futures
import errno
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import textwrap

import pytest
from building import build, run_python, tenon
from compile_stand_ins import C, answers, logging_compiler, script

from tenon import _cache, _folders

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in for a compiler is a shell script")
INCLUDES = '#include "value.h"\n' + C


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENON_CACHE", str(tmp_path / "cache"))
    for name in ("CPPFLAGS", "CXXFLAGS", "LDFLAGS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def runs_of(tmp_path):
    """Call tenon.compile and return the module and whether the compiler ran."""
    compiler, log = logging_compiler(tmp_path)

    def call(source, **keywords):
        log.unlink(missing_ok=True)
        keywords.setdefault("compiler", str(compiler))
        return tenon.compile(source, **keywords), log.exists()

    call.compiler = compiler
    return call


@pytest.fixture
def no_private_folder(monkeypatch):
    """This process has no temporary folder yet, and none afterwards."""
    folders = {}
    monkeypatch.setattr(_cache, "_private", folders)
    yield
    for folder in folders.values():
        shutil.rmtree(folder)


def write_late(path, content):
    """Write a file whose time is not that of an older one, however coarse the clock is."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if path.stat().st_mtime_ns == before:
        os.utime(path, ns=(before + 10**7, before + 10**7))


# ---------------------------------------------------------------------------------------------------- when it runs again


def test_same_source_is_compiled_once(runs_of, tmp_path, monkeypatch):
    first, ran = runs_of(answers(1))
    assert ran
    monkeypatch.chdir(tmp_path)
    second, ran = runs_of(answers(1))
    assert not ran and second is not first and second.__file__ == first.__file__
    (tmp_path / "file.c").write_text(answers(1))
    assert runs_of(tmp_path / "file.c")[1] and not runs_of("file.c")[1]


def test_another_process_finds_it(runs_of):
    module, _ = runs_of(answers(1))
    code = f"import tenon; print(tenon.compile({answers(1)!r}, compiler={str(runs_of.compiler)!r}, verbose=True).__file__)"
    assert run_python(code) == module.__file__ + "\n"


def test_a_call_that_finds_its_library_starts_nothing(runs_of, monkeypatch):
    runs_of(answers(1))
    monkeypatch.setattr(subprocess, "Popen", None)
    monkeypatch.setattr(tempfile, "mkdtemp", None)
    monkeypatch.setattr(tempfile, "mkstemp", None)
    assert runs_of(answers(1))[0].answer() == 1


def test_what_the_key_has(runs_of, tmp_path, monkeypatch):
    assert runs_of(C, flags=["-DANSWER=1"])[1]
    assert runs_of(C, flags=["-DANSWER=2"])[0].answer() == 2
    assert not runs_of(C, flags=["-DANSWER=1"])[1]
    monkeypatch.setenv("CFLAGS", "-O1")
    assert runs_of(C, flags=["-DANSWER=1"])[1]
    monkeypatch.setenv("CPATH", str(tmp_path))
    assert runs_of(C, flags=["-DANSWER=1"])[1]
    os.utime(runs_of.compiler, ns=(1, 1))
    assert runs_of(C, flags=["-DANSWER=1"])[1] and not runs_of(C, flags=["-DANSWER=1"])[1]
    monkeypatch.setattr(tenon, "__version__", "another")
    assert runs_of(C, flags=["-DANSWER=1"])[1]


def test_compiler_behind_a_link_and_a_wrapper(runs_of, tmp_path, monkeypatch):
    """ccache is found first, by the name of the compiler that it calls."""
    real = script(tmp_path / "real", "mycc", f'exec "{runs_of.compiler}" "$@"\n')
    (tmp_path / "links").mkdir()
    (tmp_path / "links/mycc").symlink_to(real)
    (tmp_path / "wrappers").mkdir()
    wrapper = script(tmp_path / "wrappers", "ccache", f'[ "$1" = mycc ] && shift; exec "{tmp_path}/links/mycc" "$@"\n')
    (tmp_path / "wrappers/mycc").symlink_to(wrapper)
    folders = [tmp_path / "wrappers", tmp_path / "links", os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    for compiler in ("mycc", "ccache mycc"):
        assert runs_of(answers(1), compiler=compiler)[1] and not runs_of(answers(1), compiler=compiler)[1]
        os.utime(real, ns=(1, len(compiler)))
        assert runs_of(answers(1), compiler=compiler)[1]


def test_relative_flags_belong_to_a_folder(runs_of, tmp_path, monkeypatch):
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "value.h").write_text(f"#define ANSWER {number}\n")
        monkeypatch.chdir(folder)
        for flags in (["-I."], ["-I", "."], ["-include", "value.h", f"-I{folder}"]):
            assert runs_of(INCLUDES, flags=flags)[0].answer() == number
            assert not runs_of(INCLUDES, flags=flags)[1]
        monkeypatch.setenv("CFLAGS", "-I.")
        assert runs_of(INCLUDES)[0].answer() == number and not runs_of(INCLUDES)[1]
        monkeypatch.delenv("CFLAGS")
        for value in (".", "/nowhere:", "/nowhere:."):
            monkeypatch.setenv("CPATH", value)
            assert runs_of(INCLUDES)[0].answer() == number and not runs_of(INCLUDES)[1]
        monkeypatch.delenv("CPATH")
    flags = [f"-I{tmp_path}/1", "-O1", "-Wall", "-Wl,-O1,-rpath,/lib", "-DX=1.5", "-fno-math-errno", f"-L{tmp_path}", "-std=c11"]
    for folder in (tmp_path, tmp_path / "2"):
        monkeypatch.chdir(folder)
        module, ran = runs_of(INCLUDES, flags=flags)
        assert module.answer() == 1 and ran == (folder is tmp_path)


def test_removed_current_folder(tmp_path):
    """Absolute paths still work."""
    (tmp_path / "file.c").write_text(answers(3))
    code = f"""
        import os, sys, warnings, tenon
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir({str(tmp_path / "gone")!r})
        print(tenon.compile({str(tmp_path / "file.c")!r}).answer(), tenon.compile({answers(4)!r}).answer())
        for source, keywords in (("file.c", {{}}), ({C!r}, {{"flags": ["-I."]}}), ({C!r}, {{"compiler": "./cc"}})):
            try:
                tenon.compile(source, **keywords)
            except FileNotFoundError as error:
                print(error)
        os.environ["TENON_CACHE"] = "cache"
        warnings.simplefilter("error")
        try:
            tenon.compile({answers(5)!r})
        except RuntimeWarning as warning:
            print(warning)
        """
    first, *errors, warning = run_python(code, cwd=tmp_path).splitlines()
    assert first == "3 4" and len(errors) == 3
    for error, name in zip(errors, ("file.c", ".", "./cc")):
        assert "tenon.compile(): the current folder was removed" in error and error.endswith(f"paths: {name!r}")
    assert "TENON_CACHE is cache, and the current folder was removed: using a temporary folder" in warning


def test_native_flags_belong_to_a_machine(runs_of, monkeypatch):
    native = {"flags": ["-DNAME=native"]}
    assert runs_of(answers(1), **native)[1] and not runs_of(answers(1), **native)[1]
    monkeypatch.setattr("platform.node", lambda: "another")
    assert runs_of(answers(1), **native)[1]


@pytest.mark.parametrize("name", ["value.h", "with space.h", "hash#.h", "dollar$.h", "é.h"])
def test_changed_header(runs_of, tmp_path, name):
    header = tmp_path / name
    source = INCLUDES.replace("value.h", name)
    write_late(header, "#define ANSWER 1\n")
    options = {"flags": [f"-I{tmp_path}"]}
    old, _ = runs_of(source, **options)
    write_late(header, "#define ANSWER 2\n")
    new, ran = runs_of(source, **options)
    assert ran and (old.answer(), new.answer()) == (1, 2)
    assert not runs_of(source, **options)[1]
    assert os.path.exists(old.__file__)  # a pickle may name it
    header.unlink()
    with pytest.raises(tenon.CompileError, match="No such file"):
        runs_of(source, **options)


@pytest.mark.parametrize("option", ["-isystem", "-idirafter", "C_INCLUDE_PATH"])
def test_header_of_a_system_folder(runs_of, tmp_path, monkeypatch, option):
    """The compiler may take a folder of the user for one of the system. Only the headers of the system are not compared."""
    monkeypatch.setenv("C_INCLUDE_PATH", str(tmp_path))
    options = {} if option == "C_INCLUDE_PATH" else {"flags": [option, str(tmp_path)]}
    for number in (1, 2):
        write_late(tmp_path / "value.h", f"#define ANSWER {number}\n")
        module, ran = runs_of(INCLUDES.replace('"value.h"', "<value.h>"), **options)
        assert ran and module.answer() == number
    manifest = (pathlib.Path(module.__file__).parent / "manifest").read_text()
    assert str(tmp_path / "value.h") in manifest and "stdint.h" not in manifest


def test_touched_header(runs_of, tmp_path, monkeypatch):
    """Its content is compared once."""
    header = tmp_path / "value.h"
    header.write_text("#define ANSWER 1\n")
    options = {"flags": [f"-I{tmp_path}"]}
    runs_of(INCLUDES, **options)
    os.utime(header, ns=(1, 1))
    assert not runs_of(INCLUDES, **options)[1]
    monkeypatch.setattr(_cache, "_row", None)
    assert not runs_of(INCLUDES, **options)[1]


def test_header_with_the_same_size_and_time(runs_of, tmp_path):
    """As tar, `rsync -t` and `git restore-mtime` write it."""
    header = tmp_path / "value.h"
    options = {"flags": [f"-I{tmp_path}"]}
    for number in (1, 2):
        write_late(header, f"#define ANSWER {number}\n")
        os.utime(header, ns=(1, 1))
        module, ran = runs_of(INCLUDES, **options)
        assert ran and module.answer() == number
        assert not runs_of(INCLUDES, **options)[1]
    (tmp_path / "other.h").write_text("#define ANSWER 3\n")
    os.utime(tmp_path / "other.h", ns=(1, 1))
    os.replace(tmp_path / "other.h", header)
    assert runs_of(INCLUDES, **options)[0].answer() == 3


def test_header_of_a_file(runs_of, tmp_path, monkeypatch):
    write_late(tmp_path / "value.h", "#define ANSWER 1\n")
    (tmp_path / "file.c").write_text(INCLUDES)
    monkeypatch.chdir(tmp_path)
    assert runs_of("file.c")[0].answer() == 1
    write_late(tmp_path / "value.h", "#define ANSWER 2\n")
    monkeypatch.chdir("/")
    assert runs_of(tmp_path / "file.c")[0].answer() == 2 and not runs_of(tmp_path / "file.c")[1]


def test_our_headers(runs_of, cache):
    module, _ = runs_of(answers(1))
    manifest = (pathlib.Path(module.__file__).parent / "manifest").read_text()
    header = os.path.join(_folders.folder("include"), "tenon", "function.h")
    assert header in manifest


def test_header_that_changes_meanwhile(tmp_path):
    """The compiler saw one version, and the file has another when the library is stored."""
    header = tmp_path / "value.h"
    header.write_text("#define ANSWER 1\n")
    os.utime(header, ns=(1, 1))
    compiler = script(tmp_path / "bin", "cc", f'$REAL "$@" && echo "#define ANSWER 2" > {header}\n')
    options = {"flags": [f"-I{tmp_path}"], "compiler": str(compiler)}
    assert tenon.compile(INCLUDES, **options).answer() == 1
    assert tenon.compile(INCLUDES, **options).answer() == 2


def test_files_among_the_flags(runs_of, tmp_path, monkeypatch):
    text = C.replace("ANSWER", "value()").replace("static", "int value(void);\nstatic", 1)
    for number in (1, 2):
        made = build(f"int value(void);\nint value(void) {{ return {number}; }}\n", "-c", "-r", name="value.o")
        write_late(tmp_path / "value.o", pathlib.Path(made).read_bytes())
        write_late(tmp_path / "more flags", f"-DMORE={number}\n")
        for flag in (str(tmp_path / "value.o"), f"@{tmp_path / 'more flags'}"):
            source = text if flag.endswith(".o") else C.replace("ANSWER", "MORE")
            module, ran = runs_of(source, flags=[flag])
            assert ran and module.answer() == number
            assert not runs_of(source, flags=[flag])[1]
        monkeypatch.setenv("LDFLAGS", f"-Wl,--no-as-needed,{tmp_path / 'value.o'}")
        module, ran = runs_of(text)
        assert ran and module.answer() == number and not runs_of(text)[1]
        monkeypatch.delenv("LDFLAGS")


def test_compiler_without_dependencies(tmp_path):
    """Nobody knows when to compile again, so that it is always."""
    compiler = script(tmp_path / "bin", "cc", '$REAL "$@"; status=$?; while [ "$1" != -MF ]; do shift; done; rm "$2"; exit $status\n')
    first, second = (tenon.compile(answers(1), compiler=compiler) for _ in range(2))
    assert first.answer() == second.answer() == 1
    assert not (pathlib.Path(first.__file__).parent / "manifest").exists()


def test_flag_that_moves_the_dependencies(runs_of, tmp_path):
    for _ in range(2):
        assert runs_of(answers(1), flags=["-MF", str(tmp_path / "list")])[1]


def test_pickle(tmp_path):
    """By its file, which is still there after a header has changed."""
    header = tmp_path / "value.h"
    write_late(header, "#define ANSWER 1\n")
    old = tenon.compile(INCLUDES, flags=[f"-I{tmp_path}"])
    (tmp_path / "pickle").write_bytes(pickle.dumps([old, old.answer]))
    write_late(header, "#define ANSWER 2\n")
    assert tenon.compile(INCLUDES, flags=[f"-I{tmp_path}"]).answer() == 2
    code = """
        import pickle, sys
        with open(sys.argv[1], "rb") as file:
            module, answer = pickle.load(file)
        print(module.answer(), answer())
        """
    assert run_python(code, tmp_path / "pickle") == "1 1\n"


# ---------------------------------------------------------------------------------------------------------- damaged files


@pytest.mark.parametrize("content", [b"", b"text\n", b"a\nb\nc\n", b"\xff\xfe\n1\n", b"a\n5\n1 2\n"])
def test_damaged_manifest(runs_of, content):
    module, _ = runs_of(answers(1))
    (pathlib.Path(module.__file__).parent / "manifest").write_bytes(content)
    assert runs_of(answers(1))[1] and not runs_of(answers(1))[1]


@pytest.mark.parametrize("same_size", [True, False])
def test_damaged_library(runs_of, same_size):
    file = pathlib.Path(runs_of(answers(1))[0].__file__)
    whole = file.read_bytes()
    file.unlink()  # it is open: its memory is not to change
    file.write_bytes(bytes(len(whole) if same_size else 10))
    module, ran = runs_of(answers(1))
    assert ran and module.answer() == 1 and module.__file__ == str(file) and file.read_bytes() == whole
    assert not runs_of(answers(1))[1]


def test_library_that_is_gone(runs_of):
    module, _ = runs_of(answers(1))
    os.unlink(module.__file__)
    again, ran = runs_of(answers(1))
    assert ran and again.answer() == module.answer() == 1


def test_changed_copy_of_the_text(runs_of, cache):
    runs_of(answers(1))
    (source,) = cache.glob("*/answers.c")
    source.write_text("edited")
    os.unlink(next(cache.glob("*/manifest")))
    assert runs_of(answers(1))[0].answer() == 1 and source.read_text() == answers(1)


# ------------------------------------------------------------------------------------------------------------ the folder


def test_folder_is_private(runs_of, cache):
    runs_of(answers(1))
    assert [folder.stat().st_mode & 0o777 for folder in (cache, *cache.iterdir())] == [0o700, 0o700]


def test_which_folder(tmp_path, monkeypatch):
    chosen = tmp_path / "chosen"
    assert _cache.user_folder() == str(tmp_path / "cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TENON_CACHE", os.path.join("~", "mine"))
    assert _cache.user_folder() == str(tmp_path / "mine")
    monkeypatch.delenv("TENON_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(chosen))
    monkeypatch.setattr(sys, "platform", "linux")
    assert _cache.user_folder() == str(chosen / "tenon" / "compiled")
    monkeypatch.setenv("HOME", str(chosen))
    for relative in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert _cache.user_folder() == str(chosen / ".cache" / "tenon" / "compiled")
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(_cache.Unusable, match="no home folder"):
        _cache.user_folder()


def used_instead(words):
    """A temporary folder is used, and a warning says why."""
    with pytest.warns(RuntimeWarning) as caught:
        module = tenon.compile(answers(1))
    (warning,) = caught
    assert words in str(warning.message) and "TENON_CACHE" in str(warning.message)
    assert warning.filename == __file__
    folder = pathlib.Path(module.__file__).parents[1]
    assert module.answer() == 1 and str(folder) == _cache.private_folder() and folder.stat().st_mode & 0o777 == 0o700
    assert tenon.compile(answers(1)).__file__ == module.__file__  # found, without a warning


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_others_can_write_to_the_folder(cache, mode, no_private_folder):
    cache.mkdir()
    cache.chmod(mode)
    used_instead(f"other users can write to {cache}")
    assert not list(cache.iterdir())


def test_folder_of_another_user(cache, monkeypatch, no_private_folder):
    cache.mkdir()
    if os.geteuid() == 0:
        os.chown(cache, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    used_instead(f"{cache} belongs to another user")


@pytest.mark.parametrize("parent", ["file", "/proc/nothing"])
def test_folder_that_cannot_be_made(tmp_path, monkeypatch, parent, no_private_folder):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TENON_CACHE", str(tmp_path / parent / "cache"))
    used_instead(str(tmp_path / parent / "cache"))


READ_ONLY = """
import ctypes, os, sys, warnings, tenon
if os.geteuid() == 0:  # root without its capabilities to write everywhere
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    capget, capset = ctypes.CDLL(None, use_errno=True).capget, ctypes.CDLL(None, use_errno=True).capset
    assert capget(header, data) == 0
    data[0] &= ~6
    assert capset(header, data) == 0
warnings.simplefilter("error")
print(tenon.compile(sys.argv[1]).answer())
warnings.simplefilter("always")
print(tenon.compile(sys.argv[2]).answer())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
def test_read_only_folder(cache):
    """A library that is in it is used, and others go to a temporary folder, which is removed."""
    tenon.compile(answers(1))
    folders = [cache, *cache.iterdir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert run_python(READ_ONLY, answers(1), answers(2)) == "1\n2\n"
        assert len(list(cache.iterdir())) == 1
    finally:
        for folder in folders:
            folder.chmod(0o700)


@pytest.mark.parametrize("largest", [0, 5000], ids=["source", "library"])
def test_full_folder(cache, monkeypatch, largest, no_private_folder):
    """There is no room for the source, or for the library."""
    real = _cache.put

    def put(entry, name, content):
        if entry.startswith(str(cache)) and len(content) > largest:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(entry, name, content)

    monkeypatch.setattr(_cache, "put", put)
    used_instead(f"cannot write to the cache folder {cache} (No space left on device)")
    assert not list(cache.glob("*/*"))


def test_file_that_is_not_written_to_its_end(cache, monkeypatch):
    """A full disk shows itself when the file is closed; nothing is left of it."""
    cache.mkdir()
    monkeypatch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError(errno.EDQUOT, "no quota")))
    with pytest.raises(OSError, match="no quota"):
        _cache.put(str(cache), "name", b"content")
    assert not list(cache.iterdir())


def test_temporary_folder_of_a_fork(monkeypatch, no_private_folder):
    """A child has its own, and does not remove that of its parent."""
    parent = _cache.make_private_folder()
    monkeypatch.setattr(os, "getpid", lambda: -5)
    assert _cache.private_folder() is None and _cache.make_private_folder() != parent
    _cache._remove(parent, 5)
    assert os.path.isdir(parent)


def test_temporary_folder_is_removed_at_the_end(tmp_path):
    code = f"import os, tenon; os.environ['TENON_CACHE'] = '/proc/no'; print(tenon.compile({answers(1)!r}).__file__)"
    file = run_python(textwrap.dedent(code)).strip()
    assert file and not os.path.exists(os.path.dirname(os.path.dirname(file)))


# ------------------------------------------------------------------------------------------------------- several at once


def test_eight_processes(cache):
    """Each of them compiles, and all of them get their answer."""
    code = f"import sys, tenon; sys.stdin.read(1); print(tenon.compile({answers(8)!r}).answer())"
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(tenon.__file__).parents[1])}
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(8)
    ]
    for process in processes:
        process.stdin.write("g")
        process.stdin.flush()
    assert [process.communicate(timeout=300)[0] for process in processes] == ["8\n"] * 8
    (entry,) = cache.iterdir()
    assert not [file.name for file in entry.iterdir() if file.name.startswith(".")]
    assert tenon.compile(answers(8)).answer() == 8


def test_threads_and_a_header_that_changes(tmp_path):
    """A module is always one of the versions, and the last one wins."""
    header = tmp_path / "value.h"
    write_late(header, "#define ANSWER 1\n")
    options = {"flags": [f"-I{tmp_path}"]}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = [pool.submit(tenon.compile, INCLUDES, **options) for _ in range(4)]
        new = tmp_path / "new.h"
        new.write_text("#define ANSWER 2\n")
        os.replace(new, header)
        assert {one.result().answer() for one in found} <= {1, 2}
    assert tenon.compile(INCLUDES, **options).answer() == 2
