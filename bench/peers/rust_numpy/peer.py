"""rust-numpy, built by cargo with its release profile."""
import peer_builds

NAME = "rust-numpy"
KERNELS = None  # the group of Rust measures its own functions


def build(python, folder):
    peer_builds.cargo(python, "rust_numpy", folder)
    return folder


def version(folder):
    return peer_builds.crate_version(folder, "numpy")


def operations(folder):
    crossing = peer_builds.load_file(folder / "crossing.so")
    yield "rust-numpy", {"rust borrow": {"numpy": crossing.touch}, "rust dot in PyO3": {"numpy": crossing.dot},
                         "rust make": {"numpy": lambda: crossing.make(6)}}
