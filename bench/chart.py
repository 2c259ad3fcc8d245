"""The chart: an SVG with its own background, light or dark according to the reader's system."""
import hashlib
import html
import io
import json
import re

import tables

# (title, operation, producer, the contender that is the limit line)
PANELS = (
    ("borrow, NumPy", "borrow", "numpy", "limit"),
    ("borrow, PyTorch", "borrow", "torch", "limit"),
    ("borrow, JAX", "borrow", "jax", "limit"),
    ("saxpy on 6 elements, NumPy", "saxpy", "numpy", "C by hand"),
    ("saxpy on 6 elements, PyTorch", "saxpy", "torch", None),
    ("new memory as PyTorch", "new memory as torch", "torch", None),
)
BELOW = "nanoseconds a call, logarithmic; less is better"
# No colour is readable on both white and black, so each has a light and a dark form.
BACKGROUND, TEXT, OURS, LINE, OTHERS = COLOURS = (
    ("#ffffff", "#0d1117"), ("#4b5563", "#c3cad4"), ("#c2410c", "#ff8a5c"), ("#0f766e", "#4fd1c5"),
    ("#8794a8", "#66738a"))


def panels(results):
    """The panels to show: [(title, [(ns, contender)], (ns, the limit's name) or None)]."""
    found, shown = tables.grid(results), []
    for title, operation, producer, limit in PANELS:
        row = found.get((operation, producer), {})
        bars = sorted(((entry["ns"], name) for name, entry in row.items()
                       if entry["ns"] and (name == "tenon" or tables.is_peer(name))), reverse=True)
        floor = row.get(limit, {}).get("ns")
        if any(name == "tenon" for _, name in bars):
            shown.append((title, bars, (floor, limit) if floor else None))
    return shown


def mark(shown):
    """A mark that identifies a chart of these figures."""
    return "rows " + hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def labels(shown):
    """Every string of the chart, except the numbers of its axes."""
    found = [BELOW]
    for title, bars, limit in shown:
        found.append(title)
        found += [text for ns, name in bars for text in (name, tables.number(ns))]
        found += [f"{limit[1]} {tables.number(limit[0])}"] if limit else []
    return sorted(found)


def is_of(text, results):
    """Whether an SVG shows these results: by its mark, and by the strings in it."""
    shown = panels(results)
    texts = (html.unescape(found).strip() for found in re.findall(r"<text\b[^>]*>([^<]*)</text>", text))
    return mark(shown) in text and sorted(filter(None, texts)) == labels(shown)


def dark(text):
    """The SVG with its dark colours, for readers who prefer them."""
    rules = " ".join(f'[style*="{part}: {light}"] {{ {part}: {dark} !important }}' for light, dark in COLOURS
                     for part in ("fill", "stroke"))
    return text.replace("</style>", f"\n@media (prefers-color-scheme: dark) {{ {rules} }}</style>", 1)


def draw(results):
    """(the SVG, None), or (None, why it cannot be drawn)."""
    shown = panels(results)
    if not shown:
        return None, "none of its rows was measured"
    try:
        import matplotlib
        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError as problem:
        return None, str(problem)
    ink = TEXT[0]
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tenon", "font.family": "sans-serif",
                                "font.size": 9, "text.color": ink, "axes.labelcolor": ink, "xtick.color": ink,
                                "ytick.color": ink, "axes.edgecolor": ink})
    height = -(-len(shown) // 2)
    figure, axes = pyplot.subplots(height, 2, figsize=(10, 2.6 * height), squeeze=False)
    for axis in axes.flat[len(shown):]:
        axis.set_visible(False)
    for axis, panel in zip(axes.flat, shown):
        draw_panel(axis, *panel)
    figure.supxlabel(BELOW, color=ink, fontsize=9)
    figure.tight_layout()
    svg = io.StringIO()
    figure.savefig(svg, format="svg", facecolor=BACKGROUND[0], metadata={"Date": None, "Description": mark(shown)})
    pyplot.close(figure)
    return dark(svg.getvalue()), None


def draw_panel(axis, title, bars, limit):
    places = range(len(bars))
    axis.barh(places, [ns for ns, _ in bars], color=[OURS[0] if name == "tenon" else OTHERS[0] for _, name in bars])
    axis.set_xscale("log")
    axis.set_xlim(left=min(10, bars[-1][0] / 2), right=bars[0][0] * 3)
    axis.set_yticks(places, [name for _, name in bars])
    for label in axis.get_yticklabels():
        if label.get_text() == "tenon":
            label.set(color=OURS[0], fontweight="bold")
    for place, (ns, _) in zip(places, bars):
        # With a background, so that the limit line does not run through it.
        axis.text(ns * 1.08, place, tables.number(ns), va="center", fontsize=8,
                  bbox={"facecolor": BACKGROUND[0], "edgecolor": "none", "pad": 0.5})
    if limit:
        axis.axvline(limit[0], color=LINE[0], linestyle="--", linewidth=1.2)
        # Above the axis, after the end of the line.
        axis.text(limit[0], 1.02, f"{limit[1]} {tables.number(limit[0])}", color=LINE[0], fontsize=8, ha="center",
                  va="bottom", transform=axis.get_xaxis_transform())
    axis.set_title(title, fontsize=10, loc="left", pad=16)
    axis.spines[["top", "right"]].set_visible(False)
    axis.patch.set_alpha(0)
