"""Compares the results with bench/targets.toml and prints the targets that are missed.

    check.py [--all] [FILE]        --all: also those that are met. FILE: other results than bench/results/latest.json
"""
import pathlib
import sys

try:
    import tomllib
except ImportError:  # before Python 3.11
    try:
        import tomli as tomllib
    except ImportError:
        sys.exit("needs Python 3.11, or the package tomli")

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import files
import sources
import tables

BENCH = pathlib.Path(__file__).resolve().parent


def judge(target, found):
    """(whether the target is met, text), or (None, why it is unknown)."""
    ours = target.get("ours", "tenon")
    place = target["operation"], target["producer"]
    title = f"issue {target['issue']}: {place[0]}, {place[1]}, {ours}"
    row = found.get(place, {}).get(ours, {})
    if "value" in target:
        value = row.get(target["field"])
        if value is None:
            return None, f"{title}: not measured"
        return value <= target["value"], f"{title}: {value:.1f} {target['field']}, at most {target['value']}"
    there = target.get("other_operation", place[0]), target.get("other_producer", place[1])
    other = found.get(there, {}).get(target["other"], {})
    name = target["other"] if there == place else f"{target['other']}'s {there[0]}"
    field = target.get("field", "ns")
    if row.get(field) is None or other.get(field) is None:
        missing = f"{ours}" if row.get(field) is None else name
        return None, f"{title} beside {name}: {missing} is not measured"
    mine, theirs = row[field], other[field] * target.get("times", 1)
    figures = f"{tables.number(mine)} beside {name}'s {tables.number(theirs)} {field}"
    if "at_most" in target:
        return mine <= target["at_most"] * theirs, \
            f"{title}: {mine / theirs:.2f}x, at most {target['at_most']} ({figures})"
    if "faster" in target:
        return theirs >= target["faster"] * mine, \
            f"{title}: {theirs / mine:.2f}x faster, at least {target['faster']} ({figures})"
    return mine - theirs <= target["over"], f"{title}: {mine - theirs:+.1f} ns, at most {target['over']} ({figures})"


def copy_targets(entries, found, results):
    """The targets for every row of the copies."""
    for row in results["rows"]:
        if row["group"] != "copies" or row["contender"] != "tenon":
            continue
        here = found[row["operation"], row["producer"]]
        others = {name: entry["ns"] for name, entry in here.items() if name != "tenon"}
        for entry in entries:
            other = min(others, key=others.get) if entry["other"] == "best" else entry["other"]
            yield {"issue": entry["issue"], "operation": row["operation"], "producer": row["producer"], "other": other,
                   "at_most": entry["at_most"]}


def main():
    words = sys.argv[1:]
    given = [word for word in words if not word.startswith("-")]
    try:
        results = files.results(pathlib.Path(given[0]) if given else files.LATEST)
    except files.Unusable as problem:
        sys.exit(str(problem))
    found = tables.grid(results)
    wanted = tomllib.loads((BENCH / "targets.toml").read_text())
    counts = {True: 0, False: 0, None: 0}
    for target in [*wanted["target"], *copy_targets(wanted["copies"], found, results)]:
        holds, text = judge(target, found)
        counts[holds] += 1
        if not holds or "--all" in words:
            print({True: "met      ", False: "missed   ", None: "unknown  "}[holds] + text)
    if results.get("sources", {}).get("stamp") != sources.stamp():
        print(f"warning: the figures are {sources.words(results)}; the current sources are {sources.stamp()}: run make bench")
    if results["quick"]:
        print("These are the figures of a rough run (--quick).")
    print(f"{counts[True]} met, {counts[False]} missed, {counts[None]} unknown")
    sys.exit(1 if counts[False] else 0)


if __name__ == "__main__":
    main()
