"""The README's and the page's numbers are those of bench/results/latest.json."""

import json
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LATEST = ROOT / "bench/results/latest.json"
sys.path.insert(0, str(ROOT / "bench"))

import readme
import report

pytestmark = pytest.mark.skipif(not LATEST.exists(), reason="nothing was measured yet; make bench")


@pytest.fixture(scope="module")
def results():
    return json.loads(LATEST.read_text())


@pytest.mark.parametrize("name", readme.FILES)
def test_the_page_shows_what_was_measured(name, results):
    text = (ROOT / name).read_text()
    assert readme.MARKER.search(text), f"{name} has no marker"
    assert readme.filled(text, results) == text, "run bench/readme.py"


@pytest.mark.parametrize("name", readme.FILES)
def test_every_marker_has_its_end(name):
    text = (ROOT / name).read_text()
    assert text.count("<!-- bench:") == text.count("<!-- /bench:") == len(readme.MARKER.findall(text))


def test_the_benchmarks_page_is_made_from_the_same_results(results):
    assert (ROOT / "docs/benchmarks.md").read_text() == report.markdown(results), "make bench writes it"


def test_a_changed_number_is_found(results):
    text = "<!-- bench:ns:borrow:numpy:tenon -->1<!-- /bench:ns:borrow:numpy:tenon -->"
    assert readme.filled(text, results) != text
