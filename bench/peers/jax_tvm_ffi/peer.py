"""jax-tvm-ffi: a function of tvm-ffi, registered as an operator of JAX."""
import pathlib
import shutil

import peer_builds

NAME = "jax-tvm-ffi"
KERNELS = None  # saxpy only
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    try:
        import jax_tvm_ffi  # noqa: F401
        import tvm_ffi.cpp
    except ImportError as problem:
        return str(problem)
    peer_builds.need("ninja", "c++")
    built = tvm_ffi.cpp.build("bench_jax", cpp_files=[str(HERE / "kernels.cc")], extra_cflags=["-O3"],
                              build_directory=str(folder / "kernels"))
    shutil.copy(built, folder / "kernels.so")
    return folder


def version(folder):
    from importlib.metadata import version as of
    return of("jax-tvm-ffi")


def operations(folder):
    """None: it has no calls outside of JAX's programs. The group "jax operators" calls saxpy()."""
    return ()


def saxpy(folder):
    """A function for traced code."""
    import jax
    import jax_tvm_ffi
    import tvm_ffi
    module = tvm_ffi.load_module(str(folder / "kernels.so"))
    jax_tvm_ffi.register_ffi_target("bench.saxpy", module.saxpy, ["attrs.a", "args", "rets"], platform="cpu")

    def call(a, x, y):
        return jax.ffi.ffi_call("bench.saxpy", jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y, a=a)

    return call
