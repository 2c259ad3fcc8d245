"""tenon.load takes what the system's loader takes, whichever linker and language made it."""

import os

import pytest
from building import build, tenon
from programs import runs

# The variables of each thread: zeros, which are not in the file, and other numbers, which are.
SOURCE = """
#include <tenon/function.h>
static _Thread_local volatile int64_t zeros[SIZE];
#ifdef START
static _Thread_local volatile int64_t start = START;
#endif
static tenon_status total(tenon_call *call)
{
    int64_t sum = ++zeros[0] + zeros[SIZE / 2] + zeros[SIZE - 1];
#ifdef START
    sum += start;
#endif
    tenon_return_int(call, 0, sum);
    return TENON_OK;
}
TENON_MODULE(totals, "Thread-local variables.", TENON_FUNCTION("total() -> int", total, NULL))
"""
OPTIONS = {
    "plain": [],
    "stripped": ["-s"],
    "bound_now": ["-Wl,-z,relro,-z,now"],
    "without_relro": ["-Wl,-z,norelro"],
    "pages_of_64k": ["-Wl,-z,max-page-size=65536"],
    "pages_of_2m": ["-Wl,-z,max-page-size=2097152"],
    "one_segment": ["-Wl,-z,noseparate-code"],
}


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
@pytest.mark.parametrize("option", list(OPTIONS))
def test_thread_local_variables(linker, option):
    if not runs("mold" if linker == "mold" else f"ld.{linker}"):
        pytest.skip(f"the linker {linker} is not installed")
    if (linker, option) == ("gold", "one_segment"):
        pytest.skip("gold does not have this option")
    for size, start in (3, []), (1 << 17, []), (1 << 17, ["-DSTART=100"]):
        path = build(SOURCE, f"-DSIZE={size}", *start, f"-fuse-ld={linker}", *OPTIONS[option], name="totals.so")
        totals = tenon.load(path)
        assert [totals.total(), totals.total()] == ([101, 102] if start else [1, 2])


def test_a_library_that_the_interpreter_uses():
    """NumPy's own, which other tools than a linker have changed. It has no functions for Tenon, and that is all."""
    numpy = pytest.importorskip("numpy")
    folder = os.path.join(os.path.dirname(os.path.dirname(numpy.__file__)), "numpy.libs")
    paths = [os.path.join(folder, name) for name in os.listdir(folder)] if os.path.isdir(folder) else []
    if not paths:
        pytest.skip("this NumPy has no libraries of its own")
    for path in paths:
        with pytest.raises(ImportError, match=r"it has no tenon_module_v1\(\)"):
            tenon.load(path)
