"""What holds for every framework that this build has, and for a build without one of them. The package alone is used, and of
the frameworks only those that are installed."""

import os
import sys

from suites import needs, pytest_terminal_summary  # noqa: F401

if needs("frameworks/tests", "TENON_PROBE"):
    if os.environ.get("TENON_PACKAGE"):
        sys.path.insert(0, os.environ["TENON_PACKAGE"])
else:
    collect_ignore_glob = ["*"]
