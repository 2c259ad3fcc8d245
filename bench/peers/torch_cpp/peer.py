"""A torch C++ extension, built by torch.utils.cpp_extension."""
import pathlib

import peer_builds

NAME = "torch C++ extension"
KERNELS = "kernels.cpp"
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    try:
        from torch.utils import cpp_extension
    except ImportError as problem:
        return str(problem)
    peer_builds.need("ninja", "c++")
    for name in ("crossing", "kernels", "operator"):
        target = folder / name
        target.mkdir(exist_ok=True)
        cpp_extension.load(f"torch_{name}", [str(HERE / f"{name}.cpp")], extra_cflags=["-O3"],
                           build_directory=str(target), is_python_module=name != "operator")
    return folder


def version(folder):
    import torch
    return torch.__version__


def binaries(folder):
    return {"torch C++ extension": folder / "kernels/torch_kernels.so"}


def operations(folder):
    import torch  # its libraries must be loaded first
    crossing, kernels = (peer_builds.load_file(folder / name / f"torch_{name}.so") for name in ("crossing", "kernels"))
    yield "torch C++ extension", {
        "borrow": crossing.borrow, "borrow2": crossing.borrow2, "borrow3": crossing.borrow3,
        "import": crossing.owned, "through": crossing.through, "stream": {"torch": crossing.stream},
        "make torch": crossing.make_torch, "firsts": {"torch": crossing.firsts}, "saxpy": kernels.saxpy, "dot": kernels.dot}
