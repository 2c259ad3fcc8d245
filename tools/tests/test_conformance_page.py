"""The results in docs/conformance.md are those of docs/conformance.json."""

import ast
import json
import pathlib
import re

from scripts import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
write_conformance = load("tools/write-conformance")
DATA = json.loads((ROOT / "docs/conformance.json").read_text("utf-8"))
PAGE = (ROOT / "docs/conformance.md").read_text("utf-8")


def test_the_page_is_up_to_date():
    assert write_conformance.page(PAGE, DATA) == PAGE, "run tools/write-conformance"


def test_counts():
    assert DATA["counts"] == write_conformance.count(DATA["results"]) and DATA["complete"] is True
    for target in DATA["targets"]:
        numbers = write_conformance.count([result for result in DATA["results"] if result["target"] == target["name"]])
        (row,) = re.findall(rf"^\| {re.escape(target['name'])} \| {re.escape(target['version'])}[^|]*\| ([\d |]+) \|$", PAGE, re.M)
        assert row.split(" | ") == [str(numbers[outcome]) for outcome in write_conformance.OUTCOMES]


def test_tenon_passes():
    bad = [result for result in DATA["results"] if result["target"] == "tenon" and result["outcome"] in write_conformance.BAD]
    assert not bad and any(target["name"] == "tenon" for target in DATA["targets"])


def test_programs_are_programs():
    for result in DATA["results"]:
        if result["outcome"] in write_conformance.BAD:
            text = write_conformance.program(result)
            assert text.startswith("python -m tenon conformance ") or ast.parse(text)


def test_merge_replaces_a_target():
    result = {"case": "producer.keywords", "target": "tenon", "outcome": "pass", "expected": "", "came": ""}
    other = {**DATA, "python": "3.99", "targets": [{"name": "tenon", "version": "9"}], "results": [result], "cases": {}}
    merged = write_conformance.merge(DATA, other)
    assert [r for r in merged["results"] if "tenon" in r["target"]] == [result]
    assert merged["targets"][-1] == {"name": "tenon", "version": "9", "note": "Python 3.99"}
    assert merged["counts"] == write_conformance.count(merged["results"])
    assert json.loads(write_conformance.as_json(merged)) == merged
