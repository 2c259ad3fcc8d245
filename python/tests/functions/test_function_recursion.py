"""An argument whose own code calls the function again, for ever: a RecursionError, not the end of the stack."""

import os
import resource
import sys

import pytest
from building import build, run_python

STACK = 7 << 20  # less than most systems give; what sanitizers add to each frame is not ours
if "asan" in os.environ.get("LD_PRELOAD", ""):
    STACK *= 10


def limit_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))


LIBRARY = """
#include <tenon/function.h>

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

#define MANY "a: f32[n], b: f32[n], c: f32[n], d: f32[n], e: f32[n], f: f32[n]"
TENON_MODULE(nothings, "",
    TENON_FUNCTION("tensor(x: f32[n]) -> f32[n]", nothing, ""),
    TENON_FUNCTION("whole(k: int)", nothing, ""),
    TENON_FUNCTION("number(k: float)", nothing, ""),
    TENON_FUNCTION("many(" MANY ", x: f32[n]) -> f32[n]", nothing, ""),
    TENON_FUNCTION("list(k: ints)", nothing, ""))
"""

CODE = """
import array, sys
import tenon
library = tenon.load(sys.argv[1])
numbers = array.array("f", [1, 2, 3])

class Producer:
    def again(self, *arguments, **options):
        if keyword:
            function(numbers, **{keyword: self})
        else:
            function(*before, self)
        raise AssertionError("it returned")

    __dlpack__ = __index__ = __float__ = __len__ = __getitem__ = empty = again

    def __dlpack_device__(self):
        return (1, 0)

class Interface:
    again = Producer.again
    __array_interface__ = property(Producer.again)

class Buffer:
    again = Producer.again
    __buffer__ = Producer.again

class Standard(Producer):
    device = "cpu"
    float32 = "float32"

    def __array_namespace__(self):
        return self

    def __dlpack__(self, **options):
        return tenon.to(numbers, "tenon").__dlpack__(**options)

before, keyword = (), None
kind, function = {
    "dlpack": (Producer, library.tensor),
    "interface": (Interface, library.tensor),
    "buffer": (Buffer, library.tensor),
    "index": (Producer, library.whole),
    "float": (Producer, library.number),
    "list": (Producer, library.list),
    "out": (Producer, library.tensor),
    "like": (Producer, library.tensor),
    "result": (Standard, library.tensor),
    "many": (Producer, library.many),
}[sys.argv[2]]
if sys.argv[2] in ("out", "like"):
    keyword = sys.argv[2]
if sys.argv[2] == "many":
    before = [numbers] * 6
for _ in range(3):
    try:
        kind.again(kind())
    except RecursionError as error:
        print(type(error).__name__)
print(len(memoryview(library.tensor(numbers))))
"""


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="what sanitizers add to each frame is not ours")
def test_a_raised_limit():
    """The count ends it before the usual stack does."""
    for way in ("dlpack", "like", "index"):
        code = "import sys; sys.setrecursionlimit(10_000)\n" + CODE
        assert run_python(code, build(LIBRARY), way).split() == ["RecursionError"] * 3 + ["3"]


@pytest.mark.parametrize(
    "way", ["dlpack", "interface", "index", "float", "list", "out", "like", "result", "many",
            pytest.param("buffer", marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="since 3.12"))])
def test_endless_recursion(way):
    printed = run_python(CODE, build(LIBRARY), way, preexec_fn=limit_stack)
    assert printed.split() == ["RecursionError"] * 3 + ["3"]
