"""The checks of tools/wheels find what is wrong with a wheel."""

import base64
import hashlib
import os
import pathlib
import struct
import subprocess
import sys
import types
import zipfile
import zlib

import pytest
from scripts import ROOT, load

checks = load("tools/cross/check_wheels.py")
wheels = load("tools/wheels")
pack = wheels.pack
INFO = "libtenon-0.dist-info"


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def make(path, files, record):
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
        wheel.writestr(f"{INFO}/RECORD", record)
    return zipfile.ZipFile(path)


@pytest.mark.parametrize(
    "record, wrong",
    [
        (f"a.py,sha256={digest(b'x')},1\n{INFO}/RECORD,,\n", None),
        (f"a.py,sha256={digest(b'y')},1\n{INFO}/RECORD,,\n", "RECORD is wrong about a.py"),
        (f"a.py,sha256={digest(b'x')},2\n{INFO}/RECORD,,\n", "RECORD is wrong about a.py"),
        (f"{INFO}/RECORD,,\n", "RECORD does not list its files"),
        (f"a.py,,\nb.py,,\n{INFO}/RECORD,,\n", "RECORD does not list its files"),
        (f"a.py,sha256={digest(b'x')},1\n\n{INFO}/RECORD,,\n", "RECORD has a line that does not have a name, a sum and a size"),
    ],
)
def test_record(tmp_path, record, wrong):
    wheel = make(tmp_path / "w.whl", {"a.py": b"x"}, record)
    if wrong:
        with pytest.raises(checks.Wrong, match=wrong):
            checks.check_record(wheel, INFO, digest)
    else:
        checks.check_record(wheel, INFO, digest)


def test_all_wheels_have_the_same_files(tmp_path):
    names = ["tenon/_native.abi3.so", "tenon/_native.pyd", "tenon/_native.cpython-39-x86_64-linux-gnu.so"]
    lists = []
    for i, name in enumerate(names):
        make(tmp_path / f"{i}.whl", {name: b"", "tenon/_native.h": b"", "tenon/_native.pyi": b""}, "").close()
        lists.append(checks.files_of(tmp_path / f"{i}.whl"))
    assert lists[0] == lists[1] == lists[2]
    assert {"tenon/_native", "tenon/_native.h", "tenon/_native.pyi"} < set(lists[0])


def macho(*symbols):
    """A file for macOS with only a table of symbols: (name, type)."""
    names, table = b"\0", b""
    for name, kind in symbols:
        table += struct.pack("<IBBHQ", len(names), kind, 1, 0, 0)
        names += name.encode() + b"\0"
    header = struct.pack("<8I", 0xFEEDFACF, 0, 0, 8, 1, 24, 0, 0)
    command = struct.pack("<6I", 2, 24, 56, len(symbols), 56 + len(table), len(names))
    return header + command + table + names


def test_symbols_of_macos():
    assert checks.check_macho(macho(("_PyInit__native", 0x0F), ("_PyList_New", 0x01))) == {"PyInit__native"}
    assert checks.check_macho(macho(("_PyInit__native", 0x0F), ("_PyList_New__thunk", 0x0E))) == {"PyInit__native"}
    with pytest.raises(checks.Wrong, match="not stripped"):
        checks.check_macho(macho(("_PyInit__native", 0x0F), ("main.c", 0x64)))
    with pytest.raises(checks.Wrong, match="not stripped"):
        checks.check_macho(macho(("_PyInit__native", 0x0F), ("_tenon__debug", 0x1E)))
    with pytest.raises(checks.Wrong, match="exports PyInit__native, tenon_load"):
        checks.check_extension("w.whl", macho(("_PyInit__native", 0x0F), ("_tenon_load", 0x0F)))


@pytest.mark.parametrize(
    "data, system, machine",
    [
        (b"\x7fELF".ljust(18, b"\0") + b"\xb7\0", "linux", "aarch64"),
        (b"MZ".ljust(60, b"\0") + b"\x40\0\0\0PE\0\0\x64\x86", "win", "amd64"),
        (struct.pack("<2I", 0xFEEDFACF, 0x0100000C), "macosx", "arm64"),
        (struct.pack("<2I", 0xFEEDFACF, 7), "macosx", None),
    ],
)
def test_the_machine_of_an_extension(data, system, machine):
    assert checks.machine_of(data) == (system, machine)


def test_an_extension_for_another_machine():
    with pytest.raises(checks.Wrong, match="its extension is for macosx on arm64"):
        data = bytearray(macho(("_PyInit__native", 0x0F)))
        data[4:8] = struct.pack("<I", 0x0100000C)
        checks.check_extension("w-macosx_11_0_x86_64.whl", bytes(data))


def test_a_damaged_wheel(tmp_path):
    """A reason and not a traceback, whichever library finds the damage."""
    make(tmp_path / "w.whl", {"a.py": b"x" * 100}, "").close()
    (tmp_path / "w.whl").write_bytes((tmp_path / "w.whl").read_bytes()[:-30])
    assert checks.reason_of(zipfile.ZipFile, tmp_path / "w.whl") == "it is damaged, BadZipFile: File is not a zip file"
    wheel = make(tmp_path / "v.whl", {"a.py": b"x"}, "")
    assert checks.reason_of(checks.read, wheel, "sbom") == "it has no sbom"
    assert checks.reason_of(checks.read, wheel, "a.py") is None


@pytest.mark.parametrize("first", ["5 is not an object", "5" * 1000])
def test_a_bill_of_materials_that_is_not_valid(monkeypatch, first):
    """The schema, which the error shows, is left out."""
    validator = types.SimpleNamespace(validate_str=lambda text: first + "\n  schema" * 16_900)
    fakes = {"cyclonedx": {}, "cyclonedx.validation": {}, "cyclonedx.schema": {"SchemaVersion": types.SimpleNamespace(V1_6=6)},
             "cyclonedx.validation.json": {"JsonStrictValidator": lambda version: validator}}
    for name, content in fakes.items():
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(**content))
    assert checks.reason_of(checks.check_sbom, "5", "0") == f"its bill of materials is not CycloneDX 1.6: {first[:500]}"


def test_an_error_of_many_lines():
    def fail():
        raise ValueError("it is short\n" * 1000)

    assert checks.reason_of(fail) == "it is damaged, ValueError: it is short"


SUMS, SIZES = {"a.whl": "00", "b.tar.gz": "11"}, {"a.whl": 5, "b.tar.gz": 6}
ENTRY = {"file": "a.whl", "sha256": "00", "bytes": 5, "ran": []}


@pytest.mark.parametrize(
    "lines, wrong",
    [
        (["00  a.whl", "11  b.tar.gz"], None),
        (["00  a.whl", "12  b.tar.gz"], "it does not have the sum of b.tar.gz"),
        ([], "it does not have the sum of a.whl"),
        (["00  a.whl", "11  b.tar.gz", ""], "it has 3 lines for 2 files"),
    ],
)
def test_sums(lines, wrong):
    assert checks.reason_of(checks.check_sums, lines, SUMS) == wrong


@pytest.mark.parametrize(
    "entries, wrong",
    [
        ([ENTRY], None),
        ([{**ENTRY, "ran": ["CPython 3.12.1, Linux x86_64"]}], None),
        ([], "it does not have one entry for each wheel"),
        ([ENTRY, ENTRY], "it does not have one entry for each wheel"),
        ({}, "it is not a list of objects"),
        ([{"file": "a.whl"}], "it has an entry with file"),
        ([{**ENTRY, "sha256": "01"}], "it is wrong about a.whl"),
        ([{**ENTRY, "bytes": 4}], "it is wrong about a.whl"),
        ([{**ENTRY, "file": "c.whl"}], "it is wrong about c.whl"),
        ([{**ENTRY, "ran": 5}], "it does not list where a.whl ran"),
    ],
)
def test_entries(entries, wrong):
    assert checks.reason_of(checks.check_entries, entries, SUMS, SIZES) == wrong


def test_a_release_is_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(wheels, "DIST", tmp_path)
    (tmp_path / "SHA256SUMS").write_text("")
    (tmp_path / "wheels.json").write_text("[]")
    assert list(checks.results(wheels, [], tmp_path, False)) == []
    missing = dict(checks.results(wheels, [], tmp_path, True))
    assert len(missing) == 12 and f"libtenon-{wheels.version()}.tar.gz" in missing


def test_what_does_not_belong_in_dist(tmp_path, monkeypatch, capsys):
    """A reason for each, and not a traceback."""
    dist = tmp_path / "dist"
    dist.mkdir()
    monkeypatch.setattr(wheels, "DIST", dist)
    monkeypatch.setattr(wheels, "BUILD", tmp_path)
    monkeypatch.setattr(checks, "build_again", lambda wheels, files, folder: (folder / "dist").mkdir(parents=True))
    (dist / "evil.whl").write_text("")
    (dist / "evil.zip").write_text("")
    (dist / "folder.whl").mkdir()
    (dist / "link.whl").symlink_to("nothing")
    (dist / "link.tar.gz").symlink_to("nothing")
    (dist / "SHA256SUMS").write_text(f"{hashlib.sha256(b'').hexdigest()}  evil.whl\n")
    (dist / "wheels.json").mkdir()
    assert checks.check(wheels, False) == 1
    said = dict(line[len("FAILED "):].split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert said.pop("evil.whl") == "`make wheels` does not build a file of this name"
    assert said.pop("wheels.json").startswith("it is damaged, IsADirectoryError: ")
    assert said == dict.fromkeys(["evil.zip", "folder.whl", "link.whl", "link.tar.gz"],
                                 "it is not a wheel, an sdist or one of their lists; remove it")


def test_a_dist_without_wheels(tmp_path, monkeypatch):
    monkeypatch.setattr(wheels, "DIST", tmp_path)
    (tmp_path / "link.whl").symlink_to("nothing")
    with pytest.raises(SystemExit, match="there is no wheel and no sdist in dist/"):
        checks.check(wheels, False)


def test_a_free_threaded_python_on_the_path(tmp_path, monkeypatch):
    python = tmp_path / "python3.13t"
    python.write_text(f"#!/bin/sh\necho 3.13t\necho {python}\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("TENON_FREE_THREADED", raising=False)
    assert wheels.pythons()["3.13t"] == str(python)


@pytest.mark.parametrize(
    "name, tag",
    [("3.9", "cp39-cp39"), ("3.12", "cp312-abi3"), ("3.14", "cp312-abi3"), ("3.13t", "cp313-cp313t")],
)
def test_the_wheel_of_an_interpreter(name, tag):
    assert wheels.target_of(name).tag == f"{tag}-{wheels.NATIVE.platform}"
    assert wheels.target_of("3.14t") is None


@pytest.mark.parametrize("given, folder", [("some/dist", ROOT / "some/dist"), ("/elsewhere/dist", pathlib.Path("/elsewhere/dist"))])
def test_the_folder_of_the_wheels(monkeypatch, given, folder):
    """It is found from the root, as the build folder is, whether that is relative or absolute."""
    monkeypatch.setenv("TENON_DIST", given)
    assert load("tools/wheels").DIST == folder
    assert load("tools/try-wheels").DIST == folder


# ------------------------------------------------------------------------------------------------------------- packing

FILES = [
    ("tenon/__init__.py", 0o100644, b"import sys\n" * 99),
    ("tenon/_native.so", 0o100755, bytes(range(256))),
    ("empty", 0o100644, b""),
]
DATE = (2026, 11, 16, 12, 30, 58)


def zlib_deflate(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def written(path, compress):
    pack.write_zip(path, FILES, DATE, compress)
    with zipfile.ZipFile(path) as wheel:
        assert wheel.testzip() is None and wheel.namelist() == [name for name, _, _ in FILES]
        for entry, (name, mode, content) in zip(wheel.infolist(), FILES):
            assert wheel.read(name) == content and entry.external_attr == mode << 16
            assert entry.date_time == DATE and entry.compress_type == zipfile.ZIP_DEFLATED
    return path.read_bytes()


def test_a_wheel_is_a_zip_file(tmp_path):
    assert written(tmp_path / "a.whl", zlib_deflate) == written(tmp_path / "b.whl", zlib_deflate)


def test_the_same_as_of_zipfile(tmp_path):
    """Byte for byte, if zlib compresses."""
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for name, mode, content in FILES:
            entry = zipfile.ZipInfo(name, DATE)
            entry.create_system, entry.external_attr = 3, mode << 16
            wheel.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    assert written(tmp_path / "b.whl", zlib_deflate) == (tmp_path / "a.whl").read_bytes()


def test_zopfli(tmp_path):
    pytest.importorskip("zopfli")
    data = (ROOT / "tools/wheels").read_bytes()
    assert zlib.decompress(pack.deflate(data), -15) == data
    assert len(pack.deflate(data)) < len(zlib_deflate(data))
    written(tmp_path / "a.whl", pack.deflate)


# --------------------------------------------------------------------------------------------------------------- dates


def test_the_date_of_an_sdist(tmp_path, monkeypatch):
    """It is that of the last commit, even if no wheel is built before it, as in the second build of a check."""
    dates = []

    def run(*command, **options):
        dates.append(os.environ.get("SOURCE_DATE_EPOCH"))
        return "1234567890\n" if command[0] == "git" else ""

    monkeypatch.setattr(wheels, "run", run)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "")
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    wheels.build_sdist(tmp_path)
    assert dates == [None, "1234567890"]


# --------------------------------------------------------------------------------------------------------------- dist/


@pytest.fixture
def old_dist(tmp_path, monkeypatch):
    """A dist/ of an earlier build, and a build that only writes the names of the wheels."""
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "old.whl").write_text("old")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1234567890")
    monkeypatch.setattr(wheels, "DIST", dist)
    monkeypatch.setattr(wheels, "BUILD", tmp_path / "build")
    monkeypatch.setattr(wheels, "pythons", lambda: {"3.12": "python3.12"})
    monkeypatch.setattr(wheels, "environment", lambda python, name, *packages: python)
    monkeypatch.setattr(wheels, "build_sdist", lambda output: (output / "libtenon.tar.gz").write_text("sdist"))

    def build_wheel(target, python, output, work, source):
        assert (dist / "old.whl").exists()
        (output / f"{target.tag}.whl").write_text("new")
        return output / f"{target.tag}.whl"

    monkeypatch.setattr(wheels, "build_wheel", build_wheel)
    return dist


def test_a_build_replaces_dist(old_dist):
    wheels.build(True)
    names = [f"{wheels.NATIVE.tag}.whl", "SHA256SUMS", "wheels.json"]
    assert sorted(path.name for path in old_dist.iterdir()) == sorted(names)
    assert not (wheels.BUILD / "new").exists()


def test_the_first_build_makes_dist(old_dist, tmp_path, monkeypatch):
    monkeypatch.setattr(wheels, "DIST", tmp_path / "some/dist")
    wheels.build(False)
    assert {"libtenon.tar.gz", "SHA256SUMS"} < {path.name for path in wheels.DIST.iterdir()}


def test_a_build_that_cannot_begin_leaves_dist(old_dist, monkeypatch, capsys):
    monkeypatch.setattr(wheels, "pythons", dict)
    with pytest.raises(SystemExit) as ended:
        wheels.build(True)
    assert ended.value.code == 77 and "no Python 3.12 or newer" in capsys.readouterr().out
    assert [path.name for path in old_dist.iterdir()] == ["old.whl"]


def test_a_build_that_fails_leaves_dist(old_dist, monkeypatch):
    def build_sdist(output):
        raise RuntimeError("it failed")

    monkeypatch.setattr(wheels, "build_sdist", build_sdist)
    with pytest.raises(RuntimeError, match="it failed"):
        wheels.build(False)
    assert [path.name for path in old_dist.iterdir()] == ["old.whl"]


@pytest.mark.parametrize("action, known", [("build", "WHEELS=native"), ("check", "WHEELS=all")])
def test_an_unknown_choice(action, known):
    done = subprocess.run([sys.executable, ROOT / "tools/wheels", action, "bogus"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 1
    assert done.stdout.startswith(f"WHEELS=bogus is unknown; write {known}, or leave it out ")
