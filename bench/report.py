"""Writes the results as a page with charts, and as lines for the terminal."""
import json
import pathlib

import chart
import files
import sources
import tables

# The rows of a machine with a GPU: the latest.json that `run.py --group gpu --out FOLDER` wrote there, under this name.
GPU = pathlib.Path(__file__).resolve().parent / "results/gpu.json"


def compact(results):
    """JSON with one row, and the layers of one path, on each line, so that diffs are easy to read."""
    head = {key: value for key, value in results.items() if key not in ("rows", "layers")}
    text = json.dumps(head, indent=1, ensure_ascii=False)
    layers = ",\n  ".join(f"{json.dumps(path)}: {json.dumps(parts)}" for path, parts in results["layers"].items())
    rows = ",\n  ".join(json.dumps(rounded(row), ensure_ascii=False) for row in results["rows"])
    return text[:-2] + f',\n "layers": {{\n  {layers}\n }},\n "rows": [\n  {rows}\n ]\n}}\n'


def rounded(row):
    return {key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()}


def keep_instructions(path, results):
    """Fill in the counts that this run could not make from the last run, if that had the same sources and machine.

    Only then do counts repeat exactly. Returns a line that says whether it was done, or None."""
    try:
        before = files.results(path)
    except files.Unusable:
        return None
    known = {tables.key(row): row["instructions"] for row in before["rows"] if row["instructions"]}
    if not known and not before["layers"]:
        return None
    if before.get("sources", {}).get("stamp") != results["sources"]["stamp"] or before["machine"] != results["machine"]:
        return "the counts of the last run are left out: they were made from other sources or on another machine"
    for row in results["rows"]:
        row["instructions"] = row["instructions"] or known.pop(tables.key(row), None)
    results["rows"] += [row for row in before["rows"] if row["group"] == "instructions" and tables.key(row) in known]
    results["layers"] = {**before["layers"], **results["layers"]}
    return f"the counts of {before['sources']['date']} are shown, made from the same sources"


def summary(results):
    """For the terminal: Tenon beside the fastest peer, row by row."""
    lines = [f"{'ns per call, nothing subtracted':44}{'tenon':>9} {'limit':>9}  next best"]
    for (operation, producer), row in tables.grid(results).items():
        ours = row.get("tenon")
        if not ours or not ours.get("ns"):
            continue
        others = sorted((entry["ns"], name) for name, entry in row.items() if entry.get("ns") and tables.is_peer(name))
        limit = row.get("limit") or row.get("C by hand") or {}
        best = f"{others[0][1]} {tables.number(others[0][0])} ({others[0][0] / ours['ns']:.2f}x)" if others else ""
        lines.append(f"{(operation + ', ' + producer)[:44]:44}{tables.number(ours['ns']):>9} "
                     f"{tables.number(limit.get('ns')):>9}  {best}")
    return "\n".join(lines)


def machine(results):
    words = results["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in words["packages"].items())
    tools = "; ".join(filter(None, (f"Python {words['python']}", words["compiler"], words["rust"],
                                    words.get("erlang"))))
    return f"""{words['cpu']}, {words['cores']} cores, {words['memory']}{', ' + words['gpu'] if words['gpu'] else ''};
{words['system']}, kernel {words['kernel']}; {tools};
{packages}. Load average at the start: {results['load_at_start']:.1f}. The run took {results['seconds']} seconds."""


def left_out(results):
    return "\n".join(f"- {entry['peer']}: {entry['reason']}" for entry in results["problems"])


def pictures(charts):
    """The charts that were drawn, each under its question."""
    titles = {f"bench-{name}.svg": title for name, title, *_ in chart.QUESTIONS}
    return "\n".join(f"![{titles[name]}](images/{name})\n" for name, svg in charts.items() if svg)


def markdown(results, charts):
    rough = " This was a rough run (`--quick`)." if results["quick"] else ""
    parts = [f"""# Benchmarks

Measured by `make bench` {sources.words(results)}.{rough}
`make bench-check` compares the figures with [targets.toml](../bench/targets.toml).

{pictures(charts)}
## How it is measured
- Figures are nanoseconds for one call from Python, in the loop of `timeit` with local names. **Nothing is subtracted**:
  the loop and the call itself are part of every figure and every ratio. The row *empty call* shows how much they are.
- A sample is a few milliseconds of calls. The contenders of a row take turns in one process, in an order that rotates,
  so that drift affects all of them alike (in *Elixir* the order is the same in each round). Each contender has its own
  arrays; in *Sizes* it has its own view of shared memory, and in *Threads* and *Loops* all use the same arrays. A figure
  is the minimum of the samples; `+n %` says how much longer the median sample took.
- Arrays have six f32 elements unless a row says otherwise.
- Each contender is called once before it is timed, and its result is checked. *Whole functions*, *Operators*, *Loops*,
  *Copies*, and saxpy and dot in *Elixir* must return the expected values. *In and out* must return the array itself, or
  another array on the same memory with the same values. `from_dlpack` must return the same values, and new memory must
  have the right shape and dtype. A borrow or an import returns nothing, so it must only not raise. A contender with an
  unexpected result is shown as "wrong" and is not timed.
- *limit* is hand-written C that checks nothing; *C by hand* is an extension with the checks of a careful author. Tenon's
  rows are its safe functions with all checks on; *abi3* is its build for every Python from 3.12 on.
- "refuses" means that the contender raised an exception for this producer. An empty cell means that it does not have
  this operation.
- `note.md` beside each peer's source in [bench/peers](../bench/peers) says how it is built and what it checks.

## The machine
{machine(results)}
"""]
    for title, text in tables.sections(results):
        parts.append(f"## {title}\n{text}\n")
    if results["problems"]:
        parts.append(f"## Not measured\n{left_out(results)}\n")
    if GPU.exists() and not tables.on_gpu(results):
        parts.append(gpu_section(tables.versions(results)))
    return "\n".join(parts)


def gpu_section(current):
    """The figures of bench/results/gpu.json; `current`: the versions of all others."""
    try:
        results = files.results(GPU)
    except files.Unusable as problem:
        return f"## On a GPU\n{problem}\n"
    older = "" if tables.versions(results) == current else (
        f" The other figures on this page are of Tenon {' and '.join(current)}.")
    parts = ["## On a GPU", f"These figures were measured with {tables.measured_with(results)}.{older}\n",
             "`python3 bench/run.py --group gpu --out FOLDER` measures them again, with the packages that are installed and with nvcc.\n"
             "FOLDER/latest.json is then copied to bench/results/gpu.json, and `python3 bench/readme.py` writes this section.\n",
             f"The machine, in a run {sources.words(results)}:", machine(results), ""]
    for title, text in tables.on_gpu(results):
        parts += [f"### {title}", text, ""]
    return "\n".join(parts + (["Not measured on that machine:", left_out(results), ""] if results["problems"] else []))


def pages(results, folder):
    """{file: its text, or None if it must be removed}"""
    try:
        on_gpu = files.results(GPU)
    except files.Unusable:
        on_gpu = None
    charts = chart.draw_all(results, on_gpu)
    return {folder / "benchmarks.md": markdown(results, charts),
            **{folder / "images" / name: svg for name, svg in charts.items()}}
