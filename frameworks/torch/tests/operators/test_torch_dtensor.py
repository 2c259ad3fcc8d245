"""Operators on DTensors: what the signature says about sharding, in 2 and 4 processes (dtensor_cases.py)."""

import os
import subprocess
import sys

import pytest
from operators import HERE, compiled_library, tenon, torch

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)
pytest.importorskip("torch.distributed.tensor")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compiled_library(tmp_path_factory.mktemp("dtensor"), HERE / "torch_transforms.c", "-lm")


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes(library, tmp_path, size):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "dtensor_cases.py")]
    ranks = [
        subprocess.Popen([*command, str(rank), str(size), str(tmp_path), str(library)], env=env, stdout=-1, stderr=-2, text=True)
        for rank in range(size)
    ]
    try:
        outputs = [process.communicate(timeout=500)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    for rank, output in enumerate(outputs):
        assert output.rstrip().endswith(f"done {rank}"), output


@pytest.mark.parametrize(("sharding", "error"), [("gather", ValueError), (1, TypeError)])
def test_wrong_mode(library, sharding, error):
    with pytest.raises(error, match="argument 'sharding': expected"):
        tenon.torch_ops(tenon.load(library), name="tenon_dtensor_wrong", sharding=sharding)
