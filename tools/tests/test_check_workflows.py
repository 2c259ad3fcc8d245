"""tools/check-workflows finds steps that cannot run."""

import re
import subprocess
import sys

import pytest
from scripts import ROOT, load

pytest.importorskip("yaml")
check_workflows = load("tools/check-workflows")


JOBS = "jobs:\n  one:\n    defaults:\n      run:\n        shell: bash\n    steps:\n"


def check(tmp_path, *steps):
    path = tmp_path / "w.yml"
    path.write_text(JOBS + "".join(f"      - {step}\n" for step in steps))
    return check_workflows.check(path)


@pytest.mark.parametrize("step", ["run: make test", "run: 'make test'", 'run: "make test"', '"run": make test', "run: |\n          make test",
                                  "{run: make test, name: run}", "run: make test-lite PYTHON=python", "uses: actions/checkout@v5",
                                  "uses: 'actions/checkout@v5'  # newest", "uses: pypa/gh-action-pypi-publish@release/v1",
                                  f"uses: a/b/c@{'0f' * 20}", "name: |\n          run: anything\n        run: make test"])
def test_good_steps(tmp_path, step):
    assert check(tmp_path, step) == []


@pytest.mark.parametrize(
    "step, said",
    [
        ("run: make no-such-target", "the Makefile has no target no-such-target"),
        ("run: make tools", "the Makefile has no target tools"),  # a folder
        ("run: pip install .", "a step runs one target, `make TARGET [NAME=value]`, and not `pip install .`"),
        ("'run': pip install .", "and not `pip install .`"),
        ("{name: x, run: pip install .}", "and not `pip install .`"),
        ("name: x\n        run:\n          pip install .", "and not `pip install .`"),
        ("run: make test && make docs", "and not `make test && make docs`"),
        ("run: |\n          make test\n          make docs", "and not `make test make docs`"),
        ("run:", "and not `None`"),
        ("run: [make test]", "and not `['make test']`"),
        ("uses: actions/checkout@main", "actions/checkout@main is not pinned"),
        ("uses: actions/checkout", "actions/checkout is not pinned"),
        ("uses: 5", "5 is not pinned"),
        ("name: run", "a step has either `run` or `uses`"),
        ("{run: make test, uses: actions/checkout@v5}", "a step has either `run` or `uses`"),
        ("make test", "a step has either `run` or `uses`"),
    ],
)
def test_bad_steps(tmp_path, step, said):
    (failure,) = check(tmp_path, "run: make test", step)
    assert failure.startswith("w.yml: job one, step 2: ") and said in failure and "\n" not in failure


@pytest.mark.parametrize(
    "content, said",
    [
        (b"\xff\xfe", "it is not UTF-8"),
        (b"jobs: [", "it is not YAML: while parsing"),
        (b"jobs: !!int x", "it is not YAML: invalid literal"),
        (b"[" * 5000, "it is not YAML: "),
        (b"", "it is not a mapping"),
        (b"- jobs", "it is not a mapping"),
        (b"name: x", "it has no jobs"),
        (b"jobs: {}", "it has no jobs"),
        (b"jobs: {one: }", "job one: it has no steps"),
        (b"jobs: {one: {steps: }}", "job one: it has no steps"),
        (b"jobs: {one: {steps: []}}", "job one: it has no steps"),
        (f"{JOBS}      - run: evil\n        run: make test\n".encode(), "line 7: the mapping has the key run twice"),
        (b"jobs:\n  one: {}\njobs: {}\n", "line 1: the mapping has the key jobs twice"),
    ],
)
def test_bad_files(tmp_path, content, said):
    (tmp_path / "w.yml").write_bytes(content)
    (failure,) = check_workflows.check(tmp_path / "w.yml")
    assert failure.startswith(f"w.yml: {said}") and len(failure) <= 500


def test_targets():
    assert {"all", "test", "test-lite", "docs-look", "wheels", "check"} < check_workflows.targets()
    assert not {"python", "PYTHON", "SHELL"} & check_workflows.targets()


def run(folder):
    return subprocess.run([sys.executable, ROOT / "tools/check-workflows", folder], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


def test_every_kind_of_workflow_is_wanted(tmp_path):
    """And both endings are read; a folder and a link to nothing have the name of a file."""
    (tmp_path / "a.yaml").write_text(f"{JOBS}      - run: make tools\n")
    (tmp_path / "docs.yml").write_text(f"{JOBS}      - run: make docs\n")
    (tmp_path / "release.yml").mkdir()
    (tmp_path / "tests.yml").symlink_to("nothing")
    done = run(tmp_path)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("left out: ")]
    assert done.returncode == 1 and lines[:4] == [
        "a.yaml: job one, step 1: the Makefile has no target tools",
        "release.yml: Is a directory",
        "tests.yml: No such file or directory",
        "wheels.yml: No such file or directory",
    ]


def test_a_folder_that_is_absent(tmp_path):
    done = run(tmp_path / "none")
    assert (done.returncode, done.stdout) == (1, f"{tmp_path}/none: No such file or directory\n")


def test_the_workflows():
    assert run(ROOT / ".github/workflows").returncode == 0
    assert sorted(path.name for path in (ROOT / ".github/workflows").glob("*")) == check_workflows.WORKFLOWS


def test_new_projects_use_the_same_actions():
    """A version that is too old for one workflow is too old for the others."""
    templates = [*ROOT.glob("python/tenon/templates/*/github/workflows/*.yml")]
    used = {}
    for path in [*ROOT.glob(".github/workflows/*.yml"), *templates]:
        for name, version in re.findall(r"uses: (actions/[\w-]+)@(\S+)", path.read_text("utf-8")):
            used.setdefault(name, set()).add(version)
    assert templates and all(len(versions) == 1 for versions in used.values()), used
