"""The cases need four devices, which JAX makes only when it starts: test_sharding.py runs them in other processes."""

import os

collect_ignore = [] if "TENON_PARTITIONER" in os.environ else ["cases"]
