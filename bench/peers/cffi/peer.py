"""cffi in its API mode (a compiled module), with from_buffer, which its documentation recommends over addresses."""
import pathlib
import sys

import peer_builds

NAME = "cffi"
KERNELS = ("../ctypes/kernels.c", "kernels.h", "kernels.py")
MODULES = {"bench_cffi": "kernels", "bench_cffi_look": "look"}  # module: its C file among those of ctypes
LOOK = "void look(const void *a); void look3(const void *a, const void *b, const void *c);"
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    try:
        import cffi
    except ImportError as problem:
        return str(problem)
    for module, name in MODULES.items():
        ffi = cffi.FFI()
        ffi.cdef((HERE / "kernels.h").read_text() if name == "kernels" else LOOK)
        ffi.set_source(module, (HERE.parent / f"ctypes/{name}.c").read_text(), extra_compile_args=["-O3", "-DNDEBUG"])
        ffi.compile(tmpdir=str(folder), verbose=False)
    return folder


def version(folder):
    import cffi
    return cffi.__version__


def binaries(folder):
    return {"cffi": next(folder.glob("bench_cffi.*.so"))}


def operations(folder):
    sys.path.insert(0, str(folder))
    from bench_cffi_look import ffi, lib
    look, look3 = lib.look, lib.look3
    buffer, cast = ffi.from_buffer, ffi.cast
    kernels = peer_builds.load_file(HERE / "kernels.py", "cffi_kernels")
    have_buffers = ("numpy", "jax", "tensorflow", "tensor")
    yield "cffi", {
        "borrow": {**dict.fromkeys(have_buffers, lambda a: look(buffer(a))),
                   "torch": lambda a: look(cast("void *", a.data_ptr()))},
        "borrow3": {**dict.fromkeys(have_buffers, lambda a, b, c: look3(buffer(a), buffer(b), buffer(c))),
                    "torch": lambda a, b, c: look3(cast("void *", a.data_ptr()), cast("void *", b.data_ptr()),
                                                   cast("void *", c.data_ptr()))},
        "saxpy": {"numpy": kernels.saxpy}, "dot": {"numpy": kernels.dot}}
