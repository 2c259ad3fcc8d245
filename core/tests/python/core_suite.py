"""What the core's suite begins and ends with: nothing is left over, and the random cases are counted."""

import harness
import pytest
import tenon_ctypes as T


def pytest_report_header():
    return f"tenon: {T.lib._name}, TENON_SEED={harness.SEED}"


@pytest.fixture(autouse=True)
def nothing_left():
    """Every test gives back what it made."""
    baseline = T.stats()
    yield
    assert T.stats() == baseline


def pytest_terminal_summary(terminalreporter):
    cases = ", ".join(f"{name} {count}" for name, count in sorted(harness.done.items()))
    terminalreporter.write_line(f"random cases: {sum(harness.done.values())} ({cases}), TENON_SEED={harness.SEED}")


def pytest_sessionfinish(session):
    if any(T.stats()) and session.exitstatus == 0:
        print(f"\ntenon_stats is not zero at the end: {T.stats()}")
        session.exitstatus = 1
