"""bench/check.py judges each kind of target, and bench/targets.toml has no other kind."""

import pytest
from scripts import load

tomllib = pytest.importorskip("tomllib")
check = load("bench/check.py")
FOUND = {("dot", "numpy"): {"tenon": {"ns": 50.0, "instructions": 400}, "peer": {"ns": 100.0}},
         ("dot", "torch"): {"tenon": {"ns": 60.0}, "peer": {"ns": 40.0}}}


@pytest.mark.parametrize("target, holds", [
    ({"at_most": 50}, True),
    ({"at_most": 49}, False),
    ({"at_most": 400, "field": "instructions"}, True),
    ({"at_most": 1, "field": "mib"}, None),
    ({"other": "peer", "at_most": 0.5}, True),
    ({"other": "peer", "at_most": 0.49}, False),
    ({"other": "peer", "faster": 2}, True),
    ({"other": "peer", "faster": 2.1}, False),
    ({"other": "peer", "over": -50}, True),
    ({"other": "peer", "over": -51}, False),
    ({"other": "nobody", "at_most": 9}, None),
    ({"ours": "nobody", "other": "peer", "at_most": 9}, None),
    ({"other": "peer", "other_producer": "torch", "at_most": 1.2}, False),
    ({"other": "peer", "other_operation": "saxpy", "at_most": 9}, None),
])
def test_targets_are_judged(target, holds):
    judged, text = check.judge({"operation": "dot", "producer": "numpy", **target}, FOUND)
    assert judged is holds and text.startswith("dot, numpy, ")


def test_a_group_is_every_row_of_ours():
    rows = [{"group": "calls", "operation": operation, "producer": producer, "contender": contender}
            for (operation, producer), contenders in FOUND.items() for contender in contenders]
    for other in ("best", "peer"):
        targets = check.expand({"group": "calls", "other": other, "at_most": 1}, FOUND, {"rows": rows})
        assert [(check.judge(target, FOUND)[0], target["other"]) for target in targets] == [(True, "peer"), (False, "peer")]


def test_the_file_has_no_other_kind():
    areas = tomllib.loads((check.BENCH / "targets.toml").read_text())["area"]
    assert len({area["name"] for area in areas}) == len(areas) and all(area["why"] for area in areas)
    for target in (target for area in areas for target in area["targets"]):
        keys = set(target)
        assert keys >= {"operation", "producer"} or keys >= {"group", "other"}, target
        assert keys <= {"operation", "producer", "group", "ours", "other", "other_operation", "other_producer", "field",
                        "at_most", "faster", "over"}, target
        assert len(keys & {"at_most", "faster", "over"}) == 1 and ("other" in keys or "at_most" in keys), target
