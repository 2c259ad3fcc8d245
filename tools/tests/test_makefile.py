"""`make help` prints one line about each target."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]


def test_help():
    text = (ROOT / "Makefile").read_text("utf-8")
    targets = re.search(r"^\.PHONY:((?:.*\\\n)*.*)$", text, re.M)[1].replace("\\\n", " ").split()
    said = subprocess.run(["make", "-s", "help"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                          check=True).stdout
    assert sorted(re.findall(r"(?m)^make ([a-z-]+) {2,}\w", said)) == sorted(set(targets) - {"all"})
    assert len(said.splitlines()) == len(targets)  # the last is about PYTHON
