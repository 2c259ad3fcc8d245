"""Writes the numbers of README.md and docs/performance.md between their markers, from bench/results/latest.json.

    readme.py [--check]

A marker is <!-- bench:NAME --> … <!-- /bench:NAME -->. NAME is one of BLOCKS; or `ns:OPERATION:PRODUCER:CONTENDER`, a
figure; or `times:OPERATION:PRODUCER:CONTENDER`, how many times longer that contender takes than Tenon.
"""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
MARKER = re.compile(r"<!-- bench:([^>]+?) -->(.*?)<!-- /bench:\1 -->", re.S)


def crossings(results):
    """The main table: a line for each crossing, a column for each contender."""
    columns = (("empty call", "empty call"), ("limit", "floor"), ("tenon", "**Tenon**"), ("nanobind", "nanobind"),
               ("pybind11", "pybind11"), ("tvm-ffi", "tvm-ffi"), ("torch C++ extension", "torch C++"),
               ("pyo3-dlpack", "pyo3-dlpack"), ("dlpark", "dlpark"))
    found, lines = tables.grid(results), []
    for operation in ("borrow", "borrow three", "import and release", "in and out", "new memory as numpy",
                      "new memory as torch"):
        for producer in ("numpy", "torch", "jax"):
            row = found.get((operation, producer))
            if row:
                title = operation if operation.startswith("new memory") else f"{operation}, {tables.TITLES[producer]}"
                title = title.replace("as numpy", "as NumPy").replace("as torch", "as PyTorch")
                lines.append([title, *(tables.bold(name, tables.cell(row.get(name), spread=False))
                                       for name, _ in columns)])
    return tables.table(["ns a call", *(title for _, title in columns)], lines)


def machine(results):
    words = results["machine"]
    shown = {"numpy": "NumPy", "torch": "torch", "jax": "JAX"}
    packages = ", ".join(f"{title} {words['packages'][name]}" for name, title in shown.items()
                         if name in words["packages"])
    return f"{words['cores']} cores of an {words['cpu']}, Python {words['python']}, {packages}"


FILES = ("README.md", "docs/performance.md")
BLOCKS = {"layers": tables.layers, "crossings": crossings,
          "functions": lambda results: tables.functions(results, spread=False),
          "copies": tables.copies,
          "once": tables.once, "machine": machine,
          "sizes": lambda results: tables.simple(results, "sizes", title="", spread=False)}


def text_of(name, results):
    if name in BLOCKS:
        return BLOCKS[name](results)
    kind, *place = name.split(":")
    found = {tables.key(row): row for row in results["rows"]}
    if kind in ("ns", "times") and len(place) == 3 and found.get(tuple(place), {}).get("ns"):
        value = found[tuple(place)]["ns"]
        return tables.number(value if kind == "ns" else value / found[place[0], place[1], "tenon"]["ns"])
    raise ValueError(f"nothing measured is called bench:{name}")


def filled(text, results):
    """The text with every marker's content made anew. A block has lines of its own, a figure stays in its line."""
    def replace(match):
        made = text_of(match.group(1), results)
        made = f"\n{made}\n" if "\n" in made else made
        return f"<!-- bench:{match.group(1)} -->{made}<!-- /bench:{match.group(1)} -->"
    return MARKER.sub(replace, text)


def main():
    results = json.loads((ROOT / "bench/results/latest.json").read_text())
    stale = []
    for name in FILES:
        before = (ROOT / name).read_text()
        after = filled(before, results)
        if before != after:
            stale.append(name)
            if "--check" not in sys.argv[1:]:
                (ROOT / name).write_text(after)
    print(", ".join(stale) + (": stale" if "--check" in sys.argv[1:] else ": written") if stale else "all as measured")
    sys.exit(1 if stale and "--check" in sys.argv[1:] else 0)


if __name__ == "__main__":
    main()
