"""What a function tells of its tensors: the core's description, which the package reads instead of the text."""

import ast
import pathlib
import random

import numpy
import pytest
from building import PACKAGE
from handmade import Echo

from tenon._signature_shapes import Dim

PLAIN = {"variable": None, "devices": [], "attributes": [], "alignment": 0, "inplace": None, "of": None, "each": None}


def tensors(signature):
    return Echo(signature).function.__self__.tensors


def test_every_part():
    described = tensors(
        "f(m: int, *, x: f32|real[_, 007, n , *b, 2*(n - m)//3] ? f cuda|rocm aligned(64), y: T[(k)] rw c inplace(x), "
        "z: float64[] unaligned anywhere dense, w: u8[n] rw alias) -> str, T[?, *b] where T = i8|integer|any"
    )
    assert described[0] is None and described[5] is None
    assert described[1] == {
        **PLAIN,
        "text": "f32|real[_, 007, n , *b, 2*(n - m)//3] ?",
        "dtypes": ("f32", "real"),
        "dims": (
            ("any", "_", None, ()),
            ("number", "007", None, (7,)),
            ("name", "n", "n", ("n",)),
            ("star", "*b", "b", ()),
            ("expression", "2*(n - m)//3", None, (2, "n", "m", "-", "*", 3, "//")),
        ),
        "devices": ["cuda", "rocm"],
        "attributes": ["f"],
        "alignment": 64,
    }
    assert described[2] == {
        **PLAIN,
        "text": "T[(k)]",
        "variable": "T",
        "dtypes": ("i8", "integer", "any"),
        "dims": (("name", "(k)", "k", ("k",)),),
        "attributes": ["rw", "c"],
        "inplace": "x",
    }
    assert described[3] == {
        **PLAIN,
        "text": "float64[]",
        "dtypes": ("f64",),
        "dims": (),
        "attributes": ["dense", "anywhere", "unaligned"],
    }
    assert described[4]["attributes"] == ["rw", "alias"]
    assert described[6] == {
        **PLAIN,
        "text": "T[?, *b]",
        "variable": "T",
        "dtypes": ("i8", "integer", "any"),
        "dims": (("unknown", "?", None, ()), ("star", "*b", "b", ())),
        "attributes": ["rw", "c", "anywhere"],  # what an `out` has to be
    }


def test_text_of_an_optional_result():
    assert tensors("f(n: int) -> f32[?, n] ? dense")[1]["text"] == "f32[?, n] ?"
    assert tensors("f(n: int) -> f32[?, n]")[1]["text"] == "f32[?, n]"


def test_without_tensors():
    assert tensors("f()") == ()
    assert tensors("f(a: int, b: 'x[?]'|'y') -> int") == (None, None, None)


def random_expression(source, depth):
    atoms = ["n", "k", "1", "2", "7", "4611686018427387904"]
    text = ""
    for i in range(source.randint(1, 3)):
        text += source.choice([" + ", "-", " * ", "//"]) if i else ""
        nested = depth and source.random() < 0.5
        text += f"({random_expression(source, depth - 1)})" if nested else source.choice(atoms)
    return text


def test_code_means_what_the_signature_means():
    """An expression in Python is the size of a result, or has no value if there is no result."""
    source, made, refused = random.Random(20261116), 0, 0
    while made < 150 or refused < 150:
        text = random_expression(source, 2)
        echo = Echo(f"f(n: int, k: int) -> u8[({text}) * 0, k * n]")
        (_, _, described) = echo.function.__self__.tensors
        dims = {"n": source.choice([0, 1, 5, 11]), "k": source.choice([0, 1, 3, 8])}
        dim = Dim(*described["dims"][0])
        assert set(dim.names) <= set(dims)
        try:
            assert dim.value(dims) == 0
        except (OverflowError, ZeroDivisionError):
            with pytest.raises(OverflowError, match="overflows 64 bits or divides by 0"):
                echo(**dims, like=numpy)
            refused += 1
            continue
        assert echo(**dims, like=numpy).shape == (0, dims["k"] * dims["n"])
        made += 1
        # Without the factor it is Python's own arithmetic.
        inner = Dim("expression", text, None, described["dims"][0][3][:-2])
        assert inner.value(dims) == eval(text, dict(dims))


@pytest.mark.parametrize("name", ["_signature_shapes", "_torch_shapes", "_torch_ops"])
def test_package_parses_no_signatures(name):
    file = pathlib.Path(PACKAGE) / "tenon" / f"{name}.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"eval", "exec", "compile"}
    patterns = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re"
    ]
    assert len(patterns) <= {"_torch_ops": 2}.get(name, 0)  # the operators' namespace: re.fullmatch, re.A


def test_attribute_is_read_only(kernels):
    with pytest.raises(AttributeError):
        kernels.saxpy.__self__.tensors = ()
