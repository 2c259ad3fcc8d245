"""The stub and the description of a library with classes."""

import ast

import pytest
from building import build, tenon
from type_checkers import check_lines, mypy

_describe_library = pytest.importorskip("tenon._describe_library")
_stubs = pytest.importorskip("tenon._stubs")

NAMES = """
#include <tenon/function.h>
static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
TENON_MODULE(names, NULL,
    TENON_CLASS("Any", "Has the name of a type."),
    TENON_FUNCTION("Any(x: int)", none, "Makes one.\\n\\n"),
    TENON_FUNCTION("Any.int(self, x: int) -> int", none, NULL),
    TENON_FUNCTION("Any.Other(self) -> handle('Other')", none, NULL),
    TENON_FUNCTION("Any._fields(self) -> a: int, b: f32[2]", none, NULL),
    TENON_FUNCTION("Any.shown(self) -> f32[3] of(self)", none, NULL),
    TENON_CLASS("Other", NULL),
    TENON_FUNCTION("Other.bool(self, any: handle('Any')?) -> bool, str", none, NULL))
"""

QUOTES = r"""
#include <tenon/function.h>
TENON_MODULE(quotes, "\"\"\"\"", TENON_CONSTANT("A = 1", "in \"\"\""), TENON_CONSTANT("B = 2", "two \"\" and \\\""),
    TENON_CLASS("C", "\"\"\" first, and a backslash \\"))
"""

# A line with "# error" is one that a checker must complain about; no other line is.
USE = """\
import boxes
from array import array

x = array("f", [1, 2])
box = boxes.Box(x, scale=2)
boxes.Box(x, "2")  # error
boxes.Box()  # error
number: float = box.dot(x)
box.dot(x=x)
box.dot()  # error
rows = box.nearest(x, k=3).rows
box.nearest(x, "k")  # error
box.scaled(x, out=x)
box.scaled(x, like="numpy")
box.scaled(x, out=x, like="numpy")  # error
size: int = len(box)
first: float = box[0]
box["text"]  # error
numbers: list[float] = list(box)
for number in box:
    first = number
1.5 in box
list(boxes.bare())  # error
closed: bool = box.closed
box.closed = True  # error
with box as same:
    same.close()
other: boxes.Box = boxes.join(box, box, box, same)
boxes.sum_of(None)
boxes.sum_of(boxes.bare())  # error
boxes.Bare()  # error
boxes.use(boxes.index())
boxes.use(box)  # error
box.nonsense()  # error
"""


def stub(library, folder):
    module = tenon.load(library)
    file = folder / f"{module.__name__}.pyi"
    file.write_text(_stubs.stub(module, library.name))
    return file.read_text()


def test_stub(tmp_path):
    text = stub(build("classes/boxes.c"), tmp_path)
    assert '@final\nclass Box(metaclass=type):\n    """A box of numbers."""\n    def __new__(cls, x: _Array, scale' in text
    assert "    def __new__(cls, _: NoReturn, /) -> Bare: ...\n" in text
    assert "def sum_of(box: Optional[Box] = ...) -> float:" in text
    compile(text, "boxes.pyi", "exec")


def test_stub_of_names_that_are_taken(tmp_path):
    text = stub(build(NAMES), tmp_path)
    assert "import builtins as _tenon_builtins\n" in text
    assert "def int(self, x: Union[SupportsIndex, _Bits]) -> _tenon_builtins.int:" in text
    assert "def Other(self) -> _tenon_typing.Any:" in text
    assert "def shown(self, *, like: _tenon_typing.Any = ...)" in text
    compile(text, "names.pyi", "exec")


def test_mypy(tmp_path):
    stub(build("classes/boxes.c"), tmp_path)
    stub(build(NAMES), tmp_path)
    (tmp_path / "use.py").write_text(USE)
    check_lines({"use.py": USE}, mypy(tmp_path, "boxes.pyi", "names.pyi", "use.py"))


def test_describe():
    assert _describe_library.describe(tenon.load(build(NAMES))) == (
        "# names\n\n# Has the name of a type.\nclass Any\n\n# Makes one.\n#\nAny(x: int)\n\n"
        "Any.int(self, x: int) -> int\n\nAny.Other(self) -> handle('Other')\n\nAny._fields(self) -> a: int, b: f32[2]\n\n"
        "Any.shown(self) -> f32[3] of(self)\n\nclass Other\n\n"
        "Other.bool(self, any: handle('Any')?) -> bool, str\n"
    )


def test_named_results_have_the_name_that_the_module_has(tmp_path):
    source = NAMES.replace("Any._fields", "Any.find_KD").replace('"Any', '"KDTree').replace("'Any'", "'KDTree'")
    library = build(source)
    assert "class KDTree_find_KD_result(NamedTuple):\n" in stub(library, tmp_path)
    assert tenon.load(library).KDTree_find_KD_result._fields == ("a", "b")


def test_quotes_in_the_documentation():
    library = tenon.load(build(QUOTES))
    tree = ast.parse(_stubs.stub(library, "quotes"))
    texts = [node.value.value for node in tree.body if isinstance(node, ast.Expr)]
    assert texts == ['""""', 'in """', 'two "" and \\"']
    assert [ast.get_docstring(node) for node in tree.body if isinstance(node, ast.ClassDef)][-1].endswith("backslash \\")
