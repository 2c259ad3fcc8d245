"""The counts of the bridge, for the tests of JAX's arrays in and out of it."""

from bridge_suite import nothing_left, pytest_sessionfinish, released  # noqa: F401
