"""python -m tenon doctor: frameworks that misbehave, libraries of each bad kind, and the forms of the report."""

import html.parser
import importlib.util
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import textwrap
import time

import pytest
from libraries import build, counting, run, tenon

# A framework whose arrays are real ones, which needs no other package.
GOOD = """
import array
__version__ = "1.2"
float32 = "f"
def arange(count, dtype):
    return array.array("f", range(count))
def from_dlpack(x):
    return memoryview(x)
"""
# The same with the functions that pyarrow has, which takes no arrays.
PYARROW = """
def float32():
    return "f"
def array(values, dtype):
    return memoryview(bytearray(24)).cast(dtype)
"""


@pytest.fixture
def alone(tmp_path):
    """A folder with this package and no other one, so that no real framework is imported."""
    package = tmp_path / "alone" / "tenon"
    package.mkdir(parents=True)
    for folder in tenon.__path__:
        for item in pathlib.Path(folder).iterdir():
            if item.name != "__pycache__" and not (package / item.name).exists():
                (package / item.name).symlink_to(item)
    return package.parent


def put(folder, **modules):
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(code))


def command(alone, *arguments):
    return [sys.executable, "-S", "-m", "tenon", "doctor", *map(str, arguments)]


def settings(alone, **more):
    return {**os.environ, "PYTHONPATH": str(alone), "PYTHONDONTWRITEBYTECODE": "1", **more}


def doctor(alone, *arguments, **more):
    done = subprocess.run(command(alone, *arguments), env=settings(alone, **more), cwd=alone, capture_output=True, text=True,
                          encoding="utf-8", timeout=300)  # fmt: skip
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def found(alone, *arguments, **more):
    done = doctor(alone, "--json", *arguments, **more)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def by_name(report):
    return {each["name"]: each for each in report["frameworks"]}


def outcomes(report):
    return {(cell["from"], cell["to"]): cell["outcome"] for cell in report["matrix"]}


# --------------------------------------------------------------------------------------------------------- frameworks


def test_without_any_framework(alone):
    done = doctor(alone)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("Python", "libc", "C compiler", "CUDA", "shared memory", "temporary", "compiled libraries"):
        assert f"\n  {words} " in done.stdout
    for line in ("torch", "numpy", "jax"):
        assert f"not installed: pip install {line}\n" in done.stdout
    assert "pip install 'mlx[cpu]'" in done.stdout and "Hand-overs" not in done.stdout


def test_a_folder_with_the_name_of_a_framework(alone):
    (alone / "torch").mkdir()
    assert by_name(found(alone))["torch"]["installed"] is False


def test_a_framework_that_works(alone):
    put(alone, array_api_strict=GOOD)
    report = found(alone)
    assert report["schema"] == 1 and report["tenon"] == tenon.__version__ and report["complete"] is True
    each = by_name(report)["array_api_strict"]
    assert (each["version"], each["reader"], each["device"]) == ("1.2", "buffer", "cpu")
    assert each["why"] == "its arrays have no exchange table"
    (cell,) = report["matrix"]
    assert (cell["from"], cell["to"], cell["outcome"]) == ("array_api_strict", "array_api_strict", "zero-copy")
    assert isinstance(cell["ns"], int) and cell["ns"] > 0
    assert not [name for name, other in by_name(report).items() if other["installed"] and name != "array_api_strict"]


def test_frameworks_that_copy_or_refuse(alone):
    copying = GOOD.replace("memoryview(x)", "array.array('f', memoryview(x))")
    read_only = GOOD.replace('array.array("f", range(count))', 'memoryview(array.array("f", range(count))).toreadonly()')
    writing = read_only + """
def from_dlpack(x):
    if x.readonly:
        raise BufferError("cannot be written to")
    return memoryview(x)
"""
    put(alone, array_api_strict=copying, paddle=writing, pyarrow=PYARROW)
    report = found(alone)
    cells = {(cell["from"], cell["to"]): cell for cell in report["matrix"]}
    assert cells["paddle", "array_api_strict"]["outcome"] == "copy"
    assert "copies it" in cells["paddle", "array_api_strict"]["why"]
    assert cells["array_api_strict", "paddle"]["outcome"] == "zero-copy"
    assert cells["paddle", "paddle"]["outcome"] == "copy" and "cannot be written to" in cells["paddle", "paddle"]["why"]
    assert cells["paddle", "pyarrow"] == {
        "from": "paddle", "to": "pyarrow", "outcome": "refused", "why": "pyarrow does not take DLPack",
    }  # fmt: skip
    text = doctor(alone).stdout
    assert "copy " in text and "refused" in text and "paddle → paddle" in text


BROKEN = {
    "raises": ("raise ValueError('no\\nlicence')", "its import failed: ValueError: no"),
    "raises an ImportError": ("import nothing_like_this", "its import failed: ModuleNotFoundError: No module named"),
    "raises an odd exception": (
        "class Odd(BaseException):\n    def __str__(self): raise RuntimeError\nraise Odd()", "its import failed: Odd"),
    "exits": ("import sys; sys.exit(3)", "its import failed: it ended the process with status 3"),
    "ends the process": ("import os; os._exit(5)", "its import ended the process with status 5"),
    "ends it with success": ("import os; os._exit(0)", "its import ended the process with status 0"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "its import crashed: SIGSEGV"),
    "aborts": ("import os; os.abort()", "its import crashed: SIGABRT"),
    "is interrupted": ("raise KeyboardInterrupt", "its import failed: KeyboardInterrupt"),
    "has a syntax error": ("def", "its import failed: SyntaxError"),
    "has no arange": ("", "it did not make an array: AttributeError"),
    "returns another type": ("float32 = 'f'\ndef arange(*_, **__): return 'text'", "Tenon cannot read its arrays: "),
    "crashes later": ("float32 = 'f'\ndef arange(*_, **__):\n    import os; os.abort()", "making or reading an array crashed: SIGABRT"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_frameworks(alone, kind):
    code, words = BROKEN[kind]
    put(alone, array_api_strict=GOOD, paddle=code, mlx=code)
    report = found(alone)
    failed = by_name(report)["paddle"]
    assert words in failed["failed"] and "\n" not in failed["failed"]
    assert outcomes(report) == {("array_api_strict", "array_api_strict"): "zero-copy"}


def test_a_framework_that_hangs(alone):
    put(alone, array_api_strict=GOOD, paddle="while True: pass", tinygrad="""
        import signal, time
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(600)""")  # fmt: skip
    report = found(alone, "--timeout", 4)
    assert by_name(report)["paddle"]["failed"] == by_name(report)["tinygrad"]["failed"] == "its import did not finish in 4 seconds"
    assert by_name(report)["array_api_strict"]["reader"] == "buffer"


NOISY = """
import os, sys
print("garbage {", flush=True)
os.write(1, b"\\xff\\x00 garbage\\n")
os.write(2, b'{"version": "99"}\\n')
sys.stdout = sys.stderr = None
"""
FORKS = """
import os, time
if os.fork() == 0 and os.fork() == 0:
    time.sleep(600)
"""
HANDLERS = """
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM, signal.SIGSEGV):
    signal.signal(number, signal.SIG_IGN)
"""
CLOSES = "import os\nos.closerange(0, 100)\n"


@pytest.mark.parametrize("code", [NOISY, FORKS, HANDLERS, CLOSES], ids=["noisy", "forks", "handlers", "closes"])
def test_frameworks_that_misbehave_but_work(alone, code):
    put(alone, array_api_strict=code + GOOD)
    report = found(alone)
    assert by_name(report)["array_api_strict"]["version"] == "1.2"
    assert outcomes(report) == {("array_api_strict", "array_api_strict"): "zero-copy"}


def test_frameworks_that_do_not_get_on(alone):
    """One of them ends the process if the other one is there; with the third one both work."""
    jealous = GOOD + "\nimport os, sys\nif 'array_api_strict' in sys.modules: os.abort()\n"
    late = "import sys\nif 'paddle' in sys.modules: raise SystemExit\n" + GOOD
    put(alone, array_api_strict=late, paddle=jealous, pyarrow=PYARROW)
    report = found(alone)
    cells = outcomes(report)
    assert len(cells) == 9
    whys = {cell["why"] for cell in report["matrix"] if cell["outcome"] == "crash"}
    start = "importing paddle and array_api_strict in one process failed: "
    assert whys == {start + "it ended the process with status 0"}, whys
    assert cells["array_api_strict", "paddle"] == cells["paddle", "array_api_strict"] == "crash"
    assert cells["paddle", "paddle"] == cells["array_api_strict", "array_api_strict"] == "zero-copy"
    assert cells["pyarrow", "paddle"] == cells["pyarrow", "array_api_strict"] == "zero-copy"


def test_a_hand_over_that_crashes(alone):
    crashing = GOOD.replace("return memoryview(x)", "import os; os.abort()")
    put(alone, array_api_strict=GOOD, paddle=crashing)
    report = found(alone)
    assert outcomes(report) == {
        ("paddle", "paddle"): "crash", ("array_api_strict", "paddle"): "crash",
        ("paddle", "array_api_strict"): "zero-copy", ("array_api_strict", "array_api_strict"): "zero-copy",
    }  # fmt: skip
    assert all("SIGABRT" in cell["why"] for cell in report["matrix"] if cell["outcome"] == "crash")


def test_real_frameworks_are_read():
    """By the ways that the documentation names; in one process, which takes less time than the command."""
    np = pytest.importorskip("numpy")
    assert tenon._native._reader_of(np.arange(3)) == "struct"
    assert tenon._native._reader_of(b"") == "buffer"
    assert tenon._native._reader_of(tenon.from_dlpack(b"")) == "tenon.Tensor"
    dlpack = type("Wrapped", (), {"__dlpack__": lambda self, **options: tenon.from_dlpack(b"1").__dlpack__(**options)})
    assert tenon._native._reader_of(dlpack()) == "DLPack"
    legacy = type("Old", (), {"__dlpack__": lambda self: tenon.from_dlpack(bytearray(1)).__dlpack__()})
    assert tenon._native._reader_of(legacy()) == "legacy DLPack"
    with pytest.raises(TypeError, match="expected an array"):
        tenon._native._reader_of(3)


def test_why_a_faster_reader_is_off():
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    code = """
import torch
from tenon._doctor_child import framework
found = {}
framework("torch", found.update)
print(found["reader"], found["why"], sep=": ")
"""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TENON_TORCH_STRUCT": "0"}, capture_output=True, text=True)
    assert done.stdout in ("table: TENON_TORCH_STRUCT=0 was set\n", "DLPack: TENON_TORCH_STRUCT=0 was set\n"), done.stderr


# ------------------------------------------------------------------------------------------------------------- reports


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "srcset", "action")]


def test_html(alone, tmp_path):
    put(alone, array_api_strict=GOOD, paddle="raise ValueError('<script>alert(1)</script> &')")
    file = tmp_path / "report.html"
    done = doctor(alone, "--html", file)
    assert done.returncode == 0 and done.stdout.startswith("Tenon ")
    text = file.read_text("utf-8")
    page = Page()
    page.feed(text)
    assert "script" not in page.tags and page.links == [] and "table" in page.tags
    assert "http" not in text and "@import" not in text and "url(" not in text
    assert 'name="viewport"' in text and "color-scheme: light dark" in text
    assert "&lt;script&gt;" in text and 'class="zero-copy"' in text
    doctor(alone, "--json", "--html", file)
    assert file.read_text("utf-8").count("<!doctype html>") == 1


def test_names_of_control_characters(alone):
    put(alone, array_api_strict=GOOD + "\n__version__ = '1\\x1b[31m\\n2' + 'x' * 1000\n", paddle="raise ValueError('\\udcff')")
    done = doctor(alone)
    assert done.returncode == 0 and "\x1b" not in done.stdout and max(map(len, done.stdout.splitlines())) < 1000
    assert json.loads(doctor(alone, "--json").stdout)


@pytest.mark.parametrize("where", ["missing/report.html", "."])
def test_a_report_that_cannot_be_written(alone, tmp_path, where):
    put(alone, paddle="import time; time.sleep(600)")
    done = doctor(alone, "--html", tmp_path / where)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("python -m tenon doctor: ") and done.stderr.count("\n") == 1
    assert "the report cannot be written" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk(alone):
    done = doctor(alone, "--html", "/dev/full")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "No space left" in done.stderr
    with open("/dev/full", "w") as full:
        done = subprocess.run(command(alone), env=settings(alone), stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr and done.stderr.count("\n") == 1


def test_no_standard_output(alone):
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command(alone)], env=settings(alone), stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "the standard output is closed" in done.stderr


@pytest.mark.parametrize("arguments", [["--timeout", "0"], ["--timeout", "nan"], ["--timeout", "x"], ["a", "b"], ["--html"]])
def test_bad_usage(alone, arguments):
    done = doctor(alone, *arguments)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr


def test_without_a_folder_for_temporary_files(alone):
    code = """
import sys, tempfile
from tenon import __main__
tempfile._candidate_tempdir_list = lambda: ["/nowhere"]
sys.exit(__main__.main(["doctor"]))
"""
    done = subprocess.run([sys.executable, "-S", "-c", code], env=settings(alone), cwd=alone, capture_output=True, text=True)
    assert done.returncode == 2 and "No usable temporary directory" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("variable, value", [("TENON_CACHE", "/proc/nothing"), ("CC", "/nowhere/cc"), ("CC", "'"), ("HOME", "/nowhere")])
def test_odd_environments(alone, variable, value):
    report = found(alone, **{variable: value})
    if variable == "TENON_CACHE":
        assert report["machine"]["folders"][0]["writable"] is False
    if variable == "CC":
        assert "failed" in report["machine"]["compilers"]["c"]


def test_an_interrupt_gives_a_partial_report(alone, tmp_path):
    put(alone, array_api_strict=GOOD, paddle="import time; time.sleep(600)")
    mark = tmp_path / "started"
    put(alone, tinygrad=f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    process = subprocess.Popen(command(alone, "--json"), env=settings(alone), cwd=alone, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    while not (mark.exists() and mark.read_text()) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=100)
    assert (process.returncode, errors) == (130, "")
    report = json.loads(out)
    assert report["complete"] is False and "python" in report["machine"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


# ------------------------------------------------------------------------------------------------------------ libraries

START = "#include <tenon/function.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
NONE = "static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }\n"
MODULE = 'TENON_MODULE(lib, "About it.", TENON_FUNCTION("f(x: f32[n]) -> f32[n]", none, NULL))\n'
LOAD = START + NONE + """
static tenon_status load(tenon_call *call, void **state) { (void)state; %s; }
TENON_MODULE_STATE(lib, NULL, load, NULL, TENON_FUNCTION("f()", none, NULL))
"""


def explain(*arguments, **options):
    done = run("doctor", *arguments, **options)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def test_a_good_library(tmp_path):
    file = counting(tmp_path / "good.so", 7)
    done = explain(file)
    assert (done.returncode, done.stderr) == (0, "")
    machine = os.uname().machine
    for line in ("  format   ELF (Linux), 64 bits, shared library\n", f"  machine  {machine}; this machine is {machine}\n",
                 "  check    the file is complete\n", "  ABI      1.0\n", "  about    Counts.\n", "  answer() -> int\n"):  # fmt: skip
        assert line in done.stdout
    report = json.loads(explain("--json", file).stdout)
    assert report["abi"] == "1.0" and report["file"] == str(file) and report["complete"] is True and "failed" not in report
    assert "answer() -> int" in report["functions"]
    page = tmp_path / "page.html"
    assert explain(file, "--html", page).returncode == 0 and "answer() -&gt; int" in page.read_text()


LIBRARIES = {
    "crashes at load": (START + NONE + MODULE + "__attribute__((constructor)) static void f(void) { abort(); }",
                        "loading it crashed: SIGABRT"),
    "exits at load": (START + NONE + MODULE + "__attribute__((constructor)) static void f(void) { _exit(0); }",
                      "loading it ended the process with status 0"),
    "hangs at load": (START + NONE + MODULE + "__attribute__((constructor)) static void f(void) { for (;;) pause(); }",
                      "loading it did not finish in 3 seconds"),
    "prints at load": (START + NONE + MODULE + '#include <stdio.h>\n__attribute__((constructor)) static void f(void) { puts("garbage"); }', ""),
    "crashes in load": (LOAD % "(void)call; abort()", "loading it crashed: SIGABRT"),
    "fails in load": (LOAD % 'return tenon_fail(call, TENON_EFAILED, "no licence")', "no licence"),
    "is another kind of library": ("int f(void) { return 1; }", "has no tenon_module_v1()"),
    "has a later ABI": (START + NONE + "#undef TENON_ABI_MAJOR\n#define TENON_ABI_MAJOR 9\n" + MODULE,
                        "version 9 of the function ABI"),
    "has a bad signature": (START + NONE + MODULE.replace("f32[n]) ->", "f33[n]) ->"), "f33"),
    "needs another library": ("int nowhere_at_all(void); int f(void) { return nowhere_at_all(); }", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", LIBRARIES)
def test_bad_libraries(tmp_path, kind):
    code, words = LIBRARIES[kind]
    options = ["-Wl,-z,now"] if kind == "needs another library" else []
    limit = ["--timeout", 3] if kind == "hangs at load" else []
    done = explain(build(tmp_path / "bad.so", code, *options), *limit)
    if kind == "prints at load":
        assert done.returncode == 0 and "garbage" not in done.stdout and "ABI" in done.stdout
        return
    lines = [line for line in done.stdout.splitlines() if line.startswith("  cannot be loaded")]
    assert (done.returncode, done.stderr, len(lines)) == (1, "", 1), done
    assert words in lines[0] if words else "nowhere_at_all" in lines[0], lines


def elf(machine=62, kind=3, size=64, order="<", bits=2):
    head = b"\x7fELF" + bytes([bits, 1 if order == "<" else 2, 1]) + bytes(9)
    return (head + struct.pack(f"{order}HHI", kind, machine, 1)).ljust(size, b"\0")


FILES = {
    "empty": (b"", "empty", "the file is empty"),
    "text": (b"print(1)\n", "text", "it is not an ELF file"),
    "bytes": (bytes(range(256)), "unknown", "it is not an ELF file"),
    "an archive": (b"!<arch>\n" + bytes(60), "ar, static library", "it is not an ELF file"),
    "another machine": (elf(40), "ELF (Linux), 64 bits, shared library", ""),
    "big-endian": (elf(22, order=">"), "ELF (Linux), 64 bits, shared library", ""),
    "only its magic": (b"\x7fELF", "ELF (Linux), ? bits", ""),
    "Windows": (b"MZ".ljust(60, b"\0") + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<HH", 0x8664, 0) + bytes(12)
                + struct.pack("<HH", 0, 0x2000), "PE (Windows), shared library", "it is a Windows library (PE)"),
    "cut off for Windows": (b"MZ", "MZ (DOS)", "it is a Windows library (PE)"),
    "macOS": (b"\xcf\xfa\xed\xfe" + struct.pack("<III", 0x0100000C, 0, 6), "Mach-O (macOS), shared library", "macOS"),
    "universal": (b"\xca\xfe\xba\xbe" + struct.pack(">I", 2) + struct.pack(">5I", 0x01000007, 3, 0, 0, 0)
                  + struct.pack(">5I", 0x0100000C, 0, 0, 0, 0), "Mach-O (macOS), universal", "macOS"),
}  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="the messages are those of Linux")
@pytest.mark.parametrize("kind", FILES)
def test_files_that_are_not_libraries_for_this_machine(tmp_path, kind):
    content, form, words = FILES[kind]
    file = tmp_path / "file.so"
    file.write_bytes(content)
    done = explain(file)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (1, "") and any(line.startswith("  format ") and form in line for line in lines), done
    (line,) = [line for line in lines if line.startswith("  cannot be loaded")]
    assert words in line
    if kind == "another machine":
        assert any(line.startswith("  machine ") and "arm; this machine is " in line for line in lines)
    if kind == "universal":
        assert any("x86_64, arm64" in line for line in lines)


def test_damaged_libraries(tmp_path):
    whole = counting(tmp_path / "whole.so", 1).read_bytes()
    for size in (20, 100, 1000, len(whole) // 2):
        file = tmp_path / f"cut-{size}.so"
        file.write_bytes(whole[:size])
        done = explain(file)
        assert (done.returncode, done.stderr) == (1, "") and done.stdout.count("cannot be loaded") == 1


def test_files_that_cannot_be_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, words in {"missing.so": "No such file", ".": "it is a folder", "pipe": "it is not a regular file"}.items():
        done = explain(tmp_path / name)
        assert (done.returncode, done.stdout) == (1, "") and words in done.stderr and done.stderr.count("\n") == 1
    done = explain("")
    assert done.returncode == 1 and done.stderr.count("\n") == 1


def test_odd_names(tmp_path):
    folder = tmp_path / "a b\n\udcff"
    folder.mkdir()
    file = counting(tmp_path / "plain.so", 1).rename(folder / "é.so")
    done = explain(file)
    assert done.returncode == 0 and "answer() -> int" in done.stdout
    assert "answer() -> int" in json.loads(explain("--json", file).stdout)["functions"]


def test_a_library_in_this_folder(tmp_path):
    counting(tmp_path / "here.so", 1)
    done = explain("here.so", cwd=tmp_path)
    assert done.returncode == 0 and "answer() -> int" in done.stdout
