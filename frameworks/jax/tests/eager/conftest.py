from bridge_suite import nothing_left, pytest_sessionfinish, released  # noqa: F401
from function_fixtures import kernels  # noqa: F401
