"""python -m tenon conformance: what it prints and writes, its exit status, and targets of every bad kind."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree

import pytest
import tenon
from tenon.conformance import KINDS, cases

PROGRAM = "python -m tenon conformance: "
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
# A factory that is good, on top of Tenon.
GOOD = """
    from tenon.conformance.targets import TARGETS
    make, from_dlpack = TARGETS["tenon"].make, TARGETS["tenon"].consume
"""


def command(folder, *arguments):
    path = [str(folder), str(pathlib.Path(tenon.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", "tenon", "conformance", *map(str, arguments)]
    return words, {"cwd": folder, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def run(folder, *arguments):
    words, options = command(folder, *arguments)
    return subprocess.run(words, **options)


def write(folder, code, name="mine"):
    (folder / f"{name}.py").write_text(textwrap.dedent(code))


def run_own(folder, code, *arguments, only="producer.struct.*"):
    """A run with the producer mine:make, and the results by the ids of the cases."""
    write(folder, code)
    file = folder / "report.json"
    done = run(folder, "--producer", "mine:make", "--only", only, "--json", file, *arguments)
    data = json.loads(file.read_text()) if file.exists() and file.stat().st_size else None
    return done, data


def one_line(done, text):
    assert done.returncode == 2, done
    assert done.stderr.startswith(PROGRAM) and text in done.stderr and done.stderr.count("\n") == 1, done.stderr


# ---------------------------------------------------------------------------------------------------------------- output


def test_list(tmp_path):
    done = run(tmp_path, "--list")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(rows) >= 150 and {len(row) for row in rows} == {3}
    assert [row[0] for row in rows] == [case.id for kind in KINDS for case in cases(kind)]
    assert len({row[0] for row in rows}) == len(rows)


def test_reports(tmp_path):
    files = {kind: tmp_path / f"report.{kind}" for kind in ("json", "junit", "html")}
    write(tmp_path, GOOD)
    arguments = [word for kind, file in files.items() for word in (f"--{kind}", file)]
    done = run(tmp_path, "tenon", "--producer", "mine:make", "--consumer", "mine:from_dlpack", "--only", "*.copy*", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(files["json"].read_text())
    assert set(data) >= {"schema", "tenon", "python", "targets", "cases", "results", "counts", "complete"}
    assert data["complete"] is True and data["tenon"] == tenon.__version__
    assert data["targets"][0] == {"name": "tenon", "version": tenon.__version__} and data["targets"][1]["name"] == "mine"
    assert {"case", "target", "outcome", "expected", "came"} == set(data["results"][0])
    assert sum(data["counts"].values()) == len(data["results"])
    assert {result["target"] for result in data["results"]} == {"tenon", "mine", "tenon->mine", "mine->tenon"}
    for result in data["results"]:
        assert set(data["cases"][result["case"]]) == {"rule", "source"}
    suites = xml.etree.ElementTree.parse(files["junit"]).getroot()
    assert sum(int(suite.get("tests")) for suite in suites) == len(data["results"])
    page = files["html"].read_text()
    assert page.count("<tr data-names=") == len(data["results"]) and "http" not in page
    assert "prefers-color-scheme: dark" in page and 'name="viewport"' in page
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["target", "version", "pass", "fail", "crash", "hang", "leak", "refused", "n/a"]
    assert [row.split()[0] for row in rows] == ["tenon", "mine", "tenon", "mine"]


def test_one_case_in_this_process(tmp_path):
    done = run(tmp_path, "tenon", "--case", "producer.copy.true")
    assert (done.returncode, done.stdout) == (0, "pass: tenon producer.copy.true\n")
    write(tmp_path, "import os\ndef make(*arguments): print(os.getpid()); return os.getppid()")
    words, options = command(tmp_path, "--producer", "mine:make", "--case", "producer.copy.true")
    with subprocess.Popen(words, **options) as process:
        printed, _ = process.communicate()
    assert process.returncode == 1 and printed.startswith(f"{process.pid}\nfail: mine producer.copy.true: expected an array")
    one_line(run(tmp_path, "tenon", "--case", "producer.nothing"), "there is no case 'producer.nothing'")
    one_line(run(tmp_path, "tenon", "--case", "round-trip.values"), "needs two targets")


def test_pointer(tmp_path):
    write(tmp_path, GOOD + """
    class Hidden:
        def __init__(self, tensor):
            self.tensor = tensor
    def hide(x):
        return Hidden(from_dlpack(x))
    def address(hidden):
        return hidden.tensor.data_ptr
    """)
    arguments = ["--consumer", "mine:hide", "--only", "consumer.capsule.versioned"]
    done = run(tmp_path, *arguments)
    assert done.returncode == 1 and "--pointer" in done.stdout
    assert run(tmp_path, *arguments, "--pointer", "mine:address").returncode == 0


# ------------------------------------------------------------------------------------------------------------- bad usage


@pytest.mark.parametrize("arguments, text", [
    ([], "expected a TARGET"),
    (["nonsense"], "'nonsense' is not a target"),
    (["tenon", "--timeout", "0"], "--timeout expects"),
    (["tenon", "--timeout", "nan"], "--timeout expects"),
    (["tenon", "--jobs", "0"], "--jobs expects"),
    (["tenon", "--only", "nothing.*"], "no case"),
    (["--producer", "mine"], "expects MODULE:NAME"),
    (["tenon", "--pointer", "mine:address"], "--pointer needs --consumer"),
    (["tinygrad"], "tinygrad"),
    (["tenon", "--json", "no/folder/report.json"], "cannot be written: No such file or directory"),
    (["tenon", "--html", "."], "cannot be written"),
    (["tenon", "--expect", "missing.toml"], "--expect"),
])  # fmt: skip
def test_bad_usage(tmp_path, arguments, text):
    one_line(run(tmp_path, *arguments), text)


def test_a_target_that_is_not_installed(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['cupy'] = None")
    one_line(run(tmp_path, "cupy"), "cupy is not installed")


@pytest.mark.parametrize("code, text", [
    ("", "AttributeError: module 'mine' has no attribute 'make'"),
    ("make = 5", "AttributeError: mine:make is not callable"),
    ("raise ValueError('first\\nsecond')", "ValueError: first"),
    ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
    ("import sys; sys.exit(3)", "SystemExit: 3"),
    ("import os; os._exit(3)", "it ended the process while it was imported (status 3)"),
    ("import os; os.abort()", "it ended the process while it was imported (SIGABRT)"),
    ("syntax error", "SyntaxError"),
])  # fmt: skip
@posix
def test_a_target_that_cannot_be_imported(tmp_path, code, text):
    done, data = run_own(tmp_path, code)
    one_line(done, text)
    assert data["complete"] is False and data["results"] == []


@posix
def test_others_go_on_past_a_broken_one(tmp_path):
    write(tmp_path, "raise ValueError('broken')")
    done = run(tmp_path, "tenon", "--producer", "mine:make", "--only", "producer.struct.ndim")
    one_line(done, "mine cannot be imported: ValueError: broken")
    assert done.stdout.splitlines()[1].split()[:3] == ["tenon", tenon.__version__, "1"]


# ------------------------------------------------------------------------------------------------------------ bad targets


@posix
def test_a_target_that_prints_forks_and_changes_signals(tmp_path):
    done, data = run_own(tmp_path, """
        import os, signal, sys
        def noise():
            print('{"outcome": "fail"}\\n' * 100)
            print("garbage", file=sys.stderr)
            os.write(1, b"\\xff\\x00")
            for name in ("SIGCHLD", "SIGINT", "SIGTERM", "SIGALRM", "SIGPIPE"):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
            os.fork()
        noise()
        from tenon.conformance.targets import TARGETS
        def make(shape, dtype, device, layout=None):
            noise()
            return TARGETS["tenon"].make(shape, dtype, device, layout)
    """, only="producer.struct.n*")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert [result["outcome"] for result in data["results"]] == ["pass"]


BAD_MAKES = {
    "return 5": ("fail", "int"),
    "return None": ("fail", "NoneType"),
    "raise NotImplementedError('no such array')": ("n/a", "no such array"),
    "raise KeyError('shape')": ("fail", "KeyError: 'shape'"),
    "raise ValueError(chr(0) + chr(27) + '[31m' + chr(0xd800) + '<&>' + 'x' * 5000)": ("fail", "ValueError: ??[31m?<&>xx"),
    "raise SystemExit(4)": ("fail", "SystemExit: 4"),
    "raise KeyboardInterrupt": ("fail", "KeyboardInterrupt"),
    "import os; os._exit(0)": ("crash", "the process was ended with status 0"),
    "import os; os.abort()": ("crash", "SIGABRT"),
    "import ctypes; ctypes.string_at(8)": ("crash", "SIGSEGV"),
    "import os; os.closerange(3, 256)": ("fail", "NoneType"),  # found by a process of its own
    "import os; os.fork(); os._exit(7)": ("crash", "status 7"),
}


@posix
def test_factories_of_every_bad_kind(tmp_path):
    """One run, with a module for each."""
    code = "import sys\n" + "".join(f"def make{i}(shape, dtype, device):\n    {body}\n" for i, body in enumerate(BAD_MAKES))
    write(tmp_path, code)
    for i, (outcome, came) in enumerate(BAD_MAKES.values()):
        file = tmp_path / f"report{i}.json"
        done = run(tmp_path, "--producer", f"mine:make{i}", "--only", "producer.struct.ndim", "--json", file)
        (result,) = json.loads(file.read_text())["results"]
        assert (result["outcome"], done.stderr) == (outcome, ""), (i, result, done)
        assert came in result["came"], (i, result)
        assert done.returncode == (0 if outcome == "n/a" else 1)


def wait_for_end(pid):
    state = pathlib.Path(f"/proc/{pid}/stat")
    for _ in range(6000):
        try:
            if state.read_text().split()[2] == "Z":
                return
        except OSError:
            return
        time.sleep(0.01)
    pytest.fail(f"process {pid} was not ended")


@posix
def test_a_target_that_hangs(tmp_path):
    done, data = run_own(tmp_path, """
        import signal, subprocess, sys, time
        def make(shape, dtype, device):
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            open("child", "a").write(f"{child.pid}\\n")
            while True:
                time.sleep(1)
    """, "--timeout", "0.5", only="producer.struct.ndim")  # fmt: skip
    (result,) = data["results"]
    assert done.returncode == 1 and result["outcome"] == "hang" and result["expected"] == "an answer within 0.5 s"
    children = tmp_path / "child"  # on a loaded machine the time may be over before the first one
    for pid in children.read_text().split() if children.exists() else []:
        wait_for_end(pid)  # its group was ended with it


@posix
def test_a_consumer_of_another_type(tmp_path):
    write(tmp_path, "def none(x): return None\ndef text(x, copy): return 'text'\ndef two(): pass")
    for name in ("none", "text", "two"):
        done = run(tmp_path, "--consumer", f"mine:{name}", "--only", "consumer.capsule.*")
        assert done.returncode == 1 and done.stderr == "" and "Traceback" not in done.stdout, done


@posix
@pytest.mark.parametrize("number, name", [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "interrupted")])
def test_interrupted(tmp_path, number, name):
    """A partial report, exit 130, and no process that is left."""
    write(tmp_path, GOOD + """
    import os, time
    good = make
    def make(shape, dtype, device, layout=None):
        with open("pids", "a") as file:
            file.write(f"{os.getpid()}\\n")
        if os.path.getsize("pids") > 60:
            time.sleep(600)
        return good(shape, dtype, device, layout)
    """)
    words, options = command(tmp_path, "--producer", "mine:make", "--json", "report.json", "--only", "producer.struct.*")
    with subprocess.Popen(words, **options) as process:
        while not (tmp_path / "pids").exists() or (tmp_path / "pids").stat().st_size <= 60:
            time.sleep(0.05)
            assert process.poll() is None
        time.sleep(0.3)
        process.send_signal(number)
        printed, errors = process.communicate()
    assert process.returncode == 130 and errors.startswith(PROGRAM + name) and errors.count("\n") == 1, errors
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["complete"] is False and data["results"] and "pass" in printed
    time.sleep(0.2)
    for pid in (tmp_path / "pids").read_text().split():
        state = pathlib.Path(f"/proc/{pid}/stat")
        assert not state.exists() or state.read_text().split()[2] == "Z"


# ------------------------------------------------------------------------------------------------------- known failures

KNOWN = '[[known]]\ntarget = "mine"\ncase = "{}"\nreason = "number 12"\n'
BROKEN = GOOD + """
    good = make
    def make(shape, dtype, device):
        raise ValueError("broken")
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no tomllib")
@posix
def test_known_failures(tmp_path):
    file = tmp_path / "known.toml"
    file.write_text(KNOWN.format("producer.struct.ndim"))
    done, _ = run_own(tmp_path, BROKEN, "--expect", file, only="producer.struct.ndim")
    assert done.returncode == 0 and "known fail: mine producer.struct.ndim" in done.stdout and "(number 12)" in done.stdout
    done, _ = run_own(tmp_path, BROKEN, "--expect", file, only="producer.struct.[ns]*")
    assert done.returncode == 1 and "\nfail: mine producer.struct.shape" in done.stdout
    done, _ = run_own(tmp_path, GOOD, "--expect", file, only="producer.struct.ndim")
    assert done.returncode == 1 and "no longer a failure: mine producer.struct.ndim: pass" in done.stdout
    for text, words in (("[[known]]\n", "needs target, case and reason"), (KNOWN.format("nothing"), "no case 'nothing'"),
                        ("[[", "known.toml: "), ("known = 5", "needs target")):  # fmt: skip
        file.write_text(text)
        one_line(run(tmp_path, "tenon", "--expect", file), words)


@pytest.mark.skipif(sys.version_info >= (3, 11), reason="tomllib is there")
def test_known_failures_need_a_newer_python(tmp_path):
    one_line(run(tmp_path, "tenon", "--expect", "known.toml"), "--expect needs Python 3.11 or newer")


# ------------------------------------------------------------------------------------------------------ fresh processes


def test_fresh_processes(tmp_path, monkeypatch):
    """As on a system without fork."""
    from tenon.conformance.run import Run, units_for
    from tenon.conformance.targets import TARGETS

    monkeypatch.setattr(sys, "path", [str(pathlib.Path(tenon.__file__).parents[1]), *sys.path])
    fresh = Run(units_for([TARGETS["tenon"]], False, "producer.struct.[ns]hape"), 60, 1, fork=False)
    fresh.run()
    assert [result["outcome"] for result in fresh.results] == ["pass"]


@posix
def test_a_target_that_hangs_only_after_a_fork(tmp_path):
    done, data = run_own(tmp_path, """
        import os, time
        from tenon.conformance.targets import TARGETS
        imported = os.getpid()
        def make(shape, dtype, device):
            while os.getpid() != imported:
                time.sleep(1)
            return TARGETS["tenon"].make(shape, dtype, device)
    """, "--timeout", "1", only="producer.struct.[ns]*")  # fmt: skip
    assert {result["outcome"] for result in data["results"]} == {"pass"} and done.returncode == 0
