"""torch's tests, by what they use. core/tests/python/suites.py says which variable names what was built:

exchange/    tensors in and out of the bridge, by tenon_probe
functions/   functions that know torch, by the package
operators/   tenon.torch_ops, by the package
object/      tenon/torch.h: the same tensor object, and torch's operators from C, by tenon_torch_probe

torch is the one of this interpreter. Tests that compare several frameworks are in python/tests."""

import contextlib
import importlib.util
import os

from suites import left_out, needs, pytest_terminal_summary  # noqa: F401

NEEDS = {
    "exchange": "TENON_PROBE",
    "functions": "TENON_PROBE",
    "operators": "TENON_PROBE",
    "object": "TENON_TORCH_PROBE",
}

if "torch" in os.environ.get("TENON_WITHOUT", "").split() or not importlib.util.find_spec("torch"):
    collect_ignore_glob = ["*"]
    left_out.append("left out: frameworks/torch/tests, since there is no torch in this run")
else:
    collect_ignore = [name for name in NEEDS if not needs(f"frameworks/torch/tests/{name}", NEEDS[name])]
    # TensorFlow and Triton, which torch.compile imports, each have a copy of LLVM. `import tensorflow, triton` aborts the
    # process, `import triton, tensorflow` does not, so Triton is imported before the first test of any suite in this run.
    with contextlib.suppress(ImportError):
        importlib.import_module("triton")
