"""apache-tvm-ffi, built by its own tvm_ffi.cpp.build and loaded by tvm_ffi.load_module."""
import pathlib
import shutil

import peer_builds

NAME = "tvm-ffi"
KERNELS = ("kernels.cc", "kernels.py")
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    try:
        import tvm_ffi.cpp
    except ImportError as problem:
        return str(problem)
    peer_builds.need("ninja", "c++")
    for name in ("crossing", "kernels"):
        built = tvm_ffi.cpp.build(f"bench_{name}", cpp_files=[str(HERE / f"{name}.cc")], extra_cflags=["-O3"],
                                  build_directory=str(folder / name))
        shutil.copy(built, folder / f"{name}.so")
    return folder


def version(folder):
    from importlib.metadata import version as of
    return of("apache-tvm-ffi")


def binaries(folder):
    return {"tvm-ffi": folder / "kernels.so"}


def operations(folder):
    import numpy
    import tvm_ffi
    crossing = tvm_ffi.load_module(str(folder / "crossing.so"))
    load = peer_builds.load_file(HERE / "kernels.py", "tvm_ffi_kernels").load
    saxpy, saxpy_numpy, dot = load(str(folder / "kernels.so"))
    make = crossing.make
    operations = {
        "borrow": crossing.borrow, "borrow2": crossing.borrow2, "borrow3": crossing.borrow3, "import": crossing.owned,
        "through": crossing.through, "stream": {"torch": crossing.stream}, "dot": dot, "firsts": crossing.firsts,
        "make numpy": lambda: numpy.from_dlpack(make()),
        "saxpy": {"torch": saxpy, "jax": saxpy, "numpy": saxpy_numpy}}
    try:
        from torch import from_dlpack
        operations["make torch"] = lambda: from_dlpack(make())
    except ImportError:
        pass
    yield "tvm-ffi", operations
