"""python -m tenon stubs: a .pyi that type checkers accept, and that says what the functions take."""

import ast
import os

import pytest
from libraries import AWKWARD, WIDE, build, run, tenon
from type_checkers import check_lines, mypy, pyright

# Of the stubs of NumPy and torch what matters here: reading theirs takes a minute.
BOOLS = """\
class np_bool:
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __bool__(self) -> bool: ...
    def __invert__(self) -> np_bool: ...

class SupportsBoth:
    def __index__(self) -> int: ...
"""
TORCH = """\
from typing import Any

class Tensor:
    def __len__(self) -> int: ...
    def __iter__(self) -> Any: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __int__(self) -> int: ...
    def __invert__(self) -> Tensor: ...
"""

# A line with "# error" is one that a checker must complain about; no other line is.
USE = """\
from array import array
from fractions import Fraction
from typing import Any

import torch
import wide
from bools import SupportsBoth, np_bool

x = array("f", [1, 2, 3])
wide.saxpy(2.0, x, x)
wide.saxpy(a=2, x=x, y=x)
wide.saxpy(Fraction(1, 2), x, x, out=x)
wide.saxpy(2.0, x, x, out=None, like="numpy")
wide.saxpy("2", x, x)  # error
wide.saxpy(2.0, x)  # error
wide.saxpy(2.0, x, x, nonsense=1)  # error

result = wide.pool(x, "mean", i=1)
wide.pool(x, "s  um", size=(1, 2), w=[1, 2.5], m=None, b=False, s="", i=2)
wide.pool(x, i=1, like="numpy")
wide.pool(x, "max", i=1)  # error
wide.pool(x, "mean", (1, 2), i=1)  # error
wide.pool(x)  # error
wide.pool(x, size=(1.5, 2), i=1)  # error
wide.pool(x, i=1, out=x)  # error
y, count, number, kind = result
total: int = result.count + count
if result.kind == "a":
    pass
wrong: str = result.int  # error

index = wide.open("path")
wide.open("path", index)
wide.open("path", None)
wide.close(index, index, index)  # error
wide.open(3)  # error

t = torch.Tensor()
like_t: torch.Tensor = wide.grad(t, t)
wide.grad(t, array("q", [1]))
wide.grad(t, x)  # error
wide.grad(t, range(3))
wide.grad(t, [1, np_bool()])
wide.grad(x, t)  # error
wide.grad(t, "12")  # error
wide.grad(t, [1.5])  # error
wide.grad(t, 3)  # error
wide.grad(t, {1})  # error
wide.grad(t, {1: 2})  # error
wide.grad(t, iter([1]))  # error

whole, part, truth, text = wide.int(3)
wide.int(np_bool())
wide.int(SupportsBoth())
wide.int(Fraction(1, 2))  # error
wide.int(t)
fine: tuple[int, float, bool, str] = (whole, part, truth, text)
wide.int(3.5)  # error
wide.nonzero(x, like=x)
wide.nonzero(x, out=x)  # error
only: float = wide.total(x).total
version: str = wide.__version__
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    """A folder with wide.pyi."""
    folder = tmp_path_factory.mktemp("stub")
    done = run("stubs", build(folder / "wide.so", WIDE), "-o", folder / "wide.pyi")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (folder / "use.py").write_text(USE)
    (folder / "bools.pyi").write_text(BOOLS)
    (folder / "torch.pyi").write_text(TORCH)
    return folder


@pytest.mark.parametrize("doc", ["", " ", r"\n\n  \n"])
def test_blank_doc_of_a_module(tmp_path, doc):
    code = f"""
    #include <tenon/function.h>
    static tenon_status f(tenon_call *call) {{ (void)call; return TENON_OK; }}
    TENON_MODULE(blank, "{doc}", TENON_FUNCTION("f()", f, "{doc}"))"""
    done = run("stubs", build(tmp_path / "blank.so", code))
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.count('"""') == 2
    compile(done.stdout, "blank.pyi", "exec")


def test_mypy(stub):
    accepted = mypy(stub, "wide.pyi")
    assert accepted.returncode == 0, accepted.stdout
    check_lines({"use.py": USE}, mypy(stub, "use.py"))


def test_pyright(stub):
    (stub / "pyproject.toml").write_text('[tool.pyright]\ntypeCheckingMode = "strict"\ninclude = ["wide.pyi"]\n')
    accepted = pyright(stub)
    (stub / "pyproject.toml").unlink()
    assert accepted.returncode == 0, accepted.stdout
    check_lines({"use.py": USE}, pyright(stub, "--pythonversion", "3.9", "use.py"))


def test_without_torch_and_tenon(stub, tmp_path):
    """Then a handle to torch's tensor is Any, and so is every array."""
    (tmp_path / "wide.pyi").write_text((stub / "wide.pyi").read_text(encoding="utf-8"), encoding="utf-8")
    use = "import wide\nwide.grad(3, [3])\nwide.grad(3, [3.5])  # error\nwide.saxpy(2.0, 3, wide.mode())\n"
    (tmp_path / "use.py").write_text(use)
    accepted = mypy(tmp_path, "--no-site-packages", "wide.pyi")
    assert accepted.returncode == 0, accepted.stdout
    check_lines({"use.py": use}, mypy(tmp_path, "--no-site-packages", "use.py"))


def test_package_itself():
    checked = mypy(os.path.dirname(__file__), "--follow-imports", "normal", "--exclude", "/templates/", "-p", "tenon")
    assert checked.returncode == 0, checked.stdout


def test_python_3_9_reads_it(stub):
    ast.parse((stub / "wide.pyi").read_text(encoding="utf-8"), feature_version=(3, 9))


def test_documentation_is_kept(stub):
    module = tenon.load(stub / "wide.so")
    tree = ast.parse((stub / "wide.pyi").read_text(encoding="utf-8"))
    docs = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            docs.setdefault(node.name, ast.get_docstring(node))  # the first of its overloads has it
    assert ast.get_docstring(tree) == module.__doc__
    assert docs["saxpy"] == "saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]\n\nReturns a*x + y."
    assert docs["pool"].endswith("where T = f32|f64\n\nTwo\n  lines.") and docs["pool"].count("\n") == 3
    assert docs["int"] == "int(x: int) -> int, float, bool, str"
    assert "Café" in docs["nonzero"]
    functions = [name for name, value in vars(module).items() if not name.startswith("__") and not isinstance(value, type)]
    assert list(docs) == functions


def test_printed_and_written_are_the_same(stub):
    printed = run("stubs", stub / "wide.so").stdout
    assert printed == (stub / "wide.pyi").read_text(encoding="utf-8")
    assert str(stub) not in printed  # the path of one machine is nobody else's


def test_library_without_functions_of_note(tmp_path):
    code = """
    #include <tenon/function.h>
    static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
    TENON_MODULE(plain, NULL, TENON_FUNCTION("f()", none, NULL))"""
    text = run("stubs", build(tmp_path / "plain.so", code), "-o", tmp_path / "plain.pyi").stderr
    assert text == ""
    assert "__version__" not in (tmp_path / "plain.pyi").read_text()
    accepted = mypy(tmp_path, "plain.pyi")
    assert accepted.returncode == 0, accepted.stdout


USE_AWKWARD = """\
from typing import Any

import awkward
from tenon import Tensor
from typing_extensions import assert_type


def use(x: Tensor, item: awkward.Item) -> None:
    found = awkward.find(x)
    assert_type(found.index, Any)
    assert_type(found.count, int)
    assert_type(found.self, Tensor)
    assert_type(found.cls, float)
    assert_type(found.mro, str)
    assert_type(tuple.index(found, 3) + tuple.count(found, 3), int)
    found.count(3)  # error
    assert_type(awkward.one(x).count, Tensor)
    words = awkward.words(x)
    assert_type(words.int, float)
    assert_type(words.float, int)
    assert_type(words.Any, Tensor)
    assert_type(words.NamedTuple, int)
    assert_type(awkward.more(x).tuple, bool)
    assert_type(awkward.overload(x, x, 3), Tensor)
    assert_type(awkward.overload(Array=x, self=x, cls=3), Tensor)
    assert_type(awkward.TypeVar(x, 3), Tensor)
    assert_type(awkward._ArrayT(x), Tensor)
    assert_type(item.index(x).index, Tensor)
    assert_type(item.property(), int)
    assert_type(item.overload(x), Tensor)
    for one in item:
        pass
"""


@pytest.mark.parametrize("check", [mypy, pyright])
def test_awkward_names(tmp_path, check):
    run("stubs", build(tmp_path / "awkward.so", AWKWARD), "-o", tmp_path / "awkward.pyi")
    (tmp_path / "use.py").write_text(USE_AWKWARD)
    check_lines({"use.py": USE_AWKWARD}, check(tmp_path, "use.py", "awkward.pyi"))


OVERLOADED = r"""
#include <tenon/function.h>
static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
TENON_MODULE(overloaded, NULL,
    TENON_FUNCTION("f(x: f32[n]) -> f32[n]", none, "Floats."), TENON_FUNCTION("f(x: f64[n]) -> f64[n]", none, NULL),
    TENON_FUNCTION("f(x: i64[n]) -> float", none, NULL), TENON_FUNCTION("g(n: int) -> str", none, NULL),
    TENON_FUNCTION("g(n: float) -> low: int, high: float", none, NULL),
    TENON_FUNCTION("g(n: str) -> low: int, high: float, step: int", none, NULL),
    TENON_CLASS("Box", NULL), TENON_FUNCTION("Box()", none, NULL), TENON_FUNCTION("Box(n: int)", none, NULL),
    TENON_FUNCTION("Box.put(self)", none, NULL), TENON_FUNCTION("Box.put(self, n: int) -> int", none, NULL))
"""


def test_overloads(tmp_path):
    """Entries that differ in their types are overloads; those that differ in dtypes are one definition."""
    library = build(tmp_path / "overloaded.so", OVERLOADED)
    text = run("stubs", library).stdout
    assert text.count("@overload\ndef f(") == 4 and text.count("@overload\ndef g(") == 3
    assert text.count("    @overload\n    def __new__(cls") == 2 and text.count("    @overload\n    def put(self") == 2
    assert '"""f(x: f32[n]) -> f32[n]\n\n    Floats.\n\n    f(x: f64[n]) -> f64[n]\n    """' in text
    assert "class g_result(NamedTuple):\n    low: int\n    high: float\n\nclass g_result_3(NamedTuple):" in text
    (tmp_path / "overloaded.pyi").write_text(text)
    (tmp_path / "use.py").write_text("import overloaded\nreveal_type(overloaded.Box().put(3))\nreveal_type(overloaded.g('x').step)\n")
    checked = mypy(tmp_path, "use.py")
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.replace("builtins.", "").count('Revealed type is "int"') == 2
