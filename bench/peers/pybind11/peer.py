"""pybind11, compiled with the flags of its documentation."""
import pathlib

import building

NAME = "pybind11"
KERNELS = "kernels.cpp"
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    headers = building.ask(python, "import pybind11; print(pybind11.get_include())")
    for name in ("crossing", "kernels"):
        building.extension(python, ["c++", "-std=c++17"], folder / f"{name}.so", [HERE / f"{name}.cpp"], "-O3",
                           f"-I{headers}")
    return folder


def version(folder):
    from importlib.metadata import version as of
    return of("pybind11")


def binaries(folder):
    return {"pybind11": folder / "kernels.so"}


def operations(folder):
    crossing, kernels = (building.load_file(folder / f"{name}.so") for name in ("crossing", "kernels"))
    yield "pybind11", {
        "borrow": crossing.borrow, "borrow2": crossing.borrow2, "borrow3": crossing.borrow3,
        "through": crossing.through, "make numpy": crossing.make_numpy, "saxpy": kernels.saxpy, "dot": kernels.dot}
