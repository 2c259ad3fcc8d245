"""tenon.torch_ops in torch's DistributedDataParallel, with two processes and gloo."""

import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from building import PACKAGE, ROOT, build  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("ddp_cases.py")
LIMIT = 200  # seconds: nothing may hang

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="this torch has no gloo"
)


@pytest.mark.parametrize("case, printed", [("training", ["done\n"] * 2), ("reductions", ["done\n"] * 2), ("death", ["done\n", ""])])
def test_two_processes(tmp_path, case, printed):
    library = build(ROOT / "examples/torch_ops/kernels.c", "-lm")
    paths = [str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), str(library), case, str(tmp_path / "meeting")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    processes = [subprocess.Popen([*command, str(rank)], **pipes) for rank in range(2)]
    try:
        outputs = [process.communicate(timeout=LIMIT) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [out for out, _ in outputs] == printed, outputs
    assert [process.returncode for process in processes] == [0, 0]
