"""The checks of tools/wheels find what is wrong with a wheel."""

import base64
import hashlib
import importlib.util
import pathlib
import struct
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


checks = load(ROOT / "tools/cross/check_wheels.py")
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
    with pytest.raises(checks.Wrong, match="not stripped"):
        checks.check_macho(macho(("_PyInit__native", 0x0F), ("main.c", 0x64)))
    with pytest.raises(checks.Wrong, match="exports PyInit__native, tenon_load"):
        checks.check_extension("w.whl", macho(("_PyInit__native", 0x0F), ("_tenon_load", 0x0F)))

