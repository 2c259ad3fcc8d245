"""pyo3-tch, built by cargo with its release profile, in the environment of requirements.txt."""
import os
import pathlib

import peer_builds

NAME = "pyo3-tch"
KERNELS = None
SECONDS = 1800  # it compiles libtorch's whole interface


def build(python, folder):
    torch = peer_builds.package(python, "torch")
    if not torch.startswith("2.13."):
        return f"it needs exactly torch 2.13, and here is {torch}"
    # torch-sys asks the first python3 on the PATH for the folder of torch.
    path = f"{pathlib.Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    peer_builds.cargo(python, "pyo3_tch", folder, PATH=path, LIBTORCH_USE_PYTORCH="1")
    return folder


def version(folder):
    return peer_builds.crate_version(folder, "pyo3-tch")


def operations(folder):
    import torch  # its libraries must be loaded first
    crossing = peer_builds.load_file(folder / "crossing.so")
    yield "pyo3-tch", {"import": crossing.owned, "through": crossing.through}
