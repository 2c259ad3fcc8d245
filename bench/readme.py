"""Writes the numbers of README.md and of the pages of docs/ between their markers, and docs/benchmarks.md with its charts, all
from bench/results/latest.json.

    readme.py [--check]

A marker is <!-- bench:NAME --> … <!-- /bench:NAME -->. NAME is one of BLOCKS, or

    ns:OPERATION:PRODUCER:CONTENDER              a figure; so are `instructions:…` and `mib:…`. A producer "… on cuda" is
                                                 that of bench/results/gpu.json
    times:OPERATION:PRODUCER:CONTENDER           how many times longer that contender takes than Tenon
    over:OPERATION:PRODUCER:CONTENDER            how many nanoseconds longer Tenon takes than that contender
    function:PATH:NAME                           instructions of one function in a path of the layers
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import files
import report
import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
MARKER = re.compile(r"<!-- bench:([^>]+?) -->(.*?)<!-- /bench:\1 -->", re.S)


def borrows(results):
    """The table of the README: a line for each framework, a column for each contender."""
    columns = (("empty call", "empty call"), ("limit", "limit"), ("tenon", "**Tenon**"), ("nanobind", "nanobind"),
               ("pybind11", "pybind11"), ("tvm-ffi", "tvm-ffi"), ("torch C++ extension", "torch C++"),
               ("pyo3-dlpack", "pyo3-dlpack"), ("dlpark", "dlpark"))
    found = tables.grid(results)
    lines = [[tables.TITLES[producer], *(tables.bold(name, tables.cell(found["borrow", producer].get(name), spread=False))
                                         for name, _ in columns)] for producer in ("numpy", "torch", "jax")]
    return tables.table(["ns per call", *(title for _, title in columns)], lines)


def machine(results):
    words = results["machine"]
    shown = {"numpy": "NumPy", "torch": "torch", "jax": "JAX"}
    packages = ", ".join(f"{title} {words['packages'][name]}" for name, title in shown.items()
                         if name in words["packages"])
    return f"{words['cores']} cores of an {words['cpu']}, Python {words['python']}, {packages}"


FILES = ("README.md", "docs/comparison.md", "docs/frameworks/cupy.md", "docs/frameworks/elixir.md", "docs/frameworks/jax.md",
         "docs/frameworks/numpy.md", "docs/frameworks/tensorflow.md", "docs/frameworks/torch.md", "docs/index.md",
         "docs/performance.md")
def gpu(_):
    return tables.measured_with(files.results(report.GPU))


BLOCKS = {"layers": tables.layers, "borrows": borrows, "machine": machine, "gpu": gpu}


def text_of(name, results):
    if name in BLOCKS:
        return BLOCKS[name](results)
    kind, *place = name.split(":", 3)  # a contender may begin with a colon
    on_gpu = files.results(report.GPU)["rows"] if len(place) == 3 and place[1] in tables.GPU else []
    found = {tables.key(row): row for row in [*on_gpu, *results["rows"]]}
    if len(place) == 3:
        value = found.get(tuple(place), {}).get("ns" if kind in ("times", "over") else kind)
        ours = found.get((*place[:2], "tenon"), {}).get("ns")
        if kind in ("ns", "instructions", "mib") and value is not None:
            return tables.number(value)
        if kind in ("times", "over") and value and ours:
            return tables.number(value / ours if kind == "times" else ours - value)
    if kind == "function" and len(place) == 2:
        for function, _, count in results["layers"].get(place[0], {}).get("top", []):
            if function == place[1]:
                return tables.number(count)
    raise ValueError(f"there is no measurement for bench:{name}")


def filled(text, results):
    """The text with the content of every marker replaced. A block has lines of its own, a figure stays in its line."""
    def replace(match):
        made = text_of(match.group(1), results)
        made = f"\n{made}\n" if "\n" in made else made
        return f"<!-- bench:{match.group(1)} -->{made}<!-- /bench:{match.group(1)} -->"
    return MARKER.sub(replace, text)


def stale(results):
    """{file: its new text, or None}, for every page that does not show these results."""
    pages = report.pages(results, ROOT / "docs")
    for name in FILES:
        pages[ROOT / name] = filled((ROOT / name).read_text(encoding="utf-8"), results)
    return {path: text for path, text in pages.items()
            if (path.read_text(encoding="utf-8") if path.exists() else None) != text}


def main():
    check = "--check" in sys.argv[1:]
    try:
        results = files.results(files.LATEST)
        found = stale(results)
    except (files.Unusable, ValueError) as why:
        sys.exit(str(why))
    if not check:
        for path, text in found.items():
            files.replace(path, text) if text is not None else path.unlink()
    names = ", ".join(sorted(str(path.relative_to(ROOT)) for path in found))
    print(f"{names}: {'out of date' if check else 'written'}" if names else "all pages are up to date")
    sys.exit(1 if names and check else 0)


if __name__ == "__main__":
    main()
