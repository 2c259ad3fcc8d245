"""pybind11, compiled as its CMake function does it: for speed, with link-time optimisation."""
import pathlib

import peer_builds

NAME = "pybind11"
KERNELS = "kernels.cpp"
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    headers = peer_builds.ask(python, "import pybind11; print(pybind11.get_include())")
    for name in ("crossing", "kernels", "more"):
        peer_builds.extension(python, ["c++", "-std=c++17"], folder / f"{name}.so", [HERE / f"{name}.cpp"], "-O3",
                           "-flto", f"-I{headers}")
    return folder


def version(folder):
    from importlib.metadata import version as of
    return of("pybind11")


def binaries(folder):
    return {"pybind11": folder / "kernels.so"}


def operations(folder):
    crossing, kernels, more = (peer_builds.load_file(folder / f"{name}.so") for name in ("crossing", "kernels", "more"))

    def by_buffer(own, buffer):
        return {"numpy": own, "torch": own, **dict.fromkeys(("jax", "tensorflow", "tensor"), buffer)}

    yield "pybind11", {
        "borrow": by_buffer(crossing.borrow, crossing.borrow_buffer), "borrow2": {"numpy": crossing.borrow2},
        "borrow3": by_buffer(crossing.borrow3, crossing.borrow3_buffer),
        "import": by_buffer(crossing.owned, crossing.borrow_buffer), "through": crossing.through,
        "make numpy": crossing.make_numpy, "saxpy": {"numpy": kernels.saxpy},
        "dot": {"numpy": kernels.dot, "torch": more.dot_converting, "jax": more.dot_converting},
        "dot, lock released": {"numpy": more.dot_released}}
