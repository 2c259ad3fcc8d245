"""The library in rust/tests/library, which `cargo build --release` makes."""

import os
import sys

import pytest

if os.environ.get("TENON_PACKAGE"):
    sys.path.insert(0, os.environ["TENON_PACKAGE"])


def pytest_ignore_collect(collection_path):
    return None if os.environ.get("TENON_RUST_LIBRARY") else True


@pytest.fixture(scope="session")
def kernels():
    import tenon

    return tenon.load(os.environ["TENON_RUST_LIBRARY"])
