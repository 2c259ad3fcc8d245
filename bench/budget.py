"""The instruction budget of a refactoring: compares instruction counts with those that were saved before it.

    .venv-bench/bin/python bench/budget.py            compares; fails if a path grew by more than 2 %
    .venv-bench/bin/python bench/budget.py --save     saves the counts as the new budget, bench/results/instructions.json

`make bench` makes the environment. Counts repeat only with the same Python, NumPy, torch and compiler, so their
versions are saved too, and must be the same.
"""
import json
import platform
import sys

import peer_builds
import instructions

FILE = peer_builds.BENCH / "results/instructions.json"
LIMIT = 0.02


def versions():
    compiler = peer_builds.run(["cc", "--version"]).splitlines()[0]
    return {"python": platform.python_version(), "compiler": compiler,
            **{name: peer_builds.package(sys.executable, name) for name in ("numpy", "torch")}}


def count():
    folder = peer_builds.ROOT / "build/budget"
    folder.mkdir(parents=True, exist_ok=True)
    for peer in ("tenon", "c"):
        built = peer_builds.build(peer, sys.executable, folder)
        if "reason" in built:
            sys.exit(f"{peer}: {built['reason']}")
    counted, _, reason = instructions.count(sys.executable, folder, lambda step: print("counted:", step))
    if reason:
        sys.exit(reason)
    return {", ".join(key): value for key, value in counted.items() if key[2].startswith("tenon")}


def compare(saved, counts):
    grown = []
    for path, before in saved.items():
        now = counts[path]
        print(f"{path:45} {before:9.1f} {now:9.1f} {100 * (now / before - 1):+6.1f} %")
        if now > before * (1 + LIMIT):
            grown.append(path)
    return grown


def main():
    about, counts = versions(), count()
    if sys.argv[1:] == ["--save"]:
        FILE.write_text(json.dumps({"versions": about, "counts": counts}, indent=1) + "\n")
        return 0
    saved = json.loads(FILE.read_text())
    if saved["versions"] != about:
        sys.exit(f"the budget was saved with {saved['versions']}, but these are {about}; save one with the commit before yours")
    grown = compare(saved["counts"], counts)
    print("over the budget:" if grown else "within the budget", *grown, sep="\n  " if grown else " ")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
