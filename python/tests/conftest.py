"""The bridge's tests. Their requirements are in suites.py, and their setup is in bridge_suite.py."""

from suites import needs, pytest_terminal_summary  # noqa: F401

if needs("python/tests", "TENON_PROBE"):
    from bridge_suite import nothing_left, pytest_sessionfinish, released  # noqa: F401
else:
    collect_ignore_glob = ["*"]


def pytest_collection_modifyitems(items):
    """Sub-interpreters last: after the first one, PyGILState_Check always returns 1, and torch's autograd fails."""
    items.sort(key=lambda item: "test_subinterpreters" in item.nodeid)
