"""What went wrong once, in ways that no rule of the grammar or of the calls suggests."""

import array
import os
import pickle
import struct
import sys

import pytest
import tenon
from building import build, run_python
from handmade import Echo


# -------------------------------------------------------------------------------------- code that runs between borrows


def test_a_later_argument_takes_the_memory_away(kernels):
    """Numbers are converted before arrays are borrowed: what their code does to an array is seen."""
    numpy = pytest.importorskip("numpy")
    x = numpy.ones(1000, "float32")

    class Evil:
        def __index__(self):
            x.resize(0, refcheck=False)
            return 3

    echo = Echo("f(x: f32[n] rw, k: int)")
    echo(x, Evil())
    assert echo.seen["args"][0]["value"]["shape"] == [0]


def test_the_first_mistake_is_told_whatever_is_converted_first():
    echo = Echo("f(x: f32[n], k: int)")
    with pytest.raises(TypeError, match="argument 'x'"):
        echo("text", "text")
    with pytest.raises(TypeError, match="argument 'k'"):
        echo(array.array("f", [1]), "text")
    with pytest.raises(TypeError, match="argument 'x': expected f32"):
        echo(array.array("d", [1]), "text")
    with pytest.raises(TypeError, match="argument 'x': expected f32"):
        Echo("f(x: f32[n], y: f32[n])")(array.array("d", [1]), object())
    with pytest.raises(ValueError, match="argument 'y': dimension 0 is 2, but n = 1 from argument 'x'"):
        Echo("f(x: f32[n], y: f32[n], k: int)")(array.array("f", [1]), array.array("f", [1, 2]), 1.5)
    with pytest.raises(ValueError, match="argument 'x': dimension 0 is 2, but n = 1 from argument 'n'"):
        Echo("f(n: int, x: f32[n], k: int)")(1, array.array("f", [1, 2]), "text")


def test_what_a_later_argument_would_bind_is_not_a_mistake():
    with pytest.raises(TypeError, match="argument 'k'"):
        Echo("f(x: f32[n + 1], k: int, y: f32[n])")(array.array("f", [1]), "text", array.array("f", []))


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, MemoryError])
def test_an_interrupt_is_not_a_mistake(interrupt):
    class Evil:
        def __index__(self):
            raise interrupt

    with pytest.raises(interrupt):
        Echo("f(x: f32[n], k: int)")(array.array("d", [1]), Evil())


def test_as_many_names_as_there_can_be():
    """None of 32 names has a value, and none has that of an earlier call."""
    numpy = pytest.importorskip("numpy")
    names = iter([letter + digit for letter in "abcd" for digit in "12345678"])
    tensors = ", ".join(f"x{i}: u8[{', '.join(next(names) for _ in range(8))}]?" for i in range(4))
    echo = Echo(f"f({tensors})")
    array_of = lambda i: numpy.zeros([8 * i + k + 1 if k < 3 else 1 for k in range(8)], "u1")  # noqa: E731
    echo(*[array_of(i) for i in range(4)])
    assert echo.seen["dims"] == [8 * i + k + 1 if k < 3 else 1 for i in range(4) for k in range(8)]
    echo()
    assert echo.seen["dims"] == [-1] * 32
    echo(x2=array_of(2))
    assert echo.seen["dims"] == [-1] * 16 + [17, 18, 19, 1, 1, 1, 1, 1] + [-1] * 8


# ------------------------------------------------------------------------------------------------------------- results


def test_a_result_is_where_its_signature_says():
    with pytest.raises(ValueError, match=r"f\(\): result 0: expected f32\[n\] cuda, but the memory is on cpu"):
        Echo("f(n: int) -> f32[n] cuda")(3)


def test_a_result_that_the_function_makes_is_where_its_signature_says():
    source = """
    #include <tenon/function.h>
    static tenon_status f(tenon_call *call)
    {
        const int64_t shape[] = {3};
        return tenon_result_alloc(call, 0, 1, shape) ? TENON_OK : TENON_EFAILED;
    }
    TENON_MODULE(made, "", TENON_FUNCTION("f(n: int) -> f32[?] cuda", f, ""))
    """
    with pytest.raises(ValueError, match=r"f\(\): result 0: expected f32\[\?\] cuda, but the memory is on cpu"):
        tenon.load(build(source)).f(3)


def test_a_buffer_as_like_is_nobodys(kernels):
    numpy = pytest.importorskip("numpy")
    x = array.array("f", [1, 2, 3])
    assert type(kernels.saxpy(2.0, x, x)) is type(kernels.saxpy(2.0, x, x, like=x)) is numpy.ndarray
    with pytest.raises(TypeError, match=r"argument 'like': int: expected an array"):
        kernels.saxpy(2.0, x, x, like=3)
    with pytest.raises(TypeError, match=r"'out' and 'like' cannot be used together; pass only one$"):
        kernels.saxpy(2.0, x, x, like=x, out=array.array("f", [0, 0, 0]))


def test_services_of_the_host():
    source = """
    #include <tenon/function.h>
    static tenon_status services(tenon_call *call)
    {
        const tenon_host *host = call->host;
        tenon_return_bool(call, 0, host->parallel != NULL);
        tenon_return_bool(call, 1, host->extension(call, "tenon.torch", 1) != NULL);
        tenon_return_bool(call, 2, host->extension(call, "tenon.torch", 2) != NULL);
        tenon_return_bool(call, 3, host->extension(call, "tenon.unknown", 1) != NULL);
        tenon_return_bool(call, 4, host->extension(call, NULL, 1) != NULL);
        return TENON_OK;
    }
    TENON_MODULE(services, NULL, TENON_FUNCTION("services() -> bool, bool, bool, bool, bool", services, NULL))
    """
    assert tenon.load(build(source, name="services.so")).services() == (True, True, False, False, False)


def test_named_results_of_an_importable_module(kernels):
    named = kernels.moments(array.array("f", [1, 2, 3]))
    assert type(named).__name__ == "moments_result" and type(named) is kernels.moments_result
    sys.modules[kernels.__name__] = kernels
    try:
        assert type(pickle.loads(pickle.dumps(named))) is type(named)
    finally:
        del sys.modules[kernels.__name__]


def test_deleted_arrays(kernels):
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones(3, "float32")
    x.delete()
    with pytest.raises(ValueError, match=r"copy\(\): argument 'x': this JAX array was deleted"):
        kernels.copy(x)
    given = jax.numpy.ones(3, "float32")
    for first in (given, array.array("f", [1, 2, 3])):
        with pytest.raises(ValueError, match=r"^copy\(\): argument 'like': this JAX array was deleted or donated$"):
            kernels.copy(first, like=x)
        with pytest.raises(ValueError, match=r"^copy\(\): argument 'out': this JAX array was deleted or donated$"):
            kernels.copy(first, out=x)


def test_deleted_arrays_where_numbers_are_read(kernels):
    jax = pytest.importorskip("jax")
    number, numbers = jax.numpy.float32(1), jax.numpy.ones(3, "float32")
    number.delete(), numbers.delete()
    message = r"^f\(\): argument '%s': this JAX array was deleted or donated$"
    for signature, value, name in (
        ("f(a: float)", number, "a"),
        ("f(a: int)", number, "a"),
        ("f(a: floats)", [1.0, number], r"a\[1\]"),
        ("f(a: floats)", numbers, "a"),
        ("f(a: ints)", numbers, "a"),
        ("f(a: floats[3])", numbers, "a"),
    ):
        with pytest.raises(ValueError, match=message % name):
            Echo(signature)(value)


def test_deleted_arrays_in_functions_of_the_package():
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones(3, "float32")
    x.delete()
    deleted = r"': this JAX array was deleted or donated$"
    with pytest.raises(ValueError, match=r"^tenon\.from_dlpack\(\): argument 'x" + deleted):
        tenon.from_dlpack(x)
    with pytest.raises(ValueError, match=r"^tenon\.to\(\): argument 'x" + deleted):
        tenon.to(x, "numpy")
    if sys.platform == "linux":
        with pytest.raises(ValueError, match=r"^tenon\.share\(\): argument 'array" + deleted):
            tenon.share(x)


# ------------------------------------------------------------------------------------------------------------- loading


@pytest.mark.parametrize("name", ["__file__", "__getattr__", "__name__"])
def test_names_of_the_runtime(name):
    with pytest.raises(ImportError, match="names that start with '__' are reserved for the runtime"):
        Echo(f"{name}()")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_loads_while_its_parent_did():
    code = """
import os, sys, threading, warnings
import tenon
warnings.simplefilter("ignore")
tenon.load(sys.argv[1])  # or the child may wait for a module that the parent's thread was importing
stop = threading.Event()
def loop():
    while not stop.is_set():
        tenon.load(sys.argv[1])
thread = threading.Thread(target=loop)
thread.start()
try:
    for _ in range(20):
        child = os.fork()
        if child == 0:
            tenon.load(sys.argv[1])
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
finally:
    stop.set()
    thread.join()
"""
    run_python(code, build("kernels.c"), timeout=120)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_no_library(tmp_path):
    os.mkfifo(tmp_path / "pipe.so")
    with pytest.raises(OSError, match="not a regular file"):
        tenon.load(tmp_path / "pipe.so")


@pytest.mark.skipif(sys.platform != "linux", reason="ELF only")
def test_damaged_headers(tmp_path):
    """Each field of each program header wrong in turn: ImportError, or it loads; never the end of the process."""
    good = build("kernels.c").read_bytes()
    start, count = struct.unpack_from("<Q", good, 32)[0], struct.unpack_from("<H", good, 56)[0]
    files = []
    for header in range(count):
        for field in (0, 8, 16, 32, 40, 48):
            for value in (b"\xff" * 4, b"\x01\x00\x00\x70", b"\x03\x02\x01\x00"):
                data = bytearray(good)
                data[start + 56 * header + field : start + 56 * header + field + 4] = value
                files.append(tmp_path / f"{header}-{field}-{value[0]}-{value[3]}.so")
                files[-1].write_bytes(data)
    code = """
import sys
import tenon
for line in sys.stdin:
    print(line.strip(), flush=True)
    try:
        tenon.load(line.strip())
    except ImportError:
        pass
"""
    printed = run_python(code, check=False, input="\n".join(map(str, files)), timeout=120)
    assert printed.split() == list(map(str, files))
