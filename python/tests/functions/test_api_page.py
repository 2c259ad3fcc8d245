"""docs/python.md has a heading for every public name, and describes every command of `python -m tenon`."""

import ast
import pathlib
import re

import tenon
from tenon import __main__ as commands

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs/python.md").read_text("utf-8").replace("\\_", "_")
HEADINGS = [name for heading in re.findall(r"^## (tenon\..*)$", PAGE, re.M) for name in re.findall(r"tenon\.(\w+)", heading)]


def test_exactly_the_public_names_are_described():
    """docs/reference.py adds the parameters, their types and the docstrings; tools/tests/test_site.py tests that."""
    assert sorted(HEADINGS) == sorted(tenon.__all__)


def test_the_stub_has_the_public_names():
    tree = ast.parse(pathlib.Path(tenon.__file__).with_suffix(".pyi").read_text("utf-8"))
    (names,) = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)]
    imported = [name.asname or name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names]
    assert sorted(names) == sorted(imported) == sorted(tenon.__all__)
    assert set(tenon.__all__) <= set(dir(tenon))


def test_commands():
    (names,) = [action.choices for action in commands._parser()._actions if action.dest == "command"]
    table = PAGE.split("## python -m tenon", 1)[1].split("\n## ", 1)[0]
    assert sorted(re.findall(r"^\| `([a-z]+)", table, re.M)) == sorted(names)
