"""pyo3-dlpack, built by cargo with its release profile."""
import pathlib
import shutil
import sys

import peer_builds

NAME = "pyo3-dlpack"
KERNELS = ("kernels/src/lib.rs", "kernels.py")
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    peer_builds.cargo(python, "pyo3_dlpack", folder)
    shutil.copy(folder / "target/release/libpyo3_dlpack_kernels.so", folder / "pyo3_dlpack_kernels.so")
    return folder


def version(folder):
    return peer_builds.crate_version(folder, "pyo3-dlpack")


def binaries(folder):
    return {"pyo3-dlpack": folder / "pyo3_dlpack_kernels.so"}


def operations(folder):
    crossing = peer_builds.load_file(folder / "crossing.so")
    operations = {"borrow": crossing.borrow, "borrow3": crossing.borrow3, "import": crossing.borrow,
                  "dot, lock released": crossing.dot_released}
    sys.path.insert(0, str(folder))
    try:
        kernels = peer_builds.load_file(HERE / "kernels.py", "pyo3_dlpack_python")  # imports torch
        operations |= {"make torch": lambda: kernels.torch.from_dlpack(crossing.make()), "dot": kernels.dot,
                       "saxpy": {"numpy": kernels.saxpy_numpy, "torch": kernels.saxpy_torch}}
    except ImportError:
        pass
    yield "pyo3-dlpack", operations
