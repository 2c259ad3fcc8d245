"""The bridge's tests. suites.py says what they need, bridge_suite.py what each of them begins with."""

from suites import needs, pytest_terminal_summary  # noqa: F401

if needs("python/tests", "TENON_PROBE"):
    from bridge_suite import nothing_left, pytest_sessionfinish, released  # noqa: F401
else:
    collect_ignore_glob = ["*"]


def pytest_collection_modifyitems(items):
    """Sub-interpreters last: once there was one, PyGILState_Check says yes for ever, and torch's autograd gives up."""
    items.sort(key=lambda item: "test_subinterpreters" in item.nodeid)
