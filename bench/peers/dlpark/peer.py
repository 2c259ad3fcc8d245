"""dlpark, built by cargo with its release profile."""
import functools
import pathlib
import shutil
import sys

import peer_builds

NAME = "dlpark"
KERNELS = ("kernels/src/lib.rs", "kernels.py")
HERE = pathlib.Path(__file__).resolve().parent
TABLES = ("torch", "tensor")  # producers with a C exchange table
OTHERS = ("numpy", "jax", "tensorflow", "cupy")


def build(python, folder):
    peer_builds.cargo(python, "dlpark", folder)
    shutil.copy(folder / "target/release/libdlpark_kernels.so", folder / "dlpark_kernels.so")
    return folder


def version(folder):
    return peer_builds.crate_version(folder, "dlpark")


def binaries(folder):
    return {"dlpark": folder / "dlpark_kernels.so"}


def operations(folder):
    crossing = peer_builds.load_file(folder / "crossing.so")
    sys.path.insert(0, str(folder))
    kernels = peer_builds.load_file(HERE / "kernels.py", "dlpark_python")

    def by_table(view, owned):
        return {**dict.fromkeys(TABLES, view), **dict.fromkeys(OTHERS, owned)}

    operations = {
        "borrow": by_table(crossing.borrow, crossing.owned), "borrow2": by_table(crossing.borrow2, crossing.owned2),
        "borrow3": by_table(crossing.borrow3, crossing.owned3), "import": crossing.owned,
        "through": dict.fromkeys(TABLES, crossing.through), "stream": {"torch": crossing.borrow},
        "saxpy": {"numpy": kernels.saxpy_numpy, "torch": kernels.saxpy},
        "dot": {"numpy": kernels.dot, "jax": kernels.dot, "torch": kernels.dot_view},
        "dot, lock released": crossing.dot_released}
    try:
        import torch
        operations["make torch"] = functools.partial(crossing.make, torch.empty(0))
    except ImportError:
        pass
    yield "dlpark", operations
