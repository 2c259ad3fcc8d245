"""python -m tenon doctor: what is installed and what works on this machine. It imports no framework: its children do."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any, Optional

import tenon
from tenon import _cache
from tenon._doctor_frameworks import ENVIRONMENT, FRAMEWORKS

SCHEMA = 1  # of the JSON; docs/doctor.md describes it
LIMIT = 60.0  # seconds for each step of a child
_POLL = 0.02
_START = "from tenon._doctor_child import main; main()"


# ---------------------------------------------------------------------------------------------------------- children


class _Child:
    """A process that does one job. It is ended with all processes that it has started."""

    def __init__(self, folder: str, limit: float, kind: str, argument: object) -> None:
        self.kind, self.argument, self.limit = kind, argument, limit
        number, self.results = tempfile.mkstemp(dir=folder)
        os.close(number)
        # The path comes first, because `tenon` is imported with it.
        start = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); {_START}"
        words = ([str(folder) for folder in sys.path], self.results, limit, kind, argument)
        self.process = subprocess.Popen(
            [sys.executable, "-c", start, *map(json.dumps, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**ENVIRONMENT, **os.environ},
            start_new_session=True,  # an interrupt reaches this process, which then ends its children
        )
        self.size, self.deadline = 0, time.monotonic() + limit

    def is_over(self) -> bool:
        size = os.stat(self.results).st_size
        if size != self.size:  # the limit is for each step
            self.size, self.deadline = size, time.monotonic() + self.limit
        return self.process.poll() is not None or time.monotonic() > self.deadline

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        if hasattr(os, "killpg"):
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        self.process.wait()

    def lines(self) -> list[dict[str, Any]]:
        found = []
        with open(self.results, "rb") as file:
            for line in file:
                try:
                    value = json.loads(line)
                except ValueError:
                    continue  # it was cut off
                if isinstance(value, dict):
                    found.append(value)
        return found

    def outcome(self) -> str:
        """How it ended: "" after its last line, or "crash" or "hang"."""
        if any("done" in line for line in self.lines()):
            return ""
        return "hang" if self.process.poll() is None else "crash"

    def why(self, what: str, outcome: str) -> str:
        """One line about a child that did not finish. `what` is what it was doing."""
        if outcome == "hang":
            return f"{what} did not finish in {self.limit:g} seconds"
        status = self.process.returncode
        if status < 0:
            try:
                return f"{what} crashed: {signal.Signals(-status).name}"
            except ValueError:
                return f"{what} crashed: signal {-status}"
        return f"{what} ended the process with status {status}"


def _run(jobs: list[tuple[str, object]], limit: float) -> Iterator[tuple[_Child, str]]:
    """Run jobs in parallel, and yield each child when it has ended, with its outcome. Jobs may be added meanwhile."""
    most = max(8, os.cpu_count() or 8)  # most of them wait for files, and one that hangs must not hold up the others
    running: list[_Child] = []
    folder = tempfile.mkdtemp(prefix="tenon-doctor-")
    try:
        while jobs or running:
            while jobs and len(running) < most:
                running.append(_Child(folder, limit, *jobs.pop(0)))
            over = [child for child in running if child.is_over()]
            for child in over:
                outcome = child.outcome()
                child.end()
                running.remove(child)
                yield child, outcome
            if not over:
                time.sleep(_POLL)
    finally:
        for child in running:
            child.end()
        shutil.rmtree(folder, ignore_errors=True)


def _merged(child: _Child, outcome: str, what: str) -> dict[str, Any]:
    """The lines of a child as one dict, with the reason under "failed" if it did not finish."""
    result: dict[str, Any] = {}
    for line in child.lines():
        result.update(line)
    result.pop("done", None)
    if outcome:
        result["failed"] = child.why(what, outcome)
    return result


# ------------------------------------------------------------------------------------------------------ the machine


def report(limit: float) -> dict[str, Any]:
    """Collect everything. After an interrupt the rest is missing, and "complete" is False."""
    result: dict[str, Any] = {"schema": SCHEMA, "tenon": tenon.__version__, "complete": False}
    result["machine"] = machine = _machine()
    result["frameworks"] = frameworks = [_installed(framework) for framework in FRAMEWORKS]
    result["matrix"] = matrix = []
    try:
        jobs: list[tuple[str, object]] = [("cuda", None)]
        jobs += [("framework", found["name"]) for found in frameworks if found["installed"]]
        by_name = {found["name"]: found for found in frameworks}
        for child, outcome in _run(jobs, limit):
            if child.kind == "cuda":
                machine["cuda"] = _merged(child, outcome, "the driver of CUDA")
            else:
                found = by_name[str(child.argument)]
                found.update(_merged(child, outcome, _stage(found, child)))
        works = [found["name"] for found in frameworks if found["installed"] and not found.get("failed")]
        for cell in _matrix(works, limit):
            matrix.append(cell)
        order = {name: index for index, name in enumerate(by_name)}
        matrix.sort(key=lambda cell: (order[cell["from"]], order[cell["to"]]))
        result["complete"] = True
    except KeyboardInterrupt:
        pass
    return result


def _stage(found: dict[str, Any], child: _Child) -> str:
    """What a framework was doing when its process ended."""
    keys = {key for line in child.lines() for key in line}
    return "its operators" if "reader" in keys else "making or reading an array" if "version" in keys else "its import"


def _installed(framework: Any) -> dict[str, Any]:
    first, *rest = framework.module.split(".")
    try:
        spec = importlib.util.find_spec(first)
        found = spec is not None and (spec.origin is not None or bool(rest))  # not a folder that only has its name
    except Exception:
        found = True  # the child finds out why
    return {"name": framework.name, "installed": found, "install": f"pip install {shlex.quote(framework.distribution)}"}


def _machine() -> dict[str, Any]:
    return {
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "executable": sys.executable,
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "libc": _libc(),
        "compilers": {language: _compiler(language) for language in ("c", "c++", "cuda")},
        "cuda": {},
        "shared_memory": _shared_memory(),
        "folders": [_cache_folder(), _folder("temporary", tempfile.gettempdir)],
    }


def _libc() -> str:
    try:
        found = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        found = None
    return found or " ".join(filter(None, platform.libc_ver())) or ("musl" if sys.platform == "linux" else "the system's")


def _compiler(language: str) -> dict[str, Any]:
    """The compiler that tenon.compile() uses, and the first line that it prints about itself."""
    from tenon import _compile

    try:
        command = _compile._Job("doctor", "\n", (), None, language).compiler
    except (ImportError, ValueError, OSError) as error:
        return {"failed": str(error).removeprefix("doctor: ")}
    try:
        done = subprocess.run(
            [*command, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"path": command[0], "failed": str(error)}
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines() or [""]
    if done.returncode:
        return {"path": command[0], "failed": f"it ended with status {done.returncode}: {lines[0]}"}
    return {"path": command[0], "version": next((line for line in lines if "release" in line), lines[0])}


def _shared_memory() -> dict[str, Any]:
    result: dict[str, Any] = {"works": True}
    try:
        tenon.shared_zeros(1, "u8")
    except Exception as error:
        result = {"works": False, "failed": str(error)}
    try:
        found = os.statvfs("/dev/shm")
        result["dev_shm"] = {"size": found.f_frsize * found.f_blocks, "free": found.f_frsize * found.f_bavail}
    except (OSError, AttributeError):
        pass
    try:
        import resource

        result["open_files"] = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        result["locked_bytes"] = None if locked == resource.RLIM_INFINITY else locked
    except (ImportError, AttributeError, OSError, ValueError):
        pass
    return result


def _cache_folder() -> dict[str, Any]:
    try:
        return _folder("compiled libraries", _cache.user_folder)
    except _cache.Unusable as error:
        return {"name": "compiled libraries", "path": None, "writable": False, "failed": str(error)}


def _folder(name: str, find: Any) -> dict[str, Any]:
    """Whether files can be made in a folder, or if it does not exist, in the folder that it would be made in."""
    try:
        path = existing = find()
        while not os.path.exists(existing) and os.path.dirname(existing) != existing:
            existing = os.path.dirname(existing)
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return {"name": name, "path": error.filename, "writable": False, "failed": error.strerror or str(error)}
    return {"name": name, "path": path, "writable": True, "free": shutil.disk_usage(existing).free}


# --------------------------------------------------------------------------------------------------------- the matrix


def _matrix(names: list[str], limit: float) -> Iterator[dict[str, Any]]:
    """Every pair, in one process if the frameworks get on with each other. If they do not, the rest in others."""
    everything = [[source, target] for source in names for target in names]
    jobs: list[tuple[str, object]] = [("matrix", {"names": names, "pairs": everything})] if names else []
    for child, outcome in _run(jobs, limit):
        job: Any = child.argument
        left = [tuple(pair) for pair in job["pairs"]]
        current: dict[str, Any] = {}
        for line in child.lines():
            if "pair" in line:
                source, target = line.pop("pair")
                left.remove((source, target))
                yield {"from": source, "to": target, **line}
            current = line
        if "trying" in current and outcome:
            source, target = current["trying"]
            left.remove((source, target))
            yield {"from": source, "to": target, "outcome": outcome, "why": child.why("the hand-over", outcome)}
            jobs += _jobs_for(job["names"], left)
        elif left and len(job["names"]) > 2 and "importing" in current:
            # One of them cannot be imported after the others: it is tried with each of them alone.
            alone = current["importing"]
            others = [name for name in job["names"] if name != alone]
            jobs += _jobs_for(others, [pair for pair in left if alone not in pair])
            jobs += _jobs_for([alone], [pair for pair in left if pair == (alone, alone)])
            for other in others:
                jobs += _jobs_for([other, alone], [pair for pair in left if set(pair) == {other, alone}])
        else:
            what = f"importing {' and '.join(job['names'])} in one process"
            why = f"{what} failed: {current['failed']}" if "failed" in current else child.why(what, outcome or "crash")
            yield from ({"from": pair[0], "to": pair[1], "outcome": outcome or "crash", "why": why} for pair in left)


def _jobs_for(names: list[str], pairs: Iterable[tuple[str, ...]]) -> list[tuple[str, object]]:
    wanted = [list(pair) for pair in pairs]
    return [("matrix", {"names": names, "pairs": wanted})] if wanted else []


# ---------------------------------------------------------------------------------------------------------- a library

_ELF_MACHINES = {3: "i386", 8: "mips", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64", 258: "loongarch64"}
_ELF_KINDS = {1: "object file", 2: "program", 3: "shared library", 4: "core dump"}
_PE_MACHINES = {0x14C: "i386", 0x1C4: "arm", 0x8664: "x86_64", 0xAA64: "arm64"}
_MACHO_MACHINES = {7: "i386", 0x01000007: "x86_64", 12: "arm", 0x0100000C: "arm64"}
_MACHO_KINDS = {1: "object file", 2: "program", 6: "shared library", 8: "bundle"}
_HEADER = 4096  # bytes: more than the headers that are read here


def describe_library(path: str, limit: float) -> dict[str, Any]:
    """Describe a library. The value of "failed" is why it cannot be loaded. Raises OSError if the file cannot be read."""
    result: dict[str, Any] = {"schema": SCHEMA, "tenon": tenon.__version__, "complete": False, "file": path}
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"{path}: it is a folder" if os.path.isdir(path) else f"{path}: it is not a regular file")
    with open(path, "rb") as file:
        header = file.read(_HEADER)
        result["size"] = os.fstat(file.fileno()).st_size
    result.update(_format_of(header))
    result["this_machine"] = platform.machine()
    try:
        for child, outcome in _run([("library", path)], limit):
            checked = any("checked" in line for line in child.lines())
            result.update(_merged(child, outcome, "loading it" if checked else "checking it"))
        result["complete"] = True
    except KeyboardInterrupt:
        pass
    return result


def _format_of(header: bytes) -> dict[str, Optional[str]]:
    """The format, the machine and the kind of file, as far as its first bytes say it."""

    def number(at: int, size: int, order: Any = "little") -> int:
        return int.from_bytes(header[at : at + size], order)

    def named(names: dict[int, str], value: int) -> str:
        return names.get(value, f"unknown ({value:#x})")

    if header[:4] == b"\x7fELF":
        order = "big" if header[5:6] == b"\2" else "little"
        bits = {1: "32", 2: "64"}.get(number(4, 1), "?")
        return {
            "format": f"ELF (Linux), {bits} bits",
            "machine": named(_ELF_MACHINES, number(18, 2, order)),
            "kind": named(_ELF_KINDS, number(16, 2, order)),
        }
    if header[:2] == b"MZ":
        at = number(0x3C, 4)
        if header[at : at + 4] != b"PE\0\0":
            return {"format": "MZ (DOS)", "machine": None, "kind": "program"}
        is_library = number(at + 22, 2) & 0x2000
        return {
            "format": "PE (Windows)",
            "machine": named(_PE_MACHINES, number(at + 4, 2)),
            "kind": "shared library" if is_library else "program",
        }
    if header[:4] in (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe"):
        return {
            "format": "Mach-O (macOS)",
            "machine": named(_MACHO_MACHINES, number(4, 4)),
            "kind": named(_MACHO_KINDS, number(12, 4)),
        }
    if header[:3] == b"\xca\xfe\xba" and header[3:4] in (b"\xbe", b"\xbf") and number(4, 4, "big") < 40:
        step = 20 if header[3] == 0xBE else 32
        machines = [named(_MACHO_MACHINES, number(8 + step * i, 4, "big")) for i in range(number(4, 4, "big"))]
        return {"format": "Mach-O (macOS), universal", "machine": ", ".join(machines), "kind": None}
    if header[:8] == b"!<arch>\n":
        return {"format": "ar", "machine": None, "kind": "static library"}
    is_text = header and not header.translate(None, bytes({*range(32, 256), 7, 8, 9, 10, 12, 13, 27} - {127}))
    return {"format": "text" if is_text else "empty" if not header else "unknown", "machine": None, "kind": None}


# ------------------------------------------------------------------------------------------------------- the command


def main(library: Optional[str], as_json: bool, page: Optional[str], limit: float) -> int:
    """Return the exit status: 0; 1 for a library that cannot be loaded; 2 for bad usage; 130 after an interrupt."""
    try:
        return _main(library, as_json, page, limit)
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # of the standard output
        # Without this, Python would try to flush it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1 if isinstance(error, BrokenPipeError) else _fail(f"the report cannot be written: {error.strerror}")


def _main(library: Optional[str], as_json: bool, page: Optional[str], limit: float) -> int:
    from tenon import _doctor_report

    if not 0 < limit < 1e6:
        return _fail("--timeout: expected a number of seconds above 0")
    if sys.stdout is None:
        return _fail("the report cannot be written: the standard output is closed")
    try:
        tempfile.gettempdir()
    except OSError as error:
        return _fail(str(error.strerror))
    try:
        if page is not None:  # found out before the work, not after it
            with open(page, "a", encoding="utf-8"):
                pass
    except OSError as error:
        return _fail(f"{page}: the report cannot be written: {error.strerror}")
    try:
        found = describe_library(library, limit) if library is not None else report(limit)
    except OSError as error:
        place = error.filename or library
        return _fail(f"{place}: {error.strerror}" if place and error.strerror else str(error), 1)
    sys.stdout.write(_doctor_report.as_json(found) if as_json else _doctor_report.as_text(found))
    sys.stdout.flush()
    try:
        if page is not None:
            with open(page, "w", encoding="utf-8", newline="\n") as file:
                file.write(_doctor_report.as_html(found))
    except OSError as error:
        return _fail(f"{page}: the report cannot be written: {error.strerror}")
    if not found["complete"]:
        return 130
    return 1 if library is not None and found.get("failed") else 0


def _fail(why: str, status: int = 2) -> int:
    print(f"python -m tenon doctor: {why}".encode("utf-8", "backslashreplace").decode("utf-8"), file=sys.stderr)
    return status
