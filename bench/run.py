"""The benchmark: builds every peer, measures every group in a process of its own, writes the results.

    run.py [--quick] [--group NAME]... [--instructions] [--all] [--out FOLDER]

Without --group the results are bench/results/latest.json, docs/benchmarks.md and docs/benchmarks.svg; with --group, or
with --out, they go to that folder (build/bench/results by default), so that a part never replaces the whole.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import building
import machine

BENCH, ROOT = building.BENCH, building.ROOT
BUILD = ROOT / os.environ.get("TENON_BUILD", "build") / "bench"

# Seconds that a group takes here: quick, full. They are what the progress bar starts from.
GROUPS = {
    "numpy": (6, 40), "torch": (7, 40), "jax": (8, 45), "tensorflow": (14, 50), "tensor": (7, 40), "gpu": (1, 60),
    "same object": (3, 15), "functions": (10, 70), "compiled": (10, 40), "loops": (1, 10), "sizes": (12, 70),
    "memory": (12, 60), "start": (16, 50), "threads": (10, 60), "copies": (4, 90), "elixir": (12, 60)}
GPU = ("gpu torch", "gpu cupy", "gpu jax")
FREE_THREADED = ROOT / ".venv-free-threaded/bin/python"  # tools/python-free-threaded builds that Python
OTHER_TORCH = BUILD / "torch-2.13"
ELSEWHERE = {"same object", "elixir"}  # groups that need nothing of this environment


class Progress:
    """A bar with the time left; plain lines where nobody watches a terminal."""

    def __init__(self, groups, quick):
        self.expected = {name: GROUPS[name][0 if quick else 1] for name in groups}
        self.bar = self.task = None
        if sys.stderr.isatty():
            try:
                from rich import progress
            except ImportError:
                return
            self.bar = progress.Progress(
                progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TaskProgressColumn(),
                progress.TimeElapsedColumn(), progress.TextColumn("left"), progress.TimeRemainingColumn(),
                console=__import__("rich.console").console.Console(stderr=True))
            self.task = self.bar.add_task("building", total=sum(self.expected.values()))
            self.bar.start()

    def say(self, text):
        if self.bar:
            self.bar.update(self.task, description=text[:50].ljust(50))

    def group(self, name):
        self.name, self.total, self.done, self.began = name, 1, 0, time.time()
        if not self.bar:
            print(f"{name} …", file=sys.stderr, flush=True)

    def step(self, label):
        self.done += 1
        self.say(f"{self.name}: {label}")
        if self.bar and self.done <= self.total:
            self.bar.advance(self.task, self.expected[self.name] / self.total)

    def finish(self):
        if self.bar and self.done < self.total:
            self.bar.advance(self.task, self.expected[self.name] * (1 - self.done / self.total))

    def stop(self):
        if self.bar:
            self.bar.stop()


class Run:
    def __init__(self, options):
        self.options = options
        self.rows, self.problems, self.took = [], [], {}
        self.python, self.other_torch = sys.executable, None
        tag = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
        self.folder = BUILD / tag
        chosen = options.group or list(GROUPS)
        self.progress = Progress(chosen, options.quick)
        self.chosen = chosen

    def problem(self, peer, reason):
        entry = {"peer": peer, "reason": re.sub(r"(?<![\w:/.])(/[\w.+-]+)+/", "", reason)}  # no folders of this machine
        if entry not in self.problems:
            self.problems.append(entry)

    def build(self, python, folder, names):
        for name in names:
            self.progress.say(f"building {name}")
            built = building.build(name, python, folder)
            if "reason" in built:
                self.problem(name, built["reason"])

    def lines(self, command, **options):
        """Run a command; take its lines of JSON as they come."""
        with tempfile.TemporaryFile("w+") as errors:  # a pipe that nobody reads would fill
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=errors,
                                       text=True, **options)
            for line in process.stdout:
                self.take(line)
            status = process.wait()
            errors.seek(0)
            text = errors.read().strip().splitlines() or [""]
            # Elixir says first what is wrong, Python last.
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
        """bench/copy, whose rows become ours."""
        dtypes = ("f32",) if self.options.quick else ("f32", "u8", "f64")
        self.progress.total = len(dtypes)
        out = self.folder / "copies.json"
        out.unlink(missing_ok=True)
        for dtype in dtypes:
            command = [self.python, BENCH / "copy/run.py", "--lib", self.folder / "tenon/libtenon.so",
                       "--dtypes", dtype, "--json", out] + ["--quick"] * self.options.quick
            result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
            if result.returncode:
                self.problem("group copies", (result.stderr.strip().splitlines() or ["failed"])[-1])
                return
            for row in json.loads(out.read_text()):
                for name, seconds in row["seconds"].items():
                    self.rows.append({
                        "group": "copies", "operation": row["layout"], "producer": dtype, "contender": name,
                        "version": None, "ns": seconds * 1e9, "spread": round(100 * row["spread"][name], 1),
                        "bytes": row["bytes"]})
            self.progress.step(dtype)

    def elixir(self):
        """elixir/bench/run.exs prints the same lines as a worker."""
        script = ROOT / "elixir/bench/run.exs"
        if not script.exists():
            self.problem("elixir", "its bridge has no bench/run.exs yet")
        elif not shutil.which("mix"):
            self.problem("elixir", "mix is not here")
        else:
            quick = ["--quick"] * self.options.quick
            status, error = self.lines(["mix", "run", "bench/run.exs", *quick], cwd=ROOT / "elixir",
                                       env={**os.environ, "MIX_ENV": "bench", "MIX_BUILD_PATH": str(BUILD / "elixir")})
            if status:
                self.problem("elixir", error[:300])

    def prepare_same_object(self):
        """pyo3-tch, and what is beside it, in an environment with the one torch that it takes."""
        if not self.options.all:
            self.problem("pyo3-tch", "only with --all: it needs exactly torch 2.13, and minutes to build")
            return
        requirements = building.PEERS / "pyo3_tch/requirements.txt"
        try:
            self.other_torch = building.environment(self.python, OTHER_TORCH / "venv", requirements)
        except building.NotHere as problem:
            self.problem("pyo3-tch", str(problem))
            return
        self.build(self.other_torch, OTHER_TORCH, ["tenon", "c", "torch_cpp", "pyo3_tch"])

    def prepare(self):
        """Build what the chosen groups need, in each environment."""
        if set(self.chosen) - ELSEWHERE:
            self.build(self.python, self.folder, building.names())
        if "threads" in self.chosen:
            if FREE_THREADED.exists():
                self.build(FREE_THREADED, BUILD / "free-threaded", ["tenon", "c"])
            else:
                self.problem("free-threaded Python", "not here: make test-all builds one")
        if "same object" in self.chosen:
            self.prepare_same_object()

    def measure(self):
        for group in self.chosen:
            self.progress.group(group)
            if group == "copies":
                self.copies()
            elif group == "elixir":
                self.elixir()
            elif group == "same object":
                if self.other_torch:
                    self.worker(group, self.other_torch, OTHER_TORCH)
            elif group == "gpu":
                if not shutil.which("nvidia-smi"):
                    self.problem("gpu", "there is none in this machine")
                else:
                    for part in GPU:
                        self.worker(part)
            else:
                self.worker(group)
                if group == "threads" and FREE_THREADED.exists():
                    self.worker(group, FREE_THREADED, BUILD / "free-threaded")
            self.progress.finish()
            self.took[group] = round(time.time() - self.progress.began, 1)

    def instructions(self):
        import instructions
        self.progress.say("counting instructions")
        counted, layers, reason = instructions.count(self.python, self.folder)
        if reason:
            self.problem("instructions", reason)
        for row in self.rows:
            key = (row["operation"], row["producer"], row["contender"])
            if key in counted:
                row["instructions"] = counted.pop(key)
        for (operation, producer, contender), value in counted.items():
            self.rows.append({"group": "instructions", "operation": operation, "producer": producer,
                              "contender": contender, "version": None, "ns": None, "spread": None,
                              "instructions": value})
        return layers

    def results(self, layers, seconds, load):
        return {
            "machine": machine.describe(self.python), "load_at_start": load, "quick": self.options.quick,
            "seconds": round(seconds), "seconds_by_group": self.took, "problems": self.problems, "layers": layers,
            "rows": [{"instructions": None, **row} for row in self.rows]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="about two minutes")
    parser.add_argument("--group", action="append", choices=GROUPS, help="only this group; may be repeated")
    parser.add_argument("--instructions", action="store_true", help="count instructions with callgrind too")
    parser.add_argument("--all", action="store_true", help="with what takes minutes to build: pyo3-tch and its torch")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the results")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    run = Run(options)
    try:
        run.prepare()
        began = time.time()
        run.measure()
        layers = run.instructions() if options.instructions else {}
    finally:
        run.progress.stop()
    results = run.results(layers, time.time() - began, load)

    import report
    whole = not options.group and not options.out
    out = BENCH / "results" if whole else options.out or BUILD / "results"
    docs = ROOT / "docs" if whole else out
    out.mkdir(parents=True, exist_ok=True)
    if whole and not options.instructions:
        report.keep_instructions(out / "latest.json", results)
    (out / "latest.json").write_text(report.compact(results))
    results = json.loads((out / "latest.json").read_text())  # rounded: everything below shows what stands there
    (docs / "benchmarks.md").write_text(report.markdown(results))
    problem = report.chart(results, docs / "benchmarks.svg")
    print(report.summary(results))
    for entry in run.problems:
        print(f"left out: {entry['peer']}: {entry['reason']}")
    if problem:
        print(f"no chart: {problem}")
    print(f"{out / 'latest.json'}, {docs / 'benchmarks.md'}, {round(results['seconds'])} seconds")


if __name__ == "__main__":
    main()
