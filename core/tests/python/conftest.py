"""The core's tests, by ctypes. suites.py says what they need."""

import suites

if suites.needs("core/tests/python", "TENON_LIBRARY"):
    from core_suite import nothing_left, pytest_report_header, pytest_sessionfinish, pytest_terminal_summary  # noqa: F401
else:
    from suites import pytest_terminal_summary  # noqa: F401

    collect_ignore_glob = ["*"]
