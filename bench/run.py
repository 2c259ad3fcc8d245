"""The benchmark: builds every peer, measures every group in a process of its own, writes the results.

    run.py [--quick] [--group NAME]... [--instructions] [--all] [--out FOLDER]

The whole run writes bench/results/latest.json, docs/benchmarks.md, its charts and the numbers of README.md and
docs/performance.md. A partial or rough run does not replace them: --quick writes to build/bench/quick, --group to
build/bench/results, and --out chooses another folder.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import peer_builds
import files
import machine
import sources

BENCH, ROOT = peer_builds.BENCH, peer_builds.ROOT
BUILD = ROOT / os.environ.get("TENON_BUILD", "build") / "bench"

# The seconds that a group takes with --quick and in full; the progress bar starts with them.
GROUPS = {
    "numpy": (4, 13), "torch": (5, 13), "jax": (5, 12), "tensorflow": (12, 20), "tensor": (5, 12), "gpu": (1, 150),
    "same object": (3, 5), "functions": (6, 16), "arguments": (4, 10), "objects": (1, 3), "rust": (6, 20), "compiled": (12, 16), "jax operators": (5, 12), "loops": (1, 2),
    "shared": (3, 8), "sizes": (8, 15), "memory": (12, 35), "start": (20, 85), "threads": (8, 18), "copies": (3, 55),
    "conversions": (2, 6), "elixir": (12, 60)}
COUNTING = 50  # instructions
GPU = ("gpu torch", "gpu cupy", "gpu jax", "gpu functions", "gpu operators")
FREE_THREADED = ROOT / ".venv-free-threaded/bin/python"  # tools/python-free-threaded builds that Python
OTHER_TORCH = BUILD / "torch-2.13"
ELSEWHERE = {"same object", "elixir"}  # groups that need nothing of this environment


class Progress:
    """A bar with the time left, or plain lines if stderr is not a terminal. Its unit is an expected second."""

    def __init__(self, expected):
        self.expected, self.bar, self.task = dict(expected), None, None
        self.label, self.total, self.done, self.began, self.moved = "", 1, 0, time.time(), time.time()
        if sys.stderr.isatty():
            try:
                from rich import console, progress
            except ImportError:
                return

            class Left(progress.ProgressColumn):
                render = staticmethod(self.left)

            self.bar = progress.Progress(
                progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TaskProgressColumn(),
                progress.TimeElapsedColumn(), Left(), console=console.Console(stderr=True))
            self.task = self.bar.add_task("", total=sum(self.expected.values()))
            self.bar.start()

    def left(self, task):
        """The expected seconds that remain, with the clock running for the current part."""
        here = self.expected.get(self.label, 0) * (1 - self.done / self.total)
        seconds = round(max(0, task.total - task.completed - min(here, time.time() - self.moved)))
        return f"{seconds // 60}:{seconds % 60:02} left"

    def say(self, text):
        if self.bar:
            self.bar.update(self.task, description=text[:50].ljust(50))

    def expect(self, more):
        """Further parts, {label: seconds}."""
        self.expected.update(more)
        if self.bar:
            self.bar.update(self.task, total=sum(self.expected.values()))

    def begin(self, label):
        self.label, self.total, self.done = label, 1, 0
        self.began = self.moved = time.time()
        self.say(label)
        if not self.bar and self.expected.get(label):
            print(f"{label} …", file=sys.stderr, flush=True)

    def step(self, what):
        self.say(f"{self.label}: {what}")
        self.advance(1)

    def advance(self, steps):
        steps = min(steps, self.total - self.done)
        self.done += steps
        self.moved = time.time()
        if self.bar and steps > 0:
            self.bar.advance(self.task, self.expected.get(self.label, 0) * steps / self.total)

    def finish(self):
        """Mark this part as done, and return the seconds that it took."""
        self.advance(self.total)
        return round(time.time() - self.began, 1)

    def stop(self):
        if self.bar:
            self.bar.stop()


class Run:
    def __init__(self, options):
        self.options = options
        self.rows, self.problems, self.took = [], [], {}
        self.python, self.other_torch = sys.executable, None
        self.sources, self.load = sources.describe(), os.getloadavg()[0]
        tag = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
        self.folder = BUILD / tag
        self.chosen = options.group or list(GROUPS)
        self.counts = options.instructions or not (options.quick or options.group)
        self.progress = Progress({name: GROUPS[name][0 if options.quick else 1] for name in self.chosen})
        if self.counts:
            self.progress.expect({"instructions": COUNTING})

    def problem(self, peer, reason):
        entry = {"peer": peer_builds.title(peer),
                 "reason": re.sub(r"(?<![\w:/.])(/[\w.+-]+)+/", "", reason)}  # no folders of this machine
        if entry not in self.problems:
            self.problems.append(entry)

    def build(self, wanted):
        """Build the peers that are not built yet. wanted: [(interpreter, folder, peers)]."""
        peers = {f"building {peer_builds.title(name)} in {folder.name}": (name, python, folder)
                 for python, folder, names in wanted for name in names}
        self.progress.expect({label: peer_builds.seconds_for(*peer) for label, peer in peers.items()})
        for label, peer in peers.items():
            self.progress.begin(label)
            built = peer_builds.build(*peer)
            if "reason" in built:
                self.problem(peer[0], built["reason"])
            self.progress.finish()

    def lines(self, command, **options):
        """Run a command; take its lines of JSON as they come."""
        with tempfile.TemporaryFile("w+") as errors:  # a pipe would fill, because it is read only at the end
            process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=errors, text=True, **options)
            try:
                for line in process.stdout:
                    self.take(line)
                status = process.wait()
            except BaseException:
                process.kill()
                process.wait()
                raise
            errors.seek(0)
            text = errors.read().strip().splitlines() or [""]
            # Elixir prints its error first, Python last.
            return status, next((line for line in text if line.startswith("** ")), text[-1])

    def take(self, line):
        try:
            entry = json.loads(line)
        except ValueError:
            return
        if not isinstance(entry, dict):
            return
        if "total" in entry:
            self.progress.total = max(1, entry["total"])
        if "row" in entry:
            self.rows.append(entry["row"])
        if "problem" in entry:
            self.problem(**entry["problem"])
        if "step" in entry:
            self.progress.step(entry["step"])

    def worker(self, group, python=None, folder=None):
        command = [python or self.python, BENCH / "worker.py", group, folder or self.folder]
        status, error = self.lines(command + ["--quick"] * self.options.quick)
        if status:
            self.problem(f"group {group}", f"ended with {status}: {error}"[:300])

    def copies(self):
        """Run bench/copy and add its rows."""
        dtypes = ("f32",) if self.options.quick else ("f32", "u8", "f64")
        self.progress.total = len(dtypes)
        for dtype in dtypes:
            self.copy_rows("copies", "run.py", dtype, ["--dtypes", dtype])

    def copy_rows(self, group, script, producer, options=()):
        """Run a script of bench/copy and add its rows."""
        out = self.folder / f"{group}.json"
        out.unlink(missing_ok=True)
        versions = {"tenon": files.known(self.folder / "tenon/built.json").get("version"),
                    "numpy": machine.version("numpy"), "torch": machine.version("torch")}
        command = [self.python, BENCH / "copy" / script, "--lib", self.folder / "tenon/libtenon.so",
                   *options, "--json", out] + ["--quick"] * self.options.quick
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if result.returncode:
            self.problem(f"group {group}", (result.stderr.strip().splitlines() or ["failed"])[-1])
            return
        for row in json.loads(out.read_text()):
            for name, seconds in row["seconds"].items():
                self.rows.append({
                    "group": group, "operation": row["layout"], "producer": producer, "contender": name,
                    "version": versions[name], "ns": seconds * 1e9, "spread": round(100 * row["spread"][name], 1),
                    "bytes": row["bytes"]})
        self.progress.step(producer)

    def elixir(self):
        """elixir/bench/run.exs prints the same lines as a worker."""
        try:
            peer_builds.need("mix")
        except peer_builds.NotHere as problem:
            self.problem("elixir", str(problem))
        else:
            quick = ["--quick"] * self.options.quick
            status, error = self.lines(["mix", "run", "bench/run.exs", *quick], cwd=ROOT / "elixir",
                                       env={**os.environ, "MIX_ENV": "bench", "MIX_BUILD_PATH": str(BUILD / "elixir")})
            if status:
                self.problem("elixir", error[:300])
            for row in self.rows:
                if row["group"] == "elixir":  # the other contenders are part of the runtime
                    row["version"] = row["version"] or machine.erlang()

    def prepare_same_object(self):
        """pyo3-tch and the peers it is compared with, in an environment with the only torch that it supports."""
        venv = OTHER_TORCH / "venv"
        if not self.options.all and not (venv / "bin/python").exists():
            self.problem("pyo3-tch", "only with --all: it needs exactly torch 2.13, and minutes to build")
            return []
        self.progress.say("environment with torch 2.13")
        try:
            self.other_torch = peer_builds.environment(self.python, venv, peer_builds.PEERS / "pyo3_tch/requirements.txt")
        except peer_builds.NotHere as problem:
            self.problem("pyo3-tch", str(problem))
            return []
        return [(self.other_torch, OTHER_TORCH, ["tenon", "c", "torch_cpp", "pyo3_tch"])]

    def prepare(self):
        """Build the peers that the chosen groups need, in each environment."""
        wanted = []
        if set(self.chosen) - ELSEWHERE:
            wanted.append((self.python, self.folder, peer_builds.names()))
        elif self.counts:
            wanted.append((self.python, self.folder, ["tenon", "c"]))
        if "threads" in self.chosen:
            if FREE_THREADED.exists():
                wanted.append((FREE_THREADED, BUILD / "free-threaded", ["tenon", "c"]))
            else:
                self.problem("free-threaded Python", "not installed: make test-all builds one")
        if "same object" in self.chosen:
            wanted += self.prepare_same_object()
        self.build(wanted)

    def measure(self):
        for group in self.chosen:
            self.progress.begin(group)
            if group == "copies":
                self.copies()
            elif group == "conversions":
                self.copy_rows(group, "conversions.py", "memory")
            elif group == "elixir":
                self.elixir()
            elif group == "same object":
                if self.other_torch:
                    self.worker(group, self.other_torch, OTHER_TORCH)
            elif group == "gpu":
                if not machine.gpu():
                    self.problem("gpu", "this machine has none")
                else:
                    for part in GPU:
                        self.worker(part)
            else:
                self.worker(group)
                if group == "threads" and FREE_THREADED.exists():
                    self.worker(group, FREE_THREADED, BUILD / "free-threaded")
            self.took[group] = self.progress.finish()

    def instructions(self):
        """Count instructions, add them to the rows, and return the layers of each path."""
        import instructions
        self.progress.begin("instructions")
        self.progress.total = len(instructions.SETS)
        counted, layers, reason = instructions.count(self.python, self.folder, self.progress.step)
        if reason:
            self.problem("instructions", reason)
        for row in self.rows:
            row["instructions"] = counted.pop((row["operation"], row["producer"], row["contender"]), None)
        for (operation, producer, contender), value in counted.items():
            peer = "tenon" if contender.startswith("tenon") else "c"
            self.rows.append({"group": "instructions", "operation": operation, "producer": producer,
                              "contender": contender, "instructions": value,
                              "version": files.known(self.folder / peer / "built.json").get("version")})
        self.took["instructions"] = self.progress.finish()
        return layers

    def results(self):
        """Build, measure and count."""
        try:
            self.prepare()
            began = time.time()
            self.measure()
            layers = self.instructions() if self.counts else {}
        finally:
            self.progress.stop()
        if sources.stamp() != self.sources["stamp"]:
            self.problem("sources", "they changed during the run, so the figures are of both versions")
        return {
            "sources": self.sources, "machine": machine.describe(self.python), "load_at_start": round(self.load, 2),
            "quick": self.options.quick, "seconds": round(time.time() - began), "seconds_by_group": self.took,
            "problems": self.problems, "layers": layers, "rows": [files.whole(row) for row in self.rows]}


def write(results, out, whole):
    """Write the results and their pages, all or none: every text is made before the first file is replaced."""
    import readme
    import report
    results = json.loads(report.compact(results))  # rounded, so that the pages show the same figures as the file
    texts = report.pages(results, ROOT / "docs" if whole else out)
    texts = {out / "latest.json": report.compact(results), **texts}
    lines = []
    if whole:
        for path in readme.FILES:
            try:
                texts[ROOT / path] = readme.filled((ROOT / path).read_text(encoding="utf-8"), results)
            except ValueError as missing:
                lines.append(f"{path} is not changed: {missing}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for path, text in texts.items():
        if text is None:
            path.unlink(missing_ok=True)
        else:
            files.replace(path, text)
    print(report.summary(results))
    for entry in results["problems"]:
        print(f"left out: {entry['peer']}: {entry['reason']}")
    print("\n".join([*lines, f"{out / 'latest.json'}, {results['seconds']} seconds"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="about two minutes")
    parser.add_argument("--group", action="append", choices=GROUPS, help="only this group; may be repeated")
    parser.add_argument("--instructions", action="store_true",
                        help="count instructions with callgrind, as the whole run does anyway")
    parser.add_argument("--all", action="store_true",
                        help="also build pyo3-tch and its torch, which takes minutes (once built, they are always used)")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the results")
    options = parser.parse_args()
    run = Run(options)
    results = run.results()
    whole = not (options.group or options.out or options.quick)
    if whole and any(entry["peer"] == "instructions" for entry in results["problems"]):
        import report
        line = report.keep_instructions(files.LATEST, results)
        if line:
            run.problem("instructions", line)
    out = options.out or (files.LATEST.parent if whole else BUILD / ("quick" if options.quick else "results"))
    write(results, out.resolve(), whole)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped: the earlier results are unchanged", file=sys.stderr)
        sys.exit(130)
