"""The results as a page, with its chart, and as lines for the terminal."""
import json
import pathlib

import chart
import files
import sources
import tables

# The rows of a machine with a GPU: the latest.json of `run.py --group gpu --out FOLDER` there, by this name.
GPU = pathlib.Path(__file__).resolve().parent / "results/gpu.json"


def compact(results):
    """One row a line, and one path's layers: a change of the results reads well."""
    head = {key: value for key, value in results.items() if key not in ("rows", "layers")}
    text = json.dumps(head, indent=1, ensure_ascii=False)
    layers = ",\n  ".join(f"{json.dumps(path)}: {json.dumps(parts)}" for path, parts in results["layers"].items())
    rows = ",\n  ".join(json.dumps(rounded(row), ensure_ascii=False) for row in results["rows"])
    return text[:-2] + f',\n "layers": {{\n  {layers}\n }},\n "rows": [\n  {rows}\n ]\n}}\n'


def rounded(row):
    return {key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()}


def keep_instructions(path, results):
    """Counts repeat exactly, but only of the same sources on the same machine: those of the run before fill what this
    one could not count, or are left out. A line that says which."""
    try:
        before = files.results(path)
    except files.Unusable:
        return None
    known = {tables.key(row): row["instructions"] for row in before["rows"] if row["instructions"]}
    if not known and not before["layers"]:
        return None
    if before.get("sources", {}).get("stamp") != results["sources"]["stamp"] or before["machine"] != results["machine"]:
        return "those of the last run are left out: they are of other sources, or of another machine"
    for row in results["rows"]:
        row["instructions"] = row["instructions"] or known.pop(tables.key(row), None)
    results["rows"] += [row for row in before["rows"] if row["group"] == "instructions" and tables.key(row) in known]
    results["layers"] = {**before["layers"], **results["layers"]}
    return f"those of {before['sources']['date']} are shown, counted on the same sources"


def summary(results):
    """For the terminal: ours beside the fastest other, row by row."""
    lines = [f"{'ns a call, nothing subtracted':44}{'tenon':>9} {'limit':>9}  next best"]
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


def markdown(results, picture=True):
    quick = " A quick run: the figures are rough." if results["quick"] else ""
    shown = "\n![Tenon beside its peers](benchmarks.svg)\n" if picture else ""
    parts = [f"""# Benchmarks

Measured by `make bench` {sources.words(results)}.{quick}
`make bench-check` compares the figures with [targets.toml](../bench/targets.toml).
{shown}
## How it is counted
- Nanoseconds for one call from Python, by the loop of `timeit` with local names. **Nothing is subtracted**: the loop
  and the call itself are in every figure and in every ratio; the row *empty call* says how much they are.
- A sample is some milliseconds of calls. The contenders of a row take turns in one process, so that drift hits all
  alike, in an order that rotates (in *Elixir* it is the same in each round). Each has arrays of its own; in *Sizes* its
  own view of one memory, in *Threads* and *Loops* the same arrays as the others. A figure is the least of the samples,
  `+n %` how much longer the median one took.
- Arrays have six f32 elements unless a row says more.
- Before it is timed each contender is called once. What it computes is compared with the expected values in *Whole
  functions*, *Operators*, *Loops*, *Copies*, and for saxpy and dot in *Elixir*; the answer of *in and out* must be the
  array given, or lie on its memory and hold its values, that of a `from_dlpack` hold its values, new memory have its
  shape and dtype. A borrow or an import answers nothing: there it is only seen that nothing is raised. An answer that
  is not the expected one is shown as "wrong", and not timed.
- *limit* is hand-written C that checks nothing; *C by hand* an extension with the checks of a careful author. Tenon's
  rows are its safe functions, all checks on; *abi3* is its build for every Python from 3.12 on.
- "refuses" means that the contender raised an exception for this producer; an empty cell, that it has no such way.
- What each peer checks and how it is built stands in `note.md` beside its source in [bench/peers](../bench/peers).

## The machine
{machine(results)}
"""]
    for title, text in tables.sections(results):
        parts.append(f"## {title}\n{text}\n")
    if results["problems"]:
        parts.append(f"## Not measured here\n{left_out(results)}\n")
    if GPU.exists() and not tables.on_gpu(results):
        parts.append(gpu_section())
    return "\n".join(parts)


def gpu_section():
    try:
        results = files.results(GPU)
    except files.Unusable as problem:
        return f"## On a GPU\n{problem}\n"
    parts = ["## On a GPU", f"Another machine, another run, {sources.words(results)}:", machine(results), ""]
    for title, text in tables.on_gpu(results):
        parts += [f"### {title}", text, ""]
    return "\n".join(parts + (["Not measured there:", left_out(results), ""] if results["problems"] else []))


def has_chart(folder, results):
    """Whether the chart that stands there is of these results."""
    picture = folder / "benchmarks.svg"
    return picture.exists() and chart.is_of(picture.read_text(encoding="utf-8"), results)


def pages(results, folder):
    """({file: its text, or None where it must not stay}, why there is no chart or None)."""
    page, picture = folder / "benchmarks.md", folder / "benchmarks.svg"
    svg, problem = chart.draw(results)
    if problem and has_chart(folder, results):  # drawn elsewhere
        svg, problem = picture.read_text(encoding="utf-8"), None
    return {page: markdown(results, picture=not problem), picture: svg}, problem
