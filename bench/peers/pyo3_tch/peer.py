"""pyo3-tch: only with --all, since its build takes five minutes and a second torch."""
import building

NAME = "pyo3-tch"
KERNELS = None
ONLY_WITH_ALL = True


def build(python, folder):
    torch = building.package(python, "torch")
    if not torch.startswith("2.13"):
        return f"pyo3-tch 0.26 needs exactly torch 2.13, and here is {torch.partition('+')[0]}"
    return "not measured: no extension of it is kept here"


def version(folder):
    return "0.26"


def operations(folder):
    return ()
