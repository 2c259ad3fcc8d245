"""The findings of `python -m tenon doctor` as text, JSON and a page of HTML."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from typing import Any, Optional

_WIDEST = 160  # characters of a message

# How an array is read, from the fastest way to the slowest.
_READERS = {
    "struct": "its struct",
    "table": "its exchange table",
    "buffer": "the buffer protocol",
    "DLPack": "__dlpack__",
    "legacy DLPack": "__dlpack__ (before DLPack 1.0)",
    "interface": "an array interface or Arrow",
}
Rows = list[tuple[str, str]]


def one_line(value: object, most: int = _WIDEST) -> str:
    """A value that another program has made, on one line without control characters."""
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in str(value)).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def as_json(found: dict[str, Any]) -> str:
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # paths may have bytes that are not UTF-8


def as_text(found: dict[str, Any]) -> str:
    blocks = [_matrix_text(rows) if title == _MATRIX else _aligned(rows, title) for title, rows in _sections(found)]
    if not found["complete"]:
        blocks.append("Interrupted: this report is not complete.\n")
    return "\n".join(blocks).encode("utf-8", "backslashreplace").decode("utf-8")


def _aligned(rows: Rows, title: str) -> str:
    width = max((len(name) for name, _ in rows), default=0)
    return title + "\n" + "".join(f"  {name:{width}}  {text}".rstrip() + "\n" for name, text in rows)


# ------------------------------------------------------------------------------------------------------- the sections


def _sections(found: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The parts of a report: a title, and rows of two strings, or the cells of the matrix."""
    if "file" in found:
        yield one_line(found["file"]), list(_library(found))
        if found.get("functions"):
            yield "Functions", [(one_line(signature, 1000), "") for signature in found["functions"]]
        return
    yield f"Tenon {found['tenon']}", list(_machine(found["machine"]))
    rows = [(each["name"] if i == 0 else "", text) for each in found["frameworks"] for i, text in enumerate(_framework(each))]
    yield "Frameworks", rows
    if found["matrix"]:
        yield _MATRIX, found["matrix"]
        yield "Why arrays are copied or refused", _notes(found["matrix"]) or [("none is", "")]


def _machine(machine: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Python", f"{machine['python']}, {one_line(machine['executable'])}"
    yield "system", f"{machine['system']}, {machine['cpus']} CPUs"
    yield "libc", machine["libc"]
    for language, compiler in machine["compilers"].items():
        where = f", {one_line(compiler['path'])}" if "path" in compiler else ""
        yield f"{language.upper()} compiler", one_line(compiler.get("version") or compiler["failed"], 200) + where
    yield "CUDA", _cuda(machine["cuda"])
    yield "shared memory", _shared_memory(machine["shared_memory"])
    for folder in machine["folders"]:
        state = f"can be written to, {_size(folder['free'])} are free" if folder["writable"] else folder["failed"]
        path = f"{folder['path']}: " if folder["path"] else ""
        yield f"{folder['name']}", one_line(f"{path}{state}", 300)


def _cuda(cuda: dict[str, Any]) -> str:
    if not cuda:
        return "not known"
    if "failed" in cuda:
        return one_line(cuda["failed"])
    return f"driver for CUDA {cuda['version']}; {', '.join(map(one_line, cuda['devices'])) or 'no device'}"


def _shared_memory(memory: dict[str, Any]) -> str:
    parts = ["works" if memory["works"] else f"does not work: {one_line(memory['failed'])}"]
    if "dev_shm" in memory:
        parts.append(f"/dev/shm has {_size(memory['dev_shm']['size'])}, {_size(memory['dev_shm']['free'])} are free")
    if "open_files" in memory:
        parts.append(f"at most {memory['open_files']} open files")
        locked = memory.get("locked_bytes")
        parts.append("locked memory is not limited" if locked is None else f"at most {_size(locked)} of locked memory")
    return "; ".join(parts)


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size /= 1024
    else:
        unit = "TiB"
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def _framework(found: dict[str, Any]) -> Iterator[str]:
    version = one_line(found.get("version", ""), 40)
    if not found["installed"]:
        yield f"not installed: {found['install']}"
    elif found.get("failed"):
        yield " ".join(filter(None, [version, one_line(found["failed"])]))
    elif "reader" not in found:
        yield f"{version} not known".strip()
    else:
        why = f" ({one_line(found['why'])})" if found.get("why") else ""
        yield f"{version}, on {found['device']}, read by {_READERS.get(found['reader'], found['reader'])}{why}"
        if "operators" in found:
            yield f"operators: {one_line(found['operators'])}"


def _notes(matrix: list[dict[str, Any]]) -> Rows:
    """Why arrays are copied or refused, for each target and reason."""
    sources: dict[tuple[str, str], list[str]] = {}
    for cell in matrix:
        if cell.get("why"):
            sources.setdefault((cell["to"], one_line(cell["why"])), []).append(cell["from"])
    return [(f"{', '.join(names)} → {target}", why) for (target, why), names in sources.items()]


def _library(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "format", ", ".join(filter(None, [found["format"], found["kind"]]))
    if found["machine"]:
        yield "machine", f"{found['machine']}; this machine is {found['this_machine']}"
    yield "size", _size(found["size"])
    if found.get("checked"):
        yield "check", "the file is complete"
    if found.get("abi"):
        yield "ABI", found["abi"]
        yield "module", one_line(" ".join(filter(None, [found["name"], found["version"]])))
        yield "variant", found["variant"]
    if found.get("doc"):
        yield "about", one_line(found["doc"])
    if found.get("failed"):
        yield "cannot be loaded", one_line(found["failed"], 400)


# ----------------------------------------------------------------------------------------------------------- the matrix

_MATRIX = "Hand-overs"
_EXPLANATION = "From the framework of the row to that of the column: one array of 6 float32, in nanoseconds"
_LEGEND = "A number alone is a hand-over without a copy."


def _cell(cell: Optional[dict[str, Any]]) -> str:
    if cell is None:
        return ""
    if cell["outcome"] == "zero-copy":
        return f"{cell['ns']}"
    return f"copy {cell['ns']}" if cell["outcome"] == "copy" else str(cell["outcome"])


def _table(matrix: list[dict[str, Any]]) -> tuple[list[str], list[list[Optional[dict[str, Any]]]]]:
    names = list(dict.fromkeys(name for cell in matrix for name in (cell["from"], cell["to"])))
    by_pair = {(cell["from"], cell["to"]): cell for cell in matrix}
    return names, [[by_pair.get((source, target)) for target in names] for source in names]


def _matrix_text(matrix: list[dict[str, Any]]) -> str:
    names, rows = _table(matrix)
    lines = [["", *names]] + [[name, *map(_cell, row)] for name, row in zip(names, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names) + 1)]
    text = [
        "  ".join([line[0].ljust(widths[0]), *(word.rjust(width) for word, width in zip(line[1:], widths[1:]))]).rstrip()
        for line in lines
    ]
    return f"{_MATRIX}\n  {_EXPLANATION}.\n  {_LEGEND}\n" + "".join(f"  {line}\n" for line in text)


# ---------------------------------------------------------------------------------------------------------------- HTML

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884; overflow-wrap: anywhere; }
th { font-weight: 600; white-space: nowrap; }
.matrix td, .matrix th { text-align: right; white-space: nowrap; padding: .25rem .5rem; }
.zero-copy { background: #2a92; } .copy { background: #db02; } .refused { background: #8882; } .crash, .hang { background: #d332; }
@media (max-width: 40rem) {
  .rows th, .rows td { display: block; white-space: normal; }
  .rows th { border: 0; padding-bottom: 0; }
}
"""


def as_html(found: dict[str, Any]) -> str:
    """One page that needs no network."""
    title = html.escape(f"tenon doctor: {one_line(found['file'])}" if "file" in found else "tenon doctor")
    parts = [
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n<h1>{title}</h1>",
    ]
    if not found["complete"]:
        parts.append("<p><strong>Interrupted: this report is not complete.</strong></p>")
    for name, rows in _sections(found):
        if name == _MATRIX:
            parts.append(_matrix_html(rows))
            continue
        body = "".join(f"<tr><th>{html.escape(first)}</th><td>{html.escape(text)}</td></tr>\n" for first, text in rows)
        parts.append(f'<h2>{html.escape(name)}</h2>\n<div class="wide"><table class="rows">\n{body}</table></div>')
    return "\n".join(parts).encode("utf-8", "backslashreplace").decode("utf-8") + "\n</html>\n"


def _matrix_html(matrix: list[dict[str, Any]]) -> str:
    names, rows = _table(matrix)
    head = "<tr><th></th>" + "".join(f"<th>{html.escape(name)}</th>" for name in names) + "</tr>\n"
    body = ""
    for name, row in zip(names, rows):
        cells = "".join(
            f'<td class="{cell["outcome"]}" title="{html.escape(one_line(cell.get("why", "")))}">{html.escape(_cell(cell))}</td>'
            if cell
            else "<td></td>"
            for cell in row
        )
        body += f"<tr><th>{html.escape(name)}</th>{cells}</tr>\n"
    return f'<h2>{_MATRIX}</h2>\n<p>{_EXPLANATION}. {_LEGEND}</p>\n<div class="wide"><table class="matrix">\n{head}{body}</table></div>'
