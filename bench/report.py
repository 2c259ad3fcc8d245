"""The results as a table, a chart and a page."""
import json
import pathlib

import tables

# The rows of a machine with a GPU: the latest.json of `run.py --group gpu --out FOLDER` there, by this name.
GPU = pathlib.Path(__file__).resolve().parent / "results/gpu.json"

# The chart's panels: (title, operation, producer, the contender that is the limit line).
PANELS = (
    ("borrow, NumPy", "borrow", "numpy", "limit"),
    ("borrow, PyTorch", "borrow", "torch", "limit"),
    ("borrow, JAX", "borrow", "jax", "limit"),
    ("saxpy on 6 elements, NumPy", "saxpy", "numpy", "C by hand"),
    ("saxpy on 6 elements, PyTorch", "saxpy", "torch", None),
    ("new memory as PyTorch", "new memory as torch", "torch", None),
)
OURS, OTHERS, LINE, TEXT = "#e4572e", "#7d8ca3", "#2a9d8f", "#7f8792"


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
    """Instruction counts repeat exactly: a run without them keeps those of the last one that counted."""
    if not path.exists():
        return
    before = json.loads(path.read_text())
    known = {tables.key(row): row["instructions"] for row in before["rows"] if row.get("instructions")}
    for row in results["rows"]:
        row["instructions"] = row["instructions"] or known.pop(tables.key(row), None)
    results["rows"] += [row for row in before["rows"] if row["group"] == "instructions" and tables.key(row) in known]
    results["layers"] = results["layers"] or before.get("layers", {})


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
        lines.append(f"{operation + ', ' + producer:44}{tables.number(ours['ns']):>9} "
                     f"{tables.number(limit.get('ns')):>9}  {best}")
    return "\n".join(lines)


def machine(results):
    words = results["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in words["packages"].items())
    tools = "; ".join(filter(None, (f"Python {words['python']}", words["compiler"], words["rust"])))
    return f"""{words['cpu']}, {words['cores']} cores, {words['memory']}{', ' + words['gpu'] if words['gpu'] else ''};
{words['system']}, kernel {words['kernel']}; {tools};
{packages}. Load average at the start: {results['load_at_start']:.1f}. The run took {results['seconds']} seconds."""


def left_out(results):
    return "\n".join(f"- {entry['peer']}: {entry['reason']}" for entry in results["problems"])


def markdown(results):
    quick = "A quick run: the figures are rough.\n\n" if results["quick"] else ""
    parts = [f"""# Benchmarks

Written by `make bench`; `make bench-check` compares it with [targets.toml](../bench/targets.toml). {quick}

![Tenon beside its peers](benchmarks.svg)

## How it is counted
- Nanoseconds for one call from Python, by the loop of `timeit` with local names. **Nothing is subtracted**: the loop
  and the call itself are in every figure and in every ratio; the row *empty call* says how much they are.
- A sample is some milliseconds of calls; all contenders of a row take turns in one process, in an order that rotates,
  so that drift hits all alike; each has arrays of its own. A figure is the least of the samples, `+n %` how much
  longer the median one took.
- Arrays have six f32 elements unless a row says more. Every answer is compared with the expected one before it is
  timed.
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
        parts.append(gpu_section(json.loads(GPU.read_text())))
    return "\n".join(parts)


def gpu_section(results):
    parts = ["## On a GPU", "Another machine, another run:", machine(results), ""]
    for title, text in tables.on_gpu(results):
        parts += [f"### {title}", text, ""]
    return "\n".join(parts + (["Not measured there:", left_out(results), ""] if results["problems"] else []))


def chart(results, path):
    """Draw the panels; the reason where that cannot be done."""
    try:
        import matplotlib
        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError as problem:
        return str(problem)
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tenon", "font.family": "sans-serif",
                                "font.size": 9, "text.color": TEXT, "axes.labelcolor": TEXT, "xtick.color": TEXT,
                                "ytick.color": TEXT, "axes.edgecolor": TEXT})
    grid = tables.grid(results)
    panels = [panel for panel in PANELS if "ns" in grid.get((panel[1], panel[2]), {}).get("tenon", {})]
    if not panels:
        return "no row that it shows was measured"
    figure, axes = pyplot.subplots(-(-len(panels) // 2), 2, figsize=(10, 2.6 * -(-len(panels) // 2)), squeeze=False)
    for axis in axes.flat[len(panels):]:
        axis.set_visible(False)
    for axis, (title, operation, producer, limit) in zip(axes.flat, panels):
        row = grid[operation, producer]
        bars = sorted(((entry["ns"], name) for name, entry in row.items()
                       if entry.get("ns") and (name == "tenon" or tables.is_peer(name))), reverse=True)
        places = range(len(bars))
        axis.barh(places, [ns for ns, _ in bars], color=[OURS if name == "tenon" else OTHERS for _, name in bars])
        axis.set_xscale("log")
        axis.set_xlim(left=min(10, bars[-1][0] / 2), right=bars[0][0] * 3)
        axis.set_yticks(places, [name for _, name in bars])
        for label in axis.get_yticklabels():
            if label.get_text() == "tenon":
                label.set(color=OURS, fontweight="bold")
        for place, (ns, _) in zip(places, bars):
            axis.text(ns * 1.08, place, tables.number(ns), va="center", fontsize=8)
        if limit and row.get(limit, {}).get("ns"):
            axis.axvline(row[limit]["ns"], color=LINE, linestyle="--", linewidth=1.2)
            axis.text(row[limit]["ns"], len(bars) - 0.4, f"{limit} {tables.number(row[limit]['ns'])}", color=LINE,
                      fontsize=8, ha="center", va="bottom")
        axis.set_title(title, color=TEXT, fontsize=10, loc="left", pad=14)
        axis.spines[["top", "right"]].set_visible(False)
        axis.patch.set_alpha(0)
    figure.supxlabel("nanoseconds a call, logarithmic; less is better", color=TEXT, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
    pyplot.close(figure)
    return None
