"""cffi in its API mode (a compiled module), with from_buffer, which its documentation recommends over addresses."""
import pathlib
import sys

import building

NAME = "cffi"
KERNELS = ("../ctypes/kernels.c", "kernels.py")
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    try:
        import cffi
    except ImportError as problem:
        return str(problem)
    ffi = cffi.FFI()
    ffi.cdef("void look(const void *data); void look3(const void *a, const void *b, const void *c);"
             "void saxpy(float a, const float *x, const float *y, float *z, size_t n);"
             "double dot(const float *x, const float *y, size_t n);")
    ffi.set_source("bench_cffi", (HERE.parent / "ctypes/kernels.c").read_text(), extra_compile_args=["-O3", "-DNDEBUG"])
    ffi.compile(tmpdir=str(folder), verbose=False)
    return folder


def version(folder):
    import cffi
    return cffi.__version__


def binaries(folder):
    return {"cffi": next(folder.glob("bench_cffi*.so"))}


def operations(folder):
    sys.path.insert(0, str(folder))
    import bench_cffi
    ffi, look, look3 = bench_cffi.ffi, bench_cffi.lib.look, bench_cffi.lib.look3
    buffer, cast = ffi.from_buffer, ffi.cast
    kernels = building.load_file(HERE / "kernels.py", "cffi_kernels")
    yield "cffi", {
        "borrow": {"numpy": lambda a: look(buffer(a)), "jax": lambda a: look(buffer(a)),
                   "torch": lambda a: look(cast("void *", a.data_ptr()))},
        "borrow3": {"numpy": lambda a, b, c: look3(buffer(a), buffer(b), buffer(c)),
                    "jax": lambda a, b, c: look3(buffer(a), buffer(b), buffer(c)),
                    "torch": lambda a, b, c: look3(cast("void *", a.data_ptr()), cast("void *", b.data_ptr()),
                                                   cast("void *", c.data_ptr()))},
        "saxpy": {"numpy": kernels.saxpy}, "dot": {"numpy": kernels.dot}}
