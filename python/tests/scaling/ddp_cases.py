"""A program of two processes of torch.distributed: python ddp_cases.py LIBRARY CASE FILE RANK"""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tenon

ROWS, COLUMNS = 8, 16


class Model(torch.nn.Module):
    def __init__(self, ops):
        super().__init__()
        self.norm, self.weight = ops.rms_norm, torch.nn.Parameter(torch.linspace(0.5, 2, COLUMNS))
        self.last = torch.nn.Linear(COLUMNS, 1)

    def forward(self, x):
        return self.last(self.norm(x, self.weight))


def gradients(model, x):
    model(x).square().mean().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def training(ops, rank):
    """The gradients are those of the whole batch in one process."""
    torch.manual_seed(0)
    batch = torch.randn(ROWS, COLUMNS)
    alone, model = Model(ops), Model(ops)
    model.load_state_dict(alone.state_dict())
    both = DistributedDataParallel(model)
    half = batch[rank * ROWS // 2 : (rank + 1) * ROWS // 2]
    for mine, whole in zip(gradients(both, half), gradients(alone, batch)):
        torch.testing.assert_close(mine, whole)


def reductions(ops, rank):
    """torch.distributed works on the memory of a kernel's result."""
    made = ops.rms_norm(torch.full((2, COLUMNS), float(rank + 1)), None)
    before, place = made.clone(), made.data_ptr()
    dist.all_reduce(made)
    assert made.data_ptr() == place
    torch.testing.assert_close(made, 2 * before)  # a row of equal numbers is normalised to ones


def death(ops, rank):
    """The other process gets torch's exception."""
    if rank == 1:
        sys.exit()
    try:
        dist.all_reduce(ops.rms_norm(torch.ones(2, COLUMNS), None))
    except RuntimeError:
        return
    raise AssertionError("all_reduce() worked with one process")


if __name__ == "__main__":
    library, case, file, rank = sys.argv[1:]
    dist.init_process_group("gloo", f"file://{file}", timedelta(seconds=100), world_size=2, rank=int(rank))
    globals()[case](tenon.torch_ops(tenon.load(library), name="ddp", backward={"rms_norm": "rms_norm_grad"}), int(rank))
    print("done")
