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
    return subprocess.run([sys.executable, TOOL, tmp_path], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("measured", ["1.2.0", "1.1.0"])
def test_the_last_two_versions(tmp_path, measured):
    done = check(tmp_path, ["Unreleased", "1.1.0", "1.0.0"], measured)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("measured", ["1.0.0", None])
def test_an_old_version(tmp_path, measured):
    done = check(tmp_path, ["Unreleased", "1.1.0", "1.0.0"], measured)
    assert done.returncode == 1 and "bench/results/latest.json: measured with" in done.stdout
    assert "1.2.0 and 1.1.0" in done.stdout
