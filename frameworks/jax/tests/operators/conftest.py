from bridge_suite import nothing_left, pytest_sessionfinish, released  # noqa: F401
