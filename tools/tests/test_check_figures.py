"""tools/check-figures: figures of an old version are reported."""

import json
import pathlib
import subprocess
import sys

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[1] / "check-figures"


def check(tmp_path, changelog, measured):
    (tmp_path / "core/include/tenon").mkdir(parents=True)
    (tmp_path / "core/include/tenon/tenon.h").write_text('#define TENON_VERSION "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("".join(f"## [{name}]\n" for name in changelog))
    (tmp_path / "bench/results").mkdir(parents=True)
    rows = [{"contender": "tenon, C++", "version": measured}, {"contender": "nanobind", "version": "3.1"}]
    (tmp_path / "bench/results/latest.json").write_text(json.dumps({"rows": rows}))
    return run(tmp_path)


def run(root):
    return subprocess.run([sys.executable, TOOL, root], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("measured", ["1.2.0", "1.1.0"])
def test_the_last_two_versions(tmp_path, measured):
    done = check(tmp_path, ["Unreleased", "1.1.0", "1.0.0"], measured)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("measured", ["1.0.0", None])
def test_an_old_version(tmp_path, measured):
    done = check(tmp_path, ["Unreleased", "1.1.0", "1.0.0"], measured)
    assert done.returncode == 1 and "bench/results/latest.json: measured with" in done.stdout
    assert "1.2.0 and 1.1.0" in done.stdout


GPU = "Tenon 0.9.0, torch 2.11.0, NVIDIA H200"


def check_gpu(tmp_path, page, *versions, shown="", section="On a GPU"):
    """A run on a GPU, a page of benchmarks, and one that shows a figure of that run."""
    check(tmp_path, ["1.2.0"], "1.2.0")
    rows = [{"contender": "tenon", "version": version} for version in versions or ["0.9.0"]]
    machine = {"gpu": "NVIDIA H200", "packages": {"torch": "2.11.0"}}
    (tmp_path / "bench/results/gpu.json").write_text(json.dumps({"machine": machine, "rows": rows}))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/benchmarks.md").write_text(f"# Benchmarks\n\n## {section}\n{page}\n")
    (tmp_path / "docs/cupy.md").write_text(f"<!-- bench:ns:borrow:cupy on cuda:tenon -->1<!-- /bench -->\n{shown}\n")
    return run(tmp_path)


def test_an_old_gpu_that_is_named(tmp_path):
    done = check_gpu(tmp_path, GPU.replace(", torch", ",\ntorch"), shown=GPU)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page, shown, section, wrong", [
    ("Tenon 0.9.0, torch 2.12.0, NVIDIA H200", GPU, "On a GPU", "docs/benchmarks.md"),
    ("Tenon 1.2.0, torch 2.11.0, NVIDIA H200", GPU, "On a GPU", "docs/benchmarks.md"),
    ("Tenon 0.9.0, torch 2.11.0, NVIDIA H100", GPU, "On a GPU", "docs/benchmarks.md"),
    (GPU, GPU, "Another section", "docs/benchmarks.md"),
    (GPU, "", "On a GPU", "docs/cupy.md"),
])
def test_an_old_gpu_that_is_not_named(tmp_path, page, shown, section, wrong):
    done = check_gpu(tmp_path, page, shown=shown, section=section)
    assert done.returncode == 1
    assert done.stdout == f'{wrong}: its figures of a GPU must say that they were measured with "{GPU}"\n'


def test_a_gpu_with_two_versions(tmp_path):
    done = check_gpu(tmp_path, GPU, "0.9.0", "1.2.0", shown=GPU)
    assert done.returncode == 1 and "gpu.json: measured with 0.9.0 and 1.2.0; a run must be of one version" in done.stdout


def test_the_pages():
    done = run(TOOL.parents[1])
    assert done.returncode == 0, done.stdout
