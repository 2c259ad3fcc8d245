"""Runs cases in other processes. This process never imports a target: it starts servers, and reads results."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from fnmatch import fnmatchcase
from typing import Any, Callable, Optional

from . import cases
from .case import Case
from .server import IMPORTED, PROBE
from .targets import Target, has_role

Result = dict[str, str]
IMPORT_LIMIT = 120.0  # seconds
FORKS = hasattr(os, "fork") and sys.platform != "win32"


class TargetError(Exception):
    """A target that cannot be imported."""


class Stopped(Exception):
    """The run was interrupted."""


class Unit:
    """Targets that share a process, and the cases that are run in it: a target by itself, or two with the round trips of both
    directions."""

    def __init__(self, targets: list[Target], jobs: list[tuple[Case, list[int]]]) -> None:
        self.targets, self.jobs = targets, jobs

    def label(self, roles: list[int]) -> str:
        return "->".join(self.targets[i].name for i in roles)

    @property
    def name(self) -> str:
        return " and ".join(target.name for target in self.targets)


def units_for(targets: list[Target], round_trips: bool, only: str = "*") -> list[Unit]:
    """The cases whose ids match `only`. A target without any is started all the same, to see whether it can be imported."""
    units = []
    for target in targets:
        kinds = [role for role in ("producer", "consumer") if has_role(target, role)]
        units.append(Unit([target], [(case, [0]) for kind in kinds for case in cases(kind) if fnmatchcase(case.id, only)]))
    if round_trips:
        for i, one in enumerate(targets):
            for other in targets[i + 1 :]:
                pair = [one, other]
                jobs = [
                    (case, roles)
                    for roles in ([0, 1], [1, 0])
                    if has_role(pair[roles[0]], "producer") and has_role(pair[roles[1]], "consumer")
                    for case in cases("round-trip")
                    if fnmatchcase(case.id, only)
                ]
                if jobs:
                    units.append(Unit(pair, jobs))
    return units


def _environment() -> dict[str, str]:
    """Modules are found as in this process."""
    path = [os.path.abspath(folder) for folder in sys.path]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "GLOG_minloglevel": "3"}
    return {**quiet, **os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONWARNINGS": "ignore"}


class Processes:
    """Every process that was started, so that all of them can be ended."""

    def __init__(self) -> None:
        self.lock, self.groups, self.stopped = threading.Lock(), set[int](), False

    def add(self, group: int) -> None:
        with self.lock:
            self.groups.add(group)
            stopped = self.stopped
        if stopped:
            self.kill(group)
            raise Stopped

    def kill(self, group: int) -> None:
        with self.lock:
            self.groups.discard(group)
        # The group and never the process: that may have ended, and another one may have its number.
        try:
            if hasattr(os, "killpg"):
                os.killpg(group, signal.SIGKILL)
            else:
                os.kill(group, signal.SIGTERM)
        except OSError:
            pass

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            groups = list(self.groups)
        for group in groups:
            self.kill(group)


class Server:
    """A process that has imported the targets of a unit and forks for each case."""

    def __init__(self, unit: Unit, processes: Processes) -> None:
        self.processes, self.child = processes, 0
        spec = json.dumps({"targets": [target.spec() for target in unit.targets]})
        requests, self.requests = os.pipe()
        self.results, results = os.pipe()
        self.data = b""
        command = [sys.executable, "-m", "tenon.conformance.server", spec, str(requests), str(results)]
        self.process = subprocess.Popen(
            command,
            pass_fds=(requests, results),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(requests)
        os.close(results)
        try:
            processes.add(self.process.pid)
            first = self.receive(IMPORT_LIMIT)
        except Stopped:
            self.close()
            raise
        if first is None or "error" in first:
            if first is not None:
                reason = first["error"]
            elif self.process.poll() is None:
                reason = f"it is not imported after {IMPORT_LIMIT:g} s"
            else:
                reason = f"it ended the process while it was imported ({_status(self.process.returncode)})"
            self.close()
            raise TargetError(reason)
        self.versions: list[str] = [str(version) for version in first["versions"]]

    def receive(self, limit: float) -> Optional[dict[str, Any]]:
        """The next message; None if the process ended or did not answer in time."""
        end = time.monotonic() + limit
        while b"\n" not in self.data:
            left = end - time.monotonic()
            ready = select.select([self.results], [], [], min(max(left, 0), 0.2))[0]
            if self.processes.stopped:
                raise Stopped
            if ready:
                part = os.read(self.results, 65536)
                if not part:
                    self.process.wait()
                    return None
                self.data += part
            elif self.process.poll() is not None or left <= 0:
                return None
        line, _, self.data = self.data.partition(b"\n")
        return dict(json.loads(line))

    def run(self, id: str, roles: list[int], timeout: float) -> Optional[Result]:
        """None if the server itself is lost."""
        request = {"case": id, "roles": roles, "timeout": timeout}
        try:
            os.write(self.requests, json.dumps(request).encode() + b"\n")
        except OSError:
            return None
        limit = timeout + 30
        answer = self.receive(limit)
        if answer is not None and "pid" in answer:
            self.child = answer["pid"]
            self.processes.add(self.child)
            answer = self.receive(limit)
            self.processes.kill(self.child)
        return answer

    def close(self) -> None:
        os.close(self.requests)
        os.close(self.results)
        self.processes.kill(self.process.pid)
        self.process.wait()


def _status(code: Optional[int]) -> str:
    if code is not None and code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"status {code}"


def run_fresh(unit: Unit, id: str, roles: list[int], timeout: float, processes: Processes) -> Result:
    """A case in a process of its own, which imports the targets again. The import does not count."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "result")
        spec = json.dumps({"targets": [target.spec() for target in unit.targets], "case": id, "roles": roles})
        process = subprocess.Popen(
            [sys.executable, "-m", "tenon.conformance.server", spec, file],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        processes.add(process.pid)
        end, imported = time.monotonic() + IMPORT_LIMIT, False
        while process.poll() is None and time.monotonic() < end and not processes.stopped:
            time.sleep(0.02)
            if not imported and os.path.exists(file + IMPORTED):
                end, imported = time.monotonic() + timeout, True
        hung = process.poll() is None
        processes.kill(process.pid)
        code = process.wait()
        if processes.stopped:
            raise Stopped
        if hung:
            return {"outcome": "hang", "expected": f"an answer within {timeout:g} s", "came": "none"}
        try:
            with open(file, encoding="utf-8") as text:
                result = dict(json.load(text))
        except (OSError, ValueError):
            came = _status(code) if code < 0 else f"the process was ended with status {code}"
            return {"outcome": "crash", "expected": "an answer", "came": came}
    if "error" in result:
        raise TargetError(result["error"])
    return result


class Run:
    """The state of a run: results as they come."""

    def __init__(self, units: list[Unit], timeout: float, jobs: int, fork: bool = FORKS) -> None:
        self.units, self.timeout, self.jobs, self.fork = units, timeout, jobs, fork
        self.processes = Processes()
        self.results: list[Result] = []
        self.errors: dict[str, str] = {}  # the name of a unit, and why it could not be run
        self.versions: dict[str, str] = {}
        self.lock = threading.Lock()
        self.total = sum(len(unit.jobs) for unit in units)
        self.progress: Callable[[str, str], None] = lambda target, case: None

    def _add(self, unit: Unit, case: Case, roles: list[int], result: Result) -> None:
        with self.lock:
            row = {"case": case.id, "target": unit.label(roles)}
            self.results.append({**row, **{key: result[key] for key in ("outcome", "expected", "came")}})
            self.progress(row["target"], case.id)

    def _add_error(self, unit: Unit, reason: str) -> None:
        """A target that cannot be imported; or two that cannot be imported together, for which neither is to blame."""
        if len(unit.targets) == 1:
            with self.lock:
                self.errors[unit.name] = reason
            return
        done = {(result["case"], result["target"]) for result in self.results}
        for case, roles in unit.jobs:
            if (case.id, unit.label(roles)) not in done:
                came = f"{unit.name} cannot be imported together: {reason}"
                self._add(unit, case, roles, {"outcome": "n/a", "expected": "", "came": came})

    def _forks_well(self, unit: Unit, server: Server) -> bool:
        """A first probe. If it hangs or crashes, and a fresh process does not, forking is to blame."""
        answer = server.run(PROBE, list(range(len(unit.targets))), min(self.timeout, 20.0))
        if answer is not None and answer["outcome"] == "pass":
            return True
        fresh = run_fresh(unit, PROBE, list(range(len(unit.targets))), min(self.timeout, 20.0), self.processes)
        return fresh["outcome"] != "pass"

    def run_unit(self, unit: Unit) -> None:
        server: Optional[Server] = None
        try:
            if self.fork:
                server = Server(unit, self.processes)
                for target, version in zip(unit.targets, server.versions):
                    self.versions[target.name] = version
                if not self._forks_well(unit, server):
                    server.close()
                    server = None
            for case, roles in unit.jobs:
                if self.processes.stopped:
                    raise Stopped
                if server is None:
                    result: Optional[Result]
                    result = run_fresh(unit, case.id, roles, self.timeout, self.processes)
                else:
                    result = server.run(case.id, roles, self.timeout)
                    if result is None:  # the target ended its own server: another one goes on
                        result = {"outcome": "crash", "expected": "an answer", "came": "the target's server ended"}
                        server.close()
                        server = Server(unit, self.processes)
                    if result["outcome"] in ("crash", "hang"):  # the fork may be to blame
                        result = run_fresh(unit, case.id, roles, self.timeout, self.processes)
                self._add(unit, case, roles, result)
        except TargetError as error:
            self._add_error(unit, str(error))
        except Stopped:
            pass
        finally:
            if server is not None:
                server.close()

    def run(self) -> None:
        """Run every unit. A KeyboardInterrupt ends every process and is raised again; `results` has what was found."""
        alone = [unit for unit in self.units if len(unit.targets) == 1]
        pairs = [unit for unit in self.units if len(unit.targets) == 2]
        pool = ThreadPoolExecutor(max_workers=self.jobs)
        try:
            for stage in (alone, pairs):
                # A target that could not be imported by itself is not tried again with others.
                wanted = [unit for unit in stage if not any(target.name in self.errors for target in unit.targets)]
                waiting: set[Future[None]] = {pool.submit(self.run_unit, unit) for unit in wanted}
                while waiting:
                    done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
        except BaseException:
            self.processes.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
