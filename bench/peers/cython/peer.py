"""Cython with typed memoryviews."""
import pathlib

import peer_builds

NAME = "Cython"
KERNELS = "kernels.pyx"
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    peer_builds.ask(python, "import Cython")
    for name in ("crossing", "kernels", "released"):
        source = folder / f"{name}.c"
        peer_builds.run([python, "-m", "cython", "-3", HERE / f"{name}.pyx", "-o", source])
        peer_builds.extension(python, ["cc"], folder / f"{name}.so", [source], "-O3", "-w")
    return folder


def version(folder):
    from importlib.metadata import version as of
    return of("cython")


def binaries(folder):
    return {"Cython": folder / "kernels.so"}


def operations(folder):
    crossing, kernels, released = (peer_builds.load_file(folder / f"{name}.so")
                                   for name in ("crossing", "kernels", "released"))
    yield "Cython", {
        "borrow": crossing.borrow, "borrow3": crossing.borrow3, "import": crossing.borrow, "make numpy": crossing.make,
        "saxpy": {"numpy": kernels.saxpy}, "dot": kernels.dot, "dot, lock released": {"numpy": released.dot}}
