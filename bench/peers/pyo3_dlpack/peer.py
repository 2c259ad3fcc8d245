"""pyo3-dlpack by its name, built by cargo with its release profile."""
import building

NAME = "pyo3-dlpack"
KERNELS = None


def build(python, folder):
    building.cargo(python, "pyo3_dlpack", folder)
    return folder


def version(folder):
    return building.crate_version(folder, "pyo3-dlpack")


def operations(folder):
    crossing = building.load_file(folder / "crossing.so")
    operations = {"borrow": crossing.borrow, "borrow3": crossing.borrow3, "import": crossing.borrow}
    try:
        from torch import from_dlpack
        operations["make torch"] = lambda: from_dlpack(crossing.make())
    except ImportError:
        pass
    yield "pyo3-dlpack", operations
