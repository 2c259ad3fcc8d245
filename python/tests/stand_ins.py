"""Stand-ins for torch and for the CUDA driver that record their calls, for the tests of streams."""

import os
import shlex
import subprocess
import sys
import textwrap

import pytest
from programs import runs

DRIVER = """
#include <stdio.h>
#include <string.h>
char said[4096];
int fails;
#define SAY(...) snprintf(said + strlen(said), sizeof said - strlen(said), __VA_ARGS__)
int cuDeviceGet(int *out, int ordinal) { *out = 100 + ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void **out, int device) { *out = (void *)(long)device; SAY("retain %d;", device); return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { SAY("release %d;", device); return 0; }
int cuCtxPushCurrent_v2(void *context) { SAY("push %ld;", (long)context); return 0; }
int cuCtxPopCurrent_v2(void **out) { *out = 0; SAY("pop;"); return 0; }
int cuEventCreate(void **out, unsigned flags) { *out = (void *)9; return fails > 1 ? 3 : flags == 2 ? 0 : 1; }
int cuEventRecord(void *event, void *stream) { (void)event; SAY("record %ld;", (long)stream); return fails ? 400 : 0; }
int cuEventDestroy_v2(void *event) { (void)event; SAY("destroy;"); return 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)event; (void)flags; SAY("wait %ld;", (long)stream); return 0;
}
int cuStreamSynchronize(void *stream) { SAY("synchronize %ld;", (long)stream); return fails > 1 ? 700 : 0; }
"""

STAND_INS = """
import ctypes, sys, types
driver = ctypes.CDLL(sys.argv[1])
said = (ctypes.c_char * 4096).in_dll(driver, "said")
def words():
    text = said.value.decode()
    said.value = b""
    return text
def fail(how):
    ctypes.c_int.in_dll(driver, "fails").value = how
import tenon_probe as probe, dlpack
from producers import Producer, through
from contextlib import contextmanager
@contextmanager
def raises(kind, text):
    try:
        yield
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"{kind} was not raised")

IN_CONTEXT = "retain 10{0};push 10{0};{1}pop;release 10{0};"
def ordered(first, second, device=0):
    return IN_CONTEXT.format(device, f"record {first};wait {second};destroy;")
def waited(stream, device=0):
    return IN_CONTEXT.format(device, f"synchronize {stream};")
"""

TORCH = """
class Tensor:  # what the bridge asks every tensor
    def is_neg(self):
        return False
    is_conj = is_neg
    def storage_offset(self):
        return 0
taken, streams = [], {"now": 0x5000}
address = ctypes.pythonapi.PyCapsule_New
address.restype, address.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
fields = dict(dlpack.Exchange._fields_)
@fields["stream"]
def stream(device_type, device_id, out):
    out[0] = streams["now"]
    return 0
@fields["to_object"]
def to_object(managed, out):
    dlpack.DELETER(managed.contents.deleter)(managed)
    made = ["torch"]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    out[0] = id(made)
    return 0
@fields["from_object"]
def from_object(given, out):
    return dlpack.table_of(probe.Tensor).from_object(memory, out)
@fields["borrow"]
def borrow(given, out):
    return dlpack.table_of(probe.Tensor).borrow(memory, out)
table = dlpack.Exchange(1, 3, None, fields["allocate"](), from_object, to_object, borrow, stream)
NAME = b"dlpack_exchange_api"
Tensor.__dlpack_c_exchange_api__ = address(ctypes.addressof(table), NAME, None)
torch = sys.modules["torch"] = types.ModuleType("torch")
torch.Tensor = Tensor
kept = probe.new("f32", (4,), None, 0, 0, 2)
memory = probe.export(kept)
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if not runs(compiler[0]):
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    file = folder / "stand-in.so"
    options = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*compiler, *options, str(folder / "driver.c"), "-o", str(file)], check=True)
    return file


def run(driver, code):
    """Run it in a new process, where nothing else has loaded torch or a driver."""
    paths = [os.environ.get("TENON_PROBE", ""), os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    program = STAND_INS + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program, str(driver)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
