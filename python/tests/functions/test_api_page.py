"""docs/python.md has a heading for every public name, and describes every command of `python -m tenon`."""

import pathlib
import re

import tenon
from tenon import __main__ as commands

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs/python.md").read_text("utf-8").replace("\\_", "_")
HEADINGS = [name for heading in re.findall(r"^## (tenon\..*)$", PAGE, re.M) for name in re.findall(r"tenon\.(\w+)", heading)]


def test_exactly_the_public_names_are_described():
    """docs/reference.py adds the parameters, their types and the docstrings; tools/tests/test_site.py tests that."""
    assert sorted(HEADINGS) == sorted(tenon.__all__)


def test_commands():
    (names,) = [action.choices for action in commands._parser()._actions if action.dest == "command"]
    table = PAGE.split("## python -m tenon", 1)[1].split("\n## ", 1)[0]
    assert sorted(re.findall(r"^\| `([a-z]+)", table, re.M)) == sorted(names)
