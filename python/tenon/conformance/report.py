"""The reports about a run: a table for the terminal, JSON, JUnit and HTML."""

from __future__ import annotations

import html
import json
import platform
import re
import time
from typing import Any, Iterable
from xml.sax.saxutils import escape, quoteattr

import tenon

from . import KINDS, cases

OUTCOMES = ("pass", "fail", "crash", "hang", "leak", "refused", "n/a")
BAD = ("fail", "crash", "hang", "leak")
SCHEMA = 1


def count(results: Iterable[dict[str, str]]) -> dict[str, int]:
    found = dict.fromkeys(OUTCOMES, 0)
    for result in results:
        found[result["outcome"]] += 1
    return found


def as_data(targets: list[dict[str, str]], results: list[dict[str, str]], complete: bool) -> dict[str, Any]:
    """Everything about a run, for json.dump."""
    used = {result["case"] for result in results}
    return {
        "schema": SCHEMA,
        "tenon": str(tenon.__version__),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "targets": targets,
        "cases": {
            case.id: {"rule": case.rule, "source": case.source} for kind in KINDS for case in cases(kind) if case.id in used
        },
        "results": results,
        "counts": count(results),
        "complete": complete,
    }


def as_json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


# ---------------------------------------------------------------------------------------------------------- the terminal


def by_target(results: list[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    """The results of each target; those of round trips together for each producer."""
    found: dict[str, list[dict[str, str]]] = {}
    for result in results:
        producer, arrow, _ = result["target"].partition("->")
        found.setdefault(f"{producer} -> others" if arrow else producer, []).append(result)
    return found


def as_table(data: dict[str, Any]) -> str:
    versions = {target["name"]: target["version"] for target in data["targets"]}
    rows = [["target", "version", *OUTCOMES]]
    for name, results in by_target(data["results"]).items():
        numbers = count(results)
        rows.append([name, versions.get(name, ""), *(str(numbers[outcome]) for outcome in OUTCOMES)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def describe(result: dict[str, str]) -> str:
    """One line: the outcome, the target, the case, what was expected and what happened."""
    words = f"{result['outcome']}: {result['target']} {result['case']}"
    if result["outcome"] in BAD:
        return f"{words}: expected {result['expected']}; got: {result['came']}"
    return f"{words}: {result['came']}" if result["came"] else words


# ----------------------------------------------------------------------------------------------------------------- JUnit

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)


def as_junit(data: dict[str, Any]) -> str:
    suites: dict[str, list[dict[str, str]]] = {}
    for result in data["results"]:
        suites.setdefault(result["target"], []).append(result)
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<testsuites>"]
    for name, results in suites.items():
        numbers = count(results)
        errors = numbers["crash"] + numbers["hang"]
        failures, skipped = numbers["fail"] + numbers["leak"], numbers["refused"] + numbers["n/a"]
        lines.append(
            f'<testsuite name={quoteattr(_clean(name))} tests="{len(results)}" failures="{failures}" errors="{errors}" '
            f'skipped="{skipped}">'
        )
        for result in results:
            start = f"<testcase classname={quoteattr(_clean(name))} name={quoteattr(result['case'])}"
            message = quoteattr(_clean(describe(result)))
            rule = escape(data["cases"][result["case"]]["rule"])
            if result["outcome"] == "pass":
                lines.append(f"{start}/>")
            elif result["outcome"] in ("fail", "leak"):
                lines.append(f"{start}><failure type=\"{result['outcome']}\" message={message}>{rule}</failure></testcase>")
            elif result["outcome"] in BAD:
                lines.append(f"{start}><error type=\"{result['outcome']}\" message={message}>{rule}</error></testcase>")
            else:
                lines.append(f"{start}><skipped message={message}/></testcase>")
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"


# ------------------------------------------------------------------------------------------------------------------ HTML

_STYLE = """
:root { color-scheme: light dark; --line: #d5d5d5; --muted: #666; --back: #fff; --text: #111; --head: #f3f3f3;
  --pass: #17682e; --bad: #b3141b; --other: #6b5900; }
@media (prefers-color-scheme: dark) { :root { --line: #3a3a3a; --muted: #a5a5a5; --back: #141414; --text: #ececec;
  --head: #212121; --pass: #6fd08a; --bad: #ff8a85; --other: #e3c75e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--back); color: var(--text);
  font: 1rem/1.45 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: 0 0 .25rem; }
p { margin: .25rem 0 1rem; color: var(--muted); }
.wide { overflow-x: auto; }
[hidden] { display: none !important; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .5rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
th.number, td.number { text-align: right; }
thead th { background: var(--head); }
.number { font-variant-numeric: tabular-nums; }
form { position: sticky; top: 0; background: var(--back); padding: .75rem 0; display: flex; flex-wrap: wrap; gap: .75rem; }
label { display: flex; gap: .4rem; align-items: center; }
select, input { font: inherit; padding: .3rem; max-width: 100%; color: inherit; background: var(--head);
  border: 1px solid var(--line); border-radius: .3rem; }
code { font-size: .9em; overflow-wrap: anywhere; }
small { color: var(--muted); display: block; overflow-wrap: anywhere; }
.pass { color: var(--pass); } .bad { color: var(--bad); font-weight: 600; } .other { color: var(--other); }
@media (max-width: 40rem) { #results thead { display: none; } #results tr { display: block; padding: .5rem 0;
  border-bottom: 1px solid var(--line); } #results td { display: block; border: 0; padding: .1rem 0; } }
"""

_SCRIPT = """
const rows = [...document.querySelectorAll("#results tbody tr")];
const framework = document.getElementById("framework"), outcome = document.getElementById("outcome");
const words = document.getElementById("words"), shown = document.getElementById("shown");
function filter() {
  const text = words.value.toLowerCase();
  let number = 0;
  for (const row of rows) {
    const hit = (!framework.value || row.dataset.names.split(" ").includes(framework.value)) &&
      (!outcome.value || row.dataset.outcome === outcome.value ||
       (outcome.value === "bad" && ["fail", "crash", "hang", "leak"].includes(row.dataset.outcome))) &&
      (!text || row.textContent.toLowerCase().includes(text));
    row.hidden = !hit;
    number += hit;
  }
  shown.textContent = number + " of " + rows.length;
}
for (const control of [framework, outcome, words]) control.addEventListener("input", filter);
filter();
"""


def _class_of(outcome: str) -> str:
    return "pass" if outcome == "pass" else "bad" if outcome in BAD else "other"


def as_html(data: dict[str, Any]) -> str:
    versions = {target["name"]: target["version"] for target in data["targets"]}
    options = "".join(f"<option>{html.escape(name)}</option>" for name in versions)
    outcomes = '<option value="bad">fail, crash, hang or leak</option>' + "".join(f"<option>{name}</option>" for name in OUTCOMES)
    summary = []
    for name, results in by_target(data["results"]).items():
        numbers = count(results)
        cells = "".join(
            f'<td class="number{" bad" if outcome in BAD and numbers[outcome] else ""}">{numbers[outcome]}</td>' for outcome in OUTCOMES
        )
        summary.append(f"<tr><td>{html.escape(name)}</td><td>{html.escape(versions.get(name, ''))}</td>{cells}</tr>")
    rows = []
    for result in data["results"]:
        case, outcome = data["cases"][result["case"]], result["outcome"]
        detail = f"expected {result['expected']}; got: {result['came']}" if outcome in BAD else result["came"]
        names = " ".join(result["target"].split("->"))
        rows.append(
            f'<tr data-names="{html.escape(names)}" data-outcome="{outcome}"><td>{html.escape(result["target"])}</td>'
            f'<td><code>{result["case"]}</code><small>{html.escape(case["rule"])} ({html.escape(case["source"])})</small></td>'
            f'<td><span class="{_class_of(outcome)}">{outcome}</span><small>{html.escape(detail)}</small></td></tr>'
        )
    heads = "".join(f'<th class="number">{outcome}</th>' for outcome in OUTCOMES)
    partial = "" if data["complete"] else " The run was interrupted: this report is not complete."
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>DLPack conformance</title><style>{_STYLE}</style></head><body>
<h1>DLPack conformance</h1>
<p>{data["date"]}, Python {html.escape(data["python"])}, tenon {html.escape(data["tenon"])}.{partial}</p>
<div class="wide"><table id="summary"><thead><tr><th>target</th><th>version</th>{heads}</tr></thead>
<tbody>{"".join(summary)}</tbody></table></div>
<form onsubmit="return false">
<label>framework <select id="framework"><option value="">all</option>{options}</select></label>
<label>outcome <select id="outcome"><option value="">all</option>{outcomes}</select></label>
<label>text <input id="words" type="search"></label><output id="shown"></output></form>
<table id="results"><thead><tr><th>target</th><th>case</th><th>outcome</th></tr></thead>
<tbody>
{chr(10).join(rows)}
</tbody></table>
<script>{_SCRIPT}</script></body></html>
"""
