"""nanobind, compiled from its one combined source as its build systems do, for speed."""
import pathlib

import peer_builds

NAME = "nanobind"
KERNELS = "kernels.cpp"
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    headers, source = (pathlib.Path(peer_builds.ask(python, f"import nanobind; print(nanobind.{name}_dir())"))
                       for name in ("include", "source"))
    # As its CMake function does for a Python without a lock.
    free = peer_builds.ask(python, "import sysconfig; print(sysconfig.get_config_var('Py_GIL_DISABLED') or 0)") == "1"
    for name in ("crossing", "kernels", "released", "objects"):
        peer_builds.extension(
            python, ["c++", "-std=c++17"], folder / f"{name}.so", [HERE / f"{name}.cpp", source / "nb_combined.cpp"],
            "-O3", "-fno-strict-aliasing", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections",
            "-DNB_COMPACT_ASSERTIONS", *["-DNB_FREE_THREADED"] * free, f"-I{headers}",
            f"-I{headers.parent}/ext/robin_map/include")
    return folder


def version(folder):
    from importlib.metadata import version as of
    return of("nanobind")


def compile_saxpy(python, target):
    """The command that compiles saxpy.cpp, without nanobind's own source."""
    headers = peer_builds.ask(python, "import nanobind; print(nanobind.include_dir())")
    return ["c++", "-std=c++17", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", peer_builds.include(python),
            f"-I{headers}", "-c", HERE / "saxpy.cpp", "-o", target]


def binaries(folder):
    return {"nanobind": folder / "kernels.so"}


def operations(folder):
    crossing, kernels, released = (peer_builds.load_file(folder / f"{name}.so")
                                   for name in ("crossing", "kernels", "released"))
    frameworks = ("numpy", "torch", "jax", "tensorflow", "cupy")
    yield "nanobind", {
        "borrow": crossing.borrow, "borrow2": crossing.borrow2, "borrow3": crossing.borrow3,
        "import": crossing.owned,
        "through": {name: getattr(crossing, f"through_{name}") for name in frameworks},
        "make numpy": crossing.make_numpy, "make torch": crossing.make_torch, "dot": kernels.dot, "echo": kernels.echo,
        "dot, lock released": released.dot,
        "saxpy": {name: getattr(kernels, f"saxpy_{name}") for name in ("numpy", "torch", "jax")}}
