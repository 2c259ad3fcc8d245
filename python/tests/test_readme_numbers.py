"""The numbers of the README and of the pages are those of bench/results/latest.json, and the marks that say so are there."""

import json
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import chart
import files
import readme
import report
import tables

MARKERS = {
    "README.md": {"machine", "borrows", "mib:peak memory, 400 MB:numpy:tenon"},
    "docs/performance.md": {"layers", "gpu", *(f"{kind}:rms_norm, {row}" for kind, row in (
        ("ns", "no_grad:torch on cuda:tenon, the function"), ("ns", "no_grad:torch on cuda:TORCH_LIBRARY in C++"),
        ("times", "forward and backward:torch on cuda:TORCH_LIBRARY in C++")))},
}


@pytest.fixture(scope="module")
def results():
    return files.results(files.LATEST)  # which is tracked: where it is not there or not whole, that is the failure


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_exactly_these_markers_are_there():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("elixir/*.md")]
    found = {path.relative_to(ROOT).as_posix(): {name for name, _ in readme.MARKER.findall(path.read_text("utf-8"))}
             for path in pages}
    assert sorted(name for name, markers in found.items() if markers) == sorted(readme.FILES)
    assert {name: found[name] for name in MARKERS} == MARKERS


@pytest.mark.parametrize("name", readme.FILES)
def test_every_marker_has_its_end(name):
    text = text_of(name)
    assert text.count("<!-- bench:") == text.count("<!-- /bench:") == len(readme.MARKER.findall(text))


@pytest.mark.parametrize("name", readme.FILES)
def test_no_line_begins_with_the_marker_of_a_figure(name):
    """In Markdown that would end the paragraph."""
    assert not re.findall(r"^ *<!-- bench:\w+:.*", text_of(name), re.M)


@pytest.mark.parametrize("name", readme.FILES)
def test_the_page_shows_what_was_measured(name, results):
    assert readme.filled(text_of(name), results) == text_of(name), "run bench/readme.py"


def test_no_table_of_the_readme_leaves_figures_out():
    assert not [line for line in text_of("README.md").splitlines() if line.startswith("|") and "…" in line]


def test_the_benchmarks_page_and_its_charts_are_made_from_the_same_results(results):
    for path, text in report.pages(results, ROOT / "docs").items():
        assert (path.read_text("utf-8") if path.exists() else None) == text, f"{path.name}: run bench/readme.py"


def test_charts_show_the_figures_in_light_and_dark(results):
    svg = chart.draw_all(results, None)["bench-borrow.svg"]
    ours = next(row for row in results["rows"] if tables.key(row) == ("borrow", "numpy", "tenon"))
    assert f'class="ours">{tables.number(ours["ns"])}</text>' in svg and "prefers-color-scheme: dark" in svg
    places = [float(x) for x in re.findall(r'<text x="([-\d.]+)"', svg)]
    assert all(0 <= x <= chart.WIDTH for x in places)


def test_a_question_that_was_not_measured_has_no_chart(results):
    rows = [row for row in results["rows"] if row["operation"] != "borrow"]
    charts = chart.draw_all({**results, "rows": rows}, None)
    assert charts["bench-borrow.svg"] is None and "bench-borrow.svg" not in report.pictures(charts)


def test_every_row_has_every_field():
    for row in json.loads(files.LATEST.read_text("utf-8"))["rows"]:
        assert set(files.FIELDS) <= row.keys(), row


def test_a_changed_number_is_found(results):
    text = "<!-- bench:ns:borrow:numpy:tenon -->1<!-- /bench:ns:borrow:numpy:tenon -->"
    assert readme.filled(text, results) != text


def test_a_number_that_was_not_measured_is_an_error(results):
    with pytest.raises(ValueError, match="no measurement"):
        readme.text_of("ns:borrow:numpy:nobody", results)


def test_who_refuses_everything_stays_in_the_table(results):
    row = dict(group="numpy", operation="borrow", producer="numpy", contender="nobody", refused="TypeError: no")
    more = {**results, "rows": [*results["rows"], files.whole(row)]}
    assert "| nobody | refuses |" in tables.crossings(more, "numpy")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"rows": []}', '{"rows": [{}]}'])
def test_a_broken_file_of_results_is_said_in_a_line(text, tmp_path):
    (tmp_path / "latest.json").write_text(text)
    with pytest.raises(files.Unusable, match="^latest.json is incomplete"):
        files.results(tmp_path / "latest.json")


def test_counts_of_other_sources_are_not_kept(results, tmp_path):
    before = {**results, "sources": {"stamp": "one", "commit": None, "changed": False, "date": "2000-01-01"}}
    (tmp_path / "latest.json").write_text(json.dumps(before))
    rows = [{**row, "instructions": None} for row in results["rows"] if row["group"] != "instructions"]

    def run_after(stamp):
        after = {**results, "sources": {"stamp": stamp}, "layers": {}, "rows": [dict(row) for row in rows]}
        return report.keep_instructions(tmp_path / "latest.json", after), after

    line, after = run_after("two")
    assert "left out" in line
    assert not after["layers"] and not any(row["instructions"] for row in after["rows"])
    line, after = run_after("one")
    assert "2000-01-01" in line
    assert after["layers"] == results["layers"]
    assert {tables.key(row): row["instructions"] for row in after["rows"] if row["instructions"]} == {
        tables.key(row): row["instructions"] for row in results["rows"] if row["instructions"]}


def luminance(colour):
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear))


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_charts_texts_can_be_read(mode):
    light, dark = chart.STYLE.split("@media (prefers-color-scheme: dark)")
    rules = light if mode == "light" else dark
    behind = re.search(r"background: (#\w+)", rules)[1]
    for kind in (r"svg", r"\.note", r"\.ours", r"\.limit-name"):
        colour = re.search(rf"{kind} \{{[^}}]*fill: (#\w+)", rules)[1]
        low, high = sorted((luminance(colour), luminance(behind)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, kind
