"""Libraries of functions for the tests of the package: compiled as a user would compile them, with the installed
headers."""

import os
import subprocess
import sys

import pytest
from programs import runs

tenon = pytest.importorskip("tenon", reason="the package is not installed; pip install .")
COMPILER = os.environ.get("CC", "cc")
if not runs(COMPILER):
    pytest.skip("there is no C compiler that runs", allow_module_level=True)

# `answer` is a constant of the build, `next` counts the calls of all modules of one open library, `mine` those of one.
COUNTING = """
#include <stdlib.h>
#include <tenon/function.h>
static int calls;
static tenon_status answer(tenon_call *call) { tenon_return_int(call, 0, ANSWER); return TENON_OK; }
static tenon_status next(tenon_call *call) { tenon_return_int(call, 0, ++calls); return TENON_OK; }
static tenon_status mine(tenon_call *call) { tenon_return_int(call, 0, ++*(int *)call->state); return TENON_OK; }
static tenon_status load(tenon_call *call, void **state)
{
    (void)call;
    *state = calloc(1, sizeof(int));
    return TENON_OK;
}
TENON_MODULE_STATE(counting, "Counts.", load, free,
    TENON_FUNCTION("answer() -> int", answer, "Of this build."),
    TENON_FUNCTION("next() -> int", next, NULL),
    TENON_FUNCTION("mine() -> int", mine, NULL))
"""

# These functions are never called. They use every feature of signatures once.
WIDE = r"""
#define TENON_MODULE_VERSION "1.2"
#include <tenon/function.h>
static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
TENON_MODULE(wide, "Wide \\ and \"quoted\".\n\nWith \"\"\" in it, ends \"so\"",
    TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", none, "Returns a*x + y."),
    TENON_FUNCTION("pool(x: T[n, k],\n  mode: 'mean'|'s  um' = 'mean', *, size: ints[2] = (1, 2), w: floats?,"
        " m: f32[n]?, b: bool = True, s: str = 'x', i: int) -> y: T[n], count: int, int: float, kind: 'a'|'b'?"
        " where T = f32|f64",
        none, "Two\n  lines."),
    TENON_FUNCTION("open(path: str, like_this: handle('my index')?) -> handle('my index')", none, "Opens."),
    TENON_FUNCTION("close(index: handle('my index'), other: handle('Any'), third: handle('2d'))", none, ""),
    TENON_FUNCTION("int(x: int) -> int, float, bool, str", none, NULL),
    TENON_FUNCTION("Literal(x: f32[n] rw, __y: int)", none, NULL),
    TENON_FUNCTION("typing(x: int? = None)", none, NULL),
    TENON_FUNCTION("nonzero(x: f32[n]) -> i64[?]", none, "Caf\u00e9."),
    TENON_FUNCTION("grad(t: handle('torch.Tensor'), sizes: ints) -> handle('torch.Tensor')", none, NULL),
    TENON_FUNCTION("mode() -> 'a'|\"b\"", none, NULL),
    TENON_FUNCTION("total(x: f32[n]) -> total: float", none, NULL))
"""

# Nor are these. Their results have the type of the first tensor, or not.
TYPED = """
#include <tenon/function.h>
static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
TENON_MODULE(typed, NULL,
    TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", none, NULL),
    TENON_FUNCTION("matmul(a: T[*b, n, k], b: T[*b, k, m]) -> T[*b, n, m] where T = f32|f64", none, NULL),
    TENON_FUNCTION("keyword(*, k: int = 3, x: f32[n]) -> f32[n]", none, NULL),
    TENON_FUNCTION("positive(x: f32[n]) -> f32[?]", none, NULL),
    TENON_FUNCTION("perhaps(x: f32[n]) -> f32[n]?", none, NULL),
    TENON_FUNCTION("other_dtype(x: f32[n]) -> i64[n]", none, NULL),
    TENON_FUNCTION("other_rank(x: f32[n, k]) -> f32[n]", none, NULL),
    TENON_FUNCTION("more_dims(x: f32[*b]) -> f32[*b, 3]", none, NULL),
    TENON_FUNCTION("other_variable(x: T[n], y: U[n]) -> U[n] where T = f32|f64, U = f32|f64", none, NULL),
    TENON_FUNCTION("several_dtypes(x: real[n]) -> f32[n]", none, NULL),
    TENON_FUNCTION("optional(n: int, x: f32[n]?) -> f32[n]", none, NULL),
    TENON_FUNCTION("zeros(n: int) -> f32[n]", none, NULL),
    TENON_FUNCTION("pair(x: f32[n]) -> f32[n], i64[n], int", none, NULL),
    TENON_FUNCTION("search(x: f32[n]) -> index: i64[n], count: int, score: f32[n]", none, NULL),
    TENON_FUNCTION("score(x: f32[n], y: f32[n]?) -> float", none, NULL),
    TENON_CLASS("Tree", "A tree."),
    TENON_FUNCTION("lists(i: ints, f: floats[2]? = None) -> int", none, NULL),
    TENON_FUNCTION("Tree(points: f32[n, d] c keep, leaf: int = 16)", none, NULL),
    TENON_FUNCTION("Tree.query(self, x: f32[m, d] c, k: int = 1) -> rows: i64[m, k], distance: f32[m, k]", none, NULL),
    TENON_FUNCTION("Tree.shift(self, x: f32[n]) -> f32[n]", none, NULL),
    TENON_FUNCTION("Tree.points(self) -> f32[?, ?] of(self)", none, NULL),
    TENON_FUNCTION("Tree.head(self, x: f32[n]) -> f32[?] of(x)", none, NULL),
    TENON_FUNCTION("Tree.found(self, x: f32[n]) -> f32[n] own", none, NULL),
    TENON_FUNCTION("Tree.__len__(self) -> int", none, NULL),
    TENON_FUNCTION("Tree.__getitem__(self, i: int) -> float", none, NULL),
    TENON_CLASS("Rows", NULL),
    TENON_FUNCTION("rows() -> handle('Rows')", none, NULL),
    TENON_FUNCTION("Rows.__getitem__(self, i: int) -> f32[?] of(self)", none, NULL))
"""

# Names that mean something else in a stub, or in the body of its named tuples.
AWKWARD = """
#include <tenon/function.h>
static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
TENON_MODULE(awkward, NULL,
    TENON_FUNCTION("find(x: f32[n]) -> index: i64[n], count: int, self: f32[n], cls: float, mro: str", none, NULL),
    TENON_FUNCTION("one(x: f32[n]) -> count: f32[n]", none, NULL),
    TENON_FUNCTION("words(x: f32[n]) -> int: float, float: int, Any: f32[n], Generic: i64[n], NamedTuple: int", none, NULL),
    TENON_FUNCTION("more(x: f32[n]) -> Optional: int?, Item: handle('Item'), x: handle('Item'), tuple: bool", none, NULL),
    TENON_FUNCTION("overload(Array: f32[n], self: f32[n], cls: int) -> f32[n]", none, NULL),
    TENON_FUNCTION("TypeVar(tenon: f32[n], typing: int) -> f32[n]", none, NULL),
    TENON_FUNCTION("_ArrayT(x: f32[n]) -> f32[n]", none, NULL),
    TENON_CLASS("Item", NULL),
    TENON_FUNCTION("Item.index(self, x: f32[n]) -> index: f32[n], Item: handle('Item')", none, NULL),
    TENON_FUNCTION("Item.property(self) -> int", none, NULL),
    TENON_FUNCTION("Item.type(self) -> int", none, NULL),
    TENON_FUNCTION("Item.overload(self, x: f32[n]) -> f32[n]", none, NULL),
    TENON_FUNCTION("Item.Iterator(self) -> int", none, NULL),
    TENON_FUNCTION("Item.__getitem__(self, i: int) -> handle('Item')", none, NULL))
"""


def build(file, code, *options):
    """Compile the code into the file, and return the file."""
    source = file.with_suffix(".c")
    source.write_text(code)
    command = [COMPILER, "-shared", "-fPIC", *command_line("cflags"), str(source), "-o", str(file), *options]
    subprocess.run(command, check=True)
    return file


def counting(file, answer):
    return build(file, COUNTING, f"-DANSWER={answer}")


def run(*arguments, **options):
    """Run python -m tenon in a new process."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8", **options}
    return subprocess.run([sys.executable, "-m", "tenon", *map(str, arguments)], **options)


def command_line(*arguments):
    """The output of a command, split into words."""
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
