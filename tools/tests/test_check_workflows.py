"""tools/check-workflows finds steps that cannot run."""

import importlib.machinery
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
loader = importlib.machinery.SourceFileLoader("check_workflows", str(ROOT / "tools/check-workflows"))
check_workflows = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_workflows", loader))
loader.exec_module(check_workflows)


def check(tmp_path, *steps):
    path = tmp_path / "w.yml"
    path.write_text("jobs:\n  one:\n    defaults:\n      run:\n        shell: bash\n    steps:\n"
                    + "".join(f"      - {step}\n" for step in steps))
    return list(check_workflows.check(path))


@pytest.mark.parametrize("step", ["run: make test", "run: make test-lite PYTHON=python", "uses: actions/checkout@v5",
                                  "uses: pypa/gh-action-pypi-publish@release/v1", f"uses: a/b/c@{'0f' * 20}", "name: run"])
def test_good_steps(tmp_path, step):
    assert check(tmp_path, step) == []


@pytest.mark.parametrize(
    "step, said",
    [
        ("run: make no-such-target", "the Makefile has no target no-such-target"),
        ("run: make tools", "the Makefile has no target tools"),  # a folder
        ("run: pip install .", "a step runs one target, `make TARGET [NAME=value]`, and not `pip install .`"),
        ("run: make test && make docs", "and not `make test && make docs`"),
        ("run: |\n          make test", "and not `|`"),
        ("uses: actions/checkout@main", "actions/checkout@main is not pinned"),
        ("uses: actions/checkout", "actions/checkout is not pinned"),
    ],
)
def test_bad_steps(tmp_path, step, said):
    (failure,) = check(tmp_path, step)
    assert failure.startswith("w.yml:7: ") and said in failure


def test_targets():
    assert {"all", "test", "test-lite", "docs-look", "wheels", "check"} < check_workflows.targets()
    assert not {"python", "PYTHON", "SHELL"} & check_workflows.targets()


def test_both_endings_are_read(tmp_path, monkeypatch, capsys):
    for ending in ("yml", "yaml"):
        (tmp_path / f"w.{ending}").write_text("      - run: make tools\n")
    monkeypatch.setattr(check_workflows.sys, "argv", ["check-workflows", str(tmp_path)])
    monkeypatch.setattr(check_workflows, "run_actionlint", lambda paths: [])
    assert check_workflows.main() == 1 and "2 files, 2 failures" in capsys.readouterr().out


def test_every_kind_of_workflow_exists():
    assert {path.name for path in (ROOT / ".github/workflows").glob("*")} == {
        "tests.yml", "wheels.yml", "docs.yml", "release.yml"}


def test_new_projects_use_the_same_actions():
    """A version that is too old for one workflow is too old for the others."""
    templates = [*ROOT.glob("python/tenon/templates/*/github/workflows/*.yml")]
    used = {}
    for path in [*ROOT.glob(".github/workflows/*.yml"), *templates]:
        for name, version in re.findall(r"uses: (actions/[\w-]+)@(\S+)", path.read_text("utf-8")):
            used.setdefault(name, set()).add(version)
    assert templates and all(len(versions) == 1 for versions in used.values()), used
