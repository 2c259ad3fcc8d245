"""pyo3-tch: named here so that its absence is shown with the reason."""
import building

NAME = "pyo3-tch"
KERNELS = None


def build(python, folder):
    torch = building.package(python, "torch").partition("+")[0]
    return f"pyo3-tch 0.26 needs exactly torch 2.13, and the other rows are measured with torch {torch}"


def version(folder):
    return "0.26"


def operations(folder):
    return ()
