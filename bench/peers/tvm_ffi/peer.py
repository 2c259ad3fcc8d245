"""apache-tvm-ffi, built by its own tvm_ffi.cpp.build and loaded by tvm_ffi.load_module."""
import pathlib
import shutil

import building

NAME = "tvm-ffi"
KERNELS = "kernels.cc"
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    try:
        import tvm_ffi.cpp
    except ImportError as problem:
        return str(problem)
    building.need("ninja", "c++")
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
    import tvm_ffi
    crossing, kernels = (tvm_ffi.load_module(str(folder / f"{name}.so")) for name in ("crossing", "kernels"))
    from numpy import empty_like
    saxpy_into = kernels.saxpy_into

    def saxpy_numpy(a, x, y):
        z = empty_like(x)
        saxpy_into(a, x, y, z)
        return z

    # A function looked up once: `module.name` would look it up on each call.
    yield "tvm-ffi", {
        "borrow": crossing.borrow, "borrow2": crossing.borrow2, "borrow3": crossing.borrow3, "import": crossing.owned,
        "through": crossing.through, "dot": kernels.dot,
        "saxpy": {"torch": kernels.saxpy, "jax": kernels.saxpy, "numpy": saxpy_numpy}}
