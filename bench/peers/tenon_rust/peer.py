"""Tenon in Rust: the library and the PyO3 extension of the crates' own tests, built by cargo with link-time optimisation, as the peers."""
import os
import shutil

import peer_builds

NAME = "tenon in Rust"
KERNELS = None  # the group of Rust measures its own functions
SECONDS = 600
RUST = peer_builds.ROOT / "rust"


def build(python, folder):
    peer_builds.need("cargo")
    target = folder / "target"
    environment = {**os.environ, "PYO3_PYTHON": str(python), "PYO3_BUILD_EXTENSION_MODULE": "1", "CARGO_TARGET_DIR": str(target)}
    command = ["cargo", "build", "--quiet", "--profile", "lto", "--manifest-path", RUST / "Cargo.toml"]
    peer_builds.run([*command, "-p", "rust-kernels", "-p", "rust-extension"], env=environment)
    for name in ("rust_kernels", "rust_extension"):
        shutil.copy(target / f"lto/lib{name}.so", folder / f"{name}.so")
    return folder


def version(folder):
    return (RUST / "Cargo.toml").read_text().split('version = "')[1].split('"')[0]


def operations(folder):
    tenon = peer_builds.peer("tenon").package(folder.parent / "tenon")
    kernels = tenon.load(folder / "rust_kernels.so")
    yield "tenon in Rust", {"rust saxpy": kernels.saxpy, "rust dot": kernels.dot}
    extension = peer_builds.load_file(folder / "rust_extension.so")
    yield "tenon in PyO3", {"rust borrow": extension.touch, "rust dot in PyO3": extension.dot,
                            "rust make": lambda: extension.make_numpy(6)}
    yield "empty PyO3 call", {"rust empty": extension.nothing}
