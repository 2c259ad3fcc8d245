"""python -m tenon conformance: its arguments, its output and its exit status."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from typing import Any, Optional

from .case import KINDS

PROGRAM = "python -m tenon conformance"
BAD_USAGE = 2
INTERRUPTED = 130


class UsageError(Exception):
    """One line for the user; the exit status is 2."""


def add_parser(commands: Any) -> None:
    """Add the command to the parser of `python -m tenon`."""
    parser = commands.add_parser(
        "conformance",
        help="check how packages exchange arrays by DLPack",
        description="Check packages against the rules of DLPack. Each case runs in a process of its own.",
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="a package by name, or `all` for every installed one")
    parser.add_argument("--producer", metavar="MODULE:NAME", default="", help="your factory: make(shape, dtype, device, layout=…)")
    parser.add_argument("--consumer", metavar="MODULE:NAME", default="", help="your from_dlpack")
    parser.add_argument("--pointer", metavar="MODULE:NAME", default="", help="a function that returns the address of a result")
    parser.add_argument("--device", default="cpu", help="the device of --producer and --consumer (default: cpu)")
    parser.add_argument("--list", action="store_true", help="print id, rule and source of each case, separated by tabs")
    parser.add_argument("--case", metavar="ID", help="run one case in this process, without a fork or a limit, for a debugger")
    parser.add_argument("--only", metavar="GLOB", default="*", help="run only the cases whose id matches, such as 'producer.copy.*'")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="the limit for a case (default: 60)")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4), metavar="N", help="packages to check at a time")
    parser.add_argument("--no-round-trips", action="store_true", help="leave out exchanges between two packages")
    parser.add_argument("--expect", metavar="FILE", help="a TOML file of known failures: [[known]] with target, case and reason")
    parser.add_argument("--json", metavar="FILE", help="write everything as JSON")
    parser.add_argument("--junit", metavar="FILE", help="write a JUnit report")
    parser.add_argument("--html", metavar="FILE", help="write a page")


# ------------------------------------------------------------------------------------------------------------- arguments


def _choose_targets(options: argparse.Namespace) -> list[Any]:
    from .targets import TARGETS, WITHOUT_EXCHANGE, OwnTarget

    chosen: list[Any] = []
    for name in options.targets:
        if name == "all":
            chosen += [one for one in TARGETS.values() if one.is_installed() and one.name not in WITHOUT_EXCHANGE]
        elif name not in TARGETS:
            raise UsageError(f"{name!r} is not a target; expected all, {', '.join(TARGETS)}, or --producer and --consumer")
        elif not TARGETS[name].is_installed():
            raise UsageError(f"{name} is not installed in this Python ({sys.executable})")
        elif name in WITHOUT_EXCHANGE:
            raise UsageError(f"{name} cannot be checked: {WITHOUT_EXCHANGE[name]}")
        else:
            chosen.append(TARGETS[name])
    if options.pointer and not options.consumer:
        raise UsageError("--pointer needs --consumer")
    for option in ("producer", "consumer", "pointer"):
        text = getattr(options, option)
        module, colon, name = text.partition(":")
        if text and not (module and colon and name):
            raise UsageError(f"--{option} expects MODULE:NAME, got {text!r}")
    if options.producer or options.consumer:
        chosen.append(OwnTarget(options.producer, options.consumer, options.pointer, options.device))
    if not chosen:
        raise UsageError("expected a TARGET, --producer or --consumer; `--list` prints the cases")
    return list({target.name: target for target in chosen}.values())


def _read_known(file: Optional[str]) -> dict[tuple[str, str], str]:
    """The known failures: (target, case) and the reason."""
    if not file:
        return {}
    if sys.version_info < (3, 11):
        raise UsageError(f"--expect needs Python 3.11 or newer, which can read TOML; this is {sys.version.split()[0]}")
    import tomllib

    from . import cases

    try:
        with open(file, "rb") as source:
            entries = tomllib.load(source).get("known", [])
    except OSError as error:
        raise UsageError(f"--expect {file}: {error.strerror}") from None
    except ValueError as error:  # also text that is not UTF-8
        raise UsageError(f"--expect {file}: {error}") from None
    ids = {case.id for kind in KINDS for case in cases(kind)}
    known = {}
    for entry in entries if isinstance(entries, list) else [entries]:
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("target", "case", "reason")):
            raise UsageError(f"--expect {file}: each [[known]] needs target, case and reason, as strings")
        if entry["case"] not in ids:
            raise UsageError(f"--expect {file}: there is no case {entry['case']!r}; `--list` prints them")
        known[entry["target"], entry["case"]] = entry["reason"]
    return known


def _open_reports(options: argparse.Namespace) -> dict[str, str]:
    """The files to write, by their kind. They are opened once before the run, which takes long."""
    files = {kind: getattr(options, kind) for kind in ("json", "junit", "html") if getattr(options, kind)}
    for kind, file in files.items():
        try:
            with open(file, "a", encoding="utf-8"):
                pass
        except OSError as error:
            raise UsageError(f"--{kind} {file} cannot be written: {error.strerror}") from None
    return files


# ------------------------------------------------------------------------------------------------------------------ runs


def _list() -> int:
    from . import cases

    for kind in KINDS:
        for case in cases(kind):
            print(case.id, case.rule, case.source, sep="\t")
    return 0


def _run_here(id: str, targets: list[Any]) -> int:
    """One case in this process."""
    from . import cases
    from .report import BAD, describe
    from .server import run_case
    from .targets import has_role

    found = [case for kind in KINDS for case in cases(kind) if case.id == id]
    if not found:
        raise UsageError(f"--case: there is no case {id!r}; `--list` prints them")
    kind = found[0].kind
    if kind == "round-trip":
        groups = [[one, other] for one in targets for other in targets if one is not other]
        groups = [pair for pair in groups if has_role(pair[0], "producer") and has_role(pair[1], "consumer")]
    else:
        groups = [[target] for target in targets if has_role(target, kind)]
    if not groups:
        raise UsageError(f"--case {id}: needs {'two targets' if kind == 'round-trip' else f'a {kind}'}")
    bad = False
    for group in groups:
        for target in group:
            try:
                target.load()
            except Exception as error:
                raise UsageError(f"{target.name} cannot be imported: {type(error).__name__}: {error}") from None
        result = {"case": id, "target": "->".join(target.name for target in group), **run_case(id, group)}
        print(describe(result), flush=True)
        bad = bad or result["outcome"] in BAD
    return int(bad)


class Progress:
    """One line that is rewritten, on a terminal; nothing elsewhere."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.shown = total, 0, sys.stderr.isatty()

    def __call__(self, target: str, case: str) -> None:
        self.done += 1
        if self.shown:
            width = shutil.get_terminal_size().columns - 1
            text = f"{self.done}/{self.total} {target} {case}"[:width]
            sys.stderr.write("\r" + text.ljust(width))
            sys.stderr.flush()

    def clear(self) -> None:
        if self.shown:
            sys.stderr.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
            sys.stderr.flush()


def _write_reports(files: dict[str, str], data: dict[str, Any]) -> bool:
    from .report import as_html, as_json, as_junit

    good = True
    for kind, file in files.items():
        text = {"json": as_json, "junit": as_junit, "html": as_html}[kind](data)
        try:
            with open(file, "w", encoding="utf-8", errors="replace", newline="\n") as out:
                out.write(text)
        except OSError as error:
            good = False
            print(f"{PROGRAM}: --{kind} {file} cannot be written: {error.strerror}", file=sys.stderr)
    return good


def _judge(results: list[dict[str, str]], known: dict[tuple[str, str], str]) -> bool:
    """Print what is wrong; whether there is something new."""
    from .report import BAD, describe

    wrong = False
    for result in results:
        place = (result["target"], result["case"])
        if result["outcome"] in BAD:
            if place in known:
                print(f"known {describe(result)} ({known[place]})")
            else:
                wrong = True
                print(describe(result))
        elif place in known:
            wrong = True
            print(f"no longer a failure: {result['target']} {result['case']}: {result['outcome']}; remove it from --expect")
    return wrong


def _run_all(options: argparse.Namespace, targets: list[Any]) -> int:
    from .report import as_data, as_table
    from .run import Run, units_for

    known = _read_known(options.expect)
    units = units_for(targets, not options.no_round_trips, options.only)
    if not any(unit.jobs for unit in units):
        raise UsageError(f"--only {options.only}: no case of these targets matches; `--list` prints them")
    files = _open_reports(options)
    run = Run(units, options.timeout, options.jobs)
    progress = run.progress = Progress(run.total)
    interrupted = 0

    def on_terminate(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, on_terminate)
    try:
        run.run()
    except KeyboardInterrupt:
        interrupted = INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
        progress.clear()
    order = {case.id: i for i, (case, _) in enumerate(job for unit in units for job in unit.jobs)}
    places = {unit.label(roles): i for i, (unit, roles) in enumerate((unit, roles) for unit in units for _, roles in unit.jobs)}
    results = sorted(run.results, key=lambda row: (places[row["target"]], order[row["case"]]))
    described = [{"name": one.name, "version": one.version() or run.versions.get(one.name, "")} for one in targets]
    data = as_data(described, results, complete=not interrupted and not run.errors)
    written = _write_reports(files, data)
    print(as_table(data), end="")
    wrong = _judge(results, known)
    sys.stdout.flush()
    for name, reason in run.errors.items():
        print(f"{PROGRAM}: {name} cannot be imported: {reason}", file=sys.stderr)
    if interrupted:
        print(f"{PROGRAM}: interrupted after {len(results)} of {run.total} cases", file=sys.stderr)
        return interrupted
    return BAD_USAGE if run.errors or not written else int(wrong)


def main(options: argparse.Namespace) -> int:
    try:
        if options.list:
            return _list()
        if not options.timeout > 0:
            raise UsageError(f"--timeout expects a number of seconds above 0, got {options.timeout:g}")
        if options.jobs < 1:
            raise UsageError(f"--jobs expects a number above 0, got {options.jobs}")
        targets = _choose_targets(options)
        return _run_here(options.case, targets) if options.case else _run_all(options, targets)
    except UsageError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
