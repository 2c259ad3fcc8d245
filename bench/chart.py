"""The charts: for each question an SVG, light or dark as the reader's page is, and narrow enough for a phone."""
import html
import math
import re

import tables

# (the file, its title, the unit, and its panels: (title, what the operation matches, producer, the contender of the dashed line))
QUESTIONS = (
    ("borrow", "Borrow an array: the call and every check", "ns", (
        ("NumPy", "borrow", "numpy", "limit"), ("PyTorch", "borrow", "torch", "limit"), ("JAX", "borrow", "jax", "limit"))),
    ("call", "A whole call: saxpy on 6 elements, with its result", "ns", (
        ("NumPy", "saxpy", "numpy", "C by hand"), ("PyTorch", "saxpy", "torch", None), ("JAX", "saxpy", "jax", None))),
    ("operator", "An operator of torch, on 6 elements", "ns", (
        ("eager", "operator, eager", "torch", None), ("eager, with gradients", "operator, eager, with gradients", "torch", None),
        ("inside torch.compile", "operator, compiled", "torch", None))),
    ("jax", "An operator of JAX, on 6 elements", "ns", (
        ("one call in jit", "operator, one call in jit", "jax", None),
        ("many calls in jit", r"operator, \d+ calls in jit", "jax", None))),
    ("gpu", "Borrow an array on a GPU", "ns", (
        ("PyTorch", "borrow", "torch on cuda", "limit"), ("CuPy", "borrow", "cupy on cuda", None),
        ("JAX", "borrow", "jax on cuda", None))),
    ("loops", "Loops", "ns", (
        ("sum of 65,536 f32", "sum of 65,536 f32, dense", "numpy", "raw C"),
        ("saxpy on all cores", r"saxpy of [\d,]+ f32, \d+ threads", "torch", None),
        ("softmax on all cores", r"softmax of .*, \d+ threads", "torch", None))),
    ("build", "Build time, start-up and size", "", (
        ("compile saxpy in C++, ms", "compile time of the saxpy module", "start", None),
        ("import and load, ms", "import and load", "start", "C by hand"),
        ("the extension, KiB", "bytes of the extension, stripped", "start", "C by hand"))),
)
WIDTH, LEFT, RIGHT, ROW = 460, 176, 396, 24
STYLE = """<style>
svg { background: #ffffff; font: 14px system-ui, sans-serif; fill: #1f2937 }
.title { font-size: 16px; font-weight: 700 } .panel, .ours { font-weight: 700 } .note { font-size: 12.5px; fill: #4b5563 }
.bar { fill: #8794a8 } .bar.tenon { fill: #c2410c } .ours { fill: #b93c0a }
.limit { stroke: #0f766e; stroke-width: 1.5; stroke-dasharray: 5 4 } .limit-name { font-size: 12.5px; fill: #0f766e }
@media (prefers-color-scheme: dark) {
svg { background: #131416; fill: #e5e7eb } .note { fill: #b6bec9 }
.bar { fill: #66738a } .bar.tenon, .ours { fill: #ff8a5c } .limit { stroke: #4fd1c5 } .limit-name { fill: #4fd1c5 }
}
</style>"""


def value_of(row, title):
    """The figure of a row in the unit of the panel, or None."""
    if title.endswith("KiB"):
        return row["bytes"] / 1024 if row.get("bytes") else None
    return row["ns"] / 1e6 if row.get("ns") and title.endswith("ms") else row.get("ns")


def panels_of(results, question):
    """The panels that were measured: [(title, [(value, contender)], (value, the name of the dashed line) or None)]."""
    found, shown = tables.grid(results), []
    for title, pattern, producer, limit in question[3]:
        keys = [key for key in found if key[1] == producer and re.fullmatch(pattern, key[0])]
        row = found[keys[-1]] if keys else {}
        values = {name: value_of(entry, title) for name, entry in row.items()}
        bars = sorted((value, name) for name, value in values.items() if value and (name == "tenon" or tables.is_peer(name)))
        if any(name == "tenon" for _, name in bars):
            shown.append((title, bars, (values[limit], limit) if values.get(limit) else None))
    return shown


def text(x, y, words, kind="", anchor="start"):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{kind}>{html.escape(words)}</text>'


def draw_panel(top, title, bars, limit):
    """(the elements, where the next panel begins)."""
    values = [value for value, _ in bars] + ([limit[0]] if limit else [])
    low, high = min(values) / 2, max(values)

    def place(value):
        return LEFT + (RIGHT - LEFT) * math.log(value / low) / math.log(high / low)

    made, y = [text(8, top + 14, title, "panel")], top + 22
    for value, name in bars:
        kind = " tenon" if name == "tenon" else ""
        made += [text(LEFT - 8, y + 16, name, "ours" if kind else "", "end"),
                 f'<rect class="bar{kind}" x="{LEFT}" y="{y + 4:g}" width="{place(value) - LEFT:.1f}" height="{ROW - 8}" rx="3"/>',
                 text(place(value) + 6, y + 16, tables.number(value), "ours" if kind else "")]
        y += ROW
    if limit:
        x = place(limit[0])
        made += [f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{top + 20:g}" y2="{y:g}"/>',
                 text(min(x + 4, WIDTH - 130), top + 14, f"{limit[1]} {tables.number(limit[0])}", "limit-name")]
    return made, y + 14


def draw(results, question):
    """The SVG of a question, or None if nothing of it was measured."""
    panels, made, y = panels_of(results, question), [], 46
    if not panels:
        return None
    for panel in panels:
        elements, y = draw_panel(y, *panel)
        made += elements
    name, title, unit, _ = question
    note = "nanoseconds, logarithmic; less is better" if unit else "logarithmic; less is better"
    if name == "gpu":
        note = f"{tables.measured_with(results)}; {note}"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 16:g}" role="img" aria-label="{html.escape(title)}">
<title>{html.escape(title)}</title>
{STYLE}
{text(8, 26, title, "title")}
{chr(10).join(made)}
{text(WIDTH - 8, y + 8, note, "note", "end")}
</svg>
"""


def draw_all(results, on_gpu):
    """{the file: its SVG, or None if nothing was measured}, in the order of the questions; `on_gpu` may be None."""
    return {f"bench-{question[0]}.svg": draw(on_gpu if question[0] == "gpu" and on_gpu else results, question)
            for question in QUESTIONS}
