"""The setup of every suite of the bridge: it finds the built extensions, hides the packages that this run does
without, and checks that every test leaves the counts unchanged.

TENON_PROBE names the folder with the built tenon_probe, TENON_PACKAGE the one with `tenon` if that is not the
installed one, TENON_WITHOUT the packages that this run does without, as if they were not installed."""

import gc
import os
import signal
import sys

import pytest

for variable in ("TENON_PROBE", "TENON_PACKAGE"):
    if os.environ.get(variable):
        sys.path.insert(0, os.environ[variable])
for name in os.environ.get("TENON_WITHOUT", "").split():
    sys.modules[name] = None

# A shell ignores SIGINT in what it runs in the background. Tests that interrupt a process would wait forever.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import tenon_probe  # noqa: E402

try:
    import hypothesis

    # No deadlines: a test never asserts a time. `make test` uses the same cases each time, `make test-all` random ones.
    by_chance = bool(os.environ.get("TENON_CHANCE"))
    hypothesis.settings.register_profile("tenon", deadline=None, derandomize=not by_chance)
    hypothesis.settings.load_profile("tenon")
except ImportError:
    pass


def settle():
    """Release what is only waiting: garbage, and releases of other threads (a call of the bridge drains those)."""
    gc.collect()
    tenon_probe.borrow(b"")


@pytest.fixture(autouse=True)
def nothing_left():
    """Assert that the numbers of tensors, exports, bytes, deferred releases and leaks are as before the test."""
    gc.freeze()  # a framework makes hundreds of thousands of objects, which need not be traversed by each collection
    baseline = tenon_probe.stats()
    yield
    if tenon_probe.stats() != baseline:
        settle()
    assert tenon_probe.stats() == baseline


@pytest.fixture
def released():
    """A function that returns how often the release function of probe.new's memory has run in this test."""
    before = tenon_probe.released()

    def since():
        settle()
        return tenon_probe.released() - before

    return since


def pytest_sessionfinish():
    gc.unfreeze()  # the interpreter's last collection traverses everything
