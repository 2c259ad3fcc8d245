"""Calls the functions of kernels.c with the arrays of every installed framework.

python demo.py [FOLDER]     compiles into the folder; `make demo` runs it through tools/demo
"""

import array
import importlib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import timeit

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy
import tenon

HERE = pathlib.Path(__file__).parent
COMPILER = shlex.split(os.environ.get("CC", "cc"))
LARGE = 100_000_000  # elements of four bytes

# A function that returns the address of its argument's elements.
ADDRESS = """
#include <tenon/function.h>
static tenon_status address(tenon_call *call)
{
    return tenon_return_int(call, 0, (int64_t)(intptr_t)tenon_arg(call, 0)->data);
}
TENON_MODULE(address, NULL, TENON_FUNCTION("address(x: any[*b]) -> int", address, NULL))
"""

# The limit for hand-written C: dot for one kind of argument each, without any check. Not a way to write an extension.
LIMIT = r"""
#include <Python.h>
#include <stdint.h>

typedef struct { PyObject_HEAD float *data; int nd; Py_ssize_t *shape; } array_struct;       /* numpy.ndarray */
typedef struct { float *data; int32_t device[2], ndim; uint8_t dtype[4]; int64_t *shape, *strides, offset; } dl_tensor;
typedef struct { uint32_t version[2]; void *before[4]; int (*borrow)(void *, dl_tensor *); } exchange_table;

static PyObject *dot(const float *x, const float *y, Py_ssize_t n)
{
    double sum = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        sum += (double)x[i] * y[i];
    return PyFloat_FromDouble(sum);
}

static PyObject *by_struct(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    array_struct *x = (array_struct *)arguments[0], *y = (array_struct *)arguments[1];
    return dot(x->data, y->data, x->shape[0]);
}

static PyObject *by_buffer(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Py_buffer x, y;
    if (PyObject_GetBuffer(arguments[0], &x, PyBUF_FULL_RO) < 0)
        return NULL;
    if (PyObject_GetBuffer(arguments[1], &y, PyBUF_FULL_RO) < 0)
        return PyBuffer_Release(&x), NULL;
    PyObject *sum = dot(x.buf, y.buf, x.shape[0]);
    PyBuffer_Release(&x);
    PyBuffer_Release(&y);
    return sum;
}

static PyObject *by_table(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    static const exchange_table *table;
    if (!table) {
        PyObject *capsule = PyObject_GetAttrString((PyObject *)Py_TYPE(arguments[0]), "__dlpack_c_exchange_api__");
        table = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
        Py_XDECREF(capsule);
        if (!table)
            return NULL;
    }
    dl_tensor x, y;
    if (table->borrow(arguments[0], &x) || table->borrow(arguments[1], &y))
        return NULL;
    return dot(x.data, y.data, x.shape[0]);
}

static PyMethodDef methods[] = {
    {"by_struct", (PyCFunction)(void (*)(void))by_struct, METH_FASTCALL, NULL},
    {"by_buffer", (PyCFunction)(void (*)(void))by_buffer, METH_FASTCALL, NULL},
    {"by_table", (PyCFunction)(void (*)(void))by_table, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "limit", NULL, -1, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_limit(void) { return PyModule_Create(&definition); }
"""

COLOURED = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
BOLD, GREEN, RED, DIM = 1, 32, 31, 2


def coloured(text, code):
    return f"\033[{code}m{text}\033[0m" if COLOURED else text


def check(condition, what):
    if not condition:
        sys.exit(coloured(f"demo: wrong: {what}", RED))


def progress(text):
    print(coloured(f"demo: {text}", DIM), flush=True)


# --------------------------------------------------------------------------------------------------------- building


def compiled(source, target, *options):
    """Compile a library and return the command; if it fails, end the demo with the error."""
    command = [*COMPILER, "-O3", "-shared", "-fPIC", *options, str(source), "-o", str(target)]
    if sys.platform == "darwin":
        command[1:1] = ["-undefined", "dynamic_lookup"]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"demo: {error}")
    return command


def build(folder):
    """Build kernels.c as its first lines say, and the two libraries that only the demo needs."""
    flags = subprocess.run([sys.executable, "-m", "tenon", "cflags"], stdout=subprocess.PIPE, check=True)
    flags = shlex.split(flags.stdout.decode())
    compiled(HERE / "kernels.c", folder / "kernels.so", *flags)
    progress("cc -O3 -shared -fPIC $(python -m tenon cflags) kernels.c -o kernels.so")

    (folder / "address.c").write_text(ADDRESS)
    compiled(folder / "address.c", folder / "address.so", *flags)
    (folder / "limit.c").write_text(LIMIT)
    compiled(folder / "limit.c", folder / "limit.so", "-I" + sysconfig.get_path("include"))
    sys.path.insert(0, str(folder))
    limit = importlib.import_module("limit")
    sys.path.remove(str(folder))
    return tenon.load(folder / "kernels.so"), tenon.load(folder / "address.so").address, limit


# ------------------------------------------------------------------------------------------------------- frameworks


class Framework:
    def __init__(self, name, type_, make, pointer, by_hand, returns=None):
        self.name, self.type, self.make, self.pointer = name, type_, make, pointer
        self.by_hand = by_hand  # the hand-written function, or None
        self.returns = returns or name
        self.writable = name != "jax.Array"


def imported(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
    except Exception as error:  # a broken installation may raise anything
        progress(f"left out: {name}, whose import fails: {error!r:.80}")
        return None


def frameworks(limit):
    """The installed frameworks. make(n) returns n ones; pointer(x) is their address according to the framework."""

    def ones(count):
        return numpy.ones(count, "float32")

    def address_of_buffer(x):
        return numpy.frombuffer(x, "float32").ctypes.data

    found = [Framework("numpy.ndarray", numpy.ndarray, ones, lambda x: x.ctypes.data, limit.by_struct)]
    torch = imported("torch")
    if torch:
        by_hand = limit.by_table if hasattr(torch.Tensor, "__dlpack_c_exchange_api__") else None
        found.append(Framework("torch.Tensor", torch.Tensor, torch.ones, lambda x: x.data_ptr(), by_hand))
    jax = imported("jax")
    if jax:
        found.append(
            Framework(
                "jax.Array",
                jax.Array,
                lambda count: jax.numpy.ones(count, "float32").block_until_ready(),
                lambda x: x.unsafe_buffer_pointer(),
                limit.by_buffer,
            )
        )
    found += [
        Framework(
            "memoryview",
            memoryview,
            lambda count: memoryview(ones(count)),
            address_of_buffer,
            limit.by_buffer,
            "numpy.ndarray",
        ),
        Framework(
            "array.array",
            array.array,
            lambda count: array.array("f", [1]) * count,
            lambda x: x.buffer_info()[0],
            limit.by_buffer,
            "numpy.ndarray",
        ),
        Framework(
            "tenon.Tensor",
            tenon.Tensor,
            lambda count: tenon.to(ones(count), "tenon"),
            address_of_buffer,
            limit.by_buffer,
        ),
    ]
    if not torch and not jax:
        progress("neither torch nor JAX is installed; use make demo PYTHON=... with an interpreter that has them")
    return found


# -------------------------------------------------------------------------------------------------------- measuring


def nanoseconds(function, x, y):
    """The time of one call: the best of several tries."""
    timer = timeit.Timer("function(x, y)", globals={"function": function, "x": x, "y": y})
    return min(timer.repeat(7, 10_000)) / 10_000 * 1e9


def peak():
    """The peak memory of this process in bytes, since it began or since reset_peak()."""
    try:
        return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def reset_peak():
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def memory_is_free(needed):
    try:
        return int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) * 1024 > needed
    except OSError:
        return True


def growth(kernels, framework):
    """The bytes that a call with 400 MB adds to the peak memory."""
    x = framework.make(LARGE)
    reset_peak()
    before = peak()
    total = kernels.dot(x, x)
    after = peak()
    check(total == LARGE, f"dot of {LARGE} ones from {framework.name} is {total}")
    check(after - before < 40e6, f"{framework.name} was copied: the peak memory grew by {after - before} bytes")
    return after - before


def row(kernels, address, framework, all_frameworks):
    """Call the functions with arrays of one framework, and return the cells of its row."""
    x, y = framework.make(6), framework.make(6)
    references = sys.getrefcount(x)
    where = framework.pointer(x)

    z = kernels.saxpy(2.0, x, y)
    check(numpy.asarray(memoryview(z) if isinstance(z, tenon.Tensor) else z).tolist() == [3.0] * 6, f"saxpy gave {z}")
    returned = next((other.name for other in all_frameworks if isinstance(z, other.type)), type(z).__name__)
    check(returned == framework.returns, f"saxpy of {framework.name} gave {returned}")
    check(kernels.dot(x, y) == 6, f"dot with {framework.name}")

    check(address(x) == where, f"the function saw {framework.name} at another address")
    if framework.writable:
        kernels.scale(x, 3.0)
        check(kernels.dot(x, y) == 18 and framework.pointer(x) == where, f"scale with {framework.name}")
        written = "the same memory"
    else:
        try:
            kernels.scale(x, 3.0)
        except ValueError:
            check(kernels.dot(x, y) == 6, f"an immutable {framework.name} was written to")
            written = "refused: immutable"
        else:
            check(False, f"scale accepted an immutable {framework.name}")

    ours = nanoseconds(kernels.dot, x, y)
    by_hand = f"{nanoseconds(framework.by_hand, x, y):,.0f}" if framework.by_hand else "-"
    after = sys.getrefcount(x)
    check(after == references, f"references of {framework.name} went from {references} to {after}")
    return [framework.name, returned, written, f"{references} -> {after}", f"{ours:,.0f}", by_hand]


# ---------------------------------------------------------------------------------------------------------- showing


def print_table(head, rows):
    widths = [max(map(len, column)) for column in zip(head, *rows)]

    def line(cells, code):
        text = [cell.ljust(width) if i < 3 else cell.rjust(width) for i, (cell, width) in enumerate(zip(cells, widths))]
        return "  " + "  ".join(coloured(cell, code[i]) if code[i] else cell for i, cell in enumerate(text)).rstrip()

    print(line(head, [BOLD] * len(head)))
    for cells in rows:
        print(line(cells, [BOLD, 0, GREEN, GREEN, 0, DIM, GREEN]))


def show_mistake(code, names):
    print(coloured(f"  >>> {code}", BOLD))
    try:
        eval(code, names)
    except (TypeError, ValueError) as error:
        text = str(error).replace("\n", "\n  ")
        print(f"  {coloured(type(error).__name__, RED)}: {text}")
    else:
        check(False, f"{code} was accepted")


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    kernels, address, limit = build(folder)
    all_frameworks = frameworks(limit)
    here = [name for name in ("numpy", "torch", "jax") if sys.modules.get(name)]
    versions = [f"{name} {sys.modules[name].__version__}" for name in here]
    progress(f"Python {sys.version.split()[0]}, {', '.join(versions)}")
    progress("calling, with 6 elements and with 400 MB ...")
    rows = [row(kernels, address, framework, all_frameworks) for framework in all_frameworks]
    for framework, cells in zip(all_frameworks, rows):
        cells.append(f"+{growth(kernels, framework) / 1e6:.1f} MB" if memory_is_free(1e9) else "too little memory")

    print("\nOne compiled file, kernels.so, which links against nothing and knows none of these frameworks:\n")
    head = ["x and y", "saxpy(2, x, y) is", "scale(x, 3) writes", "references", "dot, ns", "by hand", "peak of 400 MB"]
    print_table(head, rows)
    print(coloured("\n  by hand: dot in C for that one kind of argument, without any check; six elements\n", DIM))

    print("Two mistakes:\n")
    x, y = numpy.ones(6, "float32"), numpy.ones(6, "float32")
    names = {"kernels": kernels, "numpy": numpy, "x": x, "y": y}
    show_mistake("kernels.saxpy(2.0, x.astype('float64'), y)", names)
    show_mistake("kernels.matmul(numpy.ones((2, 3)), numpy.ones((4, 5)))", names)

    print("\nNext:\n")
    print("  pip install . && python -m tenon new mine    a project of your own, ready to build and to test")
    print("  examples/functions/kernels.c                 the functions of this demo; C++, Rust and Fortran beside it")
    print("  docs/signatures.md                           what a signature can say")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(pathlib.Path(temporary))
