"""Measures one group in a process of its own, and prints a line of JSON for each row.

    worker.py GROUP FOLDER [--quick]        FOLDER: where the peers were built

The lines: {"total": rows to come}, {"row": …} for each contender, {"step": a row is done}.
"""
import json
import os
import pathlib
import re
import sys
from importlib import metadata

sys.dont_write_bytecode = True
os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu" if sys.argv[1:2] in (["gpu jax"], ["gpu functions"]) else "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import peer_builds
import files
import timing
from groups import GROUPS


class Session:
    """The built peers, the plan, and a way to report, for a group."""

    def __init__(self, group, folder, quick):
        self.group, self.folder, self.plan = group, pathlib.Path(folder), timing.Plan(quick)
        built = {path.parent.name: files.known(path).get("version") for path in self.folder.glob("*/built.json")}
        self.built = {name: version for name, version in built.items() if version}
        self.versions = {}

    def say(self, **line):
        print(json.dumps(line), flush=True)

    def contenders(self, only=None):
        """[(name, operations)] of every peer that loads."""
        found = []
        # Tenon first, so that the package is the one that was just built.
        for peer in sorted(self.built, key=lambda name: (name != "tenon", name)):
            if only and peer not in only:
                continue
            try:
                for name, operations in peer_builds.peer(peer).operations(self.folder / peer):
                    self.versions[name] = self.built[peer]
                    found.append((name, operations))
            except Exception as problem:  # noqa: BLE001 - the others go on without it
                self.say(problem={"peer": peer, "reason": f"does not load: {first_line(problem)}"})
        return found

    def version(self, contender):
        """The version of a contender: that of its peer, or of the peer or framework that its name begins with (`tenon: dot`,
        `numpy copy`), or of the compiler for C."""
        word = re.match(r"\w*", contender.removeprefix("raw ")).group().lower()
        if contender in self.versions and not contender.endswith(".from_dlpack"):  # whose peer is the frameworks
            return self.versions[contender]
        if word in self.built:
            return self.built[word]
        try:
            return getattr(sys.modules.get(word), "__version__", None) or metadata.version(word)
        except (metadata.PackageNotFoundError, ValueError):
            return None

    def row(self, operation, producer, contender, **values):
        self.say(row={"group": self.group, "operation": operation, "producer": producer, "contender": contender,
                      "version": self.version(contender), **values})

    def step(self, label):
        self.say(step=label)

    def compare(self, operation, producer, candidates, check=None, before=None):
        """Time {contender: (function, arguments)}. One that raises or returns a wrong result gets a row that says so. `before` runs
        before each sample."""
        able = {}
        for name, (function, arguments) in candidates.items():
            try:
                answer = timing.call(function, arguments)
                if check and not check(answer):
                    self.row(operation, producer, name, refused=f"wrong answer: {answer!r}"[:120])
                    continue
                able[name] = (function, arguments)
            except Exception as problem:  # noqa: BLE001 - a peer may raise anything
                self.row(operation, producer, name, refused=f"{type(problem).__name__}: {first_line(problem)}")
        measured = timing.compare(able, self.plan, before)
        for name, values in measured.items():
            self.row(operation, producer, name, **values)
        self.step(f"{operation}, {producer}")
        return measured


def first_line(problem):
    text = str(problem).strip()
    return text.splitlines()[0][:160] if text else type(problem).__name__


def main():
    group, folder = sys.argv[1:3]
    session = Session(group, folder, "--quick" in sys.argv[3:])
    GROUPS[group](session)


if __name__ == "__main__":
    main()
