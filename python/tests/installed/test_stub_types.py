"""The types in a stub: a result has the type of the first tensor if it has its dtype and rank; otherwise it is Any."""

import importlib.util
import os

import pytest
from libraries import TYPED, build, run
from type_checkers import check_lines, mypy, pyright

# A line with "# error" is one that a checker must complain about; no other line is.
USE = """\
from array import array
from collections.abc import Iterable
from typing import Any, Optional

import typed
from tenon import Array, Tensor
from typing_extensions import assert_type
from FRAMEWORK import x  # an array

assert_type(typed.saxpy(2.0, x, x), TYPE)
assert_type(typed.saxpy(2.0, x, array("f")), TYPE)
assert_type(typed.saxpy(a=2.0, y=b"1234", x=x), TYPE)
assert_type(typed.saxpy(2.0, x, x, out=None, like=None), TYPE)
assert_type(typed.matmul(x, x), TYPE)
assert_type(typed.keyword(x=x), TYPE)
assert_type(typed.positive(x), TYPE)
assert_type(typed.perhaps(x), Optional[TYPE])
typed.saxpy(2.0, 3, x)  # error
typed.saxpy(2.0, x, 3)  # error
typed.saxpy(2.0, x, [1.0, 2.0])  # error
typed.saxpy(2.0, "text", x)  # error
typed.saxpy(2.0, None, x)  # error
typed.positive(x, out=x)  # error
typed.perhaps(x, out=x)  # error

# A plain buffer has no framework.
plain = array("f", [1.0])
assert_type(typed.saxpy(2.0, plain, x), Any)
assert_type(typed.saxpy(2.0, memoryview(plain), x), Any)
assert_type(typed.saxpy(2.0, bytearray(4), x), Any)
assert_type(typed.pair(plain), tuple[Any, Any, int])

# `out` is returned, and `like` may be anything.
assert_type(typed.saxpy(2.0, plain, x, out=x), TYPE)
assert_type(typed.saxpy(2.0, x, x, out=plain), "array[float]")
assert_type(typed.saxpy(2.0, x, x, like="numpy"), Any)
typed.saxpy(2.0, x, x, out=x, like=x)  # error
typed.saxpy(2.0, x, x, out=3)  # error

assert_type(typed.other_dtype(x), Any)
assert_type(typed.other_rank(x), Any)
assert_type(typed.more_dims(x), Any)
assert_type(typed.other_variable(x, x), Any)
assert_type(typed.several_dtypes(x), Any)
assert_type(typed.optional(3), Any)
assert_type(typed.optional(3, x), Any)
assert_type(typed.zeros(3, out=x), Any)
typed.zeros(3, out=3)  # error
typed.optional(3, 3)  # error
assert_type(typed.score(x), float)
assert_type(typed.score(x, None), float)
typed.score(x, 3)  # error

assert_type(typed.pair(x), tuple[TYPE, Any, int])
found = typed.search(x)
assert_type(found.score, TYPE)
assert_type(found.index, Any)
assert_type(found.count, int)
assert_type(typed.search(x, like="numpy").score, Any)
_, number, scores = found
assert_type(number, int)
assert_type(scores, TYPE)
place: int = tuple.index(found, 3) + tuple.count(found, 3)
annotated: "typed.search_result[TYPE]" = found
wrong: "typed.search_result[int]" = found  # error

# A list is a sequence or an array with numbers, which is not a Sequence to type checkers.
assert_type(typed.lists([1, 2], [0.5, 1]), int)
typed.lists((True, 2), (0.5, True))
typed.lists(range(3), range(2))
typed.lists([], None)
typed.lists(array("q", [1]), array("d", [1, 2]))
typed.lists({1, 2})  # error
typed.lists({1: 2})  # error
typed.lists(iter([1]))  # error
typed.lists(number for number in (1, 2))  # error
typed.lists("12")  # error
typed.lists(3)  # error
typed.lists([1.5])  # error
typed.lists([1], {0.5, 1.0})  # error
typed.lists([1], ["a", "b"])  # error

tree = typed.Tree(x)
typed.Tree(3)  # error
assert_type(tree.query(x).distance, TYPE)
assert_type(tree.query(x).rows, Any)
assert_type(tree.shift(x), TYPE)
assert_type(tree.shift(x, out=plain), "array[float]")
assert_type(tree.head(x), TYPE)
assert_type(tree.found(x), TYPE)
assert_type(tree.points(), Any)
tree.shift(3)  # error
assert_type([number for number in tree], list[float])
several: Iterable[float] = tree
LISTSassert_type(len(tree) + 1, int)
2.5 in tree
assert_type(next(iter(typed.rows())), Any)


def wrapper(z: Array, unknown: Any, tensor: Tensor, maybe: Optional[TYPE]) -> None:
    typed.saxpy(2.0, z, z)
    assert_type(typed.saxpy(2.0, unknown, z), Any)
    assert_type(typed.saxpy(2.0, tensor, z), Tensor)
    typed.saxpy(2.0, maybe, z)  # error
"""

# In these files `x` is an array. Reading torch takes mypy 15 seconds, so that only the part `types` does it.
REAL = {
    "numpy": ("import numpy as np\nimport numpy.typing as npt\nx: npt.NDArray[np.float32] = np.ones(3, np.float32)\n"),
    "torch": "import torch\nx = torch.ones(3)\n",
    "jax": "import jax\nx = jax.numpy.ones(3)\n",
}
TYPES = {"numpy": "npt.NDArray[np.float32]", "torch": "torch.Tensor", "jax": "jax.Array", "stand_in": "stand_in.Array"}
IMPORTS = {"numpy": "import numpy as np\nimport numpy.typing as npt\n", "torch": "import torch\n", "jax": "import jax\n"}
STAND_IN = """\
from typing import Any

class Array:
    def __dlpack__(self, *, stream: Any | None = -1, max_version: tuple[int, int] | None = None) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

x: Array
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with typed.pyi."""
    folder = tmp_path_factory.mktemp("typed")
    done = run("stubs", build(folder / "typed.so", TYPED), "-o", folder / "typed.pyi")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for name, code in REAL.items():
        (folder / f"of_{name}.py").write_text(code)
    (folder / "stand_in.pyi").write_text(STAND_IN)
    return folder


def write_uses(folder, *frameworks):
    """Write the files that use the stub with the arrays of each framework; return their texts by name."""
    texts = {}
    for framework in frameworks:
        module = framework if framework == "stand_in" else f"of_{framework}"
        imports = IMPORTS.get(framework, "import stand_in\n")
        lists = "" if framework == "stand_in" else "typed.lists(x, x)\n"  # a stand-in has no items
        text = imports + USE.replace("LISTS", lists).replace("FRAMEWORK", module).replace("TYPE", TYPES[framework])
        (folder / f"use_{framework}.py").write_text(text)
        texts[f"use_{framework}.py"] = text
    return texts


def installed(*frameworks):
    found = [name for name in frameworks if importlib.util.find_spec(name)]
    return found or pytest.skip(f"none of these is installed: {', '.join(frameworks)}")


def test_mypy(folder):
    texts = write_uses(folder, "stand_in")
    check_lines(texts, mypy(folder, *texts, "typed.pyi"))


def test_mypy_with_frameworks(folder):
    names = ["numpy", "torch", "jax"] if os.environ.get("TENON_TYPES_LONG") else ["numpy"]
    texts = write_uses(folder, *installed(*names))
    check_lines(texts, mypy(folder, *texts))


def test_pyright(folder):
    texts = write_uses(folder, *installed("numpy", "torch", "jax"))
    check_lines(texts, pyright(folder, *texts, "typed.pyi"))
