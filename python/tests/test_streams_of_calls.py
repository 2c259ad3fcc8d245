"""The streams of a call of a function: it runs on one, and the other frameworks in it wait for each other. Stand-ins as in
test_streams.py; on a GPU gpu/streams.py reads the memory."""

import pytest
from stand_ins import TORCH, driver, run  # noqa: F401

CALL = """
import os
sys.path.append(os.path.join(os.path.dirname(dlpack.__file__), "functions"))
from handmade import Echo
Tensor.__module__ = "torch"
asked = []
def hand_out(self, *, stream=None, **options):
    asked.append(stream)
    return memory.__dlpack__(stream=-1, **options)
Tensor.__dlpack__, Tensor.__dlpack_device__, Tensor.requires_grad = hand_out, lambda self: (2, 0), False
Tensor.is_neg, Tensor.data_ptr = lambda self: False, lambda self: memory.data_ptr
def calls(signature, *arguments):
    echo = Echo(signature)
    echo(*arguments)
    return echo.seen["stream"], words()
"""


def test_other_frameworks_wait_for_a_call(driver):
    """It runs on the stream of the first array's framework; what another one does next on its own stream comes later."""
    pytest.importorskip("tenon")
    run(
        driver,
        TORCH
        + CALL
        + """
echo = "f(x: f32[*a] cuda, y: f32[*b] {} cuda)"
other = Producer()
assert calls(echo.format(""), other, Tensor()) == (0, ordered(1, 0x5000))
assert other.since() == [1] and asked.pop() == 1 and not asked
assert calls(echo.format(""), Tensor(), other) == (0x5000, "") and other.since() == [0x5000]
assert calls(echo.format("rw"), Tensor(), other) == (0x5000, waited(0x5000))
fail(2)
with raises(RuntimeError, "CUDA did not order two streams on cuda:0 (error 700 of the driver)"):
    calls(echo.format("rw"), Tensor(), other)
fail(0)
words(), other.since()
assert calls(echo.format("rw alias"), Tensor(), Tensor()) == (0x5000, "") and not asked
lists = "f(x: f32[*a] cuda, ys: [f32[*_] rw cuda])"
assert calls(lists, Tensor(), [other]) == (0x5000, waited(0x5000))
assert calls(lists.replace("rw", ""), other, [Tensor()]) == (0, ordered(1, 0x5000))
""",
    )


def test_a_call_on_cupys_stream(driver):
    pytest.importorskip("tenon")
    run(
        driver,
        TORCH
        + CALL
        + """
cupy, cuda = types.ModuleType("cupy"), types.ModuleType("cupy.cuda")
sys.modules["cupy"], sys.modules["cupy.cuda"], cupy.cuda = cupy, cuda, cuda
cuda.get_current_stream = lambda: types.SimpleNamespace(ptr=0x6000)
def from_dlpack(x):
    return x.__dlpack__(stream=0x6000)
cupy.from_dlpack = from_dlpack
class Array(Producer):
    pass
Array.__module__ = "cupy"
array = Array()
assert calls("f(x: f32[*a] cuda)", array) == (0x6000, "")
assert calls("f(x: f32[*a] cuda, y: f32[*b] rw cuda)", array, Tensor()) == (0x6000, ordered(0x6000, 0x5000))
assert calls("f(x: f32[*a] cuda, y: f32[*b] rw cuda)", Tensor(), array) == (0x5000, ordered(0x5000, 0x6000))
""",
    )


def test_results_of_cupy(driver):
    """CuPy makes them on the device of the call, which is entered only if it is not the current one."""
    pytest.importorskip("tenon")
    run(
        driver,
        TORCH
        + CALL
        + """
cupy, cuda, log, current = types.ModuleType("cupy"), types.ModuleType("cupy.cuda"), [], [0]
sys.modules["cupy"], cupy.cuda = cupy, cuda
cuda.get_current_stream = lambda: types.SimpleNamespace(ptr=1)
cuda.runtime = types.SimpleNamespace(getDevice=lambda: current[0])
class Device:
    def __init__(self, id):
        self.id = id
    def __enter__(self):
        log.append(("enter", self.id))
    def __exit__(self, *error):
        log.append(("exit", self.id))
cuda.Device = Device
class Array(Producer):
    pass
Array.__module__ = "cupy"
def ndarray(shape, dtype):
    log.append((shape, dtype))
    if shape == (3,):
        raise MemoryError("no more")
    array = Array()
    array.data = types.SimpleNamespace(ptr=memory.data_ptr)
    return array
cupy.ndarray = ndarray
assert type(Echo("f(x: f32[*a] cuda) -> f32[2]")(Array())) is Array
assert log == [((2,), "float32")], log
current[0] = 1
log.clear()
Echo("f(x: f32[*a] cuda) -> f32[2]")(Array())
assert log == [("enter", 0), ((2,), "float32"), ("exit", 0)], log
log.clear()
with raises(MemoryError, "no more"):
    Echo("f(x: f32[*a] cuda) -> f32[3]")(Array())
assert log == [("enter", 0), ((3,), "float32"), ("exit", 0)], log
# Scratch memory on a device is an array of the framework, too.
from building import build, tenon
scratch = tenon.load(build('''
#include <tenon/function.h>
static tenon_status scratch(tenon_call *call)
{
    return tenon_return_int(call, 0, (intptr_t)tenon_scratch(call, (size_t)tenon_arg_int(call, 1)));
}
TENON_MODULE(scratches, "", TENON_FUNCTION("scratch(x: f32[*a] cuda, bytes: int) -> int", scratch, ""))
''')).scratch
log.clear()
current[0] = 0
assert scratch(Array(), 64) == memory.data_ptr and scratch(Array(), 0) == memory.data_ptr
assert log == [((64,), "uint8"), ((1,), "uint8")], log
with raises(MemoryError, "no more"):
    scratch(Array(), 3)
with raises(ValueError, "Tenon cannot allocate memory on its device"):
    scratch(Producer(), 64)
# The call runs on torch's stream: it waits for the new array, and CuPy's stream for it.
cupy.from_dlpack = lambda x: x.__dlpack__(stream=1)
made = Echo("f(x: f32[*a] cuda) -> f32[2]")(Tensor(), like=Array())
assert type(made) is Array and made.since() == [0x5000] and words() == ordered(0x5000, 1)
""",
    )


def test_results_are_where_the_call_runs(driver):
    """A kernel on a device is never given memory of the CPU."""
    pytest.importorskip("tenon")
    pytest.importorskip("numpy")
    run(
        driver,
        TORCH
        + CALL
        + """
import numpy
del sys.modules["torch"]
echo = Echo("f(x: f32[*a] cuda) -> f32[2]")
for like in ("numpy", numpy, numpy.zeros(2), "tenon"):
    with raises(ValueError, "f(): argument 'like': the call runs on cuda:0, and the framework's new array is on cpu"):
        echo(Producer(), like=like)
    assert echo.seen is None
with raises(ValueError, "f(): argument 'like'"):
    Echo("f(x: f32[n]) -> f32[2]")(numpy.zeros(3, "f4"), like=Producer())
""",
    )
