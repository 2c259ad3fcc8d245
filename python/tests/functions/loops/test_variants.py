"""Variants of a library for newer CPUs: which one is loaded, and what names the library. core/tests/test_library_variants.c
tests the loader."""

import json
import os
import pickle
import platform
import subprocess
import sys

import pytest
from building import ROOT, build, run_python, tenon

if sys.platform == "win32" or platform.machine() not in ("x86_64", "aarch64"):
    pytest.skip("there are no variants for this machine", allow_module_level=True)
VARIANT, FOREIGN = ("x86-64-v2", "sve") if platform.machine() == "x86_64" else ("armv8.2-a", "x86-64-v2")
SOURCE = """
#include <tenon/function.h>
static tenon_status chosen(tenon_call *call)
{{
    tenon_return_int(call, 0, {number});
    return TENON_OK;
}}
{begin}TENON_MODULE(kernels, NULL, TENON_FUNCTION("{signature}", chosen, NULL)){end}
"""


def source(number, signature="chosen() -> int", begin="", end=""):
    return SOURCE.format(number=number, signature=signature, begin=begin, end=end)


def place(file, to):
    to.write_bytes(file.read_bytes())


@pytest.fixture
def folder(tmp_path):
    place(build(source(1)), tmp_path / "kernels.so")
    return tmp_path


@pytest.fixture
def library(folder):
    place(build(source(2)), folder / f"kernels.{VARIANT}.so")
    return folder / "kernels.so"


def test_which_one(folder, library, monkeypatch):
    kernels = tenon.load(library)
    assert (kernels.chosen(), kernels.__variant__) == (2, VARIANT)
    assert kernels.__file__ == str(library) and kernels.__name__ == "kernels"
    monkeypatch.setenv("TENON_VARIANT", "baseline")
    kernels = tenon.load(library)
    assert (kernels.chosen(), kernels.__variant__) == (1, "baseline")
    monkeypatch.setenv("TENON_VARIANT", FOREIGN)
    assert tenon.load(library).__variant__ == "baseline"  # it has no such variant
    place(build(source(2)), folder / f"kernels.{FOREIGN}.so")
    with pytest.raises(ImportError, match=f"kernels.so: TENON_VARIANT is '{FOREIGN}', but this CPU does not have its instruct"):
        tenon.load(library)
    monkeypatch.setenv("TENON_VARIANT", "avx2")
    with pytest.raises(ImportError, match=r"kernels.so: TENON_VARIANT is 'avx2', which is not a variant; set it to baseline"):
        tenon.load(library)
    monkeypatch.delenv("TENON_VARIANT")
    with pytest.raises(ImportError, match=f"it is the {VARIANT} variant of kernels.so; load that instead"):
        tenon.load(folder / f"kernels.{VARIANT}.so")


@pytest.mark.parametrize("number,change,message", [
    (3, {"signature": "chosen() -> int, int"}, r"it has 'chosen\(\) -> int, int' where the library has 'chosen\(\) -> int'"),
    (4, {"begin": '#define TENON_MODULE_VERSION "2"\n'}, r"it is kernels 2, but the library is kernels without a version"),
    (5, {"begin": "#undef TENON_ABI_MAJOR\n#define TENON_ABI_MAJOR 2\n"}, r"ABI"),
])
def test_another_table_or_abi(folder, number, change, message):
    place(build(source(number, **change)), folder / f"kernels.{VARIANT}.so")
    with pytest.raises(ImportError, match=rf"kernels.so: its variant kernels.{VARIANT}.so: .*{message}"):
        tenon.load(folder / "kernels.so")


def test_a_damaged_one(folder):
    (folder / f"kernels.{VARIANT}.so").write_bytes(build(source(2)).read_bytes()[:900])
    with pytest.raises(ImportError, match=rf"kernels.so: its variant kernels.{VARIANT}.so: "):
        tenon.load(folder / "kernels.so")
    (folder / f"kernels.{VARIANT}.so").write_bytes(b"")
    with pytest.raises(ImportError, match=rf"kernels.so: its variant kernels.{VARIANT}.so: "):
        tenon.load(folder / "kernels.so")


def test_machines_with_other_cpus_agree(library):
    """A pickle of a process that uses the variant is loaded by one that does not, and the hash is the same."""
    kernels = tenon.load(library)
    assert kernels.__variant__ == VARIANT
    code = """
    import pickle, sys, tenon
    chosen = pickle.loads(bytes.fromhex(sys.argv[1]))
    print(chosen(), tenon.load(sys.argv[2]).__variant__)
    """
    environment = {**os.environ, "TENON_VARIANT": "baseline", "PYTHONPATH": os.path.dirname(os.path.dirname(tenon.__file__))}
    printed = run_python(code, pickle.dumps(kernels.chosen).hex(), library, env=environment)
    assert printed.split() == ["1", "baseline"]


def test_describe(library):
    def describe(*options):
        command = [sys.executable, "-m", "tenon", "describe", *options, str(library)]
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(tenon.__file__))}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert f"# variant: {VARIANT}\n" in describe()
    assert json.loads(describe("--json"))["libraries"][0]["variant"] == VARIANT
    command = [sys.executable, "-m", "tenon", "doctor", str(library), "--json"]
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(tenon.__file__))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert VARIANT in done.stdout


def test_compile_for_this_machine():
    text = "#ifdef __SSE4_2__\n#define NUMBER 2\n#else\n#define NUMBER 1\n#endif\n" + source("NUMBER")
    assert tenon.compile(text).chosen() == 1
    if platform.machine() == "x86_64":
        assert tenon.compile(text, native=True).chosen() == 2


def test_compile_variants(tmp_path):
    (tmp_path / "kernels.c").write_text(source(1))

    def compile_(*options):
        command = [sys.executable, "-m", "tenon", "compile", "kernels.c", "-o", "kernels.so", *options]
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(tenon.__file__))}
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)

    assert compile_("--variants", VARIANT).returncode == 0
    assert tenon.load(tmp_path / "kernels.so").__variant__ == VARIANT
    place(tmp_path / "kernels.so", tmp_path / f"kernels.{FOREIGN}.so")
    assert compile_().returncode == 0  # those of an earlier build are deleted
    assert sorted(os.listdir(tmp_path)) == ["kernels.c", "kernels.so"]
    assert "invalid choice: 'avx2'" in compile_("--variants", "avx2").stderr
    failed = compile_("--variants", FOREIGN)  # the compiler does not know it
    assert failed.returncode == 1 and FOREIGN.partition("-")[0] in failed.stderr
    assert sorted(os.listdir(tmp_path)) == ["kernels.c", "kernels.so"]


def test_the_example(tmp_path):
    """Its steps give what NumPy gives, and it draws a picture."""
    pytest.importorskip("numpy")
    script = ROOT / "examples/loops/steps.py"
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(tenon.__file__)), "TENON_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, str(script), "32", "steps.svg"], env=environment, cwd=tmp_path, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    assert "1: a plain loop" in done.stdout and "3: parallel" in done.stdout
    assert "3: parallel" in (tmp_path / "steps.svg").read_text()
