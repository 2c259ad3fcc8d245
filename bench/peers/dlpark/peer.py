"""dlpark by its name, built by cargo with its release profile."""
import building

NAME = "dlpark"
KERNELS = None


def build(python, folder):
    building.cargo(python, "dlpark", folder)
    return folder


def version(folder):
    return building.crate_version(folder, "dlpark")


def operations(folder):
    crossing = building.load_file(folder / "crossing.so")
    yield "dlpark", {"borrow": crossing.borrow, "borrow3": crossing.borrow3, "import": crossing.borrow}
