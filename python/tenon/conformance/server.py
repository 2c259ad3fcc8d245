"""The process of a target: it imports the target, makes no array, and forks a child for each case.

    python -m tenon.conformance.server SPEC REQUESTS RESULTS    file descriptors; one line of JSON each
    python -m tenon.conformance.server SPEC FILE                one case without a fork; the result is written to the file

Standard output and error belong to the target, which may print anything there."""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import sys
import time
import unittest
from typing import Any, Optional

from . import KINDS, cases
from .case import Case
from .targets import Target, from_spec

PROBE = "probe"
IMPORTED = ".imported"  # the end of the name of a file that exists once the targets are imported
_LONGEST = 300  # characters of a message: a result fits into one write to a pipe


def _short(text: str) -> str:
    """A message of a target may have any characters: those that a terminal, JSON or XML cannot show are replaced."""
    text = "".join(character if character.isprintable() else "?" for character in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


@functools.lru_cache(maxsize=None)
def _all_cases() -> dict[str, Case]:
    return {case.id: case for kind in KINDS for case in cases(kind)}


def _probe(targets: list[Target]) -> None:
    """Use each target once, to see whether it works in a forked process."""
    from .made_producers import Made, MadeArray

    for target in targets:
        try:
            if target.make:
                target.make((2, 3), "float32", target.device).__dlpack__()
            if target.consume and target.device == "cpu":
                target.consume(MadeArray(Made()))
        except BaseException:
            pass  # only a hang or a crash counts


def run_case(id: str, targets: list[Target]) -> dict[str, str]:
    """The outcome of a case. The targets have been loaded: one, or a producer and a consumer."""
    if id == PROBE:
        _probe(targets)
        return {"outcome": "pass", "expected": "", "came": ""}
    case = _all_cases()[id]
    first, last = targets[0], targets[-1]
    try:
        make: Any = first.consume if case.kind == "consumer" else first.make
        case.check(make, last.consume, device=first.device, pointer=last.pointer)
    except AssertionError as error:
        outcome = getattr(error, "outcome", "fail")
        expected, came = getattr(error, "expected", case.rule), getattr(error, "came", str(error))
        return {"outcome": outcome, "expected": _short(expected), "came": _short(came)}
    except unittest.SkipTest as error:
        return {"outcome": getattr(error, "outcome", "n/a"), "expected": "", "came": _short(str(error))}
    except BaseException as error:  # also SystemExit: a target must not end the process
        from .parties import name_error

        return {"outcome": "fail", "expected": _short(case.rule), "came": _short(name_error(error))}
    return {"outcome": "pass", "expected": "", "came": ""}


def load_targets(specs: list[dict[str, Any]]) -> list[Target]:
    targets = [from_spec(spec) for spec in specs]
    for target in targets:
        target.load()
    return targets


def _restore_signals() -> None:
    """Undo what a target may have changed: without SIGCHLD's default, for example, the status of children is lost."""
    for name in ("SIGCHLD", "SIGINT", "SIGTERM", "SIGALRM", "SIGPIPE", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"):
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_DFL)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _child(id: str, targets: list[Target], out: int) -> None:
    own = os.getpid()
    try:
        os.setsid()
        _restore_signals()
        result = run_case(id, targets)
        if os.getpid() == own:  # not a process that the target forked
            os.write(out, json.dumps(result).encode() + b"\n")
    finally:
        os._exit(0)


def _ended(status: int) -> dict[str, str]:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return {"outcome": "crash", "expected": "an answer", "came": name}
    code = os.WEXITSTATUS(status)
    return {"outcome": "crash", "expected": "an answer", "came": f"the process was ended with status {code}"}


def _kill(pid: int, ended: bool) -> None:
    """End a child and its group. The number of a child that has ended may belong to another process by now."""
    for kill in (os.killpg,) if ended else (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            pass


def _run_forked(id: str, targets: list[Target], timeout: float, requests: int, send: Any) -> dict[str, str]:
    receive, out = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        _child(id, targets, out)
    os.close(out)
    send({"pid": pid})
    end, data, status = time.monotonic() + timeout, b"", None
    try:
        while b"\n" not in data and time.monotonic() < end:
            # The process may have ended while one that it forked keeps the pipe open: both are watched.
            ready = select.select([receive, requests], [], [], 0.02 if status is None else 0)[0]
            if requests in ready:
                os._exit(0)  # no process waits for the result
            if receive in ready:
                part = os.read(receive, 65536)
                data += part
                if not part and status is None:
                    status = os.waitpid(pid, 0)[1]
                if not part:
                    break
            elif status is not None:
                break
            elif status is None:
                done, found = os.waitpid(pid, os.WNOHANG)
                status = found if done else None
    finally:
        os.close(receive)
        _kill(pid, status is not None)
    if status is None:
        status = os.waitpid(pid, 0)[1]
        if b"\n" not in data:
            return {"outcome": "hang", "expected": f"an answer within {timeout:g} s", "came": "none"}
    if b"\n" in data:
        return dict(json.loads(data.partition(b"\n")[0]))
    return _ended(status)


def _serve(specs: list[dict[str, Any]], requests: int, results: int) -> None:
    own = os.getpid()

    def send(message: dict[str, Any]) -> None:
        os.write(results, json.dumps(message).encode() + b"\n")

    try:
        targets = load_targets(specs)
    except BaseException as error:
        from .parties import name_error

        if os.getpid() == own:
            send({"error": _short(name_error(error))})
        os._exit(0)
    if os.getpid() != own:  # the target forked while it was imported, and this is the other process
        os._exit(0)
    _restore_signals()
    _all_cases()  # once, and not in each child
    send({"ready": True, "versions": [getattr(_module(target), "__version__", "") for target in targets]})
    data = b""
    while True:
        while b"\n" not in data:
            part = os.read(requests, 65536)
            if not part:
                os._exit(0)
            data += part
        line, _, data = data.partition(b"\n")
        request = json.loads(line)
        chosen = [targets[i] for i in request["roles"]]
        send(_run_forked(request["case"], chosen, request["timeout"], requests, send))


def _module(target: Target) -> Any:
    return sys.modules.get(target.modules[0].partition(".")[0])


def _run_once(specs: list[dict[str, Any]], id: str, roles: list[int], file: str) -> None:
    own = os.getpid()
    try:
        targets = load_targets(specs)
    except BaseException as error:
        from .parties import name_error

        result: dict[str, Any] = {"error": _short(name_error(error))}
    else:
        if os.getpid() != own:
            os._exit(0)
        with open(file + IMPORTED, "w", encoding="utf-8"):
            pass
        result = run_case(id, [targets[i] for i in roles])
    if os.getpid() == own:
        with open(file, "w", encoding="utf-8") as out:
            json.dump(result, out)
    os._exit(0)


def main(arguments: Optional[list[str]] = None) -> None:
    words = sys.argv[1:] if arguments is None else arguments
    spec = json.loads(words[0])
    if len(words) == 3:
        _serve(spec["targets"], int(words[1]), int(words[2]))
    else:
        _run_once(spec["targets"], spec["case"], spec["roles"], words[1])


if __name__ == "__main__":
    main()
