from function_fixtures import kernels, lies  # noqa: F401
