"""The tests of the conformance kit. A sanitizer keeps freed memory, which looks like a leak, and answers a crash itself."""

import os

if "san" in os.environ.get("LD_PRELOAD", ""):
    collect_ignore_glob = ["*"]
