"""A small transformer block whose kernels are C functions, compiled and trained with torch.

    cc -O3 -shared -fPIC $(python -m tenon cflags) kernels.c -o kernels.so -lm
    python train_torch.py kernels.so                  # one process, torch.compile
    python train_torch.py kernels.so fsdp             # two processes, the parameters sharded (FSDP2)
"""
import sys
import tempfile

import problem
import torch
import torch.nn.functional as F

import tenon


class Block(torch.nn.Module):
    """Causal attention and a hidden layer. `ops` are the operators of kernels.c."""

    def __init__(self, ops):
        super().__init__()
        self.ops = ops
        for name, value in problem.parameters().items():
            self.register_parameter(name, torch.nn.Parameter(torch.from_numpy(value)))

    def attention(self, x):
        batch, length, width = x.shape
        size = width // problem.HEADS

        def heads(weight):
            return (x @ weight).view(batch, length, problem.HEADS, size).transpose(1, 2).contiguous()

        query, key, value = heads(self.query), heads(self.key), heads(self.value)
        scores = self.ops.rotary(query) @ self.ops.rotary(key).transpose(-1, -2)
        seen = self.ops.softmax(scores, size**-0.5) @ value
        return seen.transpose(1, 2).reshape(batch, length, width) @ self.output

    def forward(self, tokens):
        x = self.embedding[tokens]
        x = x + self.attention(self.ops.rms_norm(x, self.norm_attention))
        x = x + F.relu(self.ops.rms_norm(x, self.norm_hidden) @ self.up) @ self.down
        return self.ops.rms_norm(x, self.norm_logits) @ self.logits


def train(model, part=slice(None)):
    """Return the loss of each step, on a part of each batch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=problem.RATE)
    losses = []
    for tokens in torch.from_numpy(problem.batches())[:, part]:
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def load(path):
    return tenon.torch_ops(tenon.load(path), name="transformer", backward=problem.BACKWARD)


def one_process(path, backend="inductor"):
    model = Block(load(path))
    return train(torch.compile(model, fullgraph=True, backend=backend))


def one_of_two(rank, path, backend, store):
    """Each process has half of each parameter and half of each batch. FSDP2 gathers the parameters for a step, and averages the
    gradients."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}/meeting", rank=rank, world_size=2)
    mesh = dist.init_device_mesh("cpu", (2,))
    model = Block(load(path))
    fully_shard(model, mesh=mesh)
    half = problem.BATCH // 2
    losses = train(torch.compile(model, backend=backend), slice(rank * half, (rank + 1) * half))
    dist.all_reduce(losses)
    if rank == 0:
        torch.save(losses / 2, f"{store}/losses")
    dist.destroy_process_group()


def two_processes(path, backend="inductor"):
    with tempfile.TemporaryDirectory() as store:
        torch.multiprocessing.spawn(one_of_two, (path, backend, store), nprocs=2)
        return torch.load(f"{store}/losses")


def main():
    losses = (two_processes if sys.argv[2:] == ["fsdp"] else one_process)(sys.argv[1])
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    main()
