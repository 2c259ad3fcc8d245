"""docs/python.md describes every public name, with its parameters, and every command of `python -m tenon`."""

import inspect
import pathlib
import re

import pytest

import tenon
from tenon import __main__ as commands

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs/python.md").read_text("utf-8").replace("\\_", "_")
HEADINGS = {name: parameters for heading in re.findall(r"^## (tenon\..*)$", PAGE, re.M)
            for name, parameters in re.findall(r"tenon\.(\w+)(\(.*\))?", heading)}


def plain(function):
    """The signature without annotations and without the mark of positional parameters."""
    signature = inspect.signature(function)
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    text = str(signature.replace(parameters=parameters, return_annotation=signature.empty))
    return text.replace(", /", "")


def test_exactly_the_public_names_are_described():
    assert sorted(HEADINGS) == sorted(tenon.__all__)


@pytest.mark.parametrize("name", [name for name, parameters in HEADINGS.items() if parameters])
def test_parameters(name):
    assert HEADINGS[name] == plain(getattr(tenon, name))


def test_functions_have_their_parameters():
    functions = {name for name in tenon.__all__ if inspect.isroutine(getattr(tenon, name))}
    assert functions == {name for name, parameters in HEADINGS.items() if parameters}


def test_commands():
    (names,) = [action.choices for action in commands._parser()._actions if action.dest == "command"]
    table = PAGE.split("## python -m tenon", 1)[1].split("\n## ", 1)[0]
    assert sorted(re.findall(r"^\| `([a-z]+)", table, re.M)) == sorted(names)
