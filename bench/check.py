"""Compares the results with bench/targets.toml and prints the targets that are missed.

    check.py [--all] [FILE]        --all: also those that are met. FILE: other results than those in bench/results
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
import report
import sources
import tables

BENCH = pathlib.Path(__file__).resolve().parent


def judge(target, found):
    """(whether the target is met, text), or (None, why it is unknown)."""
    ours, field = target.get("ours", "tenon"), target.get("field", "ns")
    place = target["operation"], target["producer"]
    title = f"{place[0]}, {place[1]}, {ours}"
    mine = found.get(place, {}).get(ours, {}).get(field)
    if mine is None:
        return None, f"{title}: not measured"
    if "other" not in target:
        return mine <= target["at_most"], f"{title}: {mine:.1f} {field}, at most {target['at_most']}"
    there = target.get("other_operation", place[0]), target.get("other_producer", place[1])
    name = target["other"] if there == place else f"{target['other']} ({', '.join(there)})"
    theirs = found.get(there, {}).get(target["other"], {}).get(field)
    if theirs is None:
        return None, f"{title}: {name} is not measured"
    figures = f"({tables.number(mine)} beside {tables.number(theirs)} {field} of {name})"
    if "at_most" in target:
        return mine <= target["at_most"] * theirs, f"{title}: {mine / theirs:.2f}x, at most {target['at_most']} {figures}"
    if "faster" in target:
        return theirs >= target["faster"] * mine, f"{title}: {theirs / mine:.2f}x faster, at least {target['faster']} {figures}"
    return mine - theirs <= target["over"], f"{title}: {mine - theirs:+.1f} ns, at most {target['over']:.0f} {figures}"


def expand(target, found, results):
    """One target for each of our rows in its group; the target itself if it is for one row."""
    if "group" not in target:
        return [target]
    places = [(row["operation"], row["producer"]) for row in results["rows"]
              if row["group"] == target["group"] and row["contender"] == "tenon"]
    others = {place: {name: row["ns"] for name, row in found[place].items() if name != "tenon"} for place in places}
    return [{"operation": place[0], "producer": place[1], "at_most": target["at_most"],
             "other": min(others[place], key=others[place].get) if target["other"] == "best" else target["other"]}
            for place in places]


def main():
    words = sys.argv[1:]
    given = [word for word in words if not word.startswith("-")]
    try:
        results = files.results(pathlib.Path(given[0]) if given else files.LATEST)
    except files.Unusable as problem:
        sys.exit(str(problem))
    on_gpu = [] if given else files.results(report.GPU)["rows"]
    found = tables.grid({"rows": [*on_gpu, *results["rows"]]})
    counts = {True: 0, False: 0, None: 0}
    for area in tomllib.loads((BENCH / "targets.toml").read_text())["area"]:
        for target in [one for target in area["targets"] for one in expand(target, found, results)]:
            holds, text = judge(target, found)
            counts[holds] += 1
            if not holds or "--all" in words:
                print({True: "met      ", False: "missed   ", None: "unknown  "}[holds] + f"{area['name']}: {text}")
    if results.get("sources", {}).get("stamp") != sources.stamp():
        print(f"warning: the figures are {sources.words(results)}; the current sources are {sources.stamp()}: run make bench")
    if results["quick"]:
        print("These are the figures of a rough run (--quick).")
    print(f"{counts[True]} met, {counts[False]} missed, {counts[None]} unknown")
    sys.exit(1 if counts[False] else 0)


if __name__ == "__main__":
    main()
